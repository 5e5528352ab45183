"""The house of the library: a file imports only from its own area and from floors below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A new area of pmd_lite gets its floor here.
FLOORS = {
    "errors": 0,
    "config": 1,
    "config_checks": 1,
    "config_rivals": 1,
    "presets": 1,
    "published": 1,
    "interfaces": 3,
    "data": 2,
    "model": 3,
    "sampling": 4,
    "distillation": 4,
    "evaluation": 4,
    "training": 5,
    "api": 6,
    "auxiliary": 6,
    "building": 6,
    "compare": 6,
    "comparison": 6,
    "entries": 6,
    "estimate": 6,
    "export": 6,
    "export_readme": 6,
    "importing": 6,
    "planning": 6,
    "parallel": 6,
    "fitting": 6,
    "launching": 6,
    "methods": 6,
    "run": 6,
    "run_tokenizer": 6,
    "cli": 6,
    "commands": 6,
    "data_command": 6,
    "__init__": 6,
    "__main__": 6,
    "teaching": 7,
}
TOP = 6  # files of the floor that users call may import each other
MODEL_MAY_IMPORT = {"model", "errors"}  # the network is readable, and usable, alone


def area_of(module: str) -> str:
    """`pmd_lite.data.corpus` -> `data`; the package itself -> `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(tree: ast.Module, package: str) -> Iterator[tuple[str, int, bool]]:
    """(module of pmd_lite, line, inside a function?) for each import in a module whose package is `package`."""
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            start = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (start, node.module) if part)
            names = [base]
            if base == "pmd_lite":  # `from pmd_lite import data` is the area, `from pmd_lite import train` the package
                names = [f"pmd_lite.{a.name}" if a.name in FLOORS else "pmd_lite" for a in node.names]
        for name in names:
            if name.split(".")[0] == "pmd_lite":
                yield name, node.lineno, id(node) in lazy


def upward_imports(path: str, source: str) -> list[str]:
    """One sentence for each import of `source` (a file at pmd_lite/...) that does not go downwards."""
    parts = Path(path).with_suffix("").parts
    here = parts[1]
    if here not in FLOORS:
        return [f"{path}: give the area `{here}` a floor in tests/test_floors.py"]
    problems = []
    for module, line, inside_function in imported(ast.parse(source), ".".join(parts[:-1])):
        there = area_of(module)
        if there == "teaching":
            fine = here == "teaching" or inside_function
        elif here == "model":
            fine = there in MODEL_MAY_IMPORT
        else:
            floor = FLOORS.get(there, TOP)  # an area without a floor is reported by its own file
            fine = here == there or floor < FLOORS[here] or floor == FLOORS[here] in (1, TOP)
        if not fine:
            problems.append(f"{path}:{line} imports {module}: {here} may not import {there}")
    return problems


def test_imports_only_go_down() -> None:
    problems = [
        problem
        for path in sorted((ROOT / "pmd_lite").rglob("*.py"))
        for problem in upward_imports(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("pmd_lite/model/transformer.py", "from pmd_lite.data.tokenizer import PAD"),
        ("pmd_lite/model/transformer.py", "import pmd_lite.config"),
        ("pmd_lite/data/corpus.py", "from pmd_lite import train"),
        ("pmd_lite/data/corpus.py", "from pmd_lite import training"),
        ("pmd_lite/sampling/scorer.py", "from pmd_lite.distillation.losses import kd_loss"),
        ("pmd_lite/evaluation/bleu.py", "from ..sampling import temperature"),
        ("pmd_lite/training/trainer.py", "def f():\n    from pmd_lite.methods import METHODS"),
        ("pmd_lite/__init__.py", "from pmd_lite.teaching import plots"),
        ("pmd_lite/__init__.py", "from .teaching.plots import frontier"),
        ("pmd_lite/gadgets.py", ""),
    ],
)
def test_the_floor_check_sees_an_import_that_goes_up(path: str, source: str) -> None:
    assert len(upward_imports(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("pmd_lite/training/trainer.py", "from pmd_lite.distillation import losses\nfrom . import probe\nimport torch"),
        ("pmd_lite/__init__.py", "from .methods import METHODS\ndef plot():\n    from .teaching import plots"),
        ("pmd_lite/model/decoding.py", "from pmd_lite.errors import UserError\nfrom .transformer import Transformer"),
        ("pmd_lite/teaching/widgets.py", "import pmd_lite\nfrom pmd_lite import data"),
    ],
)
def test_the_floor_check_lets_downward_imports_pass(path: str, source: str) -> None:
    assert upward_imports(path, source) == []
