"""Runs seen from outside, side-by-side training, and the sentences and pictures made from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pmd_lite as pmd
from pmd_kit import widgets
from pmd_kit.l00 import stories
from pmd_kit.l00.checks import check_winners
from pmd_lite.data.corpus import Corpus
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.translation import batches_by_length
from pmd_lite.figures.runs import alphas_of, dev_loss_of, frontier_of
from pmd_lite.training.rundir import FORMAT, RunDir
from tests.conftest import SHORT

WORLD = {
    "head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1,
}  # fmt: skip
MUTUAL = {"model_1": [40.0, 40, 40, 13, 13, 13], "model_2": [18.0, 18, 18, 20, 20, 20]}


@pytest.fixture(scope="module")
def runs(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[pmd.Run, pmd.Run, pmd.Run]:
    """tau=1, tau=5 and Auto-PMD on the tiny corpus. Without scores, which take most of the time: see `with_scores`."""
    folder = tmp_path_factory.mktemp("runs")
    config = pmd.preset("toy", **{**SHORT, "start": 0.0})
    one, five, auto = (
        pmd.train(tiny_corpus, method, config, out=folder / method.replace("=", ""), show="off", score=False)
        for method in ("tau=1", "tau=5", "auto-pmd")
    )
    return one, five, auto


def with_scores(run: pmd.Run, folder: Path, bleu: dict[str, list[float]]) -> pmd.Run:
    """The same run with BLEU scores of our own choosing."""
    copy = folder / run.path.name
    copy.mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl"):
        (copy / name).write_bytes((run.path / name).read_bytes())
    scores = {m: {p: {"bleu": b} for p, b in zip(run.pairs, values, strict=True)} for m, values in bleu.items()}
    write_json(copy / "scores.json", RunDir(copy).sealed({"scores": scores}))
    return pmd.Run(copy)


@pytest.mark.slow
def test_curves_are_those_of_the_metrics(runs: tuple[pmd.Run, ...]) -> None:
    steps, alphas = runs[2].curve("alpha", 1)
    assert steps == [4, 8, 12]
    assert set(alphas) == set(runs[2].pairs)
    assert [curve[0] for curve in alphas.values()] == pytest.approx([0.1] * 6)  # before the first search
    search = runs[2].searches(1)[0]
    assert [curve[1] for curve in alphas.values()] == search["alpha"]
    with pytest.raises(UserError, match="no field 'loss' of pairs; there are dev_loss"):
        runs[0].curve("loss")


def test_twins_share_their_beginning(runs: tuple[pmd.Run, ...]) -> None:
    """Before distillation begins to matter, model_1 is the tau=1 model and model_2 the tau=5 model, to the bit."""
    one, five, auto = runs
    late = pmd.preset("toy", **{**SHORT, "start": 0.9})
    assert late.distill.resolved.start == 0.9
    assert five.evaluations(0)[0]["p"] == auto.evaluations(1)[0]["p"]
    assert one.evaluations(0)[0]["tokens"] == auto.evaluations(0)[0]["tokens"]
    assert five.evaluations(0)[0]["tokens"] == auto.evaluations(1)[0]["tokens"]


@pytest.mark.slow
def test_translations_do_not_depend_on_company(runs: tuple[pmd.Run, ...], tiny_corpus: Corpus) -> None:
    sentences = [src for src, _ in tiny_corpus.test["deu-eng"]]
    sentences += [" ".join(sentences[:n]) for n in (2, 3)]  # long ones, which may be translated at greater length
    together = runs[0].translate(sentences, "deu-eng")
    assert together == [runs[0].translate([s], "deu-eng")[0] for s in sentences]
    assert runs[0].translate([], "deu-eng") == []
    assert runs[0].translate(["  ", "?" * 500], "deu-eng")[0] == ""  # blank stays blank; overlong is cut, not refused
    with pytest.raises(UserError, match="takes a list"):
        runs[0].translate("one string", "deu-eng")
    with pytest.raises(UserError, match=r"this run has 1"):
        runs[0].model(1)


def test_a_batch_to_translate_holds_one_length_bucket() -> None:
    """Lengths up to 16, 32, ... are kept apart, since they bound the translation; within a bucket the budget cuts."""
    lengths = [10, 16, 17, 30, 31, 40]
    assert batches_by_length(range(6), lengths, 1000) == [[0, 1], [2, 3, 4], [5]]
    assert batches_by_length(range(6), lengths, 60) == [[0, 1], [2, 3], [4], [5]]


def test_points_and_table_by_hand(runs: tuple[pmd.Run, ...], tmp_path: Path) -> None:
    run = with_scores(runs[0], tmp_path, {"model_1": [30.0, 20.0, 10.0, 9.0, 3.0, 0.0]})
    assert run.groups == (("fra-eng", "deu-eng", "zho-eng"), ("est-eng", "ron-eng", "tur-eng"))
    assert run.point() == (4.0, 20.0)
    assert [cell for cell in run.table().rows[0][1:]] == [30.0, 20.0, 10.0, 9.0, 3.0, 0.0, 12.0, 20.0, 4.0]


def test_gains_say_what_the_numbers_say(runs: tuple[pmd.Run, ...], tmp_path: Path) -> None:
    one = with_scores(runs[0], tmp_path, {"model_1": [40.0, 40, 40, 10, 10, 10]})
    five = with_scores(runs[1], tmp_path, {"model_1": [20.0, 20, 20, 20, 20, 20]})
    auto = with_scores(runs[2], tmp_path, MUTUAL)
    text = stories.gains(one, five, auto)
    assert "HRL +0.0, LRL +3.0 BLEU" in text
    assert "HRL -2.0, LRL +0.0 BLEU" in text
    assert "Area under the frontier: 600 for the single models, 646 for the students (+7.7 %)" in text


def test_regimes_judge_by_the_rule_of_lesson_06(tmp_path: Path) -> None:
    def of(*values: tuple[float, float]) -> list[dict[str, float]]:
        return [{"a": high, "b": low} for high, low in values]

    bleu = {"w": {"tau=1": of((30, 5), (31, 6)), "tau=5": of((20, 10), (21, 11)),
                  stories.MODEL_1: of((30.5, 7), (30.5, 9)), stories.MODEL_2: of((22, 10), (24, 11))}}  # fmt: skip
    data = {"format": FORMAT, "command": "c", "bleu": bleu, "dev_loss": bleu, "groups": {"w": [["a"], ["b"]]}}
    (tmp_path / "r.json").write_text(json.dumps(data), encoding="utf-8")
    stored = stories.Regimes.load(tmp_path / "r.json")
    lines = [" ".join(line.split()) for line in stored.reading().splitlines()]
    assert "w model_1 against tau=1 HRL BLEU +0.00 (+0.50, -0.50; noise: no finding)" in lines
    assert "w model_1 against tau=1 LRL BLEU +2.50 (+2.00, +3.00; better)" in lines
    assert "w model_2 against tau=5 LRL BLEU +0.00 (+0.00, +0.00; noise: no finding)" in lines
    assert "w model_1 against tau=1 LRL loss +2.50 (+2.00, +3.00; worse)" in lines, "a higher loss is worse"
    assert [str(c) for c in stored.table().rows[0][:2]] == ["w", "tau=1"]
    assert "LRL 5.5 HRL 30.5" in stored.figure("w").alt_text
    with pytest.raises(UserError, match="no stored results"):
        stories.Regimes.load(tmp_path / "absent.json")
    (tmp_path / "r.json").write_text(json.dumps({**data, "format": FORMAT - 1}), encoding="utf-8")
    with pytest.raises(UserError, match=r"no stored results \(another version"):
        stories.Regimes.load(tmp_path / "r.json")


def test_figures_of_runs_carry_the_runs_numbers(runs: tuple[pmd.Run, ...], tmp_path: Path) -> None:
    auto = with_scores(runs[2], tmp_path, MUTUAL)
    one = with_scores(runs[0], tmp_path, {"model_1": [30.0, 20.0, 10.0, 9.0, 3.0, 0.0]})
    assert "tau=1 LRL 4.0 HRL 20.0" in frontier_of([one, auto]).alt_text
    drawn = alphas_of(auto).axes[1].lines[0]
    assert list(drawn.get_ydata()) == auto.curve("alpha", 1)[1]["fra-eng"]
    assert len(dev_loss_of([one, auto]).axes) == 6


def test_the_picker_redraws_when_a_box_moves(runs: tuple[pmd.Run, ...], tmp_path: Path) -> None:
    auto = with_scores(runs[2], tmp_path, MUTUAL)
    one = with_scores(runs[0], tmp_path, {"model_1": [30.0, 20.0, 10.0, 9.0, 3.0, 0.0]})
    box = widgets.frontier_picker([one, auto])
    first, second, picture = box.children[1], box.children[2], box.children[3]
    assert "auto-pmd model_2" in picture.value
    second.value = False
    assert "auto-pmd model_2" not in picture.value
    assert "tau=1 LRL 4.0" in picture.value
    first.value = False
    assert picture.value == "<p>Tick at least one method.</p>"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([None] * 6, "Not attempted yet"),
        (["tau=1", None, None, None, None, None], "Still open: deu-eng, zho-eng"),
        (["tau1"] * 6, "'tau1' is not a model here: write 'tau=1' or 'tau=5'"),
        (["tau=1"] * 3 + ["tau=5"] * 3, "6 of 6 right"),
        (["tau=5"] * 3 + ["tau=1"] * 3, "flatter"),
        (["tau=1"] * 6, "3 of 6 right"),
    ],
)
def test_the_check_of_lesson_00_names_the_mistake(
    runs: tuple[pmd.Run, ...], tmp_path: Path, answers: list[Any], says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    one = with_scores(runs[0], tmp_path, {"model_1": [30.0, 20.0, 10.0, 1.0, 1.0, 0.0]})
    five = with_scores(runs[1], tmp_path, {"model_1": [20.0, 10.0, 5.0, 2.0, 2.0, 2.0]})
    prediction = dict(zip(one.pairs, answers, strict=True))
    check_winners(prediction, one, five)
    assert says in capsys.readouterr().out


@pytest.mark.slow
def test_side_by_side_gives_the_same_bits_as_alone(
    forked: None, tmp_path: Path, tiny_corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its own process a run ends with the same bits, alone or beside others; progress is printed only on request.

    This process is another kind (other libraries, another history), and is held to rounding alone: hence a large eps,
    else Adam makes whole steps of rounding noise in gradients that are zero.
    """
    config = pmd.preset("toy", **{**SHORT, "steps": 4, "eps": 1e-3})
    words = {"preset_name": config, "corpus": "toy", "corpus_options": WORLD}
    jobs = [{**words, "method": m, "out": tmp_path / f"side{i}"} for i, m in enumerate(("tau=1", "bi-pmd"))]
    side = pmd.train_side_by_side(jobs)
    assert "2 of 2 runs done" in capsys.readouterr().out
    (alone,) = pmd.train_side_by_side([{**jobs[0], "out": tmp_path / "alone"}], show=False)
    assert capsys.readouterr().out == ""
    here = pmd.train(tiny_corpus, "tau=1", config, out=tmp_path / "here", show="off", score=False)
    for name, weight in alone.dir.load_weights(0).items():
        assert torch.equal(weight, side[0].dir.load_weights(0)[name])
        torch.testing.assert_close(weight, here.dir.load_weights(0)[name], rtol=1e-3, atol=1e-5)
    assert side[0].bleu() == alone.bleu()
    with pytest.raises(UserError, match="did you mean 'bi-pmd'"):
        pmd.train_side_by_side([{**words, "method": "by-pmd", "out": tmp_path / "wrong"}])


@pytest.mark.slow
def test_bf16_follows_fp32_closely(three_pairs: Corpus, tmp_path: Path) -> None:
    """bf16 autocast is another rounding of the same training, not another training."""
    losses = {}
    for precision in ("fp32", "bf16"):
        config = pmd.preset("toy", **{**SHORT, "precision": precision})
        run = pmd.train(three_pairs, "bi-pmd", config, out=tmp_path / precision, show="off", score=False)
        losses[precision] = run.evaluations(1)[-1]["dev_loss"]
    assert losses["fp32"] != losses["bf16"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)


def test_run_size_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PMD_SIZE", raising=False)
    assert pmd.run_size() == "lesson"
    monkeypatch.setenv("PMD_SIZE", "ci")
    assert pmd.run_size() == "ci"
    monkeypatch.setenv("PMD_SIZE", "huge")
    with pytest.raises(UserError, match="set it to ci"):
        pmd.run_size()


@pytest.mark.slow
def test_released_tags_train_and_translate(three_pairs: Corpus, tmp_path: Path) -> None:
    """The decoder tag is predicted, counted, forced when translating and never part of the text; also one-to-many."""
    for corpus in (three_pairs, three_pairs.reversed()):
        config = pmd.preset("toy", **{**SHORT, "tags": "released", "kind": "per-language", "steps": 6})
        run = pmd.train(corpus, "tau=5", config, out=tmp_path / corpus.direction, show="off")
        pair = corpus.pairs[0]
        assert run.tokenizer.prefix(pair) == [run.tokenizer.tags[pair.split("-")[1]]]
        for pair in corpus.pairs:
            text = (run.path / "translations" / f"test.model_1.{pair}.txt").read_text(encoding="utf-8")
            assert not re.search(r"__|<s>", text)
    assert "tok:zh" in run.scores["model_1"]["eng-zho"]["signature"]


def test_a_translation_is_one_line(runs: tuple[pmd.Run, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may spell a line end in bytes; even so, the files of translations hold one line for each sentence."""
    run = pmd.Run(runs[0].path)
    monkeypatch.setattr(run.tokenizer, "decode", lambda ids: "two\nlines\u2028or three")
    assert run.translate(["a", ""], "fra-eng") == ["two lines or three", ""]
