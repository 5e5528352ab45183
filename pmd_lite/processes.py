"""Train on several processes of this machine with one call, also from a notebook cell: torchrun without a shell."""

import logging
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from multiprocessing import connection
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.spawn import ProcessContext, ProcessException, start_processes

from pmd_lite.api import load_corpus, train
from pmd_lite.config import Config, check_number
from pmd_lite.disk import place
from pmd_lite.errors import Interrupted, UserError
from pmd_lite.run import Run
from pmd_lite.training.distributed import STORE
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import ASKING, handled


def launch(
    corpus: str | Path = "longtail", method: str = "auto-pmd", preset_name: str | Config = "toy", *, processes: int = 0,
    corpus_options: Mapping[str, Any] | None = None, **words: Any,
) -> Run:  # fmt: skip
    """Run `train(...)` on several processes, one for each GPU or several on the CPU; returns the run.

    Args:
        corpus: name or directory (every process loads it). corpus_options: further arguments of `load_corpus`.
        processes: how many; 0 is one for every GPU, or two if there is no GPU.
        words: all other arguments of `train`. If an update has fewer micro-batches than there are processes, a new run
            divides it and keeps its tokens: 1 x 400 becomes 2 x 200 (see `training.distributed.divided`).
    On several machines, start `torchrun ... -m pmd_lite train ...` on each, with a run directory that all of them see.
    Raises UserError with the message of a process that failed, Interrupted after Ctrl-C. The last checkpoint is whole,
    and the same call continues the run.
    """
    check_number("processes", processes, int, 0, 10_000)
    count = processes or torch.cuda.device_count() or 2
    threads = max(1, (os.cpu_count() or 1) // count)
    job = {**words, "corpus": str(corpus), "method": method, "preset_name": preset_name}
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # our message names the process
    asked: list[int] = []  # the signals that come meanwhile; one that raises could be lost in a library's code
    with handled(lambda number, frame: asked.append(number)), tempfile.TemporaryDirectory() as folder:
        ranks = start_processes(
            _rank, (count, folder, one_rank, job, dict(corpus_options or {}), threads), count,
            join=False, start_method="spawn",
        )  # fmt: skip
        try:
            _wait(ranks, asked)
        except ProcessException as error:
            if not asked:
                raise _failure(error, count, Path(folder)) from None
        if not asked:
            return Run((Path(folder) / "run").read_text(encoding="utf-8"))
    name = signal.Signals(asked[0]).name
    raise Interrupted(f"stopped by {name}; what was saved is whole. Give the same command again to continue", asked[0])


def one_rank(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """The work of one process; returns the run directory."""
    torch.set_num_threads(threads)
    if sys.platform != "win32":  # gloo listens where this machine alone can reach it
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    corpus = load_corpus(job.pop("corpus"), **corpus_options)
    return str(train(corpus, **job).path)


def _rank(rank: int, size: int, folder: str, work: Callable[..., str], *words: Any) -> None:
    """A process: find the others, work, leave in the folder what the launcher says of it."""
    for number in ASKING:  # until training begins, a signal ends it
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    here = Path(folder)
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), STORE: str(here / "ranks")})
    try:
        path = work(*words)
        if rank == 0:
            (here / "run").write_text(path, encoding="utf-8", newline="\n")
    except (Interrupted, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the same Ctrl-C may still be on its way from the launcher
        sys.exit(128 + signal.SIGINT)
    except UserError as error:
        (here / f"said {rank}").write_text(str(error), encoding="utf-8", newline="\n")
        sys.exit(2)
    except RuntimeError:
        # When one process fails, the others lose the connection and fail too. The launcher checks all in turn.
        # So each waits before it ends: the first to fail then ends first, and the launcher reports its error.
        time.sleep(2)
        raise


def _wait(ranks: ProcessContext, asked: Sequence[int]) -> None:
    """Wait until all processes have ended; pass signals on, and give the processes half a minute to save.

    Raises ProcessException for the first that fails, after the others were ended.
    """
    passed, until = 0, math.inf
    while not ranks.join(timeout=0.2):
        for number in asked[passed:]:
            passed, until = passed + 1, min(until, time.monotonic() + 30)
            for process in ranks.processes:
                if process.is_alive():
                    os.kill(process.pid, number)
        if time.monotonic() > until:
            for process in ranks.processes:
                process.kill()


def _failure(error: ProcessException, count: int, folder: Path) -> UserError:
    """What a user is told of a process that failed: the request that is wrong, or how the process ended."""
    rank = error.error_index
    if (told := folder / f"said {rank}").exists():
        return UserError(told.read_text(encoding="utf-8"))
    print(error, file=sys.stderr)
    last = str(error).strip().splitlines()[-1].rstrip(".")
    return UserError(f"process {rank} of {count} ended: {last}. The run directory is whole; "
                     "the same call continues from the last checkpoint")  # fmt: skip


Job = Mapping[str, Any]
"""Arguments of `train`, `out` among them, with the corpus by name or path; `corpus_options` are `load_corpus`'s."""


def train_side_by_side(jobs: Sequence[Job], workers: int = 2, show: bool = True) -> list[Run]:
    """Train several runs at the same time, each in its own process with one thread; none depends on the others.

    A run in the calling process is equal up to rounding: on some processors its last digits differ. Small models leave
    a second core idle, so two at a time take less time.

    Args:
        jobs: for each run, arguments of `train`, see `Job`.
        workers: processes at the same time; more than the machine has cores do not help.
        show: print the progress of the runs, and the minutes.
    Raises the first UserError of any run.
    """
    outcomes = run_jobs(jobs, workers, stop_at_error=True, show=show)
    return [Run(outcome) for outcome in outcomes if isinstance(outcome, Path)]


def run_jobs(jobs: Sequence[Job], workers: int, stop_at_error: bool, show: bool = True) -> list[Path | UserError]:
    """Train every job; returns its run directory, or the UserError that ended it, in the order of `jobs`.

    A finished run is not repeated, an interrupted one is continued. Raises the first UserError if `stop_at_error`. Any
    other error, and Ctrl-C, is raised at once, without waiting for the other runs: they can be resumed.
    """
    check_number("workers", workers, int, 1, 10_000)
    if not jobs:
        return []
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(workers, len(jobs)), new_processes(), end_with_parent) as pool:
        futures = [pool.submit(_job, dict(job), stop_at_error) for job in jobs]
        try:
            _watch(futures, jobs, show)
        except BaseException:
            for child in set(multiprocessing.active_children()) - others:
                child.kill()  # after SIGTERM it would save, and begin the next run
            raise
    return [future.result() for future in futures]


def new_processes() -> multiprocessing.context.BaseContext:
    """How to start the processes of runs: as new processes, or as copies of one that has only imported all modules.

    Importing takes seconds of a core for every process. Copies are safe on Linux, and only without CUDA: a copy of a
    process that has looked for a GPU cannot use it.
    """
    if sys.platform != "linux" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    multiprocessing.set_forkserver_preload(["pmd_lite.api"])
    return multiprocessing.get_context("forkserver")


def _watch(futures: Sequence[Future[Path | UserError]], jobs: Sequence[Job], show: bool) -> None:
    """Print the progress of the runs until all are done; raise the error of a run."""
    before = sum((place(job["out"]) / "scores.json").exists() for job in jobs)
    pending, started, shown = set(futures), time.perf_counter(), ""
    live = sys.stdout.isatty() or len(jobs) <= 4  # otherwise, as in a log file: one line when a run ends
    while pending:
        pending = wait(pending, timeout=2, return_when=FIRST_EXCEPTION).not_done
        for done in set(futures) - pending:
            done.result()
        finished, spent = len(jobs) - len(pending), (time.perf_counter() - started) / 60
        line = f"{finished} of {len(jobs)} runs done, {spent:.0f} min"
        if pending and finished > before:
            line += f", about {spent / (finished - before) * len(pending):.0f} min left"
        for job, future in zip(jobs, futures, strict=True):
            if live and future in pending and future.running():
                run = RunDir(place(job["out"]))
                steps = [m["step"] for m in run.metrics()]
                line += f" | {run.path.name} {f'step {steps[-1]}' if steps else '...'}"
        if show and line != shown and (live or not shown.startswith(f"{finished} ")):
            print(("\r" + line.ljust(len(shown))) if live else line, end="" if live else "\n", flush=True)
            shown = line
    if show and live:
        print()


def end_with_parent() -> None:
    """Make a worker stop as soon as its parent has ended; its last checkpoint is whole."""
    if parent := multiprocessing.parent_process():
        gone = parent.sentinel
        threading.Thread(target=lambda: (connection.wait([gone]), os._exit(1)), daemon=True).start()


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
