"""A device to measure on: its clock and memory, and the sizes of what runs there. `gpu.py` has the measurements."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from benchmarks.overheads import now
from benchmarks.peers import SHAPES
from pmd_lite.data.batching import Batch
from pmd_lite.data.tokenizer import PAD
from pmd_lite.planning.timing import peak_memory

SHEET = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "L4": 121, "V100": 125, "T4": 65}
"""Dense 16-bit TFLOP/s by the makers' data sheets (of the SXM version if there are several)."""


@dataclass(frozen=True)
class Size:
    """The sizes of everything that is measured."""

    shape: str
    vocab: int
    big_vocab: int
    tokens: int
    accumulate: int
    steps: int
    pairs: int
    """Languages of the corpus for preset wmt6, and sentences of each (stand-ins have at most 4,000)."""
    each: int
    sentences: int
    length: int
    product: int


FULL = Size("base", 32_000, 64_000, 8192, 8, 6, 7, 4000, 256, 32, 8192)
TINY = Size("tiny", 200, 300, 256, 2, 2, 2, 60, 4, 6, 128)


@dataclass(frozen=True)
class Card:
    """A device, and the sizes and mode of what is measured on it."""

    device: torch.device
    size: Size
    compiled: bool

    def seconds(self, work: Callable[[], object], rounds: int = 3) -> float:
        """Median seconds over rounds, after one round that does not count."""
        taken = []
        for _ in range(1 + rounds):
            started = now(self.device)
            work()
            taken.append(now(self.device) - started)
        return statistics.median(taken[1:])

    def peak(self, work: Callable[[], object]) -> float:
        """Largest MiB while `work` runs, above what was allocated before."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated(self.device)
        else:
            before = 0
        with peak_memory(self.device) as peak:
            work()
        return (peak() - before) / 2**20

    def product(self) -> float:
        """TFLOP/s of a large square bf16 product."""
        n = self.size.product
        a, b = (torch.randn(n, n, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        return 2 * n**3 / self.seconds(lambda: a @ b) / 1e12


def flops(shape: str, vocab: int, batches: Sequence[Batch]) -> float:
    """Multiplications and additions of matrix products in training on these batches' real tokens: 3 x forward.

    All lengths are taken to be the mean of their batch, so the result errs by the spread of lengths inside a batch.
    """
    size, total = SHAPES[shape], 0.0
    d, ffn = size["d_model"], size["ffn"]
    for batch in batches:
        n = len(batch.rows)
        s, t = int(batch.src.ne(PAD).sum()) / n, batch.tokens / n
        encoder = size["encoder_layers"] * (s * (8 * d * d + 4 * d * ffn) + 4 * s * s * d)
        decoder = size["decoder_layers"] * (
            t * (12 * d * d + 4 * d * ffn) + 4 * s * d * d + 4 * t * t * d + 4 * s * t * d
        )
        total += 3 * n * (encoder + decoder + 2 * t * d * vocab)
    return total


def waits(card: Card, work: Callable[[], object]) -> str:
    """How often the host waited for the device, as PyTorch's sync debug mode counts; only CUDA has this mode."""
    if card.device.type != "cuda":
        return "not seen on a CPU (tests/library/test_no_sync.py looks there)"
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    found = sorted({f"{w.filename}:{w.lineno}" for w in heard if "synchroniz" in str(w.message)})
    return f"{len(found)} places {found}" if found else "none"
