"""What the rival methods can be told: samplers other than temperature, and distillation from teachers that stand still.

Two sections of `Config`. Where a method's own paper or code has a value, it is named beside ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pmd_lite.config.checks import check, check_kinds

Uncertainty = Literal["pretp", "exptp", "vartp", "comtp", "enttp", "enteos", "xentropy"]


@dataclass(frozen=True)
class SamplingConfig:
    """Samplers other than plain temperature."""

    unimax_cap: float = 5.0
    """UniMax: times a language may be repeated at the most within the budget (its E)."""
    unimax_budget: float = 1.0
    """UniMax: the budget, in passes over the whole training data (its B)."""
    cooldown: Literal["linear", "cosine"] = "linear"
    """How the temperature of `cooldown` falls."""
    cooldown_from: float = 5.0
    """Temperature at the first update; inf begins uniform."""
    cooldown_to: float = 1.0
    """Temperature at the last update."""
    switch_at: float = 0.5
    """order-matters: fraction of training on the large languages alone, before all join at the config's tau."""
    scorer_lr: float = 1e-3
    """MultiDDS-S, MultiUAT: Adam's step for the logits. As published 1e-4: it moves the odds by 4 % per update."""
    scorer_steps: int = 200
    """MultiDDS-S, MultiUAT: Adam steps per update (M, as published)."""
    scorer_every: int = 0
    """MultiDDS-S, MultiUAT: training updates between two of the scorer (published 1000, 2000); 0 means one epoch."""
    scorer_tau: float = 1.0
    """MultiDDS-S, MultiUAT: temperature of the distribution they start from."""
    scorer_scaled: bool = False
    """Weigh each reward by the language's own probability (the on-policy gradient; off as published)."""
    probe_tokens: int = 1024
    """MultiDDS-S, MultiUAT: target tokens of the small batches they look at (published 8 sentences; 1024 tokens)."""
    uncertainty: Uncertainty = "exptp"
    """MultiUAT: which measure of uncertainty is the reward."""
    uncertainty_passes: int = 5
    """MultiUAT: forward passes with dropout (K)."""
    official_sign: bool = False
    """MultiUAT's comtp as its code has it, which rewards certainty; else the sign its text intends."""
    chi_radius: float = 0.05
    """chi-IBR: radius rho of the chi-square ball around the data's own shares."""
    chi_ema: float = 0.1
    """chi-IBR: weight of the newest batch in the running loss of its language."""
    chi_floor: float = 0.2
    """chi-IBR: least q_l / p_l inside the bisection (0: none)."""
    chi_warmup: int = 1
    """chi-IBR: epochs at the data's own shares."""
    ccl_threshold: float = 0.8
    """CCL-M: a small language joins when the competence of its large relatives reaches this (ours; paper's unknown)."""
    ccl_every: int = 0
    """CCL-M: updates between two looks at the competences; 0 means one epoch (ours)."""
    ccl_wait: float = 0.3
    """CCL-M: fraction of training after which all that still wait are let in (ours)."""
    ccl_rule: Literal["max", "avg"] = "max"
    """CCL-M: competence of the most similar large language, or their average weighted by similarity."""
    ccl_top_k: int = 100
    """CCL-M: languages are as similar as the share of their k most frequent pieces that they have in common (ours)."""
    ccl_bilingual: bool = True
    """CCL-M: measure competence against bilingual models (L more trainings), else against a loss of 0 (ours)."""

    def __post_init__(self) -> None:
        positive = ("unimax_cap", "unimax_budget", "cooldown_from", "cooldown_to", "scorer_tau", "scorer_lr")
        least = {"scorer_steps": 1, "scorer_every": 0, "probe_tokens": 16, "uncertainty_passes": 1, "chi_radius": 0,
                 "chi_warmup": 0, "ccl_threshold": 0, "ccl_every": 0, "ccl_top_k": 1}  # fmt: skip
        check_kinds(self, at_least=least)
        for name in positive:
            check(getattr(self, name) > 0, f"{name}={getattr(self, name)}", "must be positive")
        for name in ("switch_at", "chi_floor", "ccl_wait"):
            check(0 <= getattr(self, name) <= 1, f"{name}={getattr(self, name)}", "must lie in [0, 1]")
        check(0 < self.chi_ema <= 1, f"chi_ema={self.chi_ema}", "must lie in (0, 1]")


@dataclass(frozen=True)
class TeacherConfig:
    """Distillation from teachers that stand still: Multi-Distill's bilingual models, LSSD's own best snapshots."""

    md_weight: float = 0.5
    """Multi-Distill: weight of L_kd while a language is distilled (paper .5, code .9)."""
    md_temperature: float = 1.0
    """Multi-Distill: temperature of teacher and student in L_kd (code .6)."""
    md_top_k: int = 8
    """Multi-Distill: tokens of the teacher's distribution that are kept (paper 8, code 4); 0 keeps all."""
    md_rule: Literal["threshold", "adaptive", "fix"] = "threshold"
    """threshold: stop when the student leads by the margin. adaptive: fade out from 2 below. fix: never stop."""
    md_margin: float = 1.0
    """threshold: points by which the student must lead its teacher (BLEU; 100 x nats when decided by loss)."""
    md_criterion: Literal["bleu", "loss"] = "bleu"
    """Compare student and teacher by greedy dev BLEU, or by dev loss (cheaper)."""
    md_every: int = 0
    """Multi-Distill: updates between two comparisons (paper 3000); 0 means one epoch."""
    md_cache: bool = False
    """Multi-Distill: compute the teachers' top-k once, on disk in the run directory, instead of at every step."""
    lssd_weight: float = 2.5
    """LSSD: w in (L_ce + w L_kd) / 2 (released: 2.5 on TED M2O, .5 on TED O2M, 2 and .8 on WMT-6;
    presets ted8 and wmt6 take theirs by the direction of the corpus)."""
    lssd_warmup: int = 1
    """LSSD: epochs before any distillation."""

    def __post_init__(self) -> None:
        check_kinds(self, at_least={"md_top_k": 0, "md_every": 0, "md_margin": 0, "lssd_weight": 0, "lssd_warmup": 0})
        check(0 <= self.md_weight <= 1, f"md_weight={self.md_weight}", "a weight lies in [0, 1]")
        check(self.md_temperature > 0, f"md_temperature={self.md_temperature}", "a temperature is positive")
        check(not self.md_cache or self.md_top_k > 0, "md_cache with md_top_k=0", "the cache holds the k best: set k")
