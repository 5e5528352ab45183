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
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pmd_lite.interfaces import Scratch, Target
from pmd_lite.model.layers import for_products

ELEMENTS, FEWEST = 2**22, 256
"""A chunk holds about ELEMENTS logits, and FEWEST tokens at the least. Small ones are slow in bf16, where every chunk's
gradient on W is converted before it is added."""


class Output(NamedTuple):
    """What turns a model's states into logits."""

    weight: Tensor
    """[vocab, d_model]"""
    bias: Tensor | None = None
    """[vocab], where the model has one."""


class TeacherPart(NamedTuple):
    """One teacher of several; nothing here gets a gradient."""

    hidden: Tensor
    """[tokens, d_model]"""
    output: Output
    share: float


@dataclass(frozen=True)
class TeacherStates:
    """Next-token distributions of one or several teachers, not yet projected."""

    parts: Sequence[TeacherPart]
    """Their shares sum to 1."""

    def probs(self, rows: slice, scratch: Scratch | None = None) -> Tensor:
        """[chunk, vocab] share-weighted mean of the teachers' probabilities, fp32 or better; in scratch[1] if given."""
        logits, mean = scratch or (None, None)
        for number, (hidden, output, share) in enumerate(self.parts):
            p = torch.softmax(project(hidden[rows], output, logits), dim=-1, out=mean if number == 0 else None)
            p = p if share == 1 else p.mul_(share)
            mean = p if mean is None or number == 0 else mean.add_(p)
        if mean is None or not self.parts:
            raise ValueError("distillation needs at least one teacher")
        return mean

    def kd(self, rows: slice, logits: Tensor, scratch: Scratch) -> tuple[Tensor, Tensor, float]:
        """Eq. 3 for one chunk: log Z - sum_w p_T(w) z_w, as p_T sums to 1."""
        p = self.probs(rows, scratch)
        return _negative_dot(p, logits, scratch[0]), p, 1.0

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log-probability the teachers give to the gold tokens."""
        return self.probs(rows).gather(-1, gold[:, None])[:, 0].log()

    def kept(self) -> Target:
        """The same for several students in turn: projected once, if that takes at most 64 MiB."""
        if sum(len(part.hidden) * len(part.output.weight) for part in self.parts[:1]) > 2**24:
            return self
        return TeacherProbs(self.probs(slice(None)))


@dataclass(frozen=True)
class TeacherProbs:
    """A distribution over the whole vocabulary for every token."""

    p: Tensor
    """[tokens, vocab], rows sum to 1."""

    def kd(self, rows: slice, logits: Tensor, scratch: Scratch) -> tuple[Tensor, Tensor, float]:
        """Eq. 3 for one chunk."""
        return _negative_dot(self.p[rows], logits, scratch[0]), self.p[rows], 1.0

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
                hidden = for_products(token_states(teacher, src, trg_in, keep))
                weight, bias = output_of(teacher)
                output = Output(weight.detach().to(hidden.dtype), None if bias is None else bias.detach())
                parts.append(TeacherPart(hidden, output, share))
        finally:
            if was_training != dropout:
                teacher.train(was_training)
    return TeacherStates(parts)


def token_states(model: nn.Module, src: Tensor, trg_in: Tensor, keep: Tensor) -> Tensor:
    """[tokens, d_model]: a model's last states at the kept target positions. Padding is left out before projecting."""
    hidden: Tensor = model.hidden(src, trg_in)  # type: ignore[operator]  # a Transformer, or what has its methods
    return hidden.flatten(0, 1).index_select(0, keep)


def output_of(model: nn.Module) -> Output:
    """The output layer of a Transformer, or of what has its `output_weight` and perhaps its `output_bias`."""
    weight: Tensor = model.output_weight  # type: ignore[assignment]
    return Output(weight, getattr(model, "output_bias", None))


def project(hidden: Tensor, output: Output, out: Tensor | None = None) -> Tensor:
    """Logits in fp32 or better; the product itself in the states' precision. [n, d] -> [n, vocab].

    out: [n, vocab], fp32 or better, to be filled instead of new memory.
    """
    if out is not None and out.dtype == hidden.dtype:
        logits = torch.matmul(hidden, output.weight.t(), out=out)
    else:
        logits = torch.matmul(hidden, output.weight.to(hidden.dtype).t())
        if out is not None:
            logits = out.copy_(logits)
        elif logits.dtype != torch.float64:
            logits = logits.float()
    return logits if output.bias is None else logits.add_(output.bias)


def projected_loss(hidden: Tensor, output: Output, gold: Tensor, smoothing: float, mix: Mix) -> tuple[Tensor, Tensor]:
    """The loss of one micro-batch, with a gradient on `hidden` and on the tensors of `output`.

    Args:
        hidden: [tokens, d_model] states of real target tokens. gold: [tokens].
        smoothing: eps of Eq. 1.
    Returns: (loss [], sums [3]): what to differentiate, and L_ce, L_kd (gated), plain NLL without gradient. All summed
        over tokens, in nats. Differentiating the gradient itself is refused with RuntimeError.
    """
    hidden = for_products(hidden)
    loss, sums = _ProjectedLoss.apply(hidden, *output, gold, smoothing, mix)  # type: ignore[no-untyped-call]
    return loss, sums


def projected_sums(hidden: Tensor, output: Output, gold: Tensor, smoothing: float) -> Tensor:
    """[3]: L_ce, 0 and NLL, summed over tokens in nats, without gradient; as cheap as the projection allows."""
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
        if torch.is_grad_enabled():  # create_graph=True: the saved gradients would count as constants, silently wrong
            raise RuntimeError(
                "projected_loss makes its gradient in the forward pass, so it cannot be differentiated twice: use the "
                "functions of losses.py for that"
            )
        if grad_loss is None:
            return (None,) * 6
        if ctx.gradients is None:
            raise RuntimeError("projected_loss gives its gradient away: it can be differentiated once, not again")
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place: [vocab, d_model] twice is too much
        return *(None if x is None else x.mul_(grad_loss.to(x.dtype)) for x in gradients), None, None, None


def _sweep(
    hidden: Tensor, output: Output, gold: Tensor, smoothing: float, mix: Mix, gradients: bool
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """All chunks in turn -> sums [3], and, if wanted, the mixed loss's gradients on hidden, weight and bias."""
    gate = _gates(hidden, output, gold, mix) if mix.gate is not None and mix.kd else None
    used = Output(output.weight.detach().to(hidden.dtype), output.bias)  # cast once, not once a chunk
    made = _Gradients(hidden, output) if gradients else None
    sums: Tensor | None = None
    parts = chunks(len(hidden), len(used.weight))
    space = _space(hidden, len(used.weight), parts)
    for rows in parts:
        logits, *scratch = (whole[: rows.stop - rows.start] for whole in space)
        project(hidden[rows], used, logits)
        found, grad = _chunk(
            logits, gold[rows], smoothing, mix, rows, None if gate is None else gate[rows], (scratch[0], scratch[1]),
            gradients,
        )  # fmt: skip
        sums = found if sums is None else sums + found
        if made is not None and grad is not None:
            made.add(rows, grad, hidden[rows], used.weight)
    if sums is None:
        raise ValueError("a batch without target tokens has no loss")
    return sums, (None,) * 3 if made is None else (made.hidden, made.weight, made.bias)


class _Gradients:
    """Of the mixed loss, on hidden [tokens, d_model], weight [vocab, d_model] and bias [vocab]."""

    def __init__(self, hidden: Tensor, output: Output):
        self.hidden, self.weight = torch.empty_like(hidden), torch.zeros_like(output.weight)
        self.bias = None if output.bias is None else torch.zeros_like(output.bias)

    def add(self, rows: slice, grad: Tensor, hidden: Tensor, weight: Tensor) -> None:
        """Enter a chunk's gradient on its logits [chunk, vocab]. hidden: [chunk, d_model]; weight as it was used."""
        if self.bias is not None:
            self.bias += grad.sum(0)
        grad = grad.to(hidden.dtype)
        torch.matmul(grad, weight, out=self.hidden[rows])
        if weight.dtype == self.weight.dtype:
            self.weight.addmm_(grad.t(), hidden)
        else:
            self.weight += grad.t() @ hidden  # half-precision products are summed in fp32


def _space(hidden: Tensor, vocab: int, parts: Sequence[slice]) -> list[Tensor]:
    """Three [chunk, vocab] tensors that all chunks share: the system hands out fresh memory page by page, slowly."""
    longest = max((rows.stop - rows.start for rows in parts), default=0)
    dtype = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    return [torch.empty(longest, vocab, dtype=dtype, device=hidden.device) for _ in range(3)]


def _chunk(
    logits: Tensor, gold: Tensor, smoothing: float, mix: Mix, rows: slice, gate: Tensor | None, scratch: Scratch,
    gradients: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """One chunk -> its [3] sums, and the gradient [chunk, vocab] on its logits, which lies in `scratch`."""
    vocab = logits.shape[-1]
    other = smoothing / (vocab - 1)
    rest, pull, push = torch.zeros_like(logits[:, 0]), None, 0.0
    if mix.kd:
        if mix.target is None:
            raise ValueError("a weight above 0 needs what a teacher predicts")
        rest, pull, push = mix.target.kd(rows, logits, scratch)
    p = torch.softmax(logits, dim=-1, out=scratch[0])
    log_z = logits.amax(-1) - p.amax(-1).log()  # the likeliest token has p = exp(z) / Z, far from underflow
    nll = log_z - logits.gather(-1, gold[:, None])[:, 0]
    ce = nll if smoothing == 0 else (1 - smoothing - other) * nll + other * (vocab * log_z - logits.sum(-1))
    kd = rest + push * log_z
    kd = kd if gate is None else gate * kd
    sums = torch.stack([ce.sum(), kd.sum(), nll.sum()])
    if not gradients:
        return sums, None
    grad = p
    if gate is not None:
        grad.mul_(mix.ce + push * mix.kd * gate[:, None])
    elif mix.ce + push * mix.kd != 1:
        grad.mul_(mix.ce + push * mix.kd)
    if smoothing:
        grad.sub_(mix.ce * other)
    grad.scatter_add_(1, gold[:, None], torch.full_like(log_z, -mix.ce * (1 - smoothing - other))[:, None])
    if pull is not None:
        grad.sub_(pull, alpha=mix.kd) if gate is None else grad.addcmul_(pull, gate[:, None], value=-mix.kd)
    return sums, grad


def _negative_dot(p: Tensor, logits: Tensor, scratch: Tensor) -> Tensor:
    """[chunk] -sum_w p(w) z_w of [chunk, vocab] both."""
    return torch.mul(p, logits, out=scratch).sum(-1).neg_()


def _gates(hidden: Tensor, output: Output, gold: Tensor, mix: Mix) -> Tensor:
    """[tokens]: a gate may compare tokens of one sentence, so all gold log-probabilities come first."""
    if mix.target is None or mix.gate is None:
        raise ValueError("a gate needs a teacher")
    student, teacher = [], []
    for rows in chunks(len(hidden), len(output.weight)):
        logits = project(hidden[rows], output)
        student.append(logits.gather(-1, gold[rows, None])[:, 0] - logits.logsumexp(-1))
        teacher.append(mix.target.gold_logp(rows, gold[rows]))
    return mix.gate(torch.cat(student), torch.cat(teacher))


def chunks(tokens: int, vocab: int) -> list[slice]:
    """Consecutive slices of `tokens`, each of about ELEMENTS logits."""
    size = max(FEWEST, ELEMENTS // vocab)
    return [slice(start, min(start + size, tokens)) for start in range(0, tokens, size)]
