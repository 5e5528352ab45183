"""Every choice of a run, as frozen dataclasses with one sentence per field.

A `Config` holds everything but the data and the method; `config.presets` has four. It round-trips through JSON
(`to_dict` / `from_dict`), which is what `config.json` in a run directory holds.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from pmd_lite.config.checks import check, check_kinds
from pmd_lite.config.rivals import SamplingConfig, TeacherConfig
from pmd_lite.errors import UserError

LEAST_TOKENS = 16
"""The smallest budget of a micro-batch."""

Fidelity = Literal["paper", "released"]
StepSize = Literal["constant", "to_0.2", "early_stop", "to_0"]
Tokenize = Literal[
    "auto", "13a", "zh", "ja-mecab", "ko-mecab", "flores200", "flores101", "spBLEU-1K", "char", "intl", "none"
]
Best = Literal["mean", "pooled-smoothed"]


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes ids."""

    vocab_size: int = 800
    """Sentencepiece pieces: of the one joint model, or of each language's model."""
    kind: Literal["joint", "per-language"] = "joint"
    """One sentencepiece model over all text (WMT-6), or one for each language (TED-8)."""
    tau: float = 5.0
    """Temperature of the sample the joint model is trained on, so that small languages get their pieces."""
    max_sentences: int = 2_000_000
    """Sentences drawn for training the model at the most."""
    byte_fallback: bool = False
    """Write rare and unknown characters as UTF-8 bytes, so that any text comes back whole; takes 256 of the pieces."""
    tags: Literal["paper", "released"] = "paper"
    """paper: target tag before the source. released: encoder tag (source's in M2O), decoder tag predicted first."""

    def __post_init__(self) -> None:
        check_kinds(self, at_least={"max_sentences": 1})
        check(self.vocab_size >= 16, f"vocab_size={self.vocab_size}", "take at least 16 pieces")
        enough = self.vocab_size >= 272 or not self.byte_fallback
        check(enough, f"vocab_size={self.vocab_size} with byte_fallback", "take at least 272, as 256 are bytes")
        check(self.tau > 0, f"tau={self.tau}", "a temperature is positive")


@dataclass(frozen=True)
class ModelConfig:
    """The Transformer's shape (appendix C of the paper for `wmt6`)."""

    d_model: int = 64
    """Width of embeddings and layers."""
    heads: int = 4
    """Attention heads; must divide d_model."""
    encoder_layers: int = 2
    """Encoder layers."""
    decoder_layers: int = 2
    """Decoder layers."""
    ffn: int = 256
    """Width of the feed-forward layers."""
    dropout: float = 0.1
    """Dropout on embeddings and sub-layer outputs."""
    attention_dropout: float = 0.0
    """Dropout on attention weights."""
    norm: Literal["pre", "post"] = "pre"
    """Where LayerNorm stands; the released code uses pre."""
    tie: Literal["all", "decoder", "none"] = "all"
    """Which embeddings share one table with the output layer."""
    embedding_norm: bool = False
    """An extra LayerNorm on the embeddings (the released code has one)."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Nonlinearity of the feed-forward layers (opus-mt has swish)."""
    output_bias: bool = False
    """A learnt number for each token that is added to its logit (Marian has one)."""
    max_len: int = 256
    """Longest sequence in tokens, source or target."""

    def __post_init__(self) -> None:
        check_kinds(self, at_least={"d_model": 2, "heads": 1, "ffn": 1, "max_len": 8})
        check(
            self.d_model % self.heads == 0, f"d_model={self.d_model}, heads={self.heads}", "heads must divide d_model"
        )
        check(self.d_model % 2 == 0, f"d_model={self.d_model}", "must be even (sine and cosine positions)")
        check(min(self.encoder_layers, self.decoder_layers) >= 1, "layers", "take at least one on each side")
        for name in ("dropout", "attention_dropout"):
            check(0 <= getattr(self, name) < 1, f"{name}={getattr(self, name)}", "must lie in [0, 1)")


@dataclass(frozen=True)
class OptimConfig:
    """Loss and optimiser."""

    lr: float = 2e-3
    """Peak learning rate, reached at the end of warm-up (Adam, then inverse square root)."""
    warmup: int = 200
    """Updates of linear warm-up."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates."""
    eps: float = 1e-9
    """Adam's epsilon."""
    weight_decay: float = 0.0
    """Decoupled weight decay, as in AdamW: w -= lr * weight_decay * w (0.01 on WMT-6 in the released scripts)."""
    clip: float = 0.0
    """Gradient norm is clipped to this value; 0 is no clipping, as released."""
    label_smoothing: float = 0.1
    """eps of the smoothed target: 1 - eps on the gold token, eps / (V - 1) on every other."""

    def __post_init__(self) -> None:
        check_kinds(self, at_least={"eps": 0, "weight_decay": 0, "clip": 0})
        check(self.lr > 0, f"lr={self.lr}", "must be positive")
        check(0 <= self.label_smoothing < 1, f"label_smoothing={self.label_smoothing}", "must lie in [0, 1)")
        check(self.warmup >= 1, f"warmup={self.warmup}", "take at least one update")
        pair = isinstance(self.betas, list | tuple) and len(self.betas) == 2
        check(pair and all(isinstance(b, int | float) and 0 <= b < 1 for b in self.betas), f"betas={self.betas!r}",
              "write two numbers in [0, 1), such as 0.9 0.98")  # fmt: skip
        object.__setattr__(self, "betas", tuple(self.betas))


@dataclass(frozen=True)
class TrainConfig:
    """How long, in what portions, on what device."""

    steps: int = 1500
    """Updates of each student."""
    epochs: float = 0.0
    """Length in passes over the training data instead; above 0 it decides and `steps` is ignored."""
    max_steps: int = 0
    """With `epochs`: no more updates than these (200,000 in the released scripts of TED-8); 0 is no limit."""
    tokens: int = 1500
    """Token budget of one micro-batch: sentences x longest side."""
    accumulate: int = 1
    """Micro-batches per update, each of one pair with its own alpha; normalised by all their target tokens together."""
    turns: Literal["in-turn", "together"] = "in-turn"
    """in-turn (Alg. 1): a student learns from the others as they are, updated in this step or not. together: as they
    were before the step; then every student may be trained by a process of its own, whatever `accumulate` is."""
    shares: Literal["sentences", "batches"] = "sentences"
    """What P(l) is a share of. sentences: of the sentences drawn, as in Eq. 2 and the released code. batches: of the
    micro-batches, as Alg. 1 is written; pairs of long sentences then get less of their data than P(l), others more."""
    draws: Literal["iid", "stratified"] = "stratified"
    """iid: each pair drawn from P_i by chance, as in Alg. 1. stratified: dealt out, so that every pair has its share at
    any moment, up to one micro-batch."""
    eval_every: int = 0
    """Updates between evaluations (and checkpoints); 0 means once an epoch."""
    patience: int = 0
    """Stop after this many evaluations in which no student improved by the rule of `best`; 0 never stops early."""
    precision: Literal["fp32", "bf16", "fp16", "auto"] = "fp32"
    """Autocast type; fp16 (with a gradient scaler) needs CUDA. auto: what is fastest and safe here, with the reason."""
    compile: bool = False
    """torch.compile for every layer, a minute at the start; on a CPU updates were slower, on a GPU nobody measured."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto is CUDA when there is one, else CPU; MPS only on request."""
    seed: int = 1
    """Everything random in the run derives from it."""
    beam: int = 4
    """Beam width when the finished run translates its test sets (1 is greedy)."""
    length_penalty: float = 1.0
    """Exponent of the length in the hypothesis score."""
    tokenize: Tokenize = "auto"
    """sacreBLEU's tokenizer for BLEU. auto: by target language (13a where words have spaces, zh, ja-mecab, ko-mecab,
    char where they have none). 13a is what the released scripts take for all; flores200 is spBLEU."""

    def __post_init__(self) -> None:
        check_kinds(self, at_least={"seed": 0, "max_steps": 0, "eval_every": 0, "patience": 0, "length_penalty": 0})
        check(self.steps > 0 or self.epochs > 0, "steps=0 and epochs=0", "say how long to train with one of them")
        check(
            self.steps >= 0 and self.epochs >= 0, f"steps={self.steps}, epochs={self.epochs}", "neither can be negative"
        )
        check(self.tokens >= LEAST_TOKENS, f"tokens={self.tokens}",
              f"a micro-batch needs room for at least {LEAST_TOKENS} tokens")  # fmt: skip
        check(self.accumulate >= 1, f"accumulate={self.accumulate}", "take at least one micro-batch")
        check(self.beam >= 1, f"beam={self.beam}", "1 is greedy search, 5 is the paper's")


@dataclass(frozen=True)
class FidelityBundle:
    """Where the paper's text and the authors' released code differ in how a run goes, whatever its data set.

    Each is a field of DistillConfig, which says what it means; None there stands for the value here. What the two set
    for a data set and a direction (rho, intervals, epochs) is in `pmd_lite.config.published`.
    """

    rollback: bool
    start: float
    teacher_dropout: bool
    dead_zone: float
    ties: Literal["keep", "up"]
    alpha_clip: float
    trial_data: Literal["per-pair", "head"]
    decide_by: Literal["nll", "smoothed"]
    best: Best


FIDELITY: dict[str, FidelityBundle] = {
    "paper": FidelityBundle(True, 0.0, False, 0.0, "keep", 1.0, "per-pair", "nll", "mean"),
    "released": FidelityBundle(
        False, 4 / 74, True, 0.05 * math.log(2), "up", 0.98, "head", "smoothed", "pooled-smoothed"
    ),
}


@dataclass(frozen=True)
class DistillConfig:
    """Mutual distillation. The fields that default to None come from the `fidelity` bundle."""

    alpha: float = 0.4
    """Weight of Uni-PMD and Bi-PMD (the paper searches .2 .4 .6 .8)."""
    alpha0: float = 0.1
    """Weight every pair of Auto-PMD starts from."""
    update_every: int = 0
    """Updates between two decisions of Uni-PMD or Auto-PMD (the paper's T); 0 leaves it to `update_epochs`."""
    update_epochs: float = 1.0
    """The same in epochs, where `update_every` is 0: 1 in the paper, 1 to 3 in the released scripts."""
    trial_ratio: float = 0.1
    """rho: share of the training data a trial trains on."""
    step_size: StepSize = "to_0"
    """Schedule of mu, the logit-space step of Auto-PMD (Eq. 12 is to_0)."""
    fidelity: Fidelity = "paper"
    """paper follows the text, released follows the authors' code; each field below can also be set alone."""
    rollback: bool | None = None
    """True: every trial is undone (Alg. 2 copies the model). False: the released code's live trials."""
    start: float | None = None
    """Fraction of training before distillation begins (released: after 4 of 74 epochs)."""
    teacher_dropout: bool | None = None
    """Teacher in train mode (its own dropout active) during ordinary steps."""
    dead_zone: float | None = None
    """Uni-PMD: nats per token by which a student must lead before it stops learning (released: 0.05 bit)."""
    ties: Literal["keep", "up"] | None = None
    """Action taken first when trials tie."""
    alpha_clip: float | None = None
    """Upper clip of alpha in every inverse sigmoid; 1 is none. As released (0.98) a trial shifts the weight itself and
    takes the shift back through the clip, so a weight near 1 falls at each search, whatever the search chooses."""
    trial_data: Literal["per-pair", "head"] | None = None
    """per-pair: rho of every pair's sentences. head, as released: the first rho of the updates of the coming epoch, of
    which model_1 takes every second one from the stream of model_2."""
    decide_by: Literal["nll", "smoothed"] | None = None
    """Dev loss that decisions compare: plain NLL or label-smoothed cross-entropy."""
    best: Best | None = None
    """Which weights of a student are kept, with or without distillation. mean: those with the lowest NLL per token,
    averaged over the pairs. pooled-smoothed, as released: the lowest label-smoothed loss per token of all dev sets
    together, in which the pairs with the largest dev sets decide."""

    def __post_init__(self) -> None:
        check_kinds(self, at_least={"update_every": 0, "dead_zone": 0})
        check(self.fidelity in FIDELITY, f"fidelity={self.fidelity!r}", "choose 'paper' or 'released'")
        for name in ("alpha", "alpha0"):
            check(0 <= getattr(self, name) <= 1, f"{name}={getattr(self, name)}", "a weight lies in [0, 1]")
        check(self.update_epochs > 0, f"update_epochs={self.update_epochs}", "must be positive; the paper takes 1")
        check(0 < self.trial_ratio <= 1, f"trial_ratio={self.trial_ratio}", "rho lies in (0, 1]; the paper takes 0.1")
        if self.alpha_clip is not None:
            check(0 < self.alpha_clip <= 1, f"alpha_clip={self.alpha_clip}", "lies in (0, 1]; 1 is no clip")
        if self.start is not None:
            check(0 <= self.start < 1, f"start={self.start}", "a fraction of training, in [0, 1)")

    @property
    def resolved(self) -> FidelityBundle:
        """The bundle with the fields that were set by hand."""
        names = [f.name for f in dataclasses.fields(FidelityBundle)]
        mine = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return dataclasses.replace(FIDELITY[self.fidelity], **mine)


@dataclass(frozen=True)
class Config:
    """All of a run but its data and its method."""

    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """Text to ids."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Shape of every student."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Loss and optimiser."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """Length, batches, device, seed."""
    distill: DistillConfig = field(default_factory=DistillConfig)
    """Mutual distillation."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """Samplers other than plain temperature."""
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    """Distillation from teachers that stand still."""
    tau: float = 5.0
    """Temperature of the student that favours small languages (5 on WMT-6, 3 on TED-8)."""

    def __post_init__(self) -> None:
        check(type(self.tau) in (int, float) and self.tau > 0, f"tau={self.tau!r}", "a temperature is positive")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; `from_dict` gives the same Config back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Config:
        """Inverse of `to_dict`; what is not named has its default. Raises UserError on an unknown field or value."""
        return typing.cast(Config, _build(cls, data, "config"))


def _build(cls: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise UserError(f"{where} should be an object with the fields of {cls.__name__}, found {data!r}")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise UserError(f"{where} has unknown field(s) {', '.join(unknown)}; known: {', '.join(hints)}")
    values = {
        name: _build(hints[name], value, f"{where}.{name}") if dataclasses.is_dataclass(hints[name]) else value
        for name, value in data.items()
    }
    return cls(**values)
