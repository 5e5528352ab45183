"""Corpora: several pairs of languages, each with train, valid and test text, in one layout.

    DIR/{train,valid,test}.{src}-{trg}.tsv     UTF-8, LF, no header, no quoting: `source TAB target` on each line
    DIR/corpus.json                            name, licence, source, order of the pairs, lines and sha256 of each file

`corpus.json` is optional. Instead of a .tsv there may be a .tsv.gz, or two plain files with one sentence on each line
(train.fr-en.fr and train.fr-en.en, or train.fr and train.en), packed or not. Bad text raises UserError. We repair two
things, with a warning: CRLF line ends throughout a file, and a last line without line end.
"""

import difflib
import hashlib
import html
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pmd_lite.data.checks import Manifest, check_corpus, check_lines, read_manifest
from pmd_lite.data.reading import SPLITS, Flat, ParallelText, checked_pair, find_files, read_flat, spooled
from pmd_lite.disk import place
from pmd_lite.errors import UserError

_Checked = dict[str, dict[str, tuple[ParallelText, list[str]]]]  # pair -> split -> text and warnings
RawTexts = Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]  # pair -> split -> sentence pairs
MANIFEST = "corpus.json"
_LINES = 1 << 16  # lines that are joined together


@dataclass(frozen=True, eq=False)
class Corpus:
    """Checked text of one or more pairs. `warnings` has what the checks found that does not prevent training."""

    name: str
    pairs: tuple[str, ...]
    """In the order of corpus.json, else by size of the training set, largest first, ties by name."""
    train: dict[str, ParallelText]
    valid: dict[str, ParallelText]
    test: dict[str, ParallelText]
    path: Path | None = None
    licence: str = "unknown"
    source: str = "unknown"
    warnings: tuple[str, ...] = ()
    stamps: Mapping[Path, tuple[int, int] | None] = field(default_factory=dict, repr=False)
    """{file: its size and time of change} when it was read."""

    @property
    def changed(self) -> list[Path]:
        """Files that another program has changed or removed since. The texts here stay those that were read."""
        return [file for file, stamp in self.stamps.items() if _stamp(file) != stamp]

    @property
    def sizes(self) -> list[int]:
        """Training sentence pairs of each pair, in the order of `pairs` (the N of Eq. 2)."""
        return [len(self.train[pair]) for pair in self.pairs]

    @property
    def languages(self) -> tuple[str, ...]:
        """All language codes, sorted."""
        return tuple(sorted({code for pair in self.pairs for code in pair.split("-")}))

    @property
    def direction(self) -> Literal["m2o", "o2m", "m2m"]:
        """Many-to-one if all pairs share the target (also for a single pair), one-to-many if all share the source."""
        return direction_of(self.pairs)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the names and bytes of all texts; place, form and order of pairs do not matter."""
        lines = [f"{pair} {split} {text.sha256}\n" for pair, split, text in sorted(self.texts(), key=lambda x: x[:2])]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{pair} {size:,}" for pair, size in zip(self.pairs, self.sizes, strict=True))
        return f"<corpus {self.name}, training pairs: {sizes}>"

    def _repr_html_(self) -> str:
        counts = [[pair, *(f"{len(getattr(self, split)[pair]):,}" for split in SPLITS)] for pair in self.pairs]
        rows = "".join(
            f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in [[html.escape(self.name), *SPLITS], *counts]
        )
        return f"<table>{rows}</table><p>{html.escape(self.source)} ({html.escape(self.licence)})</p>"

    def reversed(self) -> Self:
        """Every pair with sides swapped: one-to-many from many-to-one. The text is shared, not copied."""
        train, valid, test = ({_turn(p): t.swap() for p, t in getattr(self, s).items()} for s in SPLITS)
        return replace(self, pairs=tuple(map(_turn, self.pairs)), train=train, valid=valid, test=test, path=None)

    def only(self, pairs: Sequence[str]) -> Self:
        """Some of the pairs; the text is shared, not copied. Raises UserError for an unknown pair."""
        missing = [pair for pair in pairs if pair not in self.pairs]
        if missing or not pairs:
            raise UserError(f"{self.name} has no pair {', '.join(missing) or '(you named none)'}; it has "
                            f"{', '.join(self.pairs)}")  # fmt: skip
        train, valid, test = ({pair: getattr(self, s)[pair] for pair in pairs} for s in SPLITS)
        return replace(self, pairs=tuple(pairs), train=train, valid=valid, test=test, path=None)

    @classmethod
    def from_texts(
        cls, name: str, texts: RawTexts, *, licence: str = "unknown", source: str = "unknown", strict: bool = True,
        allow_leakage: bool = False,
    ) -> "Corpus":  # fmt: skip
        """A corpus of strings, {pair: {"train": [(src, trg), ...], "valid", "test"}}; checks as in `load_corpus`."""
        if not texts:
            raise UserError(f"{name}: there are no pairs. Add one, such as 'fr-en', with train, valid and test.")
        checked: _Checked = {}
        for pair, splits in texts.items():
            checked_pair(pair, name)
            if set(splits) != set(SPLITS):
                raise UserError(f"{name}: {pair} has the splits {sorted(splits)}. Give exactly train, valid and test.")
            named = {split: f"{split}.{pair} (in memory)" for split in SPLITS}
            checked[pair] = {s: _check([_in_memory(named[s], splits[s])], strict, Manifest(Path()), "") for s in SPLITS}
        return _assemble(checked, Corpus(name, (), {}, {}, {}, None, licence, source), allow_leakage)

    def texts(self) -> Iterator[tuple[str, str, ParallelText]]:
        """(pair, split, text) of every text."""
        for pair in self.pairs:
            for split, texts in zip(SPLITS, (self.train, self.valid, self.test), strict=True):
                yield pair, split, texts[pair]


def direction_of(pairs: Collection[str]) -> Literal["m2o", "o2m", "m2m"]:
    """As `Corpus.direction`, from the names of the pairs alone."""
    sources, targets = ({pair.split("-")[side] for pair in pairs} for side in (0, -1))
    return "m2o" if len(targets) == 1 else "o2m" if len(sources) == 1 else "m2m"


def load_corpus(path: str | Path, *, strict: bool = True, allow_leakage: bool = False) -> Corpus:
    """Read and check the corpus in the directory `path` (layout above). Later changes of its files do not reach it.

    Args:
        strict: raise at the first unsound line (blank side, number of columns, control characters, over-long side).
            False leaves such lines out, with a warning in `Corpus.warnings`.
        allow_leakage: only warn if training pairs are also in the test set of their own pair.
    Raises: UserError that says what is wrong, in which file and line, and what to do.
    """
    directory = _existing(path)
    manifest = read_manifest(directory / MANIFEST)
    files = find_files(directory, manifest.pairs)
    manifest.check_pairs(files)
    stamps = {file: _stamp(file) for of in files.values() for paths in of.values() for file in paths}
    texts: _Checked = {}
    for pair, splits in files.items():
        texts[pair] = {}
        for split, paths in splits.items():
            read = [read_flat(file) for file in paths]
            flat, checked = _check([flat for flat, _ in read], strict, manifest, f"{split}.{pair}.tsv")
            texts[pair][split] = flat, [warning for _, said in read for warning in said] + checked
    about = Corpus(manifest.name or directory.resolve().name, manifest.pairs, {}, {}, {}, directory)
    about = replace(about, licence=manifest.licence, source=manifest.source, stamps=stamps)
    return _assemble(texts, about, allow_leakage)


def _join_sides(src: Flat, trg: Flat) -> Flat:
    """Two plain files, line by line, as one text `src TAB trg`. Raises UserError when their line counts differ."""
    if len(src.stops) != len(trg.stops):
        raise UserError(f"{src.name} has {len(src.stops):,} lines and {trg.name} has {len(trg.stops):,}. Restore both "
                        "from their source: after the first lost line every pair is wrong.")  # fmt: skip

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(src.stops), _LINES):
            last = min(at + _LINES, len(src.stops)) - 1
            sides = [bytes(flat.buffer[flat.starts[at] : flat.stops[last] - 1]).split(b"\n") for flat in (src, trg)]
            yield b"".join(left + b"\t" + right + b"\n" for left, right in zip(*sides, strict=True))
            src.forget()
            trg.forget()

    return Flat(src.name, spooled(pieces()))


def _check(flats: list[Flat], strict: bool, manifest: Manifest, name: str) -> tuple[ParallelText, list[str]]:
    """One text from its file or its two plain files, without the unsound lines."""
    flat = _join_sides(*flats) if len(flats) == 2 else flats[0]
    sound, warnings = check_lines(flats, strict=strict)
    manifest.check_text(name, flat)
    return ParallelText(flat) if sound.all() else ParallelText(*flat.keep(sound)), warnings


def _assemble(texts: _Checked, about: Corpus, allow_leakage: bool) -> Corpus:
    pairs = about.pairs or tuple(sorted(texts, key=lambda pair: (-len(texts[pair]["train"][0]), pair)))
    train, valid, test = ({pair: texts[pair][split][0] for pair in pairs} for split in SPLITS)
    warnings = [warning for pair in pairs for split in SPLITS for warning in texts[pair][split][1]]
    warnings += check_corpus(train, valid, test, allow_leakage=allow_leakage)
    return replace(about, pairs=pairs, train=train, valid=valid, test=test, warnings=tuple(warnings))


def _stamp(file: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = file.stat()
        return status.st_size, status.st_mtime_ns
    return None


def _turn(pair: str) -> str:
    return "-".join(reversed(pair.split("-")))


def _existing(path: str | Path) -> Path:
    directory = place(path)
    if os.path.isdir(directory):  # pathlib raises OSError for a name that is too long
        return directory
    parent = directory.parent
    if os.path.exists(directory):
        kind = "a file" if os.path.isfile(directory) else "a pipe or a device"
        raise UserError(f"{directory} is {kind}. Give the directory of the corpus, such as {parent}.")
    siblings = sorted(p.name for p in parent.iterdir() if p.is_dir()) if parent.is_dir() else []
    near = difflib.get_close_matches(directory.name, siblings, n=1)
    cure = f"Did you mean {parent / near[0]}? If not, build" if near else "Build"
    raise UserError(f"{directory} does not exist. {cure} a corpus: python -m pmd_lite data --help")


def _in_memory(name: str, pairs: Sequence[tuple[str, str]]) -> Flat:
    """In-memory sentence pairs as the bytes of a .tsv file. This refuses only what would shift lines."""
    if not len(pairs):
        raise UserError(f"{name} is empty. Add at least one sentence pair.")
    for number, pair in enumerate(pairs, 1):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(side, str) for side in pair)):
            raise UserError(f"{name}:{number}: {str(pair)[:80]!r} is not a pair of texts. Give (source, target).")
        if "\n" in pair[0] or "\n" in pair[1]:
            raise UserError(f"{name}:{number}: a line end inside a sentence. Replace it by a space.")
    try:
        return Flat(name, "".join(f"{src}\t{trg}\n" for src, trg in pairs).encode())
    except UnicodeEncodeError as error:
        line = error.object.count("\n", 0, error.start) + 1
        raise UserError(f"{name}:{line}: half a surrogate pair, which UTF-8 cannot represent. Remove it.") from error
