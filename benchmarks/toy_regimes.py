"""Does distillation push the frontier? Two toy worlds, four models, several seeds, at equal updates.

    python -m benchmarks.toy_regimes                     writes lessons/results/toy_regimes.json
    python -m benchmarks.toy_regimes --worlds longtail --methods "tau=1 tau=5 bi-pmd" --seeds 1 --out build/x.json

The world "longtail" has 30 sentences of its smallest languages, which overfit; "toy" has hundreds, and at this length
nothing overfits. Interrupt it and give the same command again: finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pmd_lite as pmd
from pmd_lite.evaluation.pareto import split_high_low
from pmd_lite.teaching.stories import best_dev_loss
from pmd_lite.training.rundir import write_json


def main() -> None:
    """Parse, run, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="longtail toy")
    parser.add_argument("--methods", default="tau=1 tau=5 auto-pmd")
    parser.add_argument("--seeds", default="1 2 3")
    parser.add_argument("--steps", type=int, default=0, help="0: the toy preset's")
    parser.add_argument("--runs", type=Path, default=Path("runs/toy_regimes"))
    parser.add_argument("--out", type=Path, default=Path("lessons/results/toy_regimes.json"))
    parser.add_argument("--workers", type=int, default=2)
    words = parser.parse_args()
    more = {"steps": words.steps} if words.steps else {}
    jobs = [
        {"corpus": world, "method": method, "seed": seed, "out": words.runs / f"{world}-{method}-{seed}", **more}
        for world in words.worlds.split()
        for seed in map(int, words.seeds.split())
        for method in sorted(words.methods.split(), key=lambda m: m.startswith("tau"))  # the longest first
    ]
    runs = pmd.train_side_by_side(jobs, words.workers)
    bleu: dict[str, dict[str, list[dict[str, float]]]] = {w: {} for w in words.worlds.split()}
    loss: dict[str, dict[str, list[dict[str, float]]]] = {w: {} for w in words.worlds.split()}
    groups = {}
    for job, run in sorted(zip(jobs, runs, strict=True), key=lambda x: len(x[1].labels)):
        groups[job["corpus"]] = split_high_low(run.sizes)
        for student, label in enumerate(run.labels):
            for store, values in ((bleu, run.bleu(student)), (loss, best_dev_loss(run, student))):
                store[str(job["corpus"])].setdefault(label, []).append({p: round(v, 3) for p, v in values.items()})
    command = "python -m benchmarks.toy_regimes " + " ".join(sys.argv[1:])
    write_json(words.out, {"command": command.strip(), "bleu": bleu, "dev_loss": loss, "groups": groups})
    print(f"written: {words.out}")


if __name__ == "__main__":
    main()
