"""Checks of lesson 07, exercises 4 and 5: who gets a gradient, and one round of Alg. 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, nll, pmd_loss, probs


def _f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _logits(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(0, 1.5, size=shape))


def _kd(student: Tensor, teacher: Tensor) -> Tensor:
    return kd_loss(log_probs(student), probs(teacher))


# ---------------------------------------------------------------- exercise 4: who gets a gradient

Answer = Callable[[nn.Module, nn.Module, Tensor, Tensor, float], Any]


def _student_loss(student: nn.Module, teacher: nn.Module, x: Tensor, gold: Tensor, alpha: float) -> Tensor:
    logp = log_probs(student(x))
    with torch.no_grad():
        target = probs(teacher(x))
    return pmd_loss(ce_loss(logp, gold, 0.0), kd_loss(logp, target), alpha)


def _linear(weight: Tensor) -> nn.Linear:
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    model.load_state_dict({"weight": weight})
    return model


def gradients(answer: Answer, case: Case) -> dict[str, Any] | None:
    """Call an answer to exercise 4 on two small models, run backward, and report what reached whom.

    case: weights of student and teacher [vocab, features], x [tokens, features], gold [tokens], alpha. A model that
    nothing reaches has a gradient of 0. Both models have a dropout (of rate 0) and come in training mode. Returns None
    for an answer that was not attempted.
    """
    student, teacher = (nn.Sequential(_linear(weight), nn.Dropout(0.0)).train() for weight in case[:2])
    loss = answer(student, teacher, *case[2:])
    if loss is None or loss is Ellipsis:
        return None
    if isinstance(loss, Tensor) and loss.requires_grad:
        loss.backward()
    return {
        "loss": loss,
        "is a tensor": isinstance(loss, Tensor),
        **{name: torch.zeros_like(model[0].weight) if model[0].weight.grad is None else model[0].weight.grad
           for name, model in (("student", student), ("teacher", teacher))},
        "teacher can still learn": teacher[0].weight.requires_grad,
        "modes are as before": student.training and teacher.training and teacher[1].training,
    }  # fmt: skip


def _by_hand(student_logits: Tensor, teacher_logits: Tensor, gold: Tensor, alpha: float) -> Tensor:
    """Eq. 4 without any detaching: gradients flow wherever the logits come from."""
    logp = log_probs(student_logits)
    return (1 - alpha) * nll(logp, gold) - alpha * (probs(teacher_logits) * logp).sum()


def _frozen(student: nn.Module, teacher: nn.Module, x: Tensor, gold: Tensor, alpha: float) -> Tensor:
    return _by_hand(student(x), teacher.requires_grad_(False)(x), gold, alpha)


def _left_in_eval(student: nn.Module, teacher: nn.Module, x: Tensor, gold: Tensor, alpha: float) -> Tensor:
    return _student_loss(student, teacher.eval(), x, gold, alpha)


def _no_gradient(student: nn.Module, teacher: nn.Module, x: Tensor, gold: Tensor, alpha: float) -> Tensor:
    with torch.no_grad():
        return _student_loss(student, teacher, x, gold, alpha)


def _kl(student: nn.Module, teacher: nn.Module, x: Tensor, gold: Tensor, alpha: float) -> Tensor:
    return _student_loss(student, teacher, x, gold, alpha) - alpha * _kd(teacher(x), teacher(x)).detach()


def _isolation_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases: list[Case] = []
    for alpha in (0.4, float(rng.uniform(0.6, 0.9))):
        gold = torch.from_numpy(rng.integers(0, 4, size=5))
        cases.append((_logits(rng, 4, 3), _logits(rng, 4, 3), _logits(rng, 5, 3), gold, alpha))
    return cases


ISOLATION = Exercise(
    "student_loss", _student_loss, _isolation_cases,
    [
        Mistake("The loss is right, but a gradient reaches the teacher: detach its probabilities, or run it under "
                "torch.no_grad().", lambda s, t, x, g, a: _by_hand(s(x), t(x), g, a)),
        Mistake("The teacher gets no gradient, but you froze it for good. At its own turn it is a student: use "
                "torch.no_grad() or detach() instead of requires_grad.", _frozen),
        Mistake("The teacher stays in eval mode: at its own turn it would train without dropout. Call teacher.train() "
                "afterwards, or leave its mode alone.", _left_in_eval),
        Mistake("Nothing gets a gradient: the student's own forward pass must stay outside torch.no_grad().",
                _no_gradient),
        Mistake("The wrong model is detached: in L_kd the student's logarithms carry the gradient, the teacher's "
                "probabilities do not.",
                lambda s, t, x, g, a: (1 - a) * nll(log_probs(s(x)), g) + a * _by_hand(s(x).detach(), t(x), g, 1.0)),
        Mistake("No model learns from L_kd: you detached the student there as well.",
                lambda s, t, x, g, a: (1 - a) * nll(log_probs(s(x)), g) + a * _kd(s(x).detach(), t(x).detach())),
        Mistake("alpha is the weight of L_kd, 1 - alpha that of L_ce: yours are swapped.",
                lambda s, t, x, g, a: _student_loss(s, t, x, g, 1 - a)),
        Mistake("That is the mean over tokens; the exercise asks for the sum.",
                lambda s, t, x, g, a: _student_loss(s, t, x, g, a) / len(g)),
        Mistake("The student is its own teacher here: call teacher(x) for the target.",
                lambda s, t, x, g, a: _student_loss(s, s, x, g, a)),
        Mistake("The gradients are right, the value is not: Eq. 3 is the cross-entropy, and this is the KL divergence.",
                _kl),
        Mistake("The roles are swapped in L_kd: the teacher's probabilities, the student's logarithms.",
                lambda s, t, x, g, a: (1 - a) * nll(log_probs(s(x)), g) + a * _kd(t(x).detach(), s(x))),
        Mistake("You return a number. Return the tensor, so that backward() can be called on it.",
                lambda s, t, x, g, a: _student_loss(s, t, x, g, a).item()),
    ],
    through=gradients,
)  # fmt: skip


# ---------------------------------------------------------------- exercise 5: one round of Alg. 1

Pair = tuple[Tensor, Tensor]
Two = tuple[float, float]


def _step(student: Tensor, teacher: Tensor, data: Tensor, alpha: float, lr: float) -> Tensor:
    """One step of gradient descent on Eq. 4; `data` takes the place of the reference. All [vocab]."""
    z = student.clone().requires_grad_()
    logp = log_probs(z[None])
    loss = pmd_loss(kd_loss(logp, data[None]), kd_loss(logp, probs(teacher[None])), alpha)
    return student - lr * torch.autograd.grad(loss, z)[0]


def one_round(z1: Tensor, z2: Tensor, data: Pair, alphas: Two, lr: float) -> Pair:
    """Exercise 5: Alg. 1, lines 3 to 6, for two students that are nothing but the logits [vocab] of one word."""
    z1 = _step(z1, z2, data[0], alphas[0], lr)
    return z1, _step(z2, z1, data[1], alphas[1], lr)


def _both_old(z1: Tensor, z2: Tensor, data: Pair, alphas: Two, lr: float) -> Pair:
    return _step(z1, z2, data[0], alphas[0], lr), _step(z2, z1, data[1], alphas[1], lr)


def _second_first(z1: Tensor, z2: Tensor, data: Pair, alphas: Two, lr: float) -> Pair:
    z2 = _step(z2, z1, data[1], alphas[1], lr)
    return _step(z1, z2, data[0], alphas[0], lr), z2


def _jointly(z1: Tensor, z2: Tensor, data: Pair, alphas: Two, lr: float) -> Pair:
    """One backward pass through the sum of both losses, teachers not detached."""
    students = [z.clone().requires_grad_() for z in (z1, z2)]
    losses = [
        (1 - alphas[i]) * kd_loss(log_probs(students[i][None]), data[i][None])
        - alphas[i] * (probs(students[1 - i]) * log_probs(students[i])).sum()
        for i in (0, 1)
    ]
    first, second = torch.autograd.grad(losses[0] + losses[1], students)
    return z1 - lr * first, z2 - lr * second


def _round_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases: list[Case] = [
        (_f64(0, 0, 1), _f64(1, 0, 0), (_f64(0.7, 0.3, 0), _f64(0.1, 0.3, 0.6)), (0.4, 0.6), 0.5),
    ]
    for _ in range(2):
        data = tuple(torch.from_numpy(rng.dirichlet(np.ones(4))) for _ in range(2))
        alphas = float(rng.uniform(0.1, 0.4)), float(rng.uniform(0.5, 0.9))
        cases.append((_logits(rng, 4), _logits(rng, 4), data, alphas, float(rng.uniform(0.5, 0.9))))
    return cases


ONE_ROUND = Exercise(
    "one_round", one_round, _round_cases,
    [
        Mistake("Student 2 was taught by the old student 1. In Alg. 1 student 1 has made its step by then.", _both_old),
        Mistake("The order is turned: student 1 learns first, then student 2 from the updated student 1.",
                _second_first),
        Mistake("One backward pass through both losses lets gradients into the teachers: each student steps on its own "
                "loss alone.", _jointly),
        Mistake("Uphill: subtract lr times the gradient, which is p_S minus the target.",
                lambda z1, z2, d, a, lr: one_round(z1, z2, d, a, -lr)),
        Mistake("alpha weighs the teacher, 1 - alpha the data: yours are swapped.",
                lambda z1, z2, d, a, lr: one_round(z1, z2, d, (1 - a[0], 1 - a[1]), lr)),
        Mistake("Each student has an alpha of its own: use alphas[0] for the first, alphas[1] for the second.",
                lambda z1, z2, d, a, lr: one_round(z1, z2, d, (a[0], a[0]), lr)),
        Mistake("Each student has data of its own: you gave both the same.",
                lambda z1, z2, d, a, lr: one_round(z1, z2, (d[0], d[0]), a, lr)),
        Mistake("Student 2 did not move: both are trained in every round.",
                lambda z1, z2, d, a, lr: (one_round(z1, z2, d, a, lr)[0], z2.clone())),
        Mistake("Each student teaches itself here: the teacher is the *other* one.",
                lambda z1, z2, d, a, lr: (_step(z1, z1, d[0], a[0], lr), _step(z2, z2, d[1], a[1], lr))),
        Mistake("lr has no effect: the step is lr times the gradient.",
                lambda z1, z2, d, a, lr: one_round(z1, z2, d, a, 1.0)),
        Mistake("The results are in the wrong order: first student 1, then student 2.",
                lambda z1, z2, d, a, lr: one_round(z1, z2, d, a, lr)[::-1]),
        Mistake("You return the probabilities. The students are their logits: return the new logits.",
                lambda z1, z2, d, a, lr: tuple(probs(z) for z in one_round(z1, z2, d, a, lr))),
    ],
)  # fmt: skip
