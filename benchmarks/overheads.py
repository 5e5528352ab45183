"""What looking costs: Auto-PMD's search beside the training it serves, MultiDDS-S with 2 L gradients beside L + L^2.

    python -m benchmarks.overheads [--corpus longtail] [--preset toy] [--epochs 2]

Prints ratios of times taken in one process, and of passes counted by the trainer. The paper gives 30 % of training time
for the search.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_lite.building import make_distiller, make_samplers
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.evaluation.tables import Table
from pmd_lite.methods import get_method
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import Trainer


def make_trainer(method: str, encoded: EncodedCorpus, config: pmd.Config, folder: str) -> Trainer:
    """A trainer that has not begun."""
    row = get_method(method)
    samplers = make_samplers(row.samplers, encoded.sizes, config)
    distiller = make_distiller(row.distiller, row.options, config)
    return Trainer(encoded, config, samplers, distiller, RunDir(Path(folder)), "off", first_seat=row.first_seat)


def advance(trainer: Trainer, updates: int) -> float:
    """Train for some updates without anything in between; returns seconds."""
    started = time.perf_counter()
    for _ in range(updates):
        trainer.clock = dataclasses.replace(trainer.clock, step=trainer.clock.step + 1)
        for student in trainer.students:
            trainer.update(student)
    return time.perf_counter() - started


def search_overhead(trainer: Trainer, epochs: int) -> tuple[float, float]:
    """(time, passes) of one search per epoch, as a share of the epoch's training."""
    training = searching = 0.0
    for _ in range(epochs):
        training += advance(trainer, trainer.clock.epoch)
        started = time.perf_counter()
        trainer.distiller.update(trainer.probe)
        searching += time.perf_counter() - started
    passes = trainer.cost.tokens
    return searching / training, passes["trial"] / (passes["train"] + passes["teacher"])


def scorer_overhead(trainer: Trainer, tokens: int) -> tuple[float, float]:
    """Seconds of one MultiDDS-S update here, and of the published one's L + L^2 gradients."""
    pairs = range(len(trainer.encoded.pairs))
    started = time.perf_counter()
    trainer.students[0].sampler.update(0, trainer.probe)
    ours = time.perf_counter() - started
    started = time.perf_counter()
    for pair in pairs:
        trainer.probe.gradient(0, "valid", pair, tokens)
        for _ in pairs:
            trainer.probe.gradient(0, "train", pair, tokens)
    return ours, time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="longtail")
    parser.add_argument("--preset", default="toy")
    parser.add_argument("--epochs", type=int, default=2)
    words = parser.parse_args()
    torch.set_num_threads(1)
    corpus, config = pmd.load_corpus(words.corpus), pmd.preset(words.preset, start=0.0)
    encoded = encode_corpus(corpus, train_tokenizer(corpus, config.tokenizer), config.model.max_len)
    with tempfile.TemporaryDirectory() as folder:
        auto = make_trainer("auto-pmd", encoded, config, folder)
        seconds, passes = search_overhead(auto, words.epochs)
        scorer = make_trainer("multidds-s", encoded, config, folder)
        epoch = advance(scorer, scorer.clock.epoch)
        ours, published = scorer_overhead(scorer, config.sampling.probe_tokens)
    n, rho = len(encoded.pairs), config.distill.trial_ratio
    rows = [
        ["Auto-PMD search / its training, time", f"{seconds:.0%}", "paper: 30 %"],
        ["Auto-PMD search / its training, passes", f"{passes:.0%}",
         f"20 rho / 8 F = {20 * rho / 8:.0%} without dev losses and the least trial batches of small pairs"],
        ["MultiDDS-S update / an epoch of training, time", f"{ours / epoch:.0%}", f"2 L = {2 * n} gradients"],
        ["the same with L + L^2 gradients", f"{published / epoch:.0%}",
         f"{n + n * n} gradients, {published / ours:.1f} x ours"],
    ]  # fmt: skip
    print(Table(["what", "measured", "beside"], rows, best=None).to_text())


if __name__ == "__main__":
    main()
