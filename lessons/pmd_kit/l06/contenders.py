"""What a folder of runs has to show: a contender for each student, runs that differ in their seed alone together.

Any finished runs of any methods will do. What cannot be shown (a run still training, one without scores, a folder that
is something else) becomes a sentence that says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pmd_lite.errors import UserError
from pmd_lite.evaluation.pareto import dominates, hypervolume, mean_by_group, pareto_front
from pmd_lite.figures.style import XY
from pmd_lite.run import Run

BLEU, LOSS = "test BLEU", "dev loss"
HIGHER_IS_BETTER = {BLEU: True, LOSS: False}
SMALL, LARGE, ALL = "small pairs (LRL)", "large pairs (HRL)", "all pairs"
Seeds = Mapping[int, Mapping[str, float]]
"""{seed: {pair: score}}."""


@dataclass(frozen=True)
class Contender:
    """One student of one experiment.

    corpus: its name, and its pairs where folders hold several corpora. sizes: {pair: training sentences}. groups:
    (large, small) pairs. scores: {measure: {seed: {pair: score}}}; BLEU from 0 to 100, loss in nats per token.
    """

    label: str
    corpus: str
    sizes: Mapping[str, int]
    groups: Sequence[Sequence[str]]
    scores: Mapping[str, Seeds]

    @property
    def axes(self) -> dict[str, Sequence[str]]:
        """What an axis can be: {name: the pairs whose mean it is}."""
        high, low = self.groups
        return {SMALL: low, LARGE: high, ALL: list(self.sizes), **{pair: [pair] for pair in self.sizes}}

    def cloud(self, measure: str, axes: tuple[str, str]) -> list[XY]:
        """(across, up) of every seed that was measured; [] if none was."""
        pairs = [self.axes[name] for name in axes]
        found = [mean_by_group(scores, pairs) for scores in self.scores.get(measure, {}).values()]
        return [(x, y) for x, y in found]

    def apart(self) -> list[Contender]:
        """One contender for each seed."""
        seeds = sorted({seed for by_seed in self.scores.values() for seed in by_seed})
        if len(seeds) < 2:
            return [self]
        return [
            replace(self, label=f"{self.label}, seed {seed}",
                    scores={m: {seed: by[seed]} for m, by in self.scores.items() if seed in by})
            for seed in seeds
        ]  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The contenders in a folder, and a sentence about every other folder or file that is there."""

    contenders: Sequence[Contender]
    notes: Sequence[str]


@dataclass
class _Experiment:
    """Students with one label, one corpus and one configuration (but for the seed)."""

    label: str
    about: Mapping[str, Any]
    settings: Mapping[str, Any]
    run: Run
    scores: dict[str, dict[int, Mapping[str, float]]] = field(default_factory=lambda: {BLEU: {}, LOSS: {}})

    @property
    def corpus(self) -> str:
        """Fingerprint of the corpus: equal texts, equal fingerprint."""
        return str(self.about["corpus"]["fingerprint"])


def collect(folder: str | Path) -> Found:
    """All finished runs in a folder and the folders in it, runs inside a run (its auxiliary ones) left out."""
    root, notes = Path(folder), list[str]()
    experiments: dict[str, _Experiment] = {}
    for path in sorted(file.parent for file in root.rglob("config.json")):
        if any((above / "config.json").exists() for above in path.parents if above.is_relative_to(root)):
            continue
        try:
            notes += _read(path, experiments)
        except (UserError, LookupError, TypeError, ValueError, AttributeError) as error:
            notes.append(f"{path}: cannot be read as a run ({type(error).__name__}: {error})")
    if not experiments and not notes:
        notes.append(f"{folder}: no run lies here yet" if root.is_dir() else f"{folder}: there is no such folder")
    return Found(_named(list(experiments.values())), notes)


def _read(path: Path, experiments: dict[str, _Experiment]) -> list[str]:
    """Add one run to the experiments; returns what is to be said about it."""
    run = Run(path)
    if not run.dir.finished:
        steps = [line["step"] for line in run.dir.metrics()]
        return [f"{path}: unfinished, {f'at step {steps[-1]}' if steps else 'no evaluation yet'}; not shown"]
    about = run.dir.config
    seed = about["config"]["train"].pop("seed")
    scored = (path / "scores.json").exists()
    notes = [] if scored else [f"{path}: no test BLEU yet, only dev loss (python -m pmd_lite evaluate {path})"]
    if scored and run.without_bleu:
        scored = False
        notes = [f"{path}: no test BLEU for {', '.join(run.without_bleu)}, so only dev loss is shown"]
    measured = [{LOSS: run.best_dev_loss(i), **({BLEU: run.bleu(i)} if scored else {})} for i in range(len(run.labels))]
    for label, scores in zip(run.labels, measured, strict=True):
        same = [label, about["method"], about["samplers"], about["corpus"]["fingerprint"], about["config"]]
        key = json.dumps(same, sort_keys=True)
        made = experiments.setdefault(key, _Experiment(label, about, _flat(about["config"]), run))
        if seed in made.scores[LOSS]:
            notes.append(f"{path}: the same experiment and seed as another run here ({label}); not shown twice")
            continue
        for measure, by_pair in scores.items():
            made.scores[measure][seed] = by_pair
    return notes


def _named(experiments: Sequence[_Experiment]) -> list[Contender]:
    """Contenders whose labels say what sets apart those that would else be called the same."""
    names = [name for name, _ in {(e.about["corpus"]["name"], e.corpus) for e in experiments}]
    found = []
    for e in experiments:
        corpus = e.about["corpus"]
        where = corpus["name"]
        if names.count(where) > 1:
            where += f" {e.corpus[:6]}: {', '.join(corpus['pairs'])}"
        twins = [twin for twin in experiments if (twin.label, twin.corpus) == (e.label, e.corpus)]
        differing = [name for name in e.settings if any(t.settings.get(name) != e.settings[name] for t in twins)]
        words = [f"{name.rpartition('.')[2]}={e.settings[name]}" for name in differing]
        if len({twin.about["method"] for twin in twins}) > 1:
            words.insert(0, e.about["method"])
        scores = {measure: dict(sorted(by_seed.items())) for measure, by_seed in e.scores.items()}
        found.append(Contender(", ".join([e.label, *words]), where, e.run.sizes, e.run.groups, scores))
    return found


def _flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """{"train.steps": 1200, ...} of nested settings."""
    flat = {}
    for name, value in settings.items():
        flat.update(_flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value})
    return flat


def mean(cloud: Sequence[XY]) -> XY:
    """The middle of a cloud."""
    return sum(x for x, _ in cloud) / len(cloud), sum(y for _, y in cloud) / len(cloud)


def beaten_by(points: Mapping[str, XY], higher: bool) -> dict[str, list[str]]:
    """For every point the names of all that dominate it, those on the frontier first; [] for one on the frontier."""
    scores = {name: _as_score(point, higher) for name, point in points.items()}
    names = list(points)
    front = [names[i] for i in pareto_front(list(scores.values()))]
    order = [*front, *(name for name in names if name not in front)]
    return {name: [other for other in order if dominates(scores[other], scores[name])] for name in names}


def area(points: Sequence[XY], reference: XY, higher: bool) -> float:
    """Hypervolume between the points and the reference: the worst that would still count, on either axis."""
    return hypervolume([_as_score(p, higher) for p in points], _as_score(reference, higher))


def _as_score(point: XY, higher: bool) -> XY:
    """More is better."""
    return point if higher else (-point[0], -point[1])
