"""Your own parallel text as a checked corpus directory, from either of:

* a directory with train, valid and test, in any form load_corpus reads (.tsv, plain pairs of files, .gz);
* files that are not split yet: one .tsv a pair, named for it (all.fr-en.tsv.gz), or two plain files, source first
  (all.fr all.en). They are split by cluster (data_scripts/clusters.py): no held-out line, nor a near-copy, is trained
  on. Pairs that share enough lines get the same lines as valid and test.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from data_scripts.clusters import Pair, cut_corpus
from pmd_lite.data.corpus import Corpus, load_corpus, write_corpus
from pmd_lite.errors import UserError

Rows = list[tuple[str, str]]
_TSV = re.compile(r"(?:.*\.)?([A-Za-z0-9_]+-[A-Za-z0-9_]+)\.tsv(?:\.gz)?")
_PLAIN = re.compile(r"(?P<stem>.*?)\.(?P<lang>[A-Za-z0-9_]+)(?:\.gz)?")


def build(
    out: Path,
    *inputs: Path,
    valid: int = 500,
    test: int = 500,
    seed: int = 0,
    name: str | None = None,
    licence: str | None = None,
    source: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Check `inputs` (one split directory, or unsplit files), split if need be, write the corpus `out` and return it.

    `valid` and `test` are sentence pairs a language pair, for unsplit files; both shrink to a quarter of small texts.
    Raises UserError for whatever is wrong with the text (file:line and remedy), or when it is too small to be split.
    """
    if len(inputs) == 1 and Path(inputs[0]).is_dir():
        corpus = load_corpus(inputs[0])
    else:
        if valid < 1 or test < 1:
            raise UserError(f"valid={valid}, test={test}: both must be 1 or more sentence pairs.")
        corpus = _split({pair: _read(files) for pair, files in _name_pairs(inputs).items()}, valid, test, seed)
    name = name or Path(out).name
    written = write_corpus(corpus, out, name=name, licence=licence, source=source, overwrite=overwrite)
    for line in corpus.warnings:
        print(line, file=sys.stderr)
    for pair in corpus.pairs:
        texts = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
        counts = (f"{len(text[pair]):,} {split}" for split, text in texts.items())
        print(f"{pair}: {', '.join(counts)}", file=sys.stderr)
    return written


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 0, or 2 after one line on stderr when something outside the code is wrong."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="local", description=__doc__, formatter_class=raw)
    parser.add_argument("inputs", nargs="+", type=Path, help="a split directory, or unsplit files")
    parser.add_argument("--out", type=Path, required=True, help="directory to make")
    parser.add_argument("--valid", type=int, default=500, help="pairs for validation, of unsplit files (default 500)")
    parser.add_argument("--test", type=int, default=500, help="pairs for testing, of unsplit files (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="decides which lines are held out (default 0)")
    parser.add_argument("--name", help="name of the corpus (default: that of the directory)")
    parser.add_argument("--licence", help="licence of the text")
    parser.add_argument("--source", help="where the text comes from")
    parser.add_argument("--overwrite", action="store_true", help="replace another corpus in the directory")
    args = vars(parser.parse_args(argv))
    try:
        print(build(args.pop("out"), *args.pop("inputs"), **args))
    except UserError as error:
        print(f"local: {error}", file=sys.stderr)
        return 2
    return 0


def _name_pairs(inputs: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    """pair -> its .tsv file or its two plain files, from the names of the files in the order given."""
    found: dict[str, tuple[Path, ...]] = {}
    waiting: list[Path] = []
    for file in map(Path, inputs):
        if file.name.startswith(("valid.", "test.")) or file.is_dir():
            raise UserError(f"{file}: text that is split already is given as one directory, alone: {file.parent}.")
        files: tuple[Path, ...]
        if tsv := _TSV.fullmatch(file.name):
            pair, files = tsv[1], (file,)
        elif not waiting:
            waiting.append(file)
            continue
        else:
            src, trg = (_PLAIN.fullmatch(side.name) for side in (waiting[0], file))
            if not src or not trg or src["stem"] != trg["stem"]:
                break
            pair, files = f"{src['lang']}-{trg['lang']}", (waiting.pop(), file)
        if pair in found:
            raise UserError(f"{file}: the pair {pair} is given twice. Join its files first.")
        found[pair] = files
    if waiting or not found:
        which = f"{waiting[0]}: its other side does not follow. " if waiting else ""
        raise UserError(f"{which}Give files named like all.fr-en.tsv, or two by two like all.fr all.en, source first.")
    return found


def _read(files: Sequence[Path]) -> Rows:
    """The sentence pairs of one .tsv file or of two plain files. Raises UserError with file and line."""
    if len(files) == 1:
        rows = [line.split("\t") for line in _lines(files[0])]
    else:
        src, trg = (_lines(file) for file in files)
        if len(src) != len(trg):
            raise UserError(
                f"{files[0]} has {len(src):,} lines and {files[1]} has {len(trg):,}: line n of one must translate "
                "line n of the other. Restore both from their source."
            )
        rows = [list(sides) for sides in zip(src, trg, strict=True)]
    for number, row in enumerate(rows, 1):
        if len(row) != 2 or not all(side.strip() for side in row):
            file = files[0] if len(files) == 1 or not row[0].strip() else files[1]
            what = "no `source TAB target` with text on both sides" if len(files) == 1 else "a blank line"
            raise UserError(f"{file}:{number}: {what}. Repair the line, or remove it (on both sides).")
    return [(row[0].strip(), row[1].strip()) for row in rows]


def _lines(file: Path) -> list[str]:
    try:
        data = file.read_bytes()
        text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{file}: no sound gzip file ({error}). Fetch or pack it again.") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{file}:{line}: not UTF-8. Save the file as UTF-8.") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror}). Check its name.") from None
    # Never splitlines(): U+2028 and its like inside a sentence would shift every line after it.
    return text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split("\n")


def _split(texts: Mapping[str, Rows], valid: int, test: int, seed: int) -> Corpus:
    """Split by cluster; the side that all pairs share, if one does, decides what "the same line" is."""
    sources, targets = ({pair.split("-")[side] for pair in texts} for side in (0, -1))
    turned = len(sources) == 1 < len(targets)
    pairs = {
        pair: [Pair(trg, src, "") if turned else Pair(src, trg, "") for src, trg in rows]
        for pair, rows in texts.items()
    }
    cut = cut_corpus(pairs, {pair: len(rows) for pair, rows in texts.items()}, valid, test, seed)
    turn = slice(1, None, -1) if turned else slice(0, 2)  # (foreign, english) back to (source, target)
    written = {
        pair: {split: [(row[turn][0], row[turn][1]) for row in rows] for split, rows in splits.items()}
        for pair, splits in cut.texts.items()
    }
    return Corpus.from_texts("local", written)


if __name__ == "__main__":
    raise SystemExit(main())
