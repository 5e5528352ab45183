"""What holds for every row of the method table and every sampler, inside the real trainer."""

from __future__ import annotations

import dataclasses
import io
import itertools
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pmd_corpora.toy import toy_corpus
from pmd_lite.config import preset
from pmd_lite.data.batching import Draw
from pmd_lite.data.tokenizer import PAD, train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.distillation.mutual import LSMD, BaseDistiller, NoDistillation
from pmd_lite.errors import Interrupted
from pmd_lite.interfaces import Clock, Distiller, Sampler, TokenStats
from pmd_lite.methods import METHODS, SAMPLERS, Resources, make_distiller, make_samplers
from pmd_lite.model.transformer import Transformer
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.sampling.temperature import BaseSampler
from pmd_lite.training.cost import per_token
from pmd_lite.training.snapshot import clone, differences, preserved_rng
from pmd_lite.training.student import Plan
from pmd_lite.training.trainer import Student, Trainer
from tests.conftest import TINY, MakeTrainer
from tests.paper.test_resume import assert_same

EVERY_SAMPLER = [*SAMPLERS, "tau=1", "tau"]
DISTILLED = [name for name, row in METHODS.items() if row.distiller is not NoDistillation]
PAIRS = 6
QUICK = ("auto-pmd", "lssd", "multidds-s")

# 8 updates are two epochs of three and two updates more. Every strategy decides before, and again between, two stops.
# Only an evaluation falls on a decision, none on a stop. The learning rate is so high that dev losses go up and down,
# which is what LSSD waits for.
SETTINGS: dict[str, Any] = {
    "steps": 8, "tokens": 700, "accumulate": 2, "eval_every": 6, "lr": 0.15, "update_every": 3, "alpha0": 0.3,
    "scorer_every": 3, "scorer_steps": 20, "scorer_lr": 0.05, "probe_tokens": 40, "uncertainty_passes": 2,
    "ccl_every": 3, "ccl_wait": 0.6, "ccl_threshold": 0.6, "switch_at": 0.6,
    "md_every": 3, "md_criterion": "loss",
}  # fmt: skip
STOPS = (4, 7)


def mostly_slow(names: Iterable[str]) -> list[Any]:
    """All of them, but `make test-fast` takes only those in QUICK: together these trainings are a minute."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


def settings_of(name: str) -> dict[str, Any]:
    """A search takes a batch of every pair for each trial, so it gets small batches and its own interval."""
    searches = issubclass(METHODS[name].distiller, AutoPMD)
    return {**SETTINGS, "tokens": 160} if searches else SETTINGS


@pytest.fixture(scope="module")
def tiny_encoded() -> EncodedCorpus:
    """A third of the sentences: together these trainings are a minute and more."""
    corpus = toy_corpus("toy", head=20, minimum=4, held=3, nouns=10, verbs=4, adjectives=3, homonyms=1, false_friends=1)
    config = preset("toy", **TINY)
    return encode_corpus(corpus, train_tokenizer(corpus, config.tokenizer), config.model.max_len)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cooldown changes its temperature every 3 updates here instead of every 64."""
    monkeypatch.setattr("pmd_lite.sampling.planned.RENEWED", 3)


# ---------------------------------------------------------------- what auxiliary runs would have found


@pytest.fixture(scope="module")
def originals(tiny_encoded: EncodedCorpus) -> list[Transformer]:
    """A fresh small model for every pair, frozen, every second one in train mode."""
    vocab, shape = tiny_encoded.tokenizer.vocab_size, {**asdict(preset("toy", **TINY).model), "ffn": 16}
    models = []
    with preserved_rng():
        for pair in range(PAIRS):
            torch.manual_seed(1000 + pair)
            models.append(Transformer(vocab, **shape, pad=PAD).requires_grad_(False).train(pair % 2 == 0))
    return models


@pytest.fixture(scope="module")
def found(originals: list[Transformer]) -> Resources:
    """Runs that make every decision happen: dev losses go from 4 to 3 nats for every pair.

    Pairs 0 to 2 are the large ones; each has one small relative.
    """
    rng = torch.Generator().manual_seed(5)
    near = 0.2 + 0.6 * torch.eye(3, dtype=torch.float64).repeat(2, 2)
    return Resources(
        plain_loss=2 + torch.rand(PAIRS, generator=rng),
        bilingual_loss=torch.tensor([3.0, 2.8, 1.0, 2.5, 2.6, 2.7]),
        similarity=near,
        teachers=originals,
        singles=originals[:2],
        teacher_scores=torch.linspace(2.9, 3.9, PAIRS),
        alphas=torch.rand(2, PAIRS, generator=rng, dtype=torch.float64),
    )


@pytest.fixture(autouse=True)
def found_stays_what_it_is(found: Resources) -> Iterator[None]:
    """Every test gets the same frozen models and numbers, as a copy for each would take a tenth of the time."""
    before = clone(contents(found))
    yield
    assert list(differences(before, contents(found))) == []


def contents(found: Resources) -> dict[str, Any]:
    """Its tensors; and of its models (the single ones are among the teachers) all weights in one tensor, and flags."""
    weights = [weight for model in found.teachers for weight in model.parameters()]
    return {
        "tensors": {name: value for name, value in vars(found).items() if isinstance(value, Tensor)},
        "weights": nn.utils.parameters_to_vector(weights),
        "flags": [weight.requires_grad or weight.grad is not None for weight in weights],
        "modes": [module.training for model in found.teachers for module in model.modules()],
    }


# ---------------------------------------------------------------- one undisturbed run of every row


@dataclass
class Record:
    """What was seen of a run while it ran."""

    trainer: Trainer
    probabilities: list[Tensor] = field(default_factory=list)
    """[student, pair] in force at each update, and at the end."""
    weights: list[Tensor] = field(default_factory=list)
    """[student, pair] likewise."""
    sampled: set[int] = field(default_factory=set)
    """Steps after which a sampler was updated."""
    distilled: set[int] = field(default_factory=set)
    """Steps after which the distiller was."""
    trained: float = 0
    """Multiply-adds of training."""
    taught: float = 0
    """Multiply-adds of teachers where the weight was not 0."""
    moved: list[str] = field(default_factory=list)
    """What an update changed in the modules that teach; should be nothing."""
    frozen: dict[int, tuple[nn.Module, dict[str, Any]]] = field(default_factory=dict)
    """Every teacher that is not a student, and its state when it first taught."""

    def look(self) -> None:
        self.probabilities.append(torch.stack([s.sampler.probabilities() for s in self.trainer.students]))
        self.weights.append(self.trainer.distiller.weights())


def state_of(model: nn.Module) -> dict[str, Any]:
    """Weights, gradients, modes and flags of a module, as a copy."""
    state: dict[str, Any] = clone({
        "weights": dict(model.state_dict()), "modes": [module.training for module in model.modules()],
        "flags": [p.requires_grad for p in model.parameters()],
        "grads": [torch.zeros(0) if p.grad is None else p.grad for p in model.parameters()],
    })  # fmt: skip
    return state


def watched(trainer: Trainer) -> Record:
    """Run a trainer and record what happens, without changing it."""
    record, train, distiller = Record(trainer), trainer.update, trainer.distiller
    students = {id(student.learner.model) for student in trainer.students}

    def update(student: Student) -> int:
        if student.index == 0:
            record.look()
        teachers = {pair: [m for m, _ in distiller.teachers(student.index, pair)] for pair in range(PAIRS)}
        modules = {id(model): model for models in teachers.values() for model in models}
        record.frozen |= {i: (m, state_of(m)) for i, m in modules.items() if i not in students | record.frozen.keys()}
        before, seen = {i: state_of(model) for i, model in modules.items()}, student.tokens.clone()
        active = (distiller.weights()[student.index] != 0) & (trainer.clock.step > trainer.clock.start)
        total = train(student)
        record.moved += differences(before, {i: state_of(model) for i, model in modules.items()})
        tokens = (student.tokens - seen).tolist()
        assert sum(tokens) == total
        own = per_token(student.learner.model)
        for draw in drawn:
            record.trained += own.multiply_adds(draw.src_tokens, draw.tokens, 3, 3)
            for teacher in teachers[draw.pair] if active[draw.pair] else []:
                found = per_token(teacher).multiply_adds(draw.src_tokens, draw.tokens, 1, 1)
                gates = draw.tokens * (per_token(teacher).output + own.output) if distiller.gated else 0
                record.taught += found + gates
        return total

    def plan(student: Student) -> Plan:
        drawn[:] = (made := planned(student)).draws
        return made

    planned, drawn = trainer.plan, list[Draw]()
    trainer.plan = plan  # type: ignore[method-assign]
    trainer.update = update  # type: ignore[method-assign]
    for strategy, steps in [(distiller, record.distilled), *((s.sampler, record.sampled) for s in trainer.students)]:
        note(strategy, trainer, steps)
    trainer.run()
    record.look()
    return record


def note(strategy: Any, trainer: Trainer, steps: set[int]) -> None:
    """Write down the steps at which `strategy.update` is called."""
    real = strategy.update

    def update(*args: Any) -> Any:
        steps.add(trainer.clock.step)
        return real(*args)

    strategy.update = update


WHOLE: dict[str, Record] = {}
Whole = Callable[[str], Record]


@pytest.fixture
def whole(make_trainer: MakeTrainer, found: Resources, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The undisturbed run of a row; each is made once."""

    def get(name: str) -> Record:
        if name not in WHOLE:
            path = tmp_path_factory.mktemp("whole")
            WHOLE[name] = watched(make_trainer(name, path=path, found=found, **settings_of(name)))
        return WHOLE[name]

    return get


def decides(strategy: Sampler | Distiller) -> bool:
    """Whether a strategy ever changes anything: it does not inherit the update of its base, which does nothing."""
    return type(strategy).update not in (BaseSampler.update, BaseDistiller.update)


@pytest.mark.parametrize("name", mostly_slow(METHODS))
def test_probabilities_and_weights_stay_what_they_are(whole: Whole, name: str) -> None:
    """Finite, not negative, and probabilities sum to 1: at every update of a run."""
    record = whole(name)
    assert len(record.probabilities) == record.trainer.clock.total + 1 == SETTINGS["steps"] + 1
    for p in record.probabilities:
        assert p.shape == (len(METHODS[name].samplers), PAIRS) and p.dtype == torch.float64
        assert bool(p.isfinite().all()) and float(p.min()) >= 0
        assert p.sum(dim=1).tolist() == pytest.approx([1.0] * len(p), abs=1e-12)
    for alpha in record.weights:
        assert alpha.shape == (len(METHODS[name].samplers), PAIRS) and alpha.dtype == torch.float64
        assert bool(alpha.isfinite().all()) and 0 <= float(alpha.min()) <= float(alpha.max()) <= 1


@pytest.mark.parametrize("name", mostly_slow(METHODS))
def test_what_a_run_costs(whole: Whole, name: str) -> None:
    """3 forward passes for each training token, 1 for each teacher that is used, 1 for each dev token and evaluation.

    Two more projections if a gate compares student and teacher.
    """
    record = whole(name)
    trainer = record.trainer
    evaluations = sum(event["event"] == "eval" for event in trainer.rundir.metrics())
    valid = trainer.encoded.valid
    once, cost = per_token(trainer.students[0].learner.model), dict(trainer.cost.multiply_adds)
    dev = once.multiply_adds(sum(x.src_tokens for x in valid), sum(x.trg_tokens for x in valid), 1, 1)
    assert (cost["train"], cost["dev"]) == (record.trained, evaluations * dev)
    assert cost["teacher"] == record.taught
    assert (cost["teacher"] > 0) == (name in DISTILLED)
    assert (cost["trial"] > 0) == (name in ("auto-pmd", "dynamic-md"))


# ---------------------------------------------------------------- stop and continue


def stopped(trainer: Trainer, step: int) -> None:
    """Run until Ctrl-C in the middle of an update; the trainer saves after it."""
    train = trainer.update

    def update(student: Student) -> int:
        if trainer.clock.step == step and student.index == 0:
            signal.raise_signal(signal.SIGINT)
        return train(student)

    trainer.update = update  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        trainer.run()


@pytest.mark.parametrize("name", mostly_slow(METHODS))
def test_a_run_that_was_stopped_twice_ends_in_the_same_bits(
    whole: Whole, make_trainer: MakeTrainer, found: Resources, tmp_path: Path, name: str
) -> None:
    """Weights, moments, probabilities, distiller, cost, metrics; every strategy has acted before and after a stop."""
    record = whole(name)
    for stop in (*STOPS, None):
        trainer = make_trainer(name, path=tmp_path, found=found, **settings_of(name))
        torch.manual_seed(99)
        np.random.seed(99)
        if stop is None:
            trainer.run()
        else:
            stopped(trainer, stop)
            assert trainer.clock.step == stop
    assert_same(record.trainer.rundir.path, tmp_path)
    samplers = any(decides(student.sampler) for student in record.trainer.students)
    for active, steps, values in [
        (decides(record.trainer.distiller), record.distilled, record.weights),
        (samplers, record.sampled, record.probabilities),
    ]:
        assert bool(steps) == active
        if steps:
            assert min(steps) < STOPS[1] and max(steps) > STOPS[0]
            assert len({tuple(value.flatten().tolist()) for value in values}) > 1, "it has never changed its mind"


# ---------------------------------------------------------------- weight 0


PLAIN: dict[tuple[tuple[str, ...], int, int], Trainer] = {}
NO_WEIGHT: dict[str, Any] = {"alpha": 0.0, "alpha0": 0.0, "md_weight": 0.0, "lssd_weight": 0.0}


def students_of(trainer: Trainer) -> list[dict[str, Any]]:
    """Everything of each student: weights, moments, sampler, streams, sums."""
    return [clone({"weights": dict(s.learner.model.state_dict()), "rest": s.state_dict()}) for s in trainer.students]


def plain(make_trainer: MakeTrainer, found: Resources, name: str) -> Trainer:
    """The same students without any distiller."""
    row = METHODS[name]
    key = row.samplers, row.first_seat, settings_of(name)["tokens"]
    if key not in PLAIN:
        trainer = make_trainer(name, found=found, **settings_of(name))
        models = [student.learner.model for student in trainer.students]
        trainer.distiller = NoDistillation(models, PAIRS, trainer.config.distill)
        trainer.run()
        PLAIN[key] = trainer
    return PLAIN[key]


@pytest.mark.parametrize("name", mostly_slow(DISTILLED))
def test_weight_0_is_bitwise_plain_training(
    whole: Whole, make_trainer: MakeTrainer, found: Resources, name: str
) -> None:
    nothing = dataclasses.replace(found, alphas=torch.zeros(2, PAIRS))
    trainer = make_trainer(name, found=nothing, **{**settings_of(name), **NO_WEIGHT})
    trainer.run()
    expected = students_of(plain(make_trainer, found, name))
    assert list(differences(expected, students_of(trainer))) == []
    assert trainer.cost.multiply_adds["teacher"] == 0
    with_weight = students_of(whole(name).trainer)
    assert list(differences(expected, with_weight)) != [], "with a weight the bits differ"


@pytest.mark.parametrize("name", mostly_slow(SAMPLERS))
def test_a_sampler_draws_in_company_as_it_does_alone(
    make_trainer: MakeTrainer, whole: Whole, found: Resources, name: str
) -> None:
    """A student beside another one from which it learns nothing equals the student alone, to the bit."""
    trainer = make_trainer("bi-pmd", samplers=[name, "tau"], found=found, **{**SETTINGS, **NO_WEIGHT})
    trainer.run()
    alone = students_of(whole(name).trainer)[0]
    assert list(differences(alone, students_of(trainer)[0])) == []


# ---------------------------------------------------------------- teachers are left alone


@pytest.mark.parametrize("name", mostly_slow(METHODS))
def test_an_update_of_a_student_touches_no_teacher(whole: Whole, name: str) -> None:
    """No weight, gradient, mode or flag changes; frozen teachers stay the same from the first update to the last."""
    record = whole(name)
    assert record.moved == []
    for model, before in record.frozen.values():
        assert list(differences(before, state_of(model))) == []
    assert bool(record.frozen) == (name in ("multi-distill", "ensemble-distill") or name.startswith("lssd"))


@pytest.mark.parametrize("name", DISTILLED)
def test_a_teacher_keeps_its_mode(make_trainer: MakeTrainer, found: Resources, name: str) -> None:
    trainer = make_trainer(name, found=found, **SETTINGS)
    if name.startswith("lssd"):  # its first teacher is the student after an epoch
        trainer.clock = dataclasses.replace(trainer.clock, step=trainer.clock.epoch)
        trainer.distiller.update(trainer.probe)
    for student in trainer.students:
        batch = student.draw(1)[0].batch()
        teachers = [model for model, _ in trainer.distiller.teachers(student.index, batch.pair)]
        assert teachers
        modes = [model.training for model in teachers]
        for training, dropout in itertools.product((True, False), repeat=2):
            before = [state_of(model.train(training)) for model in teachers]
            trainer.target(student.index, batch, dropout)
            assert list(differences(before, [state_of(model) for model in teachers])) == []
        for model, training in zip(teachers, modes, strict=True):
            model.train(training)


# ---------------------------------------------------------------- when


CLOCKS = [
    Clock(0, total, epoch, start)
    for total, epoch in itertools.product((1, 2, 3, 5, 24, 100), (1, 3, 5, 24, 64, 200))
    for start in {0, total // 2, total}
]
INTERVALS: list[dict[str, Any]] = [
    {"update_every": every, "scorer_every": every, "ccl_every": every, "md_every": every,
     "switch_at": fraction, "ccl_wait": fraction}
    for every, fraction in itertools.product((0, 1, 24), (0.0, 0.3, 0.5, 1.0))
]  # fmt: skip


@pytest.mark.parametrize("name", EVERY_SAMPLER)
def test_no_sampler_is_due_before_the_first_update_or_after_the_last(
    tiny_encoded: EncodedCorpus, found: Resources, name: str
) -> None:
    for intervals in INTERVALS:
        (sampler,) = make_samplers([name], tiny_encoded.sizes, preset("toy", **{**SETTINGS, **intervals}), found)
        assert [clock for clock in CLOCKS for step in (0, clock.total) if sampler.due(at(clock, step))] == []


@pytest.mark.parametrize("name", METHODS)
def test_no_distiller_is_due_before_the_first_update_or_after_the_last(found: Resources, name: str) -> None:
    row = METHODS[name]
    for intervals in INTERVALS:
        config = preset("toy", **{**SETTINGS, **intervals})
        make = make_distiller(row.distiller, row.options, config, found)
        distiller = make([nn.Linear(1, 1) for _ in row.samplers], PAIRS, config.distill)
        assert [clock for clock in CLOCKS for step in (0, clock.total) if distiller.due(at(clock, step))] == []


def at(clock: Clock, step: int) -> Clock:
    return dataclasses.replace(clock, step=step)


# ---------------------------------------------------------------- samplers by themselves


class FakeProbe:
    """Answers at random, but the same answers for the same seed."""

    def __init__(self, seed: int, clock: Clock):
        self.rng, self.clock = torch.Generator().manual_seed(seed), clock

    def dev_loss(self, student: int) -> Tensor:
        return 2 + torch.rand(PAIRS, generator=self.rng, dtype=torch.float64)

    def gradient(self, student: int, split: str, pair: int, tokens: int) -> Tensor:
        return torch.randn(20, generator=self.rng)

    def uncertainty(self, student: int, pair: int, passes: int, tokens: int) -> TokenStats:
        top = -3 * torch.rand(passes, 6, generator=self.rng)
        ends = torch.tensor([False, False, True] * 2)
        return TokenStats(top, -top, torch.tensor([0, 0, 0, 1, 1, 1]), ends, float(-top.mean()))


def live(sampler: Sampler, seed: int, step: int) -> Iterator[int]:
    """100 draws, each reported to the sampler; half-way it looks at the model."""
    rng = torch.Generator().manual_seed(seed)
    schedule = PairSchedule((seed,), "iid")
    for draw in range(100):
        pair = schedule.next(sampler.probabilities())
        sampler.after_step(pair, torch.rand([], generator=rng) + pair, 50)
        if draw == 50:
            sampler.update(0, FakeProbe(seed, Clock(step, 200, 20)))  # type: ignore[arg-type]
        yield pair


@pytest.mark.parametrize("name", EVERY_SAMPLER)
def test_a_reloaded_sampler_makes_the_same_next_100_draws(
    tiny_encoded: EncodedCorpus, found: Resources, name: str
) -> None:
    config = preset("toy", **SETTINGS)

    def fresh() -> Sampler:
        (sampler,) = make_samplers([name], tiny_encoded.sizes, config, found)
        return sampler

    original = fresh()
    for seed, step in [(1, 80), (2, 120)]:
        assert len(list(live(original, seed, step))) == 100
    state, file = original.state_dict(), io.BytesIO()
    torch.save(state, file)
    expected = list(live(original, 3, 160)), original.probabilities()
    from_disk: Mapping[str, Any] = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    for saved in (from_disk, state):  # the state in memory, too: it is a copy, and nothing has changed it since
        resumed = fresh()
        resumed.load_state_dict(dict(saved))
        assert list(live(resumed, 3, 160)) == expected[0]
        assert torch.equal(resumed.probabilities(), expected[1])
    forgetful = fresh()
    assert (list(live(forgetful, 3, 160)) != expected[0]) == decides(original)


# ---------------------------------------------------------------- permutations (the other strategies': in their files)


def test_permuting_the_pairs_permutes_lsmd() -> None:
    alphas = torch.rand(2, PAIRS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    order = [3, 0, 5, 1, 4, 2]
    config = preset("toy").distill
    models = [nn.Linear(1, 1) for _ in range(2)]
    one, two = LSMD(models, PAIRS, config, alphas), LSMD(models, PAIRS, config, alphas[:, order])
    assert torch.equal(two.weights(), one.weights()[:, order])
    assert [two.weight(1, pair) for pair in range(PAIRS)] == [one.weight(1, pair) for pair in order]
