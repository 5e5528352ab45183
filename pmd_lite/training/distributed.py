"""One run on several processes: the same numbers as on one process, with a share of the work for each.

Every process ("rank") holds all students and follows the same plan: seeds alone decide pairs, sentences and dropout.
Each rank computes a share of an update's micro-batches. Then gradients and losses are summed over ranks, so all ranks
make the same step. Samplers and distillation weights are computed on every rank from equal numbers, and rank 0's result
is used. So the number of ranks does not affect a run that has begun (up to the order of floating-point sums), and it
may continue with another number. Their number matters only when a run begins, and only if an update has fewer
micro-batches than there are ranks: see `divided`.

torchrun sets the environment variables that `joined` reads; `pmd_lite.launch` sets them from a notebook.
"""

import dataclasses
import io
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from pmd_lite.config.sections import LEAST_TOKENS, Config
from pmd_lite.errors import UserError, reason, waiting
from pmd_lite.interfaces import Strategy

STORE = "PMD_LITE_STORE"
"""Variable with the file in which ranks of one machine find each other; without it, the address that torchrun sets."""
_PATIENCE = timedelta(days=1)  # of ranks with one that prepares data; if it dies, the launcher notices it long before
_TO_ANSWER = timedelta(minutes=30)  # how long a rank in training waits for the others: one may be writing a checkpoint
_TO_REPORT = 3.0  # seconds in which all ranks that still run notice that another does not answer
_TO_MEET = timedelta(minutes=15)  # how long the ranks wait for one another at the start: one may have a slower disk
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "MASTER_ADDR")


class Lost(UserError):
    """Another process of the run does not answer any more."""


@dataclass(frozen=True)
class Group:
    """The ranks of a run; by default there is one rank, which sends no messages."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    control: Any = None
    """A second group for messages on the CPU, so that agreeing on something does not wait for a GPU."""
    store: Any = None
    """Where ranks can leave a word for each other when the connection is broken."""

    def mine(self, count: int) -> range:
        """This rank's share of `count` pieces of work."""
        return range(self.rank, count, self.size)

    def sum(self, tensor: Tensor) -> None:
        """Sum over ranks, in place; every rank gets the same bits."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on at least one rank."""
        if self.size == 1:
            return flag
        votes = torch.tensor([int(flag)])
        dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self.control)
        return bool(votes)

    def spread(self, rank: int, tensors: Sequence[Tensor]) -> None:
        """Copy these tensors from one rank to all ranks, in place and in one message."""
        if self.size == 1:
            return
        flat = torch.cat([x.reshape(-1).float() for x in tensors])
        dist.broadcast(flat, src=rank)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors]), strict=True):
            x.copy_(part.view_as(x))

    def of_rank(self, rank: int, value: Any) -> Any:
        """The value that one rank has; every rank gets it, through CPU memory. It holds tensors and plain data only."""
        if self.size == 1:
            return value
        buffer = io.BytesIO()
        if self.rank == rank:
            torch.save(value, buffer)
        size = torch.tensor([buffer.tell()])
        dist.broadcast(size, src=rank, group=self.control)
        sent = torch.frombuffer(bytearray(buffer.getvalue().ljust(int(size), b"\0")), dtype=torch.uint8)
        dist.broadcast(sent, src=rank, group=self.control)
        return torch.load(io.BytesIO(sent.numpy().tobytes()), weights_only=True)  # dist's own pickle could run code

    def gathered(self, value: Any) -> list[Any]:
        """[rank] the value of each rank, of plain JSON types; every rank gets all."""
        return [json.loads(self.of_rank(rank, json.dumps(value))) for rank in range(self.size)]

    def barrier(self, whom: str = "process 0 of this run, which prepares the data") -> None:
        """Wait until all ranks are here. whom: for whom other ranks than 0 wait, in words."""
        if self.size > 1:
            who = whom if self.rank else "the other processes of this run"
            with waiting(who) if self.rank < 2 else nullcontext():  # ranks 0 and 1 speak for all
                dist.monitored_barrier(group=self.control, timeout=_PATIENCE)

    @contextmanager
    def answered(self, doing: Callable[[], str]) -> Iterator[None]:
        """Work with the other ranks. Raises Lost, which names those that do not answer; doing: what this rank does."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not re.search("gloo|nccl|timeout|connection", str(error), re.IGNORECASE):
                raise
            self.store.set(f"waited {self.rank}", "")  # so does every rank that still runs
            time.sleep(_TO_REPORT)
            silent = ", ".join(str(rank) for rank in range(self.size) if not self.store.check([f"waited {rank}"]))
            whom = f"process {silent}" if silent else "the others"
            raise Lost(f"process {self.rank} of {self.size} had no answer from {whom} in {doing()} ({reason(error)}). "
                       "See what they printed last, and whether the network holds. Then start all processes again: the "
                       "run continues from its last checkpoint") from None  # fmt: skip

    @contextmanager
    def first(self) -> Iterator[None]:
        """A block that rank 0 runs before the other ranks, so that they find the files that it writes."""
        if self.rank:
            self.barrier()
        yield
        if not self.rank:
            self.barrier()


ALONE = Group()
_current = ALONE


def current() -> Group:
    """The ranks that this process belongs to."""
    return _current


def place_among_ranks() -> tuple[int, int, int]:
    """(rank, number of ranks, rank on this machine), as torchrun says in the environment; without it (0, 1, 0).

    Raises UserError when the variables of torchrun do not fit together: a terminal may keep some of an earlier run.
    """
    said = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    if not said.keys() & {"RANK", "WORLD_SIZE"}:
        return 0, 1, 0
    numbers = ({"LOCAL_RANK": "0", **said}.get(name, "") for name in _VARIABLES[:4])
    rank, size, local, port = (int(text) if text.isdecimal() else -1 for text in numbers)
    reachable = STORE in os.environ or (0 < port < 65536 and said.get("MASTER_ADDR"))
    if not 0 <= rank < size or local < 0 or (size > 1 and not reachable):
        values = ", ".join(f"{name}={value}" for name, value in said.items())
        raise UserError(f"the environment has {values}, which does not describe the processes of one run. If torchrun "
                        f"did not start this process: unset {' '.join(said)}")  # fmt: skip
    return rank, size, local


@contextmanager
def joined(device: str = "auto") -> Iterator[Group]:
    """Join the ranks that torchrun started (without it: one rank). Inside another `joined`, keep that one's ranks.

    Raises UserError when the environment names ranks but they cannot connect.
    """
    global _current
    rank, size, local = place_among_ranks()
    if size == 1 or _current.size > 1:
        yield _current
        return
    cuda = device in ("auto", "cuda") and torch.cuda.is_available()
    if cuda:
        if local >= torch.cuda.device_count():
            what = f"rank {local} of this machine has no GPU of its own: there are {torch.cuda.device_count()}"
            raise UserError(f"{what}. Start one process per GPU, or give --device cpu")
        torch.cuda.set_device(local)
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) if main else None  # PyTorch would not let Ctrl-C through
    try:
        with waiting(f"the other {size - 1} of {size} processes (WORLD_SIZE={size}, RANK={rank}). If torchrun did not "
                     "start this process, stop it and unset both variables"):  # fmt: skip
            if STORE in os.environ:
                store: Any = torch.distributed.FileStore(os.environ[STORE], size)  # type: ignore[attr-defined]
            else:
                store, _, _ = next(rendezvous("env://", rank, size, timeout=_TO_MEET))
            # NCCL would end the process without a word, so Python's own group is the first to lose patience.
            dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size,
                                    timeout=2 * _TO_ANSWER if cuda else _TO_ANSWER)  # fmt: skip
        control = dist.new_group(backend="gloo", timeout=_TO_ANSWER)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the {size} processes of this run cannot connect to each other ({reason(error)}). Check "
                        "MASTER_ADDR and the network, then start all of them again") from None  # fmt: skip
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    _current = Group(rank, size, local, control, store)
    try:
        yield _current
    finally:
        _current = ALONE
        dist.destroy_process_group()


def divided(config: Config, processes: int) -> Config:
    """The configuration with at least one micro-batch for every process; an update keeps its number of tokens.

    8 micro-batches of 8,192 tokens become 16 of 4,096 for 16 processes (rounded down if necessary). With
    turns="together" every process trains a student of its own, and nothing changes. Smaller micro-batches mean other
    draws of pairs, so this is another run: a run is divided only when it begins, and its config.json holds the result.
    Raises UserError when a micro-batch would become too small.
    """
    train = config.train
    if train.turns == "together" or processes <= train.accumulate:
        return config
    whole = train.tokens * train.accumulate
    if (tokens := whole // processes) < LEAST_TOKENS:
        raise UserError(f"{processes} processes for an update of {train.accumulate} x {train.tokens:,} tokens: "
                        f"{tokens} for each process are too few. Start at most {whole // LEAST_TOKENS}, or raise "
                        "tokens")  # fmt: skip
    return dataclasses.replace(config, train=dataclasses.replace(train, tokens=tokens, accumulate=processes))


def shared(group: Group, strategy: Strategy) -> None:
    """Give rank 0's state of a sampler or distiller to all ranks, after an update."""
    if group.size > 1:
        strategy.load_state_dict(group.of_rank(0, strategy.state_dict()))
