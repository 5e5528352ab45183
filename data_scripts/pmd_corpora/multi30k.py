"""Image captions (Multi30k), fr de cs into English: long-tailed training sets that share no caption between pairs.

Each training image has one English caption and its translations. If every pair had all images, English text (and its
meaning) would repeat across pairs; so every image goes to one pair at most: 16,000 to fr, 8,000 to de, 2,000 to cs.
valid (`val`) and test (`test_2016_flickr`) are the same English lines for all pairs, so BLEU can be compared. A caption
is not trained on if its English is that of a held-out or of an earlier training caption, apart from case, punctuation
and numbers. Text is raw, not tokenised. For research only (CC BY-NC-SA 4.0): do not pass it on.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pmd_corpora.archives import text_lines
from pmd_corpora.attribution import write_with_attribution
from pmd_corpora.cleaning import sentence_key
from pmd_corpora.fetch import Remote, fetch
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.reading import SPLITS
from pmd_lite.data.text import CONTROL, is_blank
from pmd_lite.errors import UserError

SIZES = {"fr": 16_000, "de": 8_000, "cs": 2_000}  # training pairs; also the order in which pairs take their captions
LANGUAGES = ("en", *SIZES)
FILES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LINES = {"train": 29_000, "valid": 1_014, "test": 1_000}  # as published

_ADDRESSES = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
)
REMOTES = tuple(
    Remote(
        tuple(f"{address}/{stem}.{lang}.gz" for address in _ADDRESSES),
        f"{stem}.{lang}.gz",
        unpinned="the repository publishes no checksums, and we know no commit of it to pin",
    )
    for stem in FILES.values()
    for lang in LANGUAGES
)
LICENCE = "CC BY-NC-SA 4.0, captions of Flickr30K images: research use, no redistribution"
SOURCE = "Multi30k, Elliott et al. 2016 (github.com/multi30k/dataset, data/task1/raw)"

Caption = dict[str, str]  # language -> the caption of one image


def build(
    out: Path,
    *,
    source: Path | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Path:
    """Image captions of Multi30k (fr, de, cs into English); no caption is in two pairs. Returns `out`.

    Args:
        out: the directory to write (layout of pmd_lite.data.corpus, plus ATTRIBUTION.md).
        source: a folder that holds train, val and test_2016_flickr as .en .fr .de .cs, packed (.gz) or not. Without it
            the twelve files (2 MB) are fetched into `downloads/multi30k` beside `out`.
        sizes: training pairs of each language; a language that is not named has those of SIZES.
        seed: decides which captions go to which pair. A pair keeps its captions when a later one's size changes.
        overwrite: replace another corpus in `out`.

    Raises:
        UserError: no address answers, files are damaged or have unequal numbers of lines, there are too few captions,
            or `out` is unsuitable.
    """
    wanted = _checked_sizes(sizes or {})
    if source is None:
        source = Path(out).expanduser().resolve().parent / "downloads" / "multi30k"
        for remote in REMOTES:
            fetch(remote, source)
    captions = {split: read_captions(Path(source), split) for split in SPLITS}
    for split, expected in LINES.items():
        if len(captions[split]) != expected:
            _say(f"{FILES[split]}: {len(captions[split]):,} captions, {expected:,} were published")
    chosen = choose(captions["train"], [*captions["valid"], *captions["test"]], wanted, seed)
    texts = {
        f"{lang}-en": {
            split: [(one[lang], one["en"]) for one in (chosen[lang] if split == "train" else captions[split])]
            for split in SPLITS
        }
        for lang in wanted
    }
    corpus = Corpus.from_texts("multi30k", texts, licence=LICENCE, source=SOURCE)
    table = "\n".join(f"* {lang}-en: {len(chosen[lang]):,} training captions" for lang in wanted)
    write_with_attribution(corpus, Path(out), f"{SOURCE}.\n\nLicence: {LICENCE}.\n\n{table}\n", overwrite)
    for line in (*corpus.warnings, table):
        _say(line)
    return Path(out)


def read_captions(folder: Path, split: str) -> list[Caption]:
    """The captions of one split, in the order of the files, with all languages.

    Tabs and characters that load_corpus refuses become spaces. A caption that is blank in some language is left out of
    train; in valid and test it is an error. Raises UserError if a file is missing or damaged, or if the files do not
    have equally many lines.
    """
    stem = FILES[split]
    paths = {lang: _find(folder, f"{stem}.{lang}") for lang in LANGUAGES}
    columns = {lang: _lines(path) for lang, path in paths.items()}
    if len({len(lines) for lines in columns.values()}) > 1:
        counts = ", ".join(f"{paths[lang].name} {len(lines):,}" for lang, lines in columns.items())
        raise UserError(
            f"{folder}: unequal numbers of lines ({counts}): line n of each must be the same caption. Fetch them again."
        )
    captions = []
    for number, row in enumerate(zip(*columns.values(), strict=True), 1):
        caption = dict(zip(LANGUAGES, row, strict=True))
        blank = [lang for lang in LANGUAGES if is_blank(caption[lang])]
        if not blank:
            captions.append(caption)
        elif split == "train":
            _say(f"{paths[blank[0]]}:{number}: blank; the caption is left out")
        else:
            raise UserError(f"{paths[blank[0]]}:{number}: a blank line in held-out text. Fetch the file again.")
    return captions


def choose(
    train: Sequence[Caption], held: Sequence[Caption], sizes: Mapping[str, int], seed: int
) -> dict[str, list[Caption]]:
    """Disjoint random sets of training captions, `sizes[lang]` for each language, in the order of the files.

    Raises UserError if fewer captions than the sum of the sizes remain without the held-out and the repeated ones.
    """
    seen = {sentence_key(caption["en"]) for caption in held}
    free = []
    for caption in train:
        key = sentence_key(caption["en"])
        if key not in seen:
            seen.add(key)
            free.append(caption)
    if len(free) < len(train):
        _say(f"train: {len(train) - len(free):,} captions with the English of a held-out or an earlier one left out")
    if sum(sizes.values()) > len(free):
        listed = ", ".join(f"{lang} {size:,}" for lang, size in sizes.items())
        raise UserError(f"Only {len(free):,} captions may be trained on; you ask for {listed}. Ask for fewer (sizes).")
    order = random.Random(f"{seed} multi30k").sample(range(len(free)), len(free))
    chosen, start = {}, 0
    for lang, size in sizes.items():
        chosen[lang] = [free[at] for at in sorted(order[start : start + size])]
        start += size
    return chosen


def _checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    wanted = {lang: sizes.get(lang, size) for lang, size in SIZES.items()}
    wrong = [f"{lang}={size!r}" for lang, size in {**sizes, **wanted}.items()
             if lang not in SIZES or type(size) is not int or size < 1]  # fmt: skip
    if wrong:
        raise UserError(f"sizes: {', '.join(wrong)} cannot be used. Give whole numbers above 0 for {', '.join(SIZES)}.")
    return wanted


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise UserError(f"{folder} has neither {name}.gz nor {name}. Give the folder data/task1/raw of multi30k/dataset.")


def _lines(path: Path) -> list[str]:
    with path.open("rb") as stream:
        return [CONTROL.sub(" ", line.replace("\t", " ")) for line in text_lines(stream, str(path))]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


main = partial(script, "multi30k", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
