"""Copies of nested training state, and bitwise comparison of two of them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor


def clone(state: Any, device: str | None = None) -> Any:
    """A deep copy of nested dicts, lists and tuples, whose tensors share no memory with the original.

    device: where the copy's tensors are; None: where the originals are. `state_dict()` alone returns live references.
    The released code kept these instead of copies, so its rollback did not work.
    """
    if isinstance(state, Tensor):
        return state.detach().to(device or state.device, copy=True)
    if isinstance(state, dict):
        return {key: clone(value, device) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(clone(value, device) for value in state)
    return state


def differences(a: Any, b: Any, where: str = "state") -> Iterator[str]:
    """Names of all leaves in which two snapshots differ in type, shape or any bit (NaN equals itself)."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape
        if not same or not torch.equal(_bits(a), _bits(b)):
            yield where
    elif isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys(), key=str):
            if key in a and key in b:
                yield from differences(a[key], b[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}"
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            yield where
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            yield from differences(x, y, f"{where}.{i}")
    elif type(a) is not type(b) or (a != b and not (a != a and b != b)):
        yield where


def _bits(x: Tensor) -> Tensor:
    return x.detach().cpu().contiguous().view(torch.uint8) if x.numel() and x.dim() else x.detach().cpu().reshape(-1)


def preserved_rng() -> AbstractContextManager[None]:
    """Run a block without changing torch's random generators, on the CPU and on every CUDA device in use."""
    used = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
    return torch.random.fork_rng(used, device_type="cuda")
