"""The settings of a toy corpus: its languages, how unequal their sizes are, how hard it is to learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from pmd_corpora.toy.language import Blueprint, Script
from pmd_corpora.toy.meaning import ADJECTIVES, NOUNS, VERBS, Concepts, Dice
from pmd_lite.errors import UserError

# After WMT-6 of the paper: its sizes, its order and the role of each language. fra, deu and ron are one family; est and
# tur are another.
SIX = (
    Blueprint("fra", 3_000_000, "A", "SVO", "NA", "pre", "suffix", drift=0.05, shifts=1),
    Blueprint("deu", 1_500_000, "A", "SVO", "AN", "pre", "suffix", drift=0.30, shifts=3),
    Blueprint("zho", 400_000, "B", "SVO", "AN", "post", "isolating", drift=0.0, shifts=0, script="han"),
    Blueprint("est", 80_000, "C", "SVO", "AN", "post", "suffix", drift=0.10, shifts=2),
    Blueprint("ron", 10_000, "A", "SVO", "NA", "pre", "suffix", drift=0.20, shifts=2),
    Blueprint("tur", 5_000, "C", "SOV", "AN", "post", "suffix", drift=0.20, shifts=2),
)
LARGEST_CAST = 2000
_CODE_VOWELS = "aeiou"
_CODE_CONSONANTS = "bdfghjklmnprstvwz"  # no "c": some systems refuse a file called con


def grown_cast(n: int) -> tuple[Blueprint, ...]:
    """A cast of n languages in about sqrt(n) families, the largest first, the same for every seed.

    Sizes fall evenly on the log scale from WMT-6's largest to its smallest. Relatives share the first two letters of
    their codes and their script: Latin, Cyrillic or Greek, all with spaces. (Only the six use Han, because BLEU of text
    without spaces needs to know the language.) Most relatives share the grammar of their family too.
    """
    dice = Dice(n, "cast")
    families = max(math.ceil(n / 26), round(math.sqrt(n)))
    first, ratio = SIX[0].size, SIX[-1].size / SIX[0].size
    scripts: tuple[Script, ...] = ("latin", "cyrillic", "greek")

    def habits() -> tuple[Any, ...]:
        features = (("SVO", "SOV", "VSO"), ("AN", "NA"), ("pre", "post"), ("suffix", "isolating"))
        return tuple(dice.choice(kinds) for kinds in features)

    customs = [habits() for _ in range(families)]
    cast = []
    for rank in range(n):
        member, family = divmod(rank, families)
        prefix = _CODE_CONSONANTS[family % 17] + _CODE_VOWELS[family // 17]
        order, adjective, adposition, morphology = customs[family] if dice.chance(0.75) else habits()
        blueprint = Blueprint(
            code=prefix + chr(ord("a") + member),
            size=round(first * ratio ** (rank / (n - 1))),
            family=prefix,
            order=order,
            adjective=adjective,
            adposition=adposition,
            morphology=morphology,
            drift=0.05 + 0.05 * dice.below(6),
            shifts=1 + dice.below(3),
            script=scripts[family % 3],
        )
        cast.append(blueprint)
    return tuple(cast)


@dataclass(frozen=True)
class ToyWorld:
    """Everything about a toy corpus except its seed. A field out of range raises UserError."""

    name: str = "toy"
    cast: Literal["six"] | int = "six"  # "six": WMT-6's six languages; a number: that many languages, grown in families
    head: int = 6000  # training pairs of the largest language
    beta: float = 0.5  # a language of N real pairs gets head * (N / 3,000,000) ** beta: 1 as in WMT-6, 0 all equal
    minimum: int = 50  # at least this many training pairs for each language
    held: int = 300  # sentences in valid, and as many in test; the same meanings in every language
    nouns: int = 56  # size of the lexicon, with verbs and adjectives (14 small words come on top)
    verbs: int = 24
    adjectives: int = 10
    zipf: float = 0.0  # the noun, verb, adjective of rank r has weight r ** -zipf: 0 all equal, 1 as in real text
    homonyms: int = 4  # pairs of nouns with one form, in the larger two thirds of the languages: no BLEU of 100
    false_friends: int = 4  # nouns of each smaller language whose form has another meaning in a large one of its script
    noise: float = 0.0  # chance that a word of a training target is replaced by any word of the vocabulary

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise UserError(f"A toy world needs a name that is a piece of text, not {self.name!r}.")
        if self.cast != "six":
            self._whole("cast", 2, LARGEST_CAST, " (or the word 'six')")
        self._whole("head", 1, 10**7)
        self._whole("minimum", 1, 10**7)
        self._whole("held", 1, 10**5)
        self._whole("nouns", 2, len(NOUNS))
        self._whole("verbs", 1, len(VERBS))
        self._whole("adjectives", 1, len(ADJECTIVES))
        self._whole("homonyms", 0, self.nouns // 2, " (half of the nouns)")
        self._whole("false_friends", 0, self.nouns // 2, " (half of the nouns)")
        self._real("beta", 0, 5)
        self._real("zipf", 0, 3)
        self._real("noise", 0, 1)

    def _whole(self, name: str, low: int, high: int, more: str = "") -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise UserError(f"Toy world: {name} is {value!r}; it must be a whole number from {low} to {high}{more}.")

    def _real(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise UserError(f"Toy world: {name} is {value!r}; it must be a number from {low} to {high}.")

    @property
    def blueprints(self) -> tuple[Blueprint, ...]:
        """The cast, largest language first."""
        return SIX if self.cast == "six" else grown_cast(self.cast)

    @property
    def sizes(self) -> dict[str, int]:
        """Training pairs of each language: max(minimum, round(head * (N / N_largest) ** beta))."""
        cast = self.blueprints
        return {b.code: max(self.minimum, round(self.head * (b.size / cast[0].size) ** self.beta)) for b in cast}

    @property
    def concepts(self) -> Concepts:
        return Concepts(
            NOUNS[: self.nouns], tuple(VERBS)[: self.verbs], ADJECTIVES[: self.adjectives], zipf=float(self.zipf)
        )


WORLDS: Mapping[str, ToyWorld] = {
    "toy": ToyWorld(),
    "longtail": ToyWorld(  # lesson 00: a model learns it in a minute and overfits its two smallest languages
        name="longtail", head=2000, beta=0.8, minimum=30, nouns=40, verbs=16, adjectives=8, zipf=0.5
    ),
    "hard": ToyWorld(name="hard", beta=0.7),  # a longer tail: 6000 down to 68 pairs instead of 245
}


def toy_world(world: str | ToyWorld = "toy", **overrides: object) -> ToyWorld:
    """A world of `WORLDS` (or one of your own) with some fields changed; UserError for an unknown name or field."""
    if isinstance(world, str):
        if world not in WORLDS:
            raise UserError(f"There is no toy world {world!r}; choose one of {', '.join(WORLDS)}.")
        world = WORLDS[world]
    known = [f.name for f in fields(ToyWorld)]
    for name in overrides:
        if name not in known:
            raise UserError(f"A toy world has no field {name!r}; its fields are {', '.join(known)}.")
    return replace(world, **overrides)  # type: ignore[arg-type]  # ToyWorld checks the values itself
