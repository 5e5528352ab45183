"""Links at the top and at the bottom of every lesson, made from one table, and badges if the repository has an address.

The address stands in one place, `Repository` under [project.urls] in pyproject.toml. Without it there are no badges.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

PAPER = "https://aclanthology.org/2023.acl-long.211.pdf"


@dataclass(frozen=True)
class Place:
    """Where a lesson's subject is found in the paper and in the code; files are paths from the root."""

    paper: str
    files: tuple[str, ...]


PLACES: dict[str, Place] = {
    "00": Place("sections 1 and 3", ("pmd_lite/training/trainer.py", "pmd_lite/training/trial.py")),
    "01": Place("section 2.1 and the appendix on data",
                ("pmd_lite/data/tokenizer.py", "pmd_lite/data/batching.py")),
    "02": Place("section 2.1, Eq. 2", ("pmd_lite/sampling/temperature.py", "pmd_lite/sampling/schedule.py")),
    "03": Place("section 4.1 and appendix C", ("pmd_lite/model/layers.py", "pmd_lite/model/transformer.py")),
    "04": Place("section 2.1, Eq. 1, and appendix C", ("pmd_lite/training/learner.py", "pmd_lite/training/rundir.py")),
    "05": Place("section 4.1 and appendix C", ("pmd_lite/model/decoding.py", "pmd_lite/evaluation/bleu.py")),
    "06": Place("section 5.1 and Figure 1", ("pmd_lite/evaluation/pareto.py",)),
    "07": Place("sections 2.2 and 3.1", ("pmd_lite/distillation/losses.py", "pmd_lite/training/step.py")),
    "08": Place("section 3.2", ("pmd_lite/distillation/mutual.py",)),
    "09": Place("sections 3.3 and 5.4", ("pmd_lite/distillation/actions.py",)),
    "10": Place("sections 3.3 and 5.3", ("pmd_lite/distillation/auto.py", "pmd_lite/training/trial.py")),
    "11": Place("appendix A", ("pmd_lite/distillation/search.py",)),
    "12": Place("section 4", ("pmd_lite/methods.py", "pmd_lite/comparing/compare.py")),
    "13": Place("section 4.2", ("pmd_lite/evaluation/significance.py",)),
    "14": Place("section 4.1 and the appendices on data and hyper-parameters",
                ("data_scripts/pmd_corpora/ted8.py", "pmd_lite/reports/dashboard.py")),
    "15": Place("section 4 and the appendices on data and single languages",
                ("data_scripts/pmd_corpora/wmt6.py", "pmd_lite/planning/estimate.py")),
    "16": Place("the conclusion and the limitations", ("pmd_lite/interfaces.py", "pmd_lite/methods.py")),
}  # fmt: skip


def repository(pyproject: Path) -> str:
    """OWNER/NAME of the repository on GitHub, as pyproject.toml gives it; "" where it gives none."""
    if not pyproject.exists():
        return ""
    urls = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {}).get("urls", {})
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", urls.get("Repository", ""))
    return found[1] if found else ""


def badges(stem: str, address: str) -> str:
    """Pictures that open the lesson in Colab and in Binder; "" without an address."""
    if not address:
        return ""
    colab = f"https://colab.research.google.com/github/{address}/blob/main/lessons/{stem}.ipynb"
    binder = f"https://mybinder.org/v2/gh/{address}/main?labpath=lessons/{stem}.ipynb"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab}) "
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})"
    )


def links(stem: str, titles: dict[str, str], solved: bool, ending: bool) -> str:
    """One line of links for the lesson `stem`. titles: of all lessons, in order. ending: for the bottom of the page."""
    up = "../../" if solved else "../"
    stems = list(titles)
    at = stems.index(stem)
    parts = [f"[Contents]({up}README.md#the-lessons)"]
    parts += [f"[← {titles[one]}]({one}.ipynb)" for one in stems[at - 1 : at] if at]
    parts += [f"[{titles[one]} →]({one}.ipynb)" for one in stems[at + 1 : at + 2]]
    if place := PLACES.get(stem[:2]):
        parts.append(f"paper: [{place.paper}]({PAPER})")
        parts.append("code: " + ", ".join(f"[{file.split('/')[-1]}]({up}{file})" for file in place.files))
    if ending and solved:
        parts.append(f"[the same without solutions](../{stem}.ipynb)")
    elif ending:
        parts.append(f"[a solved copy](solutions/{stem}.ipynb)")
    return " · ".join(parts)


def with_links(nb: NotebookNode, stem: str, titles: dict[str, str], solved: bool, address: str) -> None:
    """Write the links below the title and under the last text of the notebook, in place; no cell is added."""
    text = [cell for cell in nb.cells if cell.cell_type == "markdown"]
    title, _, rest = text[0].source.partition("\n")
    head = "\n\n".join(part for part in (links(stem, titles, solved, ending=False), badges(stem, address)) if part)
    text[0].source = f"{title}\n\n{head}\n{rest}" if rest.startswith("\n") else f"{title}\n\n{head}\n\n{rest}".rstrip()
    text[-1].source += f"\n\n---\n\n{links(stem, titles, solved, ending=True)}"
