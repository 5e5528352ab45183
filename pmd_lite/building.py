"""From names to objects: the samplers and the distiller of a method, with what they need from elsewhere."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.config import Config
from pmd_lite.distillation.lssd import LSSD
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.mutual import LSMD, NoDistillation
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Sampler
from pmd_lite.sampling.ccl_m import CCLMSampler
from pmd_lite.sampling.chi_ibr import ChiIBRSampler
from pmd_lite.sampling.scheduled import CooldownSampler, OrderMattersSampler
from pmd_lite.sampling.scorer import MultiDDSSampler, MultiUATSampler
from pmd_lite.sampling.temperature import TemperatureSampler
from pmd_lite.sampling.unimax import UniMaxSampler
from pmd_lite.training.trainer import MakeDistiller


@dataclass(frozen=True)
class Resources:
    """What auxiliary runs and the corpus hand to a method; `auxiliary.gather` fills in what the method asks for."""

    plain_loss: Tensor | None = None
    """[pair] training loss of a finished tau=1 run, nats per token (chi-IBR's b)."""
    bilingual_loss: Tensor | None = None
    """[pair] dev loss of each pair's bilingual model (CCL-M's H*)."""
    similarity: Tensor | None = None
    """[pair, pair] share of frequent pieces in common (CCL-M)."""
    teachers: Sequence[nn.Module] = field(default=())
    """Each pair's bilingual model, on the training device (Multi-Distill)."""
    teacher_scores: Tensor | None = None
    """[pair] dev BLEU or dev loss of those teachers, whichever Multi-Distill decides by."""
    teacher_cache: TopKCache | None = None
    """What the teachers predict for the training data, when it was computed beforehand."""
    alphas: Tensor | None = None
    """[student, pair] weights that an Auto-PMD run ended with (LSMD)."""
    prepared: int = 0
    """Multiply-adds that this took, auxiliary runs aside: the teachers' dev translations and predictions."""


def _there(value: Any, what: str) -> Any:
    if value is None:
        raise ValueError(f"resources lack {what}: gather them first")
    return value


Build = Callable[[Sequence[int], Config, Resources], Sampler]

SAMPLERS: dict[str, Build] = {
    "unimax": lambda sizes, config, _: UniMaxSampler(sizes, config.sampling),
    "cooldown": lambda sizes, config, _: CooldownSampler(sizes, config.sampling),
    "order-matters": lambda sizes, config, _: OrderMattersSampler(sizes, config.tau, config.sampling),
    "multidds-s": lambda sizes, config, _: MultiDDSSampler(sizes, config.sampling),
    "multiuat": lambda sizes, config, _: MultiUATSampler(sizes, config.sampling),
    "chi-ibr": lambda sizes, config, found: ChiIBRSampler(
        sizes, _there(found.plain_loss, "plain_loss"), config.sampling
    ),
    "ccl-m": lambda sizes, config, found: CCLMSampler(
        sizes, _there(found.bilingual_loss, "bilingual_loss"), _there(found.similarity, "similarity"), config.sampling
    ),
}
"""Samplers by name, for any student of any method. Beside them "tau=X" and "tau", the config's temperature.

An entry of your own works like the others in this process (lesson 16), as does a row of your own in `methods.METHODS`.
"""


def parse_tau(specification: str) -> float:
    """ "tau=5" -> 5.0. Raises UserError."""
    try:
        tau = float(specification.removeprefix("tau="))
    except ValueError:
        tau = -1.0
    if not specification.startswith("tau=") or not tau > 0:
        raise UserError(f"sampler {specification!r}: write tau=1, tau=5 or tau=inf (a positive temperature), or tau")
    return tau


def check_sampler(specification: str) -> None:
    """Raises UserError unless `specification` names a sampler."""
    if specification == "tau" or specification in SAMPLERS:
        return
    if specification.startswith("tau"):
        parse_tau(specification)
        return
    near = difflib.get_close_matches(specification, SAMPLERS, 1, 0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UserError(f"no sampler {specification!r}; {hint}There are {', '.join(SAMPLERS)}, and write tau=1, tau=5 or "
                    "tau=inf (a positive temperature), or tau for the config's")  # fmt: skip


def make_samplers(
    specifications: Sequence[str], sizes: Sequence[int], config: Config, found: Resources | None = None
) -> list[Sampler]:
    """One sampler for each student. sizes: [pair] training sentence pairs."""
    found = found or Resources()
    return [_sampler(specification, sizes, config, found) for specification in specifications]


def _sampler(specification: str, sizes: Sequence[int], config: Config, found: Resources) -> Sampler:
    if specification in SAMPLERS:
        return SAMPLERS[specification](sizes, config, found)
    return TemperatureSampler(sizes, config.tau if specification == "tau" else parse_tau(specification))


def make_distiller(
    kind: type[NoDistillation], options: Mapping[str, Any], config: Config, found: Resources | None = None
) -> MakeDistiller:
    """What the trainer calls with its students; the kinds with teachers or weights of their own get them here."""
    found = found or Resources()
    words: dict[str, Any] = dict(options)
    if issubclass(kind, LSSD):
        words["settings"] = config.teacher
    elif issubclass(kind, MultiDistill):
        scores = _there(found.teacher_scores, "teachers")
        words |= {"settings": config.teacher, "teachers": found.teachers, "scores": scores}
        words["cache"] = found.teacher_cache
    elif issubclass(kind, LSMD):
        words["alphas"] = _there(found.alphas, "alphas")
    return functools.partial(kind, **words)


def needs(specifications: Sequence[str], kind: type[NoDistillation], config: Config) -> tuple[str, ...]:
    """Auxiliary runs that a method takes, of "plain", "bilingual" and "auto-pmd"."""
    found = []
    if "chi-ibr" in specifications:
        found.append("plain")
    if issubclass(kind, MultiDistill) or ("ccl-m" in specifications and config.sampling.ccl_bilingual):
        found.append("bilingual")
    if issubclass(kind, LSMD):
        found.append("auto-pmd")
    return tuple(found)


def decides_by_bleu(kind: type[NoDistillation], config: Config) -> bool:
    """Whether dev BLEU decides anything in training, so that its tokenizer is part of what the run is."""
    return issubclass(kind, MultiDistill) and config.teacher.md_criterion != "loss"


def no_bilingual_loss(n_pairs: int) -> Tensor:
    """[pair] zeros: without bilingual models competence is exp(-H), the mean token probability."""
    return torch.zeros(n_pairs, dtype=torch.float64)
