"""Numbers of stored comparisons that lessons and docs/results.md name in prose: each is read again from the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from pmd_kit.l00.stories import TWINS, Regimes
from pmd_kit.l11.dwi import OWN, StoredSearches
from pmd_kit.l12.comparison import equal_compute_reading
from pmd_kit.l13.study import Study, rank_correlation
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.evaluation.tables import mean_spread

ROOT = Path(__file__).resolve().parents[2]


@cache
def comparison(name: str) -> Comparison:
    return Comparison.load(ROOT / "lessons" / "results" / f"{name}_longtail.json")


@cache
def printed(name: str) -> dict[tuple[str, str], str]:
    """{(system, column): the cell as its table prints it}; a difference is called by the column before it."""
    table = comparison(name).table()
    columns = [f"{before} diff" if own.strip() == "diff" else own for before, own in pairwise(["", *table.columns])]
    lines = [line for line in table.to_markdown().splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip(" *") for cell in line.strip("| ").split(" | ")] for line in lines]
    return {(row[0], column): cell for row in cells for column, cell in zip(columns, row, strict=True)}


def cell(column: str, system: str, of: str = "compare") -> str:
    """As people write it: .9 instead of 0.9, without the mark of a test."""
    return re.sub(r"\b0(?=\.)", "", printed(of)[system, column].strip(" ▲▼"))


def value(column: str, system: str, of: str = "compare") -> float:
    return float(cell(column, system, of).split(" ")[0])


def marked(column: str, *systems: str) -> bool:
    return all(printed("compare")[system, f"{column} diff"][-1] in "▲▼" for system in systems)


def span(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def below_twins() -> list[list[float]]:
    """At equal compute: what each student has less than the single model of its temperature, in a group; a row of the
    mean and the seeds."""
    lines = equal_compute_reading(comparison("equal")).splitlines()
    return [[-float(x) for x in re.findall(r"[+-]\d+\.\d", line)] for line in lines]


@cache
def study() -> Study:
    return Study.load(ROOT / "lessons" / "results" / "studies" / "real-text")


def bleu(label: str, spread: bool = False, seeds: tuple[int, ...] = ()) -> str:
    """HRL / LRL of a system of the study of real text, mean over its seeds, or over these."""
    found = [mean_spread(values) for values in study().means(label, "BLEU", seeds)]
    tail = [f" ± {x.spread:.1f}".replace(" 0.", " .") if spread else "" for x in found]
    return " / ".join(f"{x.mean:.1f}{end}" for x, end in zip(found, tail, strict=True))


def apart(label: str, base: str, group: int) -> tuple[str, str]:
    """BLEU of a system minus that of another, over the large (0) or small (1) pairs of the study, and its mark."""
    found = study().difference(base, label, study().groups[group])
    return f"{abs(found.delta):.1f}".replace("0.", "."), found.mark


def price(label: str) -> str:
    """Its compute in multiples of a single model's."""
    return f"{study().systems[label].cost / study().systems['tau=1'].cost:.2f}"


LONG = "tau=2 steps=12000 patience=12"
DROPOUT = "tau=2 dropout=0.3 steps=12000 patience=12"
LONG_MD = "vanilla-md samplers=tau=2,tau=2 start=0.09 steps=12000 patience=12"
MEAN = "mean of 5: tau=2 steps=12000"
LONG_BI = "bi-pmd start=0.09 steps=12000 patience=12"
SINGLES, DISTILLED = "ensemble tau=1 + tau=5", "ensemble-distill samplers=tau=2"
NEAR = ("multidds-s", "cooldown", "multiuat")
AUTO, BI = "auto-pmd model_1 (tau=1)", "bi-pmd model_1 (tau=1)"
MADE: list[tuple[str, Callable[[], str]]] = [
    ("08_*", lambda: f"a lower loss than $\\tau=1$ on the small pairs ({cell('LRL loss', BI)} and "
     f"{cell('LRL loss', 'tau=1')}) and a higher one on the large pairs ({cell('HRL loss', BI)} and "
     f"{cell('HRL loss', 'tau=1')})"),
    ("08_*", lambda: f"{-value('HRL diff', BI):.1f} less, marked; on the small ones {cell('LRL diff', BI)}."),
    ("08_*", lambda: "`model_1` of Uni-PMD differs by {} and {}, not marked".format(
        *(cell(f"{group} diff", "uni-pmd model_1 (tau=1)") for group in ("HRL", "LRL")))),
    ("08_*", lambda: "`model_2` at .2 has {:.1f} more than its twin, whose bar is {}".format(
        value("BLEU", "bi-pmd alpha=0.2: model_2 (tau=5)", "alpha") - value("BLEU", "tau=5", "alpha"),
        cell("BLEU", "tau=5").split("± ")[1])),
    ("08_*", lambda: "At .8 both students are ruined: {} and {}, where the twins have {} and {}.".format(
        *(cell("BLEU", f"bi-pmd alpha=0.8: model_{i} (tau={tau})", "alpha") for i, tau in ((1, 1), (2, 5))),
        *(cell("BLEU", twin, "alpha") for twin in ("tau=1", "tau=5")))),
    ("10_*", lambda: f"`model_1` has {cell('HRL', AUTO)} and Dynamic-MD's "
     f"{cell('HRL', 'dynamic-md model_1 (tau=1)')}: there"),
    ("10_*", lambda: f"On the small pairs ({cell('LRL', AUTO)} and {cell('LRL', 'dynamic-md model_1 (tau=1)')})"),
    ("10_*", lambda: "has {} and {}: what".format(*(cell(g, "lsmd model_1 (tau=1)") for g in ("HRL", "LRL")))),
    ("12_*", lambda: f"they gain {span([value('LRL diff', s) for s in NEAR])} BLEU on the small pairs, marked"),
    ("12_*", lambda: "MultiDDS-S and MultiUAT compute {} and {} times as much as $\\tau=1$, and Cooldown, which only "
     "has a plan, {} times".format(*(cell("compute", s) for s in ("multidds-s", "multiuat", "cooldown")))),
    ("12_*", lambda: "Cooldown leads MultiDDS-S by .{:.0f} on the small pairs, and its bar is {}.".format(
        10 * (value("LRL", "cooldown") - value("LRL", "multidds-s")), cell("LRL", "cooldown").split("± ")[1])),
    ("12_*", lambda: f"negative in both seeds, on average by {span([mean for mean, *_ in below_twins()])} BLEU"),
    ("results", lambda: f"{bleu(SINGLES)} against {bleu('tau=1')} and {bleu('tau=5')}"),
    ("results", lambda: f"tau=2 alone has {bleu('tau=2', spread=True)} BLEU"),
    ("results", lambda: f"Bi-PMD's students {bleu('bi-pmd: model_1')} and {bleu('bi-pmd: model_2')}"),
    ("results", lambda: "`model_1` loses {} BLEU on the large languages, marked".format(
        apart("bi-pmd: model_1", "tau=1", 0)[0])),
    ("results", lambda: "Auto-PMD's `model_2` gains {} there and `model_1` loses {}".format(
        *(apart(f"auto-pmd: model_{i}", twin, 0)[0] for i, twin in ((2, "tau=5"), (1, "tau=1"))))),
    ("results", lambda: "together are {} below the ensemble of the two singles".format(
        apart("ensemble bi-pmd: model_1 + model_2", SINGLES, 0)[0])),
    ("results", lambda: f"tau=5 has {apart('tau=5', 'tau=2', 0)[0]} less than tau=2"),
    ("results", lambda: f"tau=1 and tau=5 has {apart(SINGLES, 'tau=2', 0)[0]} more than tau=2"),
    ("results", lambda: "{}, differences of {} and -{}, not marked".format(
        bleu(DISTILLED), *(apart(DISTILLED, "tau=2", group)[0] for group in (0, 1)))),
    ("results", lambda: "has {} BLEU for {} times the compute of tau=1; Bi-PMD takes {}, Auto-PMD {}".format(
        bleu(LONG, spread=True), *map(price, (LONG, "bi-pmd: model_1", "auto-pmd: model_1")))),
    ("results", lambda: "{} times the compute of tau=1: {} and {} BLEU".format(
        price(f"{LONG_BI}: model_1"), *(bleu(f"{LONG_BI}: model_{i}") for i in (1, 2)))),
    ("results", lambda: f"More dropout changes nothing ({bleu(DROPOUT)})"),
    ("results", lambda: "of tau=2 for as long: {} and {} (*seed 1*)".format(
        *(bleu(f"{LONG_MD}: model_{i}", seeds=(1,)) for i in (1, 2)))),
    ("results", lambda: f"last five weights averaged, has {bleu(MEAN)} for {price(MEAN)} times the"),
    ("results", lambda: "has {} more on the large languages, `model_2` {} less, neither marked (*two seeds*)".format(
        *(apart(f"{LONG_BI}: model_{i}", MEAN, 0)[0] for i in (1, 2)))),
    ("results", lambda: "it gains {} on the small ones, marked, and {} on the large ones, not marked".format(
        *(apart(LONG, "tau=1", group)[0] for group in (1, 0)))),
    ("results", lambda: "In mean BLEU MultiUAT ({}), MultiDDS-S ({}) and Cooldown ({}) are above tau=1 ({})".format(
        *(cell("BLEU", s) for s in ("multiuat", "multidds-s", "cooldown", "tau=1")))),
    ("results", lambda: "They cost {} to {} single models".format(
        *(cell("compute", s) for s in ("cooldown", "multiuat")))),
    ("results", lambda: "Auto-PMD's students have {} and {} for {}; tau=5 alone has {}".format(
        value("BLEU", AUTO), value("BLEU", "auto-pmd model_2 (tau=5)"), cell("compute", AUTO), value("BLEU", "tau=5"))),
    ("results", lambda: f"loses {-value('HRL diff', 'dynamic-md model_1 (tau=1)')} BLEU on the large languages"),
    ("results", lambda: "two tau=5 students that teach each other lose {:.0f} BLEU there".format(
        value("HRL", "tau=5") - sum(value("HRL", f"vanilla-md-tau model_{i} (tau=5)") for i in (1, 2)) / 2)),
    ("results", lambda: "tau=1 makes 3,896 and has {} mean BLEU, tau=5 {}, Bi-PMD's students {} and {}, Auto-PMD's {} "
     "and {}".format(*(value("BLEU", label, "equal") for label in (
         "tau=1", "tau=5", BI, "bi-pmd model_2 (tau=5)", AUTO, "auto-pmd model_2 (tau=5)")))),
    ("results", lambda: ".8 ends at {} and {} mean BLEU, against {} and {} of the twins".format(
        *(value("BLEU", f"bi-pmd alpha=0.8: model_{i} (tau={tau})", "alpha") for i, tau in ((1, 1), (2, 5))),
        *(value("BLEU", twin, "alpha") for twin in ("tau=1", "tau=5")))),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("where", "made"), MADE, ids=[f"{where}-{i}" for i, (where, _) in enumerate(MADE)])
def test_prose_has_the_numbers_of_the_file(where: str, made: Callable[[], str]) -> None:
    (page,) = (ROOT / "lessons" / "src").glob(f"{where}.py") if "*" in where else [ROOT / "docs" / "results.md"]
    text = re.sub(r"^# ?", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert made() in re.sub(r"\s+", " ", text)


def test_marks_in_prose_are_those_of_the_file() -> None:
    assert marked("LRL", *NEAR) and marked("BLEU", *NEAR) and not any(marked("HRL", system) for system in NEAR)
    assert marked("HRL", BI) and not marked("LRL", BI)
    assert not any(marked(group, "uni-pmd model_1 (tau=1)") for group in ("HRL", "LRL"))
    assert marked("HRL", "dynamic-md model_1 (tau=1)") and not marked("HRL", AUTO)
    assert min(map(min, below_twins())) > 0


@pytest.mark.slow
def test_marks_of_the_study_are_those_of_the_page() -> None:
    assert [apart("bi-pmd: model_1", "tau=1", g)[1] for g in (0, 1)] == ["▼", ""]
    assert [apart("bi-pmd: model_2", "tau=5", g)[1] for g in (0, 1)] == ["", ""]
    assert [apart("auto-pmd: model_1", "tau=1", g)[1] for g in (0, 1)] == ["", ""]
    assert [apart("auto-pmd: model_2", "tau=5", g)[1] for g in (0, 1)] == ["▲", ""]
    assert [apart(DISTILLED, "tau=2", g)[1] for g in (0, 1)] == ["", ""]
    assert [apart(SINGLES, base, 0)[1] for base in ("tau=1", "tau=2", "tau=5")] == ["▲"] * 3
    assert [apart("tau=5", "tau=2", g)[1] for g in (0, 1)] == ["▼", ""]
    assert [apart(LONG, "tau=1", g)[1] for g in (0, 1)] == ["", "▲"]
    assert [apart(LONG, SINGLES, g)[1] for g in (0, 1)] == ["", ""]
    for mended in ("auto-pmd alpha_clip=0.4", "auto-pmd decide_by=accuracy"):
        assert {apart(f"{mended}: model_{i}", f"auto-pmd: model_{i}", g)[1] for i in (1, 2) for g in (0, 1)} == {""}
    students = [label for label in study().systems if ": model_" in label and not label.startswith("ensemble ")]
    for student in students:
        if student.startswith(LONG_BI):
            assert [apart(student, LONG, g)[1] for g in (0, 1)] == ["▲", ""]
            assert [apart(student, SINGLES, g)[1] for g in (0, 1)] == ["▲", ""]
            assert [apart(student, base, g)[1] for base in ("tau=1", "tau=5") for g in (0, 1)] == [
                "▲", "▲", "▲", ""
            ]  # fmt: skip
            assert [apart(student, DROPOUT, g)[1] for g in (0, 1)] == ["▲", ""]
        elif not student.startswith(LONG_MD):
            assert apart(LONG, student, 0)[1] == "▲" and apart(LONG, student, 1)[1] in ("", "▲")
    assert [apart(DROPOUT, LONG, g)[1] for g in (0, 1)] == ["", ""]
    assert {apart(f"{LONG_BI}: model_{i}", MEAN, g)[1] for i in (1, 2) for g in (0, 1)} == {""}
    assert [apart(MEAN, base, g)[1] for base in (LONG, SINGLES) for g in (0, 1)] == ["▲", "", "▲", ""]


def test_lesson_00s_world_in_the_results() -> None:
    """A lower dev loss of the small pairs in every seed, for both students, and fewer BLEU of model_1 on the large."""
    found = Regimes.load(ROOT / "lessons" / "results" / "toy_regimes.json")

    def gained(twin: str, student: str, of: str, axis: int) -> list[float]:
        both = zip(found.points("longtail", student, of), found.points("longtail", twin, of), strict=True)
        return [mine[axis] - other[axis] for mine, other in both]

    lower = [-x for twin, student in TWINS for x in gained(twin, student, "dev_loss", 0)]
    lost = [-x for x in gained(*TWINS[0], "bleu", 1)]
    assert len(lower) == 6
    said = f"by .{100 * min(lower):02.0f} to .{100 * max(lower):02.0f} nats. BLEU does not follow in any group, and "
    said += f"`model_1` loses {span(lost)} on the large languages. *Three seeds.*"
    assert said in re.sub(r"\s+", " ", (ROOT / "docs" / "results.md").read_text(encoding="utf-8"))


def test_independence_in_the_results() -> None:
    found = StoredSearches.load(ROOT / "lessons" / "results" / "dwi_longtail.json")
    pairs, searches = range(len(found.pairs)), range(len(found.searches))
    means = [fmean(found.causes(search, pair)[OWN] for search in searches) for pair in pairs]
    own = [f"{share:.2f}".removeprefix("0") for share in means]
    lost = [f"{mean_spread(found.lost(i)).mean:.4f}".removeprefix("0") for i in pairs]
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "results.md").read_text(encoding="utf-8"))
    assert "explains {} (large), {} and {} (smallest) of the variance".format(*own) in page
    assert "choice loses {}, {} and {} nats on average".format(*lost) in page
    rules = {str(row[0]): float(str(row[-1])) for row in found.rules().rows}
    best, reduced = (
        -rules[rule] for rule in ("lowest sum of losses, all trials", "reduced search, each pair for itself")
    )
    assert f"would gain {best:.4f} nats a search instead of {reduced:.4f}".replace(" 0.", " .") in page


def test_dev_loss_knows_the_order_of_the_large_pairs_only() -> None:
    """The answer in lesson 13, from the stored study of real text."""
    table = study().agreement()
    large, small = ({str(row[0]): float(str(row[i])) for row in table.rows} for i in (1, 2))
    assert large["dev NLL"] < -0.8 and abs(small["dev NLL"]) < 0.3 and abs(small["at best T"]) < 0.3
    assert 0.4 < small["accuracy"] < small["greedy BLEU"]
    said = f"(rank correlation {small['dev NLL']:.2f}, large pairs {large['dev NLL']:.2f};".replace("0.", ".")
    assert said in re.sub(r"\s+", " ", (ROOT / "docs" / "results.md").read_text(encoding="utf-8"))


def test_correlation_of_ranks() -> None:
    """By hand: ranks 0 1 2 3 and 1 0 3 2 differ by 1 each, and 1 - 6 * 4 / (4 * 15) = .6."""
    assert rank_correlation([1.0, 2.0, 10.0, 11.0], [5.0, -1.0, 90.0, 80.0]) == pytest.approx(0.6)
