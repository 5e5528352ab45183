"""Three questions the paper leaves open, each answered by one command on a corpus of your choice.

    python -m benchmarks.three_experiments rollback    does the search help, or do the released code's live trials?
    python -m benchmarks.three_experiments compute     does distillation help, or only the compute of two models?
    python -m benchmarks.three_experiments dwi         does the reduced search choose as the full one would?

rollback and compute are comparisons at equal compute (multiply-adds, see docs/methods.md).
dwi trains Auto-PMD on three pairs. At every search it makes the three trials of the reduced search and all 27 trials of
the full one. It follows the reduced choice and records the full one. You may interrupt each experiment; the same
command continues it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

import pmd_lite as pmd
from pmd_kit.l11.shares import own_share
from pmd_lite.comparing.entries import parse_settings
from pmd_lite.disk import write_json
from pmd_lite.distillation.actions import act, step_size
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.distillation.search import choose, full_space, trial_logits
from pmd_lite.evaluation.tables import Table, mean_spread
from pmd_lite.interfaces import Events, Probe
from pmd_lite.methods import METHODS, Method
from pmd_lite.training.rundir import FORMAT

QUESTIONS = {
    "rollback": ["auto-pmd", "auto-pmd fidelity=released start={start}", "auto-pmd rollback=False", "bi-pmd", "tau=1",
                 "tau=5"],
    "compute": ["auto-pmd", "tau=1", "tau=5", "tau=1 d_model={wide} ffn={ffn}", "tau=5 d_model={wide} ffn={ffn}"],
}  # fmt: skip


class FullSearch(AutoPMD):
    """Auto-PMD that also tries every combination of actions (3^L trials), to show what the reduced search misses."""

    def update(self, probe: Probe) -> Events:
        """Follow the reduced search; record both choices and the dev losses of all trials."""
        clock, events, pairs = probe.clock, [], self.alpha.shape[1]
        mu = step_size(clock.step - clock.start, clock.total - clock.start, self.config.step_size)
        space = full_space(pairs)
        same = [row for row, vector in enumerate(space) if len(set(vector)) == 1]
        for student in range(len(self.students)):
            before = self.logits[student]
            results = probe.trial(student, torch.sigmoid(trial_logits(before, space, mu)))  # [3^L, pair]
            full, reduced = choose(results, space), choose(results[same], [space[row] for row in same])
            self.logits[student] = torch.stack([act(x, action, mu) for x, action in zip(before, reduced, strict=True)])
            self.alpha[student] = torch.sigmoid(self.logits[student])
            events.append({
                "event": "dwi", "step": clock.step, "student": student, "mu": mu, "full": full, "reduced": reduced,
                "loss_full": results[space.index(tuple(full))].tolist(),
                "loss_reduced": results[space.index(tuple(reduced))].tolist(), "results": results.tolist(),
            })  # fmt: skip
        return events


def dwi(words: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Train with every seed, then say how often the choices differ and what the difference costs."""
    auto = METHODS["auto-pmd"]
    METHODS["auto-pmd-full"] = Method("auto-pmd-full", auto.samplers, FullSearch, "8 + 20 rho 3^(L-1)", "", "ours")
    corpus = pmd.load_corpus(words.corpus)
    pairs = words.pairs or [corpus.pairs[i] for i in (0, len(corpus.pairs) // 2, len(corpus.pairs) - 1)]
    searches: list[dict[str, Any]] = []
    for seed in words.seeds:
        run = pmd.train(corpus.only(pairs), "auto-pmd-full", words.preset, out=words.out / f"dwi-seed{seed}", seed=seed,
                        score=False, **settings)  # fmt: skip
        searches += [line for line in run.dir.metrics() if line["event"] == "dwi"]
    space = full_space(len(pairs))
    rows: list[list[Any]] = []
    for i, pair in enumerate(pairs):
        differ = [s["full"][i] != s["reduced"][i] for s in searches]
        lost = [s["loss_reduced"][i] - s["loss_full"][i] for s in searches]
        spread = [max(r[i] for r in s["results"]) - min(r[i] for r in s["results"]) for s in searches]
        share = [own_share(torch.tensor(s["results"]), space, i) for s in searches]
        rows.append([pair, len(searches), f"{sum(differ)} of {len(differ)}",
                     *(mean_spread(values) for values in (lost, spread, share))])  # fmt: skip
    whole = sum(s["full"] != s["reduced"] for s in searches)
    caption = (
        f"{len(searches)} searches ({len(words.seeds)} seeds, 2 students); in {whole} the two choose otherwise. "
        "lost: dev loss after the reduced choice minus after the full one, nats per token. range: largest minus "
        "smallest dev loss of the 27 trials. own: share of its variance that the pair's own action explains"
    )
    columns = ["pair", "searches", "other action", "lost", "range", "own"]
    table = Table(columns, rows, digits=4, caption=caption)
    (words.out / "dwi.md").write_text(table.to_markdown() + "\n", encoding="utf-8")
    command = shlex.join(["python", "-m", "benchmarks.three_experiments", *sys.argv[1:]])
    stored = {"format": FORMAT, "command": command, "pairs": pairs, "searches": searches}
    write_json(words.out / "dwi.json", stored)  # as lessons/results/dwi_longtail.json
    print(table.to_text())


def main() -> None:
    """Parse and run one experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=[*QUESTIONS, "dwi"])
    parser.add_argument("--corpus", default="longtail")
    parser.add_argument("--preset", default="toy")
    parser.add_argument("--pairs", nargs=3, help="dwi: three pairs; by default a large, a medium and a small one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--set", nargs="*", default=[], help="fields of the configuration: steps=1000 ...")
    words = parser.parse_args()
    words.out = words.out or Path("runs") / f"{words.question}-{Path(words.corpus).name}"
    settings = parse_settings(words.set)
    if words.question == "dwi":
        torch.set_num_threads(1)
        dwi(words, settings)
        return
    config = pmd.preset(words.preset, **settings)
    values = {"start": config.distill.resolved.start, "wide": 2 * config.model.d_model, "ffn": 2 * config.model.ffn}
    methods = [text.format(**values) for text in QUESTIONS[words.question]]
    found = pmd.compare(words.corpus, methods, words.seeds, words.preset, out=words.out, equal="compute",
                        workers=words.workers, **settings)  # fmt: skip
    print(found.table().to_text(), found.cost_table().to_text(), sep="\n\n")


if __name__ == "__main__":
    main()
