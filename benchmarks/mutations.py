"""Odd values, bad lines, and changes of files: what `benchmarks.fuzz` makes its inputs from."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**400, 0.5, 1e-320, 1e308, float("inf"), float("nan"), "",
    "x", "\x1b[2J", "../../x", "a" * 5000, "\ud800", "\u202e", "fr-en", "fra-eng", [], {}, [[]], [None], {"": 0},
    {"a": {}}, [1, 2], ["fra-eng"], "1", "inf", "/dev/null",
]  # fmt: skip
TEXTS = [
    b"", b"\t", b"a", b"a\tb\tc", b"\xff\xfe\tb", b"\x00\tb", b"\x1b[2J\tb", b"a\t\xe2\x80\x8b", b"x" * 20_000 + b"\ty",
    b"a\r\tb", b"\xef\xbb\xbfa\tb", b"\xed\xa0\x80\tb", b"\xe2\x80\xa8a\tb", b" \t ", b"a\tb\r", "e\u0301\tb".encode(),
]  # fmt: skip


WHOLE = [b"", b"[" * 100_000, b"null", b"5", b"[]", b"{}", b"\xff\xfe", b"NaN", b"1" * 5000, b'""',
         b'{"a":' * 900 + b"1" + b"}" * 900, b"[" * 900 + b"]" * 900]  # fmt: skip


def mutated(data: Any, chance: random.Random) -> Any:
    """The same JSON with one change at a random place: an odd value, a key that is lost or renamed, a longer list."""
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
            places.append((part, key))
            walk(part[key])

    walk(box := [json.loads(json.dumps(data))])
    part, key = chance.choice(places)
    what = chance.randrange(5)
    if isinstance(part, dict) and what == 0:
        del part[key]
    elif isinstance(part, dict) and what == 1:
        part[chance.choice([str(odd) for odd in ODD])] = part.pop(key)
    elif isinstance(part[key], list) and part[key] and what == 2:
        part[key] = part[key][:-1] if chance.random() < 0.5 else [*part[key], chance.choice(part[key])]
    else:
        part[key] = chance.choice(ODD)
    return box[0] if box else None


def as_json(data: Any) -> bytes:
    """With surrogates as escapes."""
    return json.dumps(data).encode()


def spoil_json(path: Path, chance: random.Random) -> None:
    """Change a JSON file, or one line of a file of JSON lines."""
    text = path.read_bytes()
    what = chance.randrange(12)
    if what == 0:
        path.write_bytes(chance.choice(WHOLE))
    elif what <= 2:
        flip(path, chance)
    elif path.suffix == ".jsonl":
        lines = text.splitlines()
        i = chance.randrange(len(lines))
        lines[i] = as_json(mutated(json.loads(lines[i]), chance))
        path.write_bytes(b"\n".join(lines) + b"\n")
    else:
        path.write_bytes(as_json(mutated(json.loads(text), chance)))


def flip(path: Path, chance: random.Random) -> None:
    """One bit of a file."""
    data = bytearray(path.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(data))


def cut(path: Path, chance: random.Random) -> None:
    """A file that ends too early."""
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])


def strange(path: Path, chance: random.Random) -> None:
    """A pipe, a directory, a link to itself or to nothing, or a device in place of a file."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    what = chance.randrange(5)
    if what == 0 and hasattr(os, "mkfifo"):
        os.mkfifo(path)
    elif what == 1:
        path.mkdir()
    else:
        path.symlink_to([path.name, "nothing", "/dev/zero"][what - 2])
