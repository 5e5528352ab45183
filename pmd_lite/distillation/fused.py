"""Eq. 1, 3 and 4 without a [tokens, vocab] tensor: projection, softmax and loss, a few hundred tokens at a time.

`losses.py` says what the loss is; this file computes the same numbers as training needs them. With z = W h the logits
of a token and p their softmax, every loss here has a gradient on z that is known in closed form:

    L_ce (Eq. 1)   p - q_smooth
    L_kd (Eq. 3)   p - p_T, in general `push` p - `pull` (see `interfaces.Target`)

So the gradients on hidden states and on W are made in the forward pass, chunk by chunk, and only they are kept; the
backward pass multiplies them by a number. What a teacher predicts is kept as its hidden states, d_model numbers a
token, and projected chunk by chunk as well. (Liger-Kernel and TRL chunk their losses alike; the formulas are ours.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.interfaces import Target

ELEMENTS, FEWEST = 2**20, 256
"""A chunk holds about ELEMENTS logits, and FEWEST tokens at the least (256 was fastest for 2,500 to 32,000 pieces)."""


@dataclass(frozen=True)
class TeacherStates:
    """Next-token distributions of one or several teachers, not yet projected."""

    parts: Sequence[tuple[Tensor, Tensor, float]]
    """(hidden [tokens, d_model], output weights [vocab, d_model], share); shares sum to 1. They get no gradient."""

    def probs(self, rows: slice) -> Tensor:
        """[chunk, vocab] share-weighted mean of the teachers' probabilities, fp32 or better."""
        mean: Tensor | None = None
        for hidden, weight, share in self.parts:
            p = torch.softmax(project(hidden[rows], weight), dim=-1)
            p = p if share == 1 else p.mul_(share)
            mean = p if mean is None else mean.add_(p)
        if mean is None:
            raise ValueError("distillation needs at least one teacher")
        return mean

    def kd(self, rows: slice, logits: Tensor, log_z: Tensor) -> tuple[Tensor, Tensor, float]:
        """Eq. 3 for one chunk: log Z - sum_w p_T(w) z_w, as p_T sums to 1."""
        p = self.probs(rows)
        return log_z - torch.linalg.vecdot(p, logits), p, 1.0

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log-probability the teachers give to the gold tokens."""
        return self.probs(rows).gather(-1, gold[:, None])[:, 0].log()

    def kept(self) -> Target:
        """The same for several students in turn: projected once, if that takes at most 64 MiB."""
        if sum(len(hidden) * len(weight) for hidden, weight, _ in self.parts[:1]) > 2**24:
            return self
        return TeacherProbs(self.probs(slice(None)))


@dataclass(frozen=True)
class TeacherProbs:
    """A distribution over the whole vocabulary for every token."""

    p: Tensor
    """[tokens, vocab], rows sum to 1."""

    def kd(self, rows: slice, logits: Tensor, log_z: Tensor) -> tuple[Tensor, Tensor, float]:
        """Eq. 3 for one chunk."""
        return log_z - torch.linalg.vecdot(self.p[rows], logits), self.p[rows].clone(), 1.0

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log-probability of the gold tokens."""
        return self.p[rows].gather(-1, gold[:, None])[:, 0].log()


@dataclass(frozen=True)
class Mix:
    """What one micro-batch is trained on: ce * L_ce + kd * sum of gate * L_kd, token by token."""

    ce: float = 1.0
    """Factor of L_ce; Eq. 4: 1 - alpha."""
    kd: float = 0.0
    """Factor of L_kd; Eq. 4: alpha. At 0 no target is looked at."""
    target: Target | None = None
    """What is distilled."""
    gate: Callable[[Tensor, Tensor], Tensor] | None = None
    """(student's, teacher's) log-probabilities of the gold tokens, [tokens] both -> factor of each token's L_kd.
    None: 1."""


def teacher_states(
    teachers: Sequence[tuple[nn.Module, float]], src: Tensor, trg_in: Tensor, keep: Tensor, dropout: bool = False
) -> TeacherStates:
    """Run the teachers over a batch.

    Args:
        teachers: (Transformer, share) with shares that sum to 1.
        src, trg_in: [batch, src_len] and [batch, trg_len] ids; keep: [tokens] flat positions.
        dropout: leave the teachers in train mode (the released code does); else they run in eval mode.
    Each teacher's mode is put back.
    """
    parts = []
    for teacher, share in teachers:
        was_training = teacher.training
        if was_training != dropout:
            teacher.train(dropout)
        try:
            with torch.inference_mode():
                parts.append((token_states(teacher, src, trg_in, keep), output_weight(teacher).detach(), share))
        finally:
            if was_training != dropout:
                teacher.train(was_training)
    return TeacherStates(parts)


def token_states(model: nn.Module, src: Tensor, trg_in: Tensor, keep: Tensor) -> Tensor:
    """[tokens, d_model]: a model's last states at the kept target positions. Padding is left out before projecting."""
    hidden: Tensor = model.hidden(src, trg_in)  # type: ignore[operator]  # a Transformer, or what has its methods
    return hidden.flatten(0, 1).index_select(0, keep)


def output_weight(model: nn.Module) -> Tensor:
    """[vocab, d_model]: the weights that turn a model's states into logits."""
    weight: Tensor = model.output_weight  # type: ignore[assignment]
    return weight


def project(hidden: Tensor, weight: Tensor) -> Tensor:
    """Logits in fp32 or better; the product itself in the states' precision. [n, d], [vocab, d] -> [n, vocab]."""
    logits = torch.matmul(hidden, weight.to(hidden.dtype).t())
    return logits if logits.dtype == torch.float64 else logits.float()


def projected_loss(hidden: Tensor, weight: Tensor, gold: Tensor, smoothing: float, mix: Mix) -> tuple[Tensor, Tensor]:
    """The loss of one micro-batch, with a gradient on `hidden` and `weight`.

    Args:
        hidden: [tokens, d_model] states of real target tokens. weight: [vocab, d_model]. gold: [tokens].
        smoothing: eps of Eq. 1.
    Returns: (loss [], sums [3]): what to differentiate, and L_ce, L_kd (gated), plain NLL without gradient. All summed
        over tokens, in nats. Differentiating the gradient itself is refused with RuntimeError.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    loss, sums = _ProjectedLoss.apply(hidden, weight, gold, smoothing, mix)  # type: ignore[no-untyped-call]
    return loss, sums


def projected_sums(hidden: Tensor, weight: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """[3]: L_ce, 0 and NLL, summed over tokens in nats, without gradient; as cheap as the projection allows."""
    return _sweep(hidden, weight, gold, smoothing, Mix(), False)[0]


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, gold: Tensor, smoothing: float, mix: Mix
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:2])
        sums, grad_hidden, grad_weight = _sweep(hidden, weight, gold, smoothing, mix, wanted)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(sums)
        ctx.set_materialize_grads(False)
        return mix.ce * sums[0] + mix.kd * sums[1], sums

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: the saved gradients would count as constants, silently wrong
            raise RuntimeError(
                "projected_loss makes its gradient in the forward pass, so it cannot be differentiated twice: use the "
                "functions of losses.py for that"
            )
        if grad_loss is None:
            return None, None, None, None, None
        hidden, weight = ctx.saved_tensors
        return hidden * grad_loss.to(hidden.dtype), weight * grad_loss, None, None, None


def _sweep(
    hidden: Tensor, weight: Tensor, gold: Tensor, smoothing: float, mix: Mix, gradients: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """All chunks in turn -> sums [3], and the gradients of the mixed loss on hidden and weight (empty if unwanted)."""
    tokens, vocab = len(hidden), len(weight)
    gate = _gates(hidden, weight, gold, mix) if mix.gate is not None and mix.kd else None
    used = weight.detach().to(hidden.dtype)  # cast once, not once a chunk
    grad_hidden = torch.empty_like(hidden) if gradients else hidden.new_empty(0)
    grad_weight = torch.zeros_like(weight) if gradients else weight.new_empty(0)
    sums: Tensor | None = None
    for rows in chunks(tokens, vocab):
        logits = project(hidden[rows], used)
        found, grad = _chunk(logits, gold[rows], smoothing, mix, rows, None if gate is None else gate[rows], gradients)
        sums = found if sums is None else sums + found
        if grad is not None:
            grad = grad.to(hidden.dtype)
            torch.matmul(grad, used, out=grad_hidden[rows])
            if used.dtype == weight.dtype:
                grad_weight.addmm_(grad.t(), hidden[rows])
            else:
                grad_weight += grad.t() @ hidden[rows]  # half-precision products are summed in fp32
    if sums is None:
        raise ValueError("a batch without target tokens has no loss")
    return sums, grad_hidden, grad_weight


def _chunk(
    logits: Tensor, gold: Tensor, smoothing: float, mix: Mix, rows: slice, gate: Tensor | None, gradients: bool
) -> tuple[Tensor, Tensor | None]:
    """One chunk -> its [3] sums, and the gradient [chunk, vocab] on its logits."""
    vocab = logits.shape[-1]
    other = smoothing / (vocab - 1)
    highest = logits.amax(-1, keepdim=True)
    weights = (logits - highest).exp_()  # p before it is divided by its sum
    total = weights.sum(-1, keepdim=True)
    log_z = (highest + total.log())[:, 0]
    nll = log_z - logits.gather(-1, gold[:, None])[:, 0]
    ce = nll if smoothing == 0 else (1 - smoothing - other) * nll + other * (vocab * log_z - logits.sum(-1))
    kd, pull, push = torch.zeros_like(ce), None, 0.0
    if mix.kd:
        if mix.target is None:
            raise ValueError("a weight above 0 needs what a teacher predicts")
        kd, pull, push = mix.target.kd(rows, logits, log_z)
        kd = kd if gate is None else gate * kd
    sums = torch.stack([ce.sum(), kd.sum(), nll.sum()])
    if not gradients:
        return sums, None
    trust = mix.kd if gate is None else mix.kd * gate[:, None]
    grad = weights.mul_((mix.ce + push * trust) / total)
    if smoothing:
        grad.sub_(mix.ce * other)
    grad.scatter_add_(1, gold[:, None], torch.full_like(log_z, -mix.ce * (1 - smoothing - other))[:, None])
    if pull is not None:
        grad.sub_(pull.mul_(trust))
    return sums, grad


def _gates(hidden: Tensor, weight: Tensor, gold: Tensor, mix: Mix) -> Tensor:
    """[tokens]: a gate may compare tokens of one sentence, so all gold log-probabilities come first."""
    if mix.target is None or mix.gate is None:
        raise ValueError("a gate needs a teacher")
    student, teacher = [], []
    for rows in chunks(len(hidden), len(weight)):
        logits = project(hidden[rows], weight)
        student.append(logits.gather(-1, gold[rows, None])[:, 0] - logits.logsumexp(-1))
        teacher.append(mix.target.gold_logp(rows, gold[rows]))
    return mix.gate(torch.cat(student), torch.cat(teacher))


def chunks(tokens: int, vocab: int) -> list[slice]:
    """Consecutive slices of `tokens`, each of about ELEMENTS logits."""
    size = max(FEWEST, ELEMENTS // vocab)
    return [slice(start, min(start + size, tokens)) for start in range(0, tokens, size)]
