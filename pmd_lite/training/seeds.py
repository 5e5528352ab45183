"""Seeds for everything that is random in training. Each use has a stream of its own, so that none disturbs another."""

from enum import IntEnum

import numpy as np
import torch


class Stream(IntEnum):
    """What a random number is for. A value is part of every seed: another value would make other runs."""

    INIT = 0
    """Initial weights."""
    DROPOUT = 1
    """A student's dropout, in training and in trials."""
    DRAW = 2
    """Which pair comes next."""
    ORDER = 3
    """The order of a pair's sentences."""
    TRIAL = 4
    """The sentences of D_trial."""
    TEACHER = 5
    """A teacher's dropout (only the released code has it)."""
    PROBE = 6
    """The small batches of a probe, and dropout on them."""


def derive_seed(*parts: int) -> int:
    """One 63-bit seed from several numbers; neighbouring inputs give unrelated seeds."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def seed_torch(seed: int) -> None:
    """Seed the generators of the CPU and of the GPU in use.

    torch.manual_seed does the same, but it writes down the whole call stack as long as no GPU is in use: a millisecond.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
