"""Text to ids and back: sentencepiece (joint or one model per language) plus language tags.

Ids: PAD 0, UNK 1, BOS 2, EOS 3, then the pieces, then one tag per language. Tags come *after* the pieces, so no text
can produce one. `tags="paper"` puts the target language's tag before the source sentence. `tags="released"` follows the
authors' scripts: the encoder tag is the source language if all pairs share a target (many-to-one), else the target
language; and the target language's tag is the first predicted token.

A language may join later (joining.py). Its new pieces and its tag stand behind all earlier ids, so texts of the other
languages keep their ids, and rows of trained tables their meaning.

Decoding gives the exact text back, with all white space: always with `byte_fallback`, else for characters that occur in
the training text. Any other character becomes UNK.
"""

import io
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Literal, Self

import numpy as np
import sentencepiece as spm

from pmd_lite.config import TokenizerConfig
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.reading import Ints, ParallelText, checked_pair
from pmd_lite.disk import content, read_json, refused, write_bytes, write_json
from pmd_lite.errors import UserError

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = 4
_SAVED = {"config": dict, "pairs": [str], "corpus": {"*": str}, "vocab_size": int, "models": {"*": str},
          "joined": [[str]]}  # fmt: skip
Side = tuple[ParallelText, int]  # one text and a column of it: 0 source, 1 target

# Sentencepiece adds up its statistics thread by thread, so the number of threads changes the last bits of a model.
# Therefore it is the same on every machine; a machine with fewer cores only takes longer.
_THREADS = 8
_BLOCK = 1 << 16  # lines from which a part of the sample is drawn at a time

# Sentencepiece writes a space as U+2581 and UNK as U+2585: it would decode the first as a space, and it skips a
# training sentence with the second. So we write each of them as a pair of characters, and also the noncharacter with
# which such a pair begins. The rule is one to one: no text is lost.
_MARK = "\ufdd0"
ESCAPES = {_MARK: _MARK + "0", "\u2581": _MARK + "1", "\u2585": _MARK + "2"}
_RESERVED = re.compile("[" + "".join(ESCAPES) + "]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def escape(text: str) -> str:
    """Text without the characters that sentencepiece reserves. Every model is trained on and applied to such text."""
    return _RESERVED.sub(lambda match: ESCAPES[match[0]], text)


def split_pair(pair: str) -> tuple[str, str]:
    """The two languages of a pair's name: "fr-en" -> ("fr", "en")."""
    src, _, trg = pair.partition("-")
    return src, trg


class Tokenizer:
    """Encodes and decodes sentences of the pairs it was trained for."""

    def __init__(
        self, config: TokenizerConfig, pairs: Sequence[str], models: dict[str, bytes], origin: dict[str, str],
        joined: Sequence[Sequence[str]] = (),
    ):  # fmt: skip
        """models: {language or "joint": serialised}. origin: names the corpus. joined: languages that came later."""
        self.config, self.pairs, self.models, self.origin, self.joined = config, tuple(pairs), models, origin, joined
        self.languages = sorted({language for pair in pairs for language in split_pair(pair)})
        self._sp = {key: spm.SentencePieceProcessor(model_proto=model) for key, model in sorted(models.items())}
        self._to_id: dict[str, list[int]] = {}
        self.tags: dict[str, int] = {}
        self._names, self._texts = ["<pad>", "<unk>", "<s>", "</s>"], [b"", "\u2047".encode(), b"", b""]
        ids: dict[bytes | str, int] = {}
        later = list(chain.from_iterable(joined))
        for languages in ([x for x in self.languages if x not in later], *joined):
            for key, sp in self._sp.items():  # the union of all models: equal pieces of two languages share one id
                if key in languages or (key == "joint" and not self.tags):
                    self._to_id[key] = self._add(sp, ids)
            for language in languages:
                self.tags[language] = len(self._names)
                self._names.append(f"__{language}__")
                self._texts.append(b"")
        self.vocab_size = len(self._names)
        self._one_target = len({split_pair(pair)[1] for pair in pairs}) == 1

    def _add(self, sp: spm.SentencePieceProcessor, ids: dict[bytes | str, int]) -> list[int]:
        """Our id of each piece of a model; pieces that are not among `ids` yet get the next ones."""
        # Our models begin with the specials in this order; models of an imported checkpoint may not.
        special = {sp.pad_id(): PAD, sp.unk_id(): UNK, sp.bos_id(): BOS, sp.eos_id(): EOS}
        for piece in (_content(sp, i) for i in range(sp.get_piece_size()) if i not in special):
            if piece not in ids:
                ids[piece] = len(self._names)
                self._names.append(piece if isinstance(piece, str) else f"<0x{piece[0]:02X}>")
                self._texts.append(piece.replace("\u2581", " ").encode() if isinstance(piece, str) else piece)
        return [special[i] if i in special else ids[_content(sp, i)] for i in range(sp.get_piece_size())]

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) of all that decides which ids a text gets."""
        models = {key: sha256(model).hexdigest() for key, model in sorted(self.models.items())}
        whole = [asdict(self.config), self.pairs, models, *([self.joined] if self.joined else [])]
        return sha256(json.dumps(whole).encode()).hexdigest()

    def encoder_tag(self, pair: str) -> int:
        """The id before the source sentence of this pair."""
        src, trg = self._languages_of(pair)
        return self.tags[src if self.config.tags == "released" and self._one_target else trg]

    def prefix(self, pair: str) -> list[int]:
        """The ids with which every translation of this pair must begin: [] or [decoder tag]."""
        trg = self._languages_of(pair)[1]
        return [self.tags[trg]] if self.config.tags == "released" else []

    def encode(self, texts: Sequence[str], pair: str, side: Literal["src", "trg"]) -> list[list[int]]:
        """Ids of many sentences of one side of a pair.

        Source: encoder tag, pieces, EOS. Target, the tokens to predict: decoder tag if there is one, pieces, EOS.
        Raises UserError for a pair for which this tokenizer was not trained, or text that is not Unicode.
        """
        ids, lengths = self.encode_flat(texts, pair, side)
        return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(lengths) else []

    def encode_flat(
        self, texts: Sequence[str], pair: str, side: Literal["src", "trg"], threads: int = 1
    ) -> tuple[Ints, Ints]:
        """The result of `encode` as two arrays, quickly: [token] the ids of all sentences, [sentence] their lengths."""
        key, before = self.key(pair, side), [self.encoder_tag(pair)] if side == "src" else self.prefix(pair)
        pieces = self._pieces(texts, key, threads)
        inner = np.fromiter(map(len, pieces), np.int64, len(pieces))
        lengths = inner + (len(before) + 1)
        stops = np.cumsum(lengths)
        ids, ordinary = np.full(int(lengths.sum()), EOS), np.ones(int(lengths.sum()), np.bool_)
        ordinary[stops - 1] = False
        for place, tag in enumerate(before):
            ids[stops - lengths + place] = tag
            ordinary[stops - lengths + place] = False
        ids[ordinary] = np.array(self._to_id[key])[np.fromiter(chain.from_iterable(pieces), np.int64, int(inner.sum()))]
        return ids, lengths

    def key(self, pair: str, side: str) -> str:
        """The key of the model that encodes this side."""
        language = self._languages_of(pair)[0 if side == "src" else 1]
        return language if language in self._sp else "joint"

    def _pieces(self, texts: Sequence[str], key: str, threads: int) -> list[list[int]]:
        """Each sentence in the ids of the sentencepiece model."""
        try:
            return self._sp[key].encode([escape(text) for text in texts], out_type=int, num_threads=threads)
        except (RuntimeError, TypeError, UnicodeError):  # which one depends on the version of sentencepiece
            if bad := next(filter(_SURROGATE.search, texts), None):
                raise UserError(f"{bad[:80]!r} has half a surrogate pair, not a character. Remove it.") from None
            raise

    def encode_src(self, text: str, pair: str) -> list[int]:
        """Tag, pieces, EOS of one source sentence; errors as in `encode`."""
        return self.encode([text], pair, "src")[0]

    def encode_trg(self, text: str, pair: str) -> list[int]:
        """The tokens to predict for one target sentence: decoder tag if there is one, pieces, EOS."""
        return self.encode([text], pair, "trg")[0]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the pieces. Specials and tags are left out, UNK becomes U+2047, invalid UTF-8 becomes U+FFFD."""
        text = b"".join([self._texts[i] for i in ids]).decode("utf-8", errors="replace")
        text = text.removeprefix(" ")  # sentencepiece puts one space before every sentence
        for character, code in reversed(ESCAPES.items()):  # the mark last: undone earlier, it could begin another code
            text = text.replace(code, character)
        return text

    def piece(self, token: int) -> str:
        """The text that tables and figures show for an id."""
        return self._names[token]

    def save(self, directory: Path) -> None:
        """Write one `KEY.spm` per model, then `tokenizer.json`; each file appears whole or not at all."""
        for key, model in self.models.items():
            write_bytes(directory / f"{key}.spm", model)
        about = {
            "config": asdict(self.config), "pairs": self.pairs, "corpus": self.origin, "vocab_size": self.vocab_size,
            "models": {key: sha256(model).hexdigest() for key, model in self.models.items()},
            **({"joined": self.joined} if self.joined else {}),
        }  # fmt: skip
        write_json(directory / "tokenizer.json", about)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Inverse of `save`. Raises UserError when the directory holds no tokenizer, or a damaged one."""
        try:
            about = read_json(directory / "tokenizer.json", _SAVED, "is this the directory of a tokenizer?")
            models = {}
            for pair in [*about["pairs"], *(f"{key}-qqq" for key in about["models"] if key != "joint")]:
                checked_pair(pair, "tokenizer.json")  # a language becomes the name of a file
            for key, digest in about["models"].items():
                models[key] = content(directory / f"{key}.spm")
                if sha256(models[key]).hexdigest() != digest:
                    raise ValueError(f"{key}.spm is not the file that was saved")
            config, joined = TokenizerConfig(**about["config"]), about.get("joined", ())
            tokenizer = cls(config, about["pairs"], models, about["corpus"], joined)
            if tokenizer.vocab_size != about["vocab_size"]:
                raise ValueError(f"{tokenizer.vocab_size} ids instead of {about['vocab_size']}")
            return tokenizer
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, UserError) as error:
            what = f"{directory} has no readable tokenizer ({error}). Restore it from a backup, or train elsewhere."
            raise UserError(refused(directory, error.__context__ or error) or what) from None

    def _languages_of(self, pair: str) -> tuple[str, str]:
        if pair not in self.pairs:
            raise UserError(f"This tokenizer has the pairs {', '.join(self.pairs)}, not {pair!r}.")
        return split_pair(pair)


def _content(sp: spm.SentencePieceProcessor, i: int) -> bytes | str:
    """A byte piece as its byte, any other piece as its text: a text piece "<0x41>" stays text."""
    piece: str = sp.id_to_piece(i)
    return bytes([int(piece[3:5], 16)]) if sp.is_byte(i) else piece


def train_tokenizer(corpus: Corpus, config: TokenizerConfig) -> Tokenizer:
    """Train on only the training text of the corpus. The same corpus and config give the same bytes.

    Joint: on both sides of a temperature-smoothed sample. Per language: on every side in that language, not smoothed; a
    shared language uses all pairs, as in multiDDS (the source of TED-8). Raises UserError if `vocab_size` is too small
    for the characters. If the text has too few pieces to fill it, the vocabulary is smaller, with a UserWarning.
    """
    sides = sides_of(corpus, config.kind)
    models = {key: train_model(found, config, key) for key, found in sides.items()}
    return Tokenizer(config, corpus.pairs, models, {"name": corpus.name, "sha256": corpus.fingerprint})


def sides_of(corpus: Corpus, kind: Literal["joint", "per-language"]) -> dict[str, list[Side]]:
    """{key of a model: the sides of the corpus that it is trained on}."""
    sides: dict[str, list[Side]] = {}
    for pair in corpus.pairs:
        for column, language in enumerate(split_pair(pair)):
            sides.setdefault("joint" if kind == "joint" else language, []).append((corpus.train[pair], column))
    return sides


def _sample(sides: Sequence[Side], tau: float, limit: int) -> Iterator[str]:
    """About `limit` sentences: side l gives a share proportional to N_l^(1/tau) (Eq. 2), repeated if needed."""
    sizes = np.array([len(text) for text, _ in sides])
    logits = np.log(sizes) / tau
    shares = np.exp(logits - logits.max())
    counts = np.maximum(1, np.rint(min(limit, sizes.sum()) * shares / shares.sum())).astype(int).tolist()
    rng = np.random.default_rng(0)
    for (text, column), count in zip(sides, counts, strict=True):
        passes, rest = divmod(count, len(text))
        for lines in (*[text] * passes, _some(text, rest, rng)):
            yield from (escape(line[column]) for line in lines)


def _some(text: ParallelText, wanted: int, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """`wanted` random pairs in their order, all choices equally likely; numbers are drawn block by block."""
    for at in range(0, len(text), _BLOCK):
        block, left = text[at : at + _BLOCK], len(text) - at
        here = wanted if left <= _BLOCK else int(rng.hypergeometric(wanted, left - wanted, _BLOCK))
        wanted -= here
        for number, row in enumerate(np.sort(rng.choice(len(block), here, replace=False)).tolist(), 1):
            yield block[row]
            if number % 256 == 0:  # each line may have loaded 64 KB of pages
                block.forget()
        block.forget()


def train_model(sides: Sequence[Side], config: TokenizerConfig, name: str) -> bytes:
    """A sentencepiece model of columns of texts, as the bytes of its file; name: "joint" or a language."""
    model = io.BytesIO()
    # Without byte pieces, every character of the training text needs a piece, also characters outside the sample.
    texts = [] if config.byte_fallback else sides
    every = {character for text, column in texts for line in text for character in escape(line[column])}
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=_sample(sides, config.tau if name == "joint" else 1.0, config.max_sentences),
            model_writer=model, model_type="unigram", vocab_size=config.vocab_size, hard_vocab_limit=False,
            byte_fallback=config.byte_fallback, character_coverage=0.9995 if config.byte_fallback else 1.0,
            required_chars="".join(sorted(every - {" "})), normalization_rule_name="identity",
            remove_extra_whitespaces=False, add_dummy_prefix=True, pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS,
            num_threads=_THREADS, minloglevel=3, max_sentence_length=100_000,
        )  # fmt: skip
    except RuntimeError as error:
        if needed := re.search(r"smaller than required_chars\D+\d+ vs (\d+)", str(error)):
            cure = "one for each character. Raise it, or set byte_fallback=True"
            if config.byte_fallback:
                cure = "256 of them bytes. Raise it"
            raise UserError(f"vocab_size={config.vocab_size} is too small for the {name} tokenizer: this text needs at "
                            f"least {needed[1]} pieces, {cure}.") from None  # fmt: skip
        raise UserError(f"sentencepiece could not train the {name} tokenizer ({error}). Give it more text") from None
    found = spm.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()
    if found < 0.95 * config.vocab_size:
        warnings.warn(f"the {name} tokenizer has {found:,} pieces, not {config.vocab_size:,}: this text has no more "
                      "useful pieces. Nothing is wrong; to avoid this warning, set vocab_size near that number",
                      stacklevel=3)  # fmt: skip
    return model.getvalue()
