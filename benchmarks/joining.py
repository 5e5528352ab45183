"""A new language joins a trained model: after how many updates is its dev loss what a new model reaches at the end?

    python -m benchmarks.joining [--world toy] [--steps 1000] [--seeds 1 2 3] [--methods tau=1 tau=5] [--out DIR]

The last pair of an invented world joins a tau=1 model that was trained on the others for as many updates; then all
pairs are trained, by each of --methods: with tau=1 the new pair, which is the smallest, has few updates of its own. The
new model is trained on all pairs from random weights, with the same tokenizer (a nat per token means the same only
then), method and draws. A method may have settings, which the joined run alone gets: "tau=1 lr=0.001 warmup=50". Cells
have one number for each seed. --out keeps the runs, and the same command goes on with them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import pmd_lite as pmd
from pmd_lite.comparing.entries import parse_entry
from pmd_lite.evaluation.tables import Table
from pmd_lite.run import Run


def reached(run: Run, pair: str, loss: float) -> int:
    """Updates at the first evaluation at which the dev loss of a pair is no higher; beyond the end if there is none."""
    steps, losses = run.curve("dev_loss")
    return next((step for step, value in zip(steps, losses[pair], strict=True) if value <= loss), steps[-1] + 1)


def main() -> None:
    """Train the runs of each method and seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="toy")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="+", default=["tau=1", "tau=5"])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        print(measured(asked.out or Path(scratch), asked.world, asked.steps, asked.seeds, asked.methods).to_text())


def measured(folder: Path, world: str, steps: int, seeds: list[int], methods: list[str]) -> Table:
    """One row for each method and pair: the new one, and the largest of the known ones."""
    corpus = pmd.load_corpus(world)
    *old, new = corpus.pairs
    rows = []
    for entry in map(parse_entry, methods):
        runs: list[tuple[Run, Run]] = []
        for seed in seeds:
            quiet: dict[str, Any] = {"show": "off", "score": False}
            words: dict[str, Any] = {"seed": seed, "steps": steps, "eval_every": 25}
            parent = pmd.train(corpus.only(old), "tau=1", "toy", out=folder / f"parent-{seed}", **words, **quiet)
            joined = pmd.train(corpus, entry.method, "toy", out=entry.path(folder, seed), init=parent.path,
                               **{**words, **entry.overrides}, **quiet)  # fmt: skip
            config = pmd.preset("toy", vocab_size=parent.config.tokenizer.vocab_size, **words)
            anew = pmd.train(corpus, entry.method, config, out=folder / f"new-{entry.method}-{seed}",
                             tokenizer=joined.path / "tokenizer", **quiet)  # fmt: skip
            runs.append((anew, joined))
        for pair in (new, old[0]):
            row = [entry.text, pair]
            for i in (0, 1):
                goals = [(both[i], both[0].best_dev_loss()[pair]) for both in runs]
                row.append(", ".join(f"{run.best_dev_loss()[pair]:.2f}" for run, _ in goals))
                row.append(", ".join(f"{reached(run, pair, goal)}" for run, goal in goals))
            passes = ", ".join(f"{joined.curve('visits')[1][pair][-1]:.1f}" for _, joined in runs)
            rows.append([*row, passes])
    head = ["method", "pair", "new model: best dev loss", "after", "joined: best dev loss", "the new model's after"]
    return Table([*head, "passes over the pair"], rows)


if __name__ == "__main__":
    main()
