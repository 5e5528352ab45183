"""Every setting of a run, as frozen dataclasses with one sentence per field.

A `Config` holds everything except the data and the method; `config.presets` has four. `to_dict` and `from_dict` convert
it to plain JSON types and back; `config.json` in a run directory stores it in this form.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pmd_lite.config.fields import MOST, TEMPERATURE, check, check_kinds, check_number, hints_of
from pmd_lite.config.rivals import SamplingConfig, TeacherConfig
from pmd_lite.errors import UserError, nearest, shown

LEAST_TOKENS = 16
"""The smallest budget of a micro-batch."""
BEAM = (1, 1000)
"""The narrowest and the widest beam; 1 is greedy search, the paper takes 5."""

Fidelity = Literal["paper", "released"]
StepSize = Literal["constant", "to_0.2", "early_stop", "to_0"]
Metric = Literal["bleu", "chrf", "ter"]
EngineName = Literal["ours", "ctranslate2"]
Show = Literal["auto", "bar", "lines", "dashboard", "off"]
Tokenize = Literal[
    "auto", "13a", "zh", "ja-mecab", "ko-mecab", "flores200", "flores101", "spBLEU-1K", "char", "intl", "none"
]
Best = Literal["mean", "pooled-smoothed"]
DecideBy = Literal["nll", "smoothed", "accuracy", "chrf"]


@dataclass(frozen=True)
class TokenizerConfig:
    """How text becomes ids."""

    vocab_size: int = 800
    """Number of sentencepiece pieces: of the joint model, or of each language's model."""
    kind: Literal["joint", "per-language"] = "joint"
    """One sentencepiece model over all text (WMT-6), or one for each language (TED-8)."""
    tau: float = 5.0
    """Temperature of the sample that trains the joint model; above 1, small languages get more pieces."""
    max_sentences: int = 2_000_000
    """At most this many sentences are drawn to train the model."""
    byte_fallback: bool = False
    """Write rare and unknown characters as UTF-8 bytes, so any text can be decoded again; takes 256 of the pieces."""
    tags: Literal["paper", "released"] = "paper"
    """paper: target tag before the source. released: an encoder tag (of the source in M2O) before the source, and the
    decoder predicts the target tag first."""

    def __post_init__(self) -> None:
        check_kinds(self, limits={"max_sentences": (1, MOST), "vocab_size": (16, 1e6), "tau": TEMPERATURE})
        enough = self.vocab_size >= 272 or not self.byte_fallback
        check(enough, f"vocab_size={self.vocab_size} with byte_fallback", "take at least 272: 256 pieces are bytes")


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
    """LayerNorm before or after each sublayer; the released code uses pre."""
    tie: Literal["all", "decoder", "none"] = "all"
    """Which embeddings share one table with the output layer: source and target, the target's, or none."""
    embedding_norm: bool = False
    """An extra LayerNorm on the embeddings (the released code has one)."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Nonlinearity of the feed-forward layers (opus-mt uses swish)."""
    output_bias: bool = False
    """Add a learnt number to the logit of each token (Marian has this)."""
    max_len: int = 256
    """Longest sequence in tokens, source or target."""

    def __post_init__(self) -> None:
        check_kinds(self, limits={
            "encoder_layers": (1, 1000), "decoder_layers": (1, 1000), "max_len": (8, 100_000), "d_model": (1, 65_536),
            "heads": (1, 65_536), "ffn": (1, 1e6), "dropout": (0, 0.9999), "attention_dropout": (0, 0.9999),
        })  # fmt: skip
        check(not (self.d_model % 2 or self.d_model % self.heads), f"d_model={self.d_model} with heads={self.heads}",
              "d_model must be even and divisible by heads")  # fmt: skip


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
    """Clip the gradient norm to this value; 0 does not clip, as released."""
    label_smoothing: float = 0.1
    """eps of the smoothed target: 1 - eps on the gold token, eps / (V - 1) on every other."""

    def __post_init__(self) -> None:
        check_kinds(self, limits={"eps": (0, 1), "weight_decay": (0, 1000), "lr": (1e-12, 1e38), "warmup": (1, MOST),
                                  "label_smoothing": (0, 0.9999)})  # fmt: skip
        pair = isinstance(self.betas, list | tuple) and len(self.betas) == 2
        check(pair and all(type(b) in (int, float) and 0 <= b < 1 for b in self.betas), f"betas={shown(self.betas)}",
              "write two numbers in [0, 1), such as 0.9 0.98")  # fmt: skip
        object.__setattr__(self, "betas", tuple(self.betas))


@dataclass(frozen=True)
class TrainConfig:
    """How long to train, in batches of what size, on what device."""

    steps: int = 1500
    """Updates of each student."""
    epochs: float = 0.0
    """Length in passes over the training data; if it is above 0, `steps` is ignored."""
    max_steps: int = 0
    """With `epochs`: at most this many updates (200,000 in the released scripts of TED-8); 0 means no limit."""
    tokens: int = 1500
    """Token budget of one micro-batch: sentences x longest side."""
    accumulate: int = 1
    """Micro-batches per update, each of one pair with its own alpha; the loss is divided by all their target tokens."""
    turns: Literal["in-turn", "together"] = "in-turn"
    """in-turn (Alg. 1): students are updated one after another, and each learns from the others as they are then.
    together: each learns from the others as they were before the step; then every student can have its own process,
    whatever `accumulate` is."""
    shares: Literal["sentences", "batches"] = "sentences"
    """What P(l) is a share of. sentences: of the sentences drawn, as in Eq. 2 and the released code. batches: of the
    micro-batches, as Alg. 1 says; then pairs with long sentences get less of their data than P(l), other pairs more."""
    draws: Literal["iid", "stratified"] = "stratified"
    """iid: draw each pair from P_i at random, as in Alg. 1. stratified: plan the order, so that every pair has its
    share at any moment, up to one micro-batch."""
    eval_every: int = 0
    """Updates between evaluations (and checkpoints); 0 means once an epoch."""
    keep_last: int = 0
    """Keep also the weights of so many last evaluations, in checkpoint/last, of which `average` takes the mean."""
    patience: int = 0
    """Stop after this many evaluations in which no student improved by the rule of `best`; 0 never stops early."""
    precision: Literal["fp32", "bf16", "fp16", "auto"] = "fp32"
    """Autocast type; fp16 (with a gradient scaler) needs CUDA. auto: the fastest safe one here; the run says why."""
    gradients: Literal["fp32", "bf16"] = "fp32"
    """How several processes send gradients. bf16 halves the messages; it rounds each gradient and each sum to 8 bits (2
    to 3 digits), so the run differs from that of one process by more than the order of sums."""
    compile: bool = False
    """torch.compile for every layer; takes a minute at the start. Slower on our CPU; not measured on a GPU."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: CUDA if there is a GPU, else CPU; never MPS."""
    seed: int = 1
    """Seed of everything random in the run."""
    beam: int = 4
    """Beam width when the finished run translates its test sets (1 is greedy)."""
    length_penalty: float = 1.0
    """Exponent of the length in the hypothesis score."""
    tokenize: Tokenize = "auto"
    """sacreBLEU's tokenizer for BLEU. auto: by target language (13a for languages with spaces between words; zh,
    ja-mecab, ko-mecab; char for other languages without spaces). The released scripts use 13a for all; flores200 is
    spBLEU."""

    def __post_init__(self) -> None:
        check_kinds(self, limits={
            "seed": (0, 2**63 - 1), "epochs": (0, 1e6), "tokens": (LEAST_TOKENS, MOST), "accumulate": (1, 1e6),
            "beam": BEAM, "length_penalty": (0, 10),
        })  # fmt: skip
        check(self.steps > 0 or self.epochs > 0, "steps=0 and epochs=0", "set one of them: how long to train")


@dataclass(frozen=True)
class FidelityBundle:
    """Settings in which the paper's text and the authors' released code differ for every data set.

    DistillConfig has a field of the same name that explains it; if that is None, the value here counts. The values that
    depend on data set and direction (rho, intervals, epochs) are in `pmd_lite.config.published`.
    """

    rollback: bool
    start: float
    teacher_dropout: bool
    dead_zone: float
    ties: Literal["keep", "up"]
    alpha_clip: float
    trial_data: Literal["per-pair", "head"]
    decide_by: DecideBy
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
    """Initial weight of every pair in Auto-PMD."""
    alpha_max: float = 1.0
    """Auto-PMD: no search raises a weight above this; 1: no limit (ours). Up to (1 - eps) / (2 - eps), 0.47 at a label
    smoothing eps of 0.1, the gold token keeps the largest share of the target, whatever the teacher predicts."""
    teacher: Literal["peers", "ensemble"] = "peers"
    """Who teaches in mutual distillation. peers: the other students. ensemble: the mean of all students' predictions,
    the learner's own included, without gradient (ours)."""
    update_every: int = 0
    """Updates between two decisions of Uni-PMD or Auto-PMD (the paper's T); 0: `update_epochs` decides."""
    update_epochs: float = 1.0
    """The same in epochs, if `update_every` is 0: 1 in the paper, 1 to 3 in the released scripts."""
    trial_ratio: float = 0.1
    """rho: share of the training data a trial trains on."""
    step_size: StepSize = "to_0"
    """Schedule of mu, the logit-space step of Auto-PMD (Eq. 12 is to_0)."""
    fidelity: Fidelity = "paper"
    """paper follows the text, released follows the authors' code; each field below can also be set by itself."""
    rollback: bool | None = None
    """True: undo every trial (Alg. 2 copies the model). False: trials train the student itself, as released."""
    start: float | None = None
    """Fraction of training before distillation begins (released: after 4 of 74 epochs)."""
    teacher_dropout: bool | None = None
    """Teacher in train mode (with its own dropout) during ordinary steps."""
    dead_zone: float | None = None
    """Uni-PMD: nats per token by which a student must lead before it stops learning (released: 0.05 bit)."""
    ties: Literal["keep", "up"] | None = None
    """Which action is taken when trials tie."""
    alpha_clip: float | None = None
    """Upper limit of alpha in every inverse sigmoid; 1: no limit. As released (0.98), a trial shifts the weight and
    then shifts it back through this limit, so a weight near 1 falls at each search, whatever the search chooses. To
    limit weights, set `alpha_max`: a search can raise a weight at this limit, and lowers one that it keeps."""
    trial_data: Literal["per-pair", "head"] | None = None
    """per-pair: a share rho of every pair's sentences. head, as released: the first share rho of the updates of the
    coming epoch; model_1 takes every second one of them from the stream of model_2."""
    decide_by: DecideBy | None = None
    """What decisions compare. nll, smoothed: dev losses, plain NLL or label-smoothed cross-entropy. accuracy, chrf
    (ours): Auto-PMD's search compares the share of dev tokens that are not the model's first guess after the true
    prefix, or 100 - chrF of greedy translations of 100 dev sentences of each pair; other decisions compare NLL."""
    best: Best | None = None
    """Which weights of a student the run keeps, with or without distillation. mean: those with the lowest NLL per
    token, averaged over the pairs. pooled-smoothed, as released: those with the lowest label-smoothed loss per token
    over all dev sets together, so the pairs with the largest dev sets decide."""

    def __post_init__(self) -> None:
        check_kinds(self, limits={
            "alpha": (0, 1), "alpha0": (0, 1), "update_epochs": (1e-6, 1e6), "trial_ratio": (1e-6, 1),
            "alpha_clip": (1e-6, 1), "alpha_max": (1e-6, 1), "start": (0, 0.9999),
        })  # fmt: skip
        check(self.alpha0 <= self.alpha_max, f"alpha0={self.alpha0} with alpha_max={self.alpha_max}",
              "begin at most at the limit of the search")  # fmt: skip

    @property
    def resolved(self) -> FidelityBundle:
        """The bundle of `fidelity`, with the fields of this section that are not None."""
        names = [f.name for f in dataclasses.fields(FidelityBundle)]
        mine = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return dataclasses.replace(FIDELITY[self.fidelity], **mine)


@dataclass(frozen=True)
class Config:
    """All settings of a run except its data and its method."""

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
    """Distillation from teachers that are not trained."""
    tau: float = 5.0
    """Temperature of the student that favours small languages (5 on WMT-6, 3 on TED-8)."""

    def __post_init__(self) -> None:
        check_number("tau", self.tau, float, *TEMPERATURE)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; `from_dict` gives the same Config back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_dict`; absent fields get their defaults. Raises UserError on an unknown field or value."""
        return _build(cls, data, "config")


def _build(cls: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise UserError(f"{where} must be an object with the fields of {cls.__name__}, not {shown(data)}")
    hints = hints_of(cls)
    if unknown := sorted(set(data) - set(hints)):
        raise UserError(f"{where} has unknown field(s) {', '.join(unknown)[:80]}; {nearest(unknown[0], hints)}fields: "
                        f"{', '.join(hints)}")  # fmt: skip
    values = {
        name: _build(hints[name], value, f"{where}.{name}") if dataclasses.is_dataclass(hints[name]) else value
        for name, value in data.items()
    }
    return cls(**values)
