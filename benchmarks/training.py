"""Training speed and memory beside three other implementations, on the same batches.

    python -m benchmarks.training [--shape small] [--vocab 8000] [--steps 3] [--rounds 4] [--joeynmt]

Others: torch.nn.Transformer as tutorials wrap it, Hugging Face Marian, with --joeynmt JoeyNMT (peers.py says how each
is set up). Sentences are random ids of natural lengths, cut into batches as training cuts them. Measured: target tokens
per CPU second of the process, one thread, fp32; all engines live in one process and take turns, forwards in one round
and backwards in the next, so a ratio compares neighbours. Peak memory: the same steps in a process for each engine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Sequence

import torch

import pmd_lite as pmd
from benchmarks.peers import ENGINES, SHAPES, Ours, Peer
from pmd_lite.data.batching import Batch, PairStream
from pmd_lite.evaluation.tables import Table
from pmd_lite.planning.stand_in import described

INSTALL = (
    "JoeyNMT is not installed here. It wants old versions of protobuf, so give it an environment of its own:\n"
    "  python -m venv joey && joey/bin/pip install -r requirements.txt transformers joeynmt\n"
    "  joey/bin/python -m benchmarks.training --joeynmt"
)


def make_batches(vocab: int, tokens: int, count: int, mean: float = 14.0) -> list[Batch]:
    """`count` batches of 4,000 random sentences of about `mean` tokens a side, tags of two languages among the ids."""
    config = pmd.preset("small", byte_fallback=False, vocab_size=vocab - 2, tokens=tokens)
    split = described({"fr-en": 4000}, mean_tokens=mean, held_out=10, config=config).encoded.train[0]
    stream = PairStream(split, 0, tokens, (1,))
    return [stream.next() for _ in range(count)]


def spend(engine: Ours | Peer, batches: Sequence[Batch]) -> float:
    """Target tokens per CPU second of one step on each batch."""
    started = time.process_time()
    for batch in batches:
        engine.update(batch)
    return sum(batch.tokens for batch in batches) / (time.process_time() - started)


def race(names: Sequence[str], shape: str, vocab: int, batches: Sequence[Batch], rounds: int) -> dict[str, list[float]]:
    """{engine: [round] target tokens per CPU second}; the first batch is for warmth, the rounds share the rest."""
    engines = {name: ENGINES[name](shape, vocab) for name in names}
    for engine in engines.values():
        engine.update(batches[0])
    found: dict[str, list[float]] = {name: [] for name in names}
    each = (len(batches) - 1) // rounds
    for number in range(rounds):
        part = batches[1 + number * each : 1 + (number + 1) * each]
        for name in list(names)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(spend(engines[name], part))
    return found


def peak(job: tuple[str, str, int, int]) -> float:
    """MiB of this process after two steps of one engine."""
    name, shape, vocab, tokens = job
    torch.set_num_threads(1)
    engine = ENGINES[name](shape, vocab)
    for batch in make_batches(vocab, tokens, 2):
        engine.update(batch)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=3, help="of each engine in each round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--joeynmt", action="store_true")
    words = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in ENGINES if name != "JoeyNMT"]
    if words.joeynmt:
        try:
            ENGINES["JoeyNMT"]("tiny", 50)
            names.append("JoeyNMT")
        except ImportError as error:
            print(f"{INSTALL}\n({error})")
    memory = {}
    for name in names:  # before the race: a new process inherits the peak of the one that starts it
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            memory[name] = alone.apply(peak, ((name, words.shape, words.vocab, words.tokens),))
    batches = make_batches(words.vocab, words.tokens, 1 + words.rounds * words.steps)
    found = race(names, words.shape, words.vocab, batches, words.rounds)
    ours, rows = found["pmd_lite"], []
    for name in names:
        ratios = [a / b for a, b in zip(ours, found[name], strict=True)]
        rows.append([name, f"{statistics.median(found[name]):,.0f}", statistics.median(ratios),
                     f"{min(ratios):.2f}-{max(ratios):.2f}", f"{memory[name]:,.0f}"])  # fmt: skip
    columns = ["implementation", "target tokens / CPU s", "pmd_lite is x times as fast", "rounds", "peak MiB"]
    caption = f"{words.shape}, {words.vocab:,} pieces, {words.rounds} x {words.steps} steps of <= {words.tokens} tokens"
    print(Table(columns, rows, best=None, digits=2, caption=caption).to_text())


if __name__ == "__main__":
    main()
