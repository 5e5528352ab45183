"""What a model looks at: its attention weights on one sentence, noted down while the library computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pmd_lite.data.tokenizer import BOS, EOS, PAD, Tokenizer
from pmd_lite.model import layers
from pmd_lite.model.layers import attend
from pmd_lite.model.mode import in_mode
from pmd_lite.model.transformer import Transformer


@dataclass(frozen=True)
class View:
    """One attention of a model on one sentence.

    weights [heads, queries, keys]: how much of each key every query takes. unmasked: what they would be without the
    mask. hidden [queries, keys]: where the mask forbids to look. queries, keys: the tokens, for labels.
    """

    weights: NDArray[Any]
    unmasked: NDArray[Any]
    hidden: NDArray[Any]
    queries: Sequence[str]
    keys: Sequence[str]


@torch.no_grad()
def attention_weights(model: Transformer, src: Tensor, trg_in: Tensor) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """(weights, unmasked weights, hidden) of every attention in the model, in the order in which they are computed.

    src [batch, src_len], trg_in [batch, trg_len] -> {"encoder 1": tensors [batch, heads, queries, keys], ...}. Names:
    "encoder i" and "decoder i" look at themselves, "decoder i to source" at the encoder's memory. The model is used in
    eval mode and put back.

    All attention passes through `layers.attend`. For this one forward pass another function stands in its place, which
    also asks what attention answers when the values are the identity matrix: those are the weights.
    """
    noted = []

    def noting(
        q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False, **_: Any
    ) -> Tensor:
        shape = (*q.shape[:-1], k.shape[-2])
        seen = torch.ones(shape, dtype=torch.bool, device=q.device)
        seen = seen.tril() if causal else seen if mask is None else seen & mask
        identity = torch.eye(k.shape[-2], dtype=q.dtype, device=q.device).expand(*k.shape[:-1], -1)
        noted.append((attend(q, k, identity, mask=mask, causal=causal), attend(q, k, identity), ~seen))
        return attend(q, k, v, mask=mask, causal=causal)

    with in_mode(model, False), mock.patch.object(layers, "attend", noting):
        model(src, trg_in)
    names = [f"encoder {i + 1}" for i in range(len(model.encoder))]
    names += [f"decoder {i + 1}{what}" for i in range(len(model.decoder)) for what in ("", " to source")]
    return dict(zip(names, noted, strict=True))


def views(
    model: Transformer, tokenizer: Tokenizer, pair: str, source: str, target: str, *, pads: int = 2
) -> dict[str, View]:
    """Every attention of the model while it reads `source`, and `target` as the translation so far.

    pads: how many pads are put behind the source, as in a batch with longer sentences, to show that they are not seen.
    A decoder query is labelled "token it stands on > token it should predict".
    """
    src = [*tokenizer.encode_src(source, pair), *[PAD] * pads]
    trg = [BOS, *tokenizer.encode_trg(target, pair)]
    assert trg[-1] == EOS
    device = next(model.parameters()).device
    found = attention_weights(model, torch.tensor([src], device=device), torch.tensor([trg[:-1]], device=device))
    read, said = [readable(tokenizer, i) for i in src], [readable(tokenizer, i) for i in trg]
    steps = [f"{now} > {then}" for now, then in pairwise(said)]
    result = {}
    for name, tensors in found.items():
        weights, unmasked, hidden = (np.asarray(x[0].cpu()) for x in tensors)
        queries = read if name.startswith("encoder") else steps
        keys = said[:-1] if name.startswith("decoder") and "source" not in name else read
        result[name] = View(weights, unmasked, hidden[0], queries, keys)
    return result


def readable(tokenizer: Tokenizer, token: int) -> str:
    """One token as a label: without the mark of a word's beginning; a piece that continues a word gets a hyphen."""
    name = tokenizer.piece(token)
    if name.startswith("\u2581"):
        return name.removeprefix("\u2581") or "_"
    special = name.startswith("<") or (name.startswith("__") and name.endswith("__"))
    return name.replace("__", "") if special else f"-{name}"
