"""The teachers' predictions on disk: equal to a forward pass, complete or absent, and damage gives an error."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pmd_lite import disk
from pmd_lite.config import DistillConfig, TeacherConfig
from pmd_lite.data.batching import PairStream, collate
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit
from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.projection import Output
from pmd_lite.distillation.topk import TopK, TopKCache, teacher_top_k
from pmd_lite.errors import UserError
from pmd_lite.model.transformer import Transformer
from tests.topk_by_hand import top_k_kd

CPU = torch.device("cpu")
K = 5


def small(vocab: int, seed: int) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(vocab, d_model=16, heads=2, encoder_layers=1, decoder_layers=1, ffn=32, dropout=0.5)
    with torch.no_grad():
        model.decoder_norm.weight.mul_(20)  # type: ignore[operator]  # logits as far apart as a trained model's
    return model


@pytest.fixture(scope="module")
def teachers(tiny_encoded: EncodedCorpus) -> list[nn.Module]:
    return [small(tiny_encoded.tokenizer.vocab_size, seed) for seed in range(len(tiny_encoded.pairs))]


@pytest.fixture(scope="module")
def cache(
    tiny_encoded: EncodedCorpus, teachers: list[nn.Module], tmp_path_factory: pytest.TempPathFactory
) -> TopKCache:
    return TopKCache.build(tmp_path_factory.mktemp("run") / "deep" / "top", teachers, tiny_encoded.train, K, 160, CPU)


def same_as_live(cache: TopKCache, teacher: nn.Module, split: EncodedSplit, pair: int, rows: list[int]) -> None:
    """Compare a batch of these sentences: ids where no two are a near-tie, logits up to their row's constant."""
    batch = collate(split, np.array(rows), pair)
    found, live = cache.read(batch), teacher_top_k(teacher, batch, K)
    assert (found.ids.dtype, found.logits.dtype) == (torch.int64, torch.float32)
    expected = live.logits - live.logits[:, :1]
    torch.testing.assert_close(found.logits, expected, rtol=2**-10, atol=1e-4)
    apart = (expected[:, :-1] - expected[:, 1:]).amin(-1) > 1e-3  # the last kept one may tie with one left out
    assert apart.any()
    assert torch.equal(found.ids[apart, : K - 1], live.ids[apart, : K - 1])
    logp = torch.sin(torch.arange(200.0)).log_softmax(0).expand(int(apart.sum()), 200)
    one, two = (TopK(kept.ids[apart], kept.logits[apart]) for kept in (found, live))
    torch.testing.assert_close(top_k_kd(logp, one, 0.6), top_k_kd(logp, two, 0.6), rtol=1e-3, atol=0)


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_any_batch_reads_what_the_live_teacher_says(
    cache: TopKCache, teachers: list[nn.Module], tiny_encoded: EncodedCorpus, data: st.DataObject
) -> None:
    pair = data.draw(st.integers(0, len(teachers) - 1))
    split = tiny_encoded.train[pair]
    rows = data.draw(st.lists(st.integers(0, len(split) - 1), min_size=1, max_size=9))
    same_as_live(cache, teachers[pair], split, pair, rows)


def test_the_batches_of_training_read_what_the_live_teacher_says(
    cache: TopKCache, teachers: list[nn.Module], tiny_encoded: EncodedCorpus
) -> None:
    for pair, split in enumerate(tiny_encoded.train):
        stream = PairStream(split, pair, 160, (1, pair))
        for _ in range(4):
            same_as_live(cache, teachers[pair], split, pair, stream.next().rows.tolist())


def test_a_selection_of_sentences_is_cached_by_its_own_numbers(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    """Sentences left out of a split leave gaps in its token array, but not in the cache."""
    whole = tiny_encoded.train[0]
    keep = np.arange(len(whole)) % 3 != 0
    split = EncodedSplit(whole.src.select(keep), whole.trg.select(keep))
    cache = TopKCache.build(tmp_path / "top", teachers[:1], [split], K, 160, CPU)
    same_as_live(cache, teachers[0], split, 0, [7, 0, len(split) - 1, 7])


def test_making_it_leaves_no_trace_in_the_teachers(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    teachers[0].train()
    teachers[1].eval()
    random = torch.get_rng_state()
    TopKCache.build(tmp_path / "top", teachers[:2], tiny_encoded.train[:2], K, 160, CPU)
    assert teachers[0].training and not teachers[1].training
    assert all(p.grad is None for teacher in teachers for p in teacher.parameters())
    assert torch.equal(torch.get_rng_state(), random)


class Loud(nn.Module):
    """Logits [tokens, vocab] far beyond what float16 holds, the same at every position."""

    def hidden(self, src: Tensor, trg_in: Tensor) -> Tensor:
        return torch.ones(*trg_in.shape, 1)

    @property
    def output_weight(self) -> Tensor:
        return torch.tensor([[1e6], [1e6 - 1], [1e6 + 2], [0.0]])


def test_large_logits_survive_float16(tiny_encoded: EncodedCorpus, tmp_path: Path) -> None:
    split = tiny_encoded.train[0]
    cache = TopKCache.build(tmp_path / "top", [Loud()], [split], 3, 160, CPU)
    target = cache.read(collate(split, np.array([3]), 0))
    length = int(split.trg.lengths[3])
    assert target.ids.tolist() == [[2, 0, 1]] * length
    assert target.logits.tolist() == [[0.0, -2.0, -3.0]] * length


# ---------------------------------------------------------------- whole or not there


class Unplugged(nn.Module):
    """A teacher on a machine that goes down."""

    def hidden(self, src: Tensor, trg_in: Tensor) -> Tensor:
        raise KeyboardInterrupt


def test_a_crash_between_two_pairs_leaves_nothing_behind(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    folder, splits = tmp_path / "top", tiny_encoded.train[:2]
    with pytest.raises(KeyboardInterrupt):
        TopKCache.build(folder, [teachers[0], Unplugged()], splits, K, 160, CPU)
    assert list(tmp_path.iterdir()) == []
    cache = TopKCache.build(folder, teachers[:2], splits, K, 160, CPU)
    same_as_live(cache, teachers[1], splits[1], 1, [0, 1])


def test_what_a_killed_process_left_is_not_taken_for_a_cache(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two files, nothing cleans up: here the cleaning is what fails."""
    folder, splits = tmp_path / "top", tiny_encoded.train[:1]
    save, saved = np.save, []

    def killed(path: Path, values: np.ndarray) -> None:
        if saved:
            raise KeyboardInterrupt
        saved.append(path)
        save(path, values)

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", killed)
        patch.setattr(disk.shutil, "rmtree", lambda *args, **kwargs: None)
        with pytest.raises(KeyboardInterrupt):
            TopKCache.build(folder, teachers[:1], splits, K, 160, CPU)
    assert saved[0].exists() and not folder.exists()
    cache = TopKCache.build(folder, teachers[:1], splits, K, 160, CPU)
    assert [path.name for path in tmp_path.iterdir()] == ["top"]
    same_as_live(cache, teachers[0], splits[0], 0, [0, 1])


def test_a_cache_that_is_there_is_opened_and_no_teacher_runs(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    folder, splits = tmp_path / "top", tiny_encoded.train[:1]
    TopKCache.build(folder, teachers[:1], splits, K, 160, CPU)
    again = TopKCache.build(folder, [Unplugged()], splits, K, 160, CPU)
    same_as_live(again, teachers[0], splits[0], 0, [2, 1])


@pytest.mark.parametrize("what", ["ids", "logits"])
@pytest.mark.parametrize("left", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_told_with_what_to_do(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path, what: str, left: float
) -> None:
    folder, splits = tmp_path / "top", tiny_encoded.train[:2]
    TopKCache.build(folder, teachers[:2], splits, K, 160, CPU)
    (path,) = folder.glob(f"pair1.*{what}.npy")
    path.write_bytes(path.read_bytes()[: int(left * path.stat().st_size)])
    with pytest.raises(UserError, match=f"pair1.*damaged.*Delete {re.escape(str(folder))}; it is made again"):
        TopKCache.build(folder, teachers[:2], splits, K, 160, CPU)


@pytest.mark.parametrize("what", ["ids", "logits"])
def test_a_flipped_bit_is_noticed(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path, what: str
) -> None:
    folder, splits = tmp_path / "top", tiny_encoded.train[:1]
    TopKCache.build(folder, teachers[:1], splits, K, 160, CPU)
    (path,) = folder.glob(f"pair0.*{what}.npy")
    path.write_bytes(path.read_bytes()[:-2] + bytes([path.read_bytes()[-2] ^ 1]) + path.read_bytes()[-1:])
    with pytest.raises(UserError, match=f"pair0.*{what}.*damaged. Delete {re.escape(str(folder))}; it is made again"):
        TopKCache.build(folder, teachers[:1], splits, K, 160, CPU)


def test_a_cache_of_other_data_another_k_or_fewer_pairs_is_refused(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    folder, splits = tmp_path / "top", tiny_encoded.train
    TopKCache.build(folder, teachers[:1], splits[:1], K, 160, CPU)
    for others, data, k in ((1, splits[1:2], K), (1, splits[:1], K + 1), (2, splits[:2], K)):
        with pytest.raises(UserError, match="Delete"):
            TopKCache.build(folder, teachers[:others], data, k, 160, CPU)


def test_a_place_where_nothing_can_be_written_is_told(
    teachers: list[nn.Module], tiny_encoded: EncodedCorpus, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Not a directory.*or set md_cache=False"):
        TopKCache.build(tmp_path / "file" / "top", teachers[:1], tiny_encoded.train[:1], K, 160, CPU)


# ---------------------------------------------------------------- in use


def test_multi_distill_learns_the_same_from_the_cache_as_from_the_teachers(
    cache: TopKCache, teachers: list[nn.Module], tiny_encoded: EncodedCorpus
) -> None:
    vocab, n = tiny_encoded.tokenizer.vocab_size, len(teachers)
    live, cached = (
        MultiDistill(
            [small(vocab, 9)], n, DistillConfig(), teachers=teachers, scores=torch.zeros(n),
            settings=TeacherConfig(md_top_k=K), cache=choice,
        )
        for choice in (None, cache)
    )  # fmt: skip
    batch = collate(tiny_encoded.train[1], np.array([4, 0, 2]), 1)
    gradients = []
    for distiller in (live, cached):
        logits = torch.linspace(-1, 1, batch.tokens * vocab).reshape(batch.tokens, vocab).requires_grad_()
        mix = Mix(0.0, 1.0, distiller.target(0, batch, dropout=False))
        projected_loss(logits, Output(torch.eye(vocab)), batch.gold, 0.1, mix)[0].backward()
        gradients.append(logits.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-3)
