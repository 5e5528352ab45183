"""Full searches that a run recorded: how true the independence assumption of appendix A is, in numbers and words.

`benchmarks/three_experiments.py dwi` makes all 3^L trials at every search and stores their dev losses. The numbers and
sentences here are computed from these losses.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pmd_kit.l11.dwi_tables import mean_grid, replay
from pmd_kit.l11.figures import action_grids, disagreement, shares_by_step, variance_bars
from pmd_kit.l11.shares import own_share, share_explained
from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.distillation.search import full_space
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.figures.style import XY, LessonFigure
from pmd_lite.training.rundir import FORMAT

OWN, OTHERS, TOGETHER = "its own action", "the actions of other pairs", "combinations"
NEARLY, HARDLY = 0.9, 0.5
"""Own shares from which `reading` calls the assumption nearly true, and below which it calls it wrong (ours)."""
LEAST = 5e-5
"""Nats that would print as 0.0000."""
SLIGHT = 0.1
"""A difference below this share of what the best vector gains is called slight (ours)."""
RULES = ("reduced search, each pair for itself", "full search, each pair for itself",
         "lowest sum of losses, 3 trials (Dynamic-MD)", "lowest sum of losses, all trials")  # fmt: skip
ROUNDING = 2e-5
"""Nats by which rounded losses may be wrong."""


@dataclass(frozen=True)
class StoredSearches:
    """The searches of all seeds, one after another. pairs: names; searches: events as `FullSearch` writes them."""

    pairs: Sequence[str]
    searches: Sequence[Mapping[str, Any]]
    command: str

    @classmethod
    def load(cls, path: Path) -> StoredSearches:
        """Raises UserError when the file is absent, not of this form, or its choices do not follow from its results."""
        try:
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            stored = cls(data["pairs"], data["searches"], data["command"])
            if data.get("format") != FORMAT:
                raise ValueError("another version made it, whose numbers mean something else")
            for i, search in enumerate(stored.searches):
                if list(stored.results(i).shape) != [len(stored.space), len(stored.pairs)]:
                    raise ValueError(f"search {i} has results of shape {list(stored.results(i).shape)}")
                if not stored._follows(i, search["full"]):
                    raise ValueError(f"search {i} chose {search['full']}, which its results do not say")
                stored.name(i), search["reduced"], search["loss_full"], search["loss_reduced"]
            if not stored.searches:
                raise ValueError("it holds no search")
        except (OSError, ValueError, KeyError, TypeError, UserError) as error:
            raise UserError(
                f"{path}: no stored searches ({error}); make them with python -m benchmarks.three_experiments dwi"
            ) from None
        return stored

    @property
    def space(self) -> list[tuple[str, ...]]:
        """The action vectors of the trials, in the order of the results."""
        return full_space(len(self.pairs))

    @property
    def chance(self) -> float:
        """How often the choices for a pair would differ if losses were noise alone.

        The best of all trials is one of the reduced ones in 3 of 3^L cases; otherwise two of three guesses are wrong.
        """
        return (1 - len(ACTIONS) / len(self.space)) * (1 - 1 / len(ACTIONS))

    def results(self, search: int) -> Tensor:
        """R, [trial, pair] dev losses in nats per token."""
        return torch.tensor(self.searches[search]["results"], dtype=torch.float64)

    def name(self, search: int) -> str:
        """Which search that is: "7: model_1 at step 400"."""
        event = self.searches[search]
        return f"{search + 1}: model_{event['student'] + 1} at step {event['step']}"

    def _follows(self, search: int, full: Sequence[str]) -> bool:
        """Whether each chosen action has a trial with the smallest loss, up to the rounding of the file."""
        results = self.results(search)
        for pair, action in enumerate(full):
            own = [row for row, vector in enumerate(self.space) if vector[pair] == action]
            if not results[own, pair].min() <= results[:, pair].min() + ROUNDING:
                return False
        return True

    # ---- numbers

    def differ(self, pair: int) -> list[bool]:
        """For every search, whether the two choices for this pair differ."""
        return [search["full"][pair] != search["reduced"][pair] for search in self.searches]

    def lost(self, pair: int) -> list[float]:
        """For every search, dev loss after the reduced choice minus after the full one; below 0 where it is better."""
        return [search["loss_reduced"][pair] - search["loss_full"][pair] for search in self.searches]

    def ranges(self, pair: int) -> list[float]:
        """For every search, the largest minus the smallest dev loss of all trials."""
        losses = [self.results(i)[:, pair] for i in range(len(self.searches))]
        return [float(of.max() - of.min()) for of in losses]

    def causes(self, search: int, pair: int) -> dict[str, float]:
        """What the variance of a pair's loss in one search is due to; the three shares sum to 1."""
        results, space = self.results(search), self.space
        others = [other for other in range(len(self.pairs)) if other != pair]
        own = own_share(results, space, pair)
        elsewhere = sum(share_explained(results, space, pair, other) for other in others)
        return {OWN: own, OTHERS: elsewhere, TOGETHER: max(0.0, 1 - own - elsewhere)}

    def mean_causes(self) -> dict[str, dict[str, float]]:
        """The same for every pair, mean over all searches."""
        found = {}
        for pair, name in enumerate(self.pairs):
            each = [self.causes(search, pair) for search in range(len(self.searches))]
            found[name] = {cause: sum(of[cause] for of in each) / len(each) for cause in (OWN, OTHERS, TOGETHER)}
        return found

    def rates(self) -> dict[str, XY]:
        """{pair: (mean share of its own action, how often the two choices differ)}."""
        causes = self.mean_causes()
        return {name: (causes[name][OWN], sum(self.differ(pair)) / len(self.searches))
                for pair, name in enumerate(self.pairs)}  # fmt: skip

    def least_own(self) -> tuple[int, int, int]:
        """The search and the pair whose loss depends least on its own action, and the pair whose action counts most."""
        shares = {(i, pair): self.causes(i, pair)[OWN] for i in range(len(self.searches))
                  for pair in range(len(self.pairs))}  # fmt: skip
        search, pair = min(shares, key=lambda at: shares[at])
        others = [other for other in range(len(self.pairs)) if other != pair]
        results = self.results(search)
        return search, pair, max(others, key=lambda other: share_explained(results, self.space, pair, other))

    # ---- tables and words

    def table(self) -> Table:
        """For every pair: how often the choices differ, what that costs, and what its loss depends on."""
        causes, rows = self.mean_causes(), []
        for pair, name in enumerate(self.pairs):
            differ = self.differ(pair)
            cells: list[Cell] = [name, f"{sum(differ)} of {len(differ)}"]
            cells += [mean_spread(self.lost(pair)), mean_spread(self.ranges(pair))]
            rows.append([*cells, *(f"{100 * share:.0f} %" for share in causes[name].values())])
        caption = (
            "lost: dev loss after the reduced choice minus after the full one; range: largest minus smallest dev loss "
            f"of the {len(self.space)} trials (nats per token, mean ± standard deviation over searches). Then: what "
            "the variance of its dev loss over the trials is due to"
        )
        columns = ["pair", "another action", "lost", "range", OWN, OTHERS, TOGETHER]
        return Table(columns, rows, digits=4, caption=caption)

    def gains(self) -> dict[str, list[float]]:
        """{rule: [pair] dev loss after its choice minus after keeping all weights, mean over searches}."""
        space = self.space
        same = [row for row, vector in enumerate(space) if len(set(vector)) == 1]
        found: dict[str, list[Tensor]] = {}
        for search, event in enumerate(self.searches):
            results = self.results(search)
            total = results.sum(dim=1)
            chosen = (space.index(tuple(event["reduced"])), space.index(tuple(event["full"])),
                      same[int(total[same].argmin())], int(total.argmin()))  # fmt: skip
            keep = results[space.index(("keep",) * len(self.pairs))]
            for rule, row in zip(RULES, chosen, strict=True):
                found.setdefault(rule, []).append(results[row] - keep)
        return {rule: torch.stack(of).mean(dim=0).tolist() for rule, of in found.items()}

    def by_weight(self) -> Table:
        """Mean share of the own action, by the pair's weight before the search."""
        weights = replay(self.searches)
        rows: list[list[Cell]] = []
        for low, high in pairwise((0.0, 0.05, 0.3, 0.7, 0.95, 1.0)):
            shares = [self.causes(search, pair)[OWN] for search, of in enumerate(weights)
                      for pair, weight in enumerate(of) if low <= weight < high or weight == high == 1]  # fmt: skip
            if shares:
                rows.append([f"{low:g} to {high:g}", len(shares), _mean(shares)])
        return Table(["weight before the search", "cases", "own share, mean"], rows)

    def rules(self) -> Table:
        """What four ways to choose do to the dev loss, against keeping every weight."""
        rows: list[list[Cell]] = [[rule, *of, _mean(of)] for rule, of in self.gains().items()]
        caption = "Dev loss after the choice minus after keeping all weights, nats per token, mean over searches"
        return Table(["choice", *self.pairs, "mean"], rows, digits=4, caption=caption)

    def rules_reading(self) -> str:
        """Whether the expensive search pays, and what choosing for all together would."""
        reduced, full, _, best = (_mean(of) for of in self.gains().values())
        gap = full - reduced
        verdict = "pays" if gap < 0 else "does not pay"
        if abs(gap) <= SLIGHT * abs(best):
            verdict = "makes hardly a difference"
        text = (
            f"Mean over pairs: each for itself, the full search changes the dev loss by {full:+.4f} nats, the reduced "
            f"one by {reduced:+.4f}: searching in full {verdict} here. The best vector for all together: {best:+.4f}."
        )
        return textwrap.fill(text, 105)

    def reading(self) -> str:
        """What the searches say about the assumption."""
        total = len(self.searches)
        whole = sum(search["full"] != search["reduced"] for search in self.searches)
        lines = [f"{total} searches on {', '.join(self.pairs)}. In {whole} of them the reduced search chooses another "
                 "action than the full one for at least one pair."]  # fmt: skip
        words: dict[str, list[str]] = {"nearly true": [], "partly true": [], "wrong": []}
        for pair, name in enumerate(self.pairs):
            own, rate = self.rates()[name]
            verdict = "nearly true" if own >= NEARLY else "partly true" if own >= HARDLY else "wrong"
            words[verdict].append(name)
            lost, spread = sum(self.lost(pair)) / total, sum(self.ranges(pair)) / total
            effect = "changes nothing"
            if abs(lost) >= LEAST:
                effect = f"{'costs' if lost > 0 else 'gains'} {abs(lost):.4f} nats"
            lines.append(
                f"{name}: its own action explains {100 * own:.0f} % of the variance of its loss; another action in "
                f"{100 * rate:.0f} % of the searches (noise alone: {100 * self.chance:.0f} %). Following the reduced "
                f"choice {effect} on average, {100 * abs(lost) / spread if spread else 0:.0f} % of the range between "
                f"the best and the worst trial ({spread:.4f})."
            )
        for verdict, names in words.items():
            if names:
                lines.append(f"For {', '.join(names)} the assumption is {verdict}.")
        return "\n".join(line for text in lines for line in textwrap.wrap(text, 105, subsequent_indent="    "))

    # ---- figures

    def grid(self, search: int, pair: int, other: int) -> LessonFigure:
        """Dev loss of `pair` over its own action and that of `other`, mean over the actions of all further pairs.

        Raises UserError when the two are the same.
        """
        own, second = self.pairs[pair], self.pairs[other]
        if pair == other:
            raise UserError("Choose two different pairs.")
        table = mean_grid(self.results(search), self.space, pair, other)
        listed = "; ".join(f"{own} {a}, {second} {b}: {loss:.4f}" for a, row in zip(ACTIONS, table, strict=True)
                           for b, loss in zip(ACTIONS, row, strict=True))  # fmt: skip
        title = f"search {self.name(search)}"
        alt = f"Dev loss of {own} in {title}. {listed}"
        return action_grids({f"loss of {own}, {title}": table}, ACTIONS, own, second, alt=alt)

    def bars(self) -> LessonFigure:
        """What the variance of each pair's loss is due to, mean over searches."""
        causes = self.mean_causes()
        text = "; ".join(f"{name}: " + ", ".join(f"{c} {100 * x:.0f} %" for c, x in of.items())
                         for name, of in causes.items())  # fmt: skip
        return variance_bars(causes, alt=f"Share of the variance of each pair's dev loss. {text}")

    def by_step(self) -> LessonFigure:
        """Share of each pair's own action over training, mean over seeds, for each student."""
        steps = sorted({search["step"] for search in self.searches})
        shares: dict[str, dict[str, list[float]]] = {}
        for student in sorted({search["student"] for search in self.searches}):
            at = {step: [i for i, s in enumerate(self.searches) if (s["step"], s["student"]) == (step, student)]
                  for step in steps}  # fmt: skip
            shares[f"model_{student + 1}"] = {
                name: [_mean([self.causes(i, pair)[OWN] for i in at[step]]) for step in steps]
                for pair, name in enumerate(self.pairs)
            }
        ends = "; ".join(f"{student}: " + ", ".join(f"{pair} {of[0]:.2f} to {of[-1]:.2f}" for pair, of in by.items())
                         for student, by in shares.items())  # fmt: skip
        return shares_by_step(steps, shares, alt=f"Share explained by its own action, first to last search. {ends}")

    def beside_noise(self, curve: Sequence[XY]) -> LessonFigure:
        """Own share and disagreement of every pair beside those of random losses (`simulate`)."""
        rates = self.rates()
        text = "; ".join(f"{name}: own share {x:.2f}, disagreement {y:.2f}" for name, (x, y) in rates.items())
        alt = f"Disagreement falls as the own share grows. Measured: {text}"
        return disagreement(curve, rates, self.chance, alt=alt)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
