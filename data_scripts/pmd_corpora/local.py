"""Your own parallel text as a checked corpus directory, from either of:

* a directory with train, valid and test, in any form load_corpus reads (.tsv, plain pairs of files, .gz); a note says
  how many training pairs hold a held-out line or a near-copy of one;
* files that are not split yet: .tsv, .csv or .jsonl with columns, named after their pair (all.fr-en.tsv.gz); two plain
  files, source first (all.fr all.en); translation memories (.tmx, .tmx.gz); Moses zips (fr-en.txt.zip, as OPUS has
  them). They are split by cluster (pmd_corpora.clusters): no held-out line, nor a near-copy, is trained on. Pairs that
  share enough lines get the same lines as valid and test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from tyro.conf import Positional

from pmd_corpora.assembling import Asked, Making, finish, split_by_cluster
from pmd_corpora.clusters import near_copies
from pmd_corpora.columns import TABLE, Columns, read_columns
from pmd_corpora.parallel_files import Rows, check_sides, read_moses, read_text, read_tmx
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.data.reading import checked_pair
from pmd_lite.errors import UserError

_TMX = re.compile(r".*\.tmx(?:\.gz)?", re.IGNORECASE)
_ZIP = re.compile(r".*\.zip", re.IGNORECASE)
_PLAIN = re.compile(r"(?P<stem>.*?)\.(?P<lang>[A-Za-z0-9_]+)(?:\.gz)?")


def build(
    out: Path,
    *inputs: Positional[Path],
    pairs: Sequence[str] = (),
    columns: Sequence[str] = (),
    score_column: str | None = None,
    min_score: float = -math.inf,
    source: str | None = None,
    making: Asked = Making(),
) -> Path:
    """Your own text: a directory with train, valid and test, or files that are split here. Returns `out`.

    Files: .tsv, .csv, .jsonl (named after the pair, all.fr-en.tsv, or with --pairs), two plain files (all.fr all.en),
    .tmx, Moses .zip; any of them may be packed (.gz). A line without text on one side is an error in a .tsv without
    scores and in plain files, and is left out elsewhere.

    Args:
        out: the directory to write.
        inputs: a split directory, or unsplit files.
        pairs: the pairs to read, source first, such as fr-en, from files whose names do not say it.
        columns: the columns of source and target: numbers from 1 in a .tsv, names in a .csv or .jsonl. By default the
            two columns beside the score, or those that are called like the languages, or source and target.
        score_column: the column of a score, as LASER, OpusFilter and others give it; needs --min-score.
        min_score: lines with a lower score are left out.
        source: where the text comes from.
        making: how the text is cut, and what the corpus is called.

    Raises:
        UserError: any fault of the text (file:line and remedy), two sides that look swapped, too little text.
    """
    notes: list[str] = []
    asked = Columns(tuple(columns), score_column, min_score)
    if len(inputs) == 1 and Path(inputs[0]).is_dir():
        if pairs or asked.named:
            raise UserError(f"--pairs and columns are for unsplit files; in {inputs[0]} the file names give the pairs.")
        corpus = load_corpus(inputs[0])
        for pair in corpus.pairs:
            notes += check_sides(corpus.train[pair], pair, corpus.train[pair].name)
        notes += near_copies(corpus)
    else:
        texts, notes = _read_all(inputs, pairs, asked)
        corpus = Corpus.from_texts("local", split_by_cluster(texts, making))
    return finish(corpus, out, notes, source, making)


def _read_all(inputs: Sequence[Path], pairs: Sequence[str], asked: Columns) -> tuple[dict[str, Rows], list[str]]:
    """pair -> its sentence pairs, and notes, from files of all kinds in the order given."""
    for pair in pairs:
        checked_pair(pair, "--pairs")
    texts: dict[str, Rows] = {}
    notes: list[str] = []
    for name, files in _group(inputs):
        found, said = _read(name, files, pairs, asked)
        for pair, rows in found.items():
            _refuse_again(pair, texts, files[-1])
            texts[pair] = rows
            said += check_sides(rows, pair, str(files[0]))
        notes += said
    if missing := [pair for pair in pairs if pair not in texts]:
        raise UserError(f"--pairs {missing[0]}: no file holds it; they hold {', '.join(texts)}.")
    return texts, notes


def _read(
    name: str | None, files: Sequence[Path], pairs: Sequence[str], asked: Columns
) -> tuple[dict[str, Rows], list[str]]:
    """The pairs of one file, or of two plain ones. name: the pair, where the name of the file says it."""
    table = TABLE.fullmatch(files[0].name)
    if not table or (table[2].lower() == "tsv" and name and not asked.named):
        if asked.named:
            raise UserError(f"{files[0]} has no columns: --columns and --score-column are for .tsv, .csv and .jsonl.")
        if name:
            return {name: read_text(*files)}, []
        return (read_moses if _ZIP.fullmatch(files[0].name) else read_tmx)(files[0], pairs)
    if not (wanted := [name] if name else pairs):
        example = f"NAME.fr-en.{table[2]}"
        raise UserError(f"{files[0]}: which pair is it? Give --pairs fr-en, source first, or call it {example}.")
    read = {pair: read_columns(files[0], pair, asked) for pair in wanted}
    return {pair: rows for pair, (rows, _) in read.items()}, [note for _, notes in read.values() for note in notes]


def _group(inputs: Sequence[Path]) -> list[tuple[str | None, tuple[Path, ...]]]:
    """Which files belong together (one, or two plain ones), with the pair that their names say, if they do."""
    groups: list[tuple[str | None, tuple[Path, ...]]] = []
    waiting: list[Path] = []
    for file in map(Path, inputs):
        if file.name.startswith(("valid.", "test.")) or file.is_dir():
            raise UserError(f"{file}: this text is split already. Give its directory alone: {file.parent}.")
        if file.exists() and not file.is_file():
            raise UserError(f"{file} is a pipe or a device, not a file. Give a file.")
        known = [name for name, _ in groups if name]  # a pair given twice is refused before any file is read
        if table := TABLE.fullmatch(file.name):
            _refuse_again(table[1], known, file)
            groups.append((table[1], (file,)))
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
                        "or .csv, .jsonl, .tmx and .zip files.")  # fmt: skip
    return groups


def _refuse_again(pair: str | None, known: Collection[str], file: Path) -> None:
    if pair in known:
        raise UserError(f"{file}: the pair {pair} is given twice. Join its files first.")


main = partial(script, "local", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
