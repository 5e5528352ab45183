"""PyTorch's optimizers, without PyTorch's compiler."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


def _bare(method: Callable[..., Any]) -> Any:
    """The method without its wrappers."""
    plain = inspect.unwrap(method)

    def bare(self: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(self, *args, **kwargs)

    bare.__doc__ = "As in PyTorch."
    return bare


class Uncompiled(Optimizer):
    """PyTorch wraps five methods so that `torch.compile` recognises them. We never compile an optimizer.

    The first call of a wrapped method imports the whole compiler, which takes nearly as long as all other imports of a
    training together. What the methods compute is the same.
    """

    add_param_group = _bare(Optimizer.add_param_group)
    zero_grad = _bare(Optimizer.zero_grad)
    state_dict = _bare(Optimizer.state_dict)
    load_state_dict = _bare(Optimizer.load_state_dict)


class Adam(Uncompiled, torch.optim.Adam):
    """torch.optim.Adam."""

    step = torch.no_grad()(_bare(torch.optim.Adam.step))


class AdamW(Uncompiled, torch.optim.AdamW):
    """torch.optim.AdamW."""

    step = torch.no_grad()(_bare(torch.optim.AdamW.step))
