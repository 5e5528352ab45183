"""TED-8 and WMT-6 in small, from invented sentences: files of the exact forms that the real ones have.

Lessons 14 and 15 send them through the same scripts and the same training as the real data, which we may not pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pmd_corpora.toy import toy_corpus, toy_languages
from pmd_corpora.toy.corpus import toy_world
from pmd_corpora.toy.meaning import Dice, english
from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import RawTexts
from pmd_lite.errors import UserError

# The header of all_talks_*.tsv. "calv" is empty in every line.
_COLUMNS = """
    en es pt-br fr ru he ar ko zh-cn it ja zh-tw nl ro tr de vi pl pt bg el fa sr hu hr uk cs id th sv sk sq lt da calv
    my sl mk fr-ca fi hy hi nb ka mn et ku gl mr zh ur eo ms az ta bn kk be eu bs
"""
TED_COLUMNS = tuple(_COLUMNS.split())
TED_SIZES: Mapping[str, int] = {
    "ko": 205_640, "fr": 192_304, "bg": 174_444, "el": 134_327, "mk": 25_335, "hi": 18_798, "mr": 9_840, "bs": 5_664,
}  # fmt: skip
"""Training pairs of TED-8-Diverse, as in the paper's table."""
WMT_SIZES: Mapping[str, int] = {
    "fr": 3_000_000, "de": 1_500_000, "zh": 400_000, "et": 80_000, "ro": 10_000, "tr": 5_000,
}  # fmt: skip
"""Training pairs of WMT-6, as in the paper's table."""
SHRINK, HELD = 400, 40
_FILES = {"train": "all_talks_train.tsv", "valid": "all_talks_dev.tsv", "test": "all_talks_test.tsv"}
_MISSING, _TORN = "__NULL__", "_ _ NULL _ _"


def write_ted(folder: Path, shrink: int = SHRINK) -> Path:
    """The three files of the 60-language TED corpus with invented sentences in nine of its columns; returns `folder`.

    A line is one English sentence and its translations, as in the talks; sizes are those of TED-8-Diverse divided by
    `shrink`. As in the real files, missing translations are marked in two ways, and a line separator, a blank side and
    the word NULL occur. Text is tokenised: the full stop stands alone. Raises UserError when nothing would be left.
    """
    counts = {code: size // shrink for code, size in TED_SIZES.items()}
    if min(counts.values()) < 1:
        raise UserError(f"shrink={shrink}: the smallest language would have no sentence; shrink less")
    world = toy_world("toy", cast=len(counts), nouns=80, verbs=30, adjectives=14, zipf=0.5)
    spoken = dict(zip(counts, toy_languages(world).values(), strict=True))
    rng, dice, used = np.random.default_rng(8), Dice(8, "ted"), set[str]()
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in _FILES.items():
        wanted = counts if split == "train" else dict.fromkeys(counts, HELD)
        lines = [["talk_name", *TED_COLUMNS]]
        rows = max(wanted.values())
        present = {code: set(rng.permutation(rows)[:count].tolist()) for code, count in wanted.items()}
        while len(lines) <= rows:
            meaning = world.concepts.draw(dice)
            text = f"{english(meaning)} ."
            if text in used:
                continue
            used.add(text)
            at = len(lines) - 1
            said = {code: f"{language.say(meaning)} ." for code, language in spoken.items() if at in present[code]}
            cells = {"talk_name": f"talk_{at // 20}", "en": text, **said}
            lines.append([cells.get(column, "" if column == "calv" else _MISSING) for column in lines[0]])
        if split == "train":
            lines += _oddities()
        (folder / name).write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8", newline="\n")
    return folder


def _oddities() -> list[list[str]]:
    """Odd lines, of which the real files have a few; ted8.py keeps two of these."""
    odd = [
        {"en": "half of it is missing . " + _TORN, "fr": "deux phrases . en voici une ."},
        {"en": _TORN, "ko": "kein Englisch ."},
        {"en": "a NULL hypothesis is no missing one .", "fr": "une hypothèse NULL ."},
        {"en": "one line\u2028two lines .", "fr": "une ligne\u2028deux lignes ."},
        {"en": "nothing on the other side .", "fr": " "},
    ]
    columns = ["talk_name", *TED_COLUMNS]
    return [[{"talk_name": "odd", **line}.get(column, _MISSING) for column in columns] for line in odd]


def write_wmt(out: Path, head: int = 1200, held: int = 60) -> Path:
    """A corpus directory as pmd_corpora.wmt6 writes it, from the six invented languages under WMT-6's codes.

    head: training pairs of the largest; the others follow WMT-6 with a softened tail, 20 at least. Returns `out`.
    """
    toy = toy_corpus("longtail", head=head, minimum=20, held=held)
    texts: RawTexts = {
        f"{code}-en": {split: list(getattr(toy, split)[pair]) for split in ("train", "valid", "test")}
        for code, pair in zip(WMT_SIZES, toy.pairs, strict=True)
    }
    return write_corpus(texts, out, name="wmt6", licence="MIT", source="invented languages in the place of WMT's text")
