"""The method table: every row can be built, and a request for an unknown row is answered with help."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pmd_lite.config import DistillConfig, preset
from pmd_lite.distillation.auto import AutoPMD, DynamicMD
from pmd_lite.distillation.lssd import LSSD
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.mutual import LSMD, BaseDistiller, BiPMD, EnsembleDistill, NoDistillation, UniPMD
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Sampler
from pmd_lite.methods import (
    METHODS,
    SAMPLERS,
    Method,
    Resources,
    get_method,
    make_distiller,
    make_samplers,
    needed_runs,
    parse_tau,
    student_labels,
)
from pmd_lite.sampling.ccl_m import CCLMSampler
from pmd_lite.sampling.chi_ibr import ChiIBRSampler
from pmd_lite.sampling.planned import CooldownSampler, OrderMattersSampler
from pmd_lite.sampling.scorer import MultiDDSSampler, MultiUATSampler
from pmd_lite.sampling.temperature import temperature_probabilities
from pmd_lite.sampling.unimax import UniMaxSampler

SIZES = [5000, 800, 60]
CONFIG = preset("toy", tau=3.0)
FOUND = Resources(
    plain_loss=torch.tensor([1.0, 2.0, 3.0]), bilingual_loss=torch.zeros(3), similarity=torch.ones(3, 3),
    teachers=[nn.Linear(1, 1) for _ in SIZES], teacher_scores=torch.zeros(3),
    singles=[nn.Linear(1, 1), nn.Linear(1, 1)], alphas=torch.full((2, 3), 0.3),
)  # fmt: skip
# What each method is, said a second time: temperatures of its students (None: the config's), and what distils.
EXPECTED: dict[str, tuple[list[float | None], type[BaseDistiller]]] = {
    "tau=1": ([1], NoDistillation),
    "tau=5": ([5], NoDistillation),
    "vanilla-md": ([1, 1], BiPMD),
    "vanilla-md-tau": ([None, None], BiPMD),
    "uni-pmd": ([1, None], UniPMD),
    "bi-pmd": ([1, None], BiPMD),
    "auto-pmd": ([1, None], AutoPMD),
    "dynamic-md": ([1, None], DynamicMD),
    "lsmd": ([1, None], LSMD),
    "lssd": ([1], LSSD),
    "lssd-selective": ([1], LSSD),
    "lssd-whole": ([1], LSSD),
    "multi-distill": ([1], MultiDistill),
    "ensemble-distill": ([1], EnsembleDistill),
}
LEARNT: dict[str, type] = {
    "unimax": UniMaxSampler, "cooldown": CooldownSampler, "order-matters": OrderMattersSampler,
    "multidds-s": MultiDDSSampler, "multiuat": MultiUATSampler, "chi-ibr": ChiIBRSampler, "ccl-m": CCLMSampler,
}  # fmt: skip


def samplers_of(row: Method) -> list[Sampler]:
    return make_samplers(row.samplers, SIZES, CONFIG, FOUND)


def test_the_table_above_has_every_row_that_it_knows_of() -> None:
    assert EXPECTED.keys() | LEARNT.keys() == METHODS.keys()
    assert LEARNT.keys() == SAMPLERS.keys()
    assert all(name == row.name for name, row in METHODS.items())


@pytest.mark.parametrize("name", METHODS)
def test_every_row_builds_its_samplers_and_its_distiller(name: str) -> None:
    row = get_method(name)
    samplers = samplers_of(row)
    assert len(samplers) == len(row.samplers) == len(student_labels(row, 3.0))
    for sampler in samplers:
        assert sampler.probabilities().shape == (len(SIZES),)
        assert float(sampler.probabilities().sum()) == pytest.approx(1)
    make = make_distiller(row.distiller, row.options, CONFIG, FOUND)
    distiller = make([nn.Linear(1, 1) for _ in samplers], len(SIZES), CONFIG.distill)
    assert distiller.weights().shape == (len(samplers), len(SIZES))
    assert row.about and row.passes and row.paper and len(row.reported) == 4


@pytest.mark.parametrize("name", EXPECTED)
def test_every_row_is_the_method_it_says(name: str) -> None:
    taus, distiller = EXPECTED[name]
    row = get_method(name)
    assert row.distiller is distiller
    samplers = samplers_of(row)
    assert len(samplers) == len(taus)
    for sampler, tau in zip(samplers, taus, strict=True):
        expected = temperature_probabilities(SIZES, 3.0 if tau is None else tau)
        torch.testing.assert_close(sampler.probabilities(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", LEARNT)
def test_a_learnt_sampler_is_a_method_of_one_student(name: str) -> None:
    row = get_method(name)
    (sampler,) = samplers_of(row)
    assert (type(sampler), row.distiller, student_labels(row, 3.0)) == (LEARNT[name], NoDistillation, [name])


def test_the_three_gates_of_lssd() -> None:
    gates = {name: METHODS[name].options["gate"] for name in METHODS if name.startswith("lssd")}
    assert gates == {"lssd": "adaptive", "lssd-selective": "selective", "lssd-whole": "whole"}


def test_auxiliary_runs_follow_from_samplers_and_distiller() -> None:
    def wanted(name: str, samplers: list[str] | None = None, **changes: bool) -> tuple[str, ...]:
        row = get_method(name, samplers)
        return needed_runs(row.samplers, row.distiller, preset("toy", **changes))

    expected = {"chi-ibr": ("plain",), "ccl-m": ("bilingual",), "multi-distill": ("bilingual",), "lsmd": ("auto-pmd",),
                "ensemble-distill": ("singles",)}  # fmt: skip
    assert {name: found for name in METHODS if (found := wanted(name))} == expected
    assert all((METHODS[name].auxiliary == "none") == (name not in expected) for name in METHODS)
    assert wanted("auto-pmd", ["tau=1", "chi-ibr"]) == ("plain",), "whichever student samples so"
    assert wanted("lsmd", ["chi-ibr", "ccl-m"]) == ("plain", "bilingual", "auto-pmd")
    assert wanted("ccl-m", ccl_bilingual=False) == ()


def test_what_was_not_gathered_is_missed() -> None:
    with pytest.raises(ValueError, match="plain_loss"):
        make_samplers(["chi-ibr"], SIZES, CONFIG)
    with pytest.raises(ValueError, match="alphas"):
        make_distiller(LSMD, {}, CONFIG)


@pytest.mark.parametrize(("asked", "meant"), [("chi-ibt", "chi-ibr"), ("multiaut", "multiuat"), ("unimx", "unimax")])
def test_an_unknown_sampler_suggests_the_nearest(asked: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"no sampler '{asked}'; did you mean '{meant}'"):
        get_method("auto-pmd", ["tau=1", asked])


@pytest.mark.parametrize(("name", "tau"), [("tau=3", 3.0), ("tau=2.5", 2.5), ("tau=inf", math.inf), ("tau=1e2", 100.0)])
def test_any_temperature_is_a_method(name: str, tau: float) -> None:
    row = get_method(name)
    assert (row.name, row.distiller) == (name, NoDistillation)
    (sampler,) = make_samplers(row.samplers, SIZES, preset("toy", tau=7.0))
    assert torch.equal(sampler.probabilities(), temperature_probabilities(SIZES, tau))


@pytest.mark.parametrize(("asked", "meant"), [("auto-pdm", "auto-pmd"), ("autopmd", "auto-pmd"), ("unipmd", "uni-pmd")])
def test_an_unknown_name_suggests_the_nearest_and_lists_all(asked: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"no method called '{asked}'; did you mean '{meant}'") as raised:
        get_method(asked)
    assert all(name in str(raised.value) for name in METHODS)


@pytest.mark.parametrize("name", ["zzz", "nope"])
def test_a_name_like_nothing_suggests_nothing(name: str) -> None:
    with pytest.raises(UserError, match=f"no method called '{name}'; There are tau=1"):
        get_method(name)


@pytest.mark.parametrize("specification", ["tau=0", "tau=-3", "tau=nan", "tau=", "tau=two", "5", "temperature=5", ""])
def test_a_sampler_that_is_no_temperature_is_refused(specification: str) -> None:
    with pytest.raises(UserError, match=r"write tau=1, tau=5 or tau=inf"):
        parse_tau(specification)


def test_parse_tau() -> None:
    assert [parse_tau(f"tau={word}") for word in ("1", "5", "2.5", "inf")] == [1.0, 5.0, 2.5, math.inf]


# ---------------------------------------------------------------- other samplers than the row's own


def test_three_samplers_make_three_students() -> None:
    row = get_method("auto-pmd", ["tau=1", "tau", "tau=inf"])
    samplers = samplers_of(row)
    for sampler, tau in zip(samplers, (1, 3, math.inf), strict=True):
        assert torch.equal(sampler.probabilities(), temperature_probabilities(SIZES, tau))
    distiller = row.distiller([nn.Linear(1, 1) for _ in samplers], len(SIZES), DistillConfig())
    assert isinstance(distiller, AutoPMD)
    assert len(distiller.teachers(0, 0)) == 2
    assert METHODS["auto-pmd"].samplers == ("tau=1", "tau"), "the table itself is not changed"


def test_any_sampler_serves_any_student() -> None:
    row = get_method("auto-pmd", ["tau=1", "chi-ibr", "multiuat", "tau=inf"])
    assert [type(sampler).__name__ for sampler in samplers_of(row)] == [
        "TemperatureSampler", "ChiIBRSampler", "MultiUATSampler", "TemperatureSampler"
    ]  # fmt: skip
    assert student_labels(row, 3.0)[1] == "auto-pmd model_2 (chi-ibr)"
    assert student_labels(get_method("lssd", ["ccl-m"]), 3.0) == ["lssd (ccl-m)"]


@pytest.mark.parametrize("name", [name for name, (taus, _) in EXPECTED.items() if len(taus) > 1])
def test_mutual_distillation_needs_two(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} with 1 sampler.*at least two students"):
        get_method(name, ["tau=1"])


def test_a_single_model_may_have_any_sampler() -> None:
    (sampler,) = samplers_of(get_method("tau=1", ["tau"]))
    assert torch.equal(sampler.probabilities(), temperature_probabilities(SIZES, 3))


# ---------------------------------------------------------------- seats


def test_a_single_model_sits_where_it_would_in_a_mutual_run() -> None:
    """tau=1 starts as model_1 of auto-pmd, every flattened model as model_2."""
    assert [get_method(name).first_seat for name in ("tau=1", "tau=1.0", "auto-pmd", "uni-pmd")] == [0] * 4
    assert [get_method(name).first_seat for name in ("tau=5", "tau=3", "tau=inf")] == [1] * 3


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("row", "labels"),
    [
        (get_method("tau=1"), ["tau=1"]),
        (get_method("tau=2.50"), ["tau=2.5"]),
        (get_method("tau=inf"), ["tau=inf"]),
        (get_method("auto-pmd"), ["auto-pmd model_1 (tau=1)", "auto-pmd model_2 (tau=3)"]),
        (
            get_method("bi-pmd", ["tau=1", "tau", "tau=inf"]),
            ["bi-pmd model_1 (tau=1)", "bi-pmd model_2 (tau=3)", "bi-pmd model_3 (tau=inf)"],
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Method) else "",
)
def test_labels_of_the_students(row: Method, labels: list[str]) -> None:
    assert student_labels(row, 3.0) == labels
