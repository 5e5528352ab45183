"""One run on several processes: the same numbers as one process makes, a share of the work each.

Every process ("rank") holds all students and plays the same plan: which pair, which sentences, which dropout follows
from seeds alone. Of the micro-batches of an update each rank computes its share, then gradients and losses are summed
over ranks, so all of them make the same step. What needs no sharing (samplers, weights of distillation) is computed
everywhere from equal numbers, and rank 0's outcome holds. So the number of ranks does not change a run that has begun:
it may continue with another number of them, up to the order of floating-point sums. Only where it begins does their
number count, if an update has fewer micro-batches than there are ranks: see `divided`.

torchrun sets the environment variables that `joined` reads; `pmd_lite.launch` does so from a notebook.
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

_PATIENCE = timedelta(days=1)
"""How long a rank waits for rank 0 to prepare data; a rank that died is noticed by the launcher, long before."""


@dataclass(frozen=True)
class Group:
    """The ranks of a run; by default there is one, and nothing is sent anywhere."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    control: Any = None
    """A group of CPU messages beside that of the gradients, so that agreeing on something never waits for a GPU."""

    def mine(self, count: int) -> range:
        """Which of `count` pieces of work are this rank's."""
        return range(self.rank, count, self.size)

    def sum(self, tensor: Tensor) -> None:
        """Sum over ranks, in place; every rank gets the same bits."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def sum_gradients(self, model: nn.Module, extra: Tensor) -> None:
        """Sum every gradient of `model`, and `extra` with them, over ranks, in one message."""
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
        """Whether the flag is up on some rank."""
        if self.size == 1:
            return flag
        votes = torch.tensor([int(flag)])
        dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self.control)
        return bool(votes.item())

    def spread(self, rank: int, tensors: Sequence[Tensor]) -> None:
        """Give the contents of these tensors on one rank to all, in place and in one message."""
        if self.size == 1:
            return
        flat = torch.cat([x.reshape(-1).float() for x in tensors])
        dist.broadcast(flat, src=rank)
        for x, part in zip(tensors, flat.split([x.numel() for x in tensors]), strict=True):
            x.copy_(part.view_as(x))

    def rank_0s(self, value: Any) -> Any:
        """What rank 0 holds, on every rank."""
        return self.of_rank(0, value)

    def of_rank(self, rank: int, value: Any) -> Any:
        """What one rank holds, on every rank. It travels through CPU memory."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=rank, group=self.control)
        return box[0]

    def barrier(self) -> None:
        """Wait for all."""
        if self.size > 1:
            dist.barrier(group=self.control)

    @contextmanager
    def first(self) -> Iterator[None]:
        """A block that rank 0 runs before the others: it makes files that they then find."""
        if self.rank:
            self.barrier()
        yield
        if not self.rank:
            self.barrier()


ALONE = Group()
_current = ALONE


def current() -> Group:
    """The ranks this process belongs to."""
    return _current


@contextmanager
def joined(device: str = "auto") -> Iterator[Group]:
    """Join the ranks that torchrun started, or be alone where it did not; inside another `joined` the same ones.

    Raises UserError when the environment names ranks but they do not find together.
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
                            f"{torch.cuda.device_count()}. Start one process a GPU, or give --device cpu")  # fmt: skip
        torch.cuda.set_device(local)
    try:
        dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=size)
        control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the {size} processes of this run do not find together ({error})") from None
    _current = Group(rank, size, local, control)
    try:
        yield _current
    finally:
        _current = ALONE
        dist.destroy_process_group()


def divided(config: Config, processes: int) -> Config:
    """The same with a micro-batch for every process, where an update has fewer of them; its tokens stay what they are.

    8 micro-batches of 8,192 tokens become 16 of 4,096 for 16 processes (rounded down where it must be). With
    turns="together" every process trains a student of its own, and nothing changes. Smaller micro-batches are other
    draws of pairs, hence another run: a run is divided once, when it begins, and its config.json says how.
    Raises UserError when a micro-batch would become too small.
    """
    train = config.train
    if train.turns == "together" or processes <= train.accumulate:
        return config
    tokens = train.tokens * train.accumulate // processes
    if tokens < LEAST_TOKENS:
        raise UserError(
            f"{processes} processes for an update of {train.accumulate} x {train.tokens:,} tokens: {tokens} for each "
            f"are too few. Start at most {train.tokens * train.accumulate // LEAST_TOKENS}, or raise tokens"
        )
    return dataclasses.replace(config, train=dataclasses.replace(train, tokens=tokens, accumulate=processes))


def shared(group: Group, states: Sequence[Any]) -> None:
    """Let rank 0's state hold everywhere: samplers and distillers, after they have decided something."""
    if group.size == 1:
        return
    for owner, state in zip(states, group.rank_0s([owner.state_dict() for owner in states]), strict=True):
        owner.load_state_dict(state)
