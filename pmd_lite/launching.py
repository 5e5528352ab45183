"""Train on several processes of this machine from one call, also from a notebook cell: torchrun without a shell."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from pmd_lite.api import load_corpus, train
from pmd_lite.config import Config
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.trainer import Interrupted

_REFUSED = "UserError: "
_LOGGERS = ("torch.multiprocessing.spawn", "torch.distributed.elastic.multiprocessing.api")


def launch(
    corpus: str | Path = "longtail", method: str = "auto-pmd", preset_name: str | Config = "toy", *, processes: int = 0,
    corpus_options: Mapping[str, Any] | None = None, **words: Any,
) -> Run:  # fmt: skip
    """`train(...)` on several processes, one a GPU, or several on the CPU; returns the run.

    Args:
        corpus: name or directory (every process loads it). corpus_options: further arguments of `load_corpus`.
        processes: how many; 0 is one for every GPU, or two where there is none.
        words: all other arguments of `train`. An update with fewer micro-batches than processes is divided when the run
            begins, and keeps its tokens: 1 x 400 becomes 2 x 200 (see `training.distributed.divided`).
    On several machines, start `torchrun ... -m pmd_lite train ...` on each, with a run directory that all of them see.
    Raises UserError with what a process complained of, Interrupted after Ctrl-C; what was saved until then is whole,
    and the same call goes on.
    """
    count = processes or torch.cuda.device_count() or 2
    threads = max(1, (os.cpu_count() or 1) // count)
    job = {**words, "corpus": str(corpus), "method": method, "preset_name": preset_name}
    try:
        with _handlers_kept(), _torch_heard_if_it_helps(), tempfile.TemporaryDirectory() as logs:
            config = LaunchConfig(
                min_nodes=1, max_nodes=1, nproc_per_node=count, run_id=uuid.uuid4().hex, rdzv_backend="c10d",
                rdzv_endpoint=f"localhost:{_free_port()}", max_restarts=0, start_method="spawn", monitor_interval=0.2,
                local_addr="localhost", logs_specs=DefaultLogsSpecs(log_dir=logs),
            )  # fmt: skip
            paths = elastic_launch(config, one_rank)(job, dict(corpus_options or {}), threads)
    except SignalException as error:  # the launcher has passed the signal on, and given processes 30 seconds
        raise Interrupted(f"stopped by {signal.Signals(error.sigval).name}; what was saved is whole. Give the same "
                          "command again to go on") from None  # fmt: skip
    except ChildFailedError as error:
        rank, said = _said(error)
        if said.startswith(_REFUSED):  # the request is wrong, not the process
            raise UserError(said.removeprefix(_REFUSED)) from None
        raise UserError(f"process {rank} of {count} ended: {said}. The run directory is whole; "
                        "the same call goes on from the last checkpoint") from None  # fmt: skip
    return Run(paths[0])


def one_rank(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """One process."""
    torch.set_num_threads(threads)
    corpus = load_corpus(job.pop("corpus"), **corpus_options)
    try:
        return str(train(corpus, **job).path)
    except Interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the same Ctrl-C may still be on its way from the launcher
        raise


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put signal handlers back: the launcher sets its own and leaves them, and Ctrl-C would no longer be Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _torch_heard_if_it_helps() -> Iterator[None]:
    """Hold back what PyTorch logs about processes that end: our own error says all of it where a request is refused.

    Of anything else that happened it is let go, traceback and all.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    held: list[logging.LogRecord] = []

    def hold(record: logging.LogRecord) -> bool:
        held.append(record)
        return False

    for logger in loggers:
        logger.addFilter(hold)
    refused = False
    try:
        yield
    except ChildFailedError as error:
        refused = _said(error)[1].startswith(_REFUSED)
        raise
    finally:
        for logger in loggers:
            logger.removeFilter(hold)
        for record in [] if refused else held:
            logging.getLogger(record.name).handle(record)


def _said(error: ChildFailedError) -> tuple[int, str]:
    """The process that failed first, and the last line of what it said."""
    rank, failure = error.get_first_failure()
    return int(rank), _reason(failure.message).removeprefix("pmd_lite.errors.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _reason(message: Any) -> str:
    """The last line of what a process said."""
    said = message.get("message", message) if isinstance(message, dict) else message
    lines = [line for line in str(said).splitlines() if line.strip()]
    return lines[-1].strip().rstrip(".") if lines else "without a word"
