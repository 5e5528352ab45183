"""Train on several processes of this machine with one call, also from a notebook cell: torchrun without a shell."""

import logging
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import connection
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from pmd_lite.api import load_corpus, train
from pmd_lite.config import Config, check_number
from pmd_lite.disk import place
from pmd_lite.errors import Interrupted, UserError
from pmd_lite.run import Run
from pmd_lite.training.distributed import STORE
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import ASKING

_TOLD = ("UserError: ", "Lost: ")  # errors that say all: a request that is wrong, or a process that does not answer
_LOGGERS = ("torch.multiprocessing.spawn", "torch.distributed.elastic.multiprocessing.api")


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
    # By default the launcher passes USR1 on to no process, and dies of it.
    os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", ",".join(signal.Signals(x).name for x in ASKING))
    try:
        with _handlers_kept(), _torch_heard_if_it_helps(), tempfile.TemporaryDirectory() as logs:
            config = LaunchConfig(
                min_nodes=1, max_nodes=1, nproc_per_node=count, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
                rdzv_endpoint=str(Path(logs) / "agent"), rdzv_configs={"store_type": "file"}, max_restarts=0,
                start_method="spawn", monitor_interval=0.2, local_addr="localhost",
                logs_specs=DefaultLogsSpecs(log_dir=logs),
            )  # fmt: skip
            # torch's TCP store would listen on every interface, and runs what it receives. A file does not.
            os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
            job["store"] = str(Path(logs) / "ranks")
            paths = elastic_launch(config, one_rank)(job, dict(corpus_options or {}), threads)
    except SignalException as error:  # the launcher has passed the signal on and given the processes 30 seconds
        stopped = Interrupted(f"stopped by {signal.Signals(error.sigval).name}; what was saved is whole. Give the same "
                              "command again to continue")  # fmt: skip
        stopped.number = error.sigval
        raise stopped from None
    except ChildFailedError as error:
        rank, said = _said(error)
        if said.startswith(_TOLD):
            raise UserError(said.partition(": ")[2]) from None
        raise UserError(f"process {rank} of {count} ended: {said}. The run directory is whole; "
                        "the same call continues from the last checkpoint") from None  # fmt: skip
    return Run(paths[0])


def one_rank(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """The work of one process; returns the run directory."""
    torch.set_num_threads(threads)
    os.environ[STORE] = job.pop("store")
    if sys.platform != "win32":  # gloo listens where this machine alone can reach it
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    corpus = load_corpus(job.pop("corpus"), **corpus_options)
    try:
        return str(train(corpus, **job).path)
    except Interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the same Ctrl-C may still be on its way from the launcher
        raise
    except RuntimeError:
        # When one process fails, the others lose the connection and fail too. The launcher checks all in turn.
        # So each waits before it ends: the first to fail then ends first, and the launcher reports its error.
        time.sleep(2)
        raise


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put signal handlers back: the launcher sets its own and leaves them, and Ctrl-C would not work as before."""
    may_set = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in signal.valid_signals()} if may_set else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _torch_heard_if_it_helps() -> Iterator[None]:
    """Hold back PyTorch's log of ended processes; print it unless a request was refused: then our error says all."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    held: list[logging.LogRecord] = []

    def hold(record: logging.LogRecord) -> bool:
        held.append(record)
        return False

    for logger in loggers:
        logger.addFilter(hold)
    try:
        yield
    except ChildFailedError as error:
        if _said(error)[1].startswith(_TOLD):
            held.clear()
        raise
    finally:
        for logger in loggers:
            logger.removeFilter(hold)
        for record in held:
            logging.getLogger(record.name).handle(record)


def _said(error: ChildFailedError) -> tuple[int, str]:
    """The number of the process that failed first, and the last line of its message."""
    rank, failure = error.get_first_failure()
    said: Any = failure.message
    said = said.get("message", said) if isinstance(said, dict) else said
    lines = [line.strip() for line in str(said).splitlines() if line.strip()] or ["without a word"]
    return int(rank), re.sub(r"^pmd_lite\.[\w.]+\.", "", lines[-1].rstrip("."))


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
    with ProcessPoolExecutor(min(workers, len(jobs)), _new_processes(), _end_with_parent) as pool:
        futures = [pool.submit(_job, dict(job), stop_at_error) for job in jobs]
        try:
            _watch(futures, jobs, show)
        except BaseException:
            for child in set(multiprocessing.active_children()) - others:
                child.kill()  # after SIGTERM it would save, and begin the next run
            raise
    return [future.result() for future in futures]


def _new_processes() -> multiprocessing.context.BaseContext:
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
        if finished > before:
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


def _end_with_parent() -> None:
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
