"""Seconds of an update on several processes: gradients summed in one blocking message, or in buckets that overlap.

    python -m benchmarks.summing [--processes 2] [--shape small] [--tokens 1000] [--accumulate 2] [--rounds 8]

blocking: after the last backward pass, all gradients are copied into one tensor, summed, and copied back. buckets: what
the library does (`training.gradients`), fp32 or bf16 messages; smaller: the same with buckets of 1 MiB. All ways take
turns in one run, on the same random batches, through gloo on this machine. Clock: wall time between two barriers; the
median of the rounds, and its ratio to blocking. Below the ratios: seconds of the update without any sum.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import pmd_lite as pmd
from benchmarks.peers import SHAPES
from benchmarks.training import make_batches
from pmd_lite.evaluation.tables import Table
from pmd_lite.training import gradients
from pmd_lite.training.distributed import ALONE, Group
from pmd_lite.training.learner import Learner

VOCAB = 8000


class Blocking(gradients.SummedGradients):
    """One message after the last backward pass, as before 2026-11-29."""

    def __init__(self, learner: Learner, group: Group):
        super().__init__(learner.model, ALONE)
        self.learner, self.ranks = learner, group

    def finish(self, extra: torch.Tensor) -> None:
        """Copy, send, copy back."""
        parameters = list(self.learner.model.parameters())
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([x.reshape(-1) for x in (*found, extra)])
        dist.all_reduce(flat)
        parts = flat.split([x.numel() for x in (*found, extra)])
        for parameter, part in zip(parameters, parts[:-1], strict=True):
            parameter.grad = part.view_as(parameter)


def rank_of(rank: int, words: argparse.Namespace, store: str) -> None:
    """One process; the first prints."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, words.processes), rank=rank,
                            world_size=words.processes)  # fmt: skip
    group = Group(rank, words.processes)
    config = pmd.preset("small", **SHAPES[words.shape], vocab_size=VOCAB, device="cpu")
    learner = Learner(VOCAB, config, torch.device("cpu"), 1)
    batches = make_batches(VOCAB, words.tokens, words.accumulate * words.processes, 25.0)[rank :: words.processes]
    tokens, whole = words.processes * sum(batch.tokens for batch in batches), gradients.BUCKET

    def update(begin: Callable[[], gradients.SummedGradients]) -> float:
        learner.begin()
        dist.barrier()
        started = time.perf_counter()
        learner.gradients = begin()
        for micro, batch in enumerate(batches):
            learner.accumulate(batch, 0.0, None, None, tokens, micro, last=micro == len(batches) - 1)
        learner.finish()
        dist.barrier()
        return time.perf_counter() - started

    def buckets(sent_as: torch.dtype = torch.float32, size: int = whole) -> gradients.SummedGradients:
        gradients.BUCKET = size
        return gradients.SummedGradients(learner.model, group, sent_as)

    ways: dict[str, Callable[[], gradients.SummedGradients]] = {
        "blocking": lambda: Blocking(learner, group), "buckets": buckets, "smaller": lambda: buckets(size=2**20),
        "bf16": lambda: buckets(torch.bfloat16),
        "no sum": lambda: gradients.SummedGradients(learner.model, ALONE),
    }  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(1 + words.rounds):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            seconds = update(ways[name])
            taken[name] += [seconds] if turn else []
    if not rank:
        middle = {name: statistics.median(times) for name, times in taken.items()}
        rows: list[list[str | float]] = [
            [name, f"{x:.3f}", f"{min(taken[name]):.3f}", f"{x / middle['blocking']:.2f}"] for name, x in middle.items()
        ]
        size = sum(p.numel() for p in learner.model.parameters())
        print(
            f"{words.processes} processes, {size / 1e6:.1f} M parameters, {words.accumulate} x {words.tokens:,} tokens"
        )
        print(Table(["gradients", "median s / update", "least", "ratio"], rows, best=None).to_text())
    dist.destroy_process_group()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches of each process")
    parser.add_argument("--rounds", type=int, default=8)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(rank_of, (words, str(Path(folder) / "store")), words.processes, start_method="spawn")


if __name__ == "__main__":
    main()
