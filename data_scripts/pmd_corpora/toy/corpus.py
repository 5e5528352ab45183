"""Toy corpora: a few invented languages, a long tail of sizes, English as the hub; one seed decides every byte.

A model learns them in minutes on a laptop, and they show what the paper is about: large and small languages help each
other (shared words within a family) and hinder each other (false friends). The idea is ours; sizes follow WMT-6.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from pmd_corpora.toy.growth import family_words, grow_language
from pmd_corpora.toy.language import Language
from pmd_corpora.toy.meaning import Dice, Meaning, describe, english
from pmd_corpora.toy.world import WORLDS, ToyWorld, toy_world
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError

Direction = Literal["m2o", "o2m"]
Texts = dict[str, dict[str, list[tuple[str, str]]]]
HUB = "eng"
__all__ = ["HUB", "WORLDS", "ToyWorld", "explain", "toy_corpus", "toy_languages", "toy_texts", "toy_world"]
_PATIENCE = 200  # so many draws in a row that only repeat known sentences mean: the world is too small


def toy_languages(world: ToyWorld, seed: int = 0) -> dict[str, Language]:
    """The languages of a world by code, largest first. The larger two thirds have homonyms, the rest false friends."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise UserError(f"The seed of a toy corpus is {seed!r}; it must be a whole number.")
    concepts = world.concepts
    grown: dict[str, Language] = {}
    ancestors: dict[str, dict[str, str]] = {}
    cast = world.blueprints
    for rank, b in enumerate(cast):
        if b.family not in ancestors:
            ancestors[b.family] = family_words(concepts.all, b.script, Dice(seed, "family", b.family))
        small = rank >= len(cast) - len(cast) // 3
        rivals = [x for x in grown.values() if x.blueprint.script == b.script][:2] if small else []
        grown[b.code] = grow_language(
            b,
            concepts,
            ancestors[b.family],
            Dice(seed, "language", b.code),
            homonyms=0 if small else world.homonyms,
            rival=rivals[(rank + 1) % len(rivals)] if rivals else None,
            false_friends=world.false_friends if rivals else 0,
        )
    return grown


class _Line(NamedTuple):
    meaning: Meaning
    foreign: str
    english: str


def _lines(world: ToyWorld, languages: Mapping[str, Language], seed: int) -> dict[str, dict[str, list[_Line]]]:
    """Every sentence of the corpus by language and split, without noise.

    All languages share the English of valid and test; apart from that, no English sentence occurs twice. No foreign
    sentence of valid or test occurs in train.
    """
    concepts, sizes, used = world.concepts, world.sizes, set[str]()

    def fresh(dice: Dice) -> tuple[Meaning, str]:
        for _ in range(_PATIENCE):
            meaning = concepts.draw(dice)
            text = english(meaning)
            if text not in used:
                used.add(text)
                return meaning, text
        raise UserError(
            f"Toy world {world.name!r} is too small for so many different sentences; lower head, minimum, held or "
            "zipf, or raise nouns, verbs or adjectives."
        )

    held = {}
    for split in ("valid", "test"):
        dice = Dice(seed, split)
        held[split] = [fresh(dice) for _ in range(world.held)]
    lines: dict[str, dict[str, list[_Line]]] = {}
    for code, language in languages.items():
        shared = {split: [_Line(m, language.say(m), text) for m, text in held[split]] for split in held}
        spoken = {line.foreign for split in shared.values() for line in split}
        dice = Dice(seed, "train", code)
        train: list[_Line] = []
        while len(train) < sizes[code]:
            meaning, text = fresh(dice)
            foreign = language.say(meaning)
            if foreign not in spoken:  # with homonyms, another meaning may sound like a held-out one
                train.append(_Line(meaning, foreign, text))
        lines[code] = {"train": train, **shared}
    return lines


def toy_texts(world: ToyWorld, seed: int = 0, direction: Direction = "m2o") -> Texts:
    """The sentences of a world: {pair: {"train" | "valid" | "test": [(src, trg), ...]}}, largest pair first.

    Pairs are named "fra-eng" in M2O and "eng-fra" in O2M, which has the same sentences with sides swapped. Noise
    changes the training targets: English in M2O, the other language in O2M. Valid and test have the same English in
    every pair, and train has none of it.
    """
    if direction not in ("m2o", "o2m"):
        raise UserError(f"The direction of a toy corpus is {direction!r}; it must be 'm2o' or 'o2m'.")
    languages = toy_languages(world, seed)
    texts: Texts = {}
    for code, splits in _lines(world, languages, seed).items():
        if world.noise:
            splits["train"] = _noisy(world, languages[code], splits, direction, Dice(seed, "noise", code))
        m2o = direction == "m2o"
        texts[f"{code}-{HUB}" if m2o else f"{HUB}-{code}"] = {
            split: [(x.foreign, x.english) if m2o else (x.english, x.foreign) for x in lines]
            for split, lines in splits.items()
        }
    return texts


def _noisy(
    world: ToyWorld, language: Language, splits: Mapping[str, list[_Line]], direction: Direction, dice: Dice
) -> list[_Line]:
    """The training lines with random words in their targets; no target becomes a held-out one by chance."""
    m2o = direction == "m2o"
    vocabulary = language.concepts.all if m2o else tuple(language.words.values())
    space = " " if m2o else language.space
    kept = {line.english if m2o else line.foreign for split in ("valid", "test") for line in splits[split]}

    def spoil(line: _Line) -> _Line:
        words = line.english.split(" ") if m2o else [form for form, _ in language.gloss(line.meaning)]
        while True:
            text = space.join(dice.choice(vocabulary) if dice.chance(world.noise) else word for word in words)
            if text not in kept:
                return line._replace(english=text) if m2o else line._replace(foreign=text)

    return [spoil(line) for line in splits["train"]]


def toy_corpus(
    world: str | ToyWorld = "toy", *, seed: int = 0, direction: Direction = "m2o", **overrides: object
) -> Corpus:
    """A corpus of invented languages, in memory: `toy_corpus("hard", seed=1, nouns=200)`.

    Args:
        world: a name in `WORLDS`, or a `ToyWorld`.
        seed: same seed, same bytes on every platform; another seed, other words and other sentences.
        direction: "m2o" (into English) or "o2m" (the same sentences, from English).
        overrides: fields of `ToyWorld` to change.
    Raises:
        UserError: an unknown world or field, or a value out of range.
    """
    chosen = toy_world(world, **overrides)
    return Corpus.from_texts(
        chosen.name,
        toy_texts(chosen, seed, direction),
        licence="CC0-1.0",
        source=f"invented languages of pmd_corpora.toy, seed {seed}, {chosen!r}",
    )


def explain(
    pair: str | None = None,
    i: int = 0,
    *,
    split: Literal["train", "valid", "test"] = "test",
    world: str | ToyWorld = "toy",
    seed: int = 0,
) -> str:
    """Sentence i of a split, as text to print: its meaning, its English, and each language word by word.

    With a pair ("fra-eng" or "eng-fra"), the text shows only its language, and `split` may be "train"; it shows train
    sentences without noise. Without a pair, it shows all languages, for a valid or test sentence that they share.
    """
    chosen = toy_world(world)
    languages = toy_languages(chosen, seed)
    if pair is None and split == "train":
        raise UserError("Each pair has its own training sentences: name a pair, or choose valid or test.")
    code = next(iter(languages)) if pair is None else pair.removesuffix(f"-{HUB}").removeprefix(f"{HUB}-")
    if code not in languages:
        raise UserError(f"There is no pair {pair!r} in toy world {chosen.name!r}; languages: {', '.join(languages)}.")
    if split != "train":  # valid and test do not depend on the size of train, so do not make it
        chosen = replace(chosen, head=1, minimum=1)
    lines = _lines(chosen, languages, seed)[code].get(split, [])
    if not 0 <= i < len(lines):
        raise UserError(f"There is no sentence {i} in {split}, which has {len(lines)} (the first is 0).")
    rows = [f"{'meaning':8}{describe(lines[i].meaning)}", f"{HUB:8}{lines[i].english}"]
    for name in languages if pair is None else [code]:
        words = languages[name].gloss(lines[i].meaning)
        if not languages[name].space:
            rows.append(f"{name:8}{languages[name].say(lines[i].meaning)}")
        shown = "" if not languages[name].space else name
        widths = [max(map(_width, word)) for word in words]
        for k, label in ((0, shown), (1, "")):
            cells = (word[k] + " " * (w - _width(word[k])) for word, w in zip(words, widths, strict=True))
            rows.append(f"{label:8}{'  '.join(cells)}".rstrip())
    return "\n".join(rows)


def _width(text: str) -> int:
    """Width on a screen with a fixed-width font, in columns: a Han sign takes two."""
    return sum(2 if unicodedata.east_asian_width(sign) == "W" else 1 for sign in text)
