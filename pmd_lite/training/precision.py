"""The precision of a run: fp32, bf16, fp16, or the best one on this machine, with the reason in words.

`auto` on CUDA means bf16 if the card computes in it, else fp16. `auto` on a CPU tries a matrix product of the model's
size in three ways: with PyTorch's default library, with oneDNN, and in bf16. On some processors oneDNN is twice as fast
at the same accuracy. On others the same switch makes PyTorch compute in bf16, so it is used only if the product stays
exact. bf16 autocast is several times as fast on processors with instructions for it, and ten times as slow on others.
"""

import functools
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

EXACT, WORTH_IT, BF16_WORTH_IT = 1e-5, 1.2, 2.0
"""Largest relative error that counts as fp32 (measured: 1e-7 to 1e-6; bf16: about 3e-3); smallest speed-ups of a
product for which oneDNN and bf16 are used (at 2.3 an update was 1.5 times as fast, at 3.8 twice, at 1.5 slower)."""


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
        """Whether gradients are scaled against underflow (only fp16 needs it)."""
        return self.dtype == torch.float16

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set PyTorch's global switch inside the block; afterwards it is as before."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium" if self.onednn else before)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def choose(wanted: str, device: torch.device, d_model: int = 512) -> Precision:
    """The precision for `fp32`, `bf16`, `fp16` or `auto` on a device, for a model of this width."""
    if wanted != "auto":
        return Precision({"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted])
    if device.type == "cuda":
        return for_cuda(torch.cuda.get_device_capability(device))
    if device.type == "cpu":
        return for_cpu(*try_products(d_model))
    return Precision(why=f"auto: {device.type} computes in fp32 here")


def for_cuda(capability: tuple[int, int]) -> Precision:
    """By compute capability: 8.0 (Ampere) and later multiply bf16 at full speed, and bf16 needs no scaling."""
    card = f"auto: this card (compute capability {'.'.join(map(str, capability))}) is fast in"
    if capability >= (8, 0):
        return Precision(torch.bfloat16, why=f"{card} bf16")
    return Precision(torch.float16, why=f"{card} fp16, not bf16")


def for_cpu(error: float, onednn: float, bf16: float) -> Precision:
    """By a trial product: oneDNN's relative error, its speed-up over the default library, and that of bf16."""
    exact = error <= EXACT  # False for NaN
    fp32 = onednn if exact and onednn >= WORTH_IT else 1.0
    if bf16 >= BF16_WORTH_IT * fp32:
        return Precision(torch.bfloat16, why=f"auto: bf16, in which products are {bf16:.1f} times as fast here")
    if fp32 > 1:
        return Precision(onednn=True, why=f"auto: fp32 through oneDNN, exact and {onednn:.1f} times as fast here; "
                                          "it keeps kernels for up to 1,024 shapes in memory")  # fmt: skip
    if exact:
        return Precision(why=f"auto: fp32; oneDNN is not faster here ({onednn:.1f} times the default's speed)")
    return Precision(why=f"auto: fp32; oneDNN would compute with less precision here (relative error {error:.0e})")


@functools.cache
def try_products(d_model: int) -> tuple[float, float, float]:
    """(oneDNN's relative error against float64, its speed-up over the default, that of bf16), once per process.

    The product is that of a feed-forward layer on a thousand tokens. For bf16, the time includes the conversions, as
    under autocast. PyTorch's random state and switch stay as they were. It takes a few hundredths of a second.
    """
    rng = torch.Generator().manual_seed(0)
    x, w = torch.randn(1024, d_model, generator=rng), torch.randn(d_model, 4 * d_model, generator=rng)
    half = w.bfloat16()
    exact = x.double() @ w.double()
    with Precision().active():  # afterwards PyTorch's switch is as before
        torch.set_float32_matmul_precision("highest")
        default, bf16 = _seconds(lambda: x @ w), _seconds(lambda: (x.bfloat16() @ half).float())
        torch.set_float32_matmul_precision("medium")
        onednn, error = _seconds(lambda: x @ w), float((x @ w - exact).norm() / exact.norm())
    return error, default / onednn, default / bf16


def _seconds(compute: Callable[[], object]) -> float:
    """The least of five, after one to warm up."""
    return min(timeit.repeat(compute, number=1, repeat=6)[1:])
