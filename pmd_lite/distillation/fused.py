"""Eq. 1, 3 and 4 without a [tokens, vocab] tensor: projection, softmax and loss, a few hundred tokens at a time.

`losses.py` defines the loss; this file computes the same numbers with less memory. Let z = W h be the logits of a
token and p their softmax. Then every loss here has a gradient on z that is known in closed form:

    L_ce (Eq. 1)   p - q_smooth
    L_kd (Eq. 3)   p - p_T, in general `push` p - `pull` (see `interfaces.Target`)

So the forward pass also computes the gradients on the hidden states and on W, chunk by chunk, and keeps only these;
the backward pass multiplies them by a number. Teachers' predictions are projected chunk by chunk too (`targets.py`).
(Liger-Kernel and TRL chunk their losses in the same way; the formulas are ours.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pmd_lite.distillation.projection import Output, chunks, project
from pmd_lite.interfaces import Scratch, Target
from pmd_lite.model.layers import for_products

LOWEST = -1e30
"""Replaces an output bias of -inf. Its softmax is 0 too, but 0 times it is 0 and not NaN. `_Impossible` finds the
losses that are infinite because of such a token."""


@dataclass(frozen=True)
class Mix:
    """The loss of one micro-batch: ce * L_ce + kd * L_kd, where a gate may weigh each token's L_kd."""

    ce: float = 1.0
    """Factor of L_ce; Eq. 4: 1 - alpha."""
    kd: float = 0.0
    """Factor of L_kd; Eq. 4: alpha. At 0 the target is not used."""
    target: Target | None = None
    """The teachers' predictions."""
    gate: Callable[[Tensor, Tensor], Tensor] | None = None
    """(student's, teacher's) log-probabilities of the gold tokens, [tokens] both -> factor of each token's L_kd.
    None: 1."""


def projected_loss(hidden: Tensor, output: Output, gold: Tensor, smoothing: float, mix: Mix) -> tuple[Tensor, Tensor]:
    """The loss of one micro-batch, with a gradient on `hidden` and on the tensors of `output`.

    Args:
        hidden: [tokens, d_model] states of real target tokens. gold: [tokens].
        smoothing: eps of Eq. 1.
    Returns: (loss [], sums [3]). Differentiate the loss; the sums are L_ce, L_kd (gated) and plain NLL, without
        gradient. All are summed over tokens, in nats.
    Raises: RuntimeError in the backward pass, when it is to be differentiated twice.
    """
    hidden = for_products(hidden)
    loss, sums = _ProjectedLoss.apply(hidden, *output, gold, smoothing, mix)  # type: ignore[no-untyped-call]
    return loss, sums


def projected_sums(hidden: Tensor, output: Output, gold: Tensor, smoothing: float) -> Tensor:
    """[3]: L_ce, 0 and NLL, summed over tokens in nats, without gradient."""
    return _sweep(hidden, output, gold, smoothing, Mix(), False)[0]


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, gold: Tensor, smoothing: float, mix: Mix
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:3])
        sums, ctx.gradients = _sweep(hidden, Output(weight, bias), gold, smoothing, mix, wanted)
        ctx.mark_non_differentiable(sums)
        ctx.set_materialize_grads(False)
        return mix.ce * sums[0] + mix.kd * sums[1], sums

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        # create_graph=True: PyTorch would take the saved gradients for constants, and the result would be wrong.
        if torch.is_grad_enabled():
            raise RuntimeError("projected_loss computes its gradient in the forward pass, so it cannot be "
                               "differentiated twice: use the functions of losses.py for that")  # fmt: skip
        if grad_loss is None:
            return (None,) * 6
        if ctx.gradients is None:
            raise RuntimeError("projected_loss does not keep its gradient: call backward only once")
        # Scaled in place, so that memory holds one [vocab, d_model] gradient and not two.
        gradients, ctx.gradients = ctx.gradients, None
        return *(None if x is None else x.mul_(grad_loss.to(x.dtype)) for x in gradients), None, None, None


def _sweep(
    hidden: Tensor, output: Output, gold: Tensor, smoothing: float, mix: Mix, gradients: bool
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """All chunks in turn -> sums [3] and, if wanted, the mixed loss's gradients on hidden, weight and bias."""
    gate = _gates(hidden, output, gold, mix) if mix.gate is not None and mix.kd else None
    bias = None if output.bias is None else output.bias.clamp(min=LOWEST)
    used = Output(output.weight.detach().to(hidden.dtype), bias)  # cast once, not once for each chunk
    never = None if output.bias is None else _Impossible(output.bias)
    # Label smoothing needs the sum of all logits of a token. It is h times the sum of the rows of W, so no chunk has
    # to add up its [chunk, vocab] logits. A matrix product would be rounded under autocast; this sum is not.
    wide = torch.promote_types(hidden.dtype, torch.float32)
    column = used.weight.sum(0, dtype=wide) if smoothing else hidden.new_zeros(hidden.shape[-1], dtype=wide)
    total = (hidden * column).sum(-1) + (0 if output.bias is None else output.bias.sum())
    lower = mix.ce * smoothing / (len(used.weight) - 1)
    made = _Gradients(hidden, output, lower * column, lower) if gradients else None
    sums: Tensor | None = None
    parts = chunks(len(hidden), len(used.weight))
    # Three [chunk, vocab] tensors that all chunks share: new memory for every chunk would be slow.
    longest = max((rows.stop - rows.start for rows in parts), default=0)
    space = [hidden.new_empty(longest, len(used.weight), dtype=wide) for _ in range(3)]
    for rows in parts:
        logits, *scratch = (whole[: rows.stop - rows.start] for whole in space)
        project(hidden[rows], used, logits)
        part, grad = _chunk(
            logits, gold[rows], total[rows], smoothing, mix, rows, None if gate is None else gate[rows],
            (scratch[0], scratch[1]), gradients, never,
        )  # fmt: skip
        sums = part if sums is None else sums + part
        if made is not None and grad is not None:
            made.add(rows, grad, hidden[rows], used.weight)
    if sums is None:
        raise ValueError("a batch without target tokens has no loss")
    return sums, (None,) * 3 if made is None else (made.hidden, made.weight, made.bias)


class _Impossible:
    """Tokens that a model can never predict, because their output bias is -inf: finds the losses that are infinite."""

    def __init__(self, bias: Tensor):
        # [vocab] 0 or 1. Whether there are any is not asked: the answer would make Python wait for the device.
        self._flags = (bias == -math.inf).to(bias.dtype)

    def gold(self, logits: Tensor, gold: Tensor) -> Tensor:
        """[chunk] logits of gold tokens, with -inf restored."""
        return logits.masked_fill(self._flags[gold] > 0, -math.inf)

    def wanted(self, pull: Tensor) -> Tensor:
        """[chunk] inf where a teacher's distribution (or a multiple of it) has mass on such a token; else 0."""
        mass = torch.mv(pull, self._flags.to(pull.dtype))
        return torch.zeros_like(mass).masked_fill_(mass > 0, math.inf)


class _Gradients:
    """The mixed loss's gradients on hidden [tokens, d_model], weight [vocab, d_model] and bias [vocab]."""

    def __init__(self, hidden: Tensor, output: Output, row: Tensor, lower: float):
        """row: [d_model] lower times the sum of all rows of the weight."""
        weight, bias = output
        # Label smoothing has the same gradient on every logit, -lower. Its effect on all three gradients is added here
        # once, because subtracting a constant from a [tokens, vocab] tensor would cost more.
        self.hidden, self._row = torch.empty_like(hidden), row.to(hidden.dtype)
        self.weight = (-lower * hidden.sum(0, dtype=weight.dtype)).expand_as(weight).contiguous()
        self.bias = None if bias is None else torch.full_like(bias, -lower * len(hidden))

    def add(self, rows: slice, grad: Tensor, hidden: Tensor, weight: Tensor) -> None:
        """Add a chunk's gradient on its logits [chunk, vocab]. hidden: [chunk, d_model]; weight as it was used."""
        if self.bias is not None:
            self.bias += grad.sum(0)
        grad = grad.to(hidden.dtype)
        torch.addmm(self._row, grad, weight, beta=-1, out=self.hidden[rows])  # grad @ W - row, in one call
        if weight.dtype == self.weight.dtype:
            self.weight.addmm_(grad.t(), hidden)
        else:
            self.weight += grad.t() @ hidden  # half-precision products are summed in fp32


def _chunk(
    logits: Tensor, gold: Tensor, total: Tensor, smoothing: float, mix: Mix, rows: slice, gate: Tensor | None,
    scratch: Scratch, gradients: bool, never: _Impossible | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """One chunk -> its [3] sums, and the gradient [chunk, vocab] on its logits, which lies in `scratch`.

    total: [chunk] sum of all logits of a token, used with label smoothing; its gradient is made in _Gradients.
    """
    vocab = logits.shape[-1]
    other = smoothing / (vocab - 1)
    rest, pull, push = logits.new_zeros(()), None, 0.0
    # L_kd first: the target computes in `scratch`, of which only `pull` may still be needed afterwards.
    if mix.kd:
        if mix.target is None:
            raise ValueError("a weight above 0 needs a teacher's predictions")
        rest, pull, push = mix.target.kd(rows, logits, scratch, gate is not None)
        if never is not None:
            infinite = never.wanted(pull)
            rest = rest + (infinite if rest.dim() else infinite.sum())
    p = torch.softmax(logits, dim=-1, out=scratch[0])
    # log Z from the most probable token, whose p = exp(z) / Z is far from underflow.
    log_z = logits.amax(-1) - p.amax(-1).log()
    at_gold = logits.gather(-1, gold[:, None])[:, 0]
    nll = log_z - (at_gold if never is None else never.gold(at_gold, gold))
    ce = nll if smoothing == 0 else (1 - smoothing - other) * nll + other * (vocab * log_z - total)
    kd = rest.sum() + push * log_z.sum() if gate is None else (gate * (rest + push * log_z)).sum()
    sums = torch.stack([ce.sum(), kd, nll.sum()])
    if not gradients:
        return sums, None
    # The gradient overwrites p: (ce + push kd) p, minus the gold token's part of q_smooth, minus kd times the pull.
    # The part of q_smooth that is equal for all tokens is added in _Gradients.
    grad = p
    if gate is not None:
        grad.mul_(mix.ce + push * mix.kd * gate[:, None])
    elif mix.ce + push * mix.kd != 1:
        grad.mul_(mix.ce + push * mix.kd)
    grad.scatter_add_(1, gold[:, None], torch.full_like(log_z, -mix.ce * (1 - smoothing - other))[:, None])
    if pull is not None:
        grad.sub_(pull, alpha=mix.kd) if gate is None else grad.addcmul_(pull, gate[:, None], value=-mix.kd)
    return sums, grad


def _gates(hidden: Tensor, output: Output, gold: Tensor, mix: Mix) -> Tensor:
    """[tokens] the gate of each token."""
    if mix.target is None or mix.gate is None:
        raise ValueError("a gate needs a teacher")
    # A gate may compare tokens of one sentence, so it needs the gold log-probabilities of all chunks beforehand.
    student, teacher = [], []
    for rows in chunks(len(hidden), len(output.weight)):
        logits = project(hidden[rows], output)
        student.append(logits.gather(-1, gold[rows, None])[:, 0] - logits.logsumexp(-1))
        teacher.append(mix.target.gold_logp(rows, gold[rows]))
    return mix.gate(torch.cat(student), torch.cat(teacher))
