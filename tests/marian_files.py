"""A Marian checkpoint in the format of Hugging Face, made by Hugging Face's own classes: what tests import.

Random weights with an output bias, sentencepiece models trained as Marian's are, and a vocab.json in another order that
lacks some pieces.
"""

from __future__ import annotations

import json
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from pmd_lite.data.corpus import Corpus

transformers = pytest.importorskip("transformers", reason="not installed: pip install -r requirements-export.txt")

SIZES: dict[str, Any] = {
    "d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 80,
}  # fmt: skip


def texts(corpus: Corpus, side: int) -> list[str]:
    return [line[side] for text in corpus.train.values() for line in text]


def spm(lines: list[str], size: int) -> bytes:
    """A sentencepiece model with Marian's settings: no pad, and UNK, BOS and EOS are 0, 1 and 2."""
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, hard_vocab_limit=False, minloglevel=3
    )
    return model.getvalue()


def checkpoint(
    folder: Path, corpus: Corpus, codes: tuple[str, ...] = (), share: bool = True, bias: bool = True
) -> Path:  # fmt: skip
    """A directory with the files of an opus-mt."""
    folder.mkdir()
    pieces: set[str] = set()
    for side, name in enumerate(("source", "target")):
        model = spm(texts(corpus, side), 100)
        (folder / f"{name}.spm").write_bytes(model)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {sp.id_to_piece(i) for i in range(3, sp.get_piece_size())}
    shuffled = random.Random(3).sample(sorted(pieces), len(pieces))
    listed = ["</s>", "<unk>", *shuffled[5:], *(f">>{code}<<" for code in codes), "<pad>"]  # 5 pieces are not there
    names = {name: i for i, name in enumerate(listed)}
    (folder / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    words = {"source_lang": "x", "target_lang": "y", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words), encoding="utf-8")
    config = transformers.MarianConfig(
        vocab_size=len(names), activation_function="swish", dropout=0.1, scale_embedding=True,
        share_encoder_decoder_embeddings=share, tie_word_embeddings=True, forced_eos_token_id=None,
        pad_token_id=names["<pad>"], eos_token_id=0, bos_token_id=0, decoder_start_token_id=names["<pad>"], **SIZES,
    )  # fmt: skip
    torch.manual_seed(0)
    marian = transformers.MarianMTModel(config).eval()
    for name, parameter in marian.named_parameters():
        if "embed_positions" not in name:
            torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.4)
    with torch.no_grad():
        for table in (marian.model.encoder.embed_tokens, marian.model.decoder.embed_tokens):
            table.weight[names["<pad>"]] = 0.0  # so it is in those that were converted from Marian
        last = marian.model.decoder.layers[-1].final_layer_norm
        last.bias.copy_(2.8 * marian.lm_head.weight[0])  # else hardly any translation would end
    if bias:
        torch.nn.init.normal_(marian.final_logits_bias, std=0.4)
        # After conversion PAD has a logit of 0. Nothing keeps that from being far above all others.
        marian.final_logits_bias -= 20.0
        marian.final_logits_bias[0, names["<pad>"]] = 0.0
    marian.save_pretrained(folder)
    return folder
