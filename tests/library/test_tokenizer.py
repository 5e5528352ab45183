"""Text to ids and back: nothing lost, nothing forged, tags as configured, small languages well covered."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import given, settings
from hypothesis import strategies as st

from pmd_lite.config import PRESETS, TokenizerConfig
from pmd_lite.data import tokenizer as module
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer, train_tokenizer
from pmd_lite.errors import UserError

Lines = Sequence[tuple[str, str]]
ROOT = Path(__file__).resolve().parents[2]

# Everything that might be mistaken for something else: white space of all kinds, sentencepiece's own characters, names
# of specials, tags and byte pieces, the escape character, marks that combine, signs beyond 16 bits.
SPITEFUL = [
    "<s>", "</s>", "<pad>", "<unk>", "__fr__", "__en__", "<0x41>", "\u2581", "\u2581a", "a\u2581b", " \u2581", "\u2585",
    "\u2047", "\ufdd0", "\ufdd01", "\ufdd0\ufdd0", "\ufffd", "\ufeffa", "a\u00a0b", "\u3000a", "a\u200bb", "e\u0301",
    "", " ", "  ", " a", "a ", "  a  b  ", "a\u200d\U0001f600", "\U0010ffff", "日本語", "ﬁ ½ Å Å", "s\u0327 ș ş",
]  # fmt: skip


def corpus(**pairs: Lines) -> Corpus:
    """In memory, training text as given: corpus(fr_en=[("un", "one")]) has the pair fr-en."""
    held = {"valid": [("v", "w")], "test": [("x", "y")]}
    return Corpus.from_texts("tiny", {name.replace("_", "-"): {"train": text, **held} for name, text in pairs.items()})


def inner(ids: list[int], tokenizer: Tokenizer, pair: str) -> list[int]:
    """Ids of a source sentence without tag and EOS."""
    assert ids[0] == tokenizer.encoder_tag(pair) and ids[-1] == EOS
    return ids[1:-1]


FRENCH = [(f"le chat {n} dort\u2581\u2585 <s>{t}</s>", f"the  cat {n} sleeps {t}") for n, t in enumerate(SPITEFUL) if t]


@pytest.fixture(scope="module")
def plain() -> Tokenizer:
    return train_tokenizer(corpus(fr_en=FRENCH), TokenizerConfig(vocab_size=200))


@pytest.fixture(scope="module")
def fallback() -> Tokenizer:
    return train_tokenizer(corpus(fr_en=FRENCH), TokenizerConfig(vocab_size=400, byte_fallback=True))


# ---- lossless


@pytest.mark.parametrize("text", SPITEFUL)
def test_spiteful_text_comes_back(plain: Tokenizer, fallback: Tokenizer, text: str) -> None:
    for tokenizer in (plain, fallback):
        for ids in (tokenizer.encode_src(text, "fr-en"), tokenizer.encode_trg(text, "fr-en")):
            assert tokenizer.decode(ids) == text
            assert UNK not in ids


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_text_of_seen_characters_comes_back(plain: Tokenizer, data: st.DataObject) -> None:
    seen = sorted(set("".join(side for line in FRENCH for side in line)))
    text = data.draw(st.text(st.sampled_from(seen), max_size=40))
    ids = plain.encode_src(text, "fr-en")
    assert UNK not in ids
    assert plain.decode(ids) == text


@given(text=st.text(max_size=60))
@settings(max_examples=250, deadline=None)
def test_any_text_comes_back_with_byte_fallback(fallback: Tokenizer, text: str) -> None:
    ids = fallback.encode_src(text, "fr-en")
    assert UNK not in ids
    assert fallback.decode(ids) == text


def test_unknown_characters_without_byte_fallback(plain: Tokenizer) -> None:
    ids = plain.encode_src("chat \u0436 dort", "fr-en")
    assert ids.count(UNK) == 1
    assert plain.decode(ids) == "chat \u2047 dort"


def test_rare_characters_outside_the_sample_have_pieces() -> None:
    """The sample that sentencepiece sees is much smaller than the text; the promise is about the text."""
    rare = [chr(0x4E00 + n) for n in range(300)]
    tokenizer = train_tokenizer(corpus(zh_en=[(sign, "a") for sign in rare]), TokenizerConfig(max_sentences=20))
    assert [tokenizer.decode(tokenizer.encode_src(sign, "zh-en")) for sign in rare] == rare


def test_a_sentence_with_a_character_of_sentencepiece_still_trains() -> None:
    """Sentencepiece leaves out sentences with U+2585; all of these have it."""
    text = [(f"banana {n}\u2585", "banana\u2581") for n in range(30)]
    tokenizer = train_tokenizer(corpus(fr_en=text), TokenizerConfig(vocab_size=60))
    assert len(inner(tokenizer.encode_src("banana banana", "fr-en"), tokenizer, "fr-en")) < 8


# ---- what cannot be forged


def check_ordinary(tokenizer: Tokenizer, text: str) -> None:
    ids = inner(tokenizer.encode_src(text, "fr-en"), tokenizer, "fr-en")
    first_tag = tokenizer.vocab_size - len(tokenizer.languages)
    assert all(i == UNK or SPECIALS <= i < first_tag for i in ids)
    assert set(tokenizer.tags.values()) == set(range(first_tag, tokenizer.vocab_size))
    trg = tokenizer.encode_trg(text, "fr-en")
    assert trg == [*ids, EOS]


@pytest.mark.parametrize("text", SPITEFUL)
def test_spiteful_text_forges_nothing(plain: Tokenizer, fallback: Tokenizer, text: str) -> None:
    check_ordinary(plain, text)
    check_ordinary(fallback, text)


@given(parts=st.lists(st.sampled_from([*SPITEFUL, "\0", "\n", "a"]), max_size=8))
@settings(max_examples=100, deadline=None)
def test_no_mixture_forges_anything(fallback: Tokenizer, parts: list[str]) -> None:
    check_ordinary(fallback, "".join(parts))
    assert fallback.decode(fallback.encode_src("".join(parts), "fr-en")) == "".join(parts)


# ---- tags


M2O = {"fr_en": [("un", "one")], "de_en": [("ein", "one")]}
O2M = {"en_fr": [("one", "un")], "en_de": [("one", "ein")]}
M2M = {"en_fr": [("one", "un")], "de_en": [("ein", "one")]}


@pytest.mark.parametrize(
    ("pairs", "tags", "pair", "encoder", "decoder"),
    [
        (M2O, "paper", "fr-en", "en", None),
        (M2O, "paper", "de-en", "en", None),
        (M2O, "released", "fr-en", "fr", "en"),
        (M2O, "released", "de-en", "de", "en"),
        (O2M, "paper", "en-fr", "fr", None),
        (O2M, "paper", "en-de", "de", None),
        (O2M, "released", "en-fr", "fr", "fr"),
        (O2M, "released", "en-de", "de", "de"),
        (M2M, "released", "en-fr", "fr", "fr"),
        (M2M, "released", "de-en", "en", "en"),
    ],
)
def test_tags(pairs: dict[str, Lines], tags: str, pair: str, encoder: str, decoder: str | None) -> None:
    tokenizer = train_tokenizer(corpus(**pairs), TokenizerConfig(tags=tags))  # type: ignore[arg-type]
    prefix = [] if decoder is None else [tokenizer.tags[decoder]]
    assert tokenizer.encoder_tag(pair) == tokenizer.tags[encoder]
    assert tokenizer.prefix(pair) == prefix
    src, trg = tokenizer.encode_src("one", pair), tokenizer.encode_trg("one", pair)
    assert src[0] == tokenizer.tags[encoder] and src[-1] == EOS
    assert trg == [*prefix, *src[1:]]
    assert tokenizer.decode(trg) == "one"
    assert tokenizer.piece(src[0]) == f"__{encoder}__"


def test_errors_of_encoding(plain: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"fr-en, not 'en-fr'"):
        plain.encode_src("one", "en-fr")
    with pytest.raises(UserError, match="surrogate"):
        plain.encode(["fine", "a\ud800b"], "fr-en", "trg")


def test_decode_drops_specials_and_tags(fallback: Tokenizer) -> None:
    cat = inner(fallback.encode_src("cat", "fr-en"), fallback, "fr-en")
    assert fallback.decode([BOS, fallback.tags["fr"], *cat, PAD, fallback.tags["en"], EOS, PAD]) == "cat"
    first_byte = inner(fallback.encode_src("\u0436", "fr-en"), fallback, "fr-en")[-2]  # of a character of two bytes
    assert fallback.piece(first_byte) == "<0xD0>"
    assert fallback.decode([*cat, first_byte]) == "cat\ufffd"


def test_many_at_a_time_is_one_at_a_time(fallback: Tokenizer) -> None:
    one_by_one = [fallback.encode_src(text, "fr-en") for text in SPITEFUL]
    assert fallback.encode(SPITEFUL, "fr-en", "src") == one_by_one
    for threads in (1, 3):
        ids, lengths = fallback.encode_flat(SPITEFUL, "fr-en", "src", threads)
        assert ids.tolist() == [id_ for one in one_by_one for id_ in one] and lengths.tolist() == list(
            map(len, one_by_one)
        )


# ---- one model per language


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_per_language_models_share_equal_pieces(byte_fallback: bool) -> None:
    text = {
        "fr_en": [("la nation est grande", "the nation is great"), ("le chat", "the cat")],
        "ru_en": [("нация", "the nation"), ("кот dort", "a cat sleeps")],
    }
    config = TokenizerConfig(vocab_size=300, kind="per-language", byte_fallback=byte_fallback)
    tokenizer = train_tokenizer(corpus(**text), config)
    assert sorted(tokenizer.models) == ["en", "fr", "ru"]
    own = {}
    for language, model in tokenizer.models.items():
        sp = spm.SentencePieceProcessor(model_proto=model)
        own[language] = [sp.id_to_piece(i) for i in range(SPECIALS, sp.get_piece_size())]
    union = {piece for pieces in own.values() for piece in pieces}
    assert len(union) < sum(map(len, own.values()))  # some are shared, or the test shows nothing
    assert tokenizer.vocab_size == SPECIALS + len(union) + 3
    names = [tokenizer.piece(i) for i in range(SPECIALS, tokenizer.vocab_size - 3)]
    assert sorted(names) == sorted(union)
    for name, lines in text.items():
        pair = name.replace("_", "-")
        for src, trg in lines:
            sides = [(src, pair[:2], tokenizer.encode_src(src, pair)[1:]), (trg, "en", tokenizer.encode_trg(trg, pair))]
            for line, language, ids in sides:
                assert tokenizer.decode(ids) == line
                assert {tokenizer.piece(i) for i in ids[:-1]} <= set(own[language])
    letters = {piece for piece in own["fr"] if not piece.startswith("<0x")}
    assert not any("к" in piece or "k" in piece for piece in letters)  # French has learnt from French alone


@pytest.mark.parametrize("tags", ["paper", "released"])
def test_flat_ids_are_the_same_ids(tags: Literal["paper", "released"]) -> None:
    tokenizer = train_tokenizer(corpus(fr_en=FRENCH, de_en=FRENCH), TokenizerConfig(vocab_size=200, tags=tags))
    texts = ["le chat dort", "", "\u0436", "le"]
    for side in ("src", "trg"):
        ids, lengths = tokenizer.encode_flat(texts, "de-en", side, threads=2)
        lists = tokenizer.encode(texts, "de-en", side)
        assert ids.tolist() == [i for sentence in lists for i in sentence]
        assert lengths.tolist() == [len(sentence) for sentence in lists]
    ids, lengths = tokenizer.encode_flat([], "de-en", "src")
    assert (ids.tolist(), lengths.tolist()) == ([], [])


# ---- the sample


def test_sample_follows_the_temperature() -> None:
    text = corpus(fr_en=[(f"f{n}", f"e{n}") for n in range(400)], de_en=[(f"d{n}", f"g{n}") for n in range(4)])
    sides = [(text.train["fr-en"], 0), (text.train["de-en"], 0)]

    def counts(tau: float, limit: int) -> tuple[list[int], list[int]]:
        drawn = Counter(module._sample(sides, tau, limit))
        assert set(drawn) <= {f"f{n}" for n in range(400)} | {f"d{n}" for n in range(4)}
        return [n for text, n in drawn.items() if text[0] == "f"], [n for text, n in drawn.items() if text[0] == "d"]

    assert counts(1.0, 1_000) == ([1] * 400, [1] * 4)  # all of it, once
    head, tail = counts(1.0, 101)
    assert (head, tail) == ([1] * 100, [1])  # 100 : 1, without a repetition
    head, tail = counts(float("inf"), 1_000)
    assert sum(head) == sum(tail) == 202 and set(head) == {1} and sorted(tail) == [50, 50, 51, 51]
    head, tail = counts(2.0, 1_000)  # sqrt(400) : sqrt(4) = 10 : 1 of 404
    assert (sum(head), sum(tail)) == (367, 37)
    assert sum(map(sum, counts(0.001, 1_000))) == 405  # no overflow; the tail keeps one sentence


@pytest.mark.parametrize("block", [3, 10, 1000])
def test_a_sample_drawn_by_blocks_takes_every_pair_equally_often(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    text = corpus(fr_en=[(f"f{n}", f"e{n}") for n in range(25)]).train["fr-en"]
    rng, taken = np.random.default_rng(5), Counter()
    for _ in range(1000):
        rows = [int(src[1:]) for src, _ in module._some(text, 10, rng)]
        assert len(rows) == 10 and rows == sorted(set(rows))
        taken.update(rows)
    # 400 expected of each of the 25; the standard deviation of such a count is sqrt(1000 * 0.4 * 0.6) = 15.5.
    assert min(taken.values()) > 400 - 4 * 15.5 and max(taken.values()) < 400 + 4 * 15.5
    assert list(module._some(text, 25, rng)) == list(text)
    assert list(module._some(text, 0, rng)) == []


def test_temperature_gives_a_tail_language_pieces() -> None:
    """Head and tail have disjoint alphabets, so each piece tells whose it is. Both have 120 different words."""

    def words(letters: str) -> list[str]:
        return [a + b + c + d for a in letters[:3] for b in letters for c in letters[:4] for d in letters[:2]]

    head, tail = words("abcde"), words("vwxyz")
    pick = [((7 * n) % 120, (31 * n + 5) % 120) for n in range(2000)]
    text = corpus(
        aa_en=[(f"{head[i]} {head[j]}", f"1{n}") for n, (i, j) in enumerate(pick)],
        bb_en=[(f"{tail[i]} {tail[j]}", f"2{n}") for n, (i, j) in enumerate(pick[:60])],
    )

    def tail_pieces(tau: float) -> int:
        tokenizer = train_tokenizer(text, TokenizerConfig(vocab_size=150, tau=tau))
        return sum(len(set(tokenizer.piece(i)) & set("vwxyz")) > 1 for i in range(tokenizer.vocab_size - 3))

    assert tail_pieces(5.0) > 2 * tail_pieces(1.0)


# ---- training


SCRIPT = """
from tests.library.test_tokenizer import digest_of_a_trained_model
print(digest_of_a_trained_model())
"""


def digest_of_a_trained_model() -> str:
    """Return the digest after a training that fails, which must also print nothing."""
    text = corpus(de_en=[(f"das ist satz nummer {n}", f"this is sentence number {n}") for n in range(200)])
    with pytest.raises(UserError):
        train_tokenizer(text, TokenizerConfig(vocab_size=16))
    return sha256(train_tokenizer(text, TokenizerConfig(vocab_size=50)).models["joint"]).hexdigest()


@pytest.mark.slow
def test_same_bytes_in_another_process_and_not_a_word_on_stderr() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}  # another order of its sets
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == digest_of_a_trained_model() + "\n"


def test_same_bytes_for_the_same_corpus_and_config() -> None:
    text = [(f"das ist satz nummer {n}", f"this is sentence number {n}") for n in range(100)]
    config = TokenizerConfig(vocab_size=90, max_sentences=120)  # a sample, which must be the same, too
    first, again = (train_tokenizer(corpus(de_en=text), config) for _ in range(2))
    assert first.models == again.models and first.fingerprint == again.fingerprint
    assert first.origin["sha256"] == corpus(de_en=text).fingerprint
    others = [
        train_tokenizer(corpus(de_en=text[:-1]), config),
        train_tokenizer(corpus(de_en=text), replace(config, vocab_size=80)),
        train_tokenizer(corpus(de_en=text), replace(config, tags="released")),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 4


@pytest.mark.parametrize(
    "lines", [[("a", "b")], [("\u2581", "\u2585")], [("日", "."), ("本", "!")], [("a a a a", "a")]]
)
@pytest.mark.parametrize("kind", ["joint", "per-language"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_a_few_sentences_are_enough(lines: Lines, kind: str, byte_fallback: bool) -> None:
    config = TokenizerConfig(kind=kind, byte_fallback=byte_fallback, vocab_size=10_000)  # type: ignore[arg-type]
    tokenizer = train_tokenizer(corpus(xx_en=lines), config)
    assert tokenizer.vocab_size < 300 + 256 * byte_fallback  # it takes what there is
    for src, trg in lines:
        assert tokenizer.decode(tokenizer.encode_src(src, "xx-en")) == src
        assert tokenizer.decode(tokenizer.encode_trg(trg, "xx-en")) == trg


@pytest.mark.parametrize(("byte_fallback", "vocab_size"), [(False, 20), (True, 290)])
def test_too_small_a_vocabulary_names_the_smallest(byte_fallback: bool, vocab_size: int) -> None:
    text = corpus(zh_en=[(chr(0x4E00 + n), chr(0x5E00 + n)) for n in range(40)])

    def config(size: int) -> TokenizerConfig:
        return TokenizerConfig(vocab_size=size, byte_fallback=byte_fallback)

    with pytest.raises(UserError, match=f"vocab_size={vocab_size} is too small .* at least") as error:
        train_tokenizer(text, config(vocab_size))
    smallest = int(re.findall(r"at least (\d+)", str(error.value))[0])
    train_tokenizer(text, config(smallest))
    with pytest.raises(UserError, match="too small"):
        train_tokenizer(text, config(smallest - 1))


def test_a_vocabulary_that_the_text_cannot_fill_is_said() -> None:
    text = corpus(zh_en=[(chr(0x4E00 + n), chr(0x5E00 + n)) for n in range(40)])
    with pytest.warns(UserWarning, match=r"the joint tokenizer has (\d+) pieces, not 2,000") as said:
        found = train_tokenizer(text, TokenizerConfig(vocab_size=2_000))
    pieces = int(re.findall(r"has (\d+)", str(said[0].message))[0])
    assert found.vocab_size - len(found.tags) - SPECIALS <= pieces < 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_tokenizer(text, TokenizerConfig(vocab_size=pieces))


def test_byte_fallback_in_the_config() -> None:
    assert {name: preset.tokenizer.byte_fallback for name, preset in PRESETS.items()} == {
        "toy": False, "small": True, "ted8": True, "wmt6": True,
    }  # fmt: skip
    with pytest.raises(UserError, match="256 pieces are bytes"):
        TokenizerConfig(vocab_size=271, byte_fallback=True)


# ---- on disk


@pytest.mark.parametrize("kind", ["joint", "per-language"])
def test_save_and_load(kind: str, tmp_path: Path) -> None:
    config = TokenizerConfig(vocab_size=300, kind=kind, tags="released")  # type: ignore[arg-type]
    tokenizer = train_tokenizer(corpus(fr_en=FRENCH, de_en=[("Katze", "cat")]), config)
    folder = tmp_path / "new" / "tokenizer"
    tokenizer.save(folder)
    tokenizer.save(folder)  # over itself
    loaded = Tokenizer.load(folder)
    for name in ("config", "pairs", "models", "origin", "languages", "tags", "vocab_size", "fingerprint"):
        assert getattr(loaded, name) == getattr(tokenizer, name), name
    ids = range(tokenizer.vocab_size)
    assert [loaded.piece(i) for i in ids] == [tokenizer.piece(i) for i in ids]
    for text in SPITEFUL:
        assert loaded.encode_src(text, "de-en") == tokenizer.encode_src(text, "de-en")
        assert loaded.encode_trg(text, "fr-en") == tokenizer.encode_trg(text, "fr-en")
    assert sorted(p.suffix for p in folder.iterdir()) == [".json", *[".spm"] * len(tokenizer.models)]  # and no .tmp


def damage_json(folder: Path, **changes: object) -> None:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def cut_model(folder: Path, honest: bool) -> None:
    """Cut the model; with `honest`, also store the hash of the rest, as if the model had been saved like this."""
    file = folder / "joint.spm"
    file.write_bytes(file.read_bytes()[:200])
    if honest:
        damage_json(folder, models={"joint": sha256(file.read_bytes()).hexdigest()})


def other_model(folder: Path) -> None:
    """A sound model of another tokenizer in the place of ours."""
    other = train_tokenizer(corpus(fr_en=[("a", "b")]), TokenizerConfig())
    (folder / "joint.spm").write_bytes(other.models["joint"])


def change_a_piece(folder: Path) -> None:
    """A sound model with as many pieces as ours, but other pieces: the ids would have other meanings."""
    file = folder / "joint.spm"
    sp = spm.SentencePieceProcessor(model_file=str(file))
    piece = max((sp.id_to_piece(i) for i in range(SPECIALS, len(sp))), key=len).encode()
    file.write_bytes(file.read_bytes().replace(piece, piece[:-1] + b"#", 1))
    assert len(spm.SentencePieceProcessor(model_file=str(file))) == len(sp)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "tokenizer.json").unlink(),
        lambda folder: (folder / "tokenizer.json").write_bytes(b'{"config": {'),
        lambda folder: (folder / "tokenizer.json").write_bytes(b"[1, 2]"),
        lambda folder: (folder / "tokenizer.json").write_bytes(b"\xff\xfe"),
        lambda folder: (folder / "joint.spm").unlink(),
        lambda folder: (folder / "joint.spm").write_bytes(b""),
        lambda folder: cut_model(folder, honest=False),
        lambda folder: cut_model(folder, honest=True),
        lambda folder: damage_json(folder, config={"vocab_size": 3}),
        lambda folder: damage_json(folder, config={"no_such_field": 3}),
        lambda folder: damage_json(folder, models=["joint"]),
        lambda folder: damage_json(folder, vocab_size=7),
        other_model,
        change_a_piece,
    ],
)
def test_a_damaged_directory_is_a_user_error(plain: Tokenizer, damage: object, tmp_path: Path) -> None:
    folder = tmp_path / "tokenizer"
    plain.save(folder)
    Tokenizer.load(folder)
    damage(folder)  # type: ignore[operator]
    with pytest.raises(UserError, match=re.escape(str(folder))):
        Tokenizer.load(folder)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no readable tokenizer"):
        Tokenizer.load(tmp_path / "nothing")
