"""The exercises of lesson 03: the lesson's solutions pass, every typical mistake is named, the viewer shows what is."""

from __future__ import annotations

import math
from typing import Any

import ipywidgets as ipw
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pmd_kit import l03
from pmd_kit.exercise import Exercise
from pmd_kit.l03 import parity
from pmd_kit.l03.attention import View, attention_weights, readable, views
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import PAD, train_tokenizer
from pmd_lite.errors import UserError
from pmd_lite.model import layers
from pmd_lite.model.transformer import Transformer

STUDENTS = ["Emmy", "Ada", "Bob", "Zoë", "12345"]
EXERCISES = [l03.checks.ATTENTION, l03.checks.CAUSAL_MASK, l03.checks.WITH_TORCH, l03.checks.POSITIONS]
EXERCISES += [l03.checks.parameters(student) for student in STUDENTS]


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ v


def with_torch(q: Any, k: Any, v: Any, src: Any, pad: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=src.ne(pad)[:, None, None, :])


def positions(length: int, d_model: int) -> Any:
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


SOLUTIONS = [
    (l03.checks.ATTENTION, attention),
    (l03.checks.CAUSAL_MASK, lambda length: torch.ones(length, length, dtype=torch.bool).tril()),
    (l03.checks.CAUSAL_MASK, lambda length: np.tril(np.ones((length, length), dtype=bool))),
    (l03.checks.WITH_TORCH, with_torch),
    (l03.checks.POSITIONS, positions),
]


@pytest.mark.parametrize(("exercise", "solution"), SOLUTIONS)
@pytest.mark.parametrize("seed", range(5))
def test_the_lessons_own_solution_passes(exercise: Exercise, solution: Any, seed: int) -> None:
    solved, message = exercise.verdict(solution, seed=seed)
    assert solved, message


@pytest.mark.parametrize("student", STUDENTS)
def test_parameters_by_the_formula_of_the_lesson(student: str) -> None:
    shape = l03.checks.your_shape(student)
    d, f = shape["d_model"], shape["ffn"]
    attentions, feed_forward, norm = 4 * (d * d + d), d * f + f + f * d + d, 2 * d
    encoder = shape["encoder_layers"] * (attentions + feed_forward + 2 * norm)
    decoder = shape["decoder_layers"] * (2 * attentions + feed_forward + 3 * norm)
    solved, message = l03.checks.parameters(student).verdict(shape["vocab"] * d + encoder + decoder + 2 * norm)
    assert solved, message


def test_a_shape_belongs_to_a_student() -> None:
    assert len({str(l03.checks.your_shape(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError):
        l03.checks.your_shape("")


@pytest.mark.parametrize("student", STUDENTS)
def test_every_mistake_in_the_students_own_task_is_named_as_what_it_is(student: str) -> None:
    """The tasks that are the same for all are in test_exercises.py."""
    exercise = l03.checks.parameters(student)
    assert len(exercise.mistakes) >= 4
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


def test_a_changed_input_and_a_wrong_shape_are_named() -> None:
    def in_place(q: Any, k: Any, v: Any, mask: Any) -> Any:
        q /= math.sqrt(q.shape[-1])
        return (q @ k.transpose(-1, -2)).masked_fill(~mask, -math.inf).softmax(-1) @ v

    assert "changes its input (input.0)" in l03.checks.ATTENTION.verdict(in_place)[1]
    assert "has shape [2, 3, 4]" in l03.checks.ATTENTION.verdict(lambda *a: attention(*a)[:, 0])[1]
    assert "has shape [5, 3]" in l03.checks.POSITIONS.verdict(lambda n, d: positions(n, d)[:, : d // 2])[1]
    for exercise in EXERCISES:
        assert not exercise.verdict(None)[0] and "Not attempted" in exercise.verdict(...)[1]
    assert "Not attempted" in l03.checks.CAUSAL_MASK.verdict(lambda n: None)[1]


# ------------------------------------------------------------------------------------------------ what a model looks at


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(30, d_model=16, heads=2, encoder_layers=2, decoder_layers=1, ffn=32, pad=PAD)


def test_attention_weights_are_those_the_model_used(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    src, trg_in = torch.tensor([[5, 6, 7, 3], [8, 3, PAD, PAD]]), torch.tensor([[2, 9, 10], [2, 11, PAD]])
    model.train()
    found = attention_weights(model, src, trg_in)
    assert model.training and layers.attend.__name__ == "attend"
    assert list(found) == ["encoder 1", "encoder 2", "decoder 1", "decoder 1 to source"]
    for name, (weights, unmasked, hidden) in found.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        torch.testing.assert_close(unmasked.sum(-1), torch.ones(weights.shape[:-1]))
        assert hidden.shape == weights.shape and torch.equal(weights == 0, hidden), name
        rest = unmasked.masked_fill(hidden, 0)
        torch.testing.assert_close(weights, rest / rest.sum(-1, keepdim=True))
    assert found["decoder 1"][2][0, 0].tolist() == [[False, True, True], [False, False, True], [False] * 3]
    assert found["encoder 1"][2][1, 0, 0].tolist() == [False, False, True, True]

    # the same weights, by hand, for the first attention
    model.eval()
    x = model.embedding(src) * 4 + model.positions[:4]
    attention_of = model.encoder[0].self_attention
    q, k, _ = attention_of.qkv(model.encoder[0].self_residual.before(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(src.eq(PAD)[:, None, None, :], -math.inf)
    torch.testing.assert_close(found["encoder 1"][0], scores.softmax(-1))


def test_views_label_what_is_read_and_said(tiny_corpus: Corpus) -> None:
    config = preset("toy", vocab_size=90)
    tokenizer = train_tokenizer(tiny_corpus, config.tokenizer)
    model = Transformer(tokenizer.vocab_size, d_model=16, heads=2, encoder_layers=1, decoder_layers=1, ffn=16, pad=PAD)
    pair = tiny_corpus.pairs[0]
    source, target = tiny_corpus.test[pair][0]
    found = views(model, tokenizer, pair, source, target, pads=2)
    cross, itself = found["decoder 1 to source"], found["decoder 1"]
    assert list(cross.keys[-3:]) == ["</s>", "<pad>", "<pad>"] and cross.keys[0] == "eng"
    assert cross.queries[0].startswith("<s> > ") and cross.queries[-1].endswith(" > </s>")
    assert itself.keys[0] == "<s>" and len(itself.keys) == len(itself.queries)
    assert cross.weights.shape == (2, len(cross.queries), len(cross.keys))
    assert cross.hidden[:, -2:].all() and not cross.hidden[:, :-2].any()
    tags = [readable(tokenizer, tag) for tag in tokenizer.tags.values()]
    assert "fra" in tags and readable(tokenizer, PAD) == "<pad>"


@pytest.fixture
def view() -> View:
    weights = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0)).softmax(-1).numpy()
    hidden = np.zeros((4, 5), dtype=bool)
    hidden[:, 4] = True
    return View(weights, weights[:, :, ::-1], hidden, list("abcd"), list("vwxyz"))


@pytest.mark.slow
def test_the_viewer_redraws_for_head_and_mask(view: View) -> None:
    viewer = l03.widgets.attention_viewer({"encoder 1": view, "decoder 1": view}, start="decoder 1")
    caption, which, head, mask, picture = viewer.children
    assert isinstance(picture, ipw.HTML) and "Tab" in caption.value
    assert "decoder 1, all heads, masked" in picture.value
    shown = {picture.value}
    which.value = "encoder 1"
    shown.add(picture.value)
    head.value = "head 2"
    assert "encoder 1, head 2, masked" in picture.value
    shown.add(picture.value)
    mask.value = False
    assert "without mask" in picture.value
    shown.add(picture.value)
    assert len(shown) == 4
    assert head.options == ("all heads", "head 1", "head 2", "head 3")


def test_figures_want_what_fits(view: View) -> None:
    drawn = l03.figures.attention_heads(view.weights, view.queries, view.keys, alt="weights", hidden=view.hidden)
    assert len(drawn.axes) == 3 and [ax.get_title(loc="left") for ax in drawn.axes][1] == "head 2"
    crosses = [text for text in drawn.axes[0].texts if text.get_text() == "×"]
    assert len(crosses) == 4
    with pytest.raises(UserError, match="do not fit 4 queries and 2 keys"):
        l03.figures.attention_heads(view.weights, view.queries, ["a", "b"], alt="x")
    with pytest.raises(UserError, match="places"):
        l03.figures.position_similarity(np.eye(4), [9], alt="x")
    line = l03.figures.position_similarity(layers.positions_table(20, 16), [4], alt="x").axes[0].lines[0]
    assert int(np.argmax(line.get_ydata())) == 4


@pytest.mark.slow
def test_marian_gives_the_same_logits() -> None:
    pytest.importorskip("transformers")
    difference = parity.marian_difference()
    assert difference is not None and difference < 1e-4


def test_without_transformers_there_is_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    assert parity.marian_difference() is None
