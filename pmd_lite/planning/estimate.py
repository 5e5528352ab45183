"""Hours, memory and disk of a run on this machine, before it begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pmd_lite.api import LARGE, load_corpus
from pmd_lite.config import Config, check_number, configured
from pmd_lite.config.published import remark
from pmd_lite.data.corpus import Corpus, direction_of
from pmd_lite.data.joining import extended
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import place
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.distillation.lssd import LSSD
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Table
from pmd_lite.evaluation.tokenizers import check_scorers, missing_scorers
from pmd_lite.exchange.start import start_from
from pmd_lite.methods import Method, get_method, make_samplers
from pmd_lite.planning import MEAN_TOKENS
from pmd_lite.planning.counting import Work, assumed_resources, count, drawn_shares
from pmd_lite.planning.stand_in import Facts, StandIn, described, sampled
from pmd_lite.planning.timing import Speed, measure, parameters
from pmd_lite.training.distributed import divided
from pmd_lite.training.progress import describe_passes, duration
from pmd_lite.training.snapshot import preserved_rng

TRIALS = 3
FLOAT = 4  # bytes
STATE = 4 * FLOAT
"""Bytes per parameter of a student in training: weight, gradient, and Adam's two moments."""
SAVED = 3 * FLOAT
"""Bytes per parameter in a checkpoint: the same without the gradient."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "preparation": ("prepare",), "training": ("train", "teacher"), "search": ("trial",),
    "other measurements": ("probe",), "evaluation": ("dev",), "test translation": ("translation",),
    "auxiliary runs": ("auxiliary",),
}  # fmt: skip
"""{part of a run: the purposes of `Work.efforts` that belong to it}."""


@dataclass(frozen=True)
class Estimate:
    """What a run would take. A notebook shows it as a table."""

    name: str
    config: Config
    facts: Facts
    work: Work
    speed: Speed
    memory: float | None
    """Peak bytes; None if it was not measured."""
    disk: Mapping[str, float]
    """{use: bytes}; "while saving" comes on top, for a moment."""
    guesses: tuple[str, ...]
    """What is assumed or calculated, not measured."""
    processes: int = 1
    """How many share the run."""

    @property
    def hours(self) -> dict[str, float]:
        """{part: hours}; their sum is `total_hours`."""
        efforts = self.work.efforts
        return {part: sum(self.speed.seconds(efforts[p]) for p in of) / 3600 for part, of in PARTS.items()}

    @property
    def total_hours(self) -> float:
        """Of the whole run, with test translations and the runs that it needs first."""
        return sum(self.hours.values())

    @property
    def best_hours(self) -> float:
        """With all `processes`, if they share perfectly and messages take no time; process 0 prepares alone."""
        alone = self.hours["preparation"]
        return alone + (self.total_hours - alone) / self.processes

    @property
    def sent(self) -> float:
        """Bytes of gradients that each process sends in one update of all students, in a ring all-reduce."""
        size = 2 if self.config.train.gradients == "bf16" else FLOAT
        model = size * parameters(self.config, self.facts.vocabulary)
        return 2 * (1 - 1 / self.processes) * model * self.work.students

    @property
    def tokens_per_second(self) -> float:
        """Target tokens of all students per second of the part "training"."""
        return self.work.efforts["train"].backward / (3600 * self.hours["training"])

    def table(self) -> Table:
        """Hours of each part, speed, memory and disk."""
        said, total, work, clock = self._said(), self.total_hours, self.work, self.work.clock
        rows = [[part, duration(3600 * hours), f"{100 * hours / total:.0f} %", said[part]]
                for part, hours in self.hours.items() if hours]  # fmt: skip
        epochs, *seen = describe_passes(clock, self.facts.pairs, work.visits.tolist())
        rows.append(["total", duration(3600 * total), "100 %", epochs])
        if self.processes > 1:
            what = "at best: equal shares, and no time for messages"
            if self.config.train.turns != "together":
                what += f" (each sends {amount(self.sent)} in an update)"
            rows.append([f"with {self.processes} processes", duration(3600 * self.best_hours), "", what])
        rows += [["", "", "", line] for line in seen]
        rows.append(["speed", f"{self.tokens_per_second:,.0f} tokens/s", "", "target tokens of all students"])
        if self.memory is not None:
            rows.append(["peak memory", amount(self.memory), "", "of the process, or of the GPU if there is one"])
        kept = {what: size for what, size in self.disk.items() if what != "while saving"}
        listed, most = ", ".join(f"{what} {amount(size)}" for what, size in kept.items()), sum(self.disk.values())
        rows += [["disk", amount(sum(kept.values())), "", listed],
                 ["disk at most", amount(most), "", "while a new checkpoint replaces the last one"]]  # fmt: skip
        columns = ["part", "estimate", "share", "what it is"]
        return Table(columns, rows, caption=f"{self.name}, {self.speed.device}")

    def _said(self) -> dict[str, str]:
        """What each part consists of, in words."""
        work, train = self.work, self.config.train
        students = f"{work.students} student{'s' * (work.students > 1)}"
        since = f"after {work.clock.start:,}" if work.clock.start else "from the start"
        distilled = f", distilled {since}" if work.efforts["teacher"].teacher else ""
        return {
            "preparation": "the teachers' dev scores, and their predictions if the run stores them",
            "training": f"{work.clock.total:,} updates of {students}, each of {train.accumulate} x {train.tokens:,} "
            f"tokens at most{distilled}",
            "search": f"{work.searches:,} searches for each student, {TRIALS} trials each",
            "other measurements": f"{work.decisions:,} measurements of a student for its sampler or distiller",
            "evaluation": f"{work.evaluations:,} dev passes of each student",
            "test translation": f"{work.efforts['translation'].sentences:,.0f} sentences, beam {train.beam}",
            "auxiliary runs": ", ".join(work.helpers),
        }

    def to_text(self) -> str:
        """The table, and below it what was not measured."""
        return "\n".join([self.table().to_text(), "", "Not measured:", *(f"- {g}" for g in self.guesses)])

    __repr__ = to_text

    def _repr_html_(self) -> str:
        return f"{self.table().to_html()}\n<p>Not measured: {'; '.join(self.guesses)}.</p>"


def estimate(
    corpus: Corpus | str | Path | None = None, method: str = "auto-pmd", preset_name: str | Config = "toy", *,
    samplers: Sequence[str] | None = None, tokenizer: str | Path | None = None, init: str | Path | None = None,
    processes: int = 1, sizes: Mapping[str, int] | None = None, mean_tokens: float = MEAN_TOKENS, held_out: int = 2000,
    tokens_per_second: float | None = None, seconds: float = 10.0, **overrides: Any,
) -> Estimate:  # fmt: skip
    """Hours, memory and disk of a run: this measures a few steps of it, and counts the rest.

    Args:
        corpus, method, preset_name, samplers, tokenizer, init, overrides: as in `train`.
        sizes: instead of a corpus that is not here: {"fr-en": 3_000_000, ...}, training sentence pairs of each pair.
            Its sentences are random ids.
        processes: how many will share the run. An update with fewer micro-batches is divided as in `train`. We measure
            one process with such micro-batches, give the hours that it needs for all the work, and the best case.
        mean_tokens, held_out: with `sizes`: tokens of a sentence, and sentence pairs of each dev and each test set.
        tokens_per_second: target tokens per second at which another machine trains one plain model of this shape. Then
            we measure nothing and calculate the rest from the number of passes; memory is unknown.
        seconds: about how long to measure; a single step of a large model may take longer.
    Returns: an Estimate. This writes no file (except if sacreBLEU must download the model of a BLEU tokenizer) and does
        not change the state of any random generator.
    Raises: UserError for all that `train` refuses.
    """
    if sizes is not None and corpus is not None:
        raise UserError("give a corpus or sizes=, not both")
    row = get_method(method, samplers)
    here = None
    if sizes is None:
        here = corpus if isinstance(corpus, Corpus) else load_corpus("longtail" if corpus is None else corpus)
    direction = here.direction if here else direction_of(sizes or ())
    config = configured(preset_name, direction, row.name, overrides)
    speaks = Tokenizer.load(place(tokenizer)) if tokenizer is not None else None
    if init is not None:
        if here is None:
            raise UserError("init= brings a tokenizer, which needs text: give a corpus instead of sizes=")
        start = start_from(init)
        config, speaks = start.configure(config, overrides), extended(start.tokenizer, here)
    if tokens_per_second is not None:
        check_number("tokens_per_second", tokens_per_second, float, 0.001, 1e15)
    check_number("seconds", seconds, float, 0, 1e6)
    check_number("mean_tokens", mean_tokens, float, 1, 1e6)
    check_number("processes", processes, int, 1, 1e6)
    config = divided(config, processes)
    with preserved_rng():
        stand_in = sampled(here, config, speaks) if here else described(sizes or {}, mean_tokens, held_out, config)
        if isinstance(preset_name, str) and (note := remark(preset_name, direction)):
            stand_in = replace(stand_in, guesses=(note, *stand_in.guesses))
        name = here.name if here else f"{len(sizes or ())} pairs"
        if tokens_per_second is None:  # else the run is for another machine, which may have the BLEU tokenizers
            check_scorers(stand_in.facts.pairs, config.train.tokenize)
        return replace(_estimate(name, stand_in, row, config, tokens_per_second, seconds), processes=processes)


def _estimate(
    name: str, stand_in: StandIn, row: Method, config: Config, tokens_per_second: float | None, seconds: float
) -> Estimate:
    facts, encoded = stand_in.facts, stand_in.encoded
    work = count(facts, row, config)
    teaches = work.efforts["teacher"].teacher > 0
    if tokens_per_second is None:
        assumed = assumed_resources(len(facts.pairs), len(row.samplers), config)
        samplers = make_samplers(row.samplers, facts.sizes, config, assumed)
        drawn = [drawn_shares(sampler.probabilities(), facts, config) for sampler in samplers]
        speed = measure(encoded, torch.stack(drawn).mean(dim=0), config, teaches, seconds)
    else:
        speed = Speed.known(tokens_per_second, sum(facts.dev) / sum(facts.dev_sentences), config)
    size = parameters(config, encoded.tokenizer.vocab_size)
    others = len(row.samplers) - 1  # measured: one student, and one teacher if there is any
    copies = TRIALS * (issubclass(row.distiller, AutoPMD) and config.distill.resolved.rollback)
    more = STATE * (others + copies) - FLOAT * (teaches and others > 0)
    memory = speed.memory and speed.memory + size * more
    disk = _disk(facts, row, work, config, size, encoded.tokenizer.vocab_size)
    unscored = dict.fromkeys(missing_scorers(facts.pairs, config.train.tokenize).values()) if not speed.budget else ()
    guesses = (*stand_in.guesses, *_concluded(speed, work, row, config), *unscored)
    return Estimate(f"{row.name} on {name}", config, facts, work, speed, memory, disk, guesses)


def _disk(facts: Facts, row: Method, work: Work, config: Config, size: int, vocabulary: int) -> dict[str, float]:
    """{use: bytes}. size: parameters of one student."""
    students, pairs = len(row.samplers), len(facts.pairs)
    latest = students * size * SAVED
    if issubclass(row.distiller, LSSD):
        latest += students * size * FLOAT * pairs  # at most one snapshot for every pair
    disk = {
        "latest checkpoint": float(latest),
        "best weights": float(students * size * FLOAT),
        "last weights": float(students * size * FLOAT * config.train.keep_last),
        # those of each student, and for each pair a file of sources and a file of references
        "test translations": (work.efforts["translation"].sentences + 2 * sum(facts.test_sentences)) * facts.text_bytes,
        "while saving": float(latest),
    }
    if sum(facts.sizes) > LARGE:
        id_bytes = 2 if vocabulary <= 1 << 16 else 4
        tokens = facts.train_tokens + sum(facts.dev)
        sentences = sum(facts.sizes) + sum(facts.dev_sentences)
        disk["encoded corpus"] = 2 * (id_bytes * tokens + 8 * sentences)  # both sides are about equally long
    return {use: size for use, size in disk.items() if size}


def _concluded(speed: Speed, work: Work, row: Method, config: Config) -> list[str]:
    """What was not measured, in words."""
    if not speed.budget:
        return ["all times: calculated from passes through the model at the given speed"]
    notes = ["all but single steps: their number is counted"]
    if work.searches:
        notes.append("a trial: taken as three steps and one teacher's pass")
    if speed.budget < config.train.tokens:
        notes.append(f"time and memory at {config.train.tokens:,} tokens a micro-batch: from {speed.budget:,} tokens")
    if len(row.samplers) > 1:
        notes.append("memory of the other students" + " and of three trial copies" * (work.searches > 0))
    if work.efforts["translation"].sentences:
        notes.append("length of the translations: taken as that of the references")
    return notes + ["auxiliary runs: taken to be as fast as this one"] * bool(work.helpers)


def amount(size: float) -> str:
    """Bytes in a readable unit."""
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.1f} {unit}"
    return f"{size:.0f} bytes"
