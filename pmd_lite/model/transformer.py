"""The encoder-decoder Transformer of Vaswani et al. (2017): every student and every teacher of this library is one.

The parts are in `layers.py`, the search for the best translation in `decoding.py`. These files import nothing from the
rest of the library, so you can read and use them alone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pmd_lite.model.cache import KeysValues, Past
from pmd_lite.model.layers import (
    Activation,
    DecoderLayer,
    EncoderLayer,
    LayerConfig,
    Norm,
    at_least_one,
    drop,
    embedding_table,
    for_products,
    one_of,
    positions_table,
)

Tie = Literal["all", "decoder", "none"]


@dataclass
class DecoderState:
    """The decoder's memory from one step to the next: each layer's keys and values of the source and of the past.

    source: [sentences, heads, src_len, d_head], one set for each sentence. past: one set for each decoder row (a
    sentence has as many rows as beams); empty before the first step.
    """

    source: list[KeysValues]
    mask: Tensor  # [sentences, 1, 1, src_len]
    past: list[Past] = field(default_factory=list)
    length: int = 0

    def select_rows(self, rows: Tensor) -> None:
        """Replace the present decoder rows by rows `rows` [new_rows]; a row may be repeated."""
        for past in self.past:
            past.select(rows)

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the source side of `sentences` [fewer]; `select_rows` selects their decoder rows."""
        self.source = [(k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.source]
        self.mask = self.mask.index_select(0, sentences)


class Transformer(nn.Module):
    """Source ids and target ids in, logits over the next target token out.

    Args:
        vocab_size: one vocabulary for both sides.
        d_model, heads, encoder_layers, decoder_layers, ffn: the sizes; d_model is even and divisible by heads.
        dropout: on embeddings and on every sublayer's output. attention_dropout: on attention weights.
        norm: "pre" normalises a sublayer's input (and the end of each stack), "post" its output.
        tie: "all" = one table for source, target and output. "decoder" = target and output share a table, the source
            has its own (the authors' released setting). "none" = three tables.
        embedding_norm: LayerNorm on embeddings plus positions, before dropout (also in the released setting).
        activation: inside the feed-forward sublayer.
        output_bias: a number for each token that is added to its logit, 0 at first (Marian has one).
        max_len: longest source and longest decoder input, in tokens. pad: the id that fills up rows on the right.

    Rows are padded on the right only. The model reads no value back to Python, so it never waits for a GPU. The pad row
    of a table is 0 at first. If the table is also the output layer, the softmax changes this row, which no token sees.
    Raises ValueError for arguments that do not fit, and for sequences that are empty or longer than max_len.
    """

    positions: Tensor

    def __init__(
        self, vocab_size: int, *, d_model: int = 64, heads: int = 4, encoder_layers: int = 2, decoder_layers: int = 2,
        ffn: int = 256, dropout: float = 0.1, attention_dropout: float = 0.0, norm: Norm = "pre", tie: Tie = "all",
        embedding_norm: bool = False, activation: Activation = "relu", output_bias: bool = False, max_len: int = 1024,
        pad: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        at_least_one(encoder_layers=encoder_layers, decoder_layers=decoder_layers, max_len=max_len)
        one_of("tie", tie, get_args(Tie))
        if not 0 <= pad < vocab_size:
            raise ValueError(f"pad must be an id of the vocabulary (0 to {vocab_size - 1}), not {pad}.")
        config = LayerConfig(d_model, heads, ffn, dropout, attention_dropout, norm, activation)
        self.vocab_size, self.d_model, self.max_len, self.pad = vocab_size, d_model, max_len, pad
        self.dropout = dropout
        self.register_buffer("positions", positions_table(max_len, d_model), persistent=False)

        # Each parameter has only one name, so a saved file holds a tied table once.
        self.embedding = embedding_table(vocab_size, d_model, pad)
        self.src_embedding = None if tie == "all" else embedding_table(vocab_size, d_model, pad)
        self.output = embedding_table(vocab_size, d_model, pad) if tie == "none" else None
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if output_bias else None
        self.src_embedding_norm = nn.LayerNorm(d_model) if embedding_norm else nn.Identity()
        self.trg_embedding_norm = nn.LayerNorm(d_model) if embedding_norm else nn.Identity()
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(decoder_layers))
        # With pre-norm the sums are not normalised within a stack, so a norm follows; a post-norm layer ends with one.
        self.encoder_norm = nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()

    def forward(self, src: Tensor, trg_in: Tensor) -> Tensor:
        """src [batch, src_len], trg_in [batch, trg_len] (starting with BOS) -> logits [batch, trg_len, vocab]."""
        return self.project(self.hidden(src, trg_in))

    def hidden(self, src: Tensor, trg_in: Tensor) -> Tensor:
        """The last states [batch, trg_len, d_model], not yet projected: a loss projects only the real tokens."""
        return self.decode(trg_in, self.start(self.encode(src), src))

    def project(self, hidden: Tensor) -> Tensor:
        """hidden [..., d_model] -> logits [..., vocab]."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    @property
    def output_weight(self) -> Tensor:
        """[vocab, d_model]: a row for each token; its product with a state is the token's logit, without the bias."""
        return (self.output or self.embedding).weight

    def encode(self, src: Tensor) -> Tensor:
        """src [batch, src_len] -> memory [batch, src_len, d_model]."""
        x = self._embed(src, self.src_embedding or self.embedding, self.src_embedding_norm, start=0)
        mask = self._source_mask(src)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def start(self, memory: Tensor, src: Tensor) -> DecoderState:
        """The state before the first target token: every layer's keys and values of the memory."""
        layers = cast("Iterable[DecoderLayer]", self.decoder)  # the type of a ModuleList does not say what it holds
        source = [layer.cross_attention.keys_values(memory) for layer in layers]
        return DecoderState(source, self._source_mask(src))

    def decode(self, trg_in: Tensor, state: DecoderState) -> Tensor:
        """Run the decoder on the next target tokens [rows, len] -> [rows, len, d_model]; `state` then includes them.

        The first call takes a prefix of any length (in training, everything); later calls take one token per row.
        """
        if state.past and trg_in.shape[1] != 1:
            raise ValueError(f"after the first call, decode takes one token per row, not {trg_in.shape[1]}.")
        x = self._embed(trg_in, self.embedding, self.trg_embedding_norm, start=state.length)
        first: list[Past] = []
        for i, layer in enumerate(self.decoder):
            x, keys_values = layer(x, state.source[i], state.mask, state.past[i] if state.past else None)
            if not state.past:
                first.append(Past(*keys_values))
        state.past, state.length = state.past or first, state.length + trg_in.shape[1]
        return self.decoder_norm(x)

    def parameter_count(self) -> int:
        """Number of trainable parameters; a shared table counts once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def _embed(self, ids: Tensor, table: nn.Embedding, norm: nn.Module, start: int) -> Tensor:
        """ids [batch, len], the first at position `start` -> [batch, len, d_model]."""
        end = start + ids.shape[1]
        if not start < end <= self.max_len:
            raise ValueError(f"a sequence must have 1 to {self.max_len} tokens (the model's max_len), not {end}.")
        x = table(ids) * math.sqrt(self.d_model) + self.positions[start:end]
        # Under autocast the residual path is in half precision, as in fairseq; on a CPU no sublayer has to convert it.
        return drop(for_products(norm(x)), self.dropout, self.training)

    def _source_mask(self, src: Tensor) -> Tensor:
        """True at real source tokens [batch, 1, 1, src_len].

        The first column is always True: it is real in every sentence. In a row of pads alone it keeps softmax from
        dividing by zero, without reading any value.
        """
        mask = src.ne(self.pad)
        mask[:, 0] = True
        return mask[:, None, None, :]
