"""Models of other libraries behind one interface, for `training.py`: same sizes and batches, their own layers and loss.

Every engine has `update(batch)`: one optimiser step on a micro-batch, dropout 0.1, label smoothing 0.1, fused Adam (the
fastest in PyTorch). Both embeddings and the output share one matrix. Marian and JoeyNMT apply dropout where their
default configurations do.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pmd_lite as pmd
from pmd_lite.data.batching import Batch
from pmd_lite.data.tokenizer import BOS, EOS, PAD
from pmd_lite.training.learner import Learner

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 32},
    "small": {"d_model": 256, "heads": 4, "encoder_layers": 3, "decoder_layers": 3, "ffn": 1024},
    "base": {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "ffn": 2048},
}
DROPOUT, SMOOTHING, LR = 0.1, 0.1, 1e-4
JOEY_PAD = 1


class Ours:
    """Our own training: Learner with the fused loss."""

    def __init__(self, shape: str, vocab: int, device: str = "cpu", precision: str = "fp32", compiled: bool = False):
        config = pmd.preset("small", **SHAPES[shape], dropout=DROPOUT, label_smoothing=SMOOTHING, lr=LR, warmup=1,
                            precision=precision, device=device, compile=compiled)  # fmt: skip
        self.learner = Learner(vocab, config, torch.device(device), 0)
        self.model = self.learner.model

    def update(self, batch: Batch) -> None:
        """One step."""
        self.learner.begin()
        self.learner.accumulate(batch, 0.0, None, None, batch.tokens, 0)
        self.learner.finish()


class Peer:
    """A model that computes logits at every position, with PyTorch's own loss."""

    def __init__(self, model: nn.Module, logits: Callable[[Batch], Tensor]):
        self.model, self.logits = model.train(), logits
        self.adam = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss(self, batch: Batch, smoothing: float = SMOOTHING) -> Tensor:
        """The loss, summed over target tokens, in nats."""
        logits = self.logits(batch).flatten(0, 1)
        return F.cross_entropy(logits, labels(batch).flatten(), ignore_index=PAD, label_smoothing=smoothing,
                               reduction="sum")  # fmt: skip

    def update(self, batch: Batch) -> None:
        """One step."""
        self.adam.zero_grad(set_to_none=True)
        (self.loss(batch) / batch.tokens).backward()
        self.adam.step()


def labels(batch: Batch) -> Tensor:
    """[batch, trg_len] target ids, then PAD."""
    whole = torch.full_like(batch.trg_in, PAD)
    whole.view(-1)[batch.keep] = batch.gold
    return whole


class TextbookTransformer(nn.Module):
    """`torch.nn.Transformer` as tutorials wrap it: scaled embeddings, sinusoidal positions, pre-norm, tied output."""

    positions: Tensor

    def __init__(self, vocab: int, d_model: int, heads: int, encoder_layers: int, decoder_layers: int, ffn: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # pre-norm rules out nested tensors; only eval would use any
            self.transformer = nn.Transformer(d_model, heads, encoder_layers, decoder_layers, ffn, DROPOUT,
                                              batch_first=True, norm_first=True)  # fmt: skip
        self.drop = nn.Dropout(DROPOUT)
        rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angles = torch.arange(512)[:, None] * rates
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        """[batch, len] -> [batch, len, d_model]."""
        x = self.embedding(ids) * self.embedding.embedding_dim**0.5 + self.positions[: ids.shape[1]]
        return self.drop(x)

    def forward(self, src: Tensor, trg_in: Tensor) -> Tensor:
        """Ids of both sides -> logits [batch, trg_len, vocab]."""
        pads = src == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(trg_in.shape[1], device=src.device, dtype=torch.bool)
        states = self.transformer(self.embed(src), self.embed(trg_in), tgt_mask=causal, src_key_padding_mask=pads,
                                  memory_key_padding_mask=pads, tgt_is_causal=True)  # fmt: skip
        return F.linear(states, self.embedding.weight)


def textbook(shape: str, vocab: int) -> Peer:
    """nn.Transformer."""
    model = TextbookTransformer(vocab, **SHAPES[shape])
    return Peer(model, lambda batch: model(batch.src, batch.trg_in))


def marian(shape: str, vocab: int) -> Peer:
    """Hugging Face Marian (post-norm, as it always is)."""
    from transformers import MarianConfig, MarianMTModel

    size = SHAPES[shape]
    model = MarianMTModel(MarianConfig(
        vocab_size=vocab, decoder_vocab_size=vocab, d_model=size["d_model"], max_position_embeddings=512,
        encoder_layers=size["encoder_layers"], decoder_layers=size["decoder_layers"],
        encoder_attention_heads=size["heads"], decoder_attention_heads=size["heads"], encoder_ffn_dim=size["ffn"],
        decoder_ffn_dim=size["ffn"], activation_function="relu", dropout=DROPOUT, scale_embedding=True,
        share_encoder_decoder_embeddings=True, tie_word_embeddings=True, pad_token_id=PAD, bos_token_id=BOS,
        eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None, use_cache=False,
    ))  # fmt: skip

    def logits(batch: Batch) -> Tensor:
        given = {"input_ids": batch.src, "attention_mask": batch.src.ne(PAD), "decoder_input_ids": batch.trg_in}
        found: Tensor = model(**given).logits
        return found

    return Peer(model, logits)


def joeynmt(shape: str, vocab: int) -> JoeyPeer:
    """JoeyNMT's own model (pre-norm) and loss, from its own builder. Raises ImportError if it is not installed."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    size = SHAPES[shape]

    def side(layers: int) -> dict[str, Any]:
        return {"type": "transformer", "num_layers": layers, "num_heads": size["heads"], "hidden_size": size["d_model"],
                "ff_size": size["ffn"], "dropout": DROPOUT, "layer_norm": "pre",
                "embeddings": {"embedding_dim": size["d_model"], "scale": True}}  # fmt: skip

    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    ids = {"unk_id": 0, "pad_id": JOEY_PAD, "bos_id": BOS, "eos_id": EOS}
    words = Vocabulary([f"w{i}" for i in range(vocab - 4)], SimpleNamespace(**names, **ids, lang_tags=[]))
    settings = {"tied_embeddings": True, "tied_softmax": True, "encoder": side(size["encoder_layers"]),
                "decoder": side(size["decoder_layers"])}  # fmt: skip
    return JoeyPeer(build_model(settings, src_vocab=words, trg_vocab=words))


class JoeyPeer(Peer):
    """JoeyNMT's model, which itself computes its loss and the number of right tokens."""

    def __init__(self, model: Any):
        super().__init__(model, lambda batch: batch.trg_in)
        model.loss_function = ("crossentropy", SMOOTHING)

    def loss(self, batch: Batch, smoothing: float = SMOOTHING) -> Tensor:
        """The loss, summed over target tokens, in nats; the model was made with its smoothing."""
        # In JoeyNMT the id of padding is 1 and that of the unknown word 0; ours are the other way round.
        src, trg_in, trg = (torch.where(x == PAD, JOEY_PAD, x) for x in (batch.src, batch.trg_in, labels(batch)))
        real = src != JOEY_PAD
        found: Tensor = self.model(
            return_type="loss", src=src, trg_input=trg_in, trg=trg, src_mask=real[:, None], src_length=real.sum(1),
            trg_mask=(trg != JOEY_PAD)[:, None],
        )[0]  # fmt: skip
        return found


ENGINES: dict[str, Callable[[str, int], Ours | Peer]] = {
    "pmd_lite": Ours, "nn.Transformer": textbook, "Marian": marian, "JoeyNMT": joeynmt,
}  # fmt: skip
