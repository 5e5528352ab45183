"""One run on several processes: the same numbers as on one process, with a share of the work for each.

Every process ("rank") holds all students and follows the same plan: seeds alone decide pairs, sentences and dropout.
Each rank computes a share of an update's micro-batches. Then gradients and losses are summed over ranks, so all ranks
make the same step. Samplers and distillation weights are computed on every rank from equal numbers, and rank 0's result
is used. So the number of ranks does not affect a run that has begun (up to the order of floating-point sums), and it
may continue with another number. Their number matters only when a run begins, and only if an update has fewer
micro-batches than there are ranks: see `divided`.

torchrun sets the environment variables that `joined` reads; `pmd_lite.launch` sets them from a notebook.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pmd_lite.config import LEAST_TOKENS, Config
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Strategy

_PATIENCE = timedelta(days=1)
"""How long a rank waits for rank 0 to prepare data. If a rank dies, the launcher notices it long before."""


@dataclass(frozen=True)
class Group:
    """The ranks of a run; by default there is one rank, which sends no messages."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    control: Any = None
    """A second group for messages on the CPU, so that agreeing on something does not wait for a GPU."""

    def mine(self, count: int) -> range:
        """This rank's share of `count` pieces of work."""
        return range(self.rank, count, self.size)

    def sum(self, tensor: Tensor) -> None:
        """Sum over ranks, in place; every rank gets the same bits."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def sum_gradients(self, model: nn.Module, extra: Tensor) -> None:
        """Sum every gradient of `model`, and `extra`, over ranks, in one message."""
        if self.size == 1:
            return
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([x.reshape(-1).float() for x in (*gradients, extra)])
        dist.all_reduce(flat)
        parts = flat.split([x.numel() for x in (*gradients, extra)])
        for parameter, part in zip(parameters, parts[:-1], strict=True):
            parameter.grad = part.view_as(parameter).to(parameter.dtype)
        extra.copy_(parts[-1].view_as(extra))

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on at least one rank."""
        if self.size == 1:
            return flag
        votes = torch.tensor([int(flag)])
        dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self.control)
        return bool(votes.item())

    def spread(self, rank: int, tensors: Sequence[Tensor]) -> None:
        """Copy these tensors from one rank to all ranks, in place and in one message."""
        if self.size == 1:
            return
        flat = torch.cat([x.reshape(-1).float() for x in tensors])
        dist.broadcast(flat, src=rank)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors]), strict=True):
            x.copy_(part.view_as(x))

    def of_rank(self, rank: int, value: Any) -> Any:
        """The value that one rank has; every rank gets it, through CPU memory."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=rank, group=self.control)
        return box[0]

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            dist.barrier(group=self.control)

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


@contextmanager
def joined(device: str = "auto") -> Iterator[Group]:
    """Join the ranks that torchrun started (without it: one rank). Inside another `joined`, keep that one's ranks.

    Raises UserError when the environment names ranks but they cannot connect.
    """
    global _current
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or _current.size > 1:
        yield _current
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    cuda = device in ("auto", "cuda") and torch.cuda.is_available()
    if cuda:
        if local >= torch.cuda.device_count():
            raise UserError(f"rank {local} of this machine has no GPU of its own: there are "
                            f"{torch.cuda.device_count()}. Start one process per GPU, or give --device "
                            "cpu")  # fmt: skip
        torch.cuda.set_device(local)
    try:
        dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=size)
        control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the {size} processes of this run cannot connect to each other ({error})") from None
    _current = Group(rank, size, local, control)
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
    tokens = train.tokens * train.accumulate // processes
    if tokens < LEAST_TOKENS:
        raise UserError(f"{processes} processes for an update of {train.accumulate} x {train.tokens:,} tokens: "
                        f"{tokens} for each process are too few. Start at most "
                        f"{train.tokens * train.accumulate // LEAST_TOKENS}, or raise tokens")  # fmt: skip
    return dataclasses.replace(config, train=dataclasses.replace(train, tokens=tokens, accumulate=processes))


def shared(group: Group, strategy: Strategy) -> None:
    """Give rank 0's state of a sampler or distiller to all ranks, after an update."""
    if group.size > 1:
        strategy.load_state_dict(group.of_rank(0, strategy.state_dict()))
