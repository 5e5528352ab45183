"""Your own parallel text as a checked corpus directory, from either of:

* a directory with train, valid and test, in any form load_corpus reads (.tsv, plain pairs of files, .gz); a note says
  how many training pairs hold a held-out line or a near-copy of one;
* files that are not split yet: one .tsv for each pair, named after it (all.fr-en.tsv.gz); two plain files, source first
  (all.fr all.en); translation memories (.tmx, .tmx.gz); Moses zips (fr-en.txt.zip, as OPUS has them). They are split by
  cluster (pmd_corpora.clusters): no held-out line, nor a near-copy, is trained on. Pairs that share enough lines
  get the same lines as valid and test.

--pair names the pair of a .tmx or .zip; else the name of the file does (NAME.fr-en.tmx), else its content.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pmd_corpora.clusters import Pair, cut_corpus, near_copies
from pmd_corpora.parallel_files import Rows, check_sides, read_moses, read_text, read_tmx
from pmd_corpora.terminal import terminal
from pmd_lite.data.corpus import Corpus, load_corpus, write_corpus
from pmd_lite.data.reading import checked_pair
from pmd_lite.errors import UserError

_TMX = re.compile(r".*\.tmx(?:\.gz)?", re.IGNORECASE)
_ZIP = re.compile(r".*\.zip", re.IGNORECASE)
_TSV = re.compile(r"(?:.*\.)?([A-Za-z0-9_]+-[A-Za-z0-9_]+)\.tsv(?:\.gz)?")
_PLAIN = re.compile(r"(?P<stem>.*?)\.(?P<lang>[A-Za-z0-9_]+)(?:\.gz)?")


def build(
    out: Path,
    *inputs: Path,
    pairs: Sequence[str] = (),
    valid: int = 500,
    test: int = 500,
    seed: int = 0,
    name: str | None = None,
    licence: str | None = None,
    source: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Check `inputs` (one split directory, or unsplit files), split unsplit files, write the corpus `out`, return it.

    `valid` and `test` are sentence pairs for each language pair of unsplit files; both shrink to a quarter of small
    texts. `pairs` ("fr-en", source first): which to read from .tmx and .zip files. stderr names what is skipped there,
    and sides that do not look like their language. Raises UserError for any fault of the text (file:line and remedy),
    for two sides that look swapped, or if the text is too small to be split.
    """
    notes: list[str] = []
    if len(inputs) == 1 and Path(inputs[0]).is_dir():
        if pairs:
            raise UserError(f"--pair is for .tmx and .zip files; in {inputs[0]} the file names give the pairs.")
        corpus = load_corpus(inputs[0])
        for pair in corpus.pairs:
            notes += check_sides(corpus.train[pair], pair, corpus.train[pair].name)
        notes += near_copies(corpus)
    else:
        if valid < 1 or test < 1:
            raise UserError(f"valid={valid}, test={test}: both must be 1 or more sentence pairs.")
        texts, notes = _read_all(inputs, pairs)
        corpus = _split(texts, valid, test, seed)
    name = name or Path(out).name
    written = write_corpus(corpus, out, name=name, licence=licence, source=source, overwrite=overwrite)
    for line in (*notes, *corpus.warnings):
        print(line, file=sys.stderr)
    for pair in corpus.pairs:
        splits = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
        counts = (f"{len(text[pair]):,} {split}" for split, text in splits.items())
        print(f"{pair}: {', '.join(counts)}", file=sys.stderr)
    return written


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns 0, or 2 after a UserError, printed as one line on stderr."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="local", description=__doc__, formatter_class=raw)
    parser.add_argument("inputs", nargs="+", type=Path, help="a split directory, or unsplit files")
    parser.add_argument("--out", type=Path, required=True, help="directory to make")
    parser.add_argument("--pair", action="append", dest="pairs", default=[], metavar="SOURCE-TARGET",
                        help="read this pair from the .tmx and .zip files; may be given several times")  # fmt: skip
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


def _read_all(inputs: Sequence[Path], pairs: Sequence[str]) -> tuple[dict[str, Rows], list[str]]:
    """pair -> its sentence pairs, and notes, from files of all kinds in the order given."""
    for pair in pairs:
        checked_pair(pair, "--pair")
    texts: dict[str, Rows] = {}
    notes: list[str] = []
    for name, files in _group(inputs):
        said: list[str] = []
        if name is not None:
            found = {name: read_text(*files)}
        else:
            found, said = (read_moses if _ZIP.fullmatch(files[0].name) else read_tmx)(files[0], pairs)
        for pair, rows in found.items():
            _refuse_again(pair, texts, files[-1])
            texts[pair] = rows
            said += check_sides(rows, pair, str(files[0]))
        notes += said
    if missing := [pair for pair in pairs if pair not in texts]:
        raise UserError(f"--pair {missing[0]}: no file holds it; they hold {', '.join(texts)}.")
    return texts, notes


def _group(inputs: Sequence[Path]) -> list[tuple[str | None, tuple[Path, ...]]]:
    """Which files belong together (one .tsv, or two plain files), with their pair; None if the pair is in the file."""
    groups: list[tuple[str | None, tuple[Path, ...]]] = []
    waiting: list[Path] = []
    for file in map(Path, inputs):
        if file.name.startswith(("valid.", "test.")) or file.is_dir():
            raise UserError(f"{file}: this text is split already. Give its directory alone: {file.parent}.")
        if file.exists() and not file.is_file():
            raise UserError(f"{file} is a pipe or a device, not a file. Give a file.")
        known = [name for name, _ in groups if name]  # a pair given twice is refused before any file is read
        if tsv := _TSV.fullmatch(file.name):
            _refuse_again(tsv[1], known, file)
            groups.append((tsv[1], (file,)))
        elif _TMX.fullmatch(file.name) or _ZIP.fullmatch(file.name):
            groups.append((None, (file,)))
        elif not waiting:
            waiting.append(file)
        else:
            src, trg = (_PLAIN.fullmatch(side.name) for side in (waiting[0], file))
            if not src or not trg or src["stem"] != trg["stem"]:
                break
            pair = f"{src['lang']}-{trg['lang']}"
            _refuse_again(pair, known, file)
            groups.append((pair, (waiting.pop(), file)))
    if waiting or not groups:
        which = f"{waiting[0]}: the file of its other side must come next. " if waiting else ""
        raise UserError(f"{which}Give files named like all.fr-en.tsv, or two by two like all.fr all.en, source first, "
                        "or .tmx and .zip files.")  # fmt: skip
    return groups


def _refuse_again(pair: str, known: Collection[str], file: Path) -> None:
    if pair in known:
        raise UserError(f"{file}: the pair {pair} is given twice. Join its files first.")


def _split(texts: Mapping[str, Rows], valid: int, test: int, seed: int) -> Corpus:
    """Split by cluster. If all pairs share one side, that side decides which lines are the same."""
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
    with terminal():
        raise SystemExit(main())
