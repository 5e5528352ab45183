"""A training small enough to read at a glance, with all that makes a real one hard to restart (lesson 04)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pmd_lite.errors import UserError
from pmd_lite.model.optimizer import Adam
from pmd_lite.training.learner import learning_rate
from pmd_lite.training.snapshot import clone

PEAK, WARMUP, BATCH, DROPOUT = 0.05, 8, 4, 0.2
ROWS, FEATURES, WORDS = 18, 6, 5


class SmallTraining:
    """Learns to guess one of five words from six numbers: dropout, Adam, warm-up, and a new order of data each pass."""

    def __init__(self, seed: int):
        fixed = torch.Generator().manual_seed(0)
        self.data = torch.randn(ROWS, FEATURES, generator=fixed)  # [rows, features]
        self.gold = torch.randint(WORDS, (ROWS,), generator=fixed)  # [rows]
        self.generator = torch.Generator().manual_seed(seed)
        self.weights = torch.randn(FEATURES, WORDS, generator=self.generator).requires_grad_()
        self.optimizer = Adam([self.weights], lr=PEAK)
        self.updates = 0
        self.order: list[int] = []

    def step(self) -> float:
        """One update; returns its loss in nats per word."""
        self.updates += 1
        self.optimizer.param_groups[0]["lr"] = learning_rate(self.updates, PEAK, WARMUP)
        if not self.order:  # a new pass over the data
            self.order = torch.randperm(ROWS, generator=self.generator).tolist()
        rows, self.order = self.order[:BATCH], self.order[BATCH:]
        kept = torch.rand(len(rows), FEATURES, generator=self.generator) >= DROPOUT
        loss = F.cross_entropy(self.data[rows] * kept / (1 - DROPOUT) @ self.weights, self.gold[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def checkpoint(training: SmallTraining) -> dict[str, Any]:
    """All that a restart needs, as copies."""
    return clone({
        "weights": training.weights, "optimizer": training.optimizer.state_dict(), "updates": training.updates,
        "order": training.order, "generator": training.generator.get_state(),
    })  # fmt: skip


def load(training: SmallTraining, saved: Mapping[str, Any]) -> None:
    """Put back all parts that were saved, under the names that `checkpoint` uses; a missing part does not change.

    A saved learning rate ("lr") may be there too. Raises UserError for another name.
    """
    known = ("weights", "optimizer", "updates", "order", "generator", "lr")
    if unknown := [name for name in saved if name not in known]:
        raise UserError(f"load knows {', '.join(known)}; it does not know {', '.join(map(str, unknown))}")
    if "weights" in saved:
        with torch.no_grad():
            training.weights.copy_(saved["weights"])
    if "optimizer" in saved:
        training.optimizer.load_state_dict(saved["optimizer"])
    if "updates" in saved:
        training.updates = saved["updates"]
    if "order" in saved:
        training.order = list(saved["order"])
    if "generator" in saved:
        training.generator.set_state(saved["generator"])
    if "lr" in saved:
        training.optimizer.param_groups[0]["lr"] = saved["lr"]


def restarted(make: Any, seed: int, before: int, after: int) -> Tensor:
    """Train, save with `make`, continue to train; then a new training loads what was saved and repeats the updates.

    make: SmallTraining -> what to save. Returns the weights at the end of the restarted training, [features, words].
    """
    training = SmallTraining(seed)
    for _ in range(before):
        training.step()
    saved = make(training)
    if saved is None or saved is Ellipsis:
        raise NotImplementedError
    for _ in range(after):  # references that were saved in place of copies now hold the end of training
        training.step()
    fresh = SmallTraining(seed)
    load(fresh, saved)
    for _ in range(after):
        fresh.step()
    return fresh.weights.detach()
