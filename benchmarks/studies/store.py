"""One small file for every finished run, under lessons/results/studies: enough for all tables, tests and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pmd_lite.disk import read_json, write_json
from pmd_lite.run import Run
from pmd_lite.training.rundir import FORMAT

STORE = Path("lessons/results/studies")
CURVES = ("dev_loss", "train_nll", "alpha")


def file_of(study: str, row: str, seed: int, store: Path = STORE) -> Path:
    """Where the record of a run lies."""
    return store / study / f"{re.sub(r'[^A-Za-z0-9=.,_-]+', '_', row)}-seed{seed}.json"


def records(study: str, store: Path = STORE) -> Iterator[dict[str, Any]]:
    """All records of a study, in the order of their names."""
    for file in sorted((store / study).glob("*.json")):
        yield read_json(file)


def record_of(run: Run, study: str, row: str, seed: int, models: list[dict[str, Any]]) -> dict[str, Any]:
    """What is kept of a run; models: what `measure.measured` found, one a student."""
    students = []
    for student, (label, values) in enumerate(zip(run.labels, models, strict=True)):
        lines = run.evaluations(student)
        curves = {name: [[_short(x) for x in line[name]] for line in lines] for name in CURVES}
        best = min(range(len(lines)), key=lambda i: sum(lines[i]["dev_loss"]))
        students.append({
            "label": label, "steps": [line["step"] for line in lines], **curves, "visits": lines[-1]["visits"],
            "best_step": lines[best]["step"], "pairs": values,
        })  # fmt: skip
    return {
        "format": FORMAT, "study": study, "row": row, "seed": seed, "method": run.method.name,
        "corpus": {name: run.corpus[name] for name in ("name", "fingerprint", "pairs", "sizes")},
        "config": run.config.to_dict(), "seconds": round(run.finished["seconds"]), "reason": run.finished["reason"],
        "multiply_adds": run.compute_with_auxiliary, "parameters": run.finished["parameters"], "students": students,
    }  # fmt: skip


def write(study: str, row: str, seed: int, record: dict[str, Any], store: Path = STORE) -> Path:
    """Store a record; returns its file."""
    path = file_of(study, row, seed, store)
    write_json(path, record)
    return path


def _short(x: float | None) -> float | None:
    return None if x is None else round(x, 4)
