"""Kill runs at random instants: is a file ever damaged, and does a resumed run ever end with other bits?

    python -m benchmarks.kills [--kills 200] [--seed 1]

The run is a tiny Auto-PMD with all phases: updates, searches, evaluations, checkpoints, and at the end translations and
scores. Every kill (SIGKILL, which no process can catch) ends a new run at an instant drawn uniformly over its length.
Then the benchmark reads each of its files, continues the run to its end with the same call, and compares all its files
with those of an undisturbed run. Processes are forked from one that has loaded everything, so a kill takes seconds. Not
on Windows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pmd_lite as pmd
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import read_json
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Table
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import differences
from pmd_lite.training.trainer import Trainer

WORLD: dict[str, Any] = {
    "head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 32, "dropout": 0.2, "max_len": 24,
    "vocab_size": 90, "steps": 12, "tokens": 160, "eval_every": 2, "update_every": 4, "lr": 5e-3, "warmup": 4,
    "beam": 1,
}  # fmt: skip
PHASES = ("preparation", "update", "search", "evaluation", "saving", "translation")
MARKED: list[tuple[Any, str, str]] = [
    (Trainer, "update", "update"), (AutoPMD, "update", "search"), (Trainer, "_evaluate", "evaluation"),
    (RunDir, "save_best", "saving"), (RunDir, "append_metrics", "saving"), (RunDir, "save_checkpoint", "saving"),
    (Run, "evaluate", "translation"),
]  # fmt: skip
"""Which function is which phase."""

FORK = multiprocessing.get_context("fork")


def marking(real: Callable[..., Any], number: int, phase: Any) -> Callable[..., Any]:
    """The same function, which also writes its number into shared memory while it runs."""

    def marked(*args: Any, **words: Any) -> Any:
        before, phase.value = phase.value, number
        try:
            return real(*args, **words)
        finally:
            phase.value = before

    return marked


def one_run(corpus: pmd.Corpus, out: Path, phase: Any) -> None:
    """In a process of its own: begin the run in `out`, or continue it."""
    for owner, name, meaning in MARKED:
        setattr(owner, name, marking(getattr(owner, name), PHASES.index(meaning), phase))
    pmd.train(corpus, "auto-pmd", pmd.preset("toy", **SETTINGS), out=out, show="off")


def damaged(out: Path) -> list[str]:
    """The errors that reading the files of the run raises."""
    there, found = RunDir(out), []
    readers: list[Callable[[], object]] = [there.load_checkpoint, there.metrics]
    readers += [lambda p=p: read_json(p) for p in out.glob("*.json")]  # type: ignore[misc]
    best = (out / "checkpoint" / "best").glob("*.safetensors")
    readers += [lambda p=p: there.load_weights(int(p.stem[-1]) - 1) for p in best]  # type: ignore[misc]
    if (out / "tokenizer" / "tokenizer.json").exists():
        readers.append(lambda: Tokenizer.load(out / "tokenizer"))
    for read in readers:
        try:
            read()
        except UserError as error:
            found.append(str(error))
    return found


def left(out: Path) -> dict[str, Any]:
    """All that a finished run leaves, without times."""
    models, state = RunDir(out).load_checkpoint() or ([], {})
    events = RunDir(out).metrics()
    finished = read_json(out / "finished.json")
    for timed in (state, finished, *events):
        for name in ("seconds", "metrics_size"):  # the length of the file depends on the digits of the seconds
            timed.pop(name, None)
    names = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    read = [n for n in names if not n.endswith(("state.pt", "metrics.jsonl", "finished.json"))]
    files = {name: (out / name).read_bytes() for name in read}
    return {"names": names, "files": files, "models": models, "state": state, "events": events, "end": finished}


class Campaign:
    """The kills so far, and their results."""

    def __init__(self, corpus: pmd.Corpus, folder: Path, seed: int):
        self.corpus, self.folder, self.chance = corpus, folder, random.Random(seed)
        self.phase = FORK.Value("i", 0, lock=False)
        self.lengths = [self.finish(folder / name) for name in ("warm", "whole")][1:]
        self.whole = left(folder / "whole")
        self.kills: Counter[str] = Counter()
        self.exact: Counter[str] = Counter()
        self.corrupt: list[str] = []
        self.unlike: list[str] = []

    def start(self, out: Path) -> Any:
        """A process that trains in `out`."""
        self.phase.value = 0
        process = FORK.Process(target=one_run, args=(self.corpus, out, self.phase))
        process.start()
        return process

    def finish(self, out: Path) -> float:
        """Train to the end; returns the seconds it took."""
        started = time.perf_counter()
        process = self.start(out)
        process.join()
        if process.exitcode:
            raise SystemExit(f"{out}: the run ended with {process.exitcode}")
        return time.perf_counter() - started

    def kill_one(self, out: Path) -> None:
        """One run, one kill, one resume. If the run ends before its instant, there is no kill to count."""
        recent = self.lengths[-9:]
        instant, started = self.chance.uniform(0, 1.1 * sum(recent) / len(recent)), time.perf_counter()
        process = self.start(out)
        process.join(timeout=instant)
        if process.exitcode is not None:
            self.lengths.append(time.perf_counter() - started)
            return
        process.kill()
        process.join()
        phase = PHASES[self.phase.value]
        self.kills[phase] += 1
        self.corrupt += damaged(out)
        self.finish(out)
        unlike = list(differences(left(out), self.whole))
        self.exact[phase] += not unlike
        self.unlike += [f"killed in {phase}: {name}" for name in unlike]
        print(f"{self.kills.total()}: killed in {phase}, {'OTHER' if unlike else 'same'} bits in the end", flush=True)
        shutil.rmtree(out)

    def table(self) -> Table:
        """Kills by phase, and how many of them changed nothing in the end."""
        rows: list[list[Any]] = [[phase, self.kills[phase], self.exact[phase]] for phase in PHASES]
        rows.append(["all", self.kills.total(), self.exact.total()])
        return Table(["killed in", "kills", "same bits in the end"], rows, best=None)


def main() -> None:
    """Kill, resume, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        corpus = pmd.load_corpus("toy", pairs=["fra-eng", "tur-eng"], **WORLD)
        campaign, count = Campaign(corpus, Path(folder), words.seed), 0
        while campaign.kills.total() < words.kills:
            count += 1
            campaign.kill_one(Path(folder) / f"run{count}")
    print(campaign.table().to_text())
    print(f"{campaign.exact.total()} of {campaign.kills.total()} kills resumed to the same bits")
    print("\n".join([f"{len(campaign.corrupt)} damaged files", *campaign.corrupt, *campaign.unlike]))


if __name__ == "__main__":
    main()
