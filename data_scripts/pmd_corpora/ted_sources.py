"""Where to find the 60-language TED corpus, and readers for each form of it; `ted8.py` makes pairs of its rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from pmd_corpora.archives import members, open_member, text_lines
from pmd_corpora.fetch import Remote, fetch
from pmd_lite.errors import UserError

Cells = dict[str, str]  # code -> sentence; a code may be absent

# Size and sha256 are from the lists of checksums of Hugging Face and TensorFlow Datasets.
ARCHIVE = Remote(
    ("http://phontron.com/data/ted_talks.tar.gz", "http://www.phontron.com/data/ted_talks.tar.gz"),
    "ted_talks.tar.gz",
    352_222_045,
    "03457b9ebc6d60839f1a48c5a03c940266aff78b81fcda4c6d9e2a5a7fb670ae",
)
# The commit is that of the branch refs/convert/parquet. Such a commit may vanish; the branch stays.
_HUB = "https://huggingface.co/datasets/neulab/ted_multi/resolve"
_REVISIONS = ("de61be957e71348e29076a9e76ed4f3b02c87e43", "refs%2Fconvert%2Fparquet")
_SHARDS = ("train/0000", "train/0001", "validation/0000", "test/0000")
PARQUET = tuple(
    Remote(
        tuple(f"{_HUB}/{revision}/plain_text/{shard}.parquet" for revision in _REVISIONS),
        f"{shard.replace('/', '-')}.parquet",
        unpinned="we know no sha256 of the Hub's conversion, which it may make anew",
    )
    for shard in _SHARDS
)
_PARTS = {"train": "train", "valid": "dev", "test": "test"}  # all_talks_{part}.tsv
_HUB_SPLITS = {"train": "train", "valid": "validation", "test": "test"}


def download(folder: Path) -> Path:
    """The archive; if its site does not give it, the folder of the Hub's .parquet files. Raises UserError."""
    try:
        return fetch(ARCHIVE, folder)
    except UserError as error:
        if find_spec("pyarrow") is None:
            raise type(error)(
                f'{error} The copy on the Hugging Face Hub needs pyarrow: pip install "pmd_lite[download]".'
            ) from error
        _say(f"{error}\nNext: the copy on the Hugging Face Hub (about 530 MB).")
    for remote in PARQUET:
        fetch(remote, folder / "ted_multi")
    return folder / "ted_multi"


def read_split(source: Path, split: str, codes: Sequence[str], strict: bool = True) -> Iterator[Cells]:
    """The rows of one split (train, valid, test) from the archive, or from a folder of .tsv or of .parquet files.

    Raises UserError if `source` holds no such file, and for any fault of the file (see the two readers).
    """
    name = f"all_talks_{_PARTS[split]}.tsv"
    if not source.is_dir():
        inside = [member for member in members(source) if Path(member).name == name]
        if len(inside) != 1:
            raise UserError(f"{source}: {len(inside)} members named {name}. Give the archive ted_talks.tar.gz itself.")
        with open_member(source, inside[0]) as stream:
            yield from tsv_rows(text_lines(stream, f"{source}:{inside[0]}"), f"{source}:{inside[0]}", codes, strict)
    elif found := [path for path in (source / name, source / f"{name}.gz") if path.is_file()]:
        with found[0].open("rb") as stream:
            yield from tsv_rows(text_lines(stream, str(found[0])), str(found[0]), codes, strict)
    else:
        # The Hub has used all of train/0000.parquet, train-0000.parquet, ted_multi-train-00000-of-00002.parquet.
        word = re.compile(rf"(^|[/_-]){_HUB_SPLITS[split]}([/._-]|$)")
        shards = [p for p in sorted(source.rglob("*.parquet")) if word.search(p.relative_to(source).as_posix())]
        if not shards:
            raise UserError(
                f"{source} has neither {name} nor .parquet files of the split {_HUB_SPLITS[split]}. Give the archive "
                "ted_talks.tar.gz, the folder it was unpacked to, or a folder with the Hub's .parquet files."
            )
        yield from parquet_rows(shards)


def tsv_rows(lines: Iterable[str], where: str, codes: Sequence[str], strict: bool = True) -> Iterator[Cells]:
    """Rows of the tab-separated form: a header with talk_name and 60 codes; quotes have no special meaning.

    Raises UserError if the header lacks a code, or if a line has another number of columns than the header (as the last
    line of a file that was cut short); without `strict` such lines are left out.
    """
    numbered = enumerate(lines, 1)
    header = next(numbered, (1, ""))[1].split("\t")
    wanted = ("en", *codes)
    if missing := [code for code in wanted if code not in header]:
        raise UserError(
            f"{where}:1: no column {', '.join(missing)}; the line begins {header[0][:40]!r}. This is not the file "
            "of the 60-language TED corpus, or it is incomplete: fetch it again."
        )
    at = {code: header.index(code) for code in wanted}
    for number, line in numbered:
        cells = line.split("\t")
        if len(cells) != len(header):
            message = f"{where}:{number}: {len(cells)} columns, but the header has {len(header)}"
            if strict:
                raise UserError(f"{message}. Fetch the file again, or leave such lines out with --no-strict.")
            _say(f"{message}: left out")
            continue
        yield {code: cells[column] for code, column in at.items()}


def parquet_rows(files: Sequence[Path]) -> Iterator[Cells]:
    """Rows of the Hub's form: `translations` holds two lists, `language` and `translation`, of the languages present.

    Raises UserError if pyarrow is missing, or if files are damaged or have another schema.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            f'{files[0]}: reading it needs pyarrow, which is not installed. Run: pip install "pmd_lite[download]"'
        ) from error
    for file in files:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(1024, columns=["translations"]):
                for row in batch.column("translations").to_pylist():
                    yield dict(zip(row["language"], row["translation"], strict=True))
        except (OSError, ValueError, KeyError, TypeError) as error:  # pyarrow's own errors are among these
            why = str(error).partition("\n")[0]
            raise UserError(f"{file}: not a sound parquet file of ted_multi ({why}). Fetch it again.") from error


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
