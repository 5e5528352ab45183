"""A finished run continues when more updates are asked for: to which bits, and what it says about them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import pmd_lite as pmd
from pmd_lite.cli.arguments import main
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import differences
from tests.conftest import SHORT, stopped_at
from tests.paper.test_resume import outcome

SAME = "It ends in the same bits as a run of"


def train(corpus: Corpus, method: str, out: Path, steps: int, **more: Any) -> Run:
    config = preset("toy", **{**SHORT, "steps": steps, **more})
    return pmd.train(corpus, method, config, out=out, show="lines", score=False)


def unlike(whole: Path, longer: Path) -> list[str]:
    """What differs between two run directories, except the length that was planned at each evaluation, and the cost.

    A decision after an evaluation uses its dev losses; the one that a prolonged run makes up for computes them again.
    """
    both = [outcome(whole), outcome(longer)]
    for one in both:
        one["state"].pop("cost")
        one["metrics"] = [{k: v for k, v in event.items() if k not in ("total", "multiply_adds")}
                          for event in one["metrics"]]  # fmt: skip
    return list(differences(both[0], both[1]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"),
    [("tau=1", {}), ("auto-pmd", {"step_size": "constant"}), ("uni-pmd", {"start": 0.0}),
     ("tau=1", {"samplers": ["multidds-s"], "scorer_every": 3})],
)  # fmt: skip
def test_a_prolonged_run_ends_in_the_bits_that_it_promises(
    three_pairs: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, more: dict[str, Any]
) -> None:
    """Also where a strategy decides after the update that was the last one: at the end of a run it does not."""
    samplers = {"samplers": more.pop("samplers")} if "samplers" in more else {}
    for name, lengths in (("whole", [9]), ("longer", [3, 6, 9])):
        for steps in lengths:
            config = preset("toy", **{**SHORT, "eval_every": 3, "update_every": 3, "steps": steps, **more})
            pmd.train(three_pairs, method, config, out=tmp_path / name, show="lines", score=False, **samplers)
    said = capsys.readouterr().out
    assert f"continues after update 3 of 3, up to 6. {SAME} 6 from the start" in said
    assert f"continues after update 6 of 6, up to 9. {SAME} 9 from the start" in said
    assert unlike(tmp_path / "whole", tmp_path / "longer") == []
    assert Run(tmp_path / "longer").config == Run(tmp_path / "whole").config
    assert Run(tmp_path / "longer").finished["step"] == 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more", "word"),
    [("auto-pmd", {}, "mu, the step of the searches"), ("bi-pmd", {"start": 0.5}, r"the start of distillation \(here "
      r"after update 4, there 6\)"), ("tau=1", {"eval_every": 3}, "the weights kept as best"),
     ("cooldown", {}, "the temperature of cooldown")],
)  # fmt: skip
def test_what_cannot_be_the_same_is_named(
    three_pairs: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, more: dict[str, Any],
    word: str,
) -> None:  # fmt: skip
    train(three_pairs, method, tmp_path / "longer", 8, **more)
    train(three_pairs, method, tmp_path / "longer", 12, **more)
    said = capsys.readouterr().out
    assert SAME not in said
    assert re.search(f"Unlike a run of 12 from the start in: {word}", said)
    if method != "cooldown":  # which changes its temperature every 64 updates
        train(three_pairs, method, tmp_path / "whole", 12, **more)
        assert unlike(tmp_path / "whole", tmp_path / "longer")


@pytest.mark.slow
def test_distillation_that_has_begun_does_not_pause(three_pairs: Corpus, tmp_path: Path) -> None:
    """At first it begins after 2 of 4 updates; half of 20 updates would be 10."""
    train(three_pairs, "bi-pmd", tmp_path / "r", 4, start=0.5)
    run = train(three_pairs, "bi-pmd", tmp_path / "r", 20, start=0.5)
    steps, alphas = run.curve("alpha")
    assert steps == [4, 8, 12, 16, 20]
    assert all(value == run.config.distill.alpha for values in alphas.values() for value in values)


@pytest.mark.slow
def test_a_prolonged_run_is_one_run(three_pairs: Corpus, tmp_path: Path) -> None:
    """Interrupted, continued by the same command, never shortened; another setting is still another run."""
    out = tmp_path / "r"
    train(three_pairs, "auto-pmd", out, 4)
    identity = RunDir(out).identity
    (out / "scores.json").write_text("{}", encoding="utf-8")
    with stopped_at(7):
        train(three_pairs, "auto-pmd", out, 12)
    assert not RunDir(out).finished and not (out / "scores.json").exists(), "scores of the shorter run"
    with pytest.raises(UserError, match=r"holds another run: config\.optim\.lr differ"):
        train(three_pairs, "auto-pmd", out, 12, lr=1e-4)
    with pytest.raises(UserError, match="r has made 4 updates and cannot become a run of 2"):
        train(three_pairs, "auto-pmd", out, 2)
    run = train(three_pairs, "auto-pmd", out, 12)
    assert run.finished["step"] == 12 and RunDir(out).identity == identity
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    train(three_pairs, "auto-pmd", out, 12)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    with pytest.raises(UserError, match="has made 12 updates"):
        train(three_pairs, "auto-pmd", out, 4)


@pytest.mark.slow
def test_a_run_that_stopped_early_continues_with_more_patience(three_pairs: Corpus, tmp_path: Path) -> None:
    early = {"lr": 1e-9, "eval_every": 2, "patience": 2}
    run = train(three_pairs, "tau=1", tmp_path / "r", 20, **early)
    stopped = run.finished
    assert stopped["reason"] == "early stop" and stopped["step"] < 20
    with pytest.raises(UserError, match=r"stopped early: 2 evaluations had no gain\. Give a larger"):
        train(three_pairs, "tau=1", tmp_path / "r", 30, **early)
    run = train(three_pairs, "tau=1", tmp_path / "r", 20, **{**early, "patience": 0})
    assert run.finished["reason"] == "all steps made" and run.finished["step"] == 20


@pytest.mark.slow
def test_epochs_prolong_a_run_too(
    three_pairs: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the command line, and the runs that a method has learnt from stay what they were."""
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *args, **words: three_pairs.only(three_pairs.pairs[:2]))
    settings = {key: value for key, value in SHORT.items() if key not in ("steps", "vocab_size", "eval_every")}
    settings |= {"tokens": 600, "max_len": 24}
    words = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    words = ["train", "-m", "chi-ibr", f"--out={tmp_path / 'r'}", "--tokenizer.vocab-size=90", *words]
    assert main([*words, "--epochs=1"]) == 0
    epoch = Run(tmp_path / "r").finished["step"]
    capsys.readouterr()
    assert main([*words, "--epochs=2"]) == 0
    run = Run(tmp_path / "r")
    assert run.finished["step"] == 2 * epoch and run.auxiliary[0].finished["step"] == epoch
    assert json.loads((run.path / "config.json").read_text())["config"]["train"]["epochs"] == 1
    said = capsys.readouterr().out
    assert f"continues after update {epoch} of {epoch}, up to {2 * epoch}" in said and "the runs it learns from" in said
    assert "fra-eng" in said, "scored anew"
