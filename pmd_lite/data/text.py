"""Characters: which ones show nothing, and which ones are legal but probably an accident."""

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
_ODD = "\ufffd\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # lost characters, BOM, writing direction


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or holds only white space and invisible characters."""
    return not UNSEEN.sub("", text)


def in_nfc(text: bytes) -> bytes:
    """UTF-8 text in the form NFC of Unicode, in which every accented letter has one spelling."""
    return text if text.isascii() else unicodedata.normalize("NFC", text.decode()).encode()


def odd(text: str) -> dict[str, list[int]]:
    """{what is odd but legal in some lines of a text, and what to do: the numbers of these lines, from 0}."""
    lines = text.split("\n") if any(map(text.__contains__, _ODD)) or not unicodedata.is_normalized("NFC", text) else []
    found = {f"hold U+{ord(mark):04X} ({unicodedata.name(mark)}). Remove it, or restore what it stands for":
             [n for n, line in enumerate(lines) if mark in line] for mark in _ODD}  # fmt: skip
    found["are not in the form NFC of Unicode. A word may have two spellings: use unicodedata.normalize"] = [
        n for n, line in enumerate(lines) if not unicodedata.is_normalized("NFC", line)
    ]
    return {what: numbers for what, numbers in found.items() if numbers}
