"""What a run has computed so far, by purpose: the currency in which methods are compared at equal compute."""

from __future__ import annotations

from pmd_lite.data.batching import Batch, Draw

FORWARD, FORWARD_AND_BACKWARD = 1, 3
PURPOSES = ("train", "teacher", "trial", "probe", "dev")


class Cost:
    """Target tokens sent through a model, times 1 for a forward pass and 3 for one with its backward pass.

    train: the students' own updates. teacher: what teachers predict for them. trial: Alg. 2, its teachers and its dev
    losses included. probe: whatever else a strategy asks for. dev: the evaluations that every run makes.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, int] = dict.fromkeys(PURPOSES, 0)

    def add(self, purpose: str, batch: Batch | Draw, passes: int) -> None:
        """Count `passes` forward passes (a backward pass is two) over one batch."""
        self.tokens[purpose] += passes * batch.tokens

    def state_dict(self) -> dict[str, int]:
        """The counts."""
        return dict(self.tokens)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Inverse of `state_dict`."""
        self.tokens = dict(state)
