"""From states to logits: the projection that all losses of `fused.py` use, and the chunks in which they compute it."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

ELEMENTS, FEWEST = 2**22, 256
"""A chunk holds about ELEMENTS logits, and at least FEWEST tokens. Small chunks are slow in bf16, where the gradient of
every chunk on W is converted before it is added."""


class Output(NamedTuple):
    """A model's output layer, which turns its states into logits."""

    weight: Tensor
    """[vocab, d_model]"""
    bias: Tensor | None = None
    """[vocab], or None for a model without one."""


def token_states(model: nn.Module, src: Tensor, trg_in: Tensor, keep: Tensor) -> Tensor:
    """[tokens, d_model]: a model's last states at the kept target positions; padding is left out."""
    hidden: Tensor = model.hidden(src, trg_in)  # type: ignore[operator]  # a Transformer, or a model with its methods
    return hidden.flatten(0, 1).index_select(0, keep)


def output_of(model: nn.Module) -> Output:
    """The output layer of a Transformer, or of a model with its `output_weight` and perhaps its `output_bias`."""
    weight: Tensor = model.output_weight  # type: ignore[assignment]
    return Output(weight, getattr(model, "output_bias", None))


def project(hidden: Tensor, output: Output, out: Tensor | None = None) -> Tensor:
    """Logits in fp32 or better; the product itself is in the states' precision. [n, d] -> [n, vocab].

    out: [n, vocab], fp32 or better, which receives the logits instead of new memory.
    """
    if out is not None and out.dtype == hidden.dtype:
        logits = torch.matmul(hidden, output.weight.t(), out=out)
    else:
        logits = torch.matmul(hidden, output.weight.to(hidden.dtype).t())
        if out is not None:
            logits = out.copy_(logits)
        elif logits.dtype != torch.float64:
            logits = logits.float()
    return logits if output.bias is None else logits.add_(output.bias)


def chunks(tokens: int, vocab: int) -> list[slice]:
    """Consecutive slices of `tokens`, each of about ELEMENTS logits."""
    size = max(FEWEST, ELEMENTS // vocab)
    return [slice(start, min(start + size, tokens)) for start in range(0, tokens, size)]
