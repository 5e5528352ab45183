"""Invented languages: how each of them says a meaning.

Every language is regular: its grammar is one fixed row of slots. A language is not ambiguous but for homonyms that we
give it on purpose: no two words and no two inflected forms look alike. So each sentence has one reading (the tests
read sentences back), and if a translation model fails to learn, its training is at fault, not the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pmd_corpora.toy.meaning import NUMBERS, PLACES, TIMES, Concepts, Meaning

Script = Literal["latin", "cyrillic", "greek", "han"]


@dataclass(frozen=True)
class Blueprint:
    """A language before a seed gives it words: its place in the long tail, its family and its grammar."""

    code: str
    size: int  # sentence pairs in the real corpus that it represents
    family: str  # languages of one family grow from the same words
    order: Literal["SVO", "SOV", "VSO"]
    adjective: Literal["AN", "NA"]  # before or after its noun
    adposition: Literal["pre", "post"]  # "near the house" or "the house near"
    morphology: Literal["suffix", "isolating"]  # plural, past and object: endings, or separate words
    drift: float  # share of the family's words replaced by new ones
    shifts: int  # regular sound changes, such as every p to f
    script: Script = "latin"  # "han" is written without spaces


class Slot(NamedTuple):
    """One position in a sentence: its role (subject, object, place, or "": the whole sentence) and its kind of word."""

    role: str
    kind: str


Word = tuple[str, str]  # a form and its gloss: ("kanpi", "dog-PL")


@dataclass(frozen=True)
class Language:
    """A grown language. `words` maps every concept to its form; the last three fields record what we did to it."""

    blueprint: Blueprint
    concepts: Concepts
    words: Mapping[str, str]
    endings: tuple[str, str, str]  # plural, past, object
    homonyms: tuple[tuple[str, str], ...] = ()  # two concepts, one form
    rival: str | None = None  # the language whose forms the false friends take
    false_friends: tuple[tuple[str, str], ...] = ()  # (concept here, what its form means in the rival)

    @cached_property
    def space(self) -> str:
        """The text between two words: a space, or nothing in Han."""
        return "" if self.blueprint.script == "han" else " "

    def gloss(self, meaning: Meaning) -> list[Word]:
        """The sentence word by word, each form with what it means: [("du", "two"), ("kanpi", "dog-PL"), ...]."""
        values = _values(meaning)
        row = self.rows[meaning.place is not None]
        return [word for slot in row if (value := values.get(slot)) is not None for word in self.tables[slot][value]]

    def say(self, meaning: Meaning) -> str:
        """The sentence for this meaning."""
        return self.space.join(form for form, _ in self.gloss(meaning))

    @cached_property
    def rows(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The grammar: the slots of a sentence without a place, and those of a sentence with a place, in order."""
        b = self.blueprint

        def phrase(role: str) -> list[Slot]:
            kinds = ("number", "adjective", "noun") if b.adjective == "AN" else ("number", "noun", "adjective")
            # If the object stands before the verb and has no ending, a separate word marks it.
            marked = role == "object" and b.morphology == "isolating" and b.order == "SOV"
            return [Slot(role, kind) for kind in (*kinds, *(("marker",) if marked else ()))]

        subject, verb, thing, time = phrase("subject"), [Slot("", "verb")], phrase("object"), [Slot("", "time")]
        where = [Slot("place", "adposition")]
        place = where + phrase("place") if b.adposition == "pre" else phrase("place") + where

        def row(at: list[Slot]) -> tuple[Slot, ...]:
            if b.order == "SOV":
                return (*time, *subject, *at, *thing, *verb)
            core = subject + verb if b.order == "SVO" else verb + subject
            return (*core, *thing, *at, *time)

        return row([]), row(place)

    @cached_property
    def tables(self) -> dict[Slot, dict[object, tuple[Word, ...]]]:
        """For each slot: {its value: the words that say this value}."""
        c, say = self.concepts, self.words
        plural, past, mark = self.endings

        def plain(concepts: Sequence[str]) -> dict[object, tuple[Word, ...]]:
            return {concept: ((say[concept], concept),) for concept in concepts}

        def bend(concept: str, endings: list[Word]) -> tuple[Word, ...]:
            if self.blueprint.morphology == "isolating":
                return ((say[concept], concept), *endings)
            gloss = "-".join((concept, *(meaning for _, meaning in endings)))
            return ((say[concept] + "".join(form for form, _ in endings), gloss),)

        tables: dict[Slot, dict[object, tuple[Word, ...]]] = {}
        for role in ("subject", "object", "place"):
            case = [(mark, "OBJ")] if role == "object" and self.blueprint.morphology == "suffix" else []
            tables[Slot(role, "noun")] = {
                (noun, many): bend(noun, [*([(plural, "PL")] if many else []), *case])
                for noun in c.nouns
                for many in (False, True)
            }
            tables[Slot(role, "adjective")] = plain(c.adjectives)
            tables[Slot(role, "number")] = {n: ((say[name], name),) for n, name in NUMBERS.items()}
        tables[Slot("", "verb")] = {
            (verb, late): bend(verb, [(past, "PAST")] if late else []) for verb in c.verbs for late in (False, True)
        }
        tables[Slot("object", "marker")] = {"": ((mark, "OBJ"),)}
        tables[Slot("place", "adposition")] = plain(PLACES)
        tables[Slot("", "time")] = plain(TIMES)
        return tables


def _values(meaning: Meaning) -> dict[Slot, Any]:
    """The value of each slot that is filled; an absent slot stays empty."""
    phrases = {"subject": meaning.subject, "object": meaning.object}
    values: dict[Slot, Any] = {Slot("", "verb"): (meaning.verb, meaning.past), Slot("object", "marker"): ""}
    if meaning.time:
        values[Slot("", "time")] = meaning.time
    if meaning.place:
        values[Slot("place", "adposition")], phrases["place"] = meaning.place
    for role, phrase in phrases.items():
        values[Slot(role, "noun")] = (phrase.noun, phrase.number == 0)  # after a number the noun keeps its bare form
        if phrase.number > 1:
            values[Slot(role, "number")] = phrase.number
        if phrase.adjective:
            values[Slot(role, "adjective")] = phrase.adjective
    return values
