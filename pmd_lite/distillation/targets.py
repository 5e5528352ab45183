"""Teachers' predictions on a batch, kept as hidden states (d_model numbers per token) and projected chunk by chunk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from pmd_lite.distillation.projection import Output, output_of, project, token_states
from pmd_lite.interfaces import Scratch
from pmd_lite.model.layers import for_products
from pmd_lite.model.mode import in_mode


class TeacherPart(NamedTuple):
    """One of several teachers. Nothing here gets a gradient."""

    hidden: Tensor
    """[tokens, d_model]"""
    output: Output
    share: float


@dataclass(frozen=True)
class TeacherStates:
    """Next-token distributions of one or several teachers."""

    parts: Sequence[TeacherPart]
    """The teachers, not yet projected; their shares sum to 1."""
    whole: Tensor | None = None
    """[tokens, vocab] the same distributions, rows sum to 1, if they are projected already."""

    def probs(self, rows: slice, scratch: Scratch | None = None) -> Tensor:
        """[chunk, vocab] share-weighted mean of the teachers' probabilities, fp32 or better; in scratch[1] if given."""
        if self.whole is not None:
            return self.whole[rows]
        logits, mean = scratch or (None, None)
        for number, (hidden, output, share) in enumerate(self.parts):
            p = torch.softmax(project(hidden[rows], output, logits), dim=-1, out=mean if number == 0 else None)
            p = p if share == 1 else p.mul_(share)
            mean = p if mean is None or number == 0 else mean.add_(p)
        if not self.parts or mean is None:
            raise ValueError("distillation needs at least one teacher")
        return mean

    def kd(self, rows: slice, logits: Tensor, scratch: Scratch, each: bool) -> tuple[Tensor, Tensor, float]:
        """Eq. 3 for one chunk: log Z - sum_w p_T(w) z_w, as p_T sums to 1."""
        p = self.probs(rows, scratch)
        if each:
            return torch.mul(p, logits, out=scratch[0]).sum(-1).neg_(), p, 1.0
        return torch.dot(p.view(-1), logits.view(-1)).neg_(), p, 1.0  # this takes one pass over memory, not three

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log-probability the teachers give to the gold tokens."""
        return self.probs(rows).gather(-1, gold[:, None])[:, 0].log()

    def kept(self) -> Self:
        """The same predictions for several students in turn: projected only once, if that is `worth_keeping`."""
        small = all(worth_keeping(len(part.hidden), len(part.output.weight)) for part in self.parts)
        return replace(self, whole=self.probs(slice(None))) if small else self


def worth_keeping(tokens: int, vocab: int) -> bool:
    """Whether a batch's probabilities, [tokens, vocab] in fp32, take at most 64 MiB."""
    return tokens * vocab <= 2**24


def teacher_states(
    teachers: Sequence[tuple[nn.Module, float]], src: Tensor, trg_in: Tensor, keep: Tensor, dropout: bool = False
) -> TeacherStates:
    """Run the teachers on a batch; arguments as in `losses.soft_target`. Each teacher keeps its mode."""
    parts = []
    for teacher, share in teachers:
        with in_mode(teacher, dropout), torch.inference_mode():
            hidden = for_products(token_states(teacher, src, trg_in, keep))
            weight, bias = output_of(teacher)
            output = Output(weight.detach().to(hidden.dtype), None if bias is None else bias.detach())
            parts.append(TeacherPart(hidden, output, share))
    return TeacherStates(parts)
