"""A parallel data set of the Hugging Face Hub, by its name: Helsinki-NLP/opus-100, wmt/wmt16, or your own.

Only parquet files are read, no script of a data set is run. The files of a pair are in its configuration, a folder that
is called after the two languages in either order (en-fr/train-00000-of-00001.parquet), as the `translation` feature of
`datasets` has them; or in files that name no configuration. The `translation` column is a struct of texts by language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, Suppress

from pmd_corpora.assembling import Asked, Making, Splits, assemble, finish
from pmd_corpora.parallel_files import one_line, usable
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.reading import checked_pair
from pmd_lite.errors import UserError

if TYPE_CHECKING:
    from pmd_corpora.wmt6_sampling import Hub

_SHARD = re.compile(r"(?:(.*)/)?(train|validation|valid|dev|test)[-.](?:.*[-.])?parquet")
_SPLIT = {"validation": "valid", "dev": "valid"}


def build(
    out: Path,
    dataset: Positional[str],
    *,
    pairs: Sequence[str],
    revision: str = "main",
    config: str | None = None,
    most: int = 0,
    making: Asked = Making(),
    endpoint: Annotated[str | None, Suppress] = None,
) -> Path:
    """A parallel data set of the Hugging Face Hub, by its name. Returns `out`.

    Args:
        out: the directory to write.
        dataset: the name at the Hub, such as Helsinki-NLP/opus-100.
        pairs: which language pairs, source first, such as fr-en tr-en.
        revision: branch, tag or commit of the data set.
        config: the configuration that holds the pairs; by default the one that is called en-fr or fr-en.
        most: read at most so many training pairs of each language pair, from the first on; 0 reads all.
        making: how the text is cut, and what the corpus is called.
        endpoint: address of the Hub (default: the variable HF_ENDPOINT, else huggingface.co).

    Raises:
        UserError: no network (fetch.Offline), no such data set or pair, damaged files, too little text, packages of the
            extra `download` are missing.
    """
    try:
        from pmd_corpora.wmt6_sampling import Hub
    except ImportError as error:
        raise UserError(f'{error.name} is missing. Run: pip install "pmd_lite[download]"') from error
    for pair in pairs:
        checked_pair(pair, "--pairs")
    hub = Hub(endpoint)
    commit, files = hub.snapshot(dataset, revision)
    found: dict[str, Splits] = {}
    notes: list[str] = []
    for pair in dict.fromkeys(pairs):
        chosen = _files_of(dataset, files, pair, config)
        found[pair] = {}
        for split, paths in chosen.items():
            rows = _rows(hub, dataset, commit, {path: files[path] for path in paths}, pair, most * (split == "train"))
            found[pair][split], said = usable(f"{dataset}, {split} of {pair}", rows)
            notes += said
    corpus, more = assemble(found, making)
    source = f"Hugging Face Hub: {dataset}@{commit}"
    return finish(corpus, out, [*notes, *more], source, making)


def _files_of(dataset: str, files: Mapping[str, int], pair: str, config: str | None) -> dict[str, list[str]]:
    """{split: its parquet files, in order}."""
    src, trg = pair.split("-")
    shards = {path: match for path in files if (match := _SHARD.fullmatch(path))}
    for wanted in [config] if config else [pair, f"{trg}-{src}", "default", "data", None]:
        splits: dict[str, list[str]] = {}
        for path, match in sorted(shards.items()):
            if match[1] == wanted:
                splits.setdefault(_SPLIT.get(match[2], match[2]), []).append(path)
        if "train" in splits:
            return splits
    listed = ", ".join(sorted({match[1] or "(none)" for match in shards.values()})[:40]) or "none"
    raise UserError(f"{dataset} has no training text of {config or pair} as parquet files. Its configurations: "
                    f"{listed}. Choose one with --config.")  # fmt: skip


def _rows(
    hub: Hub, dataset: str, commit: str, files: Mapping[str, int], pair: str, most: int
) -> Iterator[tuple[str, str]]:
    """The sentence pairs of these files; with `most`, the first ones."""
    import pyarrow.parquet as pq

    src, trg = pair.split("-")
    seen = 0
    for path, size in files.items():
        with hub.open(dataset, commit, path, size) as file:
            parquet = pq.ParquetFile(file)
            columns = {parquet.schema.column(at).path for at in range(len(parquet.schema))}
            nested = {f"translation.{src}", f"translation.{trg}"} <= columns
            if not nested and not {src, trg} <= columns:
                raise UserError(f"{dataset}/{path}: no columns {src} and {trg}; it has {', '.join(sorted(columns))}.")
            for batch in parquet.iter_batches(columns=["translation"] if nested else [src, trg]):
                rows: list[Any] = batch.to_pylist()
                for row in rows:
                    sides = (row["translation"] or {}) if nested else row
                    yield one_line(sides.get(src) or ""), one_line(sides.get(trg) or "")
                    seen += 1
                    if seen == most:
                        return


main = partial(script, "hub", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
