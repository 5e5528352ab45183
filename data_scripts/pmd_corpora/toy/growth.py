"""How an invented language gets its words: family roots, drift, sound changes, endings, homonyms, false friends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pmd_corpora.toy.language import Blueprint, Language, Script
from pmd_corpora.toy.meaning import Concepts, Dice
from pmd_lite.errors import UserError

_ONSETS = (*"ptkbdgmnlrsvzfh", "st", "tr", "kl", "br")
_VOWELS = tuple("aeiou")
_CODAS = ("", "", "", "n", "r", "s", "l", "k")
_SOUND_CHANGES = (
    ("p", "f"), ("t", "d"), ("k", "g"), ("s", "z"), ("a", "o"), ("e", "i"), ("u", "o"), ("l", "r"),
    ("b", "v"), ("n", "m"),
)  # fmt: skip
_LETTERS = "abdefghiklmnoprstuvz"
_SCRIPTS: Mapping[str, dict[int, int]] = {
    "latin": {},
    "cyrillic": str.maketrans(_LETTERS, "абдефгхиклмнопрстувз"),
    "greek": str.maketrans(_LETTERS, "αβδεφγχικλμνοπρστυψζ"),
    "han": {},
}
# A Han word is one sign of the first set, or a sign of the second set and then any sign. So no word is the beginning of
# another word, and a sentence without spaces can be cut in one way only. No word contains one of the three particles.
_PARTICLES = ("们", "了", "把")
_HAN = [sign for sign in map(chr, range(0x4E00, 0x5080, 4)) if sign not in _PARTICLES]
_HAN_ALONE, _HAN_FIRST = _HAN[:110], _HAN[110:]


def _root(dice: Dice, syllables: int) -> str:
    return "".join(dice.choice(_ONSETS) + dice.choice(_VOWELS) + dice.choice(_CODAS) for _ in range(syllables))


def _new_word(dice: Dice, script: Script) -> str:
    if script != "han":
        return _root(dice, dice.choice((1, 2, 2)))
    return dice.choice(_HAN_ALONE) if dice.chance(0.5) else dice.choice(_HAN_FIRST) + dice.choice(_HAN)


def family_words(concepts: Sequence[str], script: Script, dice: Dice) -> dict[str, str]:
    """The words of a family's common ancestor, one different form for each concept, in Latin letters or Han signs."""
    words: dict[str, str] = {}
    taken: set[str] = set()  # we only ask what it contains, so its order does not matter
    for concept in concepts:
        word = _new_word(dice, script)
        while word in taken:
            word = _new_word(dice, script)
        taken.add(word)
        words[concept] = word
    return words


def _descend(b: Blueprint, ancestor: Mapping[str, str], dice: Dice) -> dict[str, str]:
    """The family's words after drift, sound changes and script.

    A word that would become the same as another one keeps its sounds; if that does not help, a new word replaces it.
    """
    changes = dice.sample(_SOUND_CHANGES, b.shifts)
    script = _SCRIPTS[b.script]
    words: dict[str, str] = {}
    taken: set[str] = set()
    for concept, root in ancestor.items():
        old = _new_word(dice, b.script) if dice.chance(b.drift) else root
        new = old
        for before, after in changes:
            new = new.replace(before, after)
        while new.translate(script) in taken:
            new, old = old, _new_word(dice, b.script)
        words[concept] = new.translate(script)
        taken.add(words[concept])
    return words


def _endings(b: Blueprint, concepts: Concepts, words: Mapping[str, str], dice: Dice) -> tuple[str, str, str]:
    """Plural, past and object endings (or words) that make all inflected forms different from each other."""
    if b.script == "han":
        return _PARTICLES
    roots = dict.fromkeys(words.values())
    for attempt in range(1000):
        syllables = 1 + attempt // 50  # longer endings if short ones keep colliding, as they may in a large lexicon
        made = [_root(dice, syllables).translate(_SCRIPTS[b.script]) for _ in range(3)]
        plural, past, mark = made
        if b.morphology == "isolating":
            forms = [*roots, *made]
        else:
            nouns = dict.fromkeys(words[noun] for noun in concepts.nouns)
            verbs = dict.fromkeys(words[verb] for verb in concepts.verbs)
            forms = [
                *roots,
                *(w + end for w in nouns for end in (plural, mark, plural + mark)),
                *(w + past for w in verbs),
            ]
        if len(forms) == len(dict.fromkeys(forms)):
            return plural, past, mark
    raise AssertionError("a thousand draws gave no distinct endings")  # 20 syllables long: cannot happen


def grow_language(
    blueprint: Blueprint,
    concepts: Concepts,
    ancestor: Mapping[str, str],
    dice: Dice,
    *,
    homonyms: int = 0,
    rival: Language | None = None,
    false_friends: int = 0,
) -> Language:
    """Give a blueprint its words.

    Args:
        ancestor: the words of its family (`family_words`).
        homonyms: pairs of nouns that get one form, so the form does not tell which noun is meant. At most half as many
            as there are nouns that are not false friends.
        rival: a language whose nouns lend their forms to nouns of another meaning here.
        false_friends: how many nouns borrow such a form; UserError if the rival has too few to lend.
    """
    words = _descend(blueprint, ancestor, dice)
    borrowed: list[tuple[str, str]] = []
    if rival is not None and false_friends:
        for noun in dice.sample(concepts.nouns, false_friends):
            taken = set(words.values())
            lent = [n for n in concepts.nouns if rival.words[n] not in taken and rival.words[n] != rival.words[noun]]
            if not lent:
                raise UserError(
                    f"false_friends={false_friends} is too many: {rival.blueprint.code} has no more nouns to lend to "
                    f"{blueprint.code}; use fewer false friends or more nouns."
                )
            other = dice.choice(lent)
            words[noun] = rival.words[other]
            borrowed.append((noun, other))
    free = [noun for noun in concepts.nouns if noun not in dict(borrowed)]
    drawn = dice.sample(free, 2 * homonyms)
    doubles = list(zip(drawn[::2], drawn[1::2], strict=True))
    for noun, other in doubles:
        words[noun] = words[other]
    return Language(
        blueprint=blueprint,
        concepts=concepts,
        words=words,
        endings=_endings(blueprint, concepts, words, dice),
        homonyms=tuple(doubles),
        rival=rival.blueprint.code if rival is not None and borrowed else None,
        false_friends=tuple(borrowed),
    )
