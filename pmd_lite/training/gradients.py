"""Gradients summed over ranks while the backward pass still computes others, as DistributedDataParallel does it.

DDP itself does not fit here: it hangs when a rank has no micro-batch, it takes means, and trials copy models.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pmd_lite.training.distributed import Group

BUCKET = 25 * 2**20
"""Bytes of gradients that travel in one message, as in DDP."""


class SummedGradients:
    """The gradients of one update of a model, which become the sum over all ranks; with one rank it does nothing.

    They lie side by side in buckets, which all ranks send in the same order. So every rank gets the same bits.
    """

    def __init__(self, model: nn.Module, group: Group, sent_as: torch.dtype = torch.float32):
        """sent_as: bf16 halves the messages; each gradient is rounded to 8 bits, and so is each sum."""
        self._group, self._sent_as = group, sent_as
        self._buckets: list[Tensor] = []
        self._members: list[list[nn.Parameter]] = []
        self._sent: list[tuple[Tensor, Any]] = []
        room = 0
        # A backward pass meets the output layer first, so buckets begin with the last parameters.
        for parameter in reversed([p for p in model.parameters() if p.requires_grad] if group.size > 1 else []):
            if room <= 0:
                self._members.append([])
                room = BUCKET
            self._members[-1].append(parameter)
            room -= parameter.numel() * parameter.element_size()
        for members in self._members:
            sizes = [p.numel() for p in members]
            self._buckets.append(members[0].new_zeros(sum(sizes)))
            for parameter, part in zip(members, self._buckets[-1].split(sizes), strict=True):
                parameter.grad = part.view_as(parameter)  # backward passes add to it in place

    @contextmanager
    def last_pass(self, last: bool) -> Iterator[None]:
        """A backward pass. last: this rank has no other in this update, so a complete bucket is sent at once."""
        missing = [len(members) for members in self._members]

        def arrived(bucket: int, parameter: Tensor) -> None:
            missing[bucket] -= 1
            self._send(next((i for i, count in enumerate(missing) if count), len(missing)))

        waited = [(i, p) for i, members in enumerate(self._members if last else []) for p in members]
        hooks = [p.register_post_accumulate_grad_hook(functools.partial(arrived, i)) for i, p in waited]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        if last:
            self._send(len(missing))  # also those with a parameter that the pass did not use

    def finish(self, extra: Tensor) -> None:
        """Wait until all gradients are sums, and sum `extra` over ranks too, in place."""
        self._send(len(self._buckets))  # a rank without a micro-batch has sent nothing yet
        if extra.numel():
            self._group.sum(extra)
        for bucket, (message, work) in zip(self._buckets, self._sent, strict=True):
            work.wait()
            if message is not bucket:
                bucket.copy_(message)

    def _send(self, stop: int) -> None:
        """Send the buckets before `stop` that have not left yet."""
        for bucket in self._buckets[len(self._sent) : stop]:
            message = bucket.to(self._sent_as)
            self._sent.append((message, dist.all_reduce(message, async_op=True)))
