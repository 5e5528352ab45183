"""The cost of searching: Auto-PMD's search beside its training, MultiDDS-S with 2 L gradients beside L + L^2.

    python -m benchmarks.overheads [--corpus longtail] [--preset toy] [--epochs 2]
    python -m benchmarks.overheads --corpus wmt6-like

rho = 0.1, T = one epoch. Prints ratios of process CPU seconds at one thread, and of multiply-adds (training/cost.py).
At most 300 updates of an epoch's training are computed; the search is computed completely. `wmt6-like` is a small
WMT-6: random sentences, 20 times fewer (in dev sets too) and a third as long, in batches that are 60 times smaller, so
that every pair has as many batches (5 minutes). The paper says that the search takes 30 % of training time. The last
lines are multiply-adds, counted for WMT-6 at full size without computing anything.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.evaluation.tables import Table
from pmd_lite.methods import get_method, make_distiller, make_samplers
from pmd_lite.planning.counting import count
from pmd_lite.planning.stand_in import Facts, described
from pmd_lite.planning.timing import synchronize
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import Trainer

WMT6 = {"fr-en": 3_000_000, "de-en": 1_500_000, "zh-en": 400_000, "et-en": 80_000, "ro-en": 10_000, "tr-en": 5_000}


def make_trainer(method: str, encoded: EncodedCorpus, config: pmd.Config, folder: str) -> Trainer:
    """A trainer that has made no update yet."""
    row = get_method(method)
    samplers = make_samplers(row.samplers, encoded.sizes, config)
    distiller = make_distiller(row.distiller, row.options, config)
    return Trainer(encoded, config, samplers, distiller, RunDir(Path(folder)), "off", first_seat=row.first_seat)


def now(device: torch.device) -> float:
    """Seconds of this process's CPU time; on a GPU, wall-clock seconds after all its work is done."""
    if device.type == "cpu":
        return time.process_time()
    synchronize(device)
    return time.perf_counter()


def timed_updates(trainer: Trainer) -> int:
    """Updates of an epoch that are computed; each of the others would take as long."""
    return min(trainer.clock.epoch, 300)


def advance(trainer: Trainer, updates: int) -> float:
    """Train for some updates with no evaluation or search in between; returns seconds."""
    started = now(trainer.device)
    for _ in range(updates):
        trainer.clock = dataclasses.replace(trainer.clock, step=trainer.clock.step + 1)
        for student in trainer.students:
            trainer.update(student)
    return now(trainer.device) - started


def search_overhead(trainer: Trainer, epochs: int) -> tuple[float, float]:
    """(time, multiply-adds) of one search per epoch, as a share of the epoch's training."""
    updates = timed_updates(trainer)
    training = searching = 0.0
    for _ in range(epochs):
        training += advance(trainer, updates - updates // 2)
        started = now(trainer.device)
        trainer.distiller.update(trainer.probe)
        searching += now(trainer.device) - started
        training += advance(trainer, updates // 2)  # half after the search: a machine's speed changes within minutes
    cost, part = trainer.cost.multiply_adds, updates / trainer.clock.epoch
    return part * searching / training, part * cost["trial"] / (cost["train"] + cost["teacher"])


def scorer_overhead(trainer: Trainer, tokens: int) -> tuple[float, float]:
    """Seconds of one update of our MultiDDS-S, and of the L + L^2 gradients of the published one."""
    pairs = range(len(trainer.encoded.pairs))
    started = now(trainer.device)
    trainer.students[0].sampler.update(0, trainer.probe)
    ours = now(trainer.device) - started
    started = now(trainer.device)
    for pair in pairs:
        trainer.probe.gradient(0, "valid", pair, tokens)
        for _ in pairs:
            trainer.probe.gradient(0, "train", pair, tokens)
    return ours, now(trainer.device) - started


def search_share(facts: Facts, config: pmd.Config) -> float:
    """Multiply-adds of Auto-PMD's searches as a share of training's and teaching's, counted over ten epochs."""
    train = dataclasses.replace(config.train, epochs=10.0)
    cost = count(facts, get_method("auto-pmd"), dataclasses.replace(config, train=train)).cost
    return cost["trial"] / (cost["train"] + cost["teacher"])


def full_size() -> float:
    """The same for WMT-6 with the preset of that name; dev sets of 2,000 to 3,000 sentences."""
    config = pmd.preset("wmt6", start=0.0)
    return search_share(described(WMT6, mean_tokens=30, held_out=2500, config=config).facts, config)


def wmt6_like(config: pmd.Config) -> tuple[EncodedCorpus, pmd.Config]:
    """A small WMT-6, and the configuration with equally small micro-batches (preset wmt6: eight of 8,192 an update)."""
    longer = 100_000  # more steps than any epoch timed here: at the end of the steps mu is 0, and searches stop
    train = dataclasses.replace(config.train, tokens=8192 // 60, accumulate=8, steps=longer)
    config = dataclasses.replace(config, train=train)
    sizes = {pair: n // 20 for pair, n in WMT6.items()}
    most = max(sizes.values())
    return described(sizes, mean_tokens=10, held_out=2500 // 20, config=config, sample=most).encoded, config


def encode(name: str, config: pmd.Config) -> EncodedCorpus:
    """The encoded corpus with this name."""
    corpus = pmd.load_corpus(name)
    return encode_corpus(corpus, train_tokenizer(corpus, config.tokenizer), config.model.max_len)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="longtail")
    parser.add_argument("--preset", default="toy")
    parser.add_argument("--epochs", type=int, default=2)
    words = parser.parse_args()
    torch.set_num_threads(1)
    config = pmd.preset(words.preset, start=0.0, device="cpu")
    if words.corpus == "wmt6-like":
        encoded, config = wmt6_like(config)
    else:
        encoded = encode(words.corpus, config)
    with tempfile.TemporaryDirectory() as folder:
        auto = make_trainer("auto-pmd", encoded, config, folder)
        seconds, products = search_overhead(auto, words.epochs)
        scorer = make_trainer("multidds-s", encoded, config, folder)
        epoch = advance(scorer, timed_updates(scorer)) * scorer.clock.epoch / timed_updates(scorer)
        ours, published = scorer_overhead(scorer, config.sampling.probe_tokens)
    n, rho = len(encoded.pairs), config.distill.trial_ratio
    rows = [
        ["Auto-PMD search / its training, CPU time", f"{seconds:.0%}", "paper: 30 %"],
        ["Auto-PMD search / its training, multiply-adds", f"{products:.0%}",
         f"20 rho / 8 F = {20 * rho / 8:.0%} without dev losses and the least trial batches of small pairs"],
        ["the same for the whole of WMT-6", f"{full_size():.0%}", "counted"],
        ["MultiDDS-S update / an epoch of training, CPU time", f"{ours / epoch:.0%}", f"2 L = {2 * n} gradients"],
        ["the same with L + L^2 gradients", f"{published / epoch:.0%}",
         f"{n + n * n} gradients, {published / ours:.1f} x ours"],
    ]  # fmt: skip
    print(Table(["what", "measured", "beside"], rows).to_text())


if __name__ == "__main__":
    main()
