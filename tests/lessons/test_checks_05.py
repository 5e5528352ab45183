"""The exercises of lesson 05: the lesson's solutions pass, every typical mistake is named, the widgets move."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import ipywidgets as ipw
import pytest
import sacrebleu
import torch

from pmd_kit import l05
from pmd_kit.exercise import Exercise
from pmd_kit.l05 import beams
from pmd_kit.l05.figures import Branch
from pmd_lite.config import preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK, train_tokenizer
from pmd_lite.errors import UserError
from pmd_lite.model.decoding import translate_batch
from pmd_lite.model.transformer import Transformer

STUDENTS = ["Emmy", "Ada", "Bob", "Zoë", "12345"]
EXERCISES = [l05.checks.GREEDY, l05.checks.MATCHES, l05.checks.CORPUS_BLEU, l05.checks.SCORE_ZH]
PERSONAL = [l05.checks.scores(student) for student in STUDENTS]


def greedy(model: Any, src: Any, bos: Any, eos: Any, max_len: Any) -> Any:
    tokens = [bos]
    while len(tokens) <= max_len:
        token = int(model(src, torch.tensor([tokens]))[0, -1].argmax())
        if token == eos:
            break
        tokens.append(token)
    return tokens[1:]


def matches(hyp: Any, ref: Any, n: Any) -> Any:
    of_hyp, of_ref = (Counter(tuple(x[i : i + n]) for i in range(len(x) - n + 1)) for x in (hyp, ref))
    return [sum((of_hyp & of_ref).values()), sum(of_hyp.values())]


def bleu(matches_of: Any, totals_of: Any, hyp_lens: Any, ref_lens: Any) -> Any:
    columns = zip(zip(*matches_of, strict=True), zip(*totals_of, strict=True), strict=True)
    precisions = [sum(m) / sum(t) for m, t in columns]
    brevity = min(1, math.exp(1 - sum(ref_lens) / sum(hyp_lens)))
    return 100 * brevity * math.exp(sum(math.log(p) for p in precisions) / 4)


def score_zh(hyps: Any, refs: Any) -> Any:
    return sacrebleu.BLEU(tokenize="zh").corpus_score(hyps, [refs]).score


SOLUTIONS = [
    (l05.checks.GREEDY, greedy),
    (l05.checks.MATCHES, matches),
    (l05.checks.MATCHES, lambda *case: tuple(matches(*case))),
    (l05.checks.CORPUS_BLEU, bleu),
    (l05.checks.SCORE_ZH, score_zh),
    (l05.checks.SCORE_ZH, lambda hyps, refs: sacrebleu.corpus_bleu(hyps, [refs], tokenize="zh")),
]


@pytest.mark.parametrize(("exercise", "solution"), SOLUTIONS)
@pytest.mark.parametrize("seed", range(5))
def test_the_lessons_own_solution_passes(exercise: Exercise, solution: Any, seed: int) -> None:
    solved, message = exercise.verdict(solution, seed=seed)
    assert solved, message


@pytest.mark.parametrize("student", STUDENTS)
@pytest.mark.parametrize("digits", [2, 12])
def test_scores_by_the_formula_of_the_lesson(student: str, digits: int) -> None:
    short, long, penalty = l05.checks.your_hypotheses(student)
    found = [round(sum(math.log(p) for p in h) / len(h) ** penalty, digits) for h in (short, long)]
    solved, message = l05.checks.scores(student).verdict(found)
    assert solved, message
    assert sum(map(math.log, short)) > sum(map(math.log, long)) and found[0] < found[1]


def test_hypotheses_belong_to_a_student() -> None:
    assert len({str(l05.checks.your_hypotheses(student)) for student in STUDENTS}) == len(STUDENTS)
    with pytest.raises(UserError):
        l05.checks.your_hypotheses(" ")


@pytest.mark.parametrize("student", STUDENTS)
def test_every_mistake_in_the_students_own_task_is_named_as_what_it_is(student: str) -> None:
    """The tasks that are the same for all are in test_exercises.py."""
    exercise = l05.checks.scores(student)
    assert len(exercise.mistakes) >= 4
    for mistake in exercise.mistakes:
        assert exercise.verdict(mistake.answer()) == (False, f"Not yet. {mistake.says}")


@pytest.mark.slow
def test_a_changed_input_and_a_wrong_shape_are_named() -> None:
    def in_place(hyp: Any, ref: Any, n: Any) -> Any:
        found = matches(hyp, ref, n)
        hyp.clear()
        return found

    assert "changes its input" in l05.checks.MATCHES.verdict(in_place)[1]
    assert "Only the first of the numbers is there" in l05.checks.MATCHES.verdict(lambda *case: matches(*case)[0])[1]
    for exercise in (*EXERCISES, *PERSONAL):
        assert "Not attempted" in exercise.verdict(None)[1]


def test_the_trap_is_a_trap() -> None:
    hyps, refs = l05.checks.chinese()
    scores = {name: sacrebleu.BLEU(tokenize=name).corpus_score(hyps, [refs]).score for name in ("13a", "zh", "char")}
    assert scores["13a"] < 20 < 50 < scores["zh"] and abs(scores["zh"] - scores["char"]) > 0.1


# -------------------------------------------------------------------------------------------------- beams and counts


def test_branches_are_the_beam_with_true_probabilities(tiny_corpus: Corpus) -> None:
    tokenizer = train_tokenizer(tiny_corpus, preset("toy", vocab_size=90).tokenizer)
    torch.manual_seed(0)
    model = Transformer(tokenizer.vocab_size, d_model=16, heads=2, encoder_layers=1, decoder_layers=1, ffn=16).eval()
    pair = tiny_corpus.pairs[0]
    source = tiny_corpus.test[pair][0][0]
    for penalty in (0.0, 1.0):
        found = beams.branches(model, tokenizer, pair, source, beam=3, length_penalty=penalty, max_len=6)
        assert len(found) == 3 and [b.score for b in found] == sorted((b.score for b in found), reverse=True)
        assert all(b.tokens[-1] == "</s>" and len(b.tokens) == len(b.logps) <= 7 for b in found)
        if penalty == 0:
            assert all(b.score == pytest.approx(sum(b.logps)) for b in found)

    src = torch.tensor([tokenizer.encode_src(source, pair)])
    options: dict[str, Any] = {"bos": BOS, "eos": EOS, "pad": PAD, "banned": [UNK, *tokenizer.tags.values()]}
    (best,) = translate_batch(model, src, beam=2, max_len=6, **options)
    logps = beams.token_logps(model, src, best.tokens)
    assert sum(logps) / len(logps) == pytest.approx(best.score, abs=1e-5)


def test_pieces_become_words() -> None:
    words, logps = beams.whole_words(
        ["\u2581th", "e", "\u2581", "old", "\u2581cat", "</s>"], [-1.0, -2, -3, -4, -5, -6]
    )
    assert words == ["the", "old", "cat", "</s>"] and logps == [-3.0, -7.0, -5.0, -6.0]
    assert beams.whole_words(["ing", "\u2581a"], [-1.0, -2.0])[0] == ["ing", "a"]


def branch(text: str, score: float) -> Branch:
    tokens = text.split()
    return Branch(tokens, [-0.1 * (i + 1) for i in range(len(tokens))], score)


def test_a_tree_draws_common_beginnings_once() -> None:
    found = [branch("the old cat </s>", -0.1), branch("a dog </s>", -0.2), branch("the old dog </s>", -0.3)]
    drawn = l05.figures.beam_tree(found, alt="three sentences")
    words = Counter(text.get_text() for text in drawn.axes[0].texts)
    assert (words["the"], words["old"], words["a"], words["cat"], words["dog"]) == (1, 1, 1, 1, 2)
    bold = {text.get_text() for text in drawn.axes[0].texts if text.get_fontweight() == "bold"}
    assert {"the", "old", "cat", "-0.100"} <= bold and "dog" not in bold
    with pytest.raises(UserError):
        l05.figures.beam_tree([], alt="none")


def test_matches_of_the_figure_are_sacrebleus() -> None:
    hyp, ref = "the cat the cat on the mat".split(), "the cat is on the old mat".split()  # noqa: SIM905
    for n in (1, 2, 3, 4):
        assert len(l05.figures.matches(hyp, ref, n)) == matches(hyp, ref, n)[0]
    drawn = l05.figures.bleu_inspector(hyp, ref)
    assert "Matching: 5/7 1-grams" in drawn.alt_text
    assert len(drawn.axes[0].lines) == sum(len(l05.figures.matches(hyp, ref, n)) for n in (1, 2, 3, 4))
    assert l05.figures.drawable("aü猫$") == "aü\u25a1\\$"


def test_the_beam_explorer_searches_again() -> None:
    asked = []

    def search(sentence: str, beam: int, penalty: float) -> list[Branch]:
        asked.append((sentence, beam, penalty))
        return [branch(f"{sentence} {i} </s>", -float(i)) for i in range(beam)]

    explorer = l05.widgets.beam_explorer(search, ["one", "two"])
    caption, sentence, beam, penalty, picture = explorer.children
    assert isinstance(picture, ipw.HTML) and "Tab" in caption.value
    sentence.value = "two"
    beam.value = 5
    penalty.value = 0.5
    assert asked == [("one", 3, 1.0), ("two", 3, 1.0), ("two", 5, 1.0), ("two", 5, 0.5)]
    assert "Beam of 5, length penalty 0.5" in picture.value
    with pytest.raises(UserError):
        l05.widgets.beam_explorer(search, [])


def test_the_editor_counts_what_is_written() -> None:
    editor = l05.widgets.bleu_editor("the cat .", "the dog.")
    _, hypothesis, _, picture = editor.children
    assert "2/3 1-grams" in picture.value  # the full stop of "dog." is a token of its own
    hypothesis.value = "the dog ."
    assert "3/3 1-grams" in picture.value
    hypothesis.value = "  "
    assert "at least one word" in picture.value
