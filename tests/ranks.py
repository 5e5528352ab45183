"""What a process of tests/library/test_distributed.py does, in a module that a spawned process can import."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import torch.distributed as dist

from pmd_lite import processes
from pmd_lite.training.distributed import current
from pmd_lite.training.trainer import Trainer


def heard(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """Like the launcher's own function; the output of the process goes into OUT.err.

    Not to the test's own capture: a forked process has the standard error of the fork server, which an earlier test may
    have started.
    """
    said = os.open(Path(job["out"]).with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 2)
    return processes.one_rank(job, corpus_options, threads)


def listening(process: int | str) -> set[str]:
    """The addresses at which a process of Linux listens, as the system writes them in hexadecimal."""
    links = (os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir() if link.is_symlink())
    sockets = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    tables = [Path("/proc/net", name).read_text(encoding="ascii") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.split("\n") if line]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets}


def tells_where_it_listens(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """Like the launcher's own function; OUT.N.listens gets the addresses at which rank N and the launcher listen."""
    place, new_group, launcher = Path(job["out"]), dist.new_group, job.pop("launcher")

    def told(*args: Any, **words: Any) -> Any:
        group = new_group(*args, **words)
        found = listening("self") | listening(launcher)
        place.with_suffix(f".{dist.get_rank()}.listens").write_text(" ".join(found), encoding="utf-8")
        return group

    dist.new_group = told
    return heard(job, corpus_options, threads)


def rank_1_dies(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """Like the launcher's own function, but the system kills rank 1 in its sixth update."""
    update = Trainer.update

    def short_lived(self: Trainer, *args: Any) -> int:
        if current().rank == 1 and self.clock.step == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return update(self, *args)

    Trainer.update = short_lived  # type: ignore[method-assign]
    return heard(job, corpus_options, threads)
