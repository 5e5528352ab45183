"""Parquet data sets of the Hugging Face Hub, read by row group: their files, which groups to take, and their rows.

The training text of WMT is several corpora one after another; its first three million lines are from only two of them.
So we read the footers of the shards (they say where each row group is), then single row groups, spread over all shards
by a seed. For a split that is needed whole, the same reader takes all row groups; the package `datasets` is not needed.
The loading scripts of old tutorials are no longer on the Hub.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import HfApi, HfFileSystem, HfFileSystemFile, constants, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

from pmd_corpora.fetch import Offline
from pmd_corpora.transfer import LEAST_RATE, PATIENCE
from pmd_lite.disk import write_atomic
from pmd_lite.errors import UserError

COLUMN = "translation"  # a struct with one text for each language
FIRST_TIMEOUT, TIMEOUT = 10.0, 30.0  # seconds without an answer: of the first request, and of all others
RETRIES, WAIT = 3, 0.5  # retries of one request that breaks off; seconds before the first one, doubled each time
_PIECE = 1 << 16  # bytes that are taken from the network at a time, at most
_GOLDEN = (5**0.5 - 1) / 2
_ROWS = 4096  # rows that are Python strings at one time
_INSTEAD = (
    "These work without network: `python -m pmd_lite data catalogs6` (text of installed packages), "
    "`python -m pmd_lite data local` (your own files) and the toy worlds (corpus toy, longtail, ...)."
)


class _Remote(HfFileSystemFile):
    """A file of the Hub in exact ranges: no reading ahead, few retries; each answer must have the size asked for."""

    def __init__(self, fs: HfFileSystem, repo: str, commit: str, path: str, size: int) -> None:
        self._url = hf_hub_url(repo, path, repo_type="dataset", revision=commit, endpoint=fs.endpoint)
        super().__init__(fs, f"datasets/{repo}@{commit}/{path}", mode="rb", size=size, cache_type="none")

    def url(self) -> str:
        return self._url

    def _fetch_range(self, start: int, end: int) -> bytes:
        for attempt in range(RETRIES + 1):
            data, status, broken = self._bytes(start, end)
            if broken is None:
                break
            if attempt == RETRIES:
                raise broken
            time.sleep(WAIT * 2**attempt)
        if len(data) != end - start:
            came = f"{len(data):,}" if len(data) < end - start else "more"
            raise UserError(
                f"{self._url}: we asked for {end - start:,} bytes, and {came} came (status {status}). Is there "
                "a proxy or a login page in between? Run the command again later."
            )
        return bytes(data)

    def _bytes(self, start: int, end: int) -> tuple[bytearray, int, HTTPError | None]:
        """What one connection brings, at most a piece more than asked for; its status; what broke it off."""
        headers = {**build_hf_headers(), "Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        data, last = bytearray(), time.monotonic() + PATIENCE + (end - start) / LEAST_RATE
        with http_stream_backoff("GET", self._url, headers=headers, timeout=TIMEOUT, max_retries=RETRIES,
                                 base_wait_time=WAIT) as answer:  # fmt: skip
            try:
                if answer.status_code >= 400:
                    answer.read()
                hf_raise_for_status(answer)
                for piece in answer.iter_bytes(_PIECE):
                    data += piece
                    if time.monotonic() > last:
                        raise UserError(f"{self._url}: slower than {LEAST_RATE:,} bytes a second. Run it again later.")
                    if len(data) > end - start:
                        break
            except HfHubHTTPError:
                raise
            except HTTPError as error:  # http_stream_backoff cannot begin again once the body has begun
                return data, answer.status_code, error
        return data, answer.status_code, None


class Hub:
    """The Hub at `endpoint` (default: the variable HF_ENDPOINT, else huggingface.co)."""

    def __init__(self, endpoint: str | None = None) -> None:
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")

    @cached_property
    def _fs(self) -> HfFileSystem:
        return HfFileSystem(endpoint=self.endpoint, skip_instance_cache=True)

    def snapshot(self, repo: str, revision: str) -> tuple[str, dict[str, int]]:
        """The commit that `revision` (branch, tag or commit) stands for, and its parquet files: {path: bytes}.

        Makes one request without retries, so that without network the error comes at once. Raises Offline, UserError.
        """
        with _answers(f"{repo}@{revision}", self.endpoint):
            api = HfApi(endpoint=self.endpoint)
            info = api.dataset_info(repo, revision=revision, files_metadata=True, timeout=FIRST_TIMEOUT)
            files = {file.rfilename: file.size for file in info.siblings or ()}
        sizes = {path: size for path, size in sorted(files.items()) if path.endswith(".parquet") and size}
        if not info.sha or not sizes:
            raise UserError(f"{self.endpoint}: {repo}@{revision} holds no parquet file. Choose another --revision.")
        return info.sha, sizes

    @contextmanager
    def open(self, repo: str, commit: str, path: str, size: int) -> Iterator[_Remote]:
        """The open file. An error of network, Hub or file inside the `with` becomes a UserError or Offline."""
        with _answers(f"{repo}@{commit[:12]}/{path}", self.endpoint):
            file = _Remote(self._fs, repo, commit, path, size)
            try:
                yield file
            finally:
                file.close()


@dataclass(frozen=True)
class Group:
    """One row group: number `number` (from 0) of shard `shard`."""

    shard: int
    number: int
    rows: int
    bytes: int
    """Uncompressed."""

    @property
    def name(self) -> str:
        """Sorts like the rows of the corpus."""
        return f"{self.shard:05d}-{self.number:06d}"


class Split:
    """One split of one configuration at one commit. Its footers are read once and kept in `folder`.

    Raises UserError if there is no such split, or if its files are not parquet files with both languages.
    """

    def __init__(
        self, hub: Hub, repo: str, commit: str, files: Mapping[str, int], config: str, name: str, folder: Path
    ) -> None:
        self.hub, self.repo, self.commit, self.config = hub, repo, commit, config
        self.shards = sorted(path for path in files if path.startswith(f"{config}/{name}-"))
        if not self.shards:
            raise UserError(f"{repo}@{commit[:12]}: there is no {config}/{name}-*.parquet. Choose another --revision.")
        last = self.shards[-1].removesuffix(".parquet").rpartition("-of-")[2]
        if last.isdigit() and int(last) != len(self.shards):
            raise UserError(f"{repo}@{commit[:12]}: {len(self.shards)} of {int(last)} shards of {config}/{name} are "
                            "there. Choose another --revision.")  # fmt: skip
        self._sizes = [files[path] for path in self.shards]
        self._footers = [self._footer(shard, folder / f"{name}-{shard:05d}.footer") for shard in range(len(self))]
        self.groups = [
            Group(shard, number, row_group.num_rows, row_group.total_byte_size)
            for shard, footer in enumerate(self._footers)
            for number in range(footer.num_row_groups)
            for row_group in (footer.row_group(number),)
        ]
        self.rows = sum(group.rows for group in self.groups)

    def __len__(self) -> int:
        return len(self.shards)

    def order(self, seed: str) -> list[Group]:
        """All row groups, in an order of which every beginning is spread evenly over the split.

        A point starts at a place on a circle, which the seed decides. With every row group it moves on by the golden
        section of the circle. The groups are sorted by the place of the point. So the first groups of the list have
        nearly equal gaps between them, every group has the same chance to be among them, and we can take more later.
        """
        places = (Random(seed).random() + _GOLDEN * np.arange(len(self.groups))) % 1.0
        return [self.groups[at] for at in np.argsort(places).tolist()]

    def rows_of(self, groups: Sequence[Group], lang: str) -> Iterator[tuple[Group, Iterator[tuple[str | None, ...]]]]:
        """(group, its (foreign, English) rows) for groups sorted by shard; one shard is open at a time.

        Bytes that are not UTF-8 become U+FFFD; nulls become None.
        """
        for shard in sorted({group.shard for group in groups}):
            with self._open(shard) as file:
                parquet = pq.ParquetFile(file, metadata=self._footers[shard], pre_buffer=True)
                for group in groups:
                    if group.shard == shard:
                        yield group, self._rows(parquet, group, lang)

    def _rows(self, parquet: pq.ParquetFile, group: Group, lang: str) -> Iterator[tuple[str | None, ...]]:
        where = f"{self.shards[group.shard]}, row group {group.number}"
        with _answers(where, self.hub.endpoint):
            table = parquet.read_row_group(group.number, columns=[COLUMN])
        for batch in table.to_batches(max_chunksize=_ROWS):
            struct = batch.column(0)
            sides = struct.flatten()  # a null row is a null on both sides
            yield from zip(*(_texts(sides[struct.type.get_field_index(side)]) for side in (lang, "en")), strict=True)

    def _open(self, shard: int) -> Any:
        return self.hub.open(self.repo, self.commit, self.shards[shard], self._sizes[shard])

    def _footer(self, shard: int, kept: Path) -> pq.FileMetaData:
        if not kept.exists():
            with self._open(shard) as file:
                footer = pq.ParquetFile(file).metadata
            write_atomic(kept, footer.write_metadata_file)
        try:
            footer = pq.read_metadata(kept)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{kept} is damaged ({error}). Delete it and run the command again.") from error
        columns = {footer.schema.column(i).path for i in range(footer.num_columns)}
        if missing := {f"{COLUMN}.{side}" for side in (self.config.split("-")[0], "en")} - columns:
            raise UserError(f"{self.repo}/{self.shards[shard]} has the columns {', '.join(sorted(columns))}; "
                            f"{min(missing)} is missing. Choose another --revision.")  # fmt: skip
        return footer


def first_groups(order: Sequence[Group], rows: int) -> int:
    """How many groups, from the beginning of `order`, hold at least `rows` rows and come from every shard."""
    missing, seen = {group.shard for group in order}, 0
    for count, group in enumerate(order, 1):
        missing.discard(group.shard)
        seen += group.rows
        if seen >= rows and not missing:
            return count
    return len(order)


def _texts(column: pa.StringArray) -> list[str | None]:
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return [raw if raw is None else raw.decode("utf-8", "replace") for raw in column.cast("binary").to_pylist()]


@contextmanager
def _answers(what: str, endpoint: str) -> Iterator[None]:
    """Turn errors of the network, the Hub and parquet into a UserError of one line; no network at all into Offline."""
    if os.environ.get("PMD_OFFLINE", "0") not in ("", "0"):
        raise Offline(f"{what} is not here, and PMD_OFFLINE forbids fetching it. {_INSTEAD}")
    try:
        yield
    except OfflineModeIsEnabled as error:
        raise Offline(f"{what} is not here, and HF_HUB_OFFLINE forbids fetching it. {_INSTEAD}") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        cure = "Check the name and --revision." if status in (401, 403, 404) else "Run the command again later."
        raise UserError(f"{what}: {endpoint} answers with status {status}. {cure} What was read is kept.") from error
    except (HTTPError, ConnectionError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise Offline(f"{what} cannot be read: {endpoint} does not answer ({why}). {_INSTEAD}") from error
    except FileNotFoundError as error:
        raise UserError(f"{what} is not at {endpoint}. Check the name and --revision.") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"{what} at {endpoint} is damaged, or not such a file ({why}). Run the command again later, or "
                        "choose another --revision.") from error  # fmt: skip
