"""The parts of the Transformer: attention, feed-forward, residual paths, and the two kinds of layer made of them.

One function, `attend`, computes all attention of the library. A layer is a few sublayers, each wrapped in a `Residual`.
`transformer.py` stacks the layers.

Names of axes: batch, src_len, trg_len, d_model as everywhere; `heads` and `d_head` (d_model = heads x d_head); `rows` =
decoder rows: the batch in training, sentences x beams in beam search (`decoding.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pmd_lite.model.cache import KeysValues, Past

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "swish"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


@dataclass(frozen=True)
class LayerConfig:
    """The settings that all layers share. Raises ValueError if they fit no layer; `ModelConfig` knows without torch."""

    d_model: int
    heads: int
    ffn: int
    dropout: float
    attention_dropout: float
    norm: Norm
    activation: Activation

    def __post_init__(self) -> None:
        at_least_one(d_model=self.d_model, heads=self.heads, ffn=self.ffn)
        if self.d_model % 2 or self.d_model % self.heads:
            raise ValueError(f"d_model must be even and divisible by heads, not {self.d_model} with {self.heads} heads")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        one_of("norm", self.norm, get_args(Norm))
        one_of("activation", self.activation, get_args(Activation))


def at_least_one(**sizes: int) -> None:
    """ValueError unless every size is positive."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}.")


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """ValueError unless the value is an allowed one."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """softmax(q k^T / sqrt(d_head)) v: the only place in the library that computes attention.

    q [batch, heads, q_len, d_head], k and v [batch, heads, k_len, d_head]; the result has the shape of q.
    mask [batch, 1, 1, k_len] is True for the keys that count (every row needs at least one). With `causal`, query i
    sees keys 0..i; mask and causal are never given together.
    """
    if not _plain_is_faster(q):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)  # [batch, heads, q_len, k_len]
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return drop(scores.softmax(-1), dropout, dropout > 0) @ v


def _plain_is_faster(q: Tensor) -> bool:
    """On a CPU, PyTorch's fused kernel is several times slower than two matrix products if these run in bfloat16."""
    if q.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    return torch.is_autocast_enabled("cpu") or torch.get_float32_matmul_precision() == "medium"


def drop(x: Tensor, rate: float, training: bool) -> Tensor:
    """Dropout; on a CPU from 16 random bits per number, which takes less than half the time of PyTorch's own.

    There the rate is rounded to a multiple of 1/65536, and the remaining numbers are scaled by the rounded rate.
    """
    if not training or rate == 0 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate, training)
    dropped = min(round(rate * 2**16), 2**16 - 1)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)  # 64 bits for four numbers
    keep = words.view(torch.int16)[: x.numel()] >= dropped - 2**15
    return x * keep.view(x.shape).to(x.dtype).mul_(2**16 / (2**16 - dropped))


def _split_heads(x: Tensor, parts: int, heads: int) -> Tensor:
    """[batch, len, parts * d_model] -> [parts, batch, heads, len, d_head]."""
    return x.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4)


def _merge_heads(x: Tensor) -> Tensor:
    """[batch, heads, len, d_head] -> [batch, len, d_model]."""
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """A sequence attends to itself. Queries, keys and values come from one matrix product (`qkv`, in this order)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.attention_dropout
        self.qkv = packed_linear(config.d_model, 3)
        self.out = linear(config.d_model, config.d_model)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False, past: Past | None = None
    ) -> tuple[Tensor, KeysValues]:
        """x [rows, len, d_model] -> (the same shape, all keys and values: those of `past`, if given, and of x)."""
        q, k, v = _split_heads(self.qkv(x), 3, self.heads).unbind(0)
        if past is not None:
            k, v = past.extend(k, v)
        attended = attend(q, k, v, mask=mask, causal=causal, dropout=self.dropout if self.training else 0.0)
        return self.out(_merge_heads(attended)), (k, v)


class CrossAttention(nn.Module):
    """The target attends to the source. `keys_values` needs only the memory, so it runs once per sentence."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.attention_dropout
        self.query = packed_linear(config.d_model, 1)
        self.kv = packed_linear(config.d_model, 2)
        self.out = linear(config.d_model, config.d_model)

    def keys_values(self, memory: Tensor) -> KeysValues:
        """memory [sentences, src_len, d_model] -> keys and values [sentences, heads, src_len, d_head]."""
        k, v = _split_heads(self.kv(memory), 2, self.heads).unbind(0)
        return k, v

    def forward(self, x: Tensor, source: KeysValues, mask: Tensor) -> Tensor:
        """x [rows, len, d_model] -> the same shape; rows is a multiple of the number of sentences in `source`."""
        sentences, d_model = source[0].shape[0], x.shape[-1]
        # The beams of a sentence share its keys: their queries are treated as more queries of that sentence.
        q = _split_heads(self.query(x).reshape(sentences, -1, d_model), 1, self.heads)[0]
        attended = attend(q, *source, mask=mask, dropout=self.dropout if self.training else 0.0)
        return self.out(_merge_heads(attended).reshape(x.shape))


class Residual(nn.Module):
    """The path around a sublayer f. pre: x + drop(f(norm(x))). post: norm(x + drop(f(x)))."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout, self.pre = config.dropout, config.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        """The input of the sublayer."""
        return self.norm(x) if self.pre else x

    def after(self, x: Tensor, update: Tensor) -> Tensor:
        """The new x, from the old x and the sublayer's output `update`."""
        x = x + drop(update, self.dropout, self.training)
        return x if self.pre else self.norm(x)


class FeedForward(nn.Module):
    """Two linear maps with a nonlinearity between them, at every position separately."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.inner, self.outer = linear(config.d_model, config.ffn), linear(config.ffn, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """[..., d_model] -> [..., d_model]."""
        return self.outer(self.activation(self.inner(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention, self.self_residual = SelfAttention(config), Residual(config)
        self.feed_forward, self.ffn_residual = FeedForward(config), Residual(config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [batch, src_len, d_model], mask [batch, 1, 1, src_len] -> the shape of x."""
        attended, _ = self.self_attention(self.self_residual.before(x), mask=mask)
        x = self.self_residual.after(x, attended)
        return self.ffn_residual.after(x, self.feed_forward(self.ffn_residual.before(x)))


class DecoderLayer(nn.Module):
    """Causal self-attention, then attention to the source, then feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention, self.self_residual = SelfAttention(config), Residual(config)
        self.cross_attention, self.cross_residual = CrossAttention(config), Residual(config)
        self.feed_forward, self.ffn_residual = FeedForward(config), Residual(config)

    def forward(self, x: Tensor, source: KeysValues, mask: Tensor, past: Past | None) -> tuple[Tensor, KeysValues]:
        """x [rows, len, d_model] -> (the same shape, keys and values of all positions so far).

        Without `past`, x is a whole prefix and the mask is causal. With `past`, x is one new token that sees all
        earlier ones. Pads at the end need no mask: the causal mask hides them from every real token.
        """
        attended, keys_values = self.self_attention(self.self_residual.before(x), causal=past is None, past=past)
        x = self.self_residual.after(x, attended)
        x = self.cross_residual.after(x, self.cross_attention(self.cross_residual.before(x), source, mask))
        return self.ffn_residual.after(x, self.feed_forward(self.ffn_residual.before(x))), keys_values


def for_products(x: Tensor) -> Tensor:
    """x in the precision of matrix products: that of autocast if it is on, else unchanged."""
    kind = x.device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return x.to(torch.get_autocast_dtype(kind)) if on else x


def positions_table(length: int, d_model: int) -> Tensor:
    """Sinusoidal positions [length, d_model]: sines in the first half of the columns, cosines in the second.

    Column i of either half turns by 10000^(-2i / d_model) radians per position (Vaswani et al., section 3.5). Vaswani
    et al. interleave sines and cosines; fairseq and Marian separate them. For a network both are equivalent.
    """
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def linear(inputs: int, outputs: int) -> nn.Linear:
    """Xavier-uniform weights, zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def packed_linear(d_model: int, parts: int) -> nn.Linear:
    """`parts` square projections in one matrix, each Xavier-uniform with gain 1/sqrt(2), as in fairseq's attention."""
    layer = linear(d_model, parts * d_model)
    for block in layer.weight.chunk(parts):
        nn.init.xavier_uniform_(block, gain=2**-0.5)
    return layer


def embedding_table(vocab_size: int, d_model: int, pad: int) -> nn.Embedding:
    """Normal(0, 1/sqrt(d_model)), so that rows times sqrt(d_model) have unit variance; the pad row is 0."""
    table = nn.Embedding(vocab_size, d_model, padding_idx=pad)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    nn.init.zeros_(table.weight[pad])
    return table
