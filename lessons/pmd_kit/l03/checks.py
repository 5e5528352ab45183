"""Checks of lesson 03: the Transformer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_kit.values import with_type
from pmd_lite.model.layers import attend, positions_table
from pmd_lite.model.transformer import Transformer

# ------------------------------------------------------------------------------------------------- 1: attention


def _normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(size=shape)).float()


def _open_from_left(lengths: Sequence[int], longest: int) -> Tensor:
    return (torch.arange(longest) < torch.tensor(lengths)[:, None])[:, None, None, :]


def _attention_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for heads, q_len, d_head, lengths in ((2, 3, 4, (5, 2)), (3, 4, 8, (4, 4)), (2, 6, 16, (1, 7))):
        k, v = (_normal(rng, 2, heads, max(lengths), d_head) for _ in "kv")
        cases.append((_normal(rng, 2, heads, q_len, d_head), k, v, _open_from_left(lengths, max(lengths))))
    return cases


def _plain(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


ATTENTION = Exercise(
    "attention", lambda q, k, v, mask: attend(q, k, v, mask=mask), _attention_cases,
    [
        Mistake("The scores are not scaled: divide them by sqrt(d_head), or softmax gives nearly all "
                "weight to one key as d_head grows.",
                lambda q, k, v, mask: _plain(q @ k.transpose(-1, -2), v, mask)),
        Mistake("You divide by d_head itself. Divide by its square root: that is the spread of a sum of d_head "
                "products.",
                lambda q, k, v, mask: _plain(q @ k.transpose(-1, -2) / q.shape[-1], v, mask)),
        Mistake("You scale by the width of all heads together: every head has its own d_head = q.shape[-1].",
                lambda q, k, v, mask: _plain(q @ k.transpose(-1, -2) / math.sqrt(q.shape[1] * q.shape[-1]), v, mask)),
        Mistake("You scale by the number of keys. Scale by the width of a head, d_head = q.shape[-1].",
                lambda q, k, v, mask: _plain(q @ k.transpose(-1, -2) / math.sqrt(k.shape[-2]), v, mask)),
        Mistake("You scale by the number of heads. Scale by the width of a head, d_head = q.shape[-1].",
                lambda q, k, v, mask: _plain(q @ k.transpose(-1, -2) / math.sqrt(q.shape[1]), v, mask)),
        Mistake("You multiply by sqrt(d_head). Divide by it.",
                lambda q, k, v, mask: _plain(q @ k.transpose(-1, -2) * math.sqrt(q.shape[-1]), v, mask)),
        Mistake("The mask is upside down: True is where a key may be looked at, so fill the others, ~mask.",
                lambda q, k, v, mask: _scores(q, k).masked_fill(mask, -math.inf).softmax(-1) @ v),
        Mistake("The mask has no effect: the pads get their share of the attention.",
                lambda q, k, v, mask: _scores(q, k).softmax(-1) @ v),
        Mistake("You mask after the softmax: what is left no longer adds up to 1. Mask the scores, with -inf.",
                lambda q, k, v, mask: (_scores(q, k).softmax(-1) * mask) @ v),
        Mistake("A score of 0 does not hide a key: e^0 = 1 still takes a share. Fill with -inf.",
                lambda q, k, v, mask: _scores(q, k).masked_fill(~mask, 0.0).softmax(-1) @ v),
        Mistake("Wrong axis: the softmax runs over the keys, dim=-1, so that the weights of *one query* add up to 1.",
                lambda q, k, v, mask: _scores(q, k).masked_fill(~mask, -math.inf).softmax(-2) @ v),
        Mistake("These are the weights. The answer is the weighted average of the values: weights @ v.",
                lambda q, k, v, mask: _scores(q, k).masked_fill(~mask, -math.inf).softmax(-1)),
    ],
    library=("attend",),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------ 2: masks


def _ones(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool)


CAUSAL_MASK = Exercise(
    "causal_mask", lambda length: _ones(length).tril(), lambda rng: [(4,), (1,), (int(rng.integers(5, 12)),)],
    [
        Mistake("This one looks ahead only: rows are queries, columns are keys, and query i sees keys 0..i.",
                lambda n: _ones(n).triu()),
        Mistake("The diagonal is missing: query i sees itself too, and the first one has nothing else to look at.",
                lambda n: _ones(n).tril(-1)),
        Mistake("Upside down: this mask is True where a key is hidden. Here True means 'may be looked at'.",
                lambda n: _ones(n).triu(1)),
        Mistake("Only the diagonal: then every token sees itself and forgets all that came before.",
                lambda n: _ones(n) & torch.eye(n, dtype=torch.bool)),
        Mistake("This mask hides nothing.", _ones),
        Mistake("The pattern is right, the type is not: a mask of numbers is *added* to the scores. Return "
                "dtype=torch.bool.",
                lambda n: _ones(n).tril().float()),
        Mistake("That is the other kind of mask, which is added to the scores. The exercise asks for the boolean one.",
                lambda n: torch.zeros(n, n).masked_fill(_ones(n).triu(1), -math.inf)),
    ],
    with_type,
)  # fmt: skip

# ------------------------------------------------------------------------------------------- 3: parity with torch


def _torch_cases(rng: np.random.Generator) -> Sequence[Case]:
    """batch, heads and queries are all 2: a mask with an axis too few still fits, and hides the wrong things."""
    cases = []
    for pad, lengths in ((0, (5, 2)), (7, (3, 6)), (0, (1, 4))):
        src = torch.from_numpy(rng.integers(1, 6, size=(2, max(lengths))))
        for row, length in enumerate(lengths):
            src[row, length:] = pad
        q, k, v = (_normal(rng, 2, 2, length, 8) for length in (2, max(lengths), max(lengths)))
        cases.append((q, k, v, src, pad))
    return cases


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _real(src: Tensor, pad: int) -> Tensor:
    return src.ne(pad)[:, None, None, :]


WITH_TORCH = Exercise(
    "with_torch", lambda q, k, v, src, pad: attend(q, k, v, mask=_real(src, pad)), _torch_cases,
    [
        Mistake("Nothing is masked: pass the mask as attn_mask.",
                lambda q, k, v, src, pad: F.scaled_dot_product_attention(q, k, v)),
        Mistake("Upside down: in attn_mask True is 'may be looked at'. (key_padding_mask of nn.MultiheadAttention "
                "is the "
                "other way round. Nearly everyone forgets which is which; try it on one sentence.)",
                lambda q, k, v, src, pad: _sdpa(q, k, v, ~_real(src, pad))),
        Mistake("A mask [batch, k_len] is read as [q_len, k_len], and here that fits by accident. Make it "
                "[batch, 1, 1, k_len].",
                lambda q, k, v, src, pad: _sdpa(q, k, v, src.ne(pad))),
        Mistake("A mask [batch, 1, k_len] is read as [heads, 1, k_len], and here that fits by accident. Two axes "
                "must be "
                "added, for heads and for queries.",
                lambda q, k, v, src, pad: _sdpa(q, k, v, src.ne(pad)[:, None, :])),
        Mistake("A mask of numbers is added to the scores: 1 and 0 hide nothing. Keep it boolean.",
                lambda q, k, v, src, pad: _sdpa(q, k, v, _real(src, pad).float())),
        Mistake("The scores are scaled twice: torch's function divides by sqrt(d_head) itself.",
                lambda q, k, v, src, pad: _sdpa(q / math.sqrt(q.shape[-1]), k, v, _real(src, pad))),
        Mistake("The pad id is an argument: you compare with 0, whatever pad is.",
                lambda q, k, v, src, pad: _sdpa(q, k, v, _real(src, 0))),
        Mistake("is_causal hides the future. The exercise asks you to hide the pads of each sentence.",
                lambda q, k, v, src, pad: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    ],
    library=("attend",),
)  # fmt: skip

# -------------------------------------------------------------------------------------------------- 4: positions


def _angles(length: int, d_model: int, rate: Callable[[Tensor], Tensor], first: int = 0) -> Tensor:
    column = torch.arange(d_model // 2, dtype=torch.float64)
    return torch.arange(first, first + length, dtype=torch.float64)[:, None] * rate(column)


def _side_by_side(angles: Tensor) -> Tensor:
    return torch.cat([angles.sin(), angles.cos()], dim=1)


POSITIONS = Exercise(
    "positions", positions_table,
    lambda rng: [(5, 6), (int(rng.integers(10, 40)), 2 * int(rng.integers(3, 9))), (3, 4)],
    [
        Mistake("Right numbers, other order: you interleave sine and cosine. Here all sines come first, then all "
                "cosines.",
                lambda length, d: _side_by_side(_angles(length, d, lambda i: 10000 ** (-2 * i / d)))
                .unflatten(1, (2, -1)).transpose(1, 2).flatten(1)),
        Mistake("Sine and cosine are exchanged: position 0 has zeros in the first half, ones in the second.",
                lambda length, d: _side_by_side(_angles(length, d, lambda i: 10000 ** (-2 * i / d))).roll(d // 2, 1)),
        Mistake("The 2 of the exponent is missing: i counts the columns of one half, and the slowest should almost "
                "reach 1/10000.",
                lambda length, d: _side_by_side(_angles(length, d, lambda i: 10000 ** (-i / d)))),
        Mistake("The minus sign is missing: later columns must turn more slowly, not faster.",
                lambda length, d: _side_by_side(_angles(length, d, lambda i: 10000 ** (2 * i / d)))),
        Mistake("The first position is 0, not 1.",
                lambda length, d: _side_by_side(_angles(length, d, lambda i: 10000 ** (-2 * i / d), first=1))),
        Mistake("These are the angles: take their sines and their cosines.",
                lambda length, d: torch.cat([_angles(length, d, lambda i: 10000 ** (-2 * i / d))] * 2, dim=1)),
    ],
    tolerance=1e-4,
    library=("positions_table",),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------- 5: parameters


def your_shape(student: str) -> dict[str, int]:
    """The sizes of a model that belongs to one student; UserError for an empty name."""
    rng = personal(student, "lesson 03, parameters")
    d_model = int(rng.choice([32, 64, 128, 256]))
    return {
 
        "vocab": int(rng.integers(10, 90)) * 100, "d_model": d_model, "heads": 4,
        "ffn": d_model * int(rng.choice([2, 3])),
        # numbers with which no two mistakes come to the same sum
        "encoder_layers": int(rng.choice([4, 5, 7])), "decoder_layers": int(rng.choice([1, 3])),
    }  # fmt: skip


def _parameters(shape: dict[str, int]) -> int:
    names = ("d_model", "heads", "ffn", "encoder_layers", "decoder_layers")
    sizes: dict[str, Any] = {name: shape[name] for name in names}
    with torch.device("meta"):  # shapes without numbers: nothing is computed and no memory taken
        return Transformer(shape["vocab"], **sizes, norm="pre", tie="all").parameter_count()


def parameters(student: str) -> Exercise:
    """The exercise to count the parameters of one student's model by hand."""
    shape = your_shape(student)
    vocab, d, f = shape["vocab"], shape["d_model"], shape["ffn"]
    enc, dec = shape["encoder_layers"], shape["decoder_layers"]
    right = _parameters(shape)
    attentions, layers = enc + 2 * dec, enc + dec
    norms = 2 * enc + 3 * dec + 2
    biases = attentions * 4 * d + layers * (f + d)
    says = [
        ("The biases are missing: every linear map of a layer has one, so an attention has 4 (d^2 + d).",
         right - biases),
        ("The table is counted three times: with tie='all' source, target and output share one.",
         right + 2 * vocab * d),
        ("The table is counted twice: with tie='all' the output has none of its own either.", right + vocab * d),
        ("One attention per decoder layer is missing: it looks at itself *and* at the source.",
         right - dec * 4 * (d * d + d)),
        ("The decoder layer's third LayerNorm is missing.", right - dec * 2 * d),
        ("The LayerNorms are missing: 2 d each, two in an encoder layer, three in a decoder layer, one at each end.",
         right - norms * 2 * d),
        ("The two LayerNorms at the ends of the stacks are missing (norm='pre' has them).", right - 4 * d),
        ("A LayerNorm has a gain and a bias, 2 d numbers.", right - norms * d),
        ("An attention has four matrices: queries, keys, values, and one for the way out.",
         right - attentions * (d * d + d)),
        ("The heads share the width: together they have d^2 numbers per matrix, not d^2 each.",
         right + attentions * 4 * (shape["heads"] - 1) * (d * d + d)),
        ("Embeddings are missing: one table of vocab x d_model.", right - vocab * d),
    ]  # fmt: skip
    mistakes = [Mistake(text, lambda number=number: number) for text, number in says]
    return Exercise("parameters", lambda: right, mistakes=mistakes, tolerance=1e-9, student=student)
