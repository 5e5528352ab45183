"""Checks of lesson 11: the two search spaces, the choice, a table on which they differ, and the own share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_kit.l11.shares import own_share
from pmd_kit.values import Complaint
from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.distillation.search import choose, choose_one, full_space, reduced_space

Space = Sequence[Sequence[str]]


# ---------------------------------------------------------------- exercise 1: how many trials


def count_trials(n_pairs: int, n_actions: int) -> tuple[int, int]:
    """Trials of the full and of the reduced search, counted by listing them."""
    actions = [f"action {i}" for i in range(n_actions)]
    return len(full_space(n_pairs, actions)), len(reduced_space(n_pairs, actions))


TRIALS = Exercise(
    "trials", count_trials,
    lambda rng: [(3, 3), (6, 3), (5, 2), (int(rng.integers(2, 4)), int(rng.integers(5, 8))), (1, 4)],
    [
        Mistake("Base and exponent are exchanged: each of the L pairs has |F| possibilities, so they multiply L times.",
                lambda pairs, actions: (pairs**actions, actions)),
        Mistake("Possibilities of different pairs are combined, so their numbers multiply; you add them.",
                lambda pairs, actions: (pairs * actions, actions)),
        Mistake("The two are exchanged: first the full space, then the reduced one.",
                lambda pairs, actions: (actions, actions**pairs)),
        Mistake("In the reduced space all pairs take the same action: one trial per action, for any number of pairs.",
                lambda pairs, actions: (actions**pairs, actions * pairs)),
        Mistake("The reduced search tries each action on all pairs at once, not one pair after another.",
                lambda pairs, actions: (actions**pairs, 1 + pairs * (actions - 1))),
        Mistake("Two pairs may well take the same action: this counts only vectors of different ones.",
                lambda pairs, actions: (math.perm(actions, pairs), actions)),
        Mistake("The order of the pairs matters: (up, keep) and (keep, up) are two trials.",
                lambda pairs, actions: (math.comb(actions + pairs - 1, pairs), actions)),
        Mistake("Keeping everything as it is is a trial too: its loss has to be known to be compared.",
                lambda pairs, actions: (actions**pairs - 1, actions - 1)),
        Mistake("The reduced search has a trial for each action, not for each pair.",
                lambda pairs, actions: (actions**pairs, pairs)),
    ],
)  # fmt: skip


# ---------------------------------------------------------------- exercise 2: the choice of the reduced search


def choose_reduced(results: Tensor) -> list[str]:
    """The reduced search: for every pair, the action of the trial with its smallest loss. [action, pair] -> [pair]."""
    return choose(results, reduced_space(results.shape[1]))


def _per_pair(answer: Callable[..., Any], case: Case) -> Any:
    """Named answers: lists of text cannot be compared as numbers are."""
    found = answer(*case)
    if not isinstance(found, (list, tuple)):
        return found
    return {f"pair {i}": action for i, action in enumerate(found)}


def _tables(rng: np.random.Generator) -> Sequence[Case]:
    """Losses [3, pair] without ties, in which no two mistakes give the same choice."""
    cases: list[Case] = [
        (torch.tensor([[1.9, 2.0, 3.1, 2.2], [1.7, 2.3, 3.0, 2.0], [2.1, 1.8, 3.3, 2.1]], dtype=torch.float64),)
    ]
    for pairs in (5, 6):
        levels = np.stack([rng.permutation([0.0, 0.25, 0.6]) for _ in range(pairs)], axis=1)  # [action, pair]
        levels[:, 0], levels[:, 1], levels[:, 2] = [0.6, 0.0, 0.25], [0.0, 0.25, 0.6], [0.25, 0.6, 0.0]
        cases.append((torch.from_numpy(levels + rng.uniform(1, 3, size=pairs) + rng.uniform(0, 0.1, (3, pairs))),))
    return cases


def _named(results: Tensor, names: Sequence[str] = ACTIONS) -> list[str]:
    return [names[row] for row in results.argmin(dim=0).tolist()]


CHOICE = Exercise(
    "choose_reduced", choose_reduced, _tables,
    [
        Mistake("These are the trials with the *largest* loss.", lambda results: _named(-results)),
        Mistake("That is Dynamic-MD: one action for all pairs, by the summed loss. Here each pair chooses for itself.",
                lambda results: [choose_one(results)] * results.shape[1]),
        Mistake("All pairs follow the first one. Each has a column of its own.",
                lambda results: [_named(results)[0]] * results.shape[1]),
        Mistake("These are the rows. Give the names of the actions, ACTIONS[row].",
                lambda results: results.argmin(dim=0).tolist()),
        Mistake("The names are in another order than the rows, which are keep, up, down.",
                lambda results: _named(results, ("up", "down", "keep"))),
        Mistake("The names are in the order of the released code, up, keep, down. The rows here are keep, up, down.",
                lambda results: _named(results, ("up", "keep", "down"))),
        Mistake("You minimise over the wrong axis: one name per trial. Return one per pair, the best of its column.",
                lambda results: [ACTIONS[column % 3] for column in results.argmin(dim=1).tolist()]),
        Mistake("The middle one of the three losses is not the minimum.",
                lambda results: [ACTIONS[row] for row in results.argsort(dim=0)[1].tolist()]),
    ],
    through=_per_pair,
    library=("choose",),
)  # fmt: skip


# ---------------------------------------------------------------- exercise 3: a table on which the searches differ

DIFFER = "two searches that choose differently"


def competing(space: Space) -> Tensor:
    """Losses of two pairs that both gain from going up, but only alone: [trial, pair]."""
    alone = {"keep": 2.0, "up": 1.8, "down": 2.3}
    return torch.tensor([[alone[own] + 0.5 * (own == other == "up") for own, other in ((a, b), (b, a))]
                         for a, b in space], dtype=torch.float64)  # fmt: skip


def independent(table: Tensor, space: Space) -> bool:
    """DWI on a table: whether the losses of a pair agree in all trials in which its own action is the same."""
    for pair in range(table.shape[1]):
        for action in {vector[pair] for vector in space}:
            losses = table[[trial for trial, vector in enumerate(space) if vector[pair] == action], pair]
            if not torch.allclose(losses, losses[0].expand_as(losses), rtol=0, atol=1e-9):
                return False
    return True


def judged(answer: Callable[..., Any], case: Case) -> str:
    """In words, what the two searches do on the table that `answer(space)` makes."""
    (space,) = case
    found = answer(space)
    if found is None or found is Ellipsis:
        return found  # type: ignore[return-value]
    table = torch.as_tensor(found, dtype=torch.float64)
    if list(table.shape) != [len(space), 2]:
        return Complaint(f"This is a table of shape {list(table.shape)}, and [{len(space)}, 2] is asked for")
    if not table.isfinite().all():
        return Complaint("There is a loss that is not finite")
    same = [row for row, vector in enumerate(space) if len(set(vector)) == 1]
    full, reduced = choose(table, space), choose(table[same], [space[row] for row in same])
    if full != reduced:
        return DIFFER
    if bool((table == table[0, 0]).all()):
        return Complaint("All losses in the table are equal")
    if independent(table, space):
        alike = "alike" if len(set(full)) == 1 else "differently"
        return Complaint(f"The pairs are independent, they choose {alike}, and both searches agree")
    return Complaint("The pairs meddle with each other, but the two searches choose alike")


def _separable(first: Sequence[float], second: Sequence[float]) -> Callable[[Space], Tensor]:
    """A table in which each pair's loss depends on its own action alone; losses in the order of ACTIONS."""

    def table(space: Space) -> Tensor:
        rows = [[first[ACTIONS.index(a)], second[ACTIONS.index(b)]] for a, b in space]
        return torch.tensor(rows, dtype=torch.float64)

    return table


BREAKING = Exercise(
    "breaking_table", competing, lambda rng: [(full_space(2),)],
    [
        Mistake("Each pair's loss depends on its own action alone. Then the theorem holds, whatever the numbers: add a "
                "term that looks at both actions.", _separable([2.0, 1.8, 2.3], [2.5, 2.4, 2.6])),
        Mistake("The two *pairs* choose differently here, but the two *searches* choose alike. "
                "Let the loss of a pair look at the other's action too.", _separable([2.0, 1.8, 2.3], [2.5, 2.6, 2.4])),
        Mistake("There is an interaction, but it is too weak or in the wrong place: both searches still choose alike. "
                "It must make a pair's best action look bad when all pairs take it.",
                lambda space: competing(space) - 0.4 * torch.tensor([[a == b == "up"] * 2 for a, b in space])),
        Mistake("All losses are equal, so both searches fall back on the rule for ties.",
                lambda space: torch.ones(len(space), 2)),
        Mistake("One row per *trial*, one column per pair: yours is transposed.", lambda space: competing(space).T),
        Mistake("That is the table of the reduced space. Give a row for each of the nine trials.",
                lambda space: competing(space)[[0, 4, 8]]),
        Mistake("A diverged trial is never chosen, but do it with finite losses: no nan, no inf.",
                lambda space: competing(space) + torch.tensor([[math.inf if a == b == "up" else 0.0] * 2
                                                               for a, b in space])),
        Mistake("One column is missing: each of the two pairs has a loss in every trial.",
                lambda space: competing(space)[:, :1]),
    ],
    through=judged,
)  # fmt: skip


# ---------------------------------------------------------------- exercise 4: the own share


def _share_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Tables of 2 and 3 pairs: own effect, the other pairs' effects, and noise; never the pair 0 alone."""
    cases: list[Case] = [(competing(full_space(2)), full_space(2), 1)]
    for pairs, pair in ((3, 1), (3, 2), (2, 0)):
        space = full_space(pairs)
        table = np.zeros((len(space), pairs))
        for column in range(pairs):
            for by in range(pairs):
                strength = 0.5 if by == column else 0.25
                effect = dict(zip(ACTIONS, rng.permutation([-1.0, 0.2, 1.1]) * strength, strict=True))
                table[:, column] += [effect[vector[by]] for vector in space]
        table += 2 + 0.2 * rng.standard_normal(table.shape)
        cases.append((torch.from_numpy(table), space, pair))
    return cases


Reduce = Callable[[Tensor], Tensor]


def _share(
    results: Tensor,
    space: Space,
    pair: int,
    middle: Reduce = torch.mean,
    spread: Reduce = lambda x: x.var(unbiased=False),
    by: int | None = None,
) -> float:
    """The own share, with parts to get wrong."""
    losses, by = results[:, pair].double(), pair if by is None else by
    groups = [losses[[row for row, vector in enumerate(space) if vector[by] == action]] for action in ACTIONS]
    return float(spread(torch.stack([middle(group) for group in groups])) / spread(losses))


def _same_only(results: Tensor, space: Space, pair: int) -> float:
    losses = results[[row for row, vector in enumerate(space) if len(set(vector)) == 1], pair]
    return float(losses.var(unbiased=False) / results[:, pair].var(unbiased=False))


OWN_SHARE = Exercise(
    "own_share", own_share, _share_cases,
    [
        Mistake("That is the share that the own action does *not* explain: 1 minus the answer.",
                lambda results, space, pair: 1 - own_share(results, space, pair)),
        Mistake("The trials are grouped by another pair's action. Group them by vector[pair].",
                lambda results, space, pair: _share(results, space, pair, by=(pair + 1) % len(space[0]))),
        Mistake("You divide standard deviations. Shares of the variance need squares.",
                lambda results, space, pair: math.sqrt(own_share(results, space, pair))),
        Mistake("Both variances need the same divisor, the number of values (unbiased=False): with n - 1 three means "
                "count for too much.",
                lambda results, space, pair: _share(results, space, pair, spread=torch.var)),
        Mistake("That is a ratio of ranges, largest minus smallest, not of variances.",
                lambda results, space, pair: _share(results, space, pair, spread=lambda x: x.max() - x.min())),
        Mistake("Take the *mean* loss of each group of trials, not its smallest.",
                lambda results, space, pair: _share(results, space, pair, middle=torch.amin)),
        Mistake("Only the trials in which all pairs take the same action are used. There own and others' actions "
                "cannot be told apart: that is the trouble. Use all trials.", _same_only),
        Mistake("That is the variance between the groups. Divide it by the variance over all trials.",
                lambda results, space, pair: own_share(results, space, pair)
                * float(results[:, pair].var(unbiased=False))),
        Mistake("The variance below is over the losses of all pairs. Take this pair's column alone.",
                lambda results, space, pair: own_share(results, space, pair)
                * float(results[:, pair].var(unbiased=False) / results.var(unbiased=False))),
    ],
    library=("own_share", "share_explained"),
)  # fmt: skip
