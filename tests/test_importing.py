"""A Marian checkpoint as it lies on the hub: the same pieces, logits and translations with our ids, and students of it.

The checkpoint is made here, of Hugging Face's own classes: random weights with an output bias, sentencepiece models
trained as Marian's are, and a vocab.json in another order that lacks some pieces.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from pmd_lite import __main__ as command_line
from pmd_lite.api import load_corpus, train
from pmd_lite.compare import compare
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from pmd_lite.errors import UserError
from pmd_lite.estimate import estimate
from pmd_lite.importing import NEVER, RARELY, Imported, import_marian
from pmd_lite.launching import launch
from pmd_lite.model.decoding import translate_batch
from pmd_lite.presets import preset
from pmd_lite.run import Run

transformers = pytest.importorskip("transformers", reason="not installed: pip install -r requirements-export.txt")

SIZES: dict[str, Any] = {
    "d_model": 24, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 80,
}  # fmt: skip
WORLD: dict[str, Any] = {"head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3}
QUICK: dict[str, Any] = {"steps": 4, "tokens": 300, "eval_every": 2, "lr": 1e-9, "beam": 1, "max_len": 80}


def texts(corpus: Corpus, side: int) -> list[str]:
    return [line[side] for text in corpus.train.values() for line in text]


def spm(lines: list[str], size: int) -> bytes:
    """A sentencepiece model with Marian's settings: no pad, and UNK, BOS and EOS are 0, 1 and 2."""
    from io import BytesIO

    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, hard_vocab_limit=False, minloglevel=3
    )
    return model.getvalue()


def checkpoint(
    folder: Path, corpus: Corpus, codes: tuple[str, ...] = (), share: bool = True, bias: bool = True
) -> Path:  # fmt: skip
    """A directory with what an opus-mt's has."""
    folder.mkdir()
    pieces: set[str] = set()
    for side, name in enumerate(("source", "target")):
        model = spm(texts(corpus, side), 100)
        (folder / f"{name}.spm").write_bytes(model)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {sp.id_to_piece(i) for i in range(3, sp.get_piece_size())}
    shuffled = random.Random(3).sample(sorted(pieces), len(pieces))
    listed = ["</s>", "<unk>", *shuffled[5:], *(f">>{code}<<" for code in codes), "<pad>"]  # 5 pieces are not there
    names = {name: i for i, name in enumerate(listed)}
    (folder / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    words = {"source_lang": "x", "target_lang": "y", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words), encoding="utf-8")
    config = transformers.MarianConfig(
        vocab_size=len(names), activation_function="swish", dropout=0.1, scale_embedding=True,
        share_encoder_decoder_embeddings=share, tie_word_embeddings=True, forced_eos_token_id=None,
        pad_token_id=names["<pad>"], eos_token_id=0, bos_token_id=0, decoder_start_token_id=names["<pad>"], **SIZES,
    )  # fmt: skip
    torch.manual_seed(0)
    marian = transformers.MarianMTModel(config).eval()
    for name, parameter in marian.named_parameters():
        if "embed_positions" not in name:
            torch.nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.4)
    with torch.no_grad():
        for table in (marian.model.encoder.embed_tokens, marian.model.decoder.embed_tokens):
            table.weight[names["<pad>"]] = 0.0  # so it is in those that were converted from Marian
        last = marian.model.decoder.layers[-1].final_layer_norm
        last.bias.copy_(2.8 * marian.lm_head.weight[0])  # else hardly any translation would end
    if bias:
        torch.nn.init.normal_(marian.final_logits_bias, std=0.4)
        # After conversion PAD has a logit of 0. Nothing keeps that from being far above all others.
        marian.final_logits_bias -= 20.0
        marian.final_logits_bias[0, names["<pad>"]] = 0.0
    marian.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def corpus(tiny_corpus: Corpus) -> Corpus:
    return tiny_corpus.only(list(tiny_corpus.pairs)[:3])


@pytest.fixture(scope="module")
def one_target(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("marian") / "opus", corpus)


@pytest.fixture(scope="module")
def imported(one_target: Path, corpus: Corpus) -> Imported:
    return import_marian(one_target, one_target.parent / "imported", corpus.pairs)


def their_names(tokenizer: Any, ids: list[int]) -> list[str]:
    return [str(name) for name in tokenizer.convert_ids_to_tokens(ids)]


def our_names(tokenizer: Tokenizer, ids: list[int], known: set[str]) -> list[str]:
    """What the checkpoint does not know counts as UNK, which it is to the checkpoint."""
    return [name if (name := tokenizer.piece(i)) in known else "<unk>" for i in ids]


def test_the_same_pieces_as_marians_own_tokenizer(one_target: Path, imported: Imported, corpus: Corpus) -> None:
    theirs, ours, pair = transformers.AutoTokenizer.from_pretrained(one_target), imported.tokenizer, corpus.pairs[1]
    known, unknown = set(json.loads((one_target / "vocab.json").read_text(encoding="utf-8"))), 0
    for side, name in enumerate(("source", "target")):
        lines = [*texts(corpus, side)[:60], "\u4e2d unseen \u00e9", "  spaces  "]
        sp = sentencepiece.SentencePieceProcessor(model_file=str(one_target / f"{name}.spm"))
        own_pieces = {sp.id_to_piece(i) for i in range(sp.get_piece_size())}
        batch = theirs(lines) if side == 0 else theirs(text_target=lines)
        found = ours.encode(lines, pair, "src" if side == 0 else "trg")
        for ids, own in zip(batch["input_ids"], found, strict=True):
            names = our_names(ours, own[1 - side :], known)  # a source has its tag
            # A character that this side's model lacks is UNK, also where it is a piece of the other side's.
            assert names == [name if name in own_pieces else "<unk>" for name in their_names(theirs, ids)]
            unknown += names.count("<unk>")
    assert unknown > 5, "the example needs pieces that vocab.json does not list"


def rows_of(imported: Imported, folder: Path) -> tuple[list[int], list[int]]:
    """Of each name in vocab.json that we have too: (our id, their id)."""
    names = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    tokenizer = imported.tokenizer
    ours = {tokenizer.piece(i): i for i in range(tokenizer.vocab_size)}
    shared = [name for name in names if name in ours]
    assert len(shared) >= len(names) - 3
    return [ours[name] for name in shared], [names[name] for name in shared]


@pytest.mark.parametrize(("share", "bias"), [(True, True), (False, True), (True, False)])
def test_the_same_logits_for_every_id_that_both_have(share: bool, bias: bool, corpus: Corpus, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "opus", corpus, share=share, bias=bias)
    marian = transformers.MarianMTModel.from_pretrained(folder)
    if not bias:  # as most of the hub's lie there: a pickle, which is read as tensors alone
        torch.save(marian.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    found = import_marian(folder, tmp_path / "out", corpus.pairs)
    model = found.model()
    ours, theirs = rows_of(found, folder)
    there = dict(zip(ours, theirs, strict=True))
    compared = [(a, b) for a, b in there.items() if a != PAD]  # which none of ours may predict
    ids = [i for i in ours if i not in (PAD, EOS)]
    src, trg = (torch.tensor(random.Random(seed).choices(ids, k=24)).view(3, 8) for seed in (1, 2))
    src[1, 5:], trg[:, 0] = PAD, BOS
    start = marian.config.decoder_start_token_id
    their_src = src.clone().apply_(lambda i: there[i])
    their_trg = trg.clone().apply_(lambda i: start if i == BOS else there[i])
    with torch.no_grad():
        expected = marian(input_ids=their_src, attention_mask=src.ne(PAD), decoder_input_ids=their_trg).logits
        logits = model(src, trg)
    assert expected.std(dim=(0, 1)).max() > 1
    ours, theirs = ([pair[side] for pair in compared] for side in (0, 1))
    torch.testing.assert_close(logits[..., ours], expected[..., theirs], atol=1e-5, rtol=1e-5)
    everything_else = torch.ones(model.vocab_size, dtype=torch.bool).index_fill_(0, torch.tensor(ours), False)
    assert logits.softmax(-1)[..., everything_else].sum(-1).max() < 1e-3, "what nobody predicts takes no probability"
    assert not bias or expected.softmax(-1)[..., marian.config.pad_token_id].mean() > 0.8


def test_what_the_checkpoint_never_predicted_starts_out_of_reach(one_target: Path, imported: Imported) -> None:
    model, tokenizer = imported.model(), imported.tokenizer
    names = json.loads((one_target / "vocab.json").read_text(encoding="utf-8"))
    missing = [i for i in range(EOS + 1, tokenizer.vocab_size) if tokenizer.piece(i) not in names]
    tags = list(tokenizer.tags.values())
    pieces = sorted(set(missing) - set(tags))
    assert len(pieces) == 5
    table, bias = model.embedding.weight.detach(), model.output_bias.detach()  # type: ignore[union-attr]
    for i, like, least in [*((i, PAD, NEVER) for i in (PAD, BOS, *tags)), *((i, UNK, bias[UNK]) for i in pieces)]:
        assert torch.equal(table[i], table[like])
        assert bias[i].item() == pytest.approx(float(least) - (RARELY if like == UNK else 0))


def test_a_checkpoint_for_several_targets_translates_as_marian_does(corpus: Corpus, tmp_path: Path) -> None:
    """With its codes (>>aaa<<) as our tags, all of the way from text to text is the checkpoint's."""
    turned = corpus.reversed()
    targets = [pair.split("-")[1] for pair in turned.pairs]
    codes = {language: f"{language}_X" for language in targets}
    folder = checkpoint(tmp_path / "opus", turned, codes=tuple(codes.values()))
    said = {language: f">>{code}<<" for language, code in codes.items()}  # as it stands in vocab.json
    found = import_marian(folder, tmp_path / "out", turned.pairs, said)
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), found.model()
    marian = transformers.MarianMTModel.from_pretrained(folder)
    known, ends = set(json.loads((folder / "vocab.json").read_text(encoding="utf-8"))), 0
    seen = set()
    for pair, language in zip(turned.pairs, targets, strict=True):
        lines = [src for src, _ in turned.train[pair][:12]]
        batch = tokenizer([f">>{codes[language]}<< {line}" for line in lines], return_tensors="pt", padding=True)
        generated = marian.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=13, bad_words_ids=[
            [marian.config.pad_token_id], [tokenizer.unk_token_id], *([tokenizer.convert_tokens_to_ids(f">>{c}<<")]
                                                                      for c in codes.values())])  # fmt: skip
        sources = found.tokenizer.encode(lines, pair, "src")
        src = torch.full((len(sources), max(map(len, sources))), PAD)
        for row, ids in enumerate(sources):
            src[row, : len(ids)] = torch.tensor(ids)
        never = [UNK, *found.tokenizer.tags.values()]
        never += [i for i in range(EOS + 1, found.tokenizer.vocab_size) if found.tokenizer.piece(i) not in known]
        ours = translate_batch(model, src, beam=1, max_len=12, bos=BOS, eos=EOS, pad=PAD, banned=sorted(set(never)))
        for row, hypothesis in zip(generated.tolist(), ours, strict=True):
            names = their_names(tokenizer, row[1:])
            ended = "</s>" in names
            names = names[: names.index("</s>")] if ended else names[:12]
            assert our_names(found.tokenizer, hypothesis.tokens, known) == names
            ends += ended
            seen.add(tuple(names))
    assert len(seen) > 5
    assert ends > 3


# ------------------------------------------------------------------------------------------------------ training


def test_students_start_from_the_checkpoint(imported: Imported, corpus: Corpus, tmp_path: Path) -> None:
    """At a learning rate of almost nothing they stay what they were."""
    run = train(corpus, "auto-pmd", "toy", out=tmp_path / "run", init=imported.path, show="off", score=False, **QUICK)
    assert run.tokenizer.fingerprint == imported.tokenizer.fingerprint
    assert (run.config.model.activation, run.config.model.norm, run.config.model.d_model) == ("swish", "post", 24)
    assert run.config.tokenizer == imported.tokenizer.config
    start = imported.model().state_dict()
    for student in (0, 1):
        for name, tensor in run.model(student, "latest").state_dict().items():
            torch.testing.assert_close(tensor, start[name], atol=1e-7, rtol=0)
    assert len(run.translate(["a b", "c"], corpus.pairs[0])) == 2


def test_an_interrupted_run_goes_on_from_its_checkpoint_and_not_from_the_start(
    imported: Imported, corpus: Corpus, tmp_path: Path
) -> None:
    from tests.conftest import stopped_at

    words: dict[str, Any] = {"init": imported.path, "show": "off", "score": False, **QUICK, "lr": 1e-3}
    whole = train(corpus, "bi-pmd", "toy", out=tmp_path / "whole", **words)
    with stopped_at(3):
        train(corpus, "bi-pmd", "toy", out=tmp_path / "cut", **words)
    moved = tmp_path / "elsewhere"
    shutil.copytree(imported.path, moved)
    cut = train(corpus, "bi-pmd", "toy", out=tmp_path / "cut", **{**words, "init": moved})
    for student in (0, 1):
        one, other = (run.model(student, "latest").state_dict() for run in (whole, cut))
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_another_start_is_another_run(imported: Imported, corpus: Corpus, one_target: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"show": "off", "score": False, "out": tmp_path / "run", **QUICK}
    train(corpus, "tau=1", "toy", init=imported.path, **words)
    other = checkpoint(tmp_path / "opus", corpus, bias=False)
    different = import_marian(other, tmp_path / "out", corpus.pairs)
    with pytest.raises(UserError, match=r"holds another: init\.sha256 differ"):
        train(corpus, "tau=1", "toy", init=different.path, **words)
    with pytest.raises(UserError, match="holds another"):
        train(corpus, "tau=1", "toy", **words)
    with pytest.raises(UserError, match=r"holds another: .*init differ"):
        shape = {name: value for name, value in json.loads(
            (imported.path / "imported.json").read_text(encoding="utf-8"))["model"].items()
            if name not in ("dropout", "attention_dropout", "max_len")}  # fmt: skip
        train(corpus, "tau=1", "toy", tokenizer=imported.path / "tokenizer", **{**words, **shape})


def test_runs_from_before_there_was_an_init_go_on(corpus: Corpus, tmp_path: Path) -> None:
    words: dict[str, Any] = {"show": "off", "score": False, "out": tmp_path / "run", **QUICK, "vocab_size": 90}
    train(corpus, "tau=1", "toy", **words)
    file = tmp_path / "run" / "config.json"
    about = json.loads(file.read_text(encoding="utf-8"))
    assert about.pop("init") is None
    for name in ("activation", "output_bias"):
        about["config"]["model"].pop(name)
    file.write_text(json.dumps(about), encoding="utf-8")
    assert train(corpus, "tau=1", "toy", **words).dir.finished


def test_every_process_starts_from_it(tmp_path: Path) -> None:
    corpus = load_corpus("toy", **WORLD)
    found = import_marian(checkpoint(tmp_path / "opus", corpus), tmp_path / "start", corpus.pairs)
    config = preset("toy", **{**QUICK, "accumulate": 2, "lr": 1e-3})
    words: dict[str, Any] = {"init": found.path, "show": "off", "score": False}
    two = launch("toy", "bi-pmd", config, processes=2, corpus_options=WORLD, out=tmp_path / "two", **words)
    one = train(corpus, "bi-pmd", config, out=tmp_path / "one", **words)
    for student in (0, 1):
        weights = one.model(student, "latest").state_dict()
        for name, x in two.model(student, "latest").state_dict().items():
            torch.testing.assert_close(x, weights[name], atol=1e-5, rtol=1e-4)


def test_an_estimate_is_of_the_imported_network(imported: Imported, corpus: Corpus) -> None:
    found = estimate(corpus, "bi-pmd", "toy", init=imported.path, tokens_per_second=1000.0)
    model = imported.model()
    assert found.config.model.d_model == 24
    assert found.disk["best weights"] == 2 * 4 * model.parameter_count()
    with pytest.raises(UserError, match="give a corpus instead of sizes"):
        estimate(init=imported.path, sizes={"fr-en": 1000})


def test_a_comparison_starts_all_its_runs_from_it(tmp_path: Path) -> None:
    corpus = load_corpus("toy", **WORLD)
    found = import_marian(checkpoint(tmp_path / "opus", corpus), tmp_path / "start", corpus.pairs)
    words: dict[str, Any] = {"out": tmp_path / "out", "init": found.path, "show": False, "corpus_options": WORLD}
    compare("toy", ["tau=1", "chi-ibr"], [1], "toy", workers=1, **words, **{**QUICK, "steps": 40, "eval_every": 40})
    start, runs = found.model().state_dict(), sorted((tmp_path / "out" / "runs").iterdir())
    assert len(runs) == 2
    for run in map(Run, runs):
        assert run.scores
        for name, x in run.model(0, "latest").state_dict().items():
            torch.testing.assert_close(x, start[name], atol=1e-7, rtol=0)
    with pytest.raises(UserError, match="d_model: the checkpoint of init"):
        compare("toy", ["tau=1 d_model=32"], [1], "toy", **words)
    with pytest.raises(UserError, match="d_model, heads: the checkpoint of init"):
        train(corpus, "tau=1", "toy", out=tmp_path / "run", init=found.path, heads=2, d_model=16)


def test_runs_that_a_method_needs_start_from_it_too(imported: Imported, corpus: Corpus, tmp_path: Path) -> None:
    run = train(corpus, "chi-ibr", "toy", out=tmp_path / "run", init=imported.path, show="off", score=False,
                **{**QUICK, "steps": 12})  # fmt: skip
    (plain,) = run.auxiliary
    start = imported.model().state_dict()
    assert all(torch.allclose(x, start[name], atol=1e-7) for name, x in plain.model(0, "latest").state_dict().items())


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.fixture
def copy(one_target: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "copy"
    shutil.copytree(one_target, folder)
    yield folder
    assert {path.name for path in tmp_path.iterdir()} <= {"copy"}, "a refusal leaves nothing behind"


def test_what_is_no_checkpoint_is_refused_by_name(copy: Path, corpus: Corpus) -> None:
    out = copy.parent / "out"

    def refused(message: str, pairs: Any = corpus.pairs, codes: Any = None) -> None:
        with pytest.raises(UserError, match=message):
            import_marian(copy, out, pairs, codes)

    refused("name the pairs", pairs=[])
    refused("name the pairs", pairs=["fr"])
    refused("name the pairs", pairs=["a/b-en"])
    refused("en on both sides", pairs=["fr-en", "en-de"])
    refused("codes for xx, but the target languages are eng", codes={"xx": "y"})
    refused("no target language 'y'; it has one, unnamed", codes={"eng": "y"})
    (copy / "target_vocab.json").write_text("{}", encoding="utf-8")
    refused("a vocabulary for each side")
    (copy / "target_vocab.json").unlink()
    names = json.loads((copy / "vocab.json").read_text(encoding="utf-8"))
    for bad in ("[1", "[]", json.dumps({"a": 1}), json.dumps({**names, "a": "b"})):
        (copy / "vocab.json").write_text(bad, encoding="utf-8")
        refused("vocab.json is no vocabulary of Marian")
    (copy / "vocab.json").write_text(json.dumps({**names, "more": len(names)}), encoding="utf-8")
    refused("ids up to .* do not belong together")
    (copy / "vocab.json").write_text(json.dumps(dict.fromkeys(names, 0)), encoding="utf-8")
    refused("ids up to 0, .* do not belong together")
    strange = {name if name[0] in "<>" else f"{name}{i}": i for name, i in names.items()}
    (copy / "vocab.json").write_text(json.dumps(strange), encoding="utf-8")
    refused("vocab.json lists 0 of the .* do not belong together")
    (copy / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    refused("transformers cannot load a model from it")
    weights.unlink()
    for bad in ({"model.shared.weight": Path(copy / "touched")}, [1]):  # the first is a pickle with a call in it
        torch.save(bad, copy / "pytorch_model.bin")
        refused("transformers cannot load a model from it")
    (copy / "pytorch_model.bin").write_bytes(b"")
    refused("transformers cannot load a model from it")
    for bad_model in (b"nothing of the kind", b""):
        (copy / "source.spm").write_bytes(bad_model)
        refused("source.spm or target.spm is no sentencepiece model")
    (copy / "source.spm").unlink()
    refused("it lacks source.spm")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eos_token_id": 10**6}, "eos_token_id is 1000000, no id of"),
        ({"pad_token_id": None}, "pad_token_id|transformers cannot load"),
        ({"decoder_start_token_id": None}, "decoder_start_token_id"),
        ({"d_model": "wide"}, "transformers cannot load"),
        ({"encoder_layers": 2}, "missing: model.encoder.layers.1"),
        ({"decoder_layers": 1}, "unexpected: model.decoder.layers.1"),
    ],
)
def test_a_configuration_that_does_not_fit_its_weights_is_refused(
    changes: dict[str, Any], message: str, copy: Path, corpus: Corpus
) -> None:
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        import_marian(copy, copy.parent / "out", corpus.pairs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_checkpoint_in_half_precision_is_read_in_full(dtype: torch.dtype, one_target: Path, corpus: Corpus,
                                                        tmp_path: Path) -> None:  # fmt: skip
    folder = tmp_path / "half"
    shutil.copytree(one_target, folder)
    transformers.MarianMTModel.from_pretrained(one_target).to(dtype).save_pretrained(folder)
    model = import_marian(folder, tmp_path / "out", corpus.pairs).model()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_target_without_a_code_is_asked_for(corpus: Corpus, tmp_path: Path) -> None:
    turned = corpus.reversed()
    folder = checkpoint(tmp_path / "opus", turned, codes=("fra_Latn", "deu_Latn"))
    with pytest.raises(UserError, match=re.escape("it has deu_Latn, fra_Latn. Name the one that")):
        import_marian(folder, tmp_path / "out", turned.pairs)


def test_an_import_that_does_not_fit_is_refused(imported: Imported, corpus: Corpus, tmp_path: Path) -> None:
    words: dict[str, Any] = {"show": "off", "score": False, **QUICK}
    with pytest.raises(UserError, match="holds no imported model"):
        train(corpus, "tau=1", "toy", out=tmp_path / "a", init=tmp_path, **words)
    few = replaced(imported, tmp_path / "few", corpus.pairs[1:])
    with pytest.raises(UserError, match=f"was imported for .*, not for {corpus.pairs[0]}"):
        train(corpus, "tau=1", "toy", out=tmp_path / "b", init=few, **words)
    assert not (tmp_path / "b").exists(), "a correct one may follow"
    plain = train(corpus, "tau=1", "toy", out=tmp_path / "c", vocab_size=90, **words)
    with pytest.raises(UserError, match=r"leave out tokenizer="):
        train(corpus, "tau=1", "toy", out=tmp_path / "d", init=imported.path, tokenizer=plain.path / "tokenizer",
              **words)  # fmt: skip
    damaged = tmp_path / "damaged"
    shutil.copytree(imported.path, damaged)
    data = bytearray((damaged / "model.safetensors").read_bytes())
    data[-5] ^= 1
    (damaged / "model.safetensors").write_bytes(bytes(data))
    with pytest.raises(UserError, match="weights are damaged"):
        train(corpus, "tau=1", "toy", out=tmp_path / "e", init=damaged, **words)
    (damaged / "imported.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"imported\.json is damaged"):
        Imported(damaged)
    with pytest.raises(UserError, match=r"tokenizer\.tags, vocab_size: the checkpoint"):
        train(corpus, "tau=1", "toy", out=tmp_path / "f", init=imported.path, vocab_size=90,
              **{"tokenizer.tags": "paper"})  # fmt: skip
    with pytest.raises(UserError, match=r"is of no use here.*from the same start"):
        train(corpus, "chi-ibr", "toy", out=tmp_path / "g", init=imported.path, use=[plain.path], **words)


def replaced(imported: Imported, out: Path, pairs: Any) -> Path:
    """The same import with a tokenizer for other pairs."""
    shutil.copytree(imported.path, out)
    shutil.rmtree(out / "tokenizer")
    one = imported.tokenizer
    Tokenizer(one.config, pairs, one.models, one.origin).save(out / "tokenizer")
    return out


def test_the_command_line_imports_and_trains(
    one_target: Path, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    words = ["import", str(one_target), "--out", str(out), "--pairs", *corpus.pairs]
    assert command_line.main(words) == 0
    assert "Train from it" in capsys.readouterr().out
    assert command_line.main(words) == 2
    assert "exists" in capsys.readouterr().err
    asked: dict[str, Any] = {}
    monkeypatch.setattr(command_line.api, "train", lambda *args, **kwargs: asked.update(kwargs) or stop())
    assert command_line.main(["train", "--init", str(out), "--dropout", "0.3"]) == 2
    assert asked["init"] == out
    asked.clear()
    assert command_line.main(["train", "--init", str(out), "--d-model", "32"]) == 2
    assert "model.d_model: the checkpoint" in capsys.readouterr().err
    assert not asked


def stop() -> None:
    raise UserError("far enough")
