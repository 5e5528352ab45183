"""Appendix C: a run of ted8 or wmt6 takes what was published for its corpus and direction, unless told otherwise."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest

import pmd_lite as pmd
from pmd_lite.cli.arguments import TrainArguments, _named
from pmd_lite.config import PRESETS, Config, configured, preset
from pmd_lite.config.published import LSSD_WEIGHTS, SCRIPTS, STRATEGIES, remark
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.methods import METHODS

SETTINGS = [("wmt6", "m2o"), ("wmt6", "o2m"), ("ted8", "m2o"), ("ted8", "o2m")]
SMALL: dict[str, Any] = {
    "d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 32, "vocab_size": 400, "tokens": 200,
    "accumulate": 1, "precision": "fp32", "epochs": 0.0, "steps": 2, "beam": 1, "warmup": 2,
}  # fmt: skip


def row(values: str) -> list[float]:
    return [float(x) for x in values.split()]


def test_values_by_setting() -> None:
    """Read off the scripts: alpha of Uni and Bi, LSSD's weight, rho and T of Auto, in the order of SETTINGS."""
    assert [preset(p, d, "uni-pmd").distill.alpha for p, d in SETTINGS] == row(".6 .2 .6 .4")
    assert [preset(p, d, "bi-pmd").distill.alpha for p, d in SETTINGS] == row(".6 .4 .8 .4")
    assert [preset(p, d, "lssd").teacher.lssd_weight for p, d in SETTINGS] == row("2 .8 2.5 .5")
    auto = [preset(p, d, "auto-pmd", fidelity="released") for p, d in SETTINGS]
    assert [c.distill.trial_ratio for c in auto] == row(".1 .2 .05 .2")
    assert [c.distill.update_epochs for c in auto] == row("2 1 1 1")
    assert [preset(p, d, "uni-pmd", fidelity="released").distill.update_epochs for p, d in SETTINGS] == [3.0] * 4
    epochs = {
        m: [preset(p, d, m, fidelity="released").train.epochs for p, d in SETTINGS]
        for m in ("uni-pmd", "bi-pmd", "auto-pmd")
    }
    assert epochs == {"uni-pmd": row("73 74 150 300"), "bi-pmd": row("74 74 200 300"), "auto-pmd": row("74 74 200 300")}
    taus = [preset(p, d, "uni-pmd", fidelity="released").tau for p, d in SETTINGS]
    assert taus == row("5 5 3 5") and [preset(p, d, "uni-pmd").tau for p, d in SETTINGS] == row("5 5 3 3")
    caps = [preset(p, d, "bi-pmd", fidelity="released").train.max_steps for p, d in SETTINGS]
    assert caps == [0, 0, 200_000, 200_000]


@pytest.mark.parametrize(("name", "direction"), SETTINGS)
@pytest.mark.parametrize("method", ["uni-pmd", "bi-pmd", "auto-pmd", "dynamic-md", "lsmd", "lssd", "tau=1"])
def test_the_papers_text_has_one_value_for_all(name: str, direction: str, method: str) -> None:
    config = preset(name, direction, method)
    assert (config.distill.trial_ratio, config.distill.update_epochs, config.distill.resolved.start) == (0.1, 1.0, 0.0)
    assert (config.train.epochs, config.tau) == ((70, 5.0) if name == "wmt6" else (300, 3.0))


@pytest.mark.parametrize("key", SCRIPTS)
def test_released_begins_after_four_epochs_of_its_script(key: tuple[str, str, str]) -> None:
    method = {"uni": "uni-pmd", "bi": "bi-pmd", "auto": "auto-pmd"}[key[2]]
    config = preset(key[0], key[1], method, fidelity="released")
    clock = Clock.of(config, batches=80.0, waits=True)
    assert clock.start == 4 * clock.epoch


def test_twelve_scripts_whose_alphas_come_from_the_search_of_the_text() -> None:
    assert len(SCRIPTS) == 12 and set(LSSD_WEIGHTS) == {key[:2] for key in SCRIPTS}
    assert {s.alpha for s in SCRIPTS.values()} <= {None, 0.2, 0.4, 0.6, 0.8}
    assert all((s.alpha is None) == (s.mode == "automatic") == (s.rho is not None) for s in SCRIPTS.values())
    assert set(STRATEGIES) <= set(METHODS)


def test_what_is_set_by_hand_wins_also_where_it_is_the_presets_own_value() -> None:
    assert preset("ted8", "o2m", "lssd", lssd_weight=2.5).teacher.lssd_weight == 2.5
    mine = preset("ted8", "o2m", "uni-pmd", fidelity="released", epochs=7.0, **{"distill.start": 0.0, "tau": 2.0})
    assert (mine.train.epochs, mine.distill.start, mine.tau, mine.distill.alpha) == (7.0, 0.0, 2.0, 0.4)


def test_without_a_direction_a_preset_is_that_into_english_and_others_have_none() -> None:
    assert preset("ted8") == preset("ted8", "m2o", "auto-pmd") == PRESETS["ted8"]
    assert preset("wmt6", "m2m", "uni-pmd") == preset("wmt6", "m2o", "uni-pmd")
    assert "many to many" in remark("wmt6", "m2m") and not remark("wmt6", "o2m") and not remark("toy", "m2m")
    assert preset("toy", "o2m", "uni-pmd", fidelity="released") == preset("toy", fidelity="released")


def test_a_whole_config_is_taken_as_it_is() -> None:
    config = dataclasses.replace(PRESETS["ted8"], tau=7.0)
    assert configured(config, "o2m", "lssd", {}) is config
    with pytest.raises(UserError, match="not both"):
        configured(config, "o2m", "lssd", {"steps": 3})
    with pytest.raises(UserError, match="'direction' names no field"):
        configured("toy", "o2m", "lssd", {"direction": "m2o"})


# ---------------------------------------------------------------- every road


def test_train_takes_the_values_of_the_corpus_and_writes_them_down(tiny_corpus: Corpus, tmp_path: Path) -> None:
    words: dict[str, Any] = {"show": "off", "score": False, **SMALL}
    run = pmd.train(tiny_corpus.reversed(), "uni-pmd", "ted8", out=tmp_path / "a", fidelity="released", **words)
    written = run.dir.config["config"]
    assert written["distill"]["alpha"] == 0.4 and written["distill"]["update_epochs"] == 3.0
    assert written["teacher"]["lssd_weight"] == 0.5 and written["tau"] == 5.0
    run = pmd.train(tiny_corpus, "uni-pmd", "ted8", out=tmp_path / "b", alpha=0.3, **words)
    assert (run.config.distill.alpha, run.config.teacher.lssd_weight) == (0.3, 2.5)


def test_a_run_begins_with_what_it_leaves_out_and_cuts_test_sentences_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, long = [(f"the red {i}", f"the red {i}") for i in range(20)], [("red sea " * 12, "the sea")]
    valid = [(f"a red {i}", f"a red {i}") for i in range(4)] + [("sea red " * 12, "a sea")]
    test = [(f"one red {i}", f"one red {i}") for i in range(4)] + [("blue sea " * 12, "one sea")]
    texts = {pair: {"train": short + long, "valid": valid, "test": test} for pair in ("fr-en", "fr-de", "en-fr")}
    corpus = Corpus.from_texts("three", texts, strict=False, allow_leakage=True)
    with pytest.warns(UserWarning, match="1 of 5 source sentences are longer than max_len=24 tokens"):
        run = pmd.train(corpus, "lssd", "wmt6", out=tmp_path / "run", show="lines", max_len=24, **SMALL)
    said = capsys.readouterr().out
    assert "many to many: preset wmt6 takes its values for many into one" in said
    assert any("in no dev loss" in line and "fr-en 1 of 5" in line for line in said.splitlines())
    assert run.config.teacher.lssd_weight == 2.0


def test_estimate_knows_the_direction_of_sizes_and_of_a_corpus(tiny_corpus: Corpus) -> None:
    words: dict[str, Any] = {"tokens_per_second": 1e6, "fidelity": "released"}
    sizes = {"en-fr": 90_000, "en-tr": 9_000}
    found = pmd.estimate(method="auto-pmd", preset_name="wmt6", sizes=sizes, **words)
    assert found.config.distill.trial_ratio == 0.2
    both = pmd.estimate(method="auto-pmd", preset_name="wmt6", sizes={**sizes, "fr-en": 90_000}, **words)
    assert both.config.distill.trial_ratio == 0.1 and "many to many" in both.guesses[0]
    here = pmd.estimate(tiny_corpus.reversed(), "lssd", "wmt6", **{**words, **SMALL})
    assert here.config.teacher.lssd_weight == 0.8


def test_compare_gives_each_method_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("pmd_lite.comparing.compare")  # the package's own `compare` is the function
    asked: list[dict[str, Any]] = []

    def note(jobs: Any, *rest: Any, **more: Any) -> list[UserError]:
        asked.extend(jobs)
        return [UserError("not now") for _ in jobs]

    monkeypatch.setattr(module, "run_jobs", note)
    world = {"direction": "o2m", "head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3,
             "homonyms": 1, "false_friends": 1}  # fmt: skip
    methods = ["uni-pmd", "bi-pmd alpha=0.7", "lssd"]
    with pytest.raises(UserError, match="not now"):
        pmd.compare("toy", methods, (1,), "wmt6", out=tmp_path, corpus_options=world, show=False, **SMALL)
    configs: dict[str, Config] = {job["method"]: job["preset_name"] for job in asked}
    assert (configs["uni-pmd"].distill.alpha, configs["bi-pmd"].distill.alpha) == (0.2, 0.7)
    assert configs["lssd"].teacher.lssd_weight == 0.8


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--method lssd", {}),
        ("--lssd-weight 2.5", {"teacher.lssd_weight": 2.5}),  # what the preset has: it still was named
        ("--teacher-dropout True --no-compile", {"train.compile": False}),
        ("--tokenizer.tau=5.0", {"tokenizer.tau": 5.0}),
        ("--tau 3.0", {"tau": 3.0}),
    ],
)
def test_the_command_line_hands_on_what_it_names(words: str, expected: dict[str, Any]) -> None:
    assert TrainArguments.of_preset("ted8", _named(words.split())).overrides.items() >= expected.items()
    bare = TrainArguments.of_preset("ted8")
    assert bare.overrides == {}
    other = dataclasses.replace(bare, optim=dataclasses.replace(bare.optim, lr=1.0), tau=2.0)
    assert other.overrides == {"optim.lr": 1.0, "tau": 2.0}


# ---------------------------------------------------------------- length


def test_epochs_up_to_a_limit_of_updates() -> None:
    for cap, total in ((0, 500), (200, 200), (900, 500)):
        config = preset("toy", epochs=5.0, max_steps=cap)
        assert Clock.of(config, 100.0, False).total == total
    assert Clock.of(preset("toy", steps=50, max_steps=20), 100.0, False).total == 50, "only with epochs"


def test_the_two_real_presets_take_sentences_as_long_as_the_released_model_does() -> None:
    assert PRESETS["ted8"].model.max_len == PRESETS["wmt6"].model.max_len == 1024
