"""Training speed and memory beside three other implementations, on the same batches.

    python -m benchmarks.training [--shape small] [--vocab 8000] [--steps 3] [--rounds 4] [--bf16] [--joeynmt]

The others: torch.nn.Transformer as tutorials wrap it, Hugging Face Marian, and with --joeynmt JoeyNMT (peers.py shows
how each is set up). Sentences are random ids of natural lengths, cut into batches as in training. It measures target
tokens per CPU second of the process, with one thread in fp32, after one pass over every batch. Every engine has a
process of its own; all processes live at the same time and take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

import pmd_lite as pmd
from benchmarks.peers import ENGINES, SHAPES, Ours
from benchmarks.turns import Runner, take_turns
from pmd_lite.data.batching import Batch, PairStream
from pmd_lite.evaluation.tables import Table
from pmd_lite.planning.stand_in import described

INSTALL = (
    "JoeyNMT is not installed here. It needs an old version of protobuf, so give it an environment of its own:\n"
    "  python -m venv joey && joey/bin/pip install -r requirements.txt transformers joeynmt importlib_metadata\n"
    "  joey/bin/python -m benchmarks.training --joeynmt"
)
BF16 = "pmd_lite, bf16"


def make_batches(vocab: int, tokens: int, count: int, mean: float = 14.0) -> list[Batch]:
    """`count` batches of 4,000 random sentences of about `mean` tokens a side, tags of two languages among the ids."""
    config = pmd.preset("small", byte_fallback=False, vocab_size=vocab - 2, tokens=tokens)
    split = described({"fr-en": 4000}, mean_tokens=mean, held_out=10, config=config).encoded.train[0]
    stream = PairStream(split, 0, tokens, (1,))
    return [stream.next() for _ in range(count)]


def make_engine(name: str, shape: str, vocab: int, batches: Sequence[Batch]) -> Callable[[Sequence[int]], float]:
    """A function: numbers of batches -> target tokens per CPU second, with one step on each of these batches."""
    torch.set_num_threads(1)
    engine = Ours(shape, vocab, precision="bf16") if name == BF16 else ENGINES[name](shape, vocab)

    def spend(numbers: Sequence[int]) -> float:
        started, chosen = time.process_time(), [batches[i] for i in numbers]
        for batch in chosen:
            engine.update(batch)
        return sum(batch.tokens for batch in chosen) / (time.process_time() - started)

    return spend


def race(runners: Mapping[str, Runner], batches: int, rounds: int) -> dict[str, list[float]]:
    """{engine: [round] target tokens per CPU second}: all batches once as warm-up; then the rounds share them."""
    each = batches // rounds
    return take_turns(runners, range(batches), [range(i * each, (i + 1) * each) for i in range(rounds)])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=3, help="steps of each engine in each round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--joeynmt", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="also measure ours with bf16 autocast")
    words = parser.parse_args()
    names = [name for name in ENGINES if name != "JoeyNMT"]
    if words.joeynmt:
        try:
            ENGINES["JoeyNMT"]("tiny", 50)
            names.append("JoeyNMT")
        except ImportError as error:
            print(f"{INSTALL}\n({error})")
    if words.bf16:
        names.append(BF16)
    batches = make_batches(words.vocab, words.tokens, words.rounds * words.steps)
    runners = {name: Runner(make_engine, name, words.shape, words.vocab, batches) for name in names}
    found = race(runners, len(batches), words.rounds)
    ours, rows = found["pmd_lite"], list[list[str | float]]()
    for name in names:
        ratios = [a / b for a, b in zip(ours, found[name], strict=True)]
        rows.append([name, f"{statistics.median(found[name]):,.0f}", statistics.median(ratios),
                     f"{min(ratios):.2f}-{max(ratios):.2f}", f"{runners[name].peak():,.0f}"])  # fmt: skip
        runners[name].close()
    columns = ["implementation", "target tokens / CPU s", "pmd_lite is x times as fast", "rounds", "peak MiB"]
    caption = f"{words.shape}, {words.vocab:,} pieces, {words.rounds} x {words.steps} steps of <= {words.tokens} tokens"
    print(Table(columns, rows, digits=2, caption=caption).to_text())


if __name__ == "__main__":
    main()
