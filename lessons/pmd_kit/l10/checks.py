"""Checks of lesson 10: one search of Auto-PMD, its trial set, an exact restore, the leak, and what it all costs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_kit.l10.students import LIVE, other_model, restore, shared_moments, snapshot, taking, what_stays, without
from pmd_lite.distillation.actions import ACTIONS, act, logit
from pmd_lite.distillation.search import choose, choose_one, reduced_space
from pmd_lite.training import trial
from pmd_lite.training.cost import FORWARD, FORWARD_AND_BACKWARD

# ---------------------------------------------------------------- exercise 1: one search

Step = tuple[list[str], Tensor]


def _f64(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _moved(alpha: Tensor, actions: Sequence[str], mu: float) -> Tensor:
    return torch.sigmoid(torch.stack([act(logit(a), action, mu) for a, action in zip(alpha, actions, strict=True)]))


def search_step(alpha: Tensor, results: Tensor, mu: float) -> Step:
    """Exercise 1: (action of each pair, new weights [pair]) from R, [trial, pair] in the order of ACTIONS."""
    actions = choose(results, reduced_space(len(alpha)))
    return actions, _moved(alpha, actions, mu)


def _search_cases(rng: np.random.Generator) -> Sequence[Case]:
    ties = [[2.0, 2.0, 2.5, 2.0, 2.4], [2.0, 2.1, 2.2, 2.0, 2.3], [2.1, 2.0, 2.2, 2.0, 2.2]]
    drawn = _f64(rng.uniform(1, 3, size=(3, 6)))
    return [
        (_f64([0.1, 0.3, 0.8]), _f64([[2.1, 2.3, 3.4], [2.2, 2.2, 3.5], [2.0, 2.5, 3.6]]), 0.7),
        (_f64([0.1, 0.2, 0.3, 0.6, 0.9]), _f64(ties), 0.5),
        (_f64(rng.uniform(0.05, 0.95, size=6)), drawn, float(rng.uniform(0.3, 0.9))),
    ]


def _by(rule: Callable[[Tensor], Sequence[int]]) -> Callable[[Tensor, Tensor, float], Step]:
    """A search that takes for each pair the action of row `rule(results)[pair]`."""

    def answer(alpha: Tensor, results: Tensor, mu: float) -> Step:
        actions = [ACTIONS[row] for row in rule(results)]
        return actions, _moved(alpha, actions, mu)

    return answer


def _last_of_equals(results: Tensor) -> list[int]:
    return (len(ACTIONS) - 1 - results.flip(0).argmin(dim=0)).tolist()


def _sorted_rows(alpha: Tensor, results: Tensor, mu: float) -> Step:
    actions = [("up", "keep", "down")[row] for row in results.argmin(dim=0).tolist()]
    return actions, _moved(alpha, actions, mu)


def _whole_vector(alpha: Tensor, results: Tensor, mu: float) -> Step:
    actions = [choose_one(results)] * len(alpha)
    return actions, _moved(alpha, actions, mu)


def _added(alpha: Tensor, results: Tensor, mu: float) -> Step:
    actions = choose(results, reduced_space(len(alpha)))
    return actions, _f64([float(act(a, action, mu)) for a, action in zip(alpha, actions, strict=True)])


SEARCH = Exercise(
    "search_step", search_step, _search_cases,
    [
        Mistake("You take the trial with the largest loss. A smaller dev loss is better.",
                _by(lambda results: results.argmax(dim=0).tolist())),
        Mistake("Where trials tie, the order of ACTIONS decides: keep before up before down. You take the last one.",
                _by(_last_of_equals)),
        Mistake("The rows of R are keep, up, down, in the order of ACTIONS; you read them as up, keep, down.",
                _sorted_rows),
        Mistake("All pairs take the action of the trial with the lowest sum: that is Dynamic-MD. Choose for each pair "
                "(each column) on its own.", _whole_vector),
        Mistake("The actions are right. The step is made on the logit, not on alpha itself.", _added),
        Mistake("The actions are right, but the weights are still the old ones: apply the actions to them.",
                lambda alpha, results, mu: (search_step(alpha, results, mu)[0], alpha.clone())),
        Mistake("The actions are right. The step is mu, not 1.",
                lambda alpha, results, mu: search_step(alpha, results, 1.0)),
        Mistake("The actions are right, but up lowers and down raises: the sign of the step is turned.",
                lambda alpha, results, mu: search_step(alpha, results, -mu)),
        Mistake("The actions are right. What you return are logits: map them back with the sigmoid.",
                lambda alpha, results, mu: (search_step(alpha, results, mu)[0],
                                            logit(search_step(alpha, results, mu)[1]))),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 2: the trial set


def trial_sentences(sizes: Sequence[int], rho: float, one_batch: int) -> list[int]:
    """Exercise 2: how many sentences of each pair the trial set holds (`training.trial.trial_sentences`)."""
    return trial.trial_sentences(sizes, [one_batch] * len(sizes), rho)


_LONGTAIL = [2000, 1149, 399, 110, 30, 30]

TRIAL_SET = Exercise(
    "trial_sentences", trial_sentences,
    lambda rng: [(_LONGTAIL, 0.1, 40), ([500, 101, 7], 0.25, 20),
                 ([int(n) for n in np.exp(rng.uniform(2, 8, size=5))], float(rng.uniform(0.1, 0.4)), 30)],
    [
        Mistake("A share of a small pair is less than one batch: take at least one_batch sentences.",
                lambda sizes, rho, one_batch: [math.ceil(rho * n) for n in sizes]),
        Mistake("You stop at n. A pair with fewer sentences than a batch goes round again until it fills one, as it "
                "does in training.",
                lambda sizes, rho, one_batch: [min(n, max(math.ceil(rho * n), one_batch)) for n in sizes]),
        Mistake("That is rho of the whole corpus in equal parts. Each pair gives rho of its own sentences.",
                lambda sizes, rho, one_batch: [max(math.ceil(rho * sum(sizes) / len(sizes)), one_batch)
                                               for n in sizes]),
        Mistake("Round up: a part of a sentence counts as one.",
                lambda sizes, rho, one_batch: [max(int(rho * n), one_batch) for n in sizes]),
        Mistake("Every pair gives one batch here, whatever rho is. Large pairs give rho of their sentences.",
                lambda sizes, rho, one_batch: [one_batch for _ in sizes]),
        Mistake("You take the smaller of share and batch: of the two, the larger counts.",
                lambda sizes, rho, one_batch: [min(math.ceil(rho * n), one_batch) for n in sizes]),
        Mistake("A trial is short: it trains on rho of the data, not on all but rho.",
                lambda sizes, rho, one_batch: [max(math.ceil((1 - rho) * n), one_batch) for n in sizes]),
        Mistake("You cut off the fraction, and forget that a pair gives at least a batch. Round up, then compare.",
                lambda sizes, rho, one_batch: [int(rho * n) for n in sizes]),
        Mistake("round() goes up or down. Round up: a part of a sentence counts as one.",
                lambda sizes, rho, one_batch: [max(round(rho * n), one_batch) for n in sizes]),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 3: snapshot and restore


RESTORE = Exercise(
    "restore", lambda *_: (snapshot, restore), lambda rng: [(int(rng.integers(10**6)),)],
    [
        Mistake("state_dict() gives no copy: its tensors are the student's own, so they were trained along, and "
                "putting them back does nothing. This is the leak of the released code. Copy: copy.deepcopy(...).",
                lambda *_: (taking(**LIVE), restore)),
        Mistake("The weights stay trained, the rest comes back: either restore() does not load them, or your snapshot "
                "holds the student's own tensors, which were trained along. A new dictionary, or .detach(), is not new "
                "memory: copy with copy.deepcopy, or clone() each tensor.",
                lambda *_: (taking(weights=lambda student: dict(student.model.state_dict())), restore)),
        Mistake("The weights come back, Adam's moments do not: optimizer.state_dict() holds the optimizer's own "
                "tensors. Copy it as you copied the weights.",
                lambda *_: (taking(optimizer=LIVE["optimizer"]), restore)),
        Mistake("The first trial is undone, the next are not: load_state_dict of an optimizer takes the tensors you "
                "give it as its own, and the next trial trains them. Give it a copy of the snapshot.",
                lambda *_: (snapshot, shared_moments)),
        Mistake("Adam is forgotten: its moments, its count of steps and its learning rate stay as the trial left them, "
                "so the next update is another one.", lambda *_: (snapshot, without("optimizer"))),
        Mistake("The random state is forgotten: the next dropout draws other units than it would have drawn.",
                lambda *_: (snapshot, without("random"))),
        Mistake("The count of updates is forgotten: the next learning rate is computed from it.",
                lambda *_: (snapshot, without("updates"))),
        Mistake("You put a new model in the student's place, but the optimizer still holds the parameters of the old "
                "one, and will continue to train those. Load the weights into the model that is there.",
                lambda *_: (snapshot, other_model)),
        Mistake("restore() puts nothing back yet: after the trials everything is as they left it.",
                lambda *_: (snapshot, lambda student, saved: None)),
    ],
    through=what_stays,
)  # fmt: skip


# ---------------------------------------------------------------- exercise 4: what shares memory


def sharing(live: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> list[str]:
    """Exercise 4: names whose tensor in `kept` lies in the memory of the one in `live`, in the order of `live`."""
    return [n for n in live if live[n].untyped_storage().data_ptr() == kept[n].untyped_storage().data_ptr()]


_WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda x: x, "detached": lambda x: x.detach(), "to the same type": lambda x: x.float(),
    "view": lambda x: x.view(-1), "from the second number on": lambda x: x.view(-1)[1:], "clone": lambda x: x.clone(),
    "deep copy": copy.deepcopy, "through half precision": lambda x: x.half().float(),
}  # fmt: skip


def _kept(ways: Sequence[str], seed: int) -> Case:
    """(live, kept): named tensors, and the same names kept in the given ways."""
    generator = torch.Generator().manual_seed(seed)
    live = {f"layer{i}.weight": torch.randn(2, 3, generator=generator) for i in range(len(ways))}
    return live, {name: _WAYS[way](x) for way, (name, x) in zip(ways, live.items(), strict=True)}


def _memory_cases(rng: np.random.Generator) -> Sequence[Case]:
    drawn = [str(way) for way in rng.choice(list(_WAYS), size=5)]
    return [
        _kept(["itself", "clone", "detached", "deep copy"], 1),
        _kept(["from the second number on", "through half precision", "to the same type", "clone", "view"], 2),
        _kept(["clone", "deep copy"], 3),
        _kept(drawn, int(rng.integers(10**6))),
    ]


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


Named = Mapping[str, Tensor]

SHARING = Exercise(
    "sharing", sharing, _memory_cases,
    [
        Mistake("You compare the Python objects. x.detach() is a new object with the old numbers: compare memory.",
                lambda live, kept: [n for n in live if live[n] is kept[n]]),
        Mistake("You compare values. A copy is equal too, until the student trains; compare where they lie in memory.",
                lambda live, kept: [n for n in live if _equal(live[n], kept[n])]),
        Mistake("data_ptr() is where a tensor begins. One that begins later in the same memory shares it too: compare "
                "untyped_storage().data_ptr().",
                lambda live, kept: [n for n in live if live[n].data_ptr() == kept[n].data_ptr()]),
        Mistake("These are the names that are safe. Return those that share memory.",
                lambda live, kept: [n for n in live if n not in sharing(live, kept)]),
        Mistake("One shared tensor does not make all shared: answer for each name.",
                lambda live, kept: list(live) if sharing(live, kept) else []),
        Mistake("Not every tensor in a snapshot is shared: a clone has memory of its own.",
                lambda live, kept: list(live)),
        Mistake("Return the names, not how many there are.", lambda live, kept: len(sharing(live, kept))),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 5: what it costs


def overhead(rho: float, trials: int, shared: bool) -> float:
    """Exercise 5: forward passes of a search by two students, as a share of those of one epoch of mutual training."""
    teacher = FORWARD if shared else FORWARD * trials
    search = 2 * rho * (FORWARD_AND_BACKWARD * trials + teacher)
    return search / (2 * (FORWARD_AND_BACKWARD + FORWARD))


def _share(rho: float, passes: float, step: float) -> float:
    return 2 * rho * passes / step


OVERHEAD = Exercise(
    "overhead", overhead,
    lambda rng: [(0.1, 3, True), (0.1, 3, False), (0.2, 5, True),
                 (float(rng.uniform(0.02, 0.3)), int(rng.integers(2, 9)), bool(rng.integers(2)))],
    [
        Mistake("shared has no effect: rho times trials is right when each trial asks the teacher for itself. When "
                "they share its answer, a batch costs one teacher pass in all.", lambda rho, n, shared: rho * n),
        Mistake("It is the other way round: shared means that one teacher pass serves all trials.",
                lambda rho, n, shared: overhead(rho, n, not shared)),
        Mistake("A backward pass costs two forward passes, so that an update takes 3 F.",
                lambda rho, n, shared: _share(rho, 2 * n + (1 if shared else n), 6)),
        Mistake("The trials ask the teacher too: a forward pass of its own for each batch.",
                lambda rho, n, shared: _share(rho, 3 * n, 8)),
        Mistake("You compare with training without teachers, 3 F for each student. Return the share of mutual "
                "training, 4 F for each.", lambda rho, n, shared: _share(rho, 3 * n + (1 if shared else n), 6)),
        Mistake("Both students search, but you count one student's training.",
                lambda rho, n, shared: 2 * overhead(rho, n, shared)),
        Mistake("Both students train, but you count one student's search.",
                lambda rho, n, shared: overhead(rho, n, shared) / 2),
        Mistake("That is the cost of training and search together; return what the search adds.",
                lambda rho, n, shared: 1 + overhead(rho, n, shared)),
        Mistake("These are forward passes. Divide by those of mutual training, 4 F for each student.",
                lambda rho, n, shared: _share(rho, 3 * n + (1 if shared else n), 2)),
    ],
)  # fmt: skip
