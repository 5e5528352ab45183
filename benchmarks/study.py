"""Train a named study, run by run, and keep a small record of each as soon as it ends.

    python -m benchmarks.study real-text --source data/tatoeba6_easy         all rows, three seeds
    python -m benchmarks.study real-text --seeds 4 5 --workers 2             more seeds, on this or another machine
    python -m benchmarks.study real-text --report build/studies              tables and figures of what is stored

Interrupt it at any moment and give the same command again: finished runs are not repeated, and the one that was under
way continues. Records lie under lessons/results/studies; a run directory may be deleted once its record is there,
unless an ensemble with it is still to be scored.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies import store
from benchmarks.studies.measure import Model, measured
from benchmarks.studies.plans import LAST, MEAN, STUDIES
from benchmarks.studies.report import write_report
from pmd_lite.api import train
from pmd_lite.comparing.entries import parse_entry
from pmd_lite.config import configured
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.errors import UserError
from pmd_lite.methods import single_methods
from pmd_lite.model import Ensemble
from pmd_lite.processes import end_with_parent, new_processes
from pmd_lite.run import Run
from pmd_lite.training.averaging import average


class Work:
    """One study on this machine: its corpus, its tokenizer, its runs."""

    def __init__(self, name: str, source: Path | None, runs: Path, kept: Path):
        self.name, self.study, self.runs, self.kept = name, STUDIES[name], runs / name, kept
        self.source = source

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus of all runs."""
        return self.study.corpus(self.source, self.runs / "corpus")

    @cached_property
    def tokenizer(self) -> Path:
        """The tokenizer of all runs."""
        folder = self.runs / "tokenizer"
        if not (folder / "tokenizer.json").exists():
            config = configured(self.study.preset, self.corpus.direction, "tau=1", self.study.settings)
            train_tokenizer(self.corpus, config.tokenizer).save(folder)
        return folder

    def run_of(self, row: str, seed: int) -> Path:
        """Where a run lies."""
        return parse_entry(row).path(self.runs / "runs", seed)

    def missing(self, seeds: Sequence[int], rows: Sequence[str]) -> list[tuple[str, int]]:
        """Runs without a record, all rows of a seed before the next seed."""
        wanted = [(row, seed) for seed in seeds for row in rows]
        return [(row, seed) for row, seed in wanted if not store.file_of(self.name, row, seed, self.kept).exists()]

    def teachers(self, row: str, seed: int) -> list[Path]:
        """Finished single runs of this seed that teach in a row of ensemble-distill; it trains those that are not."""
        entry = parse_entry(row)
        if entry.method != "ensemble-distill":
            return []
        config = configured(self.study.preset, self.corpus.direction, entry.method, self.study.settings)
        singles = [self.run_of(name, seed) for name in single_methods(config)]
        return [path for path in singles if (path / "finished.json").exists()]

    def trained(self, row: str, seed: int) -> Run:
        """Train one run, or continue it; a finished one is only read."""
        entry = parse_entry(row)
        words = {**self.study.settings, **entry.overrides, "seed": seed, "use": self.teachers(row, seed)}
        return train(self.corpus, entry.method, self.study.preset, out=self.run_of(row, seed), samplers=entry.samplers,
                     tokenizer=self.tokenizer, show="off", score=False, **words)  # fmt: skip

    def make(self, row: str, seed: int) -> Path:
        """Train one run or continue it, measure its students, store the record."""
        run = self.trained(row, seed)
        encoded = encode_corpus(self.corpus, run.tokenizer, run.config.model.max_len)
        models = [measured(run.model(student), self.corpus, encoded, run.config) for student in range(len(run.labels))]
        return store.write(self.name, row, seed, store.record_of(run, self.name, row, seed, models), self.kept)

    def ensembles(self, seeds: Sequence[int]) -> list[tuple[str, int]]:
        """Ensembles without a record whose members are all there."""
        return [
            (label, seed) for seed in seeds for label, members in self.study.ensembles.items()
            if not store.file_of(self.name, f"ensemble {label}", seed, self.kept).exists()
            and all((self.run_of(row, seed) / "finished.json").exists() for row, _ in members)
        ]  # fmt: skip

    def make_ensemble(self, label: str, seed: int) -> Path:
        """Score the ensemble of finished students."""
        members = [(Run(self.run_of(row, seed)), student) for row, student in self.study.ensembles[label]]
        model = Ensemble([run.model(student) for run, student in members]).eval()
        cost = sum(run.compute_with_auxiliary for run in {run.path: run for run, _ in members}.values())
        row = f"ensemble {label}"
        return self.keep(members[0][0], row, seed, "ensemble", {row: model}, cost)

    def make_mean(self, row: str, seed: int) -> Path:
        """Score every student with the mean of its weights at the last evaluations; trains the row for it."""
        run = self.trained(f"{row.removeprefix(MEAN)} keep_last={LAST}", seed)
        path = run.path.with_name(f"{run.path.name}-mean")
        averaged = Run(path if path.exists() else average(run.path, path, LAST))
        models = {label: averaged.model(student) for student, label in enumerate(run.labels)}
        return self.keep(run, row, seed, run.method.name, models, run.compute_with_auxiliary)

    def keep(self, run: Run, row: str, seed: int, method: str, models: Mapping[str, Model], cost: int) -> Path:
        """Measure models that no run has trained as they are, and store their record."""
        encoded = encode_corpus(self.corpus, run.tokenizer, run.config.model.max_len)
        record: dict[str, Any] = {
            "format": store.FORMAT, "study": self.name, "row": row, "seed": seed, "method": method,
            "corpus": {name: run.corpus[name] for name in ("name", "fingerprint", "pairs", "sizes")},
            "multiply_adds": cost,
            "students": [
                {"label": label, "pairs": measured(model, self.corpus, encoded, run.config)}
                for label, model in models.items()
            ],
        }  # fmt: skip
        return store.write(self.name, row, seed, record, self.kept)


def _one(name: str, source: Path | None, runs: Path, kept: Path, kind: str, row: str, seed: int) -> Path:
    """One run, or one ensemble, in a process of its own."""
    torch.set_num_threads(1)
    work = Work(name, source, runs, kept)
    if kind == "ensemble":
        return work.make_ensemble(row, seed)
    return work.make_mean(row, seed) if row.startswith(MEAN) else work.make(row, seed)


def main() -> None:
    """Train, store, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(STUDIES))
    parser.add_argument("--source", type=Path, help="directory of the text that the corpus is made from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rows", nargs="+", help="only these rows")
    parser.add_argument("--runs", type=Path, default=Path("runs/studies"))
    parser.add_argument("--store", type=Path, default=store.STORE)
    parser.add_argument(
        "--report", type=Path, help="only write tables and figures of what is stored into this directory"
    )
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    words = parser.parse_args()
    if words.report:
        for file in write_report(words.name, words.store, words.report):
            print(f"written: {file}")
        return
    work = Work(words.name, words.source, words.runs, words.store)
    todo = work.missing(words.seeds, words.rows or work.study.rows)
    if not todo and not work.ensembles(words.seeds):
        print(f"{words.name}: nothing to do")
        return
    print(f"{words.name}: {len(todo)} runs to make on {work.corpus.name} with {work.tokenizer}", flush=True)
    place = (words.name, words.source, words.runs, words.store)
    with ProcessPoolExecutor(words.workers, new_processes(), end_with_parent) as pool:
        try:
            for kind, jobs in (("run", lambda: todo), ("ensemble", lambda: work.ensembles(words.seeds))):
                for done in [pool.submit(_one, *place, kind, *job) for job in jobs()]:
                    print(f"stored: {done.result()}", flush=True)
        except BaseException:
            for child in multiprocessing.active_children():
                child.kill()  # after a signal it would save, and begin the next run
            raise


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"study: error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nstudy: stopped; the last checkpoint is whole. Give the same command again to continue")
