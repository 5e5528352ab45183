"""The training pairs of one language: row groups read, cleaned and kept one by one, then an exact number drawn.

Every finished row group is one file: clean pairs, then a line of JSON with the counts. It is written under a temporary
name and then renamed. So after an interruption no finished group is read again, and no group is incomplete.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pmd_corpora.cleaning import sentence_key
from pmd_corpora.wmt6_cleaning import STEPS, clean
from pmd_corpora.wmt6_sampling import Group, Split, first_groups
from pmd_lite.disk import write_atomic
from pmd_lite.errors import UserError

OVERSAMPLE = 1.15  # rows read per pair wanted, before we know how many the cleaning leaves
_STRETCHES = 4  # parts that the report cuts each shard into


@dataclass
class Drawn:
    """The training pairs of one language: the row groups read, their counts, and which of their rows are chosen."""

    split: Split
    groups: list[Group] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """By name of the group: "rows" read, rows left out at each step, and "train", the rows chosen."""
    keep: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """[clean row, all groups one after another] True for the rows chosen."""

    def lines(self, folder: Path) -> Iterator[bytes]:
        """`foreign TAB English LF` of every pair drawn, in the order of the split."""
        rows = (line for group in self.groups for line in _lines(_file(folder, group)) if line.endswith(b"\n"))
        return (line for line, keep in zip(rows, self.keep.tolist(), strict=True) if keep)

    def stretches(self) -> list[dict[str, Any]]:
        """The counts of at most four runs of row groups of each shard, as we do not know where its parts begin."""
        found = []
        for shard, path in enumerate(self.split.shards):
            groups = [group for group in self.split.groups if group.shard == shard]
            length = max(1, math.ceil(len(groups) / _STRETCHES))
            for at in range(0, len(groups), length):
                run = groups[at : at + length]
                read = [self.counts[group.name] for group in run if group.name in self.counts]
                about = {"file": path, "row groups": [run[0].number, run[-1].number]}
                rows = {"rows": sum(group.rows for group in run), "row groups read": len(read)}
                found.append({**about, **rows, "counts": dict(sum(read, Counter()))})
        return found

    def total(self) -> Counter[str]:
        """The counts of all groups together."""
        return sum(self.counts.values(), Counter())


def draw(split: Split, lang: str, size: int, seed: int, held: frozenset[str], folder: Path) -> Drawn:
    """Read, clean and count row groups until `size` different clean pairs are there, then choose `size` of them.

    The pairs with the smallest keyed hashes are chosen: a fair draw that depends on the seed and the text only. Raises
    UserError with all counts if the whole split holds too few.
    """
    order, rows = split.order(f"{seed} {lang}"), math.ceil(size * OVERSAMPLE)
    drawn, keys = Drawn(split), dict[str, npt.NDArray[np.uint64]]()
    while True:
        drawn.groups = sorted(order[: first_groups(order, rows)], key=lambda group: group.name)
        _clean_groups(split, [g for g in drawn.groups if not _file(folder, g).exists()], lang, held, folder)
        for group in drawn.groups:
            if group.name not in keys:
                keys[group.name], drawn.counts[group.name] = _keys(_file(folder, group), seed)
        values, first = np.unique(np.concatenate([keys[group.name] for group in drawn.groups]), return_index=True)
        if len(values) >= size or len(drawn.groups) == len(order):
            break
        read = sum(group.rows for group in drawn.groups)
        rows = max(read + 1, math.ceil(read * min(4.0, 1.05 * size / max(1, len(values)))))
    distinct = np.zeros(sum(map(len, keys.values())), np.bool_)
    distinct[first] = True
    drawn.keep = np.zeros_like(distinct)
    drawn.keep[first[:size]] = True  # `values` ascends; `first` is the first place of each
    at = 0
    for group in drawn.groups:
        part, count = slice(at, at + len(keys[group.name])), drawn.counts[group.name]
        count["train"] = int(drawn.keep[part].sum())
        count["duplicate"] = int((~distinct[part]).sum())
        count["not drawn"] = int(distinct[part].sum()) - count["train"]
        at = part.stop
    if len(values) < size:
        left = ", ".join(f"{step} {drawn.total()[step]:,}" for step in STEPS if drawn.total()[step])
        raise UserError(
            f"{lang}-en: {len(values):,} different clean pairs in all {split.rows:,} rows of {split.repo}, but "
            f"{size:,} are wanted. Ask for fewer. Left out: {left or 'nothing'}."
        )
    return drawn


def _clean_groups(split: Split, groups: list[Group], lang: str, held: frozenset[str], folder: Path) -> None:
    """Write one file for each row group: its clean rows, then a line of JSON with the counts."""
    size = sum(group.bytes for group in groups) / 1e6
    if groups:
        _say(f"{lang}: {len(groups):,} of {len(split.groups):,} row groups to read, {size:,.0f} MB before compression")
    for done, (group, rows) in enumerate(split.rows_of(groups, lang), 1):
        write_atomic(_file(folder, group), functools.partial(_write_group, rows=rows, lang=lang, held=held))
        if done % max(1, len(groups) // 20) == 0:
            _say(f"{lang}: {done:,} of {len(groups):,}")


def _write_group(path: Path, rows: Iterable[tuple[str | None, ...]], lang: str, held: frozenset[str]) -> None:
    counts: Counter[str] = Counter()
    with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
        for foreign, english in rows:
            counts["rows"] += 1
            pair = clean(foreign, english, lang)
            if isinstance(pair, str):
                counts[pair] += 1
            elif not held.isdisjoint(map(sentence_key, pair)):
                counts["held out"] += 1
            else:
                file.write("\t".join(pair).encode() + b"\n")
        file.write(json.dumps(counts).encode())


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as file:
            yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is damaged ({error}). Delete it and run the command again.") from error


def _keys(path: Path, seed: int) -> tuple[npt.NDArray[np.uint64], Counter[str]]:
    """The keyed 64-bit hash of every pair of one group's file, and its counts.

    With probability 3e-7, two different ones of the 3.5 million French pairs get the same hash; then one is lost.
    """
    digests, last = bytearray(), b""
    for line in _lines(path):
        if line.endswith(b"\n"):
            digests += blake2b(line, digest_size=8, key=str(seed).encode()).digest()
        last = line
    try:
        return np.frombuffer(bytes(digests), "<u8"), Counter(json.loads(last))
    except ValueError as error:
        raise UserError(f"{path} is damaged: no counts at its end. Delete it and run the command again.") from error


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write all lines into one file, which gets its name when it is complete."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.writelines(lines)

    write_atomic(path, write)


def _file(folder: Path, group: Group) -> Path:
    return folder / f"{group.name}.tsv.gz"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
