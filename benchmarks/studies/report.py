"""From the store to tables, tests and a figure: nothing here looks at a run directory."""

from __future__ import annotations

from pathlib import Path

from pmd_kit.l13.study import Study
from pmd_lite.disk import write_atomic
from pmd_lite.figures.style import save_figure

ENSEMBLE = "ensemble tau=1 + tau=5"


def write_report(study: str, kept: Path, out: Path) -> list[Path]:
    """Tables as Markdown and the frontier as a picture; returns the files."""
    known = Study.load(kept / study)
    parts = [
        known.table(["BLEU", "chrF", "dev NLL", "accuracy"]),
        known.table(["greedy BLEU", "TER", "length", "at best T", "train NLL"]),
        known.difference_table(),
        known.difference_table(ENSEMBLE),
        *map(known.pair_table, ("BLEU", "chrF", "dev NLL")),
    ]
    text = "\n\n".join([f"# {study}\n", *(part.to_markdown() for part in parts)]) + "\n"
    write_atomic(out / f"{study}.md", lambda path: path.write_text(text, encoding="utf-8"))
    files = [out / f"{study}.md"]
    for name in ("BLEU", "chrF"):
        files += save_figure(known.figure(list(known.systems), name), out / f"{study}-{name}")
    return files
