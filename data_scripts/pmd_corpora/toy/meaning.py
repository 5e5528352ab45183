"""Meanings: what a toy sentence says, before any language says it, and how English says it.

A meaning is one frame: a subject does (or did) something to an object, perhaps in a place, perhaps at a time. English
is the hub of every toy corpus and the only language with irregular forms (sold, children, she sees). The word lists
below are its whole vocabulary; a world uses the first words of each list.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_NOUNS = """
    dog cat bird horse fish farmer teacher child doctor friend king sailor tree river house road book letter lamp boat
    garden stone bridge apple bread cup door window coat hat drum bell knife table chair ship cloud star moon mouse wolf
    bear goat baker soldier nurse poet judge tower market island forest field ring sword rope
    queen brother sister mother father neighbour stranger guest thief hunter painter singer dancer writer shepherd monk
    prince princess giant witch captain pilot driver tailor miller potter weaver clown uncle aunt cousin baby boy girl
    man woman cow pig sheep lamb hen duck goose frog snake lizard turtle rabbit squirrel hedgehog fox lion tiger monkey
    elephant camel donkey owl eagle crow swan bee ant spider butterfly beetle shark whale crab mountain valley hill lake
    sea beach desert cave village city castle palace church temple school hospital kitchen cellar roof wall fence gate
    path street square well mill barn stable shop inn harbour station farm vineyard orchard meadow swamp flower rose
    leaf branch root seed grass bush oak pine mushroom pear plum cherry lemon onion carrot potato cabbage bean pumpkin
    cheese egg cake pie soup spoon fork plate bowl bottle jar pot pan basket box bag barrel bucket candle mirror clock
    key lock bed blanket pillow carpet curtain shelf ladder hammer nail shovel axe needle thread wheel cart wagon saddle
    anchor sail oar net shirt dress skirt shoe boot glove scarf belt button crown necklace coin purse map flag shield
    arrow bow spear violin flute trumpet harp pencil brush picture statue toy doll kite ball
"""
NOUNS = tuple(_NOUNS.split())
# base form; after a colon its past, if the rule "-ed" does not give it
_VERBS = """
    see:saw find:found follow carry like paint sell:sold buy:bought lose:lost hide:hid draw:drew bring:brought
    forget:forgot watch wash repair open close steal:stole push lift count visit praise
    catch:caught teach:taught hear:heard hold:held keep:kept hire meet:met send:sent break:broke choose:chose
    know:knew take:took throw:threw wear:wore win:won lead:led feed:fed build:built fight:fought cook help love move
    need pull touch turn trust warn admire invite remember describe measure kick greet chase thank protect examine
"""
VERBS = {base: past for base, _, past in (entry.partition(":") for entry in _VERBS.split())}
_ADJECTIVES = """
    small big red blue old new quiet heavy clean round green young tall short bright dark warm cold soft hard strong
    weak rich poor happy sad angry gentle clever lazy brave proud empty broken golden wooden yellow black white grey
"""
ADJECTIVES = tuple(_ADJECTIVES.split())
PLACES = ("near", "behind", "under", "beside", "inside")
TIMES = ("yesterday", "today", "often", "never", "again")
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
_IRREGULAR_PLURALS = {
    "child": "children", "fish": "fish", "mouse": "mice", "wolf": "wolves", "knife": "knives", "man": "men",
    "woman": "women", "sheep": "sheep", "goose": "geese", "thief": "thieves", "leaf": "leaves", "shelf": "shelves",
    "potato": "potatoes",
}  # fmt: skip


class Dice:
    """Random choices with the same stream on every platform and every Python version.

    Python promises that `random()` of a `random.Random` with an integer seed never changes. It does not promise that
    for `choice`, `shuffle` and `sample`, so we build them here from `random()` alone. Every label has its own stream:
    one more language, or a longer training set, does not change the words of others.
    """

    def __init__(self, seed: int, *label: str) -> None:
        digest = hashlib.sha256("/".join((str(seed), *label)).encode("utf-8")).digest()
        self._random = random.Random(int.from_bytes(digest, "big")).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1, all equally likely."""
        return int(self._random() * n)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """k different places of `items`, in random order."""
        pool = list(items)
        for i in range(k):
            j = i + self.below(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:k]

    def weighted(self, cumulative: Sequence[int]) -> int:
        """An index, with the whole-number weights whose running sums are given."""
        return bisect_right(cumulative, self.below(cumulative[-1]))


class Phrase(NamedTuple):
    """A noun phrase. `number` is 1 for "the dog", 0 for "the dogs" and 2 to 5 for "two dogs" to "five dogs"."""

    noun: str
    number: int
    adjective: str | None


class Meaning(NamedTuple):
    """What one sentence says: subject, verb, object, tense, perhaps a place ("near", phrase) and a time word."""

    subject: Phrase
    verb: str
    object: Phrase
    past: bool
    place: tuple[str, Phrase] | None
    time: str | None


@dataclass(frozen=True)
class Concepts:
    """The words a world talks about, and how often it uses each: weight of the word of rank r is r ** -zipf."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    zipf: float = 0.0

    @cached_property
    def all(self) -> tuple[str, ...]:
        return (*self.nouns, *self.verbs, *self.adjectives, *PLACES, *TIMES, *NUMBERS.values())

    @cached_property
    def _weights(self) -> dict[str, list[int]]:
        # Whole numbers, because the last bit of a float power may differ between platforms.
        return {
            kind: list(accumulate(round(1e9 * (rank + 1) ** -self.zipf) for rank in range(len(words))))
            for kind, words in (("nouns", self.nouns), ("verbs", self.verbs), ("adjectives", self.adjectives))
        }

    def draw_phrase(self, dice: Dice) -> Phrase:
        noun = self.nouns[dice.weighted(self._weights["nouns"])]
        number = dice.choice((1, 1, 1, 0, 0, 2, 3, 4, 5))
        adjective = self.adjectives[dice.weighted(self._weights["adjectives"])] if dice.chance(0.5) else None
        return Phrase(noun, number, adjective)

    def draw(self, dice: Dice) -> Meaning:
        """One meaning at random: .5 are in the past, .45 have a place, .3 a time; .5 of phrases an adjective."""
        return Meaning(
            subject=self.draw_phrase(dice),
            verb=self.verbs[dice.weighted(self._weights["verbs"])],
            object=self.draw_phrase(dice),
            past=dice.chance(0.5),
            place=(dice.choice(PLACES), self.draw_phrase(dice)) if dice.chance(0.45) else None,
            time=dice.choice(TIMES) if dice.chance(0.3) else None,
        )


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def with_s(word: str) -> str:
    """The regular plural of a noun, which is also the third person of a verb: dogs, washes, carries."""
    if _ends_in_consonant_y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def plural(noun: str) -> str:
    """The plural of an English noun of the lexicon: dogs, children."""
    return _IRREGULAR_PLURALS.get(noun) or with_s(noun)


def past_tense(verb: str) -> str:
    """The past tense of an English verb of the lexicon: painted, sold."""
    if VERBS[verb]:
        return VERBS[verb]
    if _ends_in_consonant_y(verb):
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def _english_phrase(phrase: Phrase) -> list[str]:
    first = NUMBERS.get(phrase.number, "the")
    middle = [phrase.adjective] if phrase.adjective else []
    return [first, *middle, phrase.noun if phrase.number == 1 else plural(phrase.noun)]


def english(meaning: Meaning) -> str:
    """The meaning in English, lower case, without punctuation: "two small dogs saw the king near the bridge today"."""
    present = with_s(meaning.verb) if meaning.subject.number == 1 else meaning.verb
    verb = past_tense(meaning.verb) if meaning.past else present
    words = [*_english_phrase(meaning.subject), verb, *_english_phrase(meaning.object)]
    if meaning.place:
        words += [meaning.place[0], *_english_phrase(meaning.place[1])]
    if meaning.time:
        words.append(meaning.time)
    return " ".join(words)


def describe(meaning: Meaning) -> str:
    """The meaning as a row of named parts: "subject: 2 x small dog; verb: see, past; object: the king"."""

    def phrase(p: Phrase) -> str:
        number = {0: "the many", 1: "the one"}.get(p.number, f"{p.number} x")
        return " ".join((number, *([p.adjective] if p.adjective else []), p.noun))

    tense = "past" if meaning.past else "present"
    parts = [
        f"subject: {phrase(meaning.subject)}",
        f"verb: {meaning.verb}, {tense}",
        f"object: {phrase(meaning.object)}",
    ]
    if meaning.place:
        parts.append(f"place: {meaning.place[0]} {phrase(meaning.place[1])}")
    if meaning.time:
        parts.append(f"time: {meaning.time}")
    return "; ".join(parts)
