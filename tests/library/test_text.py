"""Text that goes in and out: UTF-8 and LF whatever the locale, lines end at LF, and what shows nothing is blank."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from pmd_corpora.cleaning import sentence_key
from pmd_corpora.terminal import terminal
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.text import is_blank, odd
from pmd_lite.errors import UserError, reason

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("pmd_lite", "data_scripts", "lessons/pmd_kit", "lessons")
# Lines of messages and of one sentence that becomes one line: not text that is data, cut into records.
CUTS_AT_ALL_LINE_ENDS = {"pmd_lite/evaluation/translation.py", "pmd_lite/evaluation/scoring.py",
                         "pmd_lite/training/rundir.py", "pmd_lite/processes.py",
                         "data_scripts/pmd_corpora/catalog_sources.py"}  # fmt: skip


NOT_FILES = (".archive", "hub", "build_opener(*handlers)")  # what opens members, remote files, addresses


def sources() -> dict[str, str]:
    """{place: text} of our files that read or write data."""
    paths = {path for folder in FOLDERS for path in (ROOT / folder).glob("*.py")}
    paths |= {path for folder in FOLDERS[:3] for path in (ROOT / folder).rglob("*.py")}
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def opened_by_the_locale(text: str) -> Iterator[str]:
    """`line: what` for each file that a module opens as text without saying the encoding or the line end."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        words = {word.arg: word.value for word in node.keywords}
        given = [x.value for x in (*node.args[:2], words.get("mode")) if isinstance(x, ast.Constant)]
        mode = next((x for x in given if isinstance(x, str) and x and set(x) <= set("rwaxbt+")), "r")
        opens = name in ("open", "fdopen") and "b" not in mode and (name != "open" or bool(node.args))
        if not (opens or name in ("read_text", "write_text")):
            continue
        if isinstance(node.func, ast.Attribute) and opens and ast.unparse(node.func.value) in ("os", "gzip", "Image"):
            continue  # bytes, unless the mode of gzip.open has a "t"
        if opens and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value).endswith(NOT_FILES):
            continue
        if name == "read_text" and not isinstance(node.func, ast.Attribute):
            continue  # a function of our own
        if "encoding" not in words:
            yield f"{node.lineno}: {name} without encoding"
        if (name == "write_text" or (opens and set(mode) & set("wax"))) and "newline" not in words:
            yield f"{node.lineno}: {name} without newline"


def test_files_are_opened_as_utf8_with_lf() -> None:
    found = [f"{place}:{what}" for place, text in sources().items() for what in opened_by_the_locale(text)]
    assert not found


@pytest.mark.parametrize(
    "text", ["open(p)", "open(p, 'w', encoding='utf-8')", "p.write_text(t)", "p.read_text()", "p.open('a')",
             "p.write_text(t, encoding='utf-8')", "open(p, mode='w', newline='')"],
)  # fmt: skip
def test_the_check_sees_an_open_that_depends_on_the_machine(text: str) -> None:
    assert list(opened_by_the_locale(text))


def test_the_check_lets_others_pass() -> None:
    text = "open(p, 'rb')\np.open('wb')\np.write_text(t, encoding='utf-8', newline='\\n')\n"
    assert not list(opened_by_the_locale(text + "p.read_text(encoding='ascii')\nopen(p, encoding='utf-8')"))


def test_data_is_cut_at_lf_only() -> None:
    found = {place for place, text in sources().items() if ".splitlines(" in text and place.startswith(FOLDERS[:3])}
    assert found <= CUTS_AT_ALL_LINE_ENDS


def test_processes_exchange_nothing_that_runs_code() -> None:
    words = ("broadcast_object_list", "all_gather_object", "import pickle", "weights_only=False", "yaml.load")
    found = [(place, word) for place, text in sources().items() for word in words
             if place.startswith(("pmd_lite", "data_scripts")) and word in text]  # fmt: skip
    assert not found


# ---------------------------------------------------------------- what shows nothing

PREPENDED = {0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x600, 0x606)}  # of category Cf, but visible


def test_blank_is_what_shows_nothing() -> None:
    """Against Unicode's own categories: spaces, controls and formats are blank, letters and signs are not."""
    unseen = {0x2800, 0x115F, 0x1160, 0x3164, 0xFFA0}  # Braille without dots, fillers of Hangul; then marks
    unseen |= {0x34F, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
    wrong = []
    for code in (*range(0x20000), *range(0xE0000, 0xE0200)):  # beyond are Han letters and private use
        kind = unicodedata.category(chr(code))
        if kind in ("Cc", "Cf", "Zs", "Zl", "Zp"):
            unseen |= {code} - PREPENDED
        if kind not in ("Cn", "Co", "Cs") and is_blank(chr(code)) != (code in unseen):
            wrong.append(f"U+{code:04X}")
    assert not wrong
    assert is_blank("") and is_blank(" \u200b\ufeff\xad\u2800 ") and not is_blank("\u200bx") and not is_blank("\ufffd")


@pytest.mark.parametrize(
    "side", ["\u2061", "\u180e", "\u2800", "\u3164", "\u200b \u00ad", "\U000e0041", "\ufe0f", "\u00a0"]
)
@pytest.mark.parametrize("at", [0, 1])
def test_an_invisible_side_is_no_text(side: str, at: int) -> None:
    rows = [("one", "eins"), ("two", "zwei")]
    blank = [("three", side), (side, "drei")][at]
    texts = {"train": [*rows, blank], "valid": [("four", "vier")], "test": [("five", "fünf")]}
    with pytest.raises(UserError, match=r":3: the (source|target) side is blank"):
        Corpus.from_texts("c", {"en-de": texts})


# ---------------------------------------------------------------- odd text, the same text

TEXTS = {"train": [("one", "eins"), ("two", "zwei")], "valid": [("four", "vier")], "test": [("five", "fünf")]}


@pytest.mark.parametrize(
    ("line", "said"),
    [("a \ufffd b", "U+FFFD"), ("a\ufeff b", "U+FEFF"), ("a \u202e b", "U+202E"), ("a \u2067b", "U+2067"),
     ("cafe\u0301", "NFC")],
)  # fmt: skip
def test_odd_text_is_warned_of_with_its_line(line: str, said: str) -> None:
    corpus = Corpus.from_texts("c", {"en-de": {**TEXTS, "train": [*TEXTS["train"], (line, "drei")]}})
    (warning,) = corpus.warnings
    assert warning.startswith("train.en-de (in memory):3: 1 lines") and said in warning


def test_usual_text_of_many_scripts_is_not_odd() -> None:
    usual = ["na\u00efve caf\u00e9", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
             "\u0645\u0631\u062d\u0628\u0627 \u200f\u060c", "\u4f60\u597d\u3002",
             "\u1230\u120b\u121d", "\U0001f642\ufe0f"]  # fmt: skip
    for text in usual:
        assert not odd(text), text


def test_a_leak_in_another_form_of_unicode_is_a_leak() -> None:
    leaked = [*TEXTS["train"], ("five ", unicodedata.normalize("NFD", "fünf"))]
    with pytest.raises(UserError, match="1 training pairs are test pairs too"):
        Corpus.from_texts("c", {"en-de": {**TEXTS, "train": leaked}})
    corpus = Corpus.from_texts("c", {"en-de": {**TEXTS, "valid": [("four", "vier"), ("five", "fünf")]}})
    assert any("valid.en-de (in memory):2: 1 pairs are in test.en-de" in warning for warning in corpus.warnings)


NEAR = [
    ("Wasserstoff ist da.", "wasser\u00adstoff  ist da"), ("Don't e-mail me", "dont email me"),
    ("\u0130STANBUL ISI", "istanbul \u0131s\u0131"), ("STRASSE", "straße"), ("ÉCOLE", "Ecole"),
    ("ΑΘΗΝΑ ΟΔΟΣ", "Αθήνα οδός"), ("Ещё раз", "ЕЩЕ РАЗ!"),
    ("\u0643\u0650\u062a\u0627\u0628\u064c", "\u0643\u062a\u0640\u0640\u0627\u0628"),  # vowel points, tatweel
    ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    ("\u0928\u092e\u0938\u094d\u0924\u0947\u0964", "\u0928\u092e\u0938\u094d\u200d\u0924\u0947 !"),
    ("\u0e2b\u0e19\u0e31\u0e07\u0e2a\u0e37\u0e2d \u0e43\u0e2b\u0e21\u0e48",
     "\u0e2b\u0e19\u0e31\u0e07\u0e2a\u0e37\u0e2d\u200b\u0e43\u0e2b\u0e21\u0e48"),
    ("\u4f60 \u597d\uff01", "\u4f60\u597d"), ("\uff21\uff22\uff23", "abc"),
    ("\uff76\uff9e\uff72\uff84\uff9e", "ガイド"),
    ("\u1230\u120b\u121d\u1361\u12d3\u1208\u121d\u1362", "\u1230\u120b\u121d \u12d3\u1208\u121d"),
    ("\ud55c\uad6d\uc5b4", unicodedata.normalize("NFD", "\ud55c\uad6d\uc5b4")), ("page \u0665\u0666", "page 7"),
]  # fmt: skip
DIFFERENT = [
    ("\u0915\u093f\u0924\u093e\u092c", "\u0915\u093e\u0924\u093e\u092c"),  # two vowel signs of Devanagari
    ("\u0e01\u0e32", "\u0e01\u0e35"), ("\u304b\u304d", "\u304c\u304d"), ("a cat", "a cap"), ("!!!", "???"),
    ("one", "one 1"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), NEAR)
def test_a_near_copy_has_the_same_key_in_every_script(one: str, other: str) -> None:
    assert sentence_key(one) == sentence_key(other) != ""


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_sentence_has_another_key(one: str, other: str) -> None:
    assert sentence_key(one) != sentence_key(other)


# ---------------------------------------------------------------- what is printed


def test_output_is_utf8_with_lf_whatever_the_stream_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, "cp1252", newline="\r\n"))
        with terminal():
            print("\u4f60\u597d", "\ud800")
    assert (tmp_path / "out").read_bytes() == "\u4f60\u597d \\ud800\n".encode()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_that_ends_early_is_no_error() -> None:
    """In a process of its own, which imports nothing large; also with an encoding that lacks the characters."""
    code = "from pmd_corpora.terminal import terminal\nwith terminal():\n"
    code += "    for i in range(99999): print('\u4f60\u597d', i)"
    done = subprocess.run(
        ["sh", "-c", f'("{sys.executable}" -c "$0"; echo status $? >&2) | head -1', code], capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(sys.path)}, check=True,
    )  # fmt: skip
    assert done.stdout == "\u4f60\u597d 0\n".encode() and done.stderr == b"status 0\n"


# ---------------------------------------------------------------- what other libraries say


@pytest.mark.parametrize(
    "said",
    ["Weights only load failed. This file can still be loaded", "re-running with `weights_only` set to False",
     "pass trust_remote_code=True", "set KMP_DUPLICATE_LIB_OK=TRUE", "loaded with allow_pickle=True"],
)  # fmt: skip
def test_unsafe_advice_of_others_is_not_passed_on(said: str) -> None:
    assert said.split()[-1] not in reason(ValueError(said)) and "could be code" in reason(ValueError(said))


def test_other_reasons_are_one_short_line() -> None:
    assert (
        reason(ValueError("a\nb")) == "a b"
        and reason(KeyError()) == "KeyError"
        and len(reason(OSError("x" * 999))) == 200
    )
