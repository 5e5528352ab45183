"""The computation of a run so far, by purpose: with it, methods are compared at equal compute."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from pmd_lite.data.batching import Batch, Draw

FORWARD, FORWARD_AND_BACKWARD = 1, 3
PURPOSES = ("train", "teacher", "trial", "probe", "dev", "prepare")
COUNTED = ("multiply-adds of all matrix products with weights: source tokens through the encoder, target tokens "
           "through decoder and output layer, a backward pass as two forward passes; not counted: embedding look-ups, "
           "attention scores, padding, optimiser steps, translation of the test set")  # fmt: skip
"""What a cost table counts, in words."""


class Tokens(NamedTuple):
    """Numbers of real tokens, tags and EOS included."""

    src_tokens: int
    tokens: int
    """Target tokens."""


Sized = Batch | Draw | Tokens
"""What has `src_tokens` and `tokens`."""


class PerToken(NamedTuple):
    """Multiply-adds of one forward pass, part by part: the number of weights with which a token is multiplied.

    The products of queries with keys, and of attention weights with values, are left out: two for every pair of tokens,
    d_model and layer. They are 0.7 % of a pass at base size with sentences of 30 tokens and a vocabulary of 64,000.
    """

    source: int
    """Per source token: the encoder, and the decoder's keys and values of the source."""
    target: int
    """Per target token: the rest of the decoder."""
    output: int
    """Per projected target token: the output layer, vocab x d_model, also when it shares a table."""

    def multiply_adds(self, src_tokens: float, tokens: float, passes: float, projections: float) -> float:
        """The sum for `passes` forward passes without the output layer and `projections` passes of the output layer."""
        return passes * (src_tokens * self.source + tokens * self.target) + projections * tokens * self.output


_KNOWN: WeakKeyDictionary[nn.Module, PerToken] = WeakKeyDictionary()  # shapes stay the same, and counting takes time


def per_token(model: nn.Module) -> PerToken:
    """Multiply-adds of a Transformer, or of another encoder-decoder with an `output_weight`.

    Of another model all nn.Linear count; those under a module called `encoder` count per source token.
    """
    if model not in _KNOWN:
        output: Tensor = model.output_weight  # type: ignore[assignment]
        source = target = 0
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and module.weight is not output:
                if "encoder" in name.split(".") or name.endswith("cross_attention.kv"):
                    source += module.weight.numel()
                else:
                    target += module.weight.numel()
        _KNOWN[model] = PerToken(source, target, output.numel())
    return _KNOWN[model]


class Cost:
    """Multiply-adds so far (see `COUNTED` and `PerToken`), by purpose.

    train: the students' own updates. teacher: the teachers' predictions for them, and the comparisons of gates. trial:
    Alg. 2, with its teachers and dev losses. probe: everything else that a strategy asks for, with greedy translations.
    dev: the evaluations that every run makes. prepare: the work before the first update, such as a teacher's top-k for
    all training data. An interruption does not change these numbers.
    """

    def __init__(self) -> None:
        self.multiply_adds: dict[str, int] = dict.fromkeys(PURPOSES, 0)

    def add(
        self, purpose: str, model: nn.Module, size: Sized, passes: int = FORWARD, projections: int | None = None
    ) -> None:
        """Count forward passes of a model (a backward pass is two) over all tokens of `size`.

        projections: how often the output layer is applied to every target token; by default once in each pass.
        """
        times = passes if projections is None else projections
        self.multiply_adds[purpose] += int(per_token(model).multiply_adds(size.src_tokens, size.tokens, passes, times))
