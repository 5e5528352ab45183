"""From a raw catalog message to a plain sentence pair, or the reason why it is left out.

`plain` removes what belongs to the screen and not to the sentence: markup, accelerator keys, typographic variants. Then
`clean_pair` leaves out pairs that are not sentences, or not translations of each other. Both look at one pair only, so
the result does not depend on which other packages are installed.
"""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from typing import Literal, get_args

from pmd_lite.data.text import UNSEEN

Reason = Literal["length", "placeholder", "code", "same text", "script", "ratio", "numbers", "untranslated"]
REASONS: tuple[Reason, ...] = get_args(Reason)

WORDS = (3, 20)  # English words of a kept pair
CJK_CHARACTERS = (3, 60)  # characters of a kept Chinese line
RATIO = (0.4, 3.0)  # characters of the foreign line per English character
CJK_RATIO = (0.12, 0.9)

_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u0060\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u300c\u300d", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
        **dict.fromkeys("\u2014\u2015", "\u2013"),
        **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufe0f\ufeff\u00ad"),  # None: removed
        "\u2026": "...",
        "\u2082": "2",  # CO2
    }
)
# Old Romanian files have the Turkish cedilla letters, newer ones the comma letters. We write the comma, as is official.
_COMMA = str.maketrans("\u015e\u015f\u0162\u0163", "\u0218\u0219\u021a\u021b")

_GUILLEMETS = re.compile(r"\u00ab\s*|\s*\u00bb")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_BREAK = re.compile(r"<(?:br|/?p|/?li|/?ul)\b[^<>]*>", re.IGNORECASE)
_MARKDOWN_LINK = re.compile(r"!?\[([^\[\]]+)\]\([^()\s]*\)")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_ACCELERATOR_SUFFIX = re.compile(r"\s*[(\uff08][&_]\w[)\uff09]")  # the East Asian way: "\u6587\u4ef6(&F)"
_ACCELERATOR = re.compile(r"(?<!\w)[&_](?=[^\W\d_]{2})|(?<=[^\W\d_])&(?=[^\W\d_])")
_VARIANT = re.compile(r"(?<=[^\W\d_])\((?:[a-z]{1,2}|\w/\w)\)")  # "file(s)", "s\u00fbr(e)"
_EDGES = re.compile(
    r"^[\s*#>\u2022\u2013-]+(?=\w)|[\s:;,\uff1a\uff1b\uff0c\u2013-]+$|\s*(?:\.{2,}|\u3002{2,})[\s:\uff1a]*$"
)
_BEFORE_STOP = re.compile(r"\s+([,.;:!?)\]](?:\s|$))")

_PLACEHOLDER = re.compile(
    r"%%|%\([\w.]+\)?[#0 +-]*[\d.]*[a-zA-Z]?|%[#0+-]*\d*(?:\.\d+)?[a-zA-Z](?![a-zA-Z])|%\d+(?:\$\w)?"
    r"|\{[^{}]*\}|\$\{?[A-Za-z_]\w*\}?|\$\d|\[%"
)
_CODE = re.compile(
    r"https?:|www\.|\(y/n\)|\w_|_\w|\\|(?:^|\s)[./~]+\w|\w/\w*/|(?:^|\s)--?[a-z]|\w\(\)|&&|::"
    r"|[][<>{}|=^@#$*\u00a7\u00a9\u2190-\u21ff]|[A-Za-z]\.[A-Za-z]{2,}|[a-z][A-Z]\w*[a-z][A-Z]"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ue000-\uf8ff\ufff0-\uffff]")
_NOT_LATIN = re.compile("[^\\W\\d_\x00-\u024f\u1e00-\u1eff]")
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_NUMBER = re.compile(r"\d+")


class _Keys(dict[int, str]):
    """What each character adds to a `sentence_key`, by its code; filled in when a character is first seen."""

    def __missing__(self, code: int) -> str:
        letter, kind, place = chr(code), unicodedata.category(chr(code))[0], unicodedata.combining(chr(code))
        optional = 10 <= place <= 36 or place >= 200  # combining classes: points of Hebrew and Arabic, and accents
        kept = kind == "L" or (kind == "M" and not optional)
        self[code] = "0" if kind == "N" else letter if kept else ""
        return self[code]


_KEYS = _Keys({ord("\u0131"): "i", ord("\u0640"): ""})  # dotless i is "I" too; tatweel only stretches a word


def plain(text: str, lang: str) -> str:
    """One side of a message as running text: no markup, no accelerator keys, one spelling of quotes and spaces."""
    text = _BREAK.sub(" ", text)
    text = _TAG.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    text = _MARKDOWN_LINK.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", text)
    text = unicodedata.normalize("NFC", text).translate(_SAME)
    text = _GUILLEMETS.sub('"', text).replace("''", '"')
    if lang == "ro":
        text = text.translate(_COMMA)
    text = _VARIANT.sub("", _ACCELERATOR.sub("", _ACCELERATOR_SUFFIX.sub("", text)))
    text = _BEFORE_STOP.sub(r"\1", " ".join(_CONTROL.sub(" ", text).split()))
    while (shorter := _EDGES.sub("", text)) != text:
        text = shorter
    return _unquote(text)


@functools.cache  # programs repeat themselves: two messages in three were seen before
def clean_pair(english: str, foreign: str, lang: str) -> tuple[str, str] | Reason:
    """(English, foreign) as plain sentences, or the first reason to leave the pair out.

    A pair with a placeholder is left out whole. Without "{name}" the sentences would have a hole in them ("Failed to
    connect to ."), and any other text in its place would be invented (README.md has the measurement).
    """
    if len(english.split()) < WORDS[0]:  # no step below adds words, and half of all messages are this short
        return "length"
    if _PLACEHOLDER.search(english) or _PLACEHOLDER.search(foreign):
        return "placeholder"
    english, foreign = _same_stop(plain(english, "en"), plain(foreign, lang))
    if _CODE.search(english) or _CODE.search(foreign):
        return "code"
    if english.casefold() == foreign.casefold():
        return "same text"
    if not (_in_script(english, "en") and _in_script(foreign, lang)):
        return "script"
    if len(english.split()) > WORDS[1] or len(_WORD.findall(english)) < WORDS[0]:
        return "length"
    low, high = CJK_CHARACTERS if lang == "zh" else (4, 8 * WORDS[1])
    if not low <= len(foreign) <= high:
        return "length"
    low_ratio, high_ratio = CJK_RATIO if lang == "zh" else RATIO
    if not low_ratio <= len(foreign) / len(english) <= high_ratio:
        return "ratio"
    if sorted(_NUMBER.findall(english)) != sorted(_NUMBER.findall(foreign)):
        return "numbers"
    if lang != "zh" and _left_in_english(english, foreign):
        return "untranslated"
    return english, foreign


def paragraphs(english: str, foreign: str) -> list[tuple[str, str]]:
    """The message cut at blank lines when both sides have as many of them, else the message as one pair."""
    sides = [
        re.split(r"\n\s*\n", side.strip()) for side in (english.replace("\\n", "\n"), foreign.replace("\\n", "\n"))
    ]
    if len(sides[0]) == len(sides[1]):
        return list(zip(*sides, strict=True))
    return [(" ".join(sides[0]), " ".join(sides[1]))]


def sentence_key(text: str) -> str:
    """What two lines must share to count as the same sentence: the letters in lower case, and every number as "0".

    Case, punctuation, spaces, invisible characters, values of numbers and the form of Unicode (NFC, NFD, wide letters)
    do not make a new sentence: "Phase 1 power" and "phase 2-power." are one. Nor do marks that writers may leave out:
    accents (capital letters often lack them) and the vowel points of Arabic and Hebrew. The vowel signs of Devanagari,
    Thai and other scripts count as letters. A text without any letter is its own key.
    """
    folded = unicodedata.normalize("NFKD", UNSEEN.sub("", text).casefold()).casefold()
    key = re.sub("0+", "0", folded.translate(_KEYS))
    return key or folded


def _in_script(text: str, lang: str) -> bool:
    if lang == "zh":
        # Product names stay in Latin letters, so a Chinese line may hold some: no more of them than of characters.
        han = len(_HAN.findall(text))
        return han >= 2 and han >= len(re.findall("[A-Za-z]+", text))
    return bool(_WORD.search(text)) and not _NOT_LATIN.search(text)


def _left_in_english(english: str, foreign: str) -> bool:
    """Whether a line in Latin letters is only half translated: most of its longer words, without names, are in the
    English line too."""
    english_words = _WORD.findall(english)
    names = {word.casefold() for word in english_words if word[0].isupper()}
    known = {word.casefold() for word in english_words}
    longer = [word.casefold() for word in _WORD.findall(foreign) if len(word) >= 3 and word.casefold() not in names]
    return not longer or 2 * sum(word in known for word in longer) > len(longer)


def _same_stop(english: str, foreign: str) -> tuple[str, str]:
    """Remove a final full stop that only one side has: translators end a label with one or without, as they please."""
    if english.endswith(".") == foreign.endswith((".", "\u3002")):
        return english, foreign
    return english.removesuffix("."), foreign.removesuffix(".").removesuffix("\u3002")


def _unquote(text: str) -> str:
    if len(text) > 2 and text[0] == text[-1] == '"' and text.count('"') == 2:
        return text[1:-1].strip()
    return text
