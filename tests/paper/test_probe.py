"""The probe: every look at a model agrees with an independent computation, is counted, and leaves no other trace."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu import BLEU
from torch import Tensor
from torch.nn import functional as F

from pmd_lite.data.batching import Batch, collate
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit
from pmd_lite.model.decoding import translate_batch
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.cost import Sized, Tokens, per_token
from pmd_lite.training.probe import ModelProbe
from pmd_lite.training.snapshot import clone, differences
from pmd_lite.training.trainer import Trainer
from pmd_lite.training.trial import per_pair_trial_set
from tests.conftest import MakeTrainer
from tests.paper.test_algorithm_2 import everything

WHOLE = 10**6  # more target tokens than any split has
ALPHAS = torch.tensor([[0.1] * 3, [0.4] * 3], dtype=torch.float64)
CALLS: dict[str, Callable[[Trainer, int], Any]] = {
    "dev_loss": lambda trainer, student: trainer.probe.dev_loss(student),
    "dev_score": lambda trainer, student: trainer.probe.dev_score(student),
    "gradient on train": lambda trainer, student: trainer.probe.gradient(student, "train", 2, 60),
    "gradient on valid": lambda trainer, student: trainer.probe.gradient(student, "valid", 2, 60),
    "uncertainty": lambda trainer, student: dataclasses.asdict(trainer.probe.uncertainty(student, 2, 3, 60)),
    "trial": lambda trainer, student: trainer.probe.trial(student, ALPHAS),
}


def move_on(trainer: Trainer, updates: int = 1) -> None:
    """Let every student make some updates."""
    for _ in range(updates):
        trainer.clock = dataclasses.replace(trainer.clock, step=trainer.clock.step + 1)
        for student in trainer.students:
            trainer.update(student)


def trained(make: MakeTrainer, updates: int = 3, method: str = "auto-pmd", **overrides: Any) -> Trainer:
    trainer = make(method, **overrides)
    move_on(trainer, updates)
    return trainer


def by_fingerprint(trainer: Trainer) -> Trainer:
    """Instead of BLEU (0 for such untrained weights), a number that differs from model to model."""

    def fingerprint(model: Transformer) -> tuple[Tensor, Tokens]:
        score = float(sum(p.detach().double().abs().sum() for p in model.parameters()))
        return torch.full((len(trainer.encoded.pairs),), score), Tokens(11, 7)

    trainer.dev_bleu = fingerprint  # type: ignore[method-assign]
    return trainer


def model_of(trainer: Trainer, student: int = 0) -> Transformer:
    return trainer.students[student].learner.model


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[EncodedSplit, Batch]]:
    """The small batches that the probe looks at, and where they come from, newest last."""
    seen: list[tuple[EncodedSplit, Batch]] = []

    def spy(split: EncodedSplit, rows: Any, pair: int) -> Batch:
        seen.append((split, collate(split, rows, pair)))
        return seen[-1][1]

    monkeypatch.setattr("pmd_lite.training.probe.collate", spy)
    return seen


# ---------------------------------------------------------------- no trace


def all_state(trainer: Trainer) -> dict[str, Any]:
    """`everything`, and what else a look could change by mistake: submodules, flags, the generators to the last bit."""
    models = [student.learner.model for student in trainer.students]
    return {
        **everything(trainer),
        "modes": [[module.training for module in model.modules()] for model in models],
        "flags": [[p.requires_grad for p in model.parameters()] for model in models],
        "clock": dataclasses.asdict(trainer.clock),
        "numpy": [x.tolist() if isinstance(x, np.ndarray) else x for x in np.random.get_state()],
        "python": random.getstate(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False], ids=["in train mode", "in eval mode"])
@pytest.mark.parametrize("call", CALLS)
def test_a_look_changes_nothing_but_its_own_cost(make_short: MakeTrainer, call: str, training: bool) -> None:
    trainer = trained(make_short)
    for student in trainer.students:
        student.learner.model.train(training)
    before = all_state(trainer)
    for index in (0, 1):
        CALLS[call](trainer, index)
    changed = set(differences(before, all_state(trainer)))
    assert changed == {"state.state.cost.trial" if call == "trial" else "state.state.cost.probe"}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_what_is_seen_does_not_depend_on_the_global_generators(make_short: MakeTrainer, call: str) -> None:
    """The answer does not depend on earlier questions either, so a resumed run gets the same."""
    trainer, answers = trained(make_short), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        trainer.probe = ModelProbe(trainer)  # with nothing cached
        answers.append(clone(CALLS[call](trainer, 1)))
    assert list(differences(*answers)) == []


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_the_two_students_are_two_models(make_short: MakeTrainer, call: str) -> None:
    trainer = by_fingerprint(trained(make_short))
    assert list(differences(CALLS[call](trainer, 0), CALLS[call](trainer, 1))) != []


@pytest.mark.parametrize("name", ["dev_loss", "dev_score"])
def test_an_answer_is_a_copy_and_holds_until_the_next_update(make_short: MakeTrainer, name: str) -> None:
    trainer = by_fingerprint(trained(make_short))
    ask: Callable[[int], Tensor] = getattr(trainer.probe, name)
    first = ask(0)
    paid = dict(trainer.cost.multiply_adds)
    for tensor in (first.clone(), ask(0)):
        assert torch.equal(tensor, first)
    ask(0).fill_(-1.0)
    assert torch.equal(ask(0), first)
    assert dict(trainer.cost.multiply_adds) == paid, "computed once"
    move_on(trainer)
    paid = dict(trainer.cost.multiply_adds)
    assert not torch.equal(ask(0), first)
    assert dict(trainer.cost.multiply_adds) != paid


# ---------------------------------------------------------------- by another route


def sentences(split: EncodedSplit, rows: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Source [1, src_len], decoder input [1, trg_len] and gold target [trg_len] of each sentence, without padding."""
    found = []
    for row in rows:
        src, trg = split.src[int(row)].tolist(), split.trg[int(row)].tolist()
        found.append((torch.tensor([src]), torch.tensor([[BOS, *trg[:-1]]]), torch.tensor(trg)))
    return found


def smoothed(logits: Tensor, gold: Tensor, smoothing: float = 0.1) -> Tensor:
    """Eq. 1 summed over tokens, by torch's own loss: its eps / V is our eps / (V - 1) at eps V / (V - 1)."""
    vocab = logits.shape[-1]
    return F.cross_entropy(logits, gold, label_smoothing=smoothing * vocab / (vocab - 1), reduction="sum")


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize(
    "shape", [{}, {"tie": "none", "norm": "post"}, {"tie": "decoder", "embedding_norm": True}, {"accumulate": 3}]
)
def test_a_gradient_is_that_of_the_loss_per_token(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]], split: Any, shape: dict[str, Any]
) -> None:
    """Sentence by sentence, without padding, through `backward` on a copy."""
    trainer = trained(make_short, dropout=0.0, **shape)
    found = trainer.probe.gradient(1, split, 2, 60)
    data, batch = looks[-1]
    assert data is getattr(trainer.encoded, split)[2]
    twin = copy.deepcopy(model_of(trainer, 1))
    twin.zero_grad()
    texts = sentences(data, batch.rows)
    tokens = sum(len(gold) for _, _, gold in texts)
    for src, trg_in, gold in texts:
        (smoothed(twin(src, trg_in)[0], gold) / tokens).backward()
    expected = torch.cat([p.grad.flatten() for p in twin.parameters() if p.grad is not None])
    assert len(texts) > 1 and len(set(batch.rows.tolist())) == len(texts)
    size = trainer.students[0].learner.model.parameter_count()
    assert found.shape == (size,) and found.dtype == torch.float32 and not found.requires_grad
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
    assert float(expected.norm()) > 1e-2


def test_a_gradient_has_dropout_on_whatever_the_mode(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]]
) -> None:
    trainer = trained(make_short, dropout=0.2)
    model = model_of(trainer)
    model.eval()
    in_eval = trainer.probe.gradient(0, "train", 0, 60)
    twin = copy.deepcopy(model)
    twin.zero_grad()
    data, batch = looks[-1]
    for src, trg_in, gold in sentences(data, batch.rows):
        (smoothed(twin(src, trg_in)[0], gold) / batch.tokens).backward()
    without = torch.cat([p.grad.flatten() for p in twin.parameters() if p.grad is not None])
    assert float((in_eval - without).norm()) > 0.1 * float(without.norm())
    model.train()
    assert torch.equal(trainer.probe.gradient(0, "train", 0, 60), in_eval)


@pytest.mark.parametrize("tokens", [1, 40, 70, WHOLE])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_look_takes_the_tokens_it_was_told_and_no_sentence_more(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]], split: Any, tokens: int
) -> None:
    trainer = trained(make_short, updates=1)
    for pair in range(3):
        trainer.probe.gradient(0, split, pair, tokens)
        data, batch = looks[-1]
        lengths = data.trg.lengths[batch.rows]
        assert batch.tokens == lengths.sum() and batch.pair == pair
        assert len(set(batch.rows.tolist())) == len(batch.rows)
        if tokens == WHOLE:
            assert sorted(batch.rows.tolist()) == list(range(len(data)))
        else:
            assert batch.tokens - lengths.max() < tokens <= batch.tokens


@pytest.mark.slow
def test_sentences_stay_within_an_update_and_change_with_the_next(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]]
) -> None:
    trainer = trained(make_short, updates=1)
    seen, gradients = [], []
    for _ in range(20):
        once, twice = (trainer.probe.gradient(0, "valid", 1, 40) for _ in range(2))
        trainer.probe.uncertainty(0, 1, 1, 40)
        assert torch.equal(once, twice)
        rows = [batch.rows.tolist() for _, batch in looks[-3:]]
        assert rows[0] == rows[1] == rows[2], "gradient and uncertainty look at the same dev sentences"
        seen.append(tuple(rows[0]))
        gradients.append(once)
        trainer.clock = dataclasses.replace(trainer.clock, step=trainer.clock.step + 1)
    assert len(set(seen)) > 5
    assert not any(torch.equal(one, two) for one, two in itertools.pairwise(gradients))
    assert set(itertools.chain(*seen)) == set(range(6)), "in time all sentences have their turn"


# ---------------------------------------------------------------- uncertainty


def test_uncertainty_without_dropout_by_hand(make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]]) -> None:
    trainer = trained(make_short, dropout=0.0)
    stats = trainer.probe.uncertainty(1, 2, 4, 70)
    top, entropy, sentence, ends = [], [], [], []
    model = model_of(trainer, 1)
    texts = sentences(looks[-1][0], looks[-1][1].rows)
    for number, (src, trg_in, gold) in enumerate(texts):
        p = torch.softmax(model(src, trg_in)[0].detach().double(), dim=-1)
        top += p.max(dim=-1).values.log().tolist()
        entropy += torch.special.entr(p).sum(dim=-1).tolist()
        sentence += [number] * len(gold)
        ends += (gold == EOS).tolist()
    assert len(texts) > 1
    assert stats.log_top1.shape == stats.entropy.shape == (4, len(top))
    for run in range(4):
        assert stats.log_top1[run].tolist() == pytest.approx(top, abs=1e-5)
        assert stats.entropy[run].tolist() == pytest.approx(entropy, abs=1e-5)
        assert torch.equal(stats.log_top1[run], stats.log_top1[0])
        assert torch.equal(stats.entropy[run], stats.entropy[0])
    assert stats.sentence.tolist() == sentence
    assert stats.is_eos.tolist() == ends


@pytest.mark.parametrize("tokens", [1, 70, WHOLE])
def test_every_sentence_ends_exactly_once(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]], tokens: int
) -> None:
    trainer = trained(make_short, updates=1)
    for pair in range(3):
        stats = trainer.probe.uncertainty(0, pair, 1, tokens)
        batch = looks[-1][1]
        ends = stats.sentence[stats.is_eos]
        assert ends.tolist() == list(range(len(batch.rows)))
        assert torch.equal(stats.is_eos, batch.gold == EOS)


def test_with_dropout_every_pass_is_another(make_short: MakeTrainer) -> None:
    trainer = trained(make_short, dropout=0.2)
    model_of(trainer).eval()
    stats = trainer.probe.uncertainty(0, 0, 4, 70)
    for one, two in itertools.combinations(range(4), 2):
        assert not torch.equal(stats.log_top1[one], stats.log_top1[two])
        assert not torch.equal(stats.entropy[one], stats.entropy[two])


@pytest.mark.parametrize("training", [True, False])
def test_its_loss_is_the_training_loss_without_dropout(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]], training: bool
) -> None:
    trainer = trained(make_short, dropout=0.2)
    model_of(trainer).train(training)
    stats = trainer.probe.uncertainty(0, 2, 2, 70)
    data, batch = looks[-1]
    twin = copy.deepcopy(model_of(trainer)).eval()
    losses = [float(smoothed(twin(src, trg_in)[0], gold).detach()) for src, trg_in, gold in sentences(data, batch.rows)]
    assert stats.loss == pytest.approx(sum(losses) / batch.tokens, rel=1e-5)
    over_all = trainer.probe.uncertainty(0, 2, 1, WHOLE).loss
    assert over_all == pytest.approx(float(trainer.probe.losses(0)[1, 2]), rel=1e-5)


# ---------------------------------------------------------------- dev score


def greedy(model: Transformer, encoded: EncodedCorpus, pair: int, limit: int) -> list[str]:
    """Greedy translations of a dev set, each sentence by itself."""
    tokenizer, found = encoded.tokenizer, []
    split = encoded.valid[pair]
    for i in range(len(split)):
        src = split.src[i].tolist()
        longest = 3 * (-(-len(src) // 16) * 16) // 2 + 20
        prefix = tokenizer.prefix(encoded.pairs[pair])
        (best,) = translate_batch(
            model, torch.tensor([src]), beam=1, max_len=min(limit - 1 - len(prefix), longest), bos=BOS, eos=EOS,
            pad=PAD, prefix=prefix, banned=[UNK, *tokenizer.tags.values()],
        )  # fmt: skip
        found.append(tokenizer.decode(best.tokens))
    return found


@pytest.mark.slow
def test_a_dev_score_is_the_bleu_of_greedy_translations(make_trainer: MakeTrainer) -> None:
    trainer = trained(
        make_trainer, 60, "tau=inf", d_model=32, ffn=64, lr=1e-2, warmup=20, tokens=800, dropout=0.0,
        label_smoothing=0.0,
    )  # fmt: skip
    encoded, model = trainer.encoded, copy.deepcopy(model_of(trainer)).eval()
    expected = []
    for pair, split in enumerate(encoded.valid):
        texts = [encoded.tokenizer.decode(split.trg[i].tolist()) for i in range(len(split))]
        found = greedy(model, encoded, pair, trainer.config.model.max_len)
        expected.append(BLEU(tokenize="13a").corpus_score(found, [texts]).score)
    score = trainer.probe.dev_score(0)
    assert score.dtype == torch.float64 and score.tolist() == pytest.approx(expected, abs=1e-9)
    assert len(set(expected)) > 3 and max(expected) > 1, "else anything would pass"


# ---------------------------------------------------------------- cost


def spent(trainer: Trainer, act: Callable[[], object]) -> dict[str, int]:
    """{purpose: multiply-adds} of an act; purposes without cost are left out."""
    before = dict(trainer.cost.multiply_adds)
    act()
    return {name: n - before[name] for name, n in dict(trainer.cost.multiply_adds).items() if n != before[name]}


def once(trainer: Trainer, *sizes: Sized) -> float:
    """Multiply-adds of a forward pass over these tokens; parity with what PyTorch computes is in test_cost.py."""
    return sum(per_token(model_of(trainer)).multiply_adds(x.src_tokens, x.tokens, 1, 1) for x in sizes)


def on_dev(trainer: Trainer) -> float:
    return once(trainer, *(Tokens(split.src_tokens, split.trg_tokens) for split in trainer.encoded.valid))


def test_a_look_costs_its_tokens_times_its_passes(
    make_short: MakeTrainer, looks: list[tuple[EncodedSplit, Batch]]
) -> None:
    trainer = by_fingerprint(trained(make_short))
    probe, dev = trainer.probe, on_dev(trainer)
    assert spent(trainer, lambda: probe.dev_loss(0)) == {"probe": dev}
    assert spent(trainer, lambda: probe.dev_loss(0)) == {}
    assert spent(trainer, lambda: probe.dev_loss(1)) == {"probe": dev}
    assert spent(trainer, lambda: probe.dev_score(0)) == {"probe": once(trainer, Tokens(11, 7))}, "what was decoded"
    assert spent(trainer, lambda: probe.dev_score(0)) == {}
    for split, student in itertools.product(("train", "valid"), (0, 1)):
        cost = spent(trainer, lambda s=split, i=student: probe.gradient(i, s, 2, 60))  # type: ignore[misc]
        assert cost == {"probe": 3 * once(trainer, looks[-1][1])}
    for passes in (1, 5):
        cost = spent(trainer, lambda k=passes: probe.uncertainty(0, 2, k, 60))  # type: ignore[misc]
        assert cost == {"probe": (passes + 1) * once(trainer, looks[-1][1])}


def test_a_loss_that_an_evaluation_has_paid_for_is_free(make_short: MakeTrainer) -> None:
    trainer = trained(make_short)
    assert spent(trainer, lambda: trainer.probe.losses(0, "dev")) == {"dev": on_dev(trainer)}
    assert spent(trainer, lambda: trainer.probe.dev_loss(0)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("rollback", [True, False])
@pytest.mark.parametrize("samplers", [["tau=1", "tau"], ["tau=1", "tau", "tau=inf"]])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_trial_costs_its_training_its_teachers_and_its_dev_losses(
    make_short: MakeTrainer, rollback: bool, samplers: list[str], rows: int
) -> None:
    """Teachers run once for all trials together; released, where trials follow one another, once for each."""
    trainer = trained(make_short, samplers=samplers, rollback=rollback)
    alphas = torch.full((rows, 3), 0.3, dtype=torch.float64)
    alphas[:, 0] = 0.0  # no trial needs the teacher
    alphas[0, 1] = 0.0  # all but the first do
    seed = (trainer.config.train.seed, 4, trainer.clock.step)
    batches = per_pair_trial_set(trainer.encoded, 0.1, trainer.config.train.tokens, seed)
    passes = [once(trainer, *(batch for batch in batches if batch.pair == pair)) for pair in range(3)]
    listening = (alphas > 0).sum(dim=0).tolist() if not rollback else (alphas > 0).any(dim=0).int().tolist()
    training = 3 * rows * sum(passes)
    teaching = (len(samplers) - 1) * sum(n * times for n, times in zip(passes, listening, strict=True))
    expected = {"trial": training + teaching + rows * on_dev(trainer)}
    assert spent(trainer, lambda: trainer.probe.trial(0, alphas)) == expected
    assert min(passes) > 0


@pytest.mark.slow
def test_after_a_trial_that_stays_the_student_is_looked_at_anew(make_short: MakeTrainer) -> None:
    """Released trials train the student itself, so its earlier losses are no longer valid; with rollback they are."""
    for rollback in (True, False):
        trainer = by_fingerprint(trained(make_short, rollback=rollback))
        before = trainer.probe.dev_loss(0), trainer.probe.dev_score(0), trainer.probe.dev_loss(1)
        trainer.probe.trial(0, ALPHAS)
        after = trainer.probe.dev_loss(0), trainer.probe.dev_score(0), trainer.probe.dev_loss(1)
        same = [torch.equal(one, two) for one, two in zip(before, after, strict=True)]
        assert same == [rollback, rollback, True]
