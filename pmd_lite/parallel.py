"""Several runs at a time, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from multiprocessing import connection
from pathlib import Path
from typing import Any

import torch

from pmd_lite.api import load_corpus, train
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir

Job = Mapping[str, Any]
"""Arguments of `train`, `out` among them, with the corpus by name or path; `corpus_options` are `load_corpus`'s."""


def train_side_by_side(jobs: Sequence[Job], workers: int = 2, show: bool = True) -> list[Run]:
    """Several runs in processes of their own, one thread each; the same bits as each alone in such a process.

    A run in the calling process is the same up to rounding: on some processors its last digits differ.

    Args:
        jobs: arguments of `train` for each run, `out` among them, with the corpus by name or path; `corpus_options` may
            hold those of `load_corpus`.
        workers: processes at a time; more than the machine's cores gains nothing.
        show: print where the runs stand, and the minutes they took.
    A small model leaves a second core idle, two small models do not. Raises the first UserError of any run.
    """
    outcomes = run_jobs(jobs, workers, stop_at_error=True, show=show)
    return [Run(outcome) for outcome in outcomes if isinstance(outcome, Path)]


def run_jobs(jobs: Sequence[Job], workers: int, stop_at_error: bool, show: bool = True) -> list[Path | UserError]:
    """Train every job; returns its run directory, or the UserError that ended it, in the order of `jobs`.

    A finished run is not repeated, an interrupted one is continued. Raises the first UserError if `stop_at_error`;
    whatever else goes wrong, and Ctrl-C, is raised at once, without waiting for the other runs: they can be resumed.
    """
    if not jobs:
        return []
    spawn, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(workers, len(jobs)), spawn, _end_with_parent) as pool:
        futures = [pool.submit(_job, dict(job), stop_at_error) for job in jobs]
        try:
            _watch(futures, jobs, show)
        except BaseException:
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
    return [future.result() for future in futures]


def _watch(futures: Sequence[Future[Path | UserError]], jobs: Sequence[Job], show: bool) -> None:
    """Print where the runs stand until all are done; raises what a run raised."""
    before = sum((Path(job["out"]) / "scores.json").exists() for job in jobs)
    pending, started, shown = set(futures), time.perf_counter(), ""
    live = sys.stdout.isatty() or len(jobs) <= 4  # else a log file: a line whenever a run ends
    while pending:
        pending = wait(pending, timeout=2, return_when=FIRST_EXCEPTION).not_done
        for done in set(futures) - pending:
            done.result()
        finished, spent = len(jobs) - len(pending), (time.perf_counter() - started) / 60
        left = f", {spent:.0f} min"
        if finished > before:
            left += f", about {spent / (finished - before) * len(pending):.0f} min left"
        line = f"{finished} of {len(jobs)} runs done{left}"
        if live:
            running = [job for job, future in zip(jobs, futures, strict=True) if future in pending and future.running()]
            line += "".join(f" | {Path(job['out']).name} {_standing(Path(job['out']))}" for job in running)
        if show and line != shown and (live or not shown.startswith(f"{finished} ")):
            print(("\r" + line.ljust(len(shown))) if live else line, end="" if live else "\n", flush=True)
            shown = line
    if show and live:
        print()


def _end_with_parent() -> None:
    """A worker whose parent is gone stops at once; what it saved is whole."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        gone = parent.sentinel
        threading.Thread(target=lambda: (connection.wait([gone]), os._exit(1)), daemon=True).start()


def _standing(out: Path) -> str:
    """How far a run in another process is, from what it has written."""
    steps = [m["step"] for m in RunDir(out).metrics()]
    return f"step {steps[-1]}" if steps else "..."


def _job(job: dict[str, Any], raise_errors: bool) -> Path | UserError:
    torch.set_num_threads(1)
    words = {"show": "off", **job}
    try:
        corpus = load_corpus(words.pop("corpus", "toy"), **words.pop("corpus_options", {}))
        return train(corpus, **words).path
    except UserError as error:
        if raise_errors:
            raise
        return error
