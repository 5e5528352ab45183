"""Real sentences in six languages (fr, de, zh, et, ro, tr; into English) from message catalogs of installed packages.

Nothing is downloaded: the packages of requirements-realdata.txt must be installed, and only their translation files are
read. The pairs are cleaned. They are split by cluster, so that no held-out sentence is trained on in any language, and
cut to long-tailed training sets like those of WMT-6. The same packages and the same seed give the same bytes.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from pmd_corpora.attribution import write_with_attribution
from pmd_corpora.catalog_sources import LANGUAGES, Package, choose_sources, read_package
from pmd_corpora.cleaning import REASONS, clean_pair, paragraphs, sentence_key
from pmd_corpora.clusters import Cut, Pair, cut_corpus
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError

SMALL = {"fr": 2_400, "de": 1_300, "zh": 800, "et": 400, "ro": 200, "tr": 100, "valid": 120, "test": 150}
LARGE = {"fr": 7_000, "de": 4_500, "zh": 2_500, "et": 1_200, "ro": 500, "tr": 250, "valid": 400, "test": 400}
SIZES = {"small": SMALL, "large": LARGE}

_DIACRITICS = {"ro": "ăâîșț"}
_STEPS = ("messages read", *REASONS, "no diacritics", "duplicate")
_SPLITS = ("train", "valid", "test")


@dataclass
class Collected:
    """The clean, different pairs of each language, and how many were left out at each step (`counts[step][lang]`)."""

    packages: list[Package] = field(default_factory=list)
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {step: Counter() for step in _STEPS})


def build(
    out: Path,
    *,
    packages: list[str] | None = None,
    include_copyleft: bool = False,
    seed: int = 0,
    size: Literal["small", "large"] = "large",
    sizes: Mapping[str, int] | None = None,
    overwrite: bool = False,
) -> Path:
    """Real sentences in six languages, from message catalogs of installed packages. No download. Returns `out`.

    Args:
        out: the directory to write (layout of pmd_lite.data.corpus, plus ATTRIBUTION.md).
        packages: names of installed packages to read instead of the default list (catalog_sources.SOURCES).
        include_copyleft: also read packages under the GPL or AGPL; the corpus is then under their terms too.
        seed: decides which lines are held out and which are trained on.
        size: small has 2,400 French pairs, large 7,000, and so on (SMALL, LARGE).
        sizes: other numbers of training pairs (fr 5000), and of held-out lines (valid 200 test 200).
        overwrite: replace another corpus in `out`. One with the same text is always written anew.

    Raises:
        UserError: packages are missing, a catalog is damaged, `out` is unsuitable, sizes are unknown, or there are too
            few sentences.
    """
    wanted = _checked_sizes({**SIZES[size], **(sizes or {})})
    collected = collect([read for read in _read_all(packages, include_copyleft)])
    _say(f"{sum(map(len, collected.pairs.values())):,} clean pairs; splitting by cluster")
    train = {lang: wanted[lang] for lang in LANGUAGES}
    cut = cut_corpus(collected.pairs, train, wanted["valid"], wanted["test"], seed)
    used = _used(cut)
    texts = {
        f"{lang}-en": {split: [(pair.foreign, pair.english) for pair in cut.texts[lang][split]] for split in _SPLITS}
        for lang in LANGUAGES
    }
    licences = [
        f"{package.name} {package.version}: {package.licence}" for package in collected.packages if package.name in used
    ]
    corpus = Corpus.from_texts(
        "catalogs6",
        texts,
        licence="; ".join(licences),
        source="message catalogs of Python packages; see ATTRIBUTION.md",
    )
    table = summary(collected, cut, train)
    write_with_attribution(corpus, Path(out), attribution(collected.packages, used, table), overwrite)
    for line in (*corpus.warnings, "", table):
        _say(line)
    return Path(out)


def collect(packages: Sequence[Package]) -> Collected:
    """Clean every message, leave out catalogs without diacritics, keep one translation of each English sentence.

    Of several translations the most frequent one is kept; if several are equally frequent, the first one read.
    Sentences that differ only in case, punctuation or the value of a number are one sentence (`sentence_key`).
    """
    collected = Collected(list(packages))
    for lang in LANGUAGES:
        versions: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
        origin: dict[tuple[str, str], str] = {}
        count = {step: 0 for step in _STEPS}
        for package in packages:
            clean: list[tuple[str, str]] = []
            for message in package.messages[lang]:
                for english, foreign in paragraphs(*message):
                    count["messages read"] += 1
                    result = clean_pair(english, foreign, lang)
                    if isinstance(result, str):
                        count[result] += 1
                    else:
                        clean.append(result)
            if _without_diacritics([foreign for _, foreign in clean], lang):
                count["no diacritics"] += len(clean)
                continue
            for pair in clean:
                versions[sentence_key(pair[0])][pair] += 1
                origin.setdefault(pair, package.name)
        best = [found.most_common(1)[0][0] for found in versions.values()]
        count["duplicate"] = sum(sum(found.values()) for found in versions.values()) - len(best)
        collected.pairs[lang] = [Pair(foreign, english, origin[english, foreign]) for english, foreign in best]
        for step, number in count.items():
            collected.counts[step][lang] = number
    return collected


def summary(collected: Collected, cut: Cut, wanted: Mapping[str, int]) -> str:
    """A Markdown table of the pairs left after each step, and of what went into the corpus."""
    left = Counter(collected.counts["messages read"])
    rows = [("messages read", dict(left))]
    for step in _STEPS[1:]:
        left.subtract(collected.counts[step])
        rows.append((f"without: {step}", dict(left)))
    held = "the same English lines in all languages" if cut.shared else "own lines for each language"
    rows.append(("left for training", cut.available))
    rows.extend((split, {lang: len(cut.texts[lang][split]) for lang in LANGUAGES}) for split in _SPLITS)
    lines = _table(["pairs", *LANGUAGES], [[name, *(f"{row[lang]:,}" for lang in LANGUAGES)] for name, row in rows])
    short = [lang for lang in LANGUAGES if len(cut.texts[lang]["train"]) < wanted[lang]]
    if short:
        lines += (
            f"\nFewer training pairs than asked for: {', '.join(f'{lang} (of {wanted[lang]:,})' for lang in short)}."
        )
    return f"{lines}\nvalid and test: {held}."


def attribution(packages: Sequence[Package], used: Mapping[str, Counter[str]], table: str) -> str:
    """The text of ATTRIBUTION.md: package, version, licence, pairs in the corpus; then the table of steps."""
    rows = [
        [package.name, package.version, package.licence, *(str(used[package.name][lang]) for lang in LANGUAGES)]
        for package in packages
        if package.name in used
    ]
    return (
        "Message catalogs of the Python packages below, cleaned and cut by pmd_corpora.catalogs6. Every "
        "sentence stays under the licence of its package, where the licence text and the translators' names are. The "
        "columns count sentence pairs in the corpus (all splits); one that several packages hold counts for the first."
        "\n\n"
        f"{_table(['package', 'version', 'licence', *LANGUAGES], rows)}\n\n## Cleaning\n\n{table}\n"
    )


def _read_all(names: list[str] | None, include_copyleft: bool) -> list[Package]:
    packages = []
    sources = choose_sources(names, include_copyleft)
    for number, source in enumerate(sources, 1):
        packages.append(read_package(source))
        found = sum(map(len, packages[-1].messages.values()))
        _say(f"[{number}/{len(sources)}] {source.name} {packages[-1].version}: {found:,} messages")
    return packages


def _checked_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    wanted = {**LARGE, **sizes}
    wrong = [
        f"{name}={number!r}"
        for name, number in wanted.items()
        if name not in LARGE or type(number) is not int or number < 1
    ]
    if wrong:
        raise UserError(f"sizes: {', '.join(wrong)} cannot be used. Give whole numbers above 0 for {', '.join(LARGE)}.")
    return wanted


def _without_diacritics(lines: Sequence[str], lang: str) -> bool:
    """Whether a catalog was typed without the special letters of its language: fewer than one line in five has any.

    Such a catalog would teach wrong spelling.
    """
    letters = _DIACRITICS.get(lang)
    return bool(letters and lines) and 5 * sum(
        any(char in line.lower() for char in letters or "") for line in lines
    ) < len(lines)


def _used(cut: Cut) -> dict[str, Counter[str]]:
    """package -> language -> pairs in the corpus, for the packages that have any."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for lang, splits in cut.texts.items():
        for pairs in splits.values():
            for pair in pairs:
                used[pair.origin][lang] += 1
    return dict(used)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, first column to the left, numbers to the right, readable as plain text too."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    words = [
        not any(row[column][:1].isdigit() and row[column].replace(",", "").isdigit() for row in rows)
        for column in range(len(head))
    ]
    cells = [
        [cell.ljust(w) if word else cell.rjust(w) for cell, w, word in zip(row, widths, words, strict=True)]
        for row in (head, *rows)
    ]
    rule = [("-" * w) if word else "-" * (w - 1) + ":" for w, word in zip(widths, words, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:]))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


main = partial(script, "catalogs6", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
