"""Eq. 1, cross-entropy, with the smoothed target of the released code."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from pmd_lite.distillation.losses import ce_loss, log_probs, nll, probs

SEEDS = st.integers(0, 10**6)


def random_logits(seed: int, tokens: int = 7, vocab: int = 11, spread: float = 3.0) -> tuple[Tensor, Tensor]:
    """Logits [tokens, vocab] in float64 and gold ids [tokens]."""
    rng = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(tokens, vocab, generator=rng, dtype=torch.float64)
    return logits, torch.randint(vocab, (tokens,), generator=rng)


# p = (1/2, 1/4, 1/8, 1/8), so the surprise of the four words is 1, 2, 3 and 3 bits. eps = 0.1 gives each word that is
# not gold 1/30. Gold word 0: 0.9 * 1 + (2 + 3 + 3) / 30 = 1.166667 bits; word 1: 0.9 * 2 + (1 + 3 + 3) / 30 = 2.033333;
# word 2 (and 3 alike): 0.9 * 3 + (1 + 2 + 3) / 30 = 2.9.
BY_HAND = [(0, 1.0, 1.166667), (1, 2.0, 2.033333), (2, 3.0, 2.9), (3, 3.0, 2.9)]


@pytest.mark.parametrize(("gold", "plain", "smoothed"), BY_HAND)
def test_eq_1_on_a_vocabulary_of_four_words_by_hand(gold: int, plain: float, smoothed: float) -> None:
    logp = torch.tensor([[0.5, 0.25, 0.125, 0.125]], dtype=torch.float64).log()
    bit = math.log(2)
    assert float(nll(logp, torch.tensor([gold]))) == pytest.approx(plain * bit)
    assert float(ce_loss(logp, torch.tensor([gold]), 0.1)) == pytest.approx(smoothed * bit, abs=1e-6)


def test_losses_are_sums_over_the_tokens() -> None:
    logp = torch.tensor([[0.5, 0.25, 0.125, 0.125]] * 4, dtype=torch.float64).log()
    gold = torch.tensor([row[0] for row in BY_HAND])
    assert float(nll(logp, gold)) == pytest.approx(9 * math.log(2))
    assert float(ce_loss(logp, gold, 0.1)) == pytest.approx(9.0 * math.log(2), abs=1e-6)


def test_a_uniform_model_loses_log_v_whatever_the_smoothing() -> None:
    logp, gold = log_probs(torch.zeros(3, 50, dtype=torch.float64)), torch.tensor([0, 7, 49])
    for smoothing in (0.0, 0.1, 0.6):
        assert float(ce_loss(logp, gold, smoothing)) == pytest.approx(3 * math.log(50))


@given(SEEDS, st.floats(0.0, 0.9), st.integers(2, 40))
@settings(deadline=None)
def test_equals_torchs_form_at_eps_v_over_v_minus_1(seed: int, eps: float, vocab: int) -> None:
    """torch spreads eps over all V words, gold included; the released code over the V - 1 others."""
    logits, gold = random_logits(seed, vocab=vocab)
    theirs = eps * vocab / (vocab - 1)
    assume(theirs <= 1)  # torch allows no more
    expected = F.cross_entropy(logits, gold, label_smoothing=theirs, reduction="sum")
    torch.testing.assert_close(ce_loss(log_probs(logits), gold, eps), expected, rtol=1e-10, atol=1e-10)


@given(SEEDS, st.floats(0.01, 0.9))
@settings(deadline=None, max_examples=50)
def test_gradient_on_the_logits_is_p_minus_the_smoothed_target(seed: int, eps: float) -> None:
    logits, gold = random_logits(seed)
    target = torch.full_like(logits, eps / (logits.shape[1] - 1))
    target[torch.arange(len(gold)), gold] = 1 - eps
    torch.testing.assert_close(target.sum(dim=1), torch.ones(len(gold), dtype=torch.float64))
    logits.requires_grad_()
    (grad,) = torch.autograd.grad(ce_loss(log_probs(logits), gold, eps), logits)
    torch.testing.assert_close(grad, (probs(logits) - target).detach())


@given(SEEDS)
@settings(deadline=None, max_examples=50)
def test_without_smoothing_it_is_the_negative_log_likelihood(seed: int) -> None:
    logits, gold = random_logits(seed)
    logp = log_probs(logits)
    assert torch.equal(ce_loss(logp, gold, 0.0), nll(logp, gold))
    torch.testing.assert_close(nll(logp, gold), F.cross_entropy(logits, gold, reduction="sum"))
    # and continuously so: no jump between the two code paths
    torch.testing.assert_close(ce_loss(logp, gold, 1e-12), nll(logp, gold), rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_reduced_in_fp32(dtype: torch.dtype) -> None:
    logits, gold = random_logits(1, tokens=20_000, vocab=30, spread=6)
    half = logits.to(dtype)
    logp = log_probs(half)
    assert logp.dtype == probs(half).dtype == torch.float32
    loss = ce_loss(logp, gold, 0.1)
    exact = ce_loss(log_probs(half.double()), gold, 0.1)
    assert loss.dtype == torch.float32
    assert float(exact) > torch.finfo(torch.float16).max, "the sum does not fit fp16, so it would show"
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(probs(half).sum(dim=1), torch.ones(20_000), rtol=0, atol=1e-5)


def test_float64_stays_float64_and_huge_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], dtype=torch.float64)
    assert log_probs(logits).dtype == probs(logits).dtype == torch.float64
    assert log_probs(logits).tolist() == [[0.0, -2e4, -1e4]]
    assert math.isfinite(float(ce_loss(log_probs(logits.float()), torch.tensor([1]), 0.1)))
