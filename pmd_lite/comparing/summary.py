"""From the runs of a comparison to plain data: scores, curves, differences and costs of every system."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pmd_lite.api import load_corpus
from pmd_lite.comparing.entries import Entry, parse_entry
from pmd_lite.config import Metric, Tokenize
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.disk import read_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.scoring import one_line, said_beside, tokenizers_used
from pmd_lite.evaluation.significance import SentenceStats, paired_bootstrap, sentence_stats
from pmd_lite.evaluation.tokenizers import missing_scorers
from pmd_lite.run import Run
from pmd_lite.training.rundir import FORMAT

BASELINE = "tau=1"
"""The system that all others are tested against."""


@dataclass(frozen=True)
class System:
    """One student of one method, over all seeds."""

    label: str
    entry: Entry
    student: int
    runs: tuple[Run, ...]


def finished_run(folder: Path, entry: Entry, seed: int) -> Run | None:
    """The run of a method with this seed among the runs in `folder`; None unless it is finished and scored."""
    path = entry.path(folder, seed)
    return Run(path) if (path / "scores.json").exists() else None


def requested(path: Path, folder: str) -> dict[str, Any]:
    """What a comparison was asked for. Raises UserError when there is none in `path`."""
    shape = {"corpus": str, "corpus_options": dict, "preset": str, "overrides": dict, "methods": [str], "seeds": [int],
             "failed": {"*": str}}  # fmt: skip
    return read_json(path / f"{folder}.json", shape, "is this the directory of a comparison?")


def finished_systems(path: Path, folder: str = "runs") -> list[System]:
    """Every student of each method that has finished with all seeds, in order. UserError as for `Comparison`."""
    request = requested(path, folder)
    systems = []
    for entry in map(parse_entry, request["methods"]):
        names = [entry.path(path / folder, seed).name for seed in request["seeds"]]
        if request["failed"].keys() & set(names):  # its directory may hold another run, with other settings
            continue
        found = (finished_run(path / folder, entry, seed) for seed in request["seeds"])
        runs = tuple(run for run in found if run)
        if runs and len(runs) == len(request["seeds"]):
            labels = runs[0].labels
            systems += [System(_label(entry, labels, i), entry, i, runs) for i in range(len(labels))]
    if not systems:
        raise UserError(f"{path}: no method has finished with all seeds; failed: {request['failed'] or 'none'}")
    _check_tokenizers(systems)
    return systems


def _label(entry: Entry, labels: Sequence[str], student: int) -> str:
    """How tables call a student: as its run does, unless the method has samplers or settings of its own."""
    if len(labels) == 1:
        return entry.text
    changed = entry.overrides or entry.samplers is not None
    return f"{entry.text}: {labels[student].split(' ', 1)[1]}" if changed else labels[student]


def _check_tokenizers(systems: Sequence[System]) -> None:
    """Raises UserError when some of the runs were scored with another tokenizer."""
    first: dict[str, tuple[str, Path]] = {}  # {pair: (tokenizer, a run scored with it)}
    for run in (run for system in systems for run in system.runs):
        for pair, name in tokenizers_used(run.scores).items():
            other, path = first.setdefault(pair, (name, run.path))
            if name != other:
                raise UserError(f"BLEU of {pair} was counted with {other} in {path}, {name} in {run.path}: such scores "
                                "cannot be compared. Score all runs alike: python -m pmd_lite evaluate RUN --tokenize "
                                "NAME")  # fmt: skip


def summarise(path: Path, folder: str = "runs") -> dict[str, Any]:
    """All that tables and figures show, for JSON: four decimals, a missing BLEU is None. UserError as `Comparison`."""
    request = requested(path, folder)
    corpus = load_corpus(request["corpus"], **request["corpus_options"])
    systems = finished_systems(path, folder)
    runs = [run for system in systems for run in system.runs]
    for run in runs:
        run.check_corpus(corpus)
    differences, scores = _Differences(systems, corpus), [run.scores for run in runs]
    counted: list[Metric] = ["bleu", "chrf"]
    counted += ["ter"] if all("ter" in score for of in scores for by in of.values() for score in by.values()) else []
    rows = []
    for system in systems:
        steps, p = system.runs[0].curve("p", system.student)
        rows.append({
            "label": system.label, "method": system.entry.text,
            **{str(of): [run.measured(of, system.student) for run in system.runs] for of in counted},
            "dev_loss": [run.best_dev_loss(system.student) for run in system.runs],
            "differences": differences.of(system), "steps": steps, "p": p,
        })  # fmt: skip
    methods = {system.entry.text: system.runs for system in systems}
    first = {method: runs[0] for method, runs in methods.items()}
    return {
        "corpus": corpus.name, "sizes": dict(zip(corpus.pairs, corpus.sizes, strict=True)), "seeds": request["seeds"],
        "equal": folder, "overrides": request["overrides"], "preset": request["preset"],
        "groups": [list(group) for group in systems[0].runs[0].groups], "systems": _rounded(rows), "format": FORMAT,
        "costs": _rounded(_costs(first)), "notes": said_beside(scores, counted),
        "updates": {method: run.finished["step"] for method, run in first.items()},
        "minutes": _rounded({m: [run.finished["seconds"] / 60 for run in runs] for m, runs in methods.items()}),
        "untested": differences.untested, "failed": request["failed"],
    }  # fmt: skip


class _Differences:
    """Tests every system against the baseline; the statistics of the baseline are counted once."""

    def __init__(self, systems: Sequence[System], corpus: Corpus) -> None:
        runs = [run for system in systems for run in system.runs]
        used = {pair: name for run in runs for pair, name in tokenizers_used(run.scores).items()}
        lost = {pair for run in runs for pair in run.without_bleu}
        tokenizers = {pair: cast(Tokenize, used.get(pair, "auto")) for pair in corpus.pairs if pair not in lost}
        self.untested = [pair for pair, name in tokenizers.items() if missing_scorers([pair], name)]
        """Pairs whose BLEU was counted on another machine, by a tokenizer that this one lacks."""
        self._tokenizers = {pair: name for pair, name in tokenizers.items() if pair not in self.untested}
        self._corpus = corpus
        self._base = next((system for system in systems if system.entry.text == BASELINE), None)
        self._base_stats = self._stats(self._base) if self._base else []

    def of(self, system: System) -> dict[str, tuple[float, str]]:
        """{"mean", "HRL", "LRL": (BLEU minus the baseline's, its mark, "" for one seed)}, of pairs counted here."""
        if self._base is None or system is self._base:
            return {}
        high, low = system.runs[0].groups
        stats = self._stats(system)
        tested = {}
        for name, group in (("mean", self._corpus.pairs), ("HRL", high), ("LRL", low)):
            pairs = [pair for pair in self._corpus.pairs if pair in group]  # in the order in which chance is drawn
            if pairs and self._tokenizers.keys() >= set(pairs):  # of one pair the smaller half is empty
                base, other = ([[by_pair[pair] for pair in pairs] for by_pair in of]
                               for of in (self._base_stats, stats))  # fmt: skip
                difference = paired_bootstrap(base, other)
                tested[name] = difference.delta, difference.mark if len(system.runs) > 1 else ""
        return tested

    def _stats(self, system: System) -> list[dict[str, SentenceStats]]:
        """[seed] {pair: statistics of its test sentences}, for every pair that can be counted here."""
        refs = {pair: [one_line(trg) for _, trg in self._corpus.test[pair]] for pair in self._tokenizers}
        return [
            {pair: sentence_stats(run.translations(pair, system.student), refs[pair], split_pair(pair)[1], name)
             for pair, name in self._tokenizers.items()} for run in system.runs
        ]  # fmt: skip


def _costs(runs: dict[str, Run]) -> dict[str, dict[str, float]]:
    """{method: {purpose: compute}}, that of its auxiliary runs too, as multiples of the first method's total."""
    unit = next(run.compute_with_auxiliary for run in runs.values())
    return {method: {**{purpose: n / unit for purpose, n in run.cost.items()},
                     "auxiliary": (run.compute_with_auxiliary - run.compute) / unit}
            for method, run in runs.items()}  # fmt: skip


def _rounded(value: Any) -> Any:
    """Numbers with four decimals, and None for nan, which JSON does not have."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value
