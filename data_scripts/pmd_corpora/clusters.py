"""Cut valid, test and long-tailed training sets: no held-out sentence, nor a near-copy, is trained on in any language.

Two sentence pairs belong to one *cluster* if they share a line on either side, or if a chain of such pairs joins them,
in any language. `sentence_key` decides which lines are equal. A cluster is either held out or trained on, never both.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from pmd_corpora.cleaning import sentence_key
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError


class Pair(NamedTuple):
    """One cleaned sentence pair and the package it came from."""

    foreign: str
    english: str
    origin: str


@dataclass(frozen=True)
class Cut:
    """`texts[lang][split]`; `shared` tells whether valid and test are the same English lines in all languages."""

    texts: dict[str, dict[str, list[Pair]]]
    shared: bool
    available: dict[str, int]
    """How many training pairs there were before they were cut to size."""


def find_clusters(items: Iterable[Iterable[Hashable]]) -> list[int]:
    """The cluster of each item: items that share a value, or are joined by a chain of such items, get one number."""
    parent: list[int] = []
    first_with: dict[Hashable, int] = {}
    for number, values in enumerate(items):
        parent.append(number)
        for value in values:
            left, right = _root(parent, first_with.setdefault(value, number)), _root(parent, number)
            parent[max(left, right)] = min(left, right)
    return [_root(parent, number) for number in range(len(parent))]


def cut_corpus(pairs: Mapping[str, Sequence[Pair]], train: Mapping[str, int], valid: int, test: int, seed: int) -> Cut:
    """Held-out sets by cluster, then `train[lang]` of the remaining pairs of each language, or all if fewer remain.

    valid and test are the same English lines in every language if enough clusters hold a line that all languages have;
    else each language gets its own lines. A language gives at most a quarter of its clusters; sets of its own shrink to
    that. Pairs of a held-out cluster that are in neither set are dropped. The same pairs and the same seed give the
    same result.

    Raises:
        UserError: a language has too few sentences for three sets.
    """
    listed = [(lang, pair) for lang in pairs for pair in sorted(set(pairs[lang]))]
    numbers = find_clusters((sentence_key(pair.english), sentence_key(pair.foreign)) for _, pair in listed)
    clusters: dict[int, list[tuple[str, Pair]]] = defaultdict(list)
    for number, item in zip(numbers, listed, strict=True):
        clusters[number].append(item)
    eligible = _Clusters(clusters, tuple(pairs))
    common = eligible.hold_out_shared(valid, test, seed)
    held = common or eligible.hold_out_own(valid, test, seed)
    texts: dict[str, dict[str, list[Pair]]] = {}
    available = {}
    for lang in pairs:
        rest = [
            pair
            for number, (code, pair) in zip(numbers, listed, strict=True)
            if code == lang and number not in held.used
        ]
        random.Random(f"{seed} train {lang}").shuffle(rest)
        available[lang] = len(rest)
        texts[lang] = {"train": rest[: train[lang]], "valid": held.valid[lang], "test": held.test[lang]}
        if not all(texts[lang].values()):
            raise UserError(
                f"Only {len(set(pairs[lang])):,} usable sentence pairs for {lang}: too few for train, valid and test. "
                "Read more packages, or ask for smaller sets."
            )
    return Cut(texts, common is not None, available)


def near_copies(corpus: Corpus) -> list[str]:
    """Notes on training text with a line that is a held-out line of the same language, or a near-copy of one.

    A note names the first such line of a pair and counts them; `sentence_key` decides which lines are equal.
    """
    held: dict[str, set[str]] = defaultdict(set)
    for pair in corpus.pairs:
        for row in chain(corpus.valid[pair], corpus.test[pair]):
            for language, line in zip(pair.split("-"), row, strict=True):
                held[language].add(sentence_key(line))
    notes = []
    for pair in corpus.pairs:
        text, sets = corpus.train[pair], [held[language] for language in pair.split("-")]
        found = [
            n for n, row in enumerate(text) if any(sentence_key(line) in of for line, of in zip(row, sets, strict=True))
        ]
        if found:
            what = f"{len(found):,} training pairs have a line of valid or test, or one that differs only in case"
            notes.append(f"{text.where(found[0])}: {what}, punctuation, spaces or numbers. Remove them from train.")
    return notes


@dataclass
class _HeldOut:
    valid: dict[str, list[Pair]]
    test: dict[str, list[Pair]]
    used: set[int]


class _Clusters:
    """The clusters that may be held out, seen from each language; the same for every order of the input."""

    def __init__(self, members: Mapping[int, list[tuple[str, Pair]]], langs: tuple[str, ...]) -> None:
        # A larger cluster is always trained on: to hold it out would take too much from the training sets.
        self.small = {number: items for number, items in members.items() if len(items) <= 3 * len(langs)}
        self.langs = langs
        self.of: dict[str, dict[int, Pair]] = {lang: {} for lang in langs}
        for number, items in self.small.items():
            for lang, pair in items:
                self.of[lang].setdefault(number, pair)

    def most(self, lang: str, used: Collection[int] = ()) -> int:
        """How many clusters a language may give away: a quarter of those it has."""
        return len(self.of[lang].keys() - set(used)) // 4

    def hold_out_shared(self, valid: int, test: int, seed: int) -> _HeldOut | None:
        """One English line, in all languages, from each of valid + test clusters; None if there are fewer clusters."""
        parallel: dict[int, dict[str, Pair]] = {}
        for number, items in self.small.items():
            lines: dict[str, dict[str, Pair]] = defaultdict(dict)
            for lang, pair in items:
                lines[pair.english].setdefault(lang, pair)
            whole = sorted(english for english, found in lines.items() if len(found) == len(self.langs))
            if whole:
                parallel[number] = lines[whole[0]]
        if valid + test > min(len(parallel), *(self.most(lang) for lang in self.langs)):
            return None
        chosen = random.Random(f"{seed} held out").sample(sorted(parallel), valid + test)
        sides = ([parallel[number] for number in part] for part in (chosen[:valid], chosen[valid:]))
        valid_set, test_set = ({lang: [line[lang] for line in side] for lang in self.langs} for side in sides)
        return _HeldOut(valid_set, test_set, set(chosen))

    def hold_out_own(self, valid: int, test: int, seed: int) -> _HeldOut:
        """For each language, one pair from each cluster it holds out. The language with fewest clusters is first."""
        held = _HeldOut({}, {}, set())
        for lang in sorted(self.langs, key=lambda code: (len(self.of[code]), code)):
            free = sorted(self.of[lang].keys() - held.used)
            take = min(valid + test, self.most(lang, held.used))
            middle = take * valid // (valid + test)
            chosen = random.Random(f"{seed} held out {lang}").sample(free, take)
            held.valid[lang] = [self.of[lang][number] for number in chosen[:middle]]
            held.test[lang] = [self.of[lang][number] for number in chosen[middle:]]
            held.used.update(chosen)
        return held


def _root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number
