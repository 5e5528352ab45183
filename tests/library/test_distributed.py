"""Several processes make the same run as one: the same steps, decisions and counts, up to the order of sums."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pmd_corpora.writing import write_corpus
from pmd_lite import processes as launching
from pmd_lite.api import load_corpus, train
from pmd_lite.config import preset
from pmd_lite.errors import Interrupted, UserError
from pmd_lite.processes import launch
from pmd_lite.run import Run
from pmd_lite.training import distributed, gradients
from pmd_lite.training.distributed import ALONE, Group, divided
from pmd_lite.training.gradients import SummedGradients
from pmd_lite.training.step import check_machine
from tests.conftest import SHORT, stopped_at
from tests.ranks import (
    heard,
    rank_1_dies,
    rank_1_hangs,
    sums_gradients,
    tells_what_it_translates,
    tells_where_it_listens,
    waits,
)

WORLD: dict[str, Any] = {
    "head": 40, "minimum": 10, "held": 4, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1,
    "pairs": ["fra-eng", "deu-eng", "tur-eng"],
}  # fmt: skip
# A large eps: else Adam makes whole steps of rounding noise in gradients that are zero.
WORDS: dict[str, Any] = {
    **SHORT, "steps": 8, "accumulate": 5, "tokens": 60, "eps": 1e-3, "device": "cpu", "show": "off", "score": False,
}  # fmt: skip

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="gloo's ranks are started on Linux and macOS here"),
    pytest.mark.usefixtures("forked"),
]


def alone(out: Path, method: str = "auto-pmd", **more: Any) -> Run:
    return train(load_corpus("toy", **WORLD), method, "toy", out=out, **{**WORDS, **more})


def together(out: Path, processes: int, method: str = "auto-pmd", **more: Any) -> Run:
    words = {**WORDS, **more}
    return launch("toy", method, "toy", processes=processes, corpus_options=WORLD, out=out, **words)


Whole = Callable[..., Run]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """whole("bi-pmd", steps=4) -> the undisturbed run of one process, which no test changes; each is trained once."""
    place, made = tmp_path_factory.mktemp("whole"), dict[str, Run]()

    def trained(method: str = "auto-pmd", **more: Any) -> Run:
        key = f"{method} {sorted(more.items())}"
        if key not in made:
            made[key] = alone(place / f"run{len(made)}", method, **more)
        return made[key]

    return trained


def known(column: list[float | None]) -> dict[int, float]:
    """Without the pairs that were not drawn."""
    return {i: x for i, x in enumerate(column) if x is not None}


def same_run(a: Run, b: Run) -> None:
    """Check that weights, losses and decisions are close, and that counts are equal."""
    for student in range(len(a.labels)):
        ours, theirs = (run.dir.load_weights(student, "latest") for run in (a, b))
        for name in ours:
            torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-5)
    one, two = a.dir.metrics(), b.dir.metrics()
    assert [(m["event"], m["step"], m["student"]) for m in one] == [(m["event"], m["step"], m["student"]) for m in two]
    for x, y in zip(one, two, strict=True):
        assert x.keys() == y.keys()
        assert x.get("alpha") == pytest.approx(y.get("alpha"), abs=1e-12)
        if "alpha" not in x:  # what a sampler decided, and from what
            for name in x.keys() - {"event", "seconds"}:
                assert x[name] == pytest.approx(y[name], rel=1e-3), name
        if x["event"] == "eval":
            assert x["dev_loss"] == pytest.approx(y["dev_loss"], rel=1e-4)
            assert known(x["train_kd"]) == pytest.approx(known(y["train_kd"]), rel=1e-3)
            assert x["p"] == pytest.approx(y["p"], rel=1e-4)
            assert (x["tokens"], x["multiply_adds"], x["visits"]) == (y["tokens"], y["multiply_adds"], y["visits"])


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_make_the_run_of_one(
    tmp_path: Path, processes: int, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    run = together(tmp_path / "many", processes, resume="never")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers, "Ctrl-C stays Ctrl-C"
    assert not list((tmp_path / "temporary").iterdir()), "the launcher leaves nothing behind"
    assert run.dir.finished
    assert any(m["event"] == "search" for m in run.dir.metrics()), "the searches, too, are shared work"
    same_run(whole(), run)


@pytest.mark.slow
def test_ctrl_c_reaches_every_process_and_the_update_in_hand_is_saved(tmp_path: Path) -> None:
    """Each gets the signal twice, as on a terminal: from it and from the launcher. All save; none shows a traceback."""
    text = "train -m bi-pmd --processes 2 --steps 3000 --eval-every 4 --accumulate 2 --tokens 60 --show off"
    small = "--d-model 8 --heads 2 --ffn 8 --device cpu"
    corpus = write_corpus(load_corpus("toy", **WORLD), tmp_path / "corpus")
    words = [*text.split(), *small.split(), "-c", str(corpus), "--out", str(tmp_path / "r")]
    child = subprocess.Popen([sys.executable, "-m", "pmd_lite", *words], stderr=subprocess.PIPE, text=True,
                             start_new_session=True)  # fmt: skip
    latest = tmp_path / "r" / "checkpoint" / "LATEST"
    try:
        for _ in range(6000):
            if latest.exists() or child.poll() is not None:
                break
            time.sleep(0.05)
        assert child.poll() is None, child.communicate()[1]
        first = latest.read_text()
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=120)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert "pmd_lite: stopped by SIGINT; what was saved is whole. Give the same command again to continue" in err
    assert first < latest.read_text() < "step-00003000", "the update in hand was finished, and saved"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not send itself a signal that can be caught")
def test_a_signal_while_the_processes_start_ends_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the first process and the second: one that has begun would wait for the other."""
    real, started = launching.start_processes, []

    def interrupted(*args: Any, **words: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        started.append(real(*args, **words))
        return started[0]

    monkeypatch.setattr(launching, "one_rank", waits)
    monkeypatch.setattr(launching, "start_processes", interrupted)
    with pytest.raises(Interrupted, match="stopped by SIGTERM") as stopped:
        together(tmp_path / "run", 2)
    assert stopped.value.number == signal.SIGTERM
    assert [process.exitcode for process in started[0].processes] == [-signal.SIGTERM, -signal.SIGTERM]


@pytest.mark.slow
def test_a_run_that_others_prepare_trains_each_student_in_a_process(tmp_path: Path, whole: Whole) -> None:
    """chi-IBR needs a tau=1 run first: one student, whose micro-batches two processes share."""
    words: dict[str, Any] = {"turns": "together", "samplers": ["chi-ibr", "tau=1"]}
    run = together(tmp_path / "two", 2, "bi-pmd", **words)
    one = whole("bi-pmd", **words)
    same_run(one, run)
    same_run(*(Run(each.path / "auxiliary" / "plain") for each in (one, run)))


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path, whole: Whole) -> None:
    """Begun by one, continued by four, with a sampler that learns from the losses of every micro-batch."""
    method, out = "multiuat", tmp_path / "parts"
    with stopped_at(5):
        alone(out, method)
    assert not Run(out).dir.finished
    same_run(whole(method), together(out, 4, method))


@pytest.mark.slow
def test_a_process_that_dies_is_named_and_costs_nothing_saved(
    tmp_path: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(UserError, match=r"process 1 of 2 ended:.*SIGKILL.*continues"):
        patched.setattr(launching, "one_rank", rank_1_dies)
        together(tmp_path / "run", 2)
    run = Run(tmp_path / "run")
    assert not run.dir.finished
    loaded = run.dir.load_checkpoint()
    assert loaded is not None
    assert loaded[1]["step"] == 4
    same_run(whole(), alone(tmp_path / "run"))


def batches(run: Run) -> tuple[int, int]:
    return run.config.train.accumulate, run.config.train.tokens


@pytest.mark.slow
def test_an_update_is_divided_among_more_processes_than_it_has_micro_batches(
    tmp_path: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The update is divided once, when the run begins; config.json holds the values, also for every resumed run."""
    words: dict[str, Any] = {"accumulate": 1, "tokens": 120}
    with monkeypatch.context() as patched, pytest.raises(UserError, match="process 1 of 2 ended"):
        patched.setattr(launching, "one_rank", rank_1_dies)
        together(tmp_path / "run", 2, **words)
    assert "note: updates are of 2 x 60 tokens, not 1 x 120: one micro-batch for each of 2 processes" in (
        (tmp_path / "run.err").read_text()
    )
    assert Run(tmp_path / "run").dir.config["asked"] == words
    run = alone(tmp_path / "run", **words)  # the same request, by one process
    assert "2 x 60 tokens, not 1 x 120: as this run was begun" in capsys.readouterr().err
    assert batches(run) == (2, 60)
    same_run(whole(accumulate=2, tokens=60), run)
    assert batches(alone(tmp_path / "run", accumulate=2, tokens=60)) == (2, 60), "as its config.json has them"
    with pytest.raises(UserError, match=r"config.train.tokens differ"):
        alone(tmp_path / "run", accumulate=1, tokens=140)


@pytest.mark.slow
def test_a_run_begun_by_one_process_keeps_its_batches_and_leaves_others_idle(
    tmp_path: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[str, Any] = {"accumulate": 1, "tokens": 120}
    out = tmp_path / "parts"
    with stopped_at(5):
        alone(out, **words)
    monkeypatch.setattr(launching, "one_rank", heard)
    run = together(out, 2, **words)
    assert "note: 1 of 2 processes have no share of an update" in out.with_suffix(".err").read_text()
    assert (batches(run), run.dir.config["asked"]) == ((1, 120), None)
    same_run(whole(**words), run)


@pytest.mark.slow
def test_processes_that_train_a_student_each_divide_only_what_comes_before(tmp_path: Path) -> None:
    """turns=together keeps its rule; chi-IBR's tau=1 run, which has no second student, is divided."""
    words: dict[str, Any] = {"samplers": ["chi-ibr", "tau=1"], "turns": "together", "accumulate": 1}
    run = together(tmp_path / "run", 2, "bi-pmd", **words)
    assert batches(run) == (1, 60)
    assert batches(Run(tmp_path / "run" / "auxiliary" / "plain")) == (2, 30)


@pytest.mark.slow
def test_a_refused_request_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "one_rank", heard)
    with pytest.raises(UserError, match=r"^turns=together: 2 processes for 3 students"):
        together(tmp_path / "run", 2, "bi-pmd", samplers=["tau=1", "tau=2", "tau=5"], turns="together")
    assert (tmp_path / "run.err").read_text() == ""
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nobody_else_can_reach_the_ranks_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "one_rank", tells_where_it_listens)
    with pytest.raises(UserError, match="2 processes for 3 students"):
        together(tmp_path / "run", 2, "bi-pmd", samplers=["tau=1", "tau=2", "tau=5"], turns="together",
                 launcher=os.getpid())  # fmt: skip
    for rank in (0, 1):
        found = (tmp_path / f"run.{rank}.listens").read_text(encoding="utf-8").split()
        assert found and set(found) <= {"0100007F", "00000000000000000000000001000000"}, "127.0.0.1 and ::1"


@given(st.integers(16, 9000), st.integers(1, 20), st.integers(1, 40))
def test_a_divided_update_has_its_tokens_and_a_micro_batch_for_each(tokens: int, accumulate: int, ranks: int) -> None:
    config = preset("toy", tokens=tokens, accumulate=accumulate)
    if tokens * accumulate < 16 * ranks and ranks > accumulate:
        with pytest.raises(UserError, match=f"Start at most {tokens * accumulate // 16}, or raise tokens"):
            divided(config, ranks)
        return
    found = divided(config, ranks)
    if ranks <= accumulate:
        assert found == config
    assert found.train.accumulate == max(accumulate, ranks)
    assert 0 <= tokens * accumulate - found.train.tokens * found.train.accumulate < ranks
    assert replace(found, train=config.train) == config
    assert divided(replace(config, train=replace(config.train, turns="together")), ranks).train.tokens == tokens


def test_sixteen_processes_make_the_papers_update() -> None:
    """16 GPUs x 4,096 tokens; and any other number of them 65,536 as well."""
    assert (found := divided(preset("wmt6"), 16).train).tokens == 4096
    assert found.accumulate == 16
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        train = divided(preset("wmt6"), ranks).train
        assert train.tokens * train.accumulate == 65_536


def same_moments(a: Run, b: Run) -> None:
    """Checkpoints hold the same Adam state for every student."""
    states = [run.dir.load_checkpoint() for run in (a, b)]
    assert states[0] is not None
    assert states[1] is not None
    for one, two in zip(states[0][1]["students"], states[1][1]["students"], strict=True):
        ours, theirs = (x["learner"]["optimizer"]["state"] for x in (one, two))
        assert ours.keys() == theirs.keys()
        assert ours
        for name in ours:
            for part in ("step", "exp_avg", "exp_avg_sq"):
                torch.testing.assert_close(ours[name][part], theirs[name][part], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto-pmd", "multiuat"])
def test_each_process_trains_one_student(tmp_path: Path, whole: Whole, method: str) -> None:
    """turns=together: with one micro-batch an update, which could not be shared; searches and samplers included."""
    words: dict[str, Any] = {"accumulate": 1, "tokens": 160, "turns": "together", "samplers": ["tau=1", "tau=5"]}
    if method == "multiuat":
        words["samplers"] = ["multiuat", "multiuat"]
        method = "bi-pmd"
    run = together(tmp_path / "two", 2, method, **words)
    one = whole(method, **words)
    same_run(one, run)
    same_moments(one, run)


@pytest.mark.slow
def test_together_a_run_goes_on_with_one_process_for_each_student(tmp_path: Path, whole: Whole) -> None:
    words: dict[str, Any] = {"accumulate": 2, "turns": "together"}
    out = tmp_path / "parts"
    with stopped_at(5):
        alone(out, **words)
    run = together(out, 2, **words)
    same_run(whole(**words), run)
    same_moments(whole(**words), run)


def test_together_needs_a_process_for_each_student_or_one_for_all() -> None:
    config = preset("toy", turns="together", device="cpu")
    for size in (1, 2):
        check_machine(config, Group(size=size), 2)
    with pytest.raises(UserError, match=r"3 processes for 2 students. .* start 2, or one for all of them"):
        check_machine(config, Group(size=3), 2)
    assert check_machine(preset("toy", device="cpu"), Group(size=3), 2).type == "cpu", "in turn any number will do"


@pytest.mark.slow
@pytest.mark.parametrize("sent_as", ["fp32", "bf16"])
def test_test_sets_are_shared_and_gradients_may_travel_in_bf16(
    tmp_path: Path, whole: Whole, monkeypatch: pytest.MonkeyPatch, sent_as: str
) -> None:
    monkeypatch.setattr(launching, "one_rank", tells_what_it_translates)
    run = together(tmp_path / "two", 2, "bi-pmd", score=True, gradients=sent_as)
    one = whole("bi-pmd", score=True)  # which sends nothing
    assert run.dir.config["config"]["train"]["gradients"] == sent_as
    shares = [(tmp_path / f"two.{rank}.translates").read_text(encoding="utf-8").split() for rank in (0, 1)]
    assert sorted(shares[0] + shares[1]) == sorted(2 * run.pairs), "each set of each student once"
    assert len(shares[0]) == len(shares[1])
    for file in (run.path / "translations").iterdir():
        assert len(file.read_bytes().split(b"\n")) == 1 + WORLD["held"]
    assert run.scores.keys() == one.scores.keys()
    if sent_as == "fp32":
        same_run(one, run)
    else:
        weights = [each.dir.load_weights(0, "latest")["embedding.weight"] for each in (one, run)]
        assert 1e-5 < float((weights[0] - weights[1]).abs().max()) < 0.05, "near, but more than the order of sums"


@pytest.mark.slow
def test_a_process_that_hangs_is_named_with_the_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "one_rank", rank_1_hangs)
    with pytest.raises(UserError, match=r"^process 0 of 2 had no answer from process 1 in update 6 .*last checkpoint"):
        together(tmp_path / "run", 2)


def test_other_errors_than_silence_keep_their_name() -> None:
    with pytest.raises(RuntimeError, match="out of memory"), Group(0, 2).answered(lambda: "update 1"):
        raise RuntimeError("out of memory")
    with pytest.raises(RuntimeError, match="gloo"), ALONE.answered(lambda: "update 1"):
        raise RuntimeError("gloo")


def test_alone_nothing_is_sent() -> None:
    model, numbers = nn.Linear(2, 1), torch.ones(3)
    summed = SummedGradients(model, ALONE)
    with summed.last_pass(True):
        model(torch.ones(1, 2)).sum().backward()
    before = model.weight.grad
    summed.finish(numbers)
    ALONE.sum(numbers)
    assert model.weight.grad is before
    assert numbers.tolist() == [1, 1, 1]
    assert (ALONE.any(True), ALONE.any(False), ALONE.of_rank(0, "x")) == (True, False, "x")
    assert ALONE.gathered({"x": [1, "é"]}) == [{"x": [1, "é"]}]


class Sent(list[list[float]]):
    """In place of torch.distributed: it notes what is sent, and doubles it at once, as an equal rank would."""

    def all_reduce(self, tensor: torch.Tensor, async_op: bool = False) -> Any:
        self.append(tensor.tolist())
        tensor *= 2
        return SimpleNamespace(wait=lambda: None)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    fake = Sent()
    monkeypatch.setattr(gradients, "dist", fake)
    monkeypatch.setattr(distributed, "dist", fake)
    monkeypatch.setattr(gradients, "BUCKET", 1)  # every parameter travels alone
    return fake


def test_gradients_leave_during_the_last_backward_pass_only_and_in_one_order(sent: Sent) -> None:
    """No pass uses w3, so w1, which comes after it in every rank's order, waits for the end of the pass."""
    w1, w2, w3 = (nn.Parameter(torch.tensor([x])) for x in (2.0, 3.0, 5.0))
    model, extra = nn.ParameterList([w1, w3, w2]), torch.ones(1)
    summed = SummedGradients(model, Group(0, 2))
    with summed.last_pass(False):
        (w1 * w2).backward()
    assert sent == []
    with summed.last_pass(True):
        (w1 * w2).backward()
    assert sent == [[4.0], [0.0], [6.0]], "both passes; zeros for what no pass used; all before `finish`"
    summed.finish(extra)
    assert (w1.grad, w2.grad, w3.grad, extra) == (torch.tensor([12.0]), torch.tensor([8.0]), 0, 2)


def test_a_bucket_leaves_before_earlier_layers_have_gradients(sent: Sent) -> None:
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False))
    when: list[int] = []
    model[1].register_full_backward_hook(lambda *_: when.append(len(sent)))
    with SummedGradients(model, Group(0, 2)).last_pass(True):
        model(torch.ones(1, 1)).sum().backward()
    assert when == [1] and len(sent) == 2


def test_a_rank_without_work_sends_zeros_in_the_same_order(sent: Sent) -> None:
    model = nn.Linear(2, 1)
    SummedGradients(model, Group(1, 2)).finish(torch.zeros(0))
    assert sent == [[0.0], [0.0, 0.0]]


def test_bf16_rounds_what_is_sent(sent: Sent) -> None:
    weight = nn.Parameter(torch.tensor([1.0]))
    summed = SummedGradients(nn.ParameterList([weight]), Group(0, 2), torch.bfloat16)
    with summed.last_pass(True):
        (weight * (1 + 2**-10)).sum().backward()
    summed.finish(torch.zeros(0))
    assert weight.grad == 2.0 and weight.grad.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_buckets_are_the_sum_of_all_ranks_to_the_bit(tmp_path: Path, ranks: int) -> None:
    """Ranks have two, one, no and one micro-batches. One blocking sum per parameter is the model."""
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=sums_gradients, args=(rank, ranks, str(tmp_path))) for rank in range(ranks)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(ranks)]
    for bucketed, blocking in found:
        for x, y, same in zip(bucketed, blocking, found[0][0], strict=True):
            assert torch.equal(x, same), "every rank has the same bits"
            torch.testing.assert_close(x, y, rtol=0 if ranks == 2 else 1e-6, atol=0 if ranks == 2 else 1e-7)


def test_every_piece_of_work_has_one_owner() -> None:
    for count in range(7):
        shares = [list(Group(rank, 3).mine(count)) for rank in range(3)]
        assert sorted(itertools.chain(*shares)) == list(range(count))
