"""Train mode or eval mode inside a block."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """The model in train mode (dropout active) or in eval mode inside the block, and as it was afterwards."""
    before = model.training
    if before != training:  # setting a mode visits every module
        model.train(training)
    try:
        yield
    finally:
        if model.training != before:
            model.train(before)
