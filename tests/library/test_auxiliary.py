"""What a method takes from other runs: which runs, how long, found or trained, and what is read from them."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pmd_lite as pmd
from pmd_lite import auxiliary
from pmd_lite.data.batching import round_of
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.errors import UserError
from pmd_lite.methods import get_method
from pmd_lite.run import Run
from pmd_lite.training.cost import per_token
from pmd_lite.training.rundir import RunDir
from tests.conftest import SHORT, stopped_at

# Three pairs have epochs of 15 updates, after which chi-ibr decides; between two evaluations every pair is drawn.
QUICK: dict[str, Any] = {**SHORT, "steps": 32, "eval_every": 16, "update_every": 16}


def train(corpus: Corpus, method: str, out: Path, **words: Any) -> Run:
    return pmd.train(corpus, method, "toy", out=out, show="off", **{"score": False, **QUICK, **words})


@pytest.fixture(scope="module")
def tiny_encoded(tiny_corpus: Corpus) -> EncodedCorpus:
    """All six pairs, as the runs below would read them."""
    config = pmd.preset("toy", **QUICK)
    return encode_corpus(tiny_corpus, train_tokenizer(tiny_corpus, config.tokenizer), config.model.max_len)


@pytest.fixture(scope="module")
def plain(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(three_pairs, "tau=1", tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def auto(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(three_pairs, "auto-pmd", tmp_path_factory.mktemp("auto") / "run")


# ---------------------------------------------------------------- which runs


def test_a_bilingual_run_makes_as_many_passes_over_its_data_but_at_least_a_tenth_of_the_updates(
    tiny_corpus: Corpus, tiny_encoded: EncodedCorpus
) -> None:
    config = pmd.preset("toy", **{**QUICK, "steps": 400, "warmup": 40, "eval_every": 100})
    runs = auxiliary.bilingual(tiny_corpus, config, tiny_encoded)
    assert [want.corpus.pairs for want in runs] == [(pair,) for pair in tiny_corpus.pairs]
    batches = [round_of(split, QUICK["tokens"]).batches_per_pass for split in tiny_encoded.train]
    for want, own in zip(runs, batches, strict=True):
        steps = want.config.train.steps
        share = own / sum(batches)
        assert steps == pytest.approx(max(40, 400 * share), rel=0.35)  # epochs are whole updates, few of them here
        assert steps >= 40
        assert want.config.optim.warmup == pytest.approx(40 * steps / 400, abs=1)
        assert want.config.train.eval_every == pytest.approx(100 * steps / 400, abs=1)
        assert (want.config.model, want.config.train.epochs) == (config.model, 0.0)
    assert runs[0].config.train.steps > runs[-1].config.train.steps == 40


def test_a_length_in_epochs_gives_bilingual_runs_the_same_number_of_them(
    tiny_corpus: Corpus, tiny_encoded: EncodedCorpus
) -> None:
    by_epochs = pmd.preset("toy", **{**QUICK, "epochs": 20.0})
    epoch = math.ceil(sum(round_of(split, QUICK["tokens"]).batches_per_pass for split in tiny_encoded.train))
    by_steps = pmd.preset("toy", **{**QUICK, "steps": 20 * epoch})
    lengths = [[want.config.train.steps for want in auxiliary.bilingual(tiny_corpus, config, tiny_encoded)]
               for config in (by_epochs, by_steps)]  # fmt: skip
    assert lengths[0] == lengths[1]


def test_pieces_are_counted_on_the_side_that_tells_the_pairs_apart(tiny_encoded: EncodedCorpus) -> None:
    counts = auxiliary._piece_counts(tiny_encoded)
    for found, split in zip(counts, tiny_encoded.train, strict=True):
        by_hand = Counter(int(token) for i in range(len(split)) for token in split.src[i])
        assert found == dict(by_hand)
    turned = replace(
        tiny_encoded, pairs=tuple("-".join(reversed(pair.split("-"))) for pair in tiny_encoded.pairs),
        train=tuple(replace(split, src=split.trg, trg=split.src) for split in tiny_encoded.train),
    )  # fmt: skip
    assert auxiliary._piece_counts(turned) == counts


# ---------------------------------------------------------------- found, or trained


@pytest.mark.slow
def test_what_is_missing_is_trained_inside_the_run_and_remembered(three_pairs: Corpus, tmp_path: Path) -> None:
    run = train(three_pairs, "chi-ibr", tmp_path / "run")
    (aux,) = run.auxiliary
    assert aux.path == (tmp_path / "run" / "auxiliary" / "plain").resolve()
    assert (aux.method.name, aux.dir.finished) == ("tau=1", True)
    assert not (aux.path / "scores.json").exists(), "its BLEU was not asked for"
    assert aux.config.train == run.config.train


@pytest.mark.slow
def test_a_finished_run_is_used_instead_and_gives_the_same_bits(
    three_pairs: Corpus, plain: Run, tmp_path: Path
) -> None:
    alone, given = (
        train(three_pairs, "chi-ibr", tmp_path / "a"),
        train(three_pairs, "chi-ibr", tmp_path / "b", use=[plain.path]),
    )
    assert not (tmp_path / "b" / "auxiliary").exists()
    assert given.auxiliary[0].path == plain.path.resolve()
    assert alone.evaluations()[-1]["dev_loss"] == given.evaluations()[-1]["dev_loss"]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_the_runs_it_began_with(
    three_pairs: Corpus, plain: Run, tmp_path: Path
) -> None:
    train(three_pairs, "chi-ibr", tmp_path / "run", use=[plain.path])
    (tmp_path / "run" / "finished.json").unlink()
    again = train(three_pairs, "chi-ibr", tmp_path / "run")
    assert not (tmp_path / "run" / "auxiliary").exists()
    assert again.auxiliary[0].path == plain.path.resolve()


@pytest.mark.slow
def test_a_run_of_no_use_is_refused(three_pairs: Corpus, plain: Run, auto: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tau=1 on fra-eng.*cannot be used here: this method needs no other run"):
        train(three_pairs, "tau=5", tmp_path / "a", use=[plain.path])
    with pytest.raises(UserError, match=r"auto-pmd on .*this method needs plain \(tau=1 on"):
        train(three_pairs, "chi-ibr", tmp_path / "b", use=[auto.path])
    with pytest.raises(UserError, match="cannot be used here"):
        train(three_pairs.only(three_pairs.pairs[:2]), "chi-ibr", tmp_path / "c", use=[plain.path])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "theirs", "says"),
    [
        ("label_smoothing", 0.0, "label_smoothing is 0.0 there and 0.1 here"),
        ("d_model", 8, "d_model is 8 there and 16 here"),
        ("dropout", 0.0, "dropout is 0.0 there and 0.2 here"),
        ("steps", 33, "steps is 33 there and 32 here"),
        ("vocab_size", 80, "its tokenizer differs"),
        ("tokenizer.tags", "released", "its tokenizer differs"),
        ("samplers", ["tau=5"], "samplers is tau=5 there and tau=1 here"),
    ],
)
def test_losses_in_another_unit_are_refused_by_name(
    three_pairs: Corpus, plain: Run, tmp_path: Path, field: str, theirs: Any, says: str
) -> None:
    """chi-IBR subtracts the losses of a tau=1 run from its own."""
    other = train(three_pairs, "tau=1", tmp_path / "other", **{field: theirs}, score=False)
    with pytest.raises(UserError, match=rf"cannot be used here.*For plain: {re.escape(says)}$"):
        train(three_pairs, "chi-ibr", tmp_path / "run", use=[plain.path, other.path])
    assert not (tmp_path / "run" / "auxiliary").exists(), "before anything is trained"


@pytest.mark.slow
def test_what_is_read_decides_what_must_be_alike(
    three_pairs: Corpus, short_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    """A bilingual model that may teach need not have comparable losses; weights of distillation have no unit."""
    pair = three_pairs.pairs[0]
    short_encoded.tokenizer.save(tmp_path / "tokenizer")
    shared = {"tokenizer": tmp_path / "tokenizer", "score": False, "steps": 4, "eval_every": 4}
    small = train(three_pairs.only([pair]), "tau=1", tmp_path / "small", d_model=8, label_smoothing=0.0, **shared)
    config = pmd.preset("toy", **QUICK)

    def why(method: str, run: Run, **more: Any) -> list[str]:
        row = get_method(method, more.pop("samplers", None))
        wanted = auxiliary.wanted(row, three_pairs, replace(config, **more), short_encoded)
        return min((want.unfit(run) for want in wanted), key=len)

    assert why("multi-distill", small) == []
    wants = [w.config.train.steps for w in auxiliary.bilingual(three_pairs, config, short_encoded)]
    losses = ["label_smoothing is 0.0 there and 0.1 here", "d_model is 8 there and 16 here",
              f"steps is 4 there and {wants[0]} here"]  # fmt: skip
    assert why("ccl-m", small) == why("multi-distill", small, samplers=["ccl-m"]) == losses
    assert why("multi-distill", small, model=replace(config.model, max_len=33)) == [
        "max_len is 32 there and 33 here"
    ], "no room for as long sentences"
    auto = train(three_pairs, "auto-pmd", tmp_path / "auto", d_model=8, vocab_size=80, score=False, steps=4)
    assert why("lsmd", auto) == []
    turned = train(three_pairs, "auto-pmd", tmp_path / "turned", samplers=["tau", "tau=1"], score=False, steps=4)
    assert why("lsmd", turned) == ["samplers is tau=5,tau=1 there and tau=1,tau=5 here"]


@pytest.mark.slow
def test_a_remembered_run_that_has_become_another_is_refused(three_pairs: Corpus, plain: Run, tmp_path: Path) -> None:
    shutil.copytree(plain.path, tmp_path / "plain")
    train(three_pairs, "chi-ibr", tmp_path / "run", use=[tmp_path / "plain"])
    (tmp_path / "run" / "finished.json").unlink()
    shutil.rmtree(tmp_path / "plain")
    train(three_pairs, "tau=1", tmp_path / "plain", label_smoothing=0.0, score=False)
    with pytest.raises(UserError, match=r"used as its plain, is another run now: label_smoothing is 0\.0 there"):
        train(three_pairs, "chi-ibr", tmp_path / "run")


@pytest.mark.slow
def test_an_unfinished_run_is_no_teacher(three_pairs: Corpus, plain: Run, tmp_path: Path) -> None:
    shutil.copytree(plain.path, tmp_path / "half")
    (tmp_path / "half" / "finished.json").unlink()
    with pytest.raises(UserError, match="finished, on this corpus"):
        train(three_pairs, "chi-ibr", tmp_path / "run", use=[tmp_path / "half"])


# ---------------------------------------------------------------- what is read from them


def rewrite(run: Path, lines: list[dict[str, Any]]) -> None:
    """Other metrics for a finished run, and the checksum of these."""
    about = RunDir(run).summary()
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    RunDir(run).finish({name: value for name, value in about.items() if name != "sum"})


@pytest.mark.slow
def test_chi_ibr_reads_the_last_training_loss_of_each_pair(
    plain: Run, short_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    lines = plain.dir.metrics()
    lines[-1]["train_ce"][2] = None  # as if the rarest pair had not been drawn at the end
    shutil.copytree(plain.path, tmp_path / "plain")
    rewrite(tmp_path / "plain", lines)
    found = auxiliary.resources(
        get_method("chi-ibr"), plain.config, short_encoded, {"plain": Run(tmp_path / "plain")}, tmp_path
    )
    curves = [[line["train_ce"][i] for line in lines if line["train_ce"][i] is not None] for i in range(3)]
    expected = [values[-1] for values in curves]
    assert expected[2] == plain.dir.metrics()[-2]["train_ce"][2]
    assert found.plain_loss is not None and found.plain_loss.tolist() == expected


@pytest.mark.slow
def test_lsmd_keeps_the_weights_that_auto_pmd_ended_with(three_pairs: Corpus, auto: Run, tmp_path: Path) -> None:
    """Weights of a long run are set by hand: in such a short run all of them would move alike."""
    shutil.copytree(auto.path, tmp_path / "auto")
    lines, ends = auto.dir.metrics(), [[0.1, 0.2, 0.3], [0.6, 0.5, 0.0]]
    for line in [x for x in lines if x["event"] == "eval"][-2:]:
        line["alpha"] = ends[line["student"]]
    rewrite(tmp_path / "auto", lines)
    run = train(three_pairs, "lsmd", tmp_path / "run", use=[tmp_path / "auto"])
    for i in (0, 1):
        assert all(line["alpha"] == ends[i] for line in run.evaluations(i))


@pytest.mark.slow
def test_lsmd_refuses_the_weights_of_another_number_of_students(three_pairs: Corpus, auto: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"For auto-pmd: samplers is tau=1,tau=5 there and tau=1,tau=5,tau=inf here"):
        train(three_pairs, "lsmd", tmp_path / "run", use=[auto.path], samplers=["tau=1", "tau", "tau=inf"])


def cached_passes(run: Run, encoded: EncodedCorpus) -> float:
    """A forward pass of each pair's teacher over all training data of the pair."""
    once = per_token(run.model())
    return sum(once.multiply_adds(split.src_tokens, split.trg_tokens, 1, 1) for split in encoded.train)


@pytest.mark.slow
def test_what_is_prepared_counts_once_however_often_a_run_is_stopped(
    three_pairs: Corpus, short_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    """The teachers' dev translations (A*) and their top-k; the cache is there already when the run continues."""
    whole = train(three_pairs, "multi-distill", tmp_path / "whole", md_cache=True)
    teachers = [one.path for one in whole.auxiliary]
    with stopped_at(6):
        train(three_pairs, "multi-distill", tmp_path / "run", use=teachers, md_cache=True)
    assert (tmp_path / "run" / "teacher-topk").is_dir()
    run = train(three_pairs, "multi-distill", tmp_path / "run", md_cache=True)
    assert run.finished["multiply_adds"] == whole.finished["multiply_adds"]
    prepared, cache = run.cost["prepare"], cached_passes(run, short_encoded)
    once = per_token(run.model())
    valid, pairs = short_encoded.valid, len(short_encoded.valid)
    sentences, src = sum(len(split) for split in valid), sum(split.src_tokens for split in valid)
    assert once.multiply_adds(src, sentences, 1, 1) <= prepared - cache <= once.multiply_adds(src, 32 * sentences, 1, 1)
    assert pairs == len(teachers) == 3


@pytest.mark.slow
def test_multi_distill_with_and_without_its_cache_learns_nearly_the_same(
    three_pairs: Corpus, short_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    live = train(three_pairs, "multi-distill", tmp_path / "live", md_criterion="loss", md_rule="fix", dropout=0.0)
    cached = train(three_pairs, "multi-distill", tmp_path / "cached", md_criterion="loss", md_rule="fix", dropout=0.0,
                   md_cache=True, use=[run.path for run in live.auxiliary])  # fmt: skip
    assert (tmp_path / "cached" / "teacher-topk").is_dir()
    assert live.cost["teacher"] > 0 == cached.cost["teacher"] == live.cost["prepare"]
    assert cached.cost["prepare"] == cached.finished["multiply_adds"]["prepare"] == cached_passes(cached, short_encoded)
    a, b = (torch.tensor(run.evaluations()[-1]["dev_loss"]) for run in (live, cached))
    torch.testing.assert_close(a, b, rtol=0, atol=2e-2)  # the cache keeps 16-bit logits
    plain = train(three_pairs, "tau=1", tmp_path / "plain", dropout=0.0)
    assert float((a - torch.tensor(plain.evaluations()[-1]["dev_loss"])).abs().max()) > 2e-2, "distillation does act"


@pytest.mark.slow
def test_teachers_of_another_vocabulary_are_refused(three_pairs: Corpus, tmp_path: Path) -> None:
    pair = three_pairs.pairs[0]
    foreign = train(three_pairs.only([pair]), "tau=1", tmp_path / "foreign", vocab_size=60, steps=4)
    with pytest.raises(UserError, match=rf"For bilingual-{pair}: its tokenizer differs"):
        train(three_pairs, "multi-distill", tmp_path / "run", use=[foreign.path])


@pytest.mark.slow
def test_a_shared_tokenizer_must_know_the_languages(three_pairs: Corpus, tmp_path: Path) -> None:
    few = train(three_pairs.only(three_pairs.pairs[:2]), "tau=1", tmp_path / "few", steps=4)
    with pytest.raises(UserError, match="the given tokenizer does not know"):
        train(three_pairs, "tau=1", tmp_path / "run", tokenizer=few.path / "tokenizer")
    whole = train(three_pairs, "tau=1", tmp_path / "whole", steps=4)
    one = train(three_pairs.only(three_pairs.pairs[:1]), "tau=1", tmp_path / "one", steps=4,
                tokenizer=whole.path / "tokenizer")  # fmt: skip
    assert one.tokenizer.fingerprint == whole.tokenizer.fingerprint != few.tokenizer.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "samplers"),
    [
        ("auto-pmd", ["tau=1", "chi-ibr"]),
        ("auto-pmd", ["multiuat", "multiuat"]),
        ("bi-pmd", ["tau=1", "tau", "tau=inf"]),
        ("auto-pmd", ["tau=1", "tau=2", "tau=5", "unimax"]),
    ],
)
def test_samplers_and_distillers_combine_freely(
    three_pairs: Corpus, tmp_path: Path, method: str, samplers: list[str]
) -> None:
    """Every student is trained, taught by all others, and drawn by a sampler of its own that acts when it is due."""
    run = train(three_pairs, method, tmp_path / "run", samplers=samplers, score=len(samplers) == 3, scorer_steps=5,
                uncertainty_passes=2, steps=24, eval_every=12, update_every=12)  # fmt: skip
    assert len(run.labels) == len(samplers)
    if len(samplers) == 3:
        assert len(run.scores) == 3
    for student, sampler in enumerate(samplers):
        first, last = run.evaluations(student)[0], run.evaluations(student)[-1]
        assert sum(last["dev_loss"]) < sum(first["dev_loss"])
        acted = {m["event"] for m in run.dir.metrics() if m.get("student") == student} & {"scorer", "chi-ibr"}
        assert acted == {"chi-ibr": {"chi-ibr"}, "multiuat": {"scorer"}}.get(sampler, set())
        assert (first["p"] != last["p"]) == bool(acted)
    assert run.cost["teacher"] == pytest.approx(run.cost["train"] / 3 * (len(samplers) - 1), rel=0.05)
