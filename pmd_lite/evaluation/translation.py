"""Ids in, text out: sentences of similar length are translated in one batch."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pmd_lite.data.text import is_blank
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from pmd_lite.disk import content, write_bytes
from pmd_lite.errors import UserError
from pmd_lite.evaluation.scoring import one_line
from pmd_lite.model.decoding import Hypothesis, translate_batch
from pmd_lite.model.transformer import Transformer

LENGTHS = 16
"""Width of a bucket of source lengths, in tokens."""


class Engine(ABC):
    """Another program that searches with a model's weights, in place of a `Transformer` (exchange/ctranslate2.py)."""

    max_len: int
    """Longest sequence in tokens."""

    @abstractmethod
    def find(self, sources: Sequence[Sequence[int]], **options: Any) -> list[Hypothesis]:
        """The best hypothesis for each sentence. Options: beam, max_len, length_penalty, prefix, banned."""


def translate_ids(
    model: Transformer | Engine, sources: Sequence[Sequence[int]], pair: str, tokenizer: Tokenizer, **options: Any
) -> list[str]:
    """Translations of encoded source sentences of one pair, in their order. Options: those of `search`."""
    return [text_of(found, tokenizer) for found in search(model, sources, pair, tokenizer, **options)]


def translate_texts(
    model: Transformer | Engine, texts: Sequence[str], pair: str, tokenizer: Tokenizer, **options: Any
) -> list[str]:
    """Translations of sentences, in their order; an empty one stays empty. Options: those of `search`."""
    rows = [i for i, text in enumerate(texts) if not is_blank(text)]
    sources = tokenizer.encode([texts[i].strip() for i in rows], pair, "src")
    out = [""] * len(texts)
    for i, text in zip(rows, translate_ids(model, sources, pair, tokenizer, **options), strict=True):
        out[i] = text
    return out


def read_translations(file: Path) -> list[str]:
    """The lines of RUN/translations/FILE. Raises UserError when the file is absent or not UTF-8."""
    again = f"python -m pmd_lite evaluate {file.parent.parent}"
    if not file.exists():
        raise UserError(f"{file}: no translations yet: {again}")
    try:
        return content(file).decode().removesuffix("\n").split("\n")  # read_text would turn CR into LF
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: {error}. Translate again: {again}") from None


def write_lines(file: Path, lines: Sequence[str]) -> None:
    """Write RUN/translations/FILE: UTF-8, one sentence a line."""
    write_bytes(file, "".join(one_line(line) + "\n" for line in lines).encode())


def text_of(hypothesis: Hypothesis, tokenizer: Tokenizer) -> str:
    """The translation as one line."""
    return one_line(tokenizer.decode(hypothesis.tokens))  # byte pieces may spell a line end


def shortened(ids: Sequence[int], limit: int) -> list[int]:
    """The sentence itself, or its first `limit` - 1 tokens and EOS if it is longer than `limit`."""
    return list(ids) if len(ids) <= limit else [*ids[: limit - 1], EOS]


def _find(model: Transformer, sources: Sequence[Sequence[int]], **options: Any) -> list[Hypothesis]:
    """Our own search, as `Engine.find`."""
    longest, device = max(map(len, sources)), next(model.parameters()).device
    src = torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in sources], device=device)
    return translate_batch(model, src, bos=BOS, eos=EOS, pad=PAD, **options)


def search(
    model: Transformer | Engine, sources: Sequence[Sequence[int]], pair: str, tokenizer: Tokenizer, *, limit: int,
    budget: int, beam: int = 1, length_penalty: float = 1.0,
) -> list[Hypothesis]:  # fmt: skip
    """The best hypothesis for each encoded source sentence of one pair, in their order.

    Args:
        model: in eval mode; also an `Ensemble` or an `Engine`.
        sources: ids of each sentence, encoder tag and EOS included.
        limit: longest source and target in tokens; a longer source is cut, with a warning.
        budget: largest number of padded source tokens in a batch.
    """
    if cut := sum(len(ids) > limit for ids in sources):
        warnings.warn(f"{pair}: {cut:,} of {len(sources):,} source sentences are longer than max_len={limit} tokens; "
                      "their ends are not translated", stacklevel=2)  # fmt: skip
    sources = [shortened(ids, limit) for ids in sources]
    order = sorted(range(len(sources)), key=lambda i: (len(sources[i]), i))
    out = [Hypothesis([], 0.0)] * len(sources)
    prefix, banned = tokenizer.prefix(pair), [UNK, *tokenizer.tags.values()]
    find = model.find if isinstance(model, Engine) else partial(_find, model)
    for rows in batches_by_length(order, [len(ids) for ids in sources], budget):
        longest = max(len(sources[i]) for i in rows)
        hypotheses = find(
            [sources[i] for i in rows], beam=beam, max_len=min(limit - 1 - len(prefix), 3 * _bucket(longest) // 2 + 20),
            length_penalty=length_penalty, prefix=prefix, banned=banned,
        )  # fmt: skip
        for i, hypothesis in zip(rows, hypotheses, strict=True):
            out[i] = hypothesis
    return out


def _bucket(length: int) -> int:
    """A source length rounded up; it limits the length of the translation."""
    return -(-length // LENGTHS) * LENGTHS


def batches_by_length(order: Sequence[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut `order`, sorted by length, into batches of one bucket (one limit) and at most `budget` padded tokens."""
    batches: list[list[int]] = []
    for i in order:
        same = bool(batches) and _bucket(lengths[batches[-1][0]]) == _bucket(lengths[i])
        if same and lengths[i] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
