"""Text that mtdata finds and fetches: OPUS, Statmt, Tatoeba, TED and others, by data set or by recipe.

mtdata (https://github.com/thammegowda/mtdata) is a program of its own, called here as one: its cache, its licences and
its citations (references.bib) stay with it. The directories that it writes can also be made on another machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tyro.conf import Positional

from pmd_corpora.archives import text_lines
from pmd_corpora.assembling import Asked, Making, Splits, assemble, finish
from pmd_corpora.parallel_files import one_line, usable
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.reading import checked_pair
from pmd_lite.errors import UserError

_HELD = {"valid": re.compile(r"dev"), "test": re.compile(r"test\d*")}


def build(
    out: Path,
    *inputs: Positional[Path],
    pairs: Sequence[str] = (),
    recipe: Sequence[str] = (),
    train: Sequence[str] = (),
    dev: Sequence[str] = (),
    test_sets: Sequence[str] = (),
    making: Asked = Making(),
) -> Path:
    """What mtdata knows: OPUS, Statmt, Tatoeba, TED and others, by recipe or by data set. Returns `out`.

    Needs the program mtdata, unless you give directories that it wrote: pip install "pmd_lite[mtdata]", or pipx.
    `mtdata list -l fra-eng` and `mtdata list-recipe` print what there is. Downloads go into OUT.mtdata.

    Args:
        out: the directory to write.
        inputs: directories of `mtdata get` or `get-recipe`, one for each pair, in the order of --pairs.
        pairs: one pair for each directory, recipe or group of data sets, source first, in ISO 639-3: fra-eng tur-eng.
        recipe: names of recipes, one for each pair.
        train: data sets, such as Statmt-europarl-10-deu-eng; each goes to the pair of its two languages.
        dev: data sets for validation.
        test_sets: data sets for testing.
        making: how the text is cut, and what the corpus is called.

    Raises:
        UserError: mtdata is missing or fails, a directory is not of its form, too little text.
    """
    for pair in pairs:
        checked_pair(pair, "--pairs")
    work = Path(out).expanduser().resolve()
    work = work.with_name(f"{work.name}.mtdata")
    folders = list(map(Path, inputs))
    sets = [*train, *dev, *test_sets]
    if sum(map(bool, (folders, recipe, sets))) != 1 or not pairs:
        raise UserError("Give --pairs, and one of: directories of mtdata, --recipe, --train with data sets.")
    if not sets and len(pairs) != len(folders or recipe):
        raise UserError(f"{len(pairs)} pairs, {len(folders or recipe)} directories or recipes: give one pair for each.")
    for pair, one in zip(pairs, recipe, strict=False):
        folders.append(work / pair)
        _call("get-recipe", "--recipe-id", one, "--out", str(folders[-1]), "--merge", "--drop-tests")
    if sets:
        for pair in pairs:
            folders.append(work / pair)
            words = [part for option, ids in (("--train", train), ("--dev", dev), ("--test", test_sets))
                     if (mine := [one for one in ids if _languages(one) == {*pair.split("-")}])
                     for part in (option, *mine)]  # fmt: skip
            if "--train" not in words:
                raise UserError(f"--train: no data set of {pair}. Its name ends in the languages, such as -deu-eng.")
            _call("get", "--langs", pair, "--out", str(folders[-1]), "--merge", "--drop-tests", *words)
    found: dict[str, Splits] = {}
    notes: list[str] = []
    for pair, folder in zip(pairs, folders, strict=True):
        found[pair], said = read_directory(folder, pair)
        notes += said
    corpus, more = assemble(found, making)
    source = "mtdata: " + "; ".join([*recipe, *sets] or map(str, folders))
    return finish(corpus, out, [*notes, *more], source, making)


def read_directory(folder: Path, pair: str) -> tuple[Splits, list[str]]:
    """train, valid and test of one directory that mtdata wrote, and notes.

    train.LANG (or all of train-parts, without --merge), dev.LANG, test1.LANG, test2.LANG, ... Languages may have a
    script or region there (zho_Hans): the language alone decides.
    """
    splits: Splits = {}
    notes: list[str] = []
    whole = _files(folder, re.compile("train"), pair)
    parts = whole or _files(folder / "train-parts", re.compile(".*"), pair)
    for split, files in {"train": parts, **{s: _files(folder, name, pair) for s, name in _HELD.items()}}.items():
        if files:
            splits[split], said = _read(files, f"{folder}, {split} of {pair}")
            notes += said
    if "train" not in splits:
        raise UserError(f"{folder} has no train.{pair.split('-')[0]} with train.{pair.split('-')[1]}, nor such files "
                        "in train-parts. Is it a directory of mtdata, and this its pair?")  # fmt: skip
    return splits, notes


def _files(folder: Path, stem: re.Pattern[str], pair: str) -> list[tuple[Path, Path]]:
    """The two files of each text in the folder whose name without the language fits."""
    sides: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.glob("*")):
        name, _, language = path.name.removesuffix(".gz").rpartition(".")
        if stem.fullmatch(name) and not path.name.startswith("."):
            sides.setdefault(name, {})[language.partition("_")[0]] = path
    src, trg = (code.partition("_")[0] for code in pair.split("-"))
    return [(found[src], found[trg]) for found in sides.values() if src in found and trg in found]


def _read(files: Sequence[tuple[Path, Path]], what: str) -> tuple[list[tuple[str, str]], list[str]]:
    def rows() -> Iterator[tuple[str, str]]:
        for paths in files:
            sides = []
            for path in paths:
                with path.open("rb") as stream:
                    sides.append([one_line(line) for line in text_lines(stream, str(path))])
            if len(sides[0]) != len(sides[1]):
                raise UserError(f"{paths[0]} and {paths[1]} have {len(sides[0]):,} and {len(sides[1]):,} lines. Delete "
                                "their directory and let mtdata write it again.")  # fmt: skip
            yield from zip(*sides, strict=True)

    return usable(what, rows())


def _languages(dataset: str) -> set[str]:
    return {code.partition("_")[0] for code in dataset.split("-")[-2:]}


def _call(*words: str) -> None:
    """Run mtdata; what it says goes to stderr."""
    program = [sys.executable, "-m", "mtdata"] if find_spec("mtdata") else [shutil.which("mtdata") or ""]
    if not program[0]:
        raise UserError('the program mtdata is not here. Run: pip install "pmd_lite[mtdata]", or pipx install mtdata')
    print(*program, *words, file=sys.stderr, flush=True)
    if status := subprocess.run([*program, *words], stdout=2, check=False).returncode:
        raise UserError(f"mtdata ended with status {status}; see above. The same command continues; what it fetched is "
                        "kept.")  # fmt: skip


main = partial(script, "mtdata", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
