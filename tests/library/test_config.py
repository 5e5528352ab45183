"""Configurations: they survive JSON, refuse what cannot work, and list the known names when a name is unknown."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_lite.config import (
    FIDELITY,
    PRESETS,
    Config,
    DistillConfig,
    ModelConfig,
    OptimConfig,
    SamplingConfig,
    TeacherConfig,
    TokenizerConfig,
    TrainConfig,
    preset,
)
from pmd_lite.config.sections import Fidelity, FidelityBundle
from pmd_lite.errors import UserError

SECTIONS = {
    "tokenizer": TokenizerConfig,
    "model": ModelConfig,
    "optim": OptimConfig,
    "train": TrainConfig,
    "distill": DistillConfig,
}


def through_json(config: Config) -> Config:
    return Config.from_dict(json.loads(json.dumps(config.to_dict())))


def leaves(config: Config) -> dict[str, Any]:
    """ "section.field" -> value, and "tau"."""
    flat: dict[str, Any] = {}
    for name, value in config.to_dict().items():
        flat |= {f"{name}.{key}": leaf for key, leaf in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def changed(config: Config, other: Config) -> dict[str, Any]:
    """The values of `other` where the two differ."""
    before = leaves(config)
    return {name: value for name, value in leaves(other).items() if value != before[name]}


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name: str) -> None:
    config = preset(name)
    assert config == PRESETS[name]
    assert through_json(config) == config


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "steps": st.integers(1, 10**6),
    "tokens": st.integers(16, 10**5),
    "draws": st.sampled_from(["iid", "stratified"]),
    "lr": st.floats(1e-6, 1),
    "betas": st.tuples(st.floats(0, 0.99), st.floats(0, 0.999)),
    "label_smoothing": st.floats(0, 0.99),
    "dropout": st.floats(0, 0.99),
    "max_sentences": st.integers(1, 10**7),
    "alpha": st.floats(0, 1),
    "start": st.none() | st.floats(0, 0.99),
    "rollback": st.none() | st.booleans(),
    "fidelity": st.sampled_from(["paper", "released"]),
    "tau": st.floats(0.1, 100) | st.just(math.inf),
}
HOMES = {field.name: f"{home}.{field.name}" for home, cls in SECTIONS.items() for field in dataclasses.fields(cls)}
HOMES["tau"] = "tau"  # the tokenizer's own is asked for as "tokenizer.tau"


@pytest.mark.slow
@given(st.sampled_from(list(PRESETS)), st.fixed_dictionaries({}, optional=VALUES))
@settings(deadline=None)
def test_overrides_change_what_they_name_alone_and_survive_json(name: str, overrides: dict[str, Any]) -> None:
    # what was published for ted8 and wmt6 depends on the fidelity, see test_published.py
    base, config = preset(name, fidelity=overrides.get("fidelity", "paper")), preset(name, **overrides)
    base = dataclasses.replace(base, distill=dataclasses.replace(base.distill, fidelity="paper"))
    full = {HOMES[key]: value for key, value in overrides.items()}
    assert changed(base, config) == {key: value for key, value in full.items() if value != leaves(base)[key]}
    assert through_json(config) == config
    assert preset(name) == PRESETS[name], "the preset itself stays as it is"


def test_a_missing_section_or_field_takes_its_default() -> None:
    assert Config.from_dict({}) == Config()
    assert Config.from_dict({"train": {"steps": 7}}) == dataclasses.replace(Config(), train=TrainConfig(steps=7))


def test_a_field_can_be_named_with_its_section() -> None:
    assert changed(PRESETS["toy"], preset("toy", **{"train.steps": 7})) == {"train.steps": 7}
    assert changed(PRESETS["toy"], preset("toy", **{"tokenizer.tau": 2.0})) == {"tokenizer.tau": 2.0}
    assert changed(PRESETS["toy"], preset("toy", tau=2.0)) == {"tau": 2.0}


def test_no_two_sections_share_a_field_name_so_that_the_bare_name_will_do() -> None:
    names = [field.name for cls in SECTIONS.values() for field in dataclasses.fields(cls)]
    assert len(set(names)) == len(names)


def test_configurations_cannot_be_changed_in_place() -> None:
    for section in (preset("toy"), *(getattr(preset("toy"), name) for name in SECTIONS)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(section, dataclasses.fields(section)[0].name, None)


# ---------------------------------------------------------------- unknown names


def test_an_unknown_override_names_the_known_ones() -> None:
    for key in ("stesp", "train.stesp", "trian.steps", "model", "optim.steps"):
        with pytest.raises(UserError, match=f"'{key}' names no field") as raised:
            preset("toy", **{key: 3})
        for home, cls in SECTIONS.items():
            assert all(f"{home}.{field.name}" in str(raised.value) for field in dataclasses.fields(cls))


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"no preset is called 'tyo'.*toy, small, ted8, wmt6"):
        preset("tyo")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": {"stesp": 3}}, r"config\.train has unknown field\(s\) stesp; did you mean 'steps'\? fields: .*seed"),
        ({"trian": {}, "b": 1}, r"config has unknown field\(s\) b, trian; .*fields: tokenizer, .*, distill"),
        ({"train": 3}, r"config\.train must be an object with the fields of TrainConfig, not 3"),
        ([], r"config must be an object with the fields of Config, not \[\]"),
    ],
)
def test_unknown_names_in_a_file(data: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Config.from_dict(data)


# ---------------------------------------------------------------- values that cannot work


@pytest.mark.parametrize(
    ("section", "fields", "message"),
    [
        ("tokenizer", {"vocab_size": 15}, "vocab_size=15: must be at least 16"),
        ("tokenizer", {"tau": 0.0}, "tau=0.0: must be at least 0.001"),
        ("tokenizer", {"tau": math.nan}, "tau=nan: must be a number"),
        ("model", {"d_model": 10, "heads": 4}, "d_model=10 with heads=4: d_model must be even and divisible by heads"),
        ("model", {"d_model": 9, "heads": 3}, "d_model=9 with heads=3: d_model must be even and divisible by heads"),
        ("model", {"encoder_layers": 0}, "encoder_layers=0: must be at least 1"),
        ("model", {"decoder_layers": 0}, "decoder_layers=0: must be at least 1"),
        ("model", {"dropout": 1.0}, "dropout=1.0: must be at most 0.9999"),
        ("model", {"attention_dropout": -0.1}, "attention_dropout=-0.1: must be at least 0"),
        ("optim", {"lr": 0.0}, "lr=0.0: must be at least 1e-12"),
        ("optim", {"label_smoothing": 1.0}, "label_smoothing=1.0: must be at most 0.9999"),
        ("optim", {"warmup": 0}, "warmup=0: must be at least 1"),
        ("train", {"steps": 0, "epochs": 0.0}, "steps=0 and epochs=0"),
        ("train", {"tokens": 15}, "tokens=15: must be at least 16"),
        ("train", {"accumulate": 0}, "accumulate=0: must be at least 1"),
        ("train", {"beam": 0}, "beam=0: must be at least 1"),
        ("distill", {"fidelity": "exact"}, "fidelity='exact': choose 'paper' or 'released'"),
        ("distill", {"alpha": 1.1}, "alpha=1.1: must be at most 1"),
        ("distill", {"alpha0": -0.1}, "alpha0=-0.1: must be at least 0"),
        ("distill", {"trial_ratio": 0.0}, "trial_ratio=0.0: must be at least 1e-06"),
        ("distill", {"trial_ratio": 1.1}, "trial_ratio=1.1: must be at most 1"),
        ("distill", {"start": 1.0}, "start=1.0: must be at most 0.9999"),
        ("distill", {"start": -0.1}, "start=-0.1: must be at least 0"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_every_road(section: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SECTIONS[section](**fields)
    with pytest.raises(UserError, match=message):
        Config.from_dict({section: fields})
    if len(fields) == 1:
        with pytest.raises(UserError, match=message):
            preset("toy", **{f"{section}.{name}": value for name, value in fields.items()})


def test_the_borders_are_allowed() -> None:
    ModelConfig(d_model=2, heads=1, encoder_layers=1, decoder_layers=1, dropout=0.0)
    OptimConfig(label_smoothing=0.0, warmup=1)
    TrainConfig(steps=0, epochs=0.5, tokens=16, accumulate=1, beam=1)
    DistillConfig(alpha=0.0, alpha0=1.0, trial_ratio=1.0, start=0.0)


# ---------------------------------------------------------------- fidelity

OTHER: dict[str, Any] = {  # for each member of the bundle, a value that neither bundle has (or the other's)
    "rollback": {"paper": False, "released": True},
    "start": {"paper": 0.25, "released": 0.0},
    "teacher_dropout": {"paper": True, "released": False},
    "dead_zone": {"paper": 0.1, "released": 0.0},
    "ties": {"paper": "up", "released": "keep"},
    "alpha_clip": {"paper": 0.9, "released": 1.0},
    "trial_data": {"paper": "head", "released": "per-pair"},
    "decide_by": {"paper": "smoothed", "released": "nll"},
    "best": {"paper": "pooled-smoothed", "released": "mean"},
}


def test_the_two_bundles() -> None:
    paper, released = (DistillConfig(fidelity=name).resolved for name in ("paper", "released"))
    assert paper == DistillConfig().resolved, "the paper's text is the default"
    assert paper == FidelityBundle(True, 0.0, False, 0.0, "keep", 1.0, "per-pair", "nll", "mean")
    assert released.start * 74 == pytest.approx(4), "epochs 1 to 4 of the released scripts' 74"
    assert released.dead_zone / math.log(2) == pytest.approx(0.05), "bits"
    assert (released.rollback, released.teacher_dropout, released.ties) == (False, True, "up")
    assert (released.alpha_clip, released.trial_data, released.decide_by) == (0.98, "head", "smoothed")
    assert released.best == "pooled-smoothed"


@pytest.mark.parametrize("fidelity", FIDELITY)
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(FidelityBundle)])
def test_each_member_of_the_bundle_can_be_set_alone(fidelity: Fidelity, name: str) -> None:
    value = OTHER[name][fidelity]  # falsy ones among them: they must count as set
    expected = dataclasses.asdict(FIDELITY[fidelity]) | {name: value}
    assert dataclasses.asdict(DistillConfig(fidelity=fidelity, **{name: value}).resolved) == expected
    bare = preset("ted8")  # sets no member itself, but for the start of its script
    assert bare.distill == DistillConfig()
    if fidelity == "released" and name != "start":
        expected["start"] = 4 / 200
    assert dataclasses.asdict(preset("ted8", fidelity=fidelity, **{name: value}).distill.resolved) == expected
    assert expected != dataclasses.asdict(FIDELITY[fidelity])


def test_all_members_at_once_turn_one_bundle_into_the_other() -> None:
    released = dataclasses.asdict(FIDELITY["released"])
    assert preset("toy", **released).distill.resolved == FIDELITY["released"]
    assert preset("wmt6", fidelity="released").distill.resolved == FIDELITY["released"]


def test_a_preset_that_sets_a_member_keeps_it_under_either_fidelity() -> None:
    """Short runs scale the start of distillation; `fidelity` changes the other members."""
    for name in ("toy", "small"):
        start = PRESETS[name].distill.start
        assert start is not None
        assert preset(name, fidelity="released").distill.resolved == dataclasses.replace(
            FIDELITY["released"], start=start
        )


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ({"draws": "startified"}, "choose 'iid' or 'stratified'"),
        ({"decide_by": "smooth"}, "choose 'nll' or 'smoothed'"),
        ({"precision": "int8"}, "choose 'fp32' or 'bf16' or 'fp16'"),
        ({"step_size": "to_1"}, "choose 'constant' or"),
        ({"steps": "300"}, "must be a whole number"),
        ({"heads": 0}, "must be at least 1"),
        ({"seed": -1}, "must be at least 0"),
        ({"dead_zone": -0.1}, "must be at least 0"),
        ({"alpha_clip": 1.5}, "must be at most 1"),
        ({"rollback": "no"}, "write True or False"),
        ({"lr": "fast"}, "must be a number"),
        ({"tau": -1}, "tau=-1: must be at least 0.001"),
        ({"resolved": 3}, "names no field"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_at_once(override: dict[str, object], says: str) -> None:
    """A typo must not train silently as something else."""
    with pytest.raises(UserError, match=re.escape(says)):
        preset("toy", **override)


# ---------------------------------------------------------------- any value

TEMPERATURES = ("tau", "cooldown_from", "cooldown_to", "scorer_tau")  # inf is uniform
HOSTILE: list[Any] = [
    math.inf, -math.inf, math.nan, 10**400, -(10**400), 10**5000, 2**63, 1e308, -1, -0.5, 5e-324, True, None, "", "1",
    "\x1b[2J", [], {}, [1], (1, 2), b"1", 1j, [[[[[[[[]]]]]]]],
]  # fmt: skip
ALL = {**SECTIONS, "sampling": SamplingConfig, "teacher": TeacherConfig}
FIELDS = [(home, field.name) for home, cls in ALL.items() for field in dataclasses.fields(cls)]


@pytest.mark.parametrize(("home", "name"), [*FIELDS, ("", "tau")])
def test_every_field_refuses_any_other_value_by_its_name(home: str, name: str) -> None:
    """In one short line without control characters; and what is accepted is finite (or a temperature) and bounded."""
    for value in HOSTILE:
        try:
            config = preset("toy", **{f"{home}.{name}".lstrip("."): value})
        except UserError as error:
            said = str(error)
            assert name in said and ": " in said and len(said) < 400
            assert said.isprintable()
        else:
            kept = getattr(getattr(config, home) if home else config, name)
            assert kept is value or kept == value
            if isinstance(kept, float) and not isinstance(kept, bool):
                assert abs(kept) <= (1e38 if name == "lr" else 1e9) or name in TEMPERATURES
            elif type(kept) is int:
                assert 0 <= kept <= (2**63 - 1 if name == "seed" else 1e9)


@pytest.mark.parametrize(("name", "meant"), [("stepz", "steps"), ("learning_rate", ""), ("label_smothing",
                                             "label_smoothing"), ("train.beem", "beam")])  # fmt: skip
def test_an_unknown_option_gets_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(UserError) as error:
        preset("toy", **{name: 1})
    assert (f"did you mean '{meant}'?" in str(error.value)) == bool(meant)
