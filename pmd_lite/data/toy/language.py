"""Invented languages: how each says a meaning, and how a sentence is read back.

Every language is regular and, but for the homonyms it was given on purpose, free of ambiguity: no two words and no
two inflected forms look alike, and its grammar is one fixed row of slots. So `Language.say` can be undone, and what a
translation model fails to learn is the fault of its training, not of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pmd_lite.data.toy.meaning import NUMBERS, PLACES, TIMES, Concepts, Meaning, Phrase
from pmd_lite.errors import UserError

Script = Literal["latin", "cyrillic", "greek", "han"]


@dataclass(frozen=True)
class Blueprint:
    """A language before a seed gives it words: its place in the long tail, its family and its grammar."""

    code: str
    size: int  # sentence pairs in the real corpus it stands for
    family: str  # languages of one family grow from the same words
    order: Literal["SVO", "SOV", "VSO"]
    adjective: Literal["AN", "NA"]  # before or after its noun
    adposition: Literal["pre", "post"]  # "near the house" or "the house near"
    morphology: Literal["suffix", "isolating"]  # endings, or words of their own, for plural, past and object
    drift: float  # share of the family's words replaced by new ones
    shifts: int  # regular sound changes, such as every p to f
    script: Script = "latin"  # "han" is written without spaces


class Slot(NamedTuple):
    """One place in the row that is a sentence: whose (subject, object, place, or the sentence's own) and what."""

    role: str
    kind: str


Word = tuple[str, str]  # a form and its gloss: ("kanpi", "dog-PL")
_OPTIONAL = ("number", "adjective", "time")


@dataclass(frozen=True)
class Language:
    """A grown language. `words` maps every concept to its form; the rest records what was done on purpose."""

    blueprint: Blueprint
    concepts: Concepts
    words: Mapping[str, str]
    endings: tuple[str, str, str]  # plural, past, object
    homonyms: tuple[tuple[str, str], ...] = ()  # two concepts, one form
    rival: str | None = None  # the language whose forms the false friends take
    false_friends: tuple[tuple[str, str], ...] = ()  # (concept here, what its form means in the rival)

    @cached_property
    def space(self) -> str:
        """What stands between two words: nothing in Han."""
        return "" if self.blueprint.script == "han" else " "

    def gloss(self, meaning: Meaning) -> list[Word]:
        """The sentence word by word, each form with what it means: [("du", "two"), ("kanpi", "dog-PL"), ...]."""
        values = _values(meaning)
        row = self._rows[meaning.place is not None]
        return [word for slot in row if (value := values.get(slot)) is not None for word in self._tables[slot][value]]

    def say(self, meaning: Meaning) -> str:
        """The sentence for this meaning."""
        return self.space.join(form for form, _ in self.gloss(meaning))

    def readings(self, sentence: str) -> list[Meaning]:
        """Every meaning that `say` turns into this sentence: none, one, or several where words are homonyms."""
        found = (_meaning(values) for row in self._rows for values in self._match(row, sentence, {}))
        return [meaning for meaning in found if meaning is not None]

    def parse(self, sentence: str) -> Meaning:
        """The one meaning of this sentence; UserError if it has none or several."""
        readings = self.readings(sentence)
        if len(readings) != 1:
            raise UserError(
                f"{len(readings)} readings in {self.blueprint.code} for {sentence!r}; parse needs exactly one. "
                "Use readings() for a sentence with homonyms."
            )
        return readings[0]

    @cached_property
    def _rows(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The grammar: the row of slots of a sentence without a place, and of one with a place."""
        b = self.blueprint

        def phrase(role: str) -> list[Slot]:
            kinds = ("number", "adjective", "noun") if b.adjective == "AN" else ("number", "noun", "adjective")
            # Where the object stands before the verb and has no ending, a word of its own marks it.
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
    def _tables(self) -> dict[Slot, dict[object, tuple[Word, ...]]]:
        """For each slot, the words that say each of its values."""
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

    def _match(self, row: Sequence[Slot], text: str, values: dict[Slot, Any]) -> Iterator[dict[Slot, Any]]:
        """Every way to read `text` along the row; a slot of `_OPTIONAL` may stay empty."""
        if not row:
            if not text:
                yield values
            return
        slot, rest = row[0], row[1:]
        if slot.kind in _OPTIONAL:
            yield from self._match(rest, text, values)
        for value, words in self._tables[slot].items():
            form = self.space.join(f for f, _ in words)
            if text == form or text.startswith(form + self.space):
                yield from self._match(rest, text[len(form + self.space) :], {**values, slot: value})


def _values(meaning: Meaning) -> dict[Slot, Any]:
    """What each slot has to say; a slot that is missing stays empty."""
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


def _meaning(values: Mapping[Slot, Any]) -> Meaning | None:
    """The inverse of `_values`; None for a counted noun with a plural ending, which no meaning gives."""
    phrases: dict[str, Phrase] = {}
    for role in ("subject", "object", "place"):
        if Slot(role, "noun") in values:
            noun, many = values[Slot(role, "noun")]
            number = values.get(Slot(role, "number"), 0 if many else 1)
            if many and number > 1:
                return None
            phrases[role] = Phrase(noun, number, values.get(Slot(role, "adjective")))
    verb, past = values[Slot("", "verb")]
    place = (values[Slot("place", "adposition")], phrases["place"]) if "place" in phrases else None
    return Meaning(phrases["subject"], verb, phrases["object"], past, place, values.get(Slot("", "time")))


def cognates(a: Language, b: Language) -> int:
    """How many concepts have the very same form in both languages (homonyms and all)."""
    return sum(a.words[concept] == b.words[concept] for concept in a.concepts.all)
