"""TED talks: eight languages and English, cut from the 60-language corpus of Qi et al. (2018) with its own splits.

`diverse` is TED-8-Diverse, the set of the paper (bs mr hi mk el bg fr ko). `related` is the set of MultiDDS (az be gl
sk, each beside a larger relative: tr ru pt cs). Pairs are named by the corpus' own codes, such as bs-en; the paper
writes bos, mar, hin, mkd, ell, bul, fra, kor. The files come from `source` if it is given: the archive, or a folder of
.tsv or of .parquet files. Otherwise they come from their own site; if that fails, from the copy on the Hugging Face Hub
(half as large again, and it needs pyarrow).

What to know about this text:

* It is Moses-tokenised ("I don &apos;t know .") and stays so, as the papers used it. BLEU on it is BLEU of tokenised
  text, and cannot be compared with sacreBLEU on detokenised text. Korean as target needs `pip install
  "sacrebleu[ko]"`, or `--tokenize 13a`, with which the paper's Korean column was very likely scored.
* TED's licence is CC BY-NC-ND: use it for research, do not pass it on, changed or unchanged.
* A missing translation is written `__NULL__`, or `_ _ NULL _ _` if the tokenizer has split it. The mark may stand in
  the middle of a sentence of which a part is missing. Such sentences are left out; sentences with the word NULL stay.
* Short lines ("Thank you .") recur. A training pair that is also a test pair of the same languages is left out, because
  load_corpus refuses such a corpus. All other repetitions stay, and are reported.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from pmd_corpora.attribution import write_with_attribution
from pmd_corpora.ted_sources import Cells, download, read_split
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.reading import SPLITS
from pmd_lite.data.text import CONTROL, is_blank
from pmd_lite.errors import UserError

Rows = list[tuple[str, str]]  # (foreign, English)

# Training pairs of the paper's table. (They add up to 766,352, though its text says about 570 thousand.)
DIVERSE = {
    "ko": 205_640, "fr": 192_304, "bg": 174_444, "el": 134_327, "mk": 25_335, "hi": 18_798, "mr": 9_840, "bs": 5_664,
}  # fmt: skip
# We have no published numbers. MultiDDS's Portuguese set is said to have about 185 thousand pairs. The column "pt"
# (Portugal) holds fewer, so the set may have been "pt-br".
RELATED = ("tr", "ru", "pt", "cs", "sk", "gl", "az", "be")
CODES: dict[str, tuple[str, ...]] = {"diverse": tuple(DIVERSE), "related": RELATED}
# Pairs of valid and test in MultiDDS's table, from memory: a difference is reported, and is not an error.
HELD_OUT = {
    "bs": (474, 463), "mr": (767, 1_090), "hi": (854, 1_243), "mk": (640, 438), "el": (3_344, 4_433),
    "bg": (4_082, 5_060), "fr": (4_320, 4_866), "ko": (4_441, 5_637),
}  # fmt: skip
NAMES = {
    "bs": "Bosnian", "mr": "Marathi", "hi": "Hindi", "mk": "Macedonian", "el": "Greek", "bg": "Bulgarian",
    "fr": "French", "ko": "Korean", "az": "Azerbaijani", "be": "Belarusian", "gl": "Galician", "sk": "Slovak",
    "tr": "Turkish", "ru": "Russian", "pt": "Portuguese", "cs": "Czech",
}  # fmt: skip
ROWS = {
    "train": 258_098,
    "valid": 6_049,
    "test": 7_213,
}  # of the archive, as Hugging Face and TensorFlow Datasets list them

LICENCE = "CC BY-NC-ND 4.0 (TED talks): research use, no redistribution"
SOURCE = (
    "TED talks, Qi et al. 2018 (github.com/neulab/word-embeddings-for-nmt). Moses-tokenised text: BLEU on it is not "
    "comparable with sacreBLEU on detokenised text"
)
_MISSING = ("__NULL__", "_ _ NULL _ _")


@dataclass
class Found:
    """One split: the pairs of each language in the order of the talks, the number of rows, and notes about the text."""

    pairs: dict[str, Rows]
    rows: int = 0
    notes: Counter[str] = field(default_factory=Counter)


def build(
    out: Path,
    *,
    which: Literal["diverse", "related"] = "diverse",
    direction: Literal["m2o", "o2m"] = "m2o",
    source: Path | None = None,
    seed: int = 0,
    overwrite: bool = False,
    strict: bool = True,
) -> Path:
    """TED talks: the paper's TED-8-Diverse, or TED-8-Related. Moses-tokenised, as published. Returns `out`.

    Args:
        out: the directory to write (layout of pmd_lite.data.corpus, plus ATTRIBUTION.md).
        which: the eight languages.
        direction: many-to-one (into English) or one-to-many.
        source: files that you have downloaded: the archive, or a folder with its three .tsv files or with .parquet
            files (a download tree of the Hub's copy). Without it they are fetched into `downloads` beside `out`.
        seed: not used, because the splits are those of the corpus; every script takes this argument.
        overwrite: replace another corpus in `out`.
        strict: if False, the script only prints a line on stderr and continues when lines of a .tsv lack columns, or
            when the numbers of rows or training pairs differ from the published ones.

    Raises:
        UserError: no address answers, files are damaged, columns or numbers are not the published ones, or `out` is
            unsuitable.
    """
    if which not in CODES or direction not in ("m2o", "o2m"):
        raise UserError(f"which={which!r}, direction={direction!r}: choose diverse or related, and m2o or o2m.")
    codes = CODES[which]
    place = Path(source) if source is not None else download(Path(out).expanduser().resolve().parent / "downloads")
    found = {split: collect(read_split(place, split, codes, strict), codes) for split in SPLITS}
    for split, one in found.items():
        for what, number in sorted(one.notes.items()):
            _say(f"{split}: {number:,} {what}")
    if differing := differences(found, which):
        listed = "; ".join(differing)
        if strict:
            raise UserError(
                f"{place}: not the published numbers. {listed}. Fetch the files again, or accept them with "
                "strict=False (--no-strict)."
            )
        _say(f"{place}: not the published numbers. {listed}.")
    table = summary(found, which)
    _drop_test_pairs(found)
    texts = {_name(code, direction): {s: _turned(found[s].pairs[code], direction) for s in SPLITS} for code in codes}
    # strict=False: lines that are still unsound (only zero-width characters, endless lines) are dropped and reported.
    corpus = Corpus.from_texts(f"ted8-{which}", texts, licence=LICENCE, source=SOURCE, strict=False)
    write_with_attribution(corpus, Path(out), f"{SOURCE}.\n\nLicence: {LICENCE}.\n\n{table}\n", overwrite)
    for line in (*corpus.warnings, "", table):
        _say(line)
    return Path(out)


def collect(rows: Iterable[Cells], codes: Sequence[str]) -> Found:
    """The sentence pairs of each language with English, without pairs of which a side is missing or blank.

    Characters that load_corpus refuses (line separators, control characters, tabs) become spaces; nothing else changes.
    """
    found = Found({code: [] for code in codes})
    for cells in rows:
        found.rows += 1
        english = cells.get("en")
        for code in codes:
            foreign = cells.get(code)
            if english is None or foreign is None or _is_missing(english) or _is_missing(foreign):
                continue
            pair = _plain(foreign), _plain(english)
            if any(map(is_blank, pair)):
                found.notes[f"{code} pairs with a blank side left out"] += 1
                continue
            if pair != (foreign, english):
                found.notes[f"{code} pairs with a line separator or control character, now a space"] += 1
            if "NULL" in foreign or "NULL" in english:
                found.notes[f"{code} pairs with the word NULL kept (the corpus' own reader drops them)"] += 1
            found.pairs[code].append(pair)
    return found


def _plain(text: str) -> str:
    """The text with a space for every tab, line end and other character that load_corpus refuses."""
    return CONTROL.sub(" ", re.sub(r"[\t\n]", " ", text))


def differences(found: Mapping[str, Found], which: str) -> list[str]:
    """A line for each number of rows or training pairs that is not the published one: expected and found."""
    lines = [
        f"{split}: {ROWS[split]:,} rows expected, {one.rows:,} found"
        for split, one in found.items()
        if one.rows != ROWS[split]
    ]
    lines += [f"{split}.{code}-en: no pair found" for split, one in found.items() for code in one.pairs
              if not one.pairs[code]]  # fmt: skip
    if which == "diverse":
        counts = {code: len(found["train"].pairs[code]) for code in DIVERSE}
        lines += [
            f"train.{code}-en: {DIVERSE[code]:,} pairs expected, {number:,} found"
            for code, number in counts.items()
            if number != DIVERSE[code]
        ]
    return lines


def summary(found: Mapping[str, Found], which: str) -> str:
    """A Markdown table of the numbers of pairs in the files, beside the numbers expected."""
    lines = ["| language | train | valid | test | expected |", "| --- | --: | --: | --: | --- |"]
    for code in CODES[which]:
        counts = [len(found[split].pairs[code]) for split in SPLITS]
        expected = (DIVERSE[code], *HELD_OUT[code]) if which == "diverse" else ()
        verdict = "as expected" if counts == list(expected) else " / ".join(f"{number:,}" for number in expected) or "-"
        lines.append(f"| {NAMES[code]} ({code}) | {' | '.join(f'{number:,}' for number in counts)} | {verdict} |")
    return "\n".join(lines)


def _is_missing(text: str) -> bool:
    return any(marker in text for marker in _MISSING)


def _drop_test_pairs(found: Mapping[str, Found]) -> None:
    for code, rows in found["train"].pairs.items():
        tested = set(found["test"].pairs[code])
        kept = [pair for pair in rows if pair not in tested]
        if len(kept) < len(rows):
            _say(f"train.{code}-en: {len(rows) - len(kept):,} of {len(rows):,} pairs are test pairs too: left out")
        found["train"].pairs[code] = kept


def _name(code: str, direction: str) -> str:
    return f"{code}-en" if direction == "m2o" else f"en-{code}"


def _turned(rows: Rows, direction: str) -> Rows:
    return rows if direction == "m2o" else [(english, foreign) for foreign, english in rows]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


main = partial(script, "ted8", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
