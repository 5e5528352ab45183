"""Which numbers to compute with: fp32, bf16, fp16, or what is best on this machine, with the reason in words.

`auto` means: on CUDA bf16 where the card computes in it, else fp16. On a CPU fp32, but by the faster of PyTorch's two
routes for matrix products: its default library, or oneDNN. On processors of some makers the default takes a slow path,
and oneDNN is twice as fast at the same accuracy. On others the same switch makes PyTorch compute in bf16. So the switch
is tried out on one product, and used only if that stays exact and gets faster.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

EXACT, WORTH_IT = 1e-5, 1.2
"""Largest relative error that still is fp32 (measured: 1e-7 to 1e-6; bf16 is near 3e-3), smallest speed-up."""


@dataclass(frozen=True)
class Precision:
    """How forward and backward passes are computed; weights, losses and the optimiser are fp32 in any case."""

    dtype: torch.dtype | None = None
    """Autocast type; None is fp32."""
    onednn: bool = False
    """Whether fp32 matrix products on the CPU go through oneDNN."""
    why: str = "as asked"

    @property
    def scaled(self) -> bool:
        """Whether gradients are scaled against underflow (fp16 alone needs it)."""
        return self.dtype == torch.float16

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set PyTorch's global switch for the block, and put it back."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium" if self.onednn else before)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def choose(wanted: str, device: torch.device) -> Precision:
    """The precision for `fp32`, `bf16`, `fp16` or `auto` on a device."""
    if wanted != "auto":
        return Precision({"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted])
    if device.type == "cuda":
        return for_cuda(torch.cuda.get_device_capability(device))
    if device.type == "cpu":
        return for_cpu(*try_onednn())
    return Precision(why=f"auto: {device.type} computes in fp32 here")


def for_cuda(capability: tuple[int, int]) -> Precision:
    """From the compute capability: 8.0 (Ampere) and later multiply bf16 at full speed, which needs no scaling."""
    version = ".".join(map(str, capability))
    if capability >= (8, 0):
        return Precision(torch.bfloat16, why=f"auto: this card (compute capability {version}) is fast in bf16")
    return Precision(torch.float16, why=f"auto: this card (compute capability {version}) is fast in fp16, not bf16")


def for_cpu(error: float, speedup: float) -> Precision:
    """From what the trial product showed: its relative error, and how many times faster than by default it was."""
    if not error <= EXACT:  # NaN included
        return Precision(why=f"auto: fp32; oneDNN would compute with less precision here (relative error {error:.0e})")
    if speedup < WORTH_IT:
        return Precision(why=f"auto: fp32; oneDNN is no faster here ({speedup:.1f} times the default's speed)")
    return Precision(onednn=True, why=f"auto: fp32 through oneDNN, exact and {speedup:.1f} times as fast here")


@functools.cache
def try_onednn() -> tuple[float, float]:
    """(relative error against float64, speed-up over the default) of one product of usual size, once per process.

    Leaves PyTorch's random state and its switch as they were. Takes a few hundredths of a second.
    """
    rng = torch.Generator().manual_seed(0)
    a, b = torch.randn(1024, 512, generator=rng), torch.randn(512, 1024, generator=rng)
    exact = a.double() @ b.double()
    before = torch.get_float32_matmul_precision()
    seconds, error = {}, 0.0
    try:
        for route in ("highest", "medium"):
            torch.set_float32_matmul_precision(route)
            error = float((a @ b - exact).norm() / exact.norm())
            seconds[route] = min(_timed(a, b) for _ in range(5))
    finally:
        torch.set_float32_matmul_precision(before)
    return error, seconds["highest"] / seconds["medium"]


def _timed(a: torch.Tensor, b: torch.Tensor) -> float:
    started = time.perf_counter()
    torch.mm(a, b)
    return time.perf_counter() - started
