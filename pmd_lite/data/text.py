"""Characters: which ones show nothing, and which ones are legal but probably an accident."""

from __future__ import annotations

import re
import unicodedata

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""What no line of text may hold: control characters, and each character that some tool takes for a line end."""
UNSEEN = re.compile(
    "[\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
"""What shows nothing: white space, control characters, blank letters, and all that Unicode lets a font ignore."""
_ODD = {
    "\ufffd": "hold U+FFFD, which stands for a lost character. Convert the original text to UTF-8 again",
    "\ufeff": "hold a byte-order mark inside the text, as joined files do. Remove it",
    **dict.fromkeys("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
                    "hold control characters of the writing direction. Remove those that do not belong to the text"),
}  # fmt: skip


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or holds only white space and invisible characters."""
    return not text or UNSEEN.fullmatch(text) is not None


def in_nfc(text: bytes) -> bytes:
    """UTF-8 text in the form NFC of Unicode, in which every accented letter has one spelling."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.decode()).encode()


def odd(text: str) -> dict[str, list[int]]:
    """{what is odd but legal in some lines of a text, and what to do: the numbers of these lines, from 0}."""
    found = {}
    for what in {_ODD[character] for character in _ODD if character in text}:
        marks = [character for character, said in _ODD.items() if said == what]
        found[what] = [n for n, line in enumerate(text.split("\n")) if any(mark in line for mark in marks)]
    if not unicodedata.is_normalized("NFC", text):
        what = 'are not in the form NFC of Unicode, so a word may have two spellings. Use unicodedata.normalize("NFC")'
        found[what] = [n for n, line in enumerate(text.split("\n")) if not unicodedata.is_normalized("NFC", line)]
    return {what: lines for what, lines in found.items() if lines}
