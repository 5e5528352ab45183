"""Settings of the rival methods: samplers other than temperature, and distillation from teachers that are not trained.

Two sections of `Config`. If a method's own paper or code has another value, the field names it.
"""

from dataclasses import dataclass
from typing import Literal

from pmd_lite.config.fields import MOST, TEMPERATURE, check, check_kinds

Uncertainty = Literal["pretp", "exptp", "vartp", "comtp", "enttp", "enteos", "xentropy"]


@dataclass(frozen=True)
class SamplingConfig:
    """Samplers other than plain temperature."""

    unimax_cap: float = 5.0
    """UniMax: within the budget, repeat a language at most this many times (its E)."""
    unimax_budget: float = 1.0
    """UniMax: the budget, in passes over the whole training data (its B)."""
    cooldown: Literal["linear", "cosine"] = "linear"
    """How the temperature of `cooldown` falls."""
    cooldown_from: float = 5.0
    """Temperature at the first update; inf begins uniform."""
    cooldown_to: float = 1.0
    """Temperature at the last update."""
    switch_at: float = 0.5
    """order-matters: fraction of training on only the large pairs; then all are drawn at the config's tau."""
    scorer_lr: float = 1e-3
    """MultiDDS-S, MultiUAT: Adam's step for the logits (published 1e-4, which moves the odds by 4 % per update)."""
    scorer_steps: int = 200
    """MultiDDS-S, MultiUAT: Adam steps per update (M, as published)."""
    scorer_every: int = 0
    """MultiDDS-S, MultiUAT: training updates between two scorer updates (published 1000, 2000); 0 means one epoch."""
    scorer_tau: float = 1.0
    """MultiDDS-S, MultiUAT: temperature of the initial distribution."""
    scorer_scaled: bool = False
    """MultiDDS-S, MultiUAT: weigh rewards by the language's own probability (on-policy gradient; published: off)."""
    probe_tokens: int = 1024
    """MultiDDS-S, MultiUAT: target tokens of the batches that measure rewards (published 8 sentences; 1024 tokens)."""
    uncertainty: Uncertainty = "exptp"
    """MultiUAT: the measure of uncertainty that is the reward."""
    uncertainty_passes: int = 5
    """MultiUAT: forward passes with dropout (K)."""
    official_sign: bool = False
    """MultiUAT: give comtp the sign of the code, which rewards certainty, instead of the sign that the text intends."""
    chi_radius: float = 0.05
    """chi-IBR: radius rho of the chi-square ball around the data's own shares."""
    chi_ema: float = 0.1
    """chi-IBR: weight of the newest batch in the moving average of its language's loss."""
    chi_floor: float = 0.2
    """chi-IBR: smallest allowed q_l / p_l inside the bisection (0: no limit)."""
    chi_warmup: int = 1
    """chi-IBR: epochs at the data's own shares."""
    ccl_threshold: float = 0.8
    """CCL-M: a small language joins when its large relatives reach this competence (ours; the paper gives no value)."""
    ccl_every: int = 0
    """CCL-M: updates between two measurements of the competences; 0 means one epoch (ours)."""
    ccl_wait: float = 0.3
    """CCL-M: fraction of training after which all languages join (ours)."""
    ccl_rule: Literal["max", "avg"] = "max"
    """CCL-M: use the competence of the most similar large language, or the average weighted by similarity."""
    ccl_top_k: int = 100
    """CCL-M: the similarity of two languages is the share of their k most frequent pieces that both have (ours)."""
    ccl_bilingual: bool = True
    """CCL-M: measure competence relative to bilingual models (L more trainings), else to a loss of 0 (ours)."""

    def __post_init__(self) -> None:
        unit, tau = (0.0, 1.0), TEMPERATURE
        check_kinds(self, limits={
            "unimax_cap": (1e-6, MOST), "unimax_budget": (1e-6, MOST), "cooldown_from": tau, "cooldown_to": tau,
            "scorer_tau": tau, "scorer_lr": (1e-12, 100), "scorer_steps": (1, MOST), "probe_tokens": (16, MOST),
            "uncertainty_passes": (1, 1000), "ccl_top_k": (1, MOST), "switch_at": unit, "chi_floor": unit,
            "ccl_wait": unit, "chi_ema": (1e-6, 1),
        })  # fmt: skip


@dataclass(frozen=True)
class TeacherConfig:
    """Distillation from teachers that are not trained: Multi-Distill's bilingual models, LSSD's own best snapshots.

    Multi-Distill: "paper" is Tan et al. 2019; "code" has the defaults of github.com/RayeRen/multilingual-kd-pytorch,
    commit a369a3e. The paper on Pareto Mutual Distillation does not say which settings it used.
    """

    md_weight: float = 0.5
    """Multi-Distill: weight of L_kd while a language is distilled (paper .5, code .9)."""
    md_temperature: float = 1.0
    """Multi-Distill: temperature of teacher and student in L_kd (paper 1, code .6)."""
    md_top_k: int = 8
    """Multi-Distill: keep this many tokens of the teacher's distribution (paper 8, code 4); 0 keeps all."""
    md_rule: Literal["threshold", "adaptive", "fix"] = "threshold"
    """Multi-Distill. threshold (paper): stop when the student leads by the margin. adaptive: fade out from 2 points
    below. fix (code): never stop."""
    md_margin: float = 1.0
    """Multi-Distill, threshold: points by which the student must lead its teacher (BLEU, or 100 x nats of loss)."""
    md_criterion: Literal["bleu", "loss"] = "bleu"
    """Multi-Distill: compare student and teacher by greedy dev BLEU, or by dev loss (cheaper)."""
    md_every: int = 0
    """Multi-Distill: updates between two comparisons (paper 3000); 0 means one epoch."""
    md_cache: bool = False
    """Multi-Distill: compute the teachers' top-k once and store it in the run directory, instead of at every step."""
    lssd_weight: float = 2.5
    """LSSD: w in (L_ce + w L_kd) / 2. Released: 2.5 on TED M2O, .5 on TED O2M, 2 and .8 on WMT-6; the presets ted8 and
    wmt6 choose by the direction of the corpus."""
    lssd_warmup: int = 1
    """LSSD: epochs before any distillation."""

    def __post_init__(self) -> None:
        check_kinds(self, limits={"md_weight": (0, 1), "md_temperature": (0.01, 100)})
        enough = self.md_top_k > 0 or not self.md_cache
        check(enough, "md_cache with md_top_k=0", "the cache holds the k best tokens, so set md_top_k")
