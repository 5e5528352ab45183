"""Two factories: a small problem without language, with two objectives and a long tail, that trains in seconds.

Both factories sort parts into kinds by ten measurements. The first has many labelled parts, the second has few, and its
sensors are mounted differently. One small network serves both. Lesson 00 opens with the problem, lesson 16 looks inside
it, and `benchmarks/factories.py` varies it. Sampling, losses, actions and the search are the library's own: the library
never asks whether classes are words.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from pmd_kit import pictures
from pmd_lite.distillation.actions import act, logit, step_size
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, pmd_loss, probs
from pmd_lite.distillation.search import choose, reduced_space, trial_logits
from pmd_lite.evaluation.pareto import hypervolume
from pmd_lite.evaluation.tables import Cell, Table, mean_spread
from pmd_lite.figures.style import XY, LessonFigure
from pmd_lite.model.optimizer import Adam
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.sampling.temperature import temperature_probabilities

KINDS, MEASURES, WIDTH, BATCH, LR = 5, 10, 64, 32, 3e-3
TESTED = 10_000  # parts of each factory: chance moves % right by half a point
HIDDEN_FEATURES = 20  # of the world, which decide a part's kind; no network sees them
CHANCE = 100 / KINDS  # % right of a network that guesses

Parts = tuple[Tensor, Tensor]  # measurements and a flag for the factory [part, MEASURES + 2], kind [part]
Data = Mapping[str, Sequence[Parts]]  # {"train", "dev", "test": the parts of each factory}


@dataclass(frozen=True)
class World:
    """What a seed does not decide.

    parts: labelled parts of each factory. same, own: how much of the first factory's sensors is in the second's, and
    how much is its own. noise: share of all labels, dev and test included, that are random.
    """

    parts: tuple[int, int] = (2000, 40)
    same: float = 0.7
    own: float = 0.7
    noise: float = 0.2

    def data(self, seed: int) -> Data:
        """The parts of one world."""
        rng = torch.Generator().manual_seed(seed)
        first, other = 0.5 * torch.randn(2, MEASURES, HIDDEN_FEATURES, generator=rng)
        sensors, kinds = (
            [first, self.same * first + self.own * other],
            torch.randn(HIDDEN_FEATURES, KINDS, generator=rng),
        )
        data: dict[str, list[Parts]] = {}
        for split, counts in {"train": self.parts, "dev": (200, 200), "test": (TESTED, TESTED)}.items():
            data[split] = []
            for factory, n in enumerate(counts):
                x = torch.randn(n, MEASURES, generator=rng)
                kind = (torch.tanh(x @ sensors[factory]) @ kinds).argmax(1)
                wrong, lots = torch.rand(n, generator=rng) < self.noise, torch.randint(KINDS, (n,), generator=rng)
                flag = F.one_hot(torch.full((n,), factory), 2)
                data[split].append((torch.cat([x, flag], 1), torch.where(wrong, lots, kind)))
        return data


@dataclass(frozen=True)
class Plan:
    """How networks are trained.

    taus: the sampler of each network; one network learns alone, two teach each other. alpha: a fixed distillation
    weight; None lets Auto-PMD choose the weights. every: updates between two searches, and between two looks at the dev
    parts.
    """

    taus: Sequence[float]
    smoothing: float = 0.0
    dropout: float = 0.0
    alpha: float | None = None
    steps: int = 1000
    every: int = 50


class Sorter:
    """A student: a network with its own sampler and its own distillation weights."""

    def __init__(self, seed: int, tau: float, sizes: Sequence[int], dropout: float = 0.0, alpha: float = 0.1) -> None:
        torch.manual_seed(seed)
        drop = [nn.Dropout(dropout)] if dropout else []
        layers = [nn.Linear(MEASURES + 2, WIDTH), nn.ReLU(), *drop, nn.Linear(WIDTH, WIDTH), nn.ReLU(), *drop]
        self.net = nn.Sequential(*layers, nn.Linear(WIDTH, KINDS))
        self.adam = Adam(self.net.parameters(), lr=LR, fused=True)
        self.p, self.schedule = temperature_probabilities(sizes, tau), PairSchedule((seed,), "stratified")
        self.rng = torch.Generator().manual_seed(seed)
        self.logits = logit(torch.full((len(sizes),), alpha))  # of alpha, one for each factory
        self.lowest, self.kept = math.inf, self.net

    def batch(self, data: Data, factory: int) -> Parts:
        """Training parts of one factory, drawn at random."""
        x, kind = data["train"][factory]
        rows = torch.randint(len(kind), (BATCH,), generator=self.rng)
        return x[rows], kind[rows]

    def step(self, batch: Parts, alpha: float, peer: Sorter, smoothing: float = 0.0) -> None:
        """One update. At alpha = 0 the peer is not asked."""
        x, kind = batch
        logp = log_probs(self.net(x))
        loss = ce_loss(logp, kind, smoothing)
        if alpha:
            loss = pmd_loss(loss, kd_loss(logp, probs(peer.net(x))), alpha)  # Eq. 4; kd_loss detaches the teacher
        self.adam.zero_grad()
        (loss / len(kind)).backward()
        self.adam.step()

    def losses(self, data: Data) -> Tensor:
        """Mean loss on the dev parts of each factory, in nats a part."""
        self.net.eval()
        with torch.no_grad():
            found = torch.stack([F.cross_entropy(self.net(x), kind) for x, kind in data["dev"]])
        self.net.train()
        return found

    def copy(self) -> Sorter:
        """The same student with a network and an optimizer of its own, for a trial."""
        twin = copy.copy(self)
        twin.net = copy.deepcopy(self.net)
        twin.adam = Adam(twin.net.parameters(), lr=LR, fused=True)
        twin.adam.load_state_dict(copy.deepcopy(self.adam.state_dict()))
        return twin


def search(me: Sorter, peer: Sorter, data: Data, mu: float) -> None:
    """Alg. 2: three trials from copies, then for each factory the action that was best for it."""
    space, results = reduced_space(len(me.logits)), []
    batches = [(factory, me.batch(data, factory)) for factory in (0, 1) for _ in range(5)]
    for alphas in torch.sigmoid(trial_logits(me.logits, space, mu)).tolist():
        twin = me.copy()
        for factory, batch in batches:
            twin.step(batch, alphas[factory], peer)
        results.append(twin.losses(data))
    actions = choose(torch.stack(results), space)
    me.logits = torch.stack([act(x, action, mu) for x, action in zip(me.logits, actions, strict=True)])


def train(data: Data, seed: int, plan: Plan) -> list[Sorter]:
    """Alg. 1: one student alone, or two that teach each other from a fifth of the run on.

    Each student keeps the weights with the lowest mean dev loss, in `kept`.
    """
    sizes, start = [len(kind) for _, kind in data["train"]], plan.steps // 5
    mutual, searched = len(plan.taus) > 1, plan.alpha is None
    numbers = [10 * seed + (tau != 1) for tau in plan.taus]
    if len(set(numbers)) < len(numbers):  # two students with one sampler still begin differently
        numbers = [10 * seed, 10 * seed + 1]
    sorters = [
        Sorter(n, tau, sizes, plan.dropout, plan.alpha or 0.1) for n, tau in zip(numbers, plan.taus, strict=True)
    ]
    for t in range(1, plan.steps + 1):
        for i, me in enumerate(sorters):
            factory = me.schedule.next(me.p)
            alpha = torch.sigmoid(me.logits[factory]).item() if mutual and t > start else 0.0
            me.step(me.batch(data, factory), alpha, sorters[i - 1], plan.smoothing)
        if t % plan.every == 0:
            for i, me in enumerate(sorters):
                if mutual and searched and start <= t < plan.steps:
                    search(me, sorters[i - 1], data, step_size(t - start, plan.steps - start))
                if (dev := me.losses(data).mean().item()) < me.lowest:
                    me.lowest, me.kept = dev, copy.deepcopy(me.net)
    return sorters


def right(nets: Sequence[nn.Module], data: Data, split: str = "test") -> tuple[float, float]:
    """% of the parts sorted correctly in each factory; several networks answer with the mean of their probabilities."""
    return _by_factory(nets, data, split, lambda p, kind: 100 * (p.argmax(1) == kind).double().mean())


def loss(nets: Sequence[nn.Module], data: Data, split: str = "test") -> tuple[float, float]:
    """Mean loss in each factory, in nats a part; several networks as in `right`."""
    return _by_factory(nets, data, split, lambda p, kind: F.nll_loss(p.log(), kind))


def _by_factory(
    nets: Sequence[nn.Module], data: Data, split: str, score: Callable[[Tensor, Tensor], Tensor]
) -> tuple[float, float]:
    found = []
    for x, kind in data[split]:
        found.append(score(torch.stack([predicted(net, x) for net in nets]).mean(0), kind).item())
    return found[0], found[1]


def predicted(net: nn.Module, x: Tensor) -> Tensor:
    """Probability of every kind, without dropout. [part, MEASURES + 2] -> [part, KINDS]."""
    net.eval()
    with torch.no_grad():
        return probs(net(x))


def area(points: Sequence[XY]) -> float:
    """Area under the frontier of some networks, above the % right of guessing. points: (small, large factory)."""
    return hypervolume(points, (CHANCE, CHANCE))


COLUMNS = ("% right, large", "% right, small", "loss, large", "loss, small")
ALONE = {"tau=1": Plan((1,)), "tau=inf": Plan((math.inf,))}
TOGETHER = {"Auto-PMD": Plan((1, math.inf))}
TWINS = (("tau=1", "Auto-PMD model_1"), ("tau=inf", "Auto-PMD model_2"))


@dataclass(frozen=True)
class Outcome:
    """What networks reached in several worlds.

    scores: {network: [% right in the large factory, in the small one; loss in the large, in the small] of each world}.
    """

    scores: Mapping[str, Sequence[Sequence[float]]]

    def points(self, world: int | None = None) -> dict[str, XY]:
        """{network: % right in the (small, large) factory} of one world, or their means."""
        found = {}
        for label, runs in self.scores.items():
            chosen = runs if world is None else runs[world : world + 1]
            found[label] = (statistics.fmean(run[1] for run in chosen), statistics.fmean(run[0] for run in chosen))
        return found

    def sides(self, world: int | None = None) -> tuple[list[XY], list[XY]]:
        """The points of the two single networks, and of the two students that began as their twins."""
        points = self.points(world)
        return [points[single] for single, _ in TWINS], [points[student] for _, student in TWINS]

    def growth(self, world: int | None = None) -> float:
        """By how many % the area under the students' frontier is larger than the single networks'."""
        before, after = self.sides(world)
        return 100 * (area(after) / area(before) - 1)

    def worlds(self) -> range:
        """Their numbers from 0."""
        return range(len(next(iter(self.scores.values()))))

    def table(self) -> Table:
        """Mean and standard deviation over the worlds; most of the spread comes from the worlds: some are harder."""
        rows: list[list[Cell]] = [
            [label, *(mean_spread(column) for column in zip(*runs, strict=True))] for label, runs in self.scores.items()
        ]
        return Table(["test", *COLUMNS], rows)

    def differences(self, pairs: Sequence[tuple[str, str]]) -> Table:
        """Mean difference of each pair of networks over the worlds, and in how many worlds the first one is better."""
        rows: list[list[Cell]] = []
        for name, other in pairs:
            cells = []
            for column, sign in enumerate((1, 1, -1, -1)):
                d = [a[column] - b[column] for a, b in zip(self.scores[name], self.scores[other], strict=True)]
                cells.append(f"{statistics.fmean(d):+.2f} ({sum(sign * x > 0 for x in d)} of {len(d)})")
            rows.append([f"{name} - {other}", *cells])
        return Table(["difference (better in)", *COLUMNS], rows)

    def figure(self) -> LessonFigure:
        """Both frontiers: the mean of the worlds, then each world."""
        names = {f"mean of {len(self.worlds())} worlds": None} | {f"world {w + 1}": w for w in self.worlds()}
        if len(self.worlds()) == 1:
            names = {"one world": 0}
        alt = "Two single models and two that teach each other, % right in the small and in the large factory. "
        for name, world in names.items():
            before, after = ("; ".join(f"{x:.0f}, {y:.0f}" for x, y in side) for side in self.sides(world))
            alt += f"{name}: {before} became {after}. "
        return pictures.frontiers(
            {name: self.sides(world) for name, world in names.items()},
            "% right in the factory with few labelled parts", "% right in the factory with many",
            ("two single models", "two that teach each other"), alt=alt.strip(),
        )  # fmt: skip

    def reading(self) -> str:
        """In how many worlds the frontier was pushed outwards, and by how much."""
        growth = [self.growth(world) for world in self.worlds()]
        beaten = 0
        for world in self.worlds():
            before, after = self.sides(world)
            beaten += all(any(x > a and y > b for x, y in after) for a, b in before)
        many, mean = len(growth), statistics.fmean(growth)
        return (
            f"The area under the students' frontier is larger in {sum(g > 0 for g in growth)} of {many} worlds "
            f"({mean:+.0f} % on average, {min(growth):+.0f} to {max(growth):+.0f} %).\n"
            f"The whole frontier moved outwards in {beaten} of {many} worlds: there, for each single model, "
            "a student is better in both factories."
        )


def compare(seeds: Sequence[int], plans: Mapping[str, Plan], world: World = World(), **changes: Any) -> Outcome:
    """Train networks by several plans in several worlds, one per seed. changes: fields of all plans, such as steps.

    With one thread: a second one gains little here, and each operation waits for it where another program has its core.
    """
    scores: dict[str, list[Sequence[float]]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for seed in tqdm(seeds, desc="worlds", leave=False):
            data = world.data(seed)
            for name, plan in plans.items():
                for i, me in enumerate(train(data, seed, replace(plan, **changes))):
                    label = f"{name} model_{i + 1}" if len(plan.taus) > 1 else name
                    scores.setdefault(label, []).append([*right([me.kept], data), *loss([me.kept], data)])
    finally:
        torch.set_num_threads(threads)
    return Outcome(scores)
