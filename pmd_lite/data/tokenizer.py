"""Text to ids and back: sentencepiece (joint or one model per language) plus language tags.

Ids: PAD 0, UNK 1, BOS 2, EOS 3, then the pieces, then one tag per language. Tags stand *after* the pieces, so no text
can forge one. `tags="paper"` puts the target language's tag before the source sentence. `tags="released"` follows the
authors' scripts: encoder tag = source language where all pairs share a target (many-to-one), else target language; and
the target language's tag is the first predicted token.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import sentencepiece as spm

from pmd_lite.config import TokenizerConfig
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = 4


def split_pair(pair: str) -> tuple[str, str]:
    """The two languages of a pair's name: "fr-en" -> ("fr", "en")."""
    src, _, trg = pair.partition("-")
    return src, trg


class Tokenizer:
    """Encodes and decodes sentences of the pairs it was trained for."""

    def __init__(self, config: TokenizerConfig, pairs: Sequence[str], models: dict[str, bytes], origin: dict[str, str]):
        """`models` maps a language (or "joint") to a serialised sentencepiece model."""
        self.config, self.pairs, self.models, self.origin = config, tuple(pairs), models, origin
        self.languages = sorted({language for pair in pairs for language in split_pair(pair)})
        self._sp = {key: spm.SentencePieceProcessor(model_proto=model) for key, model in sorted(models.items())}
        pieces: dict[str, int] = {}
        for sp in self._sp.values():  # the union over models: equal pieces of two languages share one id
            for i in range(SPECIALS, sp.get_piece_size()):
                pieces.setdefault(sp.id_to_piece(i), SPECIALS + len(pieces))
        self._pieces = list(pieces)
        self._to_id = {
            key: [*range(SPECIALS), *(pieces[sp.id_to_piece(i)] for i in range(SPECIALS, sp.get_piece_size()))]
            for key, sp in self._sp.items()
        }
        self.tags = {language: SPECIALS + len(pieces) + i for i, language in enumerate(self.languages)}
        self.vocab_size = SPECIALS + len(pieces) + len(self.languages)
        self._one_target = len({split_pair(pair)[1] for pair in pairs}) == 1

    def _encode(self, text: str, language: str) -> list[int]:
        key = "joint" if "joint" in self._sp else language
        to_id = self._to_id[key]
        return [to_id[i] for i in self._sp[key].encode(text)]

    def encoder_tag(self, pair: str) -> int:
        """The id that stands before the source sentence of this pair."""
        src, trg = split_pair(pair)
        return self.tags[src if self.config.tags == "released" and self._one_target else trg]

    def prefix(self, pair: str) -> list[int]:
        """Ids that every translation of this pair is forced to start with: [] or [decoder tag]."""
        return [self.tags[split_pair(pair)[1]]] if self.config.tags == "released" else []

    def encode_src(self, text: str, pair: str) -> list[int]:
        """Tag, pieces, EOS."""
        return [self.encoder_tag(pair), *self._encode(text, split_pair(pair)[0]), EOS]

    def encode_trg(self, text: str, pair: str) -> list[int]:
        """The tokens to predict: the decoder tag where there is one, pieces, EOS."""
        return [*self.prefix(pair), *self._encode(text, split_pair(pair)[1]), EOS]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the pieces; specials and tags are dropped, an unknown piece becomes U+2047."""
        pieces = []
        for i in ids:
            if i == UNK:
                pieces.append("⁇")
            elif SPECIALS <= i < SPECIALS + len(self._pieces):
                pieces.append(self._pieces[i - SPECIALS])
        return _join(pieces)

    def piece(self, token: int) -> str:
        """How one id reads, for tables and pictures."""
        if token < SPECIALS:
            return ("<pad>", "<unk>", "<s>", "</s>")[token]
        if token < SPECIALS + len(self._pieces):
            return self._pieces[token - SPECIALS]
        return f"__{self.languages[token - SPECIALS - len(self._pieces)]}__"

    def save(self, directory: Path) -> None:
        """Write `tokenizer.json` and one `KEY.spm` per model; each file appears whole or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        for key, model in self.models.items():
            _replace(directory / f"{key}.spm", model)
        about = {"config": asdict(self.config), "pairs": self.pairs, "models": sorted(self.models), "corpus": self.origin}
        _replace(directory / "tokenizer.json", json.dumps(about, indent=1).encode())

    @classmethod
    def load(cls, directory: Path) -> Tokenizer:
        """Inverse of `save`. Raises UserError when the directory holds no tokenizer."""
        try:
            about = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
            models = {key: (directory / f"{key}.spm").read_bytes() for key in about["models"]}
            return cls(TokenizerConfig(**about["config"]), about["pairs"], models, about["corpus"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{directory} holds no readable tokenizer ({error}); train again or point at a run") from None


def _join(pieces: Sequence[str]) -> str:
    """Sentencepiece's own rule: U+2581 is a space, byte pieces <0xNN> are UTF-8 bytes."""
    out = bytearray()
    for piece in pieces:
        if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
            out.append(int(piece[3:5], 16))
        else:
            out += piece.replace("▁", " ").encode()
    return out.decode("utf-8", errors="replace").removeprefix(" ")


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _smoothed_sample(corpus: Corpus, tau: float, limit: int) -> Iterator[str]:
    """Both sides of training pairs; pair l gives a share proportional to N_l^(1/tau), repeating sentences if need be.

    Without it the joint vocabulary would be the head language's: a tail language's words would fall apart in letters.
    """
    sizes = corpus.sizes
    weights = [size ** (1 / tau) for size in sizes]
    total = min(limit // 2, sum(sizes))
    for pair, size, weight in zip(corpus.pairs, sizes, weights, strict=True):
        text, count = corpus.train[pair], max(1, round(total * weight / sum(weights)))
        order = list(range(size)) if size <= count else random.Random(0).sample(range(size), count)
        for i in range(count):
            yield from text[order[i % len(order)]]


def _train_model(sentences: Iterator[str], vocab_size: int, name: str) -> bytes:
    model = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=sentences, model_writer=model, vocab_size=vocab_size, model_type="unigram",
            character_coverage=1.0, byte_fallback=False, hard_vocab_limit=False, normalization_rule_name="identity",
            remove_extra_whitespaces=False, add_dummy_prefix=True, pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS,
            num_threads=1, minloglevel=2, max_sentence_length=100_000,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        reason = str(error).splitlines()[-1] if str(error) else "no text"
        raise UserError(f"sentencepiece could not train the {name} model: {reason}. Lower vocab_size ({vocab_size})") from None
    return model.getvalue()


def train_tokenizer(corpus: Corpus, config: TokenizerConfig) -> Tokenizer:
    """Train on the corpus's training text alone. The same corpus and config give the same ids."""
    if config.kind == "joint":
        sentences = _smoothed_sample(corpus, config.tau, config.max_sentences)
        models = {"joint": _train_model(sentences, config.vocab_size, "joint")}
    else:
        models = {}
        for language in corpus.languages:
            sides = [(pair, split_pair(pair).index(language)) for pair in corpus.pairs if language in split_pair(pair)]
            text = (line[side] for pair, side in sides for line in corpus.train[pair])
            models[language] = _train_model(text, config.vocab_size, language)
    return Tokenizer(config, corpus.pairs, models, {"name": corpus.name, "sha256": corpus.fingerprint})
