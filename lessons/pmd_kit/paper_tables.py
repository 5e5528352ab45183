"""What the paper reports, as tables to hold a reproduction against, and where paper, released code and we differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pmd_kit.departures import DEPARTURES
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Cell, Table
from pmd_lite.methods import METHODS

Set = Literal["wmt6", "ted8"]
Direction = Literal["m2o", "o2m"]
LANGUAGES: Mapping[str, Sequence[str]] = {
    "wmt6": ("fr", "de", "zh", "et", "ro", "tr"),
    "ted8": ("ko", "fr", "bg", "el", "mk", "hi", "mr", "bs"),
}
"""In the order of the paper's tables, largest first; it writes TED's as kor, fra, bul, ell, mkd, hin, mar, bos."""

PER_LANGUAGE: Mapping[tuple[str, str], Mapping[str, Sequence[float]]] = {
    ("wmt6", "m2o"): {
        "tau=1": (34.40, 28.70, 13.27, 16.41, 22.65, 7.99),
        "tau=5": (31.59, 26.61, 12.56, 16.48, 23.06, 9.29),
        "auto-pmd model_1 (tau=1)": (34.96, 28.79, 13.81, 17.90, 25.22, 10.65),
        "auto-pmd model_2 (tau=5)": (34.09, 28.77, 14.05, 19.22, 26.62, 11.60),
    },
    ("wmt6", "o2m"): {
        "tau=1": (36.16, 23.89, 21.49, 11.53, 14.85, 5.58),
        "tau=5": (31.21, 20.76, 20.76, 13.28, 17.54, 8.20),
        "auto-pmd model_1 (tau=1)": (35.38, 23.12, 20.84, 13.20, 18.79, 9.65),
        "auto-pmd model_2 (tau=5)": (34.47, 23.00, 21.51, 14.15, 19.54, 10.23),
    },
    ("ted8", "m2o"): {
        "tau=1": (19.73, 40.73, 39.74, 38.71, 34.34, 23.38, 11.13, 24.88),
        "tau=3": (18.79, 40.10, 39.00, 38.11, 32.89, 22.55, 10.36, 24.98),
        "auto-pmd model_1 (tau=1)": (21.14, 42.41, 41.52, 40.67, 36.49, 25.90, 12.32, 27.94),
        "auto-pmd model_2 (tau=3)": (20.51, 42.03, 40.93, 40.00, 36.04, 25.71, 12.44, 28.02),
    },
    ("ted8", "o2m"): {
        "tau=1": (9.06, 40.26, 36.10, 33.63, 25.67, 15.56, 4.90, 16.82),
        "tau=3": (8.87, 39.96, 35.91, 33.31, 24.35, 14.81, 4.75, 15.87),
        "auto-pmd model_1 (tau=1)": (9.13, 40.94, 36.56, 34.03, 27.15, 15.89, 5.13, 17.64),
        "auto-pmd model_2 (tau=3)": (8.90, 40.65, 36.55, 33.64, 27.44, 16.29, 4.90, 17.89),
    },
}
"""BLEU per language, from the paper's appendix ("BLEU scores on Individual Languages")."""
_COLUMNS = {("ted8", "m2o"): 0, ("ted8", "o2m"): 1, ("wmt6", "m2o"): 2, ("wmt6", "o2m"): 3}  # of Method.reported


def per_language(data: Set, direction: Direction, own: Mapping[str, Sequence[float]] | None = None) -> Table:
    """The paper's BLEU per language with the mean over languages; `own` adds rows of a reproduction below.

    own: {name: BLEU per language, in the order of `LANGUAGES`}.
    """
    languages = LANGUAGES[data]
    rows: list[list[Cell]] = []
    for where, found in (("paper", PER_LANGUAGE[data, direction]), ("yours", own or {})):
        for name, scores in found.items():
            if len(scores) != len(languages):
                raise UserError(f"{name}: {len(scores)} scores, but the languages are {', '.join(languages)}")
            rows.append([where, name, *map(float, scores), sum(scores) / len(scores)])
    way = "into English" if direction == "m2o" else "out of English"
    caption = f"BLEU, {data} {way}, larger languages to the left"
    return Table(["from", "model", *languages, "mean"], rows, caption=caption)


def main_results(data: Set) -> Table:
    """The paper's averages over languages, both directions, and whose figures they are."""
    copied = {"multidds-s", "multiuat", "ccl-m", "chi-ibr"}  # with a star in the paper's table
    m2o, o2m = _COLUMNS[data, "m2o"], _COLUMNS[data, "o2m"]
    rows: list[list[Cell]] = []
    for row in METHODS.values():
        into, out_of = row.reported[m2o], row.reported[o2m]
        if (into, out_of) != ("-", "-"):
            rows.append([row.name, "copied by the paper" if row.name in copied else "the paper's own", into, out_of])
    caption = f"Mean BLEU on {data} as the paper reports it; models 1 and 2 separated by a slash"
    return Table(["method", "figures", "into English", "out of English"], rows, caption=caption)


def deviations() -> Table:
    """Where paper, released code and this library differ, and what changes ours: the list of `departures`."""
    rows = [[d.what, d.paper, d.released, d.ours, d.file, d.option] for d in DEPARTURES]
    return Table(["what", "paper", "released code", "ours", "decided in", "option"], rows)
