"""Checks of lesson 04: the smoothed target, perplexity, accumulation, the learning rate, what a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_kit.l04.small_training import SmallTraining, checkpoint, restarted
from pmd_lite.training.learner import learning_rate
from pmd_lite.training.snapshot import clone


def smoothed_target(gold: Tensor, vocab: int, eps: float) -> Tensor:
    """1 - eps on the gold token, eps / (V - 1) on every other. [tokens] -> [tokens, vocab]."""
    return _target(gold, vocab, 1 - eps, eps / (vocab - 1))


def _target(gold: Tensor, vocab: int, on_gold: float, on_others: float) -> Tensor:
    target = torch.full((len(gold), vocab), on_others)
    target[torch.arange(len(gold)), gold] = on_gold
    return target


SMOOTHED = Exercise(
    "smoothed", smoothed_target,
    lambda rng: [(torch.tensor([2, 0]), 5, 0.1), (torch.tensor([1, 1, 3]), 4, 0.3),
                 (torch.from_numpy(rng.integers(0, 7, size=6)), 7, float(rng.uniform(0.05, 0.5)))],
    [
        Mistake("You share eps among all V words, the gold word too, as torch does. In our form (fairseq's, which the "
                "paper used) the V - 1 others share it and the gold word has exactly 1 - eps.",
                lambda gold, vocab, eps: _target(gold, vocab, 1 - eps + eps / vocab, eps / vocab)),
        Mistake("The rows do not add up to 1: V - 1 words share eps, so each gets eps / (V - 1), not eps / V.",
                lambda gold, vocab, eps: _target(gold, vocab, 1 - eps, eps / vocab)),
        Mistake("The gold word still has 1: take eps away from it, so that the rows add up to 1.",
                lambda gold, vocab, eps: _target(gold, vocab, 1.0, eps / (vocab - 1))),
        Mistake("You take the others' share away from the gold word once more: it has 1 - eps. (That difference is "
                "what ce_loss multiplies the gold word with, because there all words get the others' share first.)",
                lambda gold, vocab, eps: _target(gold, vocab, 1 - eps - eps / (vocab - 1), eps / (vocab - 1))),
        Mistake("Every other word gets the whole eps. They share it: divide by V - 1.",
                lambda gold, vocab, eps: _target(gold, vocab, 1 - eps, eps)),
        Mistake("Upside down: the gold word gets 1 - eps, the others share eps.",
                lambda gold, vocab, eps: _target(gold, vocab, eps, (1 - eps) / (vocab - 1))),
        Mistake("eps has no effect: this is the one-hot target.",
                lambda gold, vocab, eps: _target(gold, vocab, 1.0, 0.0)),
        Mistake("Rows and columns are swapped: the shape is [tokens, vocab].",
                lambda gold, vocab, eps: smoothed_target(gold, vocab, eps).T),
        Mistake("The gold word gets a share of eps on top of its 1 - eps: the rows add up to more than 1.",
                lambda gold, vocab, eps: _target(gold, vocab, 1 - eps + eps / (vocab - 1), eps / (vocab - 1))),
        Mistake("The other words get nothing: what is taken from the gold word must be shared among them.",
                lambda gold, vocab, eps: _target(gold, vocab, 1 - eps, 0.0)),
    ],
    library=("ce_loss",),
)  # fmt: skip


def _nats(logp: Tensor, gold: Tensor) -> Tensor:
    """[batch, trg_len, vocab], [batch, trg_len] -> [batch, trg_len] nats."""
    return -logp.gather(2, gold[:, :, None])[:, :, 0]


def perplexity(logp: Tensor, gold: Tensor, pad: int) -> float:
    """exp of the nats per real target token. logp [batch, trg_len, vocab], gold [batch, trg_len]."""
    real = gold != pad
    return math.exp(_nats(logp, gold)[real].sum() / real.sum())


def _perplexity_cases(rng: np.random.Generator) -> Sequence[Case]:
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 30)))
    found = []
    for lengths in ([5, 2, 1], [3, 7], [4, 1, 2, 6]):
        gold = torch.randint(1, 9, (len(lengths), max(lengths)), generator=generator)
        for row, length in enumerate(lengths):
            gold[row, length:] = 0
        logits = torch.randn(*gold.shape, 9, generator=generator)
        found.append((logits.log_softmax(-1), gold, 0))
    return found


def _ragged(logp: Tensor, gold: Tensor, pad: int) -> list[Tensor]:
    """The nats of each sentence."""
    return [row[keep] for row, keep in zip(_nats(logp, gold), gold != pad, strict=True)]


PERPLEXITY = Exercise(
    "perplexity", perplexity, _perplexity_cases,
    [
        Mistake("Padding is counted, as if pad were a word to be guessed: leave out the places where gold == pad.",
                lambda logp, gold, pad: math.exp(_nats(logp, gold).mean())),
        Mistake("You leave padding out of the sum, but divide by all places: divide by the real tokens.",
                lambda logp, gold, pad: math.exp(_nats(logp, gold)[gold != pad].sum() / gold.numel())),
        Mistake("You average sentence by sentence, and then over the sentences: a word in a short one counts more. "
                "Divide the sum of all by the number of all.",
                lambda logp, gold, pad: math.exp(torch.stack([s.mean() for s in _ragged(logp, gold, pad)]).mean())),
        Mistake("These are nats per token; the perplexity is e to that power.",
                lambda logp, gold, pad: math.log(perplexity(logp, gold, pad))),
        Mistake("The logarithms are natural ones, so it is e, not 2, that is raised to the mean.",
                lambda logp, gold, pad: 2 ** math.log(perplexity(logp, gold, pad))),
        Mistake("You forget to divide by the number of tokens: that is 1 over the probability of the whole batch.",
                lambda logp, gold, pad: math.exp(_nats(logp, gold)[gold != pad].sum())),
        Mistake("You take the mean of 1/p over the tokens. First the mean of the nats, then e to its power.",
                lambda logp, gold, pad: float(_nats(logp, gold)[gold != pad].exp().mean())),
        Mistake("The sign: a loss is *minus* the log-probability, so a perplexity is never below 1.",
                lambda logp, gold, pad: 1 / perplexity(logp, gold, pad)),
        Mistake("You average the perplexities of the sentences. Average the nats over all tokens first, then exp.",
                lambda logp, gold, pad: float(torch.stack([s.mean().exp() for s in _ragged(logp, gold, pad)]).mean())),
        Mistake("You divide by the sentences. That is nats per sentence; a perplexity is per token.",
                lambda logp, gold, pad: math.exp(_nats(logp, gold)[gold != pad].sum() / len(gold))),
    ],
)  # fmt: skip

Micro = tuple[Tensor, Tensor]
"""A micro-batch: inputs [tokens, features] and the gold word of each, [tokens]."""


def update_gradient(weight: Tensor, batches: Sequence[Micro]) -> Tensor:
    """Gradient of the mean loss over all tokens of all micro-batches, [features, vocab]."""
    tokens = sum(len(gold) for _, gold in batches)
    return torch.stack([_sum_gradient(weight, batch) for batch in batches]).sum(0) / tokens


def _sum_gradient(weight: Tensor, batch: Micro) -> Tensor:
    """Gradient of one micro-batch's summed loss."""
    weight = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(F.cross_entropy(batch[0] @ weight, batch[1], reduction="sum"), weight)
    return gradient


def _mean_gradient(weight: Tensor, batch: Micro) -> Tensor:
    return _sum_gradient(weight, batch) / len(batch[1])


def _each(of: Callable[[Tensor, Micro], Tensor], weight: Tensor, batches: Sequence[Micro]) -> Tensor:
    return torch.stack([of(weight, batch) for batch in batches])  # [micro-batch, features, vocab]


def _micro_batches(rng: np.random.Generator) -> Sequence[Case]:
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 30)))
    found = []
    for sizes in ([8, 2, 5], [1, 9], [4, 7, 3, 20]):
        batches = [(torch.randn(n, 3, generator=generator), torch.randint(6, (n,), generator=generator)) for n in sizes]
        found.append((torch.randn(3, 6, generator=generator), batches))
    return found


GRADIENT = Exercise(
    "gradient", update_gradient, _micro_batches,
    [
        Mistake("The mean of means: every micro-batch weighs the same, so a token in a small one weighs more. Add up "
                "the *summed* losses and divide once, by the tokens of all micro-batches.",
                lambda weight, batches: _each(_mean_gradient, weight, batches).mean(0)),
        Mistake("You add up the means and never divide: with more micro-batches the step gets longer, and a token in a "
                "small one weighs more.", lambda weight, batches: _each(_mean_gradient, weight, batches).sum(0)),
        Mistake("The sum is right; divide it by the tokens of all micro-batches together.",
                lambda weight, batches: _each(_sum_gradient, weight, batches).sum(0)),
        Mistake("You divide by the number of micro-batches instead of the number of tokens.",
                lambda weight, batches: _each(_sum_gradient, weight, batches).mean(0)),
        Mistake("Only the last micro-batch is left: gradients are set to zero (or overwritten) inside the loop.",
                lambda weight, batches: _mean_gradient(weight, batches[-1])),
        Mistake("The sum of all gradients, divided by the tokens of the last micro-batch alone.",
                lambda weight, batches: _each(_sum_gradient, weight, batches).sum(0) / len(batches[-1][1])),
        Mistake("The gradient is 0: it is set to zero after backward(), or nothing was added up.",
                lambda weight, batches: torch.zeros_like(weight)),
        Mistake("Only the first micro-batch counts: the loop returns too early.",
                lambda weight, batches: _mean_gradient(weight, batches[0])),
        Mistake("The sign: return the gradient itself. The optimiser takes the step in the other direction.",
                lambda weight, batches: -update_gradient(weight, batches)),
    ],
)  # fmt: skip


def _rates(rng: np.random.Generator) -> Sequence[Case]:
    steps = [1, 75, 150, 151, 600, int(rng.integers(2, 149)), int(rng.integers(152, 5000))]
    return [*((t, 0.004, 150) for t in steps), (4000, 0.0015, 4000), (64000, 0.0015, 4000)]


RATE = Exercise(
    "rate", learning_rate, _rates,
    [
        Mistake("There is no warm-up: before update `warmup` the rate is higher than the peak.",
                lambda t, peak, warmup: peak * math.sqrt(warmup / t)),
        Mistake("It never falls: after the warm-up comes the inverse square root.",
                lambda t, peak, warmup: peak * min(t / warmup, 1.0)),
        Mistake("You take the larger of the two curves; the rate is the smaller.",
                lambda t, peak, warmup: peak * max(t / warmup, math.sqrt(warmup / t))),
        Mistake("Off by one: `t` counts from 1, and the first update already learns. Do not subtract.",
                lambda t, peak, warmup: peak * min((t - 1) / warmup, math.sqrt(warmup / max(t - 1, 1)))),
        Mistake("After the warm-up the rate jumps: it is peak * sqrt(warmup / t), which is the peak at t = warmup.",
                lambda t, peak, warmup: peak * min(t / warmup, 1 / math.sqrt(t))),
        Mistake("That falls like 1/t. Take the square root.",
                lambda t, peak, warmup: peak * min(t / warmup, warmup / t)),
        Mistake("You begin to count again after the warm-up; t stays the number of all updates.",
                lambda t, peak, warmup: peak * (t / warmup if t <= warmup else 1 / math.sqrt(t - warmup + 1))),
        Mistake("The warm-up is a straight line, not a root.",
                lambda t, peak, warmup: peak * min(math.sqrt(t / warmup), math.sqrt(warmup / t))),
        Mistake("The warm-up never ends: after update `warmup` the rate falls.",
                lambda t, peak, warmup: peak * t / warmup),
        Mistake("peak has no effect: it multiplies both parts.",
                lambda t, peak, warmup: learning_rate(t, 1.0, warmup)),
    ],
    tolerance=1e-9,
    library=("learning_rate",),
)  # fmt: skip


def _without(*names: str) -> Callable[[SmallTraining], dict[str, Any]]:
    return lambda training: {name: part for name, part in checkpoint(training).items() if name not in names}


def _references(training: SmallTraining, cloned: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `checkpoint` saves, but not copied."""
    saved = {"weights": training.weights, "optimizer": training.optimizer.state_dict(), "updates": training.updates,
             "order": training.order, "generator": training.generator.get_state()}  # fmt: skip
    return {name: clone(part) if name in cloned else part for name, part in saved.items()}


CHECKPOINT = Exercise(
    "checkpoint", checkpoint,
    lambda rng: [(1, 7, 5), (int(rng.integers(3, 1000)), int(rng.choice([6, 8, 9])), 4)],
    [
        Mistake("References, not copies: the training continued and changed what you had saved. Copy tensors when you "
                "save "
                "(clone, copy.deepcopy); state_dict() gives references too.", _references),
        Mistake("The weights are copies, but the optimiser's state_dict() holds references to tensors that training "
                "continues to change. Copy it as well.", lambda t: _references(t, ("weights",))),
        Mistake("The optimiser is copied, but the weights are a reference, and the training continued to change them.",
                lambda t: _references(t, ("optimizer",))),
        Mistake("The weights alone are a model, not a training: Adam, the schedule, the data and the random numbers "
                "all begin anew.", _without("optimizer", "updates", "order", "generator")),
        Mistake("Adam is missing: it starts with empty moments and takes another step.", _without("optimizer")),
        Mistake("The number of updates is missing: the learning rate warms up once more.", _without("updates")),
        Mistake("The rest of the pass is missing: the restarted training begins a new pass in its middle.",
                _without("order")),
        Mistake("The random generator is missing: dropout and the next shuffle repeat those of the beginning.",
                _without("generator")),
        Mistake("The position in the data is missing twice: the rest of this pass, and the generator that shuffles the "
                "next one.", _without("order", "generator")),
        Mistake("The weights are missing: the restarted training begins with untrained ones.", _without("weights")),
    ],
    through=lambda answer, case: restarted(answer, *case),
    tolerance=0.0,
)  # fmt: skip
