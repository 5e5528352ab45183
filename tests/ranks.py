"""What a process of tests/library/test_distributed.py does, in a module that a spawned process can import."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from pmd_lite import processes
from pmd_lite.run import Run
from pmd_lite.training import distributed, gradients
from pmd_lite.training.distributed import Group, current
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


def tells_what_it_translates(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """Like the launcher's own function; OUT.N.translates gets the pairs of the sets that rank N translates."""
    place, translate = Path(job["out"]), Run.translate

    def told(self: Run, sentences: Any, pair: str, **words: Any) -> list[str]:
        with place.with_suffix(f".{current().rank}.translates").open("a", encoding="utf-8") as file:
            file.write(f"{pair}\n")
        return translate(self, sentences, pair, **words)

    Run.translate = told  # type: ignore[assignment, method-assign]
    return heard(job, corpus_options, threads)


def sums_gradients(rank: int, size: int, folder: str) -> None:
    """Save the gradients that a rank gets through buckets, and the blocking sums of the same passes."""
    store = dist.FileStore(str(Path(folder) / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    gradients.BUCKET = 200
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, 1))
    generator = torch.Generator().manual_seed(rank)
    passes = [torch.randn(4, 5, generator=generator) for _ in range((2, 1, 0, 1)[rank])]
    summed = gradients.SummedGradients(model, Group(rank, size))
    for batch in passes:
        with summed.last_pass(batch is passes[-1]):
            model(batch).sum().backward()
    summed.finish(torch.zeros(0))
    bucketed = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    for batch in passes:
        model(batch).sum().backward()
    blocking = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    for gradient in blocking:
        dist.all_reduce(gradient)
    torch.save((bucketed, blocking), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def waits(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """A rank that has not begun to train."""
    time.sleep(600)
    return ""


def rank_1_hangs(job: dict[str, Any], corpus_options: dict[str, Any], threads: int) -> str:
    """Like the launcher's own function, but rank 1 stops in its sixth update, and nobody waits for long."""
    update = Trainer.update

    def stopped(self: Trainer, *args: Any) -> int:
        if current().rank == 1 and self.clock.step == 6:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # else the launcher would wait half a minute for it to save
            time.sleep(600)
        return update(self, *args)

    Trainer.update = stopped  # type: ignore[method-assign]
    distributed._TO_ANSWER, distributed._TO_REPORT = timedelta(seconds=4), 1.0
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
