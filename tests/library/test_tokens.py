"""Encoded corpora: flat arrays with the tokenizer's ids, on disk complete or not at all."""

from __future__ import annotations

import errno
import gzip
import mmap
import os
import re
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_lite.config import TokenizerConfig
from pmd_lite.data import reading
from pmd_lite.data import tokens as module
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, TokenArray, encode_corpus
from pmd_lite.errors import UserError

Sentences = list[list[int]]


def corpus(last: str = "end", pairs: Sequence[str] = ("fr-en", "de-en")) -> Corpus:
    """Training sentences of 1 to 12 words; `last` is the last of them."""
    words = ["red", "green", "blue", "of", "the", "sea", "und"]

    def lines(salt: int, count: int) -> list[tuple[str, str]]:
        text = [" ".join(words[(n * salt + k * k) % 7] for k in range(1 + (n * salt) % 12)) for n in range(count)]
        return [(f"{line} {salt}{n}", f"{n}{salt} {line[::-1]}") for n, line in enumerate(text)]

    texts = {
        pair: {"train": [*lines(3 + i, 40 - i), (last, last)], "valid": lines(50 + i, 9), "test": lines(90 + i, 2)}
        for i, pair in enumerate(pairs)
    }
    return Corpus.from_texts("tiny", texts)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(corpus(), TokenizerConfig(vocab_size=60, tags="released"))


def same(a: EncodedCorpus, b: EncodedCorpus) -> bool:
    assert (a.pairs, a.dropped, a.sizes) == (b.pairs, b.dropped, b.sizes)
    for one, other in zip((*a.train, *a.valid), (*b.train, *b.valid), strict=True):
        for mine, its in ((one.src, other.src), (one.trg, other.trg)):
            if listed(mine) != listed(its):
                return False
    return True


def listed(tokens: TokenArray) -> Sentences:
    return [tokens[i].tolist() for i in range(len(tokens))]


# ---- TokenArray


@given(sentences=st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=8), data=st.data())
@settings(max_examples=100, deadline=None)
def test_build_and_select(sentences: Sentences, data: st.DataObject) -> None:
    whole = TokenArray.build(iter(sentences))
    assert len(whole) == len(sentences)
    assert listed(whole) == sentences
    assert whole.lengths.tolist() == [len(sentence) for sentence in sentences]
    keep = data.draw(st.lists(st.booleans(), min_size=len(sentences), max_size=len(sentences)))
    some = whole.select(np.array(keep, dtype=np.bool_))
    assert listed(some) == [sentence for sentence, kept in zip(sentences, keep, strict=True) if kept]
    assert some.flat is whole.flat
    none = some.select(np.zeros(len(some), dtype=np.bool_))
    assert len(none) == 0 and none.lengths.sum() == 0


# ---- encode_corpus


def expected(text: Corpus, tokenizer: Tokenizer, split: str, max_len: int) -> list[tuple[Sentences, Sentences]]:
    """Sentence by sentence in plain Python."""
    out = []
    for pair in text.pairs:
        both = [(tokenizer.encode_src(s, pair), tokenizer.encode_trg(t, pair)) for s, t in getattr(text, split)[pair]]
        both = [(src, trg) for src, trg in both if len(src) <= max_len and len(trg) <= max_len]
        out.append(([src for src, _ in both], [trg for _, trg in both]))
    return out


@pytest.mark.parametrize("block", [1, 7, 4096])
@pytest.mark.parametrize("max_len", [14, 20, 1000])
@pytest.mark.slow
def test_encoded_is_what_the_tokenizer_says(
    tokenizer: Tokenizer, block: int, max_len: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    text = corpus()
    encoded = encode_corpus(text, tokenizer, max_len)
    assert encoded.pairs == text.pairs and encoded.tokenizer is tokenizer
    dropped = {}
    for name, splits in (("train", encoded.train), ("valid", encoded.valid)):
        plain = expected(text, tokenizer, name, max_len)
        assert [(listed(split.src), listed(split.trg)) for split in splits] == plain
        for pair, split in zip(text.pairs, splits, strict=True):
            if lost := len(getattr(text, name)[pair]) - len(split):
                dropped[f"{name}.{pair}"] = lost
    assert encoded.dropped == dropped
    assert bool(dropped) == (max_len < 1000)
    train = expected(text, tokenizer, "train", max_len)
    assert encoded.sizes == [len(src) for src, _ in train]
    assert [split.trg_tokens for split in encoded.train] == [sum(map(len, trg)) for _, trg in train]
    assert encoded.trg_tokens == sum(sum(map(len, trg)) for _, trg in train)


def test_max_len_counts_tags_and_end_on_either_side(tokenizer: Tokenizer) -> None:
    long = "red sea red sea"
    splits = {s: [(long, f"the {n}"), (f"the {n}", long)] for n, s in enumerate(("train", "valid", "test"))}
    text = Corpus.from_texts("two", {"fr-en": splits})
    own = train_tokenizer(text, TokenizerConfig(tags="released", byte_fallback=True))
    longest = len(own.encode_trg(long, "fr-en"))
    assert longest == len(own.encode_src(long, "fr-en")) > len(own.encode_src("the 0", "fr-en"))
    assert encode_corpus(text, own, longest).dropped == {}
    with pytest.raises(UserError, match=rf"train\.fr-en: no sentence pair fits into max_len={longest - 1}"):
        encode_corpus(text, own, longest - 1)


def test_what_is_left_out_is_said_for_train_and_for_dev() -> None:
    """A dev sentence that is left out changes the dev loss, the weights that are kept and alpha: say so."""
    short, long = [(f"the {i}", f"the {i}") for i in range(20)], [("red sea " * 9, "the")]
    texts = {"fr-en": {"train": short + long * 2, "valid": short[:5] + long, "test": short},
             "de-en": {"train": short + long, "valid": short[:5], "test": short}}  # fmt: skip
    text = Corpus.from_texts("two", texts, allow_leakage=True)
    own = train_tokenizer(text, TokenizerConfig(byte_fallback=True))
    whole = encode_corpus(text, own, 1000)
    assert whole.dropped == {} and whole.left_out == []
    limit = len(own.encode_src(long[0][0], "fr-en")) - 1
    cut = encode_corpus(text.only(["fr-en", "de-en"]), own, limit)
    assert [len(split) for split in cut.valid] == [5, 5]
    assert cut.left_out == [
        "train: sentence pairs longer than max_len tokens are not trained on: fr-en 2 of 22, de-en 1 of 21",
        "valid: sentence pairs longer than max_len tokens are in no dev loss: fr-en 1 of 6",
    ]


def test_no_python_object_stays_for_a_sentence(tokenizer: Tokenizer) -> None:
    """What is kept is 4 bytes a token and 16 a sentence and side; a list for each sentence would be over 200 more."""
    lines = [(f"red {n} sea", f"the {n} blue") for n in range(3000)]
    text = Corpus.from_texts("many", {"fr-en": {"train": lines, "valid": [("v", "w")], "test": [("x", "y")]}})
    own = train_tokenizer(text, TokenizerConfig(vocab_size=60, max_sentences=500))
    encode_corpus(text, own, 64)  # what is made once and kept, whatever the size
    tracemalloc.start()
    try:
        encoded = encode_corpus(text, own, 64)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    ids = len(encoded.train[0].src.flat) + len(encoded.train[0].trg.flat)
    assert kept < 1.2 * (4 * ids + 2 * 16 * len(lines)) + 50_000
    assert peak > kept  # or nothing was traced


# ---- the cache


def broken_encode(*_: object, **__: object) -> Any:
    raise AssertionError("the text was encoded again")


def cached(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("encoded-*"))


@pytest.mark.parametrize("max_len", [20, 1000])
def test_cached_is_the_same_and_not_made_twice(
    tokenizer: Tokenizer, max_len: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, folder = corpus(), tmp_path / "deep" / "cache"
    fresh = encode_corpus(text, tokenizer, max_len)
    assert same(encode_corpus(text, tokenizer, max_len, folder), fresh)
    (name,) = cached(folder)
    assert re.fullmatch(r"encoded-[0-9a-f]{16}", name)
    monkeypatch.setattr(Tokenizer, "encode_flat", broken_encode)
    again = encode_corpus(text, tokenizer, max_len, folder)
    assert same(again, fresh)
    assert cached(folder) == [name]
    assert {split.src.flat.dtype for split in again.train} == {np.dtype(np.uint16)}
    for split in again.train:  # still the file's pages, though sentences were left out
        assert is_mapped(split.src.flat) and is_mapped(split.trg.flat)


@pytest.mark.parametrize(("vocab_size", "kind"), [(1 << 16, np.uint16), ((1 << 16) + 1, np.int32)])
def test_ids_take_two_bytes_as_long_as_they_fit(
    tokenizer: Tokenizer, vocab_size: int, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "vocab_size", vocab_size)
    for cache in (None, tmp_path):
        flat = encode_corpus(corpus(), tokenizer, 1000, cache).train[0].trg.flat
        assert flat.dtype == kind
        assert flat[: len(tokenizer.encode_trg(*corpus().train["fr-en"][0][1:], "fr-en"))].tolist() == (
            tokenizer.encode_trg(corpus().train["fr-en"][0][1], "fr-en")
        )


def test_long_arrays_are_mapped_whatever_is_left_out(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = encode_corpus(corpus(), tokenizer, 20, tmp_path)
    monkeypatch.setattr(reading, "_CHUNK", 64)  # 8 numbers are many now
    monkeypatch.setattr(module, "_ROWS", 7)
    mapped = encode_corpus(corpus(), tokenizer, 20, tmp_path)
    assert same(mapped, fresh)
    for array in (mapped.train[0].src.lengths, mapped.train[0].src.starts, mapped.train[1].trg.lengths):
        assert is_mapped_file(array)


@pytest.mark.parametrize("form", [".tsv", ".tsv.gz", "crlf", "no last line end", "plain"])
def test_text_that_needs_room_is_spooled_to_disk_unchanged(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above a certain size, an array that cannot be mapped as it is goes into a temporary file."""
    lines = [("ein " * (n % 5 + 1) + str(n), f"\u4e00 {n}") for n in range(50)]
    lines[7] = ("two\ttabs", "dropped")
    good = [pair for pair in lines if "\t" not in pair[0]]
    for split, text in (("train", lines), ("valid", [("a", "b")]), ("test", [("c", "d")])):
        if form == "plain":
            for side, code in ((0, "de"), (1, "en")):
                body = "".join(f"{pair[side]}\n" for pair in text)
                (tmp_path / f"{split}.de-en.{code}").write_bytes(body.encode())
            continue
        data = "".join(f"{src}\t{trg}\n" for src, trg in text).encode()
        if form == "crlf":
            data = data.replace(b"\n", b"\r\n")
        elif form == "no last line end":
            data = data[:-1]
        packed = form == ".tsv.gz"
        (tmp_path / f"{split}.de-en.tsv{'.gz' * packed}").write_bytes(gzip.compress(data) if packed else data)
    whole = load_corpus(tmp_path, strict=False)
    monkeypatch.setattr(reading, "_CHUNK", 64)
    monkeypatch.setattr(reading, "_LINES", 3)
    pieces = load_corpus(tmp_path, strict=False)
    train = pieces.train["de-en"]
    assert list(train) == list(whole.train["de-en"]) == good
    assert [train[i] for i in (48, 0, -1)] == [good[48], good[0], good[-1]]
    assert train.where(7).endswith(":9")
    assert (pieces.fingerprint, pieces.warnings) == (whole.fingerprint, whole.warnings)
    assert isinstance(train._view.obj, mmap.mmap) and is_mapped_file(train._tabs)


def is_mapped_file(values: Any) -> bool:
    while isinstance(values, np.ndarray | memoryview):
        values = values.base if isinstance(values, np.ndarray) else values.obj
    return isinstance(values, mmap.mmap)


def is_mapped(values: object) -> bool:
    while values is not None and not isinstance(values, np.memmap):
        values = getattr(values, "base", None)
    return values is not None


def test_key_changes_with_whatever_decides_the_ids(tokenizer: Tokenizer, tmp_path: Path) -> None:
    text = corpus()
    encode_corpus(text, tokenizer, 1000, tmp_path)
    encode_corpus(text, tokenizer, 30, tmp_path)  # no new one: max_len selects from what is there
    encode_corpus(corpus(), train_tokenizer(corpus(), tokenizer.config), 30, tmp_path)
    assert len(cached(tmp_path)) == 1
    others = [
        (corpus(last="ende"), tokenizer),
        (replace(text, pairs=text.pairs[::-1]), tokenizer),
        (text, Tokenizer(replace(tokenizer.config, tags="paper"), text.pairs, tokenizer.models, {})),
        (text, Tokenizer(tokenizer.config, (*text.pairs, "en-fr"), tokenizer.models, {})),  # no longer many-to-one
        (text, train_tokenizer(text, replace(tokenizer.config, vocab_size=55))),
        (text, train_tokenizer(corpus(last="ende"), tokenizer.config)),
    ]
    for count, (other_text, other) in enumerate(others, 2):
        encoded = encode_corpus(other_text, other, 1000, tmp_path)
        assert len(cached(tmp_path)) == count
        assert same(encoded, encode_corpus(other_text, other, 1000))


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 sentences a block."""
    monkeypatch.setattr(module, "_BLOCK", 5)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("encoded-*/*")}


def encoded_lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that receives every sentence that is encoded from now on."""
    seen: list[str] = []
    encode_flat = Tokenizer.encode_flat

    def spy(self: Tokenizer, texts: Sequence[str], *rest: Any) -> Any:
        seen.extend(texts)
        return encode_flat(self, texts, *rest)

    monkeypatch.setattr(Tokenizer, "encode_flat", spy)
    return seen


class Stop(BaseException):
    """An exception that no code catches."""


@pytest.mark.parametrize("error", [Stop(), OSError(errno.ENOSPC, "No space left on device"), UserError("no")])
@pytest.mark.usefixtures("small_steps")
def test_an_interrupted_writer_leaves_nothing(
    tokenizer: Tokenizer, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_corpus(corpus(), tokenizer, 1000, tmp_path / "straight")
    with monkeypatch.context() as patch:
        write, sides = module._write_side, iter(range(1000))

        def fail(*arguments: Any) -> None:
            write(*arguments)
            if next(sides) == 2:
                raise error

        patch.setattr(module, "_write_side", fail)
        with pytest.raises(UserError if isinstance(error, OSError) else type(error)):
            encode_corpus(corpus(), tokenizer, 1000, tmp_path / "broken")
    assert cached(tmp_path / "broken") == []
    encode_corpus(corpus(), tokenizer, 1000, tmp_path / "broken")
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "straight")


def test_the_last_step_is_one_rename(tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupt)
        with pytest.raises(KeyboardInterrupt):
            encode_corpus(corpus(), tokenizer, 1000, tmp_path)
    assert cached(tmp_path) == []
    assert same(encode_corpus(corpus(), tokenizer, 1000, tmp_path), encode_corpus(corpus(), tokenizer, 1000))
    (folder,) = tmp_path.glob("encoded-*")
    assert {path.suffix for path in folder.iterdir()} == {".npy", ".json"}


KILLED = """
import os, pathlib
from pmd_lite.data import tokens
from tests.library.test_tokens import corpus, encode_corpus
from pmd_lite.data.tokenizer import Tokenizer
write = tokens._write_side
def kill(stem, *rest):
    write(stem, *rest)
    if stem.name.startswith("valid"):
        os.kill(os.getpid(), 9)
tokens._write_side = kill
encode_corpus(corpus(), Tokenizer.load(pathlib.Path("tokenizer")), 1000, pathlib.Path("cache"))
"""


def test_a_killed_process_blocks_nobody_and_its_work_is_removed(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == -9, done.stderr
    (left,) = cached(tmp_path / "cache")
    assert left.endswith(".part")
    encode_corpus(corpus(), tokenizer, 1000, tmp_path / "cache")
    assert len(cached(tmp_path / "cache")) == 1 and left not in cached(tmp_path / "cache")
    assert same(encode_corpus(corpus(), tokenizer, 1000, tmp_path / "cache"), encode_corpus(corpus(), tokenizer, 1000))


@pytest.mark.usefixtures("small_steps")
def test_a_second_writer_waits_and_takes_what_the_first_wrote(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, write, found = corpus(), module._write_side, []
    second = threading.Thread(target=lambda: found.append(encode_corpus(text, tokenizer, 1000, tmp_path)))

    def begin_the_second(*arguments: Any) -> None:
        if not second.ident:
            second.start()
            second.join(0.2)
            assert not found
        write(*arguments)

    monkeypatch.setattr(module, "_write_side", begin_the_second)
    seen = encoded_lines(monkeypatch)
    mine = encode_corpus(text, tokenizer, 1000, tmp_path)
    second.join()
    assert same(mine, found[0])
    assert len(seen) == 198
    assert len(cached(tmp_path)) == 1


def test_a_writer_that_comes_when_all_is_done_leaves_nothing(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_corpus(corpus(), tokenizer, 1000, tmp_path)
    (folder,) = tmp_path.glob("encoded-*")
    exists, answers = Path.exists, iter([False])
    monkeypatch.setattr(Path, "exists", lambda self: next(answers, exists(self)) if self == folder else exists(self))
    monkeypatch.setattr(Tokenizer, "encode_flat", broken_encode)
    encode_corpus(corpus(), tokenizer, 1000, tmp_path)
    assert cached(tmp_path) == [folder.name]


def test_many_writers_at_once(tokenizer: Tokenizer, tmp_path: Path) -> None:
    text, results = corpus(), []
    fresh = encode_corpus(text, tokenizer, 1000)
    gate = threading.Barrier(4)

    def work() -> None:
        gate.wait()
        results.append(same(encode_corpus(text, tokenizer, 1000, tmp_path), fresh))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4
    assert len(cached(tmp_path)) == 1


def test_a_cache_that_cannot_be_written(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory", encoding="utf-8")
    with pytest.raises(UserError, match=r"file.*: File exists\. Choose another directory"):
        encode_corpus(corpus(), tokenizer, 1000, tmp_path / "file")


def test_a_read_only_cache_serves_what_it_has(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = encode_corpus(corpus(), tokenizer, 1000, tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # a superuser may write anywhere, whatever the mode says
    monkeypatch.setattr(Path, "rename", refuse)
    assert same(encode_corpus(corpus(), tokenizer, 1000, tmp_path), fresh)
    with pytest.raises(UserError, match="Permission denied"):
        encode_corpus(corpus(last="ende"), tokenizer, 1000, tmp_path)


def lose_a_boundary(file: Path) -> None:
    """Two sentences become one; all else fits together."""
    offsets = np.load(file)
    file.unlink()
    np.save(file, np.delete(offsets, 1))


def replace_by(content: bytes) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        file.unlink()  # a mapped file is not written over
        file.write_bytes(content)

    return damage


def cut(file: Path) -> None:
    replace_by(file.read_bytes()[:-40])(file)


def other(file: Path) -> None:
    file.unlink()
    np.save(file, np.zeros(7, dtype=np.int32))


def test_a_flipped_bit_of_the_cached_ids_is_noticed(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The arrays have the right form, and training would see other words."""
    encode_corpus(corpus(), tokenizer, 1000, tmp_path)
    (file,) = tmp_path.glob("encoded-*/train.de-en.src.npy")
    file.write_bytes(file.read_bytes()[:-2] + bytes([file.read_bytes()[-2] ^ 1]) + file.read_bytes()[-1:])
    with pytest.raises(
        UserError, match=rf"{file.name}: this file is missing or damaged. Delete {re.escape(str(file.parent))};"
    ):
        encode_corpus(corpus(), tokenizer, 1000, tmp_path)
    (file.parent / "sums.json").unlink()
    with pytest.raises(UserError, match=r"sums\.json is absent or damaged .* Delete .*; it is made again"):
        encode_corpus(corpus(), tokenizer, 1000, tmp_path)


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        *[
            (ending, damage)
            for ending in (".npy", ".offsets.npy")
            for damage in (Path.unlink, replace_by(b""), cut, other)
        ],
        (".offsets.npy", lose_a_boundary),
    ],
)
def test_a_damaged_cache_says_what_to_delete(
    tokenizer: Tokenizer, ending: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    encode_corpus(corpus(), tokenizer, 1000, tmp_path)
    (file,) = tmp_path.glob(f"encoded-*/train.de-en.src{ending}")
    damage(file)
    with pytest.raises(UserError, match=rf"damaged.* Delete {re.escape(str(file.parent))};"):
        encode_corpus(corpus(), tokenizer, 1000, tmp_path)
