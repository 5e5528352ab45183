"""The tokenizer belongs to a run: a request for another tokenizer gets an error that says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

import pmd_lite as pmd
from pmd_lite.comparing.compare import compare
from pmd_lite.config import TokenizerConfig, preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.disk import read_json, write_json
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.opening import given_tokenizer
from tests.conftest import TINY, stopped_at

WORDS: dict[str, Any] = {**TINY, "show": "off", "score": False, "steps": 4}


def train(corpus: Corpus, out: Path, **more: Any) -> Run:
    return pmd.train(corpus, "tau=1", "toy", out=out, **{**WORDS, **more})


@pytest.fixture(scope="module")
def two(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The run's own tokenizer, made outside the run, and another one."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for name, size in (("own", 90), ("other", 80)):
        train_tokenizer(tiny_corpus, preset("toy", **{**TINY, "vocab_size": size}).tokenizer).save(folder / name)
    return folder / "own", folder / "other"


def noted(run: Run) -> Any:
    return read_json(run.path / "config.json")["tokenizer"]


def test_a_second_call_with_another_tokenizer_is_refused(
    tiny_corpus: Corpus, two: tuple[Path, Path], tmp_path: Path
) -> None:
    own, other = two
    run = train(tiny_corpus, tmp_path / "run", tokenizer=other)
    assert noted(run) == Tokenizer.load(other).fingerprint == run.tokenizer.fingerprint
    assert train(tiny_corpus, tmp_path / "run", tokenizer=other).path == run.path
    with pytest.raises(UserError, match="run: its tokenizer differs from the given one"):
        train(tiny_corpus, tmp_path / "run", tokenizer=own)
    with pytest.raises(UserError, match=r"it would train without tokenizer=.*vocab_size is 80 there and 90 here"):
        train(tiny_corpus, tmp_path / "run")


def test_an_own_tokenizer_is_noted_when_there_is_one(
    tiny_corpus: Corpus, two: tuple[Path, Path], tmp_path: Path
) -> None:
    """Then the caller may pass the same tokenizer, but no other, neither in the middle nor at the end."""
    own, other = two
    with stopped_at(2):
        train(tiny_corpus, tmp_path / "run")
    with pytest.raises(UserError, match="its tokenizer differs"):
        train(tiny_corpus, tmp_path / "run", tokenizer=other)
    run = train(tiny_corpus, tmp_path / "run", tokenizer=own)
    assert run.dir.finished and noted(run) == Tokenizer.load(own).fingerprint
    with pytest.raises(UserError, match="its tokenizer differs"):
        train(tiny_corpus, tmp_path / "run", tokenizer=other)


def test_before_there_are_files_config_json_says_which(
    tiny_corpus: Corpus, two: tuple[Path, Path], tmp_path: Path
) -> None:
    """As if the run had been killed before its tokenizer was copied, or trained."""
    own, other = two
    for name, shared in (("shared", other), ("own", None)):
        with stopped_at(2):
            train(tiny_corpus, tmp_path / name, tokenizer=shared)
        shutil.rmtree(tmp_path / name / "tokenizer")
        shutil.rmtree(tmp_path / name / "checkpoint")
    with pytest.raises(UserError, match="its tokenizer differs"):
        train(tiny_corpus, tmp_path / "shared", tokenizer=own)
    about = read_json(tmp_path / "own" / "config.json")
    write_json(tmp_path / "own" / "config.json", {**about, "tokenizer": None})
    assert noted(train(tiny_corpus, tmp_path / "own", tokenizer=other)) == Tokenizer.load(other).fingerprint


def test_a_comparison_refuses_the_tokenizer_of_another_corpus(tmp_path: Path) -> None:
    """All runs share OUT/tokenizer; it was used as it was, even if it had been made from other text."""
    world: dict[str, Any] = {"head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3,
                             "homonyms": 1, "false_friends": 1}  # fmt: skip
    small = {name: value for name, value in WORDS.items() if name not in ("show", "score")}
    words: dict[str, Any] = {"seeds": (1,), "out": tmp_path / "c", "corpus_options": world, "show": False, **small}
    other = pmd.load_corpus("toy", **{**world, "seed": 5})
    train_tokenizer(other, preset("toy", **TINY).tokenizer).save(tmp_path / "c" / "tokenizer")
    with pytest.raises(UserError, match=r"tokenizer of this comparison differs.*trained on other texts"):
        compare("toy", ["tau=1"], **words)
    with pytest.raises(UserError, match=r"tau=5 vocab_size=80: all methods of a comparison share one tokenizer"):
        compare("toy", ["tau=1", "tau=5 vocab_size=80"], **{**words, "out": tmp_path / "d"})
    assert not (tmp_path / "d").exists()


def test_a_sentencepiece_model_of_ones_own(tiny_corpus: Corpus, tmp_path: Path) -> None:
    """Its pieces are those that sentencepiece itself gives, behind them stand the tags; the text comes back."""
    lines = [line for pair in tiny_corpus.pairs for row in tiny_corpus.train[pair] for line in row]
    path = tmp_path / "mine.model"
    SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=str(path.with_suffix("")), vocab_size=120,
                               hard_vocab_limit=False, minloglevel=3)  # fmt: skip
    theirs = SentencePieceProcessor(model_file=str(path))
    ours = given_tokenizer(path, tiny_corpus.pairs, TokenizerConfig(kind="per-language", tags="released"))
    src, trg = tiny_corpus.test["fra-eng"][0]
    tag, *pieces, end = ours.encode_src(src, "fra-eng")
    assert [ours.piece(i) for i in pieces] == theirs.encode(src, out_type=str)
    assert (ours.piece(tag), ours.piece(end)) == ("__fra__", "</s>") and tag >= theirs.get_piece_size() > max(pieces)
    assert ours.decode(ours.encode_trg(trg, "fra-eng")) == trg
    ours.save(tmp_path / "saved")
    assert given_tokenizer(tmp_path / "saved", (), TokenizerConfig()).fingerprint == ours.fingerprint
    (tmp_path / "other.model").write_bytes(b"no model")
    with pytest.raises(UserError, match=r"other\.model is not a sentencepiece model"):
        given_tokenizer(tmp_path / "other.model", tiny_corpus.pairs, TokenizerConfig())
