"""The benchmarks compare equal work, and run: their toy size takes a moment where the real size takes minutes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks import gpu
from benchmarks.padding import count, total
from benchmarks.peers import SHAPES, Peer, labels, marian, textbook
from benchmarks.training import make_batches, make_engine, race
from benchmarks.turns import Runner
from benchmarks.where_loss_falls import by_kind
from pmd_lite.data.batching import Batch
from pmd_lite.data.tokens import EncodedSplit, TokenArray
from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.projection import output_of, token_states
from pmd_lite.exchange.huggingface import from_huggingface
from pmd_lite.model.transformer import Transformer

VOCAB = 61


def our_loss(model: Transformer, batch: Batch) -> Tensor:
    """The loss that training differentiates, without smoothing."""
    hidden = token_states(model, batch.src, batch.trg_in, batch.keep)
    return projected_loss(hidden, output_of(model), batch.gold, 0.0, Mix())[0]


def copy_into(theirs: Any, ours: Transformer) -> None:
    """Copy our weights into an nn.Transformer."""

    def put(place: Any, *parts: Any) -> None:
        for name in ("weight", "bias"):
            into = getattr(place, f"in_proj_{name}") if hasattr(place, "in_proj_weight") else getattr(place, name)
            into.copy_(torch.cat([getattr(part, name) for part in parts]))

    theirs.embedding.weight.copy_(ours.embedding.weight)
    for stack, own, norm in (
        (theirs.transformer.encoder, ours.encoder, ours.encoder_norm),
        (theirs.transformer.decoder, ours.decoder, ours.decoder_norm),
    ):
        put(stack.norm, norm)
        for layer, mine in zip(stack.layers, own, strict=True):
            mine_: Any = mine
            put(layer.self_attn, mine_.self_attention.qkv)
            put(layer.self_attn.out_proj, mine_.self_attention.out)
            put(layer.linear1, mine_.feed_forward.inner)
            put(layer.linear2, mine_.feed_forward.outer)
            norms = [mine_.self_residual.norm, mine_.ffn_residual.norm]
            if hasattr(layer, "multihead_attn"):
                put(layer.multihead_attn, mine_.cross_attention.query, mine_.cross_attention.kv)
                put(layer.multihead_attn.out_proj, mine_.cross_attention.out)
                norms.insert(1, mine_.cross_residual.norm)
            for i, part in enumerate(norms, 1):
                put(getattr(layer, f"norm{i}"), part)


def same_loss(peer: Peer, ours: Transformer) -> None:
    """Both losses are equal on a padded batch, with dropout off."""
    peer.model.eval()
    ours.eval()
    batches = make_batches(VOCAB, 600, 40)
    batch = max(batches, key=lambda batch: min(int((ids == 0).sum()) for ids in (batch.src, batch.trg_in)))
    assert (batch.src == 0).any() and (batch.trg_in == 0).any()
    torch.testing.assert_close(peer.loss(batch, smoothing=0.0), our_loss(ours, batch), rtol=1e-5, atol=0)


def test_the_textbook_model_is_ours_in_other_words() -> None:
    torch.manual_seed(3)
    peer, ours = textbook("tiny", VOCAB), Transformer(VOCAB, **SHAPES["tiny"])
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.4)
    with torch.no_grad():
        copy_into(peer.model, ours)
    assert sum(p.numel() for p in peer.model.parameters()) == ours.parameter_count()
    same_loss(peer, ours)


@pytest.mark.slow
def test_marian_has_the_same_loss_at_the_same_weights() -> None:
    pytest.importorskip("transformers")
    peer = marian("tiny", VOCAB)
    same_loss(peer, from_huggingface(peer.model))


def test_labels_are_the_targets_in_their_places() -> None:
    batch = make_batches(VOCAB, 200, 1)[0]
    whole = labels(batch)
    assert torch.equal(whole[:, :-1][batch.trg_in[:, 1:] != 0], batch.trg_in[:, 1:][batch.trg_in[:, 1:] != 0])
    assert int((whole != 0).sum()) == batch.tokens


@pytest.mark.slow
def test_engines_take_turns_on_the_same_batches() -> None:
    batches = make_batches(VOCAB, 100, 4)
    runners = {name: Runner(make_engine, name, "tiny", VOCAB, batches) for name in ("pmd_lite", "nn.Transformer")}
    found = race(runners, len(batches), rounds=2)
    for runner in runners.values():
        runner.close()
    assert {name: len(rounds) for name, rounds in found.items()} == {"pmd_lite": 2, "nn.Transformer": 2}
    assert all(speed > 0 for rounds in found.values() for speed in rounds)


def test_padding_counted_by_hand() -> None:
    split = EncodedSplit(TokenArray.build([[5] * 3, [5], [5] * 2]), TokenArray.build([[5] * 2, [5] * 4, [5] * 2]))
    parts = [count(split, [np.array([0, 1])]), count(split, [np.array([2])])]
    assert (parts[0].real, parts[0].padded) == (3 + 1 + 2 + 4, 2 * (3 + 4))
    assert (parts[1].waste, parts[1].extra_work) == (0, 0)
    whole = total(parts)
    assert whole.waste == pytest.approx(4 / 18)
    assert 0 < whole.extra_work < 4 / 10
    assert (whole.lengths, whole.shapes) == ({(3, 4), (2, 2)}, {(2, 3, 4), (1, 2, 2)})


@pytest.mark.slow
def test_the_gpu_benchmark_runs_at_toy_size(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(["--device", "cpu", "--tiny", "--no-compile"])
    said = capsys.readouterr().out
    assert all(f"== {name}" in said for name in gpu.PARTS)
    assert "no figures to quote" in said
    assert re.search(r"by caller: \{'aten::_fused_adamw_': \d+\}\n", said)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_the_gpu_benchmark_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        gpu.main([])
    assert stopped.value.code == 2
    assert "No CUDA device here" in capsys.readouterr().err


def test_a_difference_in_loss_by_kinds_of_tokens() -> None:
    """By hand: one token of each kind, except that neither is right twice; the parts add up to the difference."""
    first = torch.tensor([0.1, 1.0, 2.0, 5.0, 7.0]), torch.tensor([True, True, False, False, False])
    second = torch.tensor([0.2, 1.5, 1.0, 4.0, 6.0]), torch.tensor([True, False, True, False, False])
    *kinds, whole = by_kind(first, second)
    wanted = [(20, 0.1, 0.2, 0.02), (20, 1, 1.5, 0.1), (20, 2, 1, -0.2), (40, 6, 5, -0.4), (100, 3.02, 2.54, -0.48)]
    for row, numbers in zip([*kinds, whole], wanted, strict=True):
        assert row[1:] == pytest.approx(numbers)
    assert sum(float(str(row[4])) for row in kinds) == pytest.approx(float(str(whole[4])))
