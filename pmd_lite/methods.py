"""Every method as one row: a sampler for each student, and a distiller. To add a method, add a row (and its class)."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from pmd_lite.config import TEMPERATURE, Config
from pmd_lite.distillation.auto import AutoPMD, DynamicMD
from pmd_lite.distillation.lssd import LSSD
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.mutual import LSMD, BaseDistiller, BiPMD, EnsembleDistill, NoDistillation, UniPMD
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.errors import UserError, nearest, shown
from pmd_lite.interfaces import MakeDistiller, Sampler
from pmd_lite.sampling.ccl_m import CCLMSampler
from pmd_lite.sampling.chi_ibr import ChiIBRSampler
from pmd_lite.sampling.planned import CooldownSampler, OrderMattersSampler
from pmd_lite.sampling.scorer import MultiDDSSampler, MultiUATSampler
from pmd_lite.sampling.temperature import TemperatureSampler
from pmd_lite.sampling.unimax import UniMaxSampler


@dataclass(frozen=True)
class Method:
    """A row of the table.

    samplers: one specification for each student: "tau=5" with a number or inf, "tau" for the config's temperature, or
        a name of `methods.SAMPLERS`.
    passes: cost of one update of all students in forward passes F of one model (a backward pass is 2 F). Work that is
        done once an epoch or less often is named in words.
    paper: its source. auxiliary: the runs it needs besides its own.
    reported: mean BLEU in the paper's tables on TED-8-Diverse M2O, O2M, WMT-6 M2O, O2M; students separated by "/".
    first_seat: seat of the first student. A seat decides initial weights, dropout and order of the data. So tau=1
        (seat 0) starts exactly as model_1 of a mutual run, and a single flattened model (seat 1) as its model_2: every
        later difference between the two comes from distillation.
    options: further arguments of the distiller.
    """

    name: str
    samplers: tuple[str, ...]
    distiller: type[BaseDistiller]
    passes: str
    about: str
    paper: str
    auxiliary: str = "none"
    reported: tuple[str, str, str, str] = ("-", "-", "-", "-")
    first_seat: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


_ONE, _MUTUAL = NoDistillation, "this paper (2023)"
_ROWS = (
    Method("tau=1", ("tau=1",), _ONE, "3", "one model, pairs drawn in proportion to their size (Eq. 2)",
           "Arivazhagan et al. 2019", reported=("29.00", "22.75", "20.57", "18.92")),
    Method("tau=5", ("tau=5",), _ONE, "3", "one model, flattened sampling; any tau=X works, tau=inf too",
           "Arivazhagan et al. 2019", reported=("28.35 (tau=3)", "22.23 (tau=3)", "19.93", "18.63"), first_seat=1),
    Method("unimax", ("unimax",), _ONE, "3", "as even as a cap on repetitions allows", "Chung et al. 2023"),
    Method("cooldown", ("cooldown",), _ONE, "3", "temperature falls during training", "Li et al. 2024"),
    Method("order-matters", ("order-matters",), _ONE, "3", "large pairs alone first, then all at tau",
           "Choi et al. 2023"),
    Method("multidds-s", ("multidds-s",), _ONE, "3 + 6 L per update",
           "learnt: more of what helps the dev gradients", "Wang et al. 2020", reported=("27.00", "18.24", "-", "-")),
    Method("multiuat", ("multiuat",), _ONE, "3 + L (K + 1) per update", "learnt: more of what the model is unsure of",
           "Wu et al. 2021", reported=("27.83", "19.76", "-", "-")),
    Method("chi-ibr", ("chi-ibr",), _ONE, "3", "worst mixture in a chi-square ball, renewed every epoch",
           "Zhou et al. 2021", "one tau=1 run", ("29.74", "23.44", "-", "-")),
    Method("ccl-m", ("ccl-m",), _ONE, "3 + dev loss", "small pairs join after large relatives (reconstructed)",
           "Zhang et al. 2021", "L bilingual runs", ("28.34", "19.53", "-", "-")),
    Method("multi-distill", ("tau=1",), MultiDistill, "4 + dev BLEU", "taught by bilingual models until it leads them",
           "Tan et al. 2019", "L bilingual runs", ("29.52", "22.31", "20.18", "18.57")),
    Method("lssd", ("tau=1",), LSSD, "3 to 4 + dev loss", "taught by its own best snapshot per pair, adaptive gate",
           "Huang et al. 2022", reported=("30.77", "23.55", "21.17", "19.76"), options={"gate": "adaptive"}),
    Method("lssd-selective", ("tau=1",), LSSD, "3 to 4 + dev loss", "the same, gate per token", "Huang et al. 2022",
           options={"gate": "selective"}),
    Method("lssd-whole", ("tau=1",), LSSD, "3 to 4 + dev loss", "the same, no gate", "Huang et al. 2022",
           options={"gate": "whole"}),
    Method("vanilla-md", ("tau=1", "tau=1"), BiPMD, "8", "mutual distillation, both students at tau=1",
           "Zhang et al. 2018", reported=("-", "-", "20.93/20.97", "-")),
    Method("vanilla-md-tau", ("tau", "tau"), BiPMD, "8", "mutual distillation, both students at the config's tau",
           "Zhang et al. 2018", reported=("-", "-", "21.13/21.29", "-")),
    Method("uni-pmd", ("tau=1", "tau"), UniPMD, "6 to 8", "Eq. 5: per pair, only the worse student learns", _MUTUAL,
           reported=("29.76/29.97", "22.92/22.91", "20.76/21.74", "18.96/19.76")),
    Method("bi-pmd", ("tau=1", "tau"), BiPMD, "8", "Eq. 6: one fixed weight everywhere", _MUTUAL,
           reported=("30.31/30.42", "23.00/22.77", "21.61/21.92", "19.53/20.09")),
    Method("auto-pmd", ("tau=1", "tau"), AutoPMD, "8 + 20 rho", "Alg. 2: weights searched per pair", _MUTUAL,
           reported=("31.05/30.71", "23.31/23.28", "21.89/22.39", "20.16/20.48")),
    Method("dynamic-md", ("tau=1", "tau"), DynamicMD, "8 + 20 rho", "as auto-pmd, but one action for all pairs",
           _MUTUAL, reported=("-", "-", "22.06/22.11", "20.33/20.24")),
    Method("lsmd", ("tau=1", "tau"), LSMD, "8", "fixed weights per pair, those an auto-pmd run ended with", _MUTUAL,
           "one auto-pmd run", ("-", "-", "21.47/21.03", "18.94/19.46")),
    Method("ensemble-distill", ("tau=1",), EnsembleDistill, "5", "taught by a finished tau=1 and tau=X model together",
           "ours", "one tau=1 run, one at the config's tau"),
)  # fmt: skip
METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def get_method(name: str, samplers: Sequence[str] | None = None) -> Method:
    """The row `name` or "tau=X"; `samplers` replaces its own (three: three students). UserError for another name."""
    if not isinstance(name, str):
        raise UserError(f"method {shown(name)}: write its name, one of {', '.join(METHODS)}")
    if name in METHODS:
        row = METHODS[name]
    elif name.startswith("tau="):
        seat = 0 if parse_tau(name) == 1 else 1
        row = replace(METHODS["tau=5"], name=name, samplers=(name,), first_seat=seat, reported=("-", "-", "-", "-"))
    else:
        raise UserError(f"no method called {shown(name)}; {nearest(name, METHODS)}There are {', '.join(METHODS)}")
    if samplers is None:
        return row
    for specification in samplers:
        if specification != "tau" and specification not in SAMPLERS:
            parse_tau(specification)
    if len(row.samplers) == 1 != len(samplers):
        raise UserError(f"{name} takes 1 sampler, not {len(samplers)}: name as many")
    if len(row.samplers) > 1 and len(samplers) < 2:
        raise UserError(f"{name} with {len(samplers)} sampler(s): mutual distillation needs at least two students")
    return replace(row, samplers=tuple(samplers))


def student_labels(method: Method, tau: float) -> list[str]:
    """The students' names in tables and figures: "tau=1", "lssd", or "auto-pmd model_2 (tau=5)"."""
    labels = [name if name in SAMPLERS else f"tau={tau if name == 'tau' else parse_tau(name):g}"
              for name in method.samplers]  # fmt: skip
    if len(labels) > 1:
        return [f"{method.name} model_{i + 1} ({label})" for i, label in enumerate(labels)]
    if method.distiller is NoDistillation:
        return labels  # a single model is its sampler
    return [method.name if method.samplers == METHODS[method.name].samplers else f"{method.name} ({labels[0]})"]


@dataclass(frozen=True)
class Resources:
    """What auxiliary runs and the corpus give to a method; `auxiliary.resources` fills in what the method needs."""

    plain_loss: Tensor | None = None
    """[pair] training loss of a finished tau=1 run, nats per token (chi-IBR's b)."""
    bilingual_loss: Tensor | None = None
    """[pair] dev loss of each pair's bilingual model (CCL-M's H*)."""
    similarity: Tensor | None = None
    """[pair, pair] share of frequent pieces in common (CCL-M)."""
    teachers: Sequence[nn.Module] = field(default=())
    """Each pair's bilingual model, on the training device (Multi-Distill)."""
    teacher_scores: Tensor | None = None
    """[pair] dev BLEU or dev loss of those teachers: the one by which Multi-Distill decides."""
    teacher_cache: TopKCache | None = None
    """The teachers' predictions for the training data, when they were computed beforehand."""
    singles: Sequence[nn.Module] = field(default=())
    """Single models for all pairs, on the training device (EnsembleDistill)."""
    alphas: Tensor | None = None
    """[student, pair] weights that an Auto-PMD run ended with (LSMD)."""
    prepared: int = 0
    """Multiply-adds of the teachers' dev translations and predictions; auxiliary runs are not counted."""

    def need(self, name: str) -> Any:
        """The resource of this name. Raises ValueError when it was not gathered."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"resources lack {name}: gather them first")
        return value


Build = Callable[[Sequence[int], Config, Resources], Sampler]

SAMPLERS: dict[str, Build] = {
    "unimax": lambda sizes, config, _: UniMaxSampler(sizes, config.sampling),
    "cooldown": lambda sizes, config, _: CooldownSampler(sizes, config.sampling),
    "order-matters": lambda sizes, config, _: OrderMattersSampler(sizes, config.tau, config.sampling),
    "multidds-s": lambda sizes, config, _: MultiDDSSampler(sizes, config.sampling),
    "multiuat": lambda sizes, config, _: MultiUATSampler(sizes, config.sampling),
    "chi-ibr": lambda sizes, config, resources: ChiIBRSampler(sizes, resources.need("plain_loss"), config.sampling),
    "ccl-m": lambda sizes, config, resources: CCLMSampler(
        sizes, resources.need("bilingual_loss"), resources.need("similarity"), config.sampling
    ),
}
"""Samplers by name, for any student of any method. Besides these there are "tau=X" and "tau", the config's temperature.

You may add an entry of your own, and a row of your own to `METHODS`: both work in this process (lesson 16).
"""


def parse_tau(specification: str) -> float:
    """ "tau=5" -> 5.0. Raises UserError for what is not a temperature."""
    try:
        tau = float(specification.removeprefix("tau="))
    except ValueError:
        tau = -1.0
    if not specification.startswith("tau=") or not tau >= TEMPERATURE[0]:
        raise UserError(f"no sampler {shown(specification)}; {nearest(specification, SAMPLERS)}There are "
                        f"{', '.join(SAMPLERS)}. Or write tau=1, tau=5 or tau=inf (a positive temperature, at least "
                        "0.001), or tau for the config's")  # fmt: skip
    return tau


def make_samplers(
    specifications: Sequence[str], sizes: Sequence[int], config: Config, resources: Resources | None = None
) -> list[Sampler]:
    """One sampler for each student. sizes: [pair] training sentence pairs."""
    return [
        SAMPLERS[name](sizes, config, resources or Resources()) if name in SAMPLERS
        else TemperatureSampler(sizes, config.tau if name == "tau" else parse_tau(name))
        for name in specifications
    ]  # fmt: skip


def make_distiller(
    kind: type[BaseDistiller], options: Mapping[str, Any], config: Config, resources: Resources | None = None
) -> MakeDistiller:
    """A function that the trainer calls with its students; it holds the teachers or weights that a kind needs."""
    resources = resources or Resources()
    arguments: dict[str, Any] = dict(options)
    if issubclass(kind, LSSD | MultiDistill):
        arguments["settings"] = config.teacher
    if issubclass(kind, MultiDistill):
        arguments |= {"teachers": resources.teachers, "scores": resources.need("teacher_scores")}
        arguments["cache"] = resources.teacher_cache
    elif issubclass(kind, LSMD):
        arguments["alphas"] = resources.need("alphas")
    elif issubclass(kind, EnsembleDistill):
        arguments["singles"] = resources.singles
    return functools.partial(kind, **arguments)


def needed_runs(specifications: Sequence[str], kind: type[BaseDistiller], config: Config) -> tuple[str, ...]:
    """The auxiliary runs that a method needs, of "plain", "bilingual", "auto-pmd" and "singles"."""
    compares = "ccl-m" in specifications and config.sampling.ccl_bilingual
    needs = {
        "plain": "chi-ibr" in specifications,
        "bilingual": compares or issubclass(kind, MultiDistill),
        "auto-pmd": issubclass(kind, LSMD),
        "singles": issubclass(kind, EnsembleDistill),
    }
    return tuple(run for run, needed in needs.items() if needed)


def single_methods(config: Config) -> list[str]:
    """The methods of EnsembleDistill's teachers: tau=1, and the config's tau."""
    return list(dict.fromkeys(["tau=1", f"tau={config.tau:g}"]))


def decides_by_bleu(kind: type[BaseDistiller], config: Config) -> bool:
    """Whether training decides by dev BLEU; then BLEU's tokenizer is part of the run."""
    return issubclass(kind, MultiDistill) and config.teacher.md_criterion != "loss"
