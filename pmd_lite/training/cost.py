"""What a run has computed so far, by purpose: the currency in which methods are compared at equal compute."""

from __future__ import annotations

from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from torch import Tensor, nn

FORWARD, FORWARD_AND_BACKWARD = 1, 3
PURPOSES = ("train", "teacher", "trial", "probe", "dev", "prepare")
COUNTED = (
    "multiply-adds of all matrix products with weights: source tokens through the encoder, target tokens through "
    "decoder and output layer, a backward pass as two forward passes; not counted: embedding look-ups, attention "
    "scores, padding, optimiser steps, translation of the test set"
)
"""What a cost table counts, in words."""


class Sized(Protocol):
    """A batch, a draw, or anything else whose real tokens are known on the host."""

    @property
    def src_tokens(self) -> int:
        """Source tokens, tags and EOS included."""
        ...

    @property
    def tokens(self) -> int:
        """Target tokens, EOS included."""
        ...


class Tokens(NamedTuple):
    """So many tokens of either side."""

    src_tokens: int
    tokens: int


class PerToken(NamedTuple):
    """Multiply-adds of one forward pass, part by part; each is the number of weights that a token is multiplied with.

    The products of queries with keys, and of attention weights with values, are left out: two for every pair of tokens,
    d_model and layer. They are 0.7 % of a pass at base size with sentences of 30 tokens and a vocabulary of 64,000.
    """

    source: int
    """Per source token: the encoder, and the decoder's keys and values of the source."""
    target: int
    """Per target token: the rest of the decoder."""
    output: int
    """Per projected target token: the output layer, vocab x d_model, whatever table it shares."""

    def multiply_adds(self, src_tokens: float, tokens: float, passes: float, projections: float) -> float:
        """Of `passes` forward passes without the output layer, and `projections` times the output layer.

        Whole numbers give a whole number, exactly.
        """
        return passes * (src_tokens * self.source + tokens * self.target) + projections * tokens * self.output


_KNOWN: WeakKeyDictionary[nn.Module, PerToken] = WeakKeyDictionary()  # shapes do not change, and a walk takes a while


def per_token(model: nn.Module) -> PerToken:
    """Multiply-adds of a Transformer, or of another encoder-decoder that has its `output_weight`.

    Of such a foreign model all nn.Linear count, those under a module called `encoder` once per source token.
    """
    found = _KNOWN.get(model)
    if found is None:
        output: Tensor = model.output_weight  # type: ignore[assignment]
        source = target = 0
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and module.weight is not output:
                if "encoder" in name.split(".") or name.endswith("cross_attention.kv"):
                    source += module.weight.numel()
                else:
                    target += module.weight.numel()
        found = _KNOWN[model] = PerToken(source, target, output.numel())
    return found


class Cost:
    """Multiply-adds so far (see `COUNTED` and `PerToken`), by purpose.

    train: the students' own updates. teacher: what teachers predict for them, and what gates compare. trial: Alg. 2,
    its teachers and its dev losses included. probe: whatever else a strategy asks for, greedy translations included.
    dev: the evaluations that every run makes. prepare: what is computed before the first update, such as a teacher's
    top-k for all training data. A run that was interrupted counts as if it had not been.
    """

    def __init__(self) -> None:
        self.multiply_adds: dict[str, int] = dict.fromkeys(PURPOSES, 0)

    def add(
        self, purpose: str, model: nn.Module, size: Sized, passes: int = FORWARD, projections: int | None = None
    ) -> None:
        """Count forward passes of a model (a backward pass is two) over all tokens of `size`.

        projections: times that the output layer is applied to every target token, by default once a pass.
        """
        times = passes if projections is None else projections
        self.multiply_adds[purpose] += int(
            per_token(model).multiply_adds(size.src_tokens, size.tokens, passes, times)
        )  # fmt: skip

    def state_dict(self) -> dict[str, int]:
        """The counts."""
        return dict(self.multiply_adds)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Inverse of `state_dict`."""
        self.multiply_adds = dict(state)
