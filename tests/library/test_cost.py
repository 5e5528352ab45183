"""Multiply-adds are counted right: compared with counts by hand, and with PyTorch's own counter of matrix products."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pmd_lite.data.batching import Batch, Draw, collate
from pmd_lite.data.tokenizer import EOS, PAD
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit, TokenArray
from pmd_lite.distillation import targets
from pmd_lite.distillation.lssd import LSSD
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.evaluation import translation
from pmd_lite.model.transformer import Transformer
from pmd_lite.training import probe
from pmd_lite.training.cost import COUNTED, PURPOSES, Cost, PerToken, Tokens, per_token
from pmd_lite.training.distributed import ALONE
from pmd_lite.training.student import Plan
from pmd_lite.training.trainer import Trainer
from tests.conftest import MakeTrainer

BASE: dict[str, Any] = {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "ffn": 2048}


def seen(act: Callable[[], object]) -> int:
    """Multiply-adds of all products with weights that PyTorch counts while `act` runs: half their FLOPs.

    Attention multiplies activations with each other; PyTorch sees that as other operations.
    """
    aten = torch.ops.aten

    def inplace(_: Any, a: Sequence[int], b: Sequence[int], *args: Any, **words: Any) -> int:
        return 2 * a[0] * a[1] * b[1]

    with FlopCounterMode(display=False, custom_mapping={aten.addmm_: inplace}) as counter:
        act()
    found = counter.get_flop_counts()["Global"]
    assert not set(found) - {aten.mm, aten.addmm, aten.addmm_, aten._scaled_dot_product_flash_attention_for_cpu}
    return sum(found.get(op, 0) for op in (aten.mm, aten.addmm, aten.addmm_)) // 2


def spent(trainer: Trainer, act: Callable[[], object]) -> dict[str, int]:
    """{purpose: multiply-adds} of an act; purposes without cost are left out."""
    before = dict(trainer.cost.multiply_adds)
    act()
    return {name: n - before[name] for name, n in dict(trainer.cost.multiply_adds).items() if n != before[name]}


def alone(trainer: Trainer, pair: int, row: int = 0) -> Draw:
    """One sentence, so that nothing is padded and PyTorch counts the same as we do."""
    return Draw(trainer.encoded.train[pair], np.array([row]), pair)


# ---------------------------------------------------------------- one pass


def test_a_tiny_shape_by_hand() -> None:
    model = Transformer(10, d_model=4, heads=2, encoder_layers=2, decoder_layers=3, ffn=8)
    attention, feed_forward = 4 * 4 * 4, 2 * 4 * 8  # queries, keys, values, output; in and out
    source = 2 * (attention + feed_forward) + 3 * 2 * 4 * 4  # each decoder layer's keys and values of the source
    target = 3 * (attention + 2 * 4 * 4 + feed_forward)  # and its queries and output over the source
    assert per_token(model) == PerToken(source, target, 10 * 4)
    cost = Cost()
    cost.add("train", model, Tokens(7, 5), 3)
    cost.add("teacher", model, Tokens(7, 5), 1, projections=2)
    cost.add("teacher", model, Tokens(7, 5), 0, projections=1)
    once, output = 7 * source + 5 * target, 5 * 10 * 4
    nothing = dict.fromkeys(PURPOSES, 0)
    assert cost.multiply_adds == {**nothing, "train": 3 * (once + output), "teacher": once + 3 * output}


def test_the_base_model_is_what_the_paper_trained() -> None:
    """77 million multiply-adds a token, 43 % of them in the output layer, of 110 million parameters."""
    with torch.device("meta"):
        found = per_token(Transformer(64_000, tie="decoder", **BASE))
    encoder, decoder = 6 * (4 * 512**2 + 2 * 512 * 2048), 6 * (8 * 512**2 + 2 * 512 * 2048)
    assert (found.output, sum(found)) == (64_000 * 512, encoder + decoder + 64_000 * 512)
    assert found.output / sum(found) == pytest.approx(0.427, abs=0.001)


@pytest.mark.parametrize("change", [{"tie": "decoder"}, {"tie": "none"}, {"embedding_norm": True}, {"norm": "post"},
                                    {"output_bias": True}, {"heads": 1}, {"activation": "gelu"}])  # fmt: skip
def test_what_is_looked_up_added_or_shared_does_not_count(change: dict[str, Any]) -> None:
    shape = {"d_model": 4, "heads": 2, "ffn": 8}
    assert per_token(Transformer(10, **{**shape, **change})) == per_token(Transformer(10, **shape))


def test_another_encoder_decoder_is_counted_by_its_linear_layers() -> None:
    class Foreign(nn.Module):
        """A model with the names of Hugging Face's Marian; the weight of its output layer is the table."""

        def __init__(self) -> None:
            super().__init__()
            self.model = nn.ModuleDict({"encoder": nn.ModuleList([nn.Linear(4, 6)]), "decoder": nn.Linear(4, 5)})
            self.table, self.lm_head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
            self.lm_head.weight = self.table.weight

        @property
        def output_weight(self) -> nn.Parameter:
            return self.lm_head.weight

    assert per_token(Foreign()) == PerToken(24, 20, 36)


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_pytorch_sees_the_same_products(tie: Any) -> None:
    model = Transformer(30, d_model=8, heads=2, encoder_layers=1, decoder_layers=2, ffn=16, tie=tie)
    src, trg = torch.randint(4, 30, (3, 7)), torch.randint(4, 30, (3, 5))
    with torch.no_grad():
        assert seen(lambda: model(src, trg)) == per_token(model).multiply_adds(21, 15, 1, 1)
    assert seen(lambda: model(src, trg).sum().backward()) == per_token(model).multiply_adds(21, 15, 3, 3)


def test_what_is_left_out_is_as_small_as_the_docstring_says() -> None:
    """Attention scores and their sums, two products of d_model for each pair of tokens and layer."""
    with torch.device("meta"):
        base = per_token(Transformer(64_000, **BASE))
    length, layers = 30, 6 + 6 + 6
    left_out = 2 * length * 512 * layers
    assert left_out / sum(base) == pytest.approx(0.007, abs=0.0005)


# ---------------------------------------------------------------- training and teaching


@pytest.mark.parametrize("method", ["tau=1", "bi-pmd", "lssd", "lssd-selective", "lssd-whole"])
def test_an_update_costs_what_pytorch_sees(make_trainer: MakeTrainer, method: str) -> None:
    """Gates project student and teacher a second time; without a gate or without a teacher there is no second time."""
    trainer = make_trainer(method)
    student = trainer.students[0]
    if isinstance(trainer.distiller, LSSD):
        trainer.distiller.peak[0, :] = 1
        trainer.distiller.snapshots[0][1] = copy.deepcopy(student.learner.model)
    draws = [alone(trainer, pair) for pair in (0, 1, 2)]
    plan = Plan(draws, [0.0, 0.3 * (method != "tau=1"), 0.4 * (method != "tau=1")])
    sums = torch.zeros(3, 3)
    products = seen(lambda: sums.add_(trainer.gradients(student, plan, ALONE)))
    cost = spent(trainer, lambda: trainer.record(student, plan, sums))
    assert sum(cost.values()) == products
    shape, tokens = per_token(student.learner.model), sum(draw.tokens for draw in draws[1:])
    expected = shape.multiply_adds(sum(draw.src_tokens for draw in draws[1:]), tokens, 1, 1)
    gate = 2 * tokens * shape.output if method in ("lssd", "lssd-selective") else 0
    assert cost.get("teacher", 0) == (0 if method == "tau=1" else expected + gate)


def test_a_teacher_counts_in_its_own_size(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("lssd-whole")
    trainer.distiller.peak[0, :] = 1  # type: ignore[attr-defined]
    wide = Transformer(trainer.encoded.tokenizer.vocab_size, d_model=64, heads=2, ffn=32, max_len=64)
    trainer.distiller.snapshots[0][1] = wide  # type: ignore[attr-defined]
    draw = alone(trainer, 2)
    plan = Plan([draw], [0.3])
    cost = spent(trainer, lambda: trainer.record(trainer.students[0], plan, torch.zeros(1, 3)))
    assert cost["teacher"] == per_token(wide).multiply_adds(draw.src_tokens, draw.tokens, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("rollback", [True, False])
@pytest.mark.parametrize("samplers", [["tau=1", "tau"], ["tau=1", "tau", "tau=inf"]])
def test_a_search_costs_what_pytorch_sees(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, rollback: bool, samplers: list[str], kept: bool
) -> None:
    """Trials side by side share the teachers' passes; they share the projections only if these may be kept."""
    trainer = make_trainer("auto-pmd", rollback=rollback, samplers=samplers)
    batches = [alone(trainer, pair).batch() for pair in (0, 1, 2, 5)]
    trainer.dev = [collate(split, np.array([0]), pair) for pair, split in enumerate(trainer.encoded.valid)]
    monkeypatch.setattr(trainer.probe, "_trial_set", lambda student: batches)
    for module in (targets, probe):
        monkeypatch.setattr(module, "worth_keeping", lambda tokens, vocab: kept)
    alphas = torch.full((3, 6), 0.3, dtype=torch.float64)
    alphas[:, 0], alphas[0, 1], alphas[1:, 2] = 0.0, 0.0, 0.0  # no student, two, one of them, and all of them learn
    cost = {}
    products = seen(lambda: cost.update(spent(trainer, lambda: trainer.probe.trial(0, alphas))))
    assert cost == {"trial": products}


# ---------------------------------------------------------------- looking and preparing


@pytest.mark.slow
def test_looks_cost_what_pytorch_sees(make_short: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dev losses, greedy translations, gradients, and passes with dropout."""
    trainer = make_short("bi-pmd", steps=4)
    trainer.run()
    trainer.dev = [collate(split, np.array([0]), pair) for pair, split in enumerate(trainer.encoded.valid)]
    first = [TokenArray(side.flat, side.starts[:1], side.lengths[:1]) for split in trainer.encoded.valid
             for side in (split.src, split.trg)]  # fmt: skip
    valid = tuple(EncodedSplit(*sides) for sides in zip(first[::2], first[1::2], strict=True))
    trainer.encoded = dataclasses.replace(trainer.encoded, valid=valid)
    monkeypatch.setattr(translation, "batches_by_length", lambda order, lengths, budget: [[i] for i in order])
    small = [collate(trainer.encoded.valid[2], np.array([0]), 2)] * 2
    monkeypatch.setattr(trainer.probe, "_small_batch", lambda *args: small[0])
    looks: list[Callable[[], object]] = [
        lambda: trainer.probe.dev_loss(1), lambda: trainer.probe.dev_score(0),
        lambda: trainer.probe.gradient(0, "valid", 2, 10), lambda: trainer.probe.uncertainty(0, 2, 3, 10),
    ]  # fmt: skip
    trainer.probe._losses.clear()
    for look in looks:
        before = dict(trainer.cost.multiply_adds)
        products = seen(look)
        assert dict(trainer.cost.multiply_adds) == {**before, "probe": before["probe"] + products} and products > 0


@pytest.mark.slow
def test_decoding_counts_what_was_generated_and_not_the_references(make_short: MakeTrainer) -> None:
    """A model that never ends a sentence computes up to the limit; one that ends at once computes one step."""
    trainer = make_short("tau=1", output_bias=True)
    model, valid = trainer.students[0].learner.model, trainer.encoded.valid
    bias = model.output_bias
    assert bias is not None
    src, sentences = sum(split.src_tokens for split in valid), sum(len(split) for split in valid)
    found = {}
    for name, eos in (("endless", -100.0), ("silent", 100.0)):
        with torch.no_grad():
            bias[EOS] = eos
        _, found[name] = trainer.dev_bleu(model)
        assert found[name].src_tokens == src
    assert found["silent"].tokens == sentences  # BOS is read, EOS is found
    limits = [min(31, 3 * translation._bucket(int(n)) // 2 + 20) for split in valid for n in split.src.lengths]
    assert found["endless"].tokens == sum(limits) + sentences


@pytest.mark.slow
def test_a_top_k_cache_costs_its_teachers_passes(
    make_trainer: MakeTrainer, tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    model = make_trainer("tau=1").students[0].learner.model
    device, splits = torch.device("cpu"), tiny_encoded.train[:2]
    products = seen(lambda: TopKCache.build(tmp_path / "cache", [model] * 2, splits, 4, 1, device))
    cost = Cost()
    for split in splits:
        cost.add("prepare", model, Tokens(split.src_tokens, split.trg_tokens))
    assert products == cost.multiply_adds["prepare"]


# ---------------------------------------------------------------- where it comes from


def test_batches_and_draws_know_their_tokens_of_both_sides(tiny_encoded: EncodedCorpus) -> None:
    split = tiny_encoded.train[1]
    draw = Draw(split, np.array([4, 0, 7]), 1)
    batch: Batch = draw.batch()
    assert batch.src_tokens == draw.src_tokens == int((batch.src != PAD).sum())
    assert draw.src_tokens == sum(len(split.src[i]) for i in (4, 0, 7))
    assert batch.tokens == draw.tokens == len(batch.gold)
    assert dataclasses.replace(batch).to(torch.device("cpu")).src_tokens == batch.src_tokens


def test_a_table_says_in_words_what_is_counted() -> None:
    words = ("multiply-adds", "source tokens", "look-ups", "attention scores", "test set")
    assert all(word in COUNTED for word in words)
