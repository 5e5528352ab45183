"""Does distillation push the frontier? Two toy worlds, four models, several seeds, at equal updates.

    python -m benchmarks.toy_regimes                     writes lessons/results/toy_regimes.json
    python -m benchmarks.toy_regimes --worlds longtail:1 --methods "tau=1 tau=5 bi-pmd" --out build/x.json

Each world is given with its number of seeds. The world "longtail" has 30 sentences of each of its smallest languages,
and models overfit them. The world "toy" has hundreds, and at this length nothing overfits. You may interrupt the
command and give it again: finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pmd_lite as pmd
from pmd_lite.disk import write_json
from pmd_lite.evaluation.pareto import split_high_low
from pmd_lite.training.rundir import FORMAT


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="longtail:3 toy:3", help="world:number of seeds, ...")
    parser.add_argument("--methods", default="tau=1 tau=5 auto-pmd")
    parser.add_argument("--steps", type=int, default=0, help="0: the toy preset's")
    parser.add_argument("--runs", type=Path, default=Path("runs/toy_regimes"))
    parser.add_argument("--out", type=Path, default=Path("lessons/results/toy_regimes.json"))
    parser.add_argument("--workers", type=int, default=2)
    words = parser.parse_args()
    seeds = {world: int(number) for world, _, number in (w.partition(":") for w in words.worlds.split())}
    more = {"steps": words.steps} if words.steps else {}
    jobs: list[dict[str, Any]] = [
        {"corpus": world, "method": method, "seed": seed, "out": words.runs / f"{world}-{method}-{seed}", **more}
        for world, number in seeds.items()
        for seed in range(1, number + 1)
        for method in sorted(words.methods.split(), key=lambda m: m.startswith("tau"))  # the longest first
    ]
    runs = pmd.train_side_by_side(jobs, words.workers)
    bleu: dict[str, dict[str, list[dict[str, float]]]] = {world: {} for world in seeds}
    loss: dict[str, dict[str, list[dict[str, float]]]] = {world: {} for world in seeds}
    groups = {}
    for job, run in sorted(zip(jobs, runs, strict=True), key=lambda x: len(x[1].labels)):
        world = str(job["corpus"])
        groups[world] = split_high_low(run.sizes)
        for student, label in enumerate(run.labels):
            for store, values in ((bleu, run.bleu(student)), (loss, run.best_dev_loss(student))):
                store[world].setdefault(label, []).append({pair: round(v, 3) for pair, v in values.items()})
    shown = [word for word in sys.argv[1:] if word not in ("--runs", str(words.runs))]
    command = "python -m benchmarks.toy_regimes " + " ".join(f'"{word}"' if " " in word else word for word in shown)
    stored = {"format": FORMAT, "command": command.strip(), "bleu": bleu, "dev_loss": loss, "groups": groups}
    write_json(words.out, stored)
    print(f"written: {words.out}")


if __name__ == "__main__":
    main()
