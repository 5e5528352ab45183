"""Outcomes that the lessons state in prose: each is derived again from what is stored or quoted, figure by figure."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from pmd_kit.paper_tables import PER_LANGUAGE
from pmd_lite.methods import METHODS

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
LOG = LESSONS / "results" / "logs" / "real-text-bi-pmd"


def paper(method: str, column: int) -> list[float]:
    """Mean BLEU of each student; columns: TED M2O, TED O2M, WMT M2O, WMT O2M."""
    return [float(score.split(" ")[0]) for score in METHODS[method].reported[column].split("/")]


def above(method: str, column: int) -> list[float]:
    """Each student minus the single model of its own temperature, rounded to the hundredths that the paper prints."""
    taus = ["tau=1" if sampler == "tau=1" else "tau=5" for sampler in METHODS[method].samplers]
    return [round(s - paper(tau, column)[0], 2) for s, tau in zip(paper(method, column), taus, strict=True)]


def gains(data: str, direction: str, student: int, *over: str) -> list[float]:
    """Language by language: a student of Auto-PMD minus the best of these single models."""
    rows = PER_LANGUAGE[data, direction]  # type: ignore[index]
    name = next(label for label in rows if label.startswith(f"auto-pmd model_{student}"))
    return [round(s - max(others), 2) for s, *others in zip(rows[name], *(rows[o] for o in over), strict=True)]


def within(values: list[float], low: float, high: float) -> bool:
    """Whether a range in prose, with one decimal, is that of the values."""
    return (round(min(values), 1), round(max(values), 1)) == (low, high)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


MUTUAL = ("vanilla-md", "vanilla-md-tau", "bi-pmd", "auto-pmd")
STATED: list[tuple[str, str, object]] = [
    ("07", "All mutual students are above both single models",
     lambda: all(min(paper(m, 2)) > max(paper("tau=1", 2) + paper("tau=5", 2)) for m in MUTUAL)),
    ("07", "Those of vanilla MD are 0.4 to 1.4 BLEU above the single model of their own temperature",
     lambda: within(above("vanilla-md", 2) + above("vanilla-md-tau", 2), 0.4, 1.4)),
    ("07", "and it gains another 0.6 to 0.8",
     lambda: within([round(bi - v, 2) for bi, row in zip(paper("bi-pmd", 2), ("vanilla-md", "vanilla-md-tau"),
                                                         strict=True) for v in paper(row, 2)], 0.6, 0.8)),
    ("08", "In all four settings Bi-PMD's students are better than Uni-PMD's, with one exception",
     lambda: sum(b <= u for c in range(4) for b, u in zip(paper("bi-pmd", c), paper("uni-pmd", c), strict=True)) == 1),
    ("08", "hardly better than plain $\\tau=1$, by 0.2 and by 0.04",
     lambda: [above("uni-pmd", c)[0] for c in (2, 3)] == [0.19, 0.04]),
    ("08", "better than plain $\\tau=5$ by 1.8 and 1.1",
     lambda: [round(above("uni-pmd", c)[1], 1) for c in (2, 3)] == [1.8, 1.1]),
    ("10", "of Auto-PMD and of Dynamic-MD differ by less than 0.06",
     lambda: all(abs(mean(paper("auto-pmd", c)) - mean(paper("dynamic-md", c))) < 0.06 for c in (2, 3))),
    ("12", "Plain $\\tau=1$ in this paper's setting (29.00) is above three of the four",
     lambda: sum(paper(m, 0)[0] < 29.0 for m in ("multidds-s", "multiuat", "ccl-m", "chi-ibr")) == 3),
    ("12", "wins TED O2M (23.55 against 23.31 and 23.28)",
     lambda: paper("lssd", 1) + paper("auto-pmd", 1) == [23.55, 23.31, 23.28]),
    ("14", "`model_1` is ahead of both single models on all eight languages, by 1.2 to 3 BLEU",
     lambda: within(gains("ted8", "m2o", 1, "tau=1", "tau=3"), 1.2, 3.0)),
    ("14", "the mean of the eight scores in the paper's appendix is 29.08",
     lambda: round(mean(list(PER_LANGUAGE["ted8", "m2o"]["tau=1"])), 2) in (29.08, 29.09)),
    ("15", "over `tau=5`, the single model with the same temperature, most on Romanian and Estonian",
     lambda: sorted(range(6), key=lambda i: -gains("wmt6", "m2o", 2, "tau=5")[i])[:2] == [4, 3]),
    ("15", "It is ahead of both single models on five of six languages, all but French",
     lambda: [gain > 0 for gain in gains("wmt6", "m2o", 2, "tau=1", "tau=5")] == [False] + [True] * 5),
    ("15", "loses* on French, German and Chinese against $\\tau=1$, by 0.65 to 0.8",
     lambda: sorted(gains("wmt6", "o2m", 1, "tau=1"))[:3] == [-0.78, -0.77, -0.65]
     and [gain < 0 for gain in gains("wmt6", "o2m", 1, "tau=1")] == [True] * 3 + [False] * 3),
    ("14", "on 11,070 real sentence pairs of Tatoeba, 3,600 updates in 33 minutes of one CPU core",
     lambda: (sum(json.loads((LOG / "config.json").read_text())["corpus"]["sizes"]),
              (end := json.loads((LOG / "finished.json").read_text()))["step"], round(end["seconds"] / 60))
     == (11_070, 3_600, 33)),
]  # fmt: skip


@pytest.mark.parametrize(("number", "words", "holds"), STATED, ids=[f"{n}: {w[:40]}" for n, w, _ in STATED])
def test_what_a_lesson_says_is_so(number: str, words: str, holds: object) -> None:
    (source,) = (LESSONS / "src").glob(f"{number}_*.py")
    text = re.sub(r"\s+", " ", re.sub(r"^# ?", "", source.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert words in text, "the sentence has changed: change its test, too"
    assert holds()  # type: ignore[operator]


def test_the_words_that_come_back_in_lesson_13_do() -> None:
    """Its answer names words of the French sentences that the student finds at the end, and two that it does not."""
    stored = json.loads((LESSONS / "results" / "own_sentences.json").read_text(encoding="utf-8"))["translations"]
    found = " ".join(stored["bi-pmd model_1 (tau=1)"]["fr-en"])
    assert all(word in found for word in ("brother", "school", "book", "car"))
    assert "cheese" not in found and "key" not in found


def test_the_moves_of_a_stored_weight_become_smaller() -> None:
    """Lesson 15 asks for it: mu shrinks, so the last moves of the stored run are smaller than the first ones."""
    stored = json.loads((LESSONS / "results/studies/real-text/auto-pmd-seed1.json").read_text(encoding="utf-8"))
    for student in stored["students"]:
        moves = [max(abs(b - a) for a, b in zip(x, y, strict=True)) for x, y in pairwise(student["alpha"])]
        assert max(moves[-3:]) < max(moves)


def test_a_placebo_has_luck_in_it() -> None:
    """A placebo that equals what it is compared with would make every difference beside it a finding."""
    book = json.loads((LESSONS / "16_beyond_the_paper.ipynb").read_text(encoding="utf-8"))
    said = "".join("".join(out.get("text", "")) for cell in book["cells"] for out in cell.get("outputs", []))
    (found,) = re.findall(r"placebo and tau=5 differ by up to ([\d.]+) nats .* to ([\d.]+) BLEU", said)
    assert min(map(float, found)) > 0
