"""Peak memory of training on a CPU: fp32 as it is, fp32 through oneDNN, and bf16, which oneDNN computes too.

    python -m benchmarks.shapes_memory [--seconds 20] [--only onednn bf16]

oneDNN keeps compiled kernels for the shapes of products that it has met, by default the last 1,024, and every batch has
other shapes. So each precision also runs with a smaller cache (ONEDNN_PRIMITIVE_CACHE_CAPACITY), with sentences padded
to a multiple of 8 tokens, and with both. Preset small (2,500 pieces), random sentences of 25 tokens on average, one
thread; each row is a process of its own. Peak: ru_maxrss, less what the process holds before the first update.
Speed: target tokens per CPU second after the first five batches.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import pmd_lite as pmd
from benchmarks.training import make_batches
from pmd_lite.data.batching import Batch
from pmd_lite.data.tokenizer import PAD
from pmd_lite.evaluation.tables import Table
from pmd_lite.planning.timing import memory_now
from pmd_lite.training.learner import Learner
from pmd_lite.training.precision import Precision

VOCAB, MULTIPLE = 2500, 8
PRECISIONS = {"fp32": Precision(), "onednn": Precision(onednn=True), "bf16": Precision(torch.bfloat16)}
CACHES = ("", "64", "16", "0")
"""Values of ONEDNN_PRIMITIVE_CACHE_CAPACITY; "": oneDNN's own, 1,024."""


def padded(batch: Batch) -> Batch:
    """The batch with both sides padded to a multiple of 8; the kept tokens stay the same."""
    sides = [F.pad(x, (0, -x.shape[1] % MULTIPLE), value=PAD) for x in (batch.src, batch.trg_in)]
    column = batch.keep - batch.sentence * batch.trg_in.shape[1]
    return replace(batch, src=sides[0], trg_in=sides[1], keep=batch.sentence * sides[1].shape[1] + column)


def one(precision: str, pads: bool, seconds: float) -> None:
    """One row, as JSON."""
    torch.set_num_threads(1)
    config = pmd.preset("small", vocab_size=VOCAB, device="cpu")
    learner = Learner(VOCAB, config, torch.device("cpu"), 1)
    learner.use(PRECISIONS[precision])
    batches = make_batches(VOCAB, config.train.tokens, 400, 25.0)
    before, started, tokens, done = memory_now(torch.device("cpu")), 0.0, 0, 0
    shapes: set[tuple[int, ...]] = set()
    with learner.precision.active():
        while done < len(batches) and (done < 10 or time.process_time() - started < seconds):
            batch = padded(batches[done]) if pads else batches[done]
            shapes.add((*batch.src.shape, batch.trg_in.shape[1]))
            learner.begin()
            learner.accumulate(batch, 0.0, None, None, batch.tokens, 0)
            learner.finish()
            done, tokens = done + 1, tokens + batch.tokens
            if done == 5:
                started, tokens = time.process_time(), 0
    speed = tokens / (time.process_time() - started)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([done, len(shapes), speed, before / 2**20, (peak - before) / 2**20]))


def processor() -> str:
    """Its name and the instructions that matter here."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = next((line.partition(": ")[2] for line in text.split("\n") if line.startswith("model name")), "unknown")
    flags = next((line.split() for line in text.split("\n") if line.startswith("flags")), [])
    return f"{name}; " + ", ".join(
        f"{flag}: {'yes' if flag in flags else 'no'}" for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds of a row")
    parser.add_argument("--only", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--caches", nargs="+", default=list(CACHES))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        one(words.one[0], words.one[1] == "padded", words.seconds)
        return
    print(f"{processor()}; PyTorch {torch.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    rows: list[list[str | float]] = []
    for precision in words.only:
        for cache in words.caches if precision != "fp32" else [""]:
            for pads in ("as it is", "padded"):
                command = [sys.executable, "-m", "benchmarks.shapes_memory", "--seconds", str(words.seconds), "--one"]
                environment = {**os.environ, **({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": cache} if cache else {})}
                done = subprocess.run([*command, precision, pads], env=environment, check=True, capture_output=True)
                batches, shapes, speed, before, grown = json.loads(done.stdout)
                row = [f"{speed:,.0f}", f"{before:,.0f}", f"{grown:,.0f}"]
                rows.append([precision, cache or "1024", pads, str(batches), str(shapes), *row])
                print(" | ".join(map(str, rows[-1])), flush=True)
    columns = ["precision", "cache", "lengths", "updates", "shapes", "tokens / CPU s", "MiB before", "grown by"]
    print(Table(columns, rows, best=None).to_text())


if __name__ == "__main__":
    main()
