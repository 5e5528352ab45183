"""What a run will compute, counted without computing it.

Samplers and distiller are the real ones. We move the clock from the first update to the last, and each strategy that is
due receives a fake probe: it computes nothing, records the cost and returns constant losses. So we count the searches,
measurements and decisions that the run will make, for every method of the table. Decisions that depend on losses follow
the constant ones; if this is wrong, it counts too much distillation rather than too little.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn

from pmd_lite.auxiliary import bilingual_config
from pmd_lite.config import Config
from pmd_lite.data.tokenizer import PAD
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.targets import worth_keeping
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.interfaces import Clock, Distiller, Sampler, TokenStats
from pmd_lite.methods import Method, Resources, get_method, make_distiller, make_samplers, needed_runs, single_methods
from pmd_lite.model.transformer import Transformer
from pmd_lite.planning.stand_in import Facts
from pmd_lite.sampling.schedule import batch_shares
from pmd_lite.training.cost import FORWARD, FORWARD_AND_BACKWARD, PURPOSES, per_token
from pmd_lite.training.dev import SAMPLE
from pmd_lite.training.snapshot import preserved_rng
from pmd_lite.training.trial import trial_sentences


@dataclass
class Effort:
    """An amount of computing.

    `planning.timing` measures the time of the first five: target tokens in a forward pass, in a teacher's forward pass,
    in a forward and backward pass; steps of an optimiser; translated sentences. multiply_adds: what
    `training.cost.Cost` counts for it, which leaves out the translation of the test set.
    """

    forward: float = 0.0
    teacher: float = 0.0
    backward: float = 0.0
    steps: float = 0.0
    sentences: float = 0.0
    multiply_adds: float = 0.0

    def add(self, other: Self, times: int = 1) -> None:
        """Add another amount to this one."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))


@dataclass
class Work:
    """All computing of a run. `efforts` has the purposes of `training.cost.PURPOSES`, "translation" and "auxiliary"."""

    clock: Clock
    """Length of the run and of an epoch, and where distillation begins. Its step is the last one."""
    students: int
    efforts: dict[str, Effort]
    searches: int = 0
    """Of one student; each is three trials."""
    decisions: int = 0
    """Other measurements of the models, for samplers and distiller."""
    evaluations: int = 0
    """Of one student."""
    helpers: list[str] = field(default_factory=list)
    """Runs that the method needs first."""
    visits: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    """[student, pair] how often the run shows each sentence."""

    @property
    def cost(self) -> dict[str, float]:
        """Multiply-adds by purpose, as a run's own `cost`."""
        return {purpose: self.efforts[purpose].multiply_adds for purpose in PURPOSES}


def count(facts: Facts, row: Method, config: Config) -> Work:
    """Count all that a run of this method computes on this corpus, with test translations and auxiliary runs."""
    counter = _Counter(facts, row, config)
    counter.run()
    work = counter.work
    work.efforts["translation"].sentences = sum(facts.test_sentences) * len(row.samplers)
    for name, method, its_facts, its_config in _helpers(facts, row, config):
        work.helpers.append(name)
        for purpose, effort in count(its_facts, get_method(method), its_config).efforts.items():
            if purpose != "translation":  # auxiliary runs are not scored
                work.efforts["auxiliary"].add(effort)
    return work


class _Counter:
    """Moves the clock, and is the fake probe of the strategies."""

    def __init__(self, facts: Facts, row: Method, config: Config):
        self.facts, self.config = facts, config
        self.n, self.per_token = len(facts.pairs), per_token(shape_of(config, facts.vocabulary))
        found = assumed_resources(self.n, len(row.samplers), config)
        self.samplers: list[Sampler] = make_samplers(row.samplers, facts.sizes, config, found)
        models = [nn.Linear(1, 1) for _ in row.samplers]
        self.distiller: Distiller = make_distiller(row.distiller, row.options, config, found)(
            models, self.n, config.distill
        )
        self.clock = Clock.of(config, facts.batches_per_pass, self.distiller.waits)
        efforts = {purpose: Effort() for purpose in (*PURPOSES, "translation", "auxiliary")}
        visits = torch.zeros(len(row.samplers), self.n, dtype=torch.float64)
        self.work = Work(self.clock, len(row.samplers), efforts, visits=visits)
        self.looked: dict[int, int] = {}  # student -> the update after which we last counted its dev loss
        # We assume that a student is better at the pairs that it draws more often.
        self.losses = torch.stack([2 - sampler.probabilities() for sampler in self.samplers])

    def run(self) -> None:
        """From the first update to the last, in the order of the trainer."""
        train, work = self.config.train, self.work
        if isinstance(self.distiller, MultiDistill):
            self._prepare()
        every, changed, since = train.eval_every or self.clock.epoch, True, 0
        for step in range(1, self.clock.total + 1):
            if changed:
                plain, taught, visits = self._update()
            self.clock = self.clock.at(step)
            if step == self.clock.total or step % every == 0:
                work.evaluations += 1
                for student in range(work.students):
                    self._look(student, "dev")
            if changed := self.distiller.due(self.clock):
                self.distiller.update(self)
            for student, sampler in enumerate(self.samplers):
                if sampler.due(self.clock):
                    sampler.update(student, self)
                    changed = True
            if changed or step == self.clock.total:  # since the last change, all updates cost the same
                work.efforts["train"].add(plain, step - since)
                work.visits += visits * (step - since)
                work.efforts["teacher"].add(taught, max(0, step - max(since, self.clock.start)))
                since = step
        work.clock = self.clock

    def shares(self, student: int) -> Tensor:
        """[pair] shares of the micro-batches that this student draws now."""
        return drawn_shares(self.samplers[student].probabilities(), self.facts, self.config)

    def _prepare(self) -> None:
        """What Multi-Distill's teachers compute before the first update (see `auxiliary.resources`)."""
        effort, settings = self.work.efforts["prepare"], self.config.teacher
        if settings.md_criterion != "loss":
            effort.add(self._dev_translation())
        if settings.md_cache:
            for pair, size in enumerate(self.facts.sizes):
                tokens = size * self.facts.tokens[pair]
                effort.add(Effort(teacher=tokens, multiply_adds=self._of(pair, tokens)))

    def _of(self, pair: int, tokens: float, passes: float = FORWARD, projections: float | None = None) -> float:
        """Multiply-adds of passes over target tokens of training data and their source tokens."""
        times = passes if projections is None else projections
        return self.per_token.multiply_adds(tokens * self.facts.src_per_trg[pair], tokens, passes, times)

    def _training(self, pair: int, tokens: float, times: int = 1) -> Effort:
        """Forward and backward passes over target tokens."""
        return Effort(backward=times * tokens, multiply_adds=self._of(pair, tokens, FORWARD_AND_BACKWARD * times))

    def _dev(self) -> float:
        """Multiply-adds of one pass over the dev set, or of a greedy translation as long as the references."""
        return self.per_token.multiply_adds(sum(self.facts.dev_src), sum(self.facts.dev), FORWARD, FORWARD)

    def _dev_pass(self, times: int = 1) -> Effort:
        return Effort(forward=times * sum(self.facts.dev), multiply_adds=times * self._dev())

    def _dev_translation(self) -> Effort:
        return Effort(sentences=sum(self.facts.dev_sentences), multiply_adds=self._dev())

    def _taught(
        self, student: int, pair: int, tokens: float, passes: float, listeners: int, kept: bool = False
    ) -> Effort:
        """What teachers and gates compute for these tokens (see `training.step.Algorithm1.count_teaching`)."""
        teachers, looks = len(self.distiller.teachers(student, pair)), 2 if self.distiller.gated else 1
        projections = 1 if kept else looks * listeners
        spent = teachers * self._of(pair, tokens, passes, projections)
        spent += self._of(pair, tokens, 0, (looks - 1) * listeners)
        return Effort(teacher=passes * teachers * tokens, multiply_adds=spent)

    def _update(self) -> tuple[Effort, Effort, Tensor]:
        """One update of all students: their training, what their teachers compute once distillation has begun, and
        [student, pair] how often it shows each sentence of a pair."""
        batch, per_batch, sizes = (
            torch.tensor(x, dtype=torch.float64) for x in (self.facts.batch, self.facts.per_batch, self.facts.sizes)
        )
        draws = self.config.train.accumulate * torch.stack([self.shares(i) for i in range(len(self.samplers))])
        plain, taught = Effort(steps=len(self.samplers)), Effort()
        for student, row in enumerate((draws * batch).tolist()):
            for pair, tokens in enumerate(row):
                plain.add(self._training(pair, tokens))
                if self.distiller.weight(student, pair):
                    taught.add(self._taught(student, pair, tokens, FORWARD, 1))
        return plain, taught, draws * per_batch / sizes

    def _look(self, student: int, purpose: str) -> None:
        if self.looked.get(student) != self.clock.step:
            self.looked[student] = self.clock.step
            self.work.efforts[purpose].add(self._dev_pass())
            self.work.decisions += purpose == "probe"

    # ---- the probe

    def dev_loss(self, student: int) -> Tensor:
        """Constant; lower for the pairs that this student draws more often."""
        self._look(student, "probe")
        return self.losses[student].clone()

    def dev_score(self, student: int) -> Tensor:
        """0 BLEU, so a frozen teacher is always better."""
        self.work.efforts["probe"].add(self._dev_translation())
        self.work.decisions += 1
        return torch.zeros(self.n, dtype=torch.float64)

    def trial(self, student: int, alphas: Tensor) -> Tensor:
        """The same loss for all trials."""
        self.work.searches += student == 0
        effort, trials = self.work.efforts["trial"], len(alphas)
        sets, rollback = self._trial_set(student), self.config.distill.resolved.rollback
        for pair, (tokens, _) in enumerate(sets):
            asked = int((alphas[:, pair] > 0).sum())
            effort.add(self._training(pair, tokens, trials))
            kept = rollback and asked > 1 and worth_keeping(round(self.facts.batch[pair]), self.facts.vocabulary)
            effort.add(self._taught(student, pair, tokens, min(asked, 1) if rollback else asked, asked, kept))
        effort.steps += trials * math.ceil(sum(batches for _, batches in sets) / self.config.train.accumulate)
        if self.config.distill.resolved.decide_by == "chrf":
            sample, whole = (sum(min(most, n) for n in self.facts.dev_sentences) for most in (SAMPLE, math.inf))
            effort.add(Effort(sentences=trials * sample, multiply_adds=trials * sample / whole * self._dev()))
        else:
            effort.add(self._dev_pass(trials))
        return torch.ones(trials, self.n, dtype=torch.float64)

    def _trial_set(self, student: int) -> list[tuple[float, float]]:
        """[pair] target tokens and micro-batches of D_trial (see `training.trial.per_pair_trial_set`, `ModelProbe`)."""
        facts, config = self.facts, self.config
        if config.distill.resolved.trial_data == "per-pair":
            chosen = trial_sentences(facts.sizes, facts.per_batch, config.distill.trial_ratio)
            rows = zip(chosen, facts.tokens, facts.per_batch, strict=True)
            return [(count * each, max(1.0, count / one)) for count, each, one in rows]
        updates = int(config.distill.trial_ratio * self.clock.epoch) + 1
        mixed = [(updates + 1) // 2, updates // 2] if student == 0 else [0, updates]  # of model_2's stream, of its own
        draws = sum(config.train.accumulate * n * self.shares(of) for n, of in zip(mixed, (1, student), strict=True))
        return [(n * tokens, n) for n, tokens in zip(cast(Tensor, draws).tolist(), facts.batch, strict=True)]

    def gradient(self, student: int, split: Literal["train", "valid"], pair: int, tokens: int) -> Tensor:
        """A constant gradient."""
        whole = self.facts.dev[pair] if split == "valid" else self.facts.sizes[pair] * self.facts.tokens[pair]
        self.work.efforts["probe"].add(self._training(pair, min(float(tokens), whole)))
        self.work.decisions += split == "valid" and pair == 0
        return torch.ones(2)

    def uncertainty(self, student: int, pair: int, passes: int, tokens: int) -> TokenStats:
        """The same uncertainty for every pair."""
        used = min(float(tokens), self.facts.dev[pair])
        passed = Effort(forward=(passes + 1) * used, multiply_adds=self._of(pair, used, FORWARD * (passes + 1)))
        self.work.efforts["probe"].add(passed)
        self.work.decisions += pair == 0
        logp = -torch.ones(passes, 2)
        return TokenStats(logp, -logp, torch.zeros(2, dtype=torch.int64), torch.tensor([False, True]), 1.0)


def drawn_shares(p: Tensor, facts: Facts, config: Config) -> Tensor:
    """[pair] shares of the micro-batches, for a sampler's probabilities p [pair]."""
    return batch_shares(p, torch.tensor(facts.per_batch, dtype=torch.float64), config.train.shares)


def shape_of(config: Config, vocabulary: int) -> Transformer:
    """A student on the meta device: its shape, without values."""
    with torch.device("meta"), preserved_rng():
        return Transformer(vocabulary, **asdict(config.model), pad=PAD)


def assumed_resources(n_pairs: int, students: int, config: Config) -> Resources:
    """Constants in place of what auxiliary runs would give: enough to construct every sampler and distiller."""
    cached = cast(TopKCache, object()) if config.teacher.md_cache else None  # nothing reads it while we count
    return Resources(
        plain_loss=torch.ones(n_pairs), bilingual_loss=torch.ones(n_pairs), similarity=torch.ones(n_pairs, n_pairs),
        teachers=[nn.Linear(1, 1) for _ in range(n_pairs)], teacher_scores=torch.zeros(n_pairs), teacher_cache=cached,
        singles=[nn.Linear(1, 1) for _ in single_methods(config)],
        alphas=torch.full((students, n_pairs), 0.1),
    )  # fmt: skip


def _helpers(facts: Facts, row: Method, config: Config) -> Iterator[tuple[str, str, Facts, Config]]:
    """(name, method, facts, configuration) of each auxiliary run (see `pmd_lite.auxiliary.wanted`)."""
    needs = needed_runs(row.samplers, row.distiller, config)
    singles = [("singles", name) for name in single_methods(config)]
    for need, method in (("plain", "tau=1"), ("auto-pmd", "auto-pmd"), *singles):
        if need in needs:
            yield method, method, facts, config
    for i, name in enumerate(facts.pairs if "bilingual" in needs else ()):
        values: dict[str, Any] = {k: x[i : i + 1] if isinstance(x, Sequence) else x for k, x in vars(facts).items()}
        alone = Facts(**values)
        yield name, "tau=1", alone, bilingual_config(config, alone.batches_per_pass, facts.batches_per_pass)
