"""Which pairs of WMT's training text are kept, and in what spelling: the rules of data_scripts/pmd_corpora/wmt6.py.

The rules are ours. The authors published only one of theirs: drop a pair when a side is blank. Every rule looks at one
pair and can be explained in a sentence; none needs a model. Two faults they cannot see: a third language with the same
letters (Spanish on the French side), and two good sentences of likely lengths that do not translate each other.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, get_args

Reason = Literal["blank", "mojibake", "same text", "script", "length", "ratio", "language"]
REASONS: tuple[Reason, ...] = get_args(Reason)
STEPS = (*REASONS, "held out", "duplicate", "not drawn")  # where a row may be left out, in this order
VERSION = 1  # of the rules: if it changes, row groups that were cleaned by earlier rules are cleaned again

TOKENS = (1, 250)  # tokens between white space
ZH_CHARACTERS = (1, 400)  # Chinese has no spaces
RATIO = 2.5  # tokens of the longer side per token of the shorter one
ZH_RATIO = (0.1, 1.0)  # Chinese characters per English character; newspaper text has about 0.3

# These are all characters that some tool takes for a line end: a corpus must not hold any (pmd_lite.data.checks).
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
# Old Romanian text has the Turkish cedilla letters. We write the official ones, with the comma below.
_COMMA = str.maketrans("\u015e\u015f\u0162\u0163", "\u0218\u0219\u021a\u021b")

# UTF-8 that was read as Latin-1 or Windows-1252: a letter that stands for the first byte of an accented one, then a
# sign that stands for the second byte. Quotes and the no-break space are such signs too. So letters that often stand
# before them do not count as first bytes here: German has "Spa\u00df\u201c", French "libert\u00e9\u00a0\u00bb".
_SECOND = "\x80-\xbf" + re.escape(bytes(range(0x80, 0xA0)).decode("cp1252", "ignore"))
_MOJIBAKE = re.compile(f"\ufffd|[\u00c2-\u00c5\u00c8][{_SECOND}]|\u00e2[\x80-\x9f\u20ac]")

_WORD = re.compile(r"[^\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_NOT_LATIN = re.compile("[^\\W\\d_\x00-\u024f\u1e00-\u1eff]")

# Frequent words that English and the other language do not share: no "on" (French, Estonian, Turkish), no "was"
# (German), no "are" (Romanian), no "her" (Turkish). Of single letters only l (l'homme): English has 's and 'd.
_WORDS = {
    "en": "the of and to that is for with this have be by from it which you they their we he she but his were been has "
    "not its our your these those more than would should could must there about what who when where other only",
    "fr": "le la les de des du un une et est que qui dans pour pas sur au aux avec ce cette il elle nous vous sont par "
    "ne se l qu ou mais leur leurs ont je sa son ses en comme",
    "de": "der die das und ist nicht von zu den dem des ein eine einer einen eines mit auf im sich es sie wir ich wird "
    "werden sind auch wie bei aus nach dass oder haben kann als zum zur vom aber noch nur durch unter",
    "et": "ja ei et kui ning oma ta mis ka selle kes nii aga ma seda olen oli ole pole siis veel nende tema peab saab "
    "mida meie teie olla nad mille kuid mitte sest eest",
    "ro": "de la cu pe nu este un din pentru mai care sau fi sunt au ce se le iar prin fost acest lui lor ale ai si ca "
    "sa o ei cum dar unei unui printr dintre acestei",
    "tr": "ve bir bu ile da de olarak daha olan gibi ne ama en kadar sonra ki mi var yok o ise hem eden iki ya veya "
    "biz ben siz olur oldu ancak",
}
STOP_WORDS = {lang: frozenset(words.split()) for lang, words in _WORDS.items()}
_LETTERS = {
    "fr": frozenset("éèêàâçùûîïôëœ"),
    "de": frozenset("äöüß"),
    "et": frozenset("äöüõšž"),
    "ro": frozenset("ăâîșț"),
    "tr": frozenset("çğıöşü"),
}


def normalise(text: str | None, lang: str) -> str:
    """One side on one line: NFC, one white space, no control or invisible character, Romanian with comma letters.

    None (a null of the parquet file) becomes an empty text. Case, quotes and punctuation stay.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", text or ""))
    if lang == "ro":
        text = text.translate(_COMMA)
    return " ".join(_CONTROL.sub(" ", text).split())


def clean(foreign: str | None, english: str | None, lang: str) -> tuple[str, str] | Reason:
    """(foreign, English) as they go into the corpus, or the first reason to leave the pair out."""
    xx, en = normalise(foreign, lang), normalise(english, "en")
    if not xx or not en:
        return "blank"
    if _MOJIBAKE.search(foreign or "") or _MOJIBAKE.search(english or ""):  # in the raw text, before \x80 is a space
        return "mojibake"
    if xx.casefold() == en.casefold():
        return "same text"
    if not (in_script(xx, lang) and in_script(en, "en")):
        return "script"
    words = len(en.split())
    if lang == "zh":
        characters = len(xx.replace(" ", ""))
        if not (_within(characters, ZH_CHARACTERS) and _within(words, TOKENS)):
            return "length"
        if not _within(characters / len(en), ZH_RATIO):
            return "ratio"
    else:
        tokens = len(xx.split())
        if not (_within(tokens, TOKENS) and _within(words, TOKENS)):
            return "length"
        if max(tokens, words) > RATIO * min(tokens, words):
            return "ratio"
    if lang != "zh" and not (in_language(xx, lang, lang) and in_language(en, "en", lang)):
        return "language"
    return xx, en


def in_script(text: str, lang: str) -> bool:
    """zh: at least half of the letters are Han. All others: at most one character in five is not a Latin letter.

    Names stay in Latin letters in Chinese text, and an English line may quote a Greek or a Chinese word.
    """
    if lang == "zh":
        han = len(_HAN.findall(text))
        return han > 0 and 2 * han >= len(_LETTER.findall(text))
    return 5 * len(_NOT_LATIN.findall(text)) <= len(text)


def in_language(text: str, expected: str, lang: str) -> bool:
    """Whether the vote between English and `lang` does not go against `expected`, which is one of the two.

    A word votes for English if it is one of its frequent words. It votes for `lang` if it is one of its frequent words,
    or has a letter that English lacks. If there is no vote, as for "Barack Obama", or a tie, the text passes.
    """
    words = _WORD.findall(text.lower())
    english = sum(word in STOP_WORDS["en"] for word in words)
    own = sum(word in STOP_WORDS[lang] or not _LETTERS[lang].isdisjoint(word) for word in words)
    return english >= own if expected == "en" else own >= english


def _within(number: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= number <= bounds[1]
