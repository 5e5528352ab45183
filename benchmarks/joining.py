"""A new language joins a trained model: after how many updates is its dev loss what a new model reaches at the end?

    python -m benchmarks.joining [--world toy] [--steps 1000] [--seeds 1 2 3] [--method tau=1]

The last pair of an invented world joins a tau=1 model that was trained on the others for as many updates; then all
pairs are trained, by --method: with tau=1 the new pair, which is the smallest, has few updates of its own. The new
model is trained on all pairs from random weights, with the same tokenizer (a nat per token means the same only then),
learning rates and draws. Each cell is a mean over seeds, with each seed beside it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import pmd_lite as pmd
from pmd_lite.evaluation.tables import Table
from pmd_lite.run import Run


def reached(run: Run, pair: str, loss: float) -> int:
    """Updates at the first evaluation at which the dev loss of a pair is no higher; beyond the end if there is none."""
    steps, losses = run.curve("dev_loss")
    return next((step for step, value in zip(steps, losses[pair], strict=True) if value <= loss), steps[-1] + 1)


def main() -> None:
    """Train three runs for each seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="toy")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--method", default="tau=1", help="how the new pair and the others are sampled: tau=1, tau=5, ..."
    )
    asked = parser.parse_args()
    corpus = pmd.load_corpus(asked.world)
    *old, new = corpus.pairs
    updates: dict[str, list[list[int]]] = {pair: [] for pair in (new, old[0])}
    ends, seen = [], []
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.seeds:
            place = Path(folder) / str(seed)
            quiet: dict[str, Any] = {"show": "off", "score": False}
            words: dict[str, Any] = {"seed": seed, "steps": asked.steps, "eval_every": 25}
            parent = pmd.train(corpus.only(old), "tau=1", "toy", out=place / "parent", **words, **quiet)
            joined = pmd.train(corpus, asked.method, "toy", out=place / "joined", init=parent.path, **quiet, **words)
            config = pmd.preset("toy", vocab_size=parent.config.tokenizer.vocab_size, **words)
            anew = pmd.train(
                corpus, asked.method, config, out=place / "anew", tokenizer=joined.path / "tokenizer", **quiet
            )
            for pair, found in updates.items():
                loss = anew.best_dev_loss()[pair]
                found.append([reached(run, pair, loss) for run in (anew, joined)])
            ends.append([run.best_dev_loss()[new] for run in (anew, joined)])
            seen.append([run.curve("visits")[1][new][-1] for run in (anew, joined)])
    rows = []
    for pair, of in updates.items():
        columns = [[found[i] for found in of] for i in (0, 1)]
        rows.append([f"{pair}{' (new)' if pair == new else ''}", *(f"{fmean(x):.0f} {tuple(x)}" for x in columns)])
    rows.append([f"best dev loss of {new}", *(f"{fmean(end[i] for end in ends):.3f}" for i in (0, 1))])
    rows.append([f"passes over {new}", *(f"{fmean(of[i] for of in seen):.1f}" for i in (0, 1))])
    print(Table(["updates until the new model's best dev loss", "new model", "joined"], rows, best=None).to_text())


if __name__ == "__main__":
    main()
