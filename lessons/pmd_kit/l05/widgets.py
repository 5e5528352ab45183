"""Widgets of lesson 05: the beam explorer and the BLEU inspector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as ipw
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from pmd_kit.l05.figures import Branch, beam_tree, bleu_inspector
from pmd_kit.widgets import chooser, redrawn
from pmd_lite.errors import UserError
from pmd_lite.figures.style import LessonFigure

Search = Callable[[str, int, float], Sequence[Branch]]


def beam_figure(search: Search, sentence: str, beam: int = 3, length_penalty: float = 1.0) -> LessonFigure:
    """The hypotheses that `search(sentence, beam, length_penalty)` ends with, as a tree."""
    found = search(sentence, beam, length_penalty)
    listed = "; ".join(f"{' '.join(b.tokens[:-1])} ({b.score:.3f})" for b in found)
    return beam_tree(found, alt=f"Beam of {beam}, length penalty {length_penalty:g}. Best first, with scores: {listed}")


def beam_explorer(search: Search, sentences: Sequence[str]) -> ipw.VBox:
    """Choose sentence, width of the beam and length penalty.

    search: (sentence, beam, length penalty) -> hypotheses, best first.
    """
    if not sentences:
        raise UserError("The beam explorer needs at least one sentence.")

    def draw(sentence: str, beam: int, penalty: float) -> LessonFigure:
        return beam_figure(search, sentence, beam, penalty)

    return redrawn(
        draw,
        "Widen the beam (Tab; Space or ← →) and turn the length penalty: from which value on does another row win?",
        sentence=chooser(options=list(sentences), description="sentence"),
        beam=ipw.IntSlider(value=3, min=1, max=8, description="beam", continuous_update=False),
        penalty=ipw.FloatSlider(value=1.0, min=0.0, max=2.0, step=0.1, description="penalty", continuous_update=False),
    )


def bleu_figure(hypothesis: str, reference: str) -> LessonFigure:
    """What BLEU, with the tokenizer 13a, counts in one sentence."""
    cut = Tokenizer13a()  # type: ignore[no-untyped-call]
    return bleu_inspector(cut(hypothesis).split(), cut(reference).split())


def bleu_editor(hypothesis: str, reference: str) -> ipw.VBox:
    """Both sentences to edit, and below them what BLEU counts."""
    fields = {"layout": ipw.Layout(width="90%"), "continuous_update": False, "style": {"description_width": "90px"}}
    return redrawn(
        bleu_figure,
        "Edit the hypothesis, then press Enter. What does one wrong word cost at its beginning, what in the middle?",
        hypothesis=ipw.Text(value=hypothesis, description="hypothesis", **fields),
        reference=ipw.Text(value=reference, description="reference", **fields),
    )
