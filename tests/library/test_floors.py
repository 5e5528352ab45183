"""The house: every room has a floor, and a file imports only from its own room and from floors below. No circles."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"pmd_lite": ROOT, "pmd_kit": ROOT / "lessons", "pmd_corpora": ROOT / "data_scripts"}

# From the ground up. Rooms of one floor do not know each other. A new file or folder of pmd_lite gets its place here.
FLOORS = (
    ("errors",),
    ("disk", "model"),
    ("config",),
    ("data",),
    ("interfaces", "evaluation"),
    ("sampling", "distillation"),
    ("methods", "training"),
    ("exchange", "figures"),
    ("run", "pmd_corpora"),
    ("auxiliary", "reports"),
    ("api",),
    ("processes", "planning"),
    ("comparing",),
    ("cli",),
    ("__init__", "__main__"),
    ("pmd_kit",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
LOOSE = {"errors", "disk", "interfaces", "methods", "auxiliary", "api", "run", "processes", "__init__", "__main__"}
# Lines of pmd_lite: the bar of the house's plan. Beside the method and the rivals they hold: runs that continue beyond
# their end, starts from one's own runs and exports, languages that join a trained vocabulary, TER, CSV, data frames,
# a hook for metrics, HTML and bars in notebooks; a search decided by accuracy or chrF, ensembles that teach and
# translate; help that comes without torch, lessons out of a wheel, sentencepiece models of one's own; means of
# checkpoints, CTranslate2 as an engine, answers line by line, opus-mt by its name and back to transformers.
MOST_LINES = 14_500


def sources() -> dict[str, str]:
    """{module: its text} of the three packages; a package's own file is called like the package."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def room_of(module: str) -> str:
    """`pmd_lite.data.corpus` -> `data`, `pmd_lite` -> `__init__`; the kit and the corpora are one room each."""
    package, *rest = module.split(".")
    return (rest[0] if rest else "__init__") if package == "pmd_lite" else package


def imported(module: str, text: str, modules: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """(module, line) of every import of our modules in a file, also inside functions and for type checkers."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno}: write the whole name of the module"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else str(node.module) for name in whole]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name.split(".")[0] in PACKAGES)


def upward(modules: Mapping[str, str]) -> list[str]:
    """One sentence for each import that does not go down, and for each room without a floor."""
    problems = [f"give the room `{room}` a floor here" for room in sorted({room_of(m) for m in modules} - FLOOR.keys())]
    for module, text in modules.items():
        here = room_of(module)
        for other, line in imported(module, text, modules):
            there = room_of(other)
            if here != there and FLOOR.get(there, 0) >= FLOOR.get(here, 0):
                problems.append(f"{module}:{line} imports {other}: {here} may not import {there}")
    return problems


def circles(modules: Mapping[str, str]) -> list[list[str]]:
    """Files that import each other in a loop."""
    below = {module: {name for name, _ in imported(module, text, modules)} for module, text in modules.items()}
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(path[path.index(module) :])
        elif module not in done:
            for other in sorted(below.get(module, ())):
                visit(other, [*path, module])
            done.add(module)

    for module in modules:
        visit(module, [])
    return found


@pytest.mark.slow
def test_imports_only_go_down() -> None:
    assert not upward(sources())


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle() -> None:
    assert not circles(sources())


def test_the_library_is_compact() -> None:
    modules = {name: text.count("\n") for name, text in sources().items() if room_of(name) not in PACKAGES}
    assert {room_of(name) for name in modules if (ROOT / "pmd_lite" / f"{room_of(name)}.py").exists()} <= LOOSE
    rooms: Counter[str] = Counter()
    for name, lines in modules.items():
        rooms[room_of(name)] += lines
    assert sum(rooms.values()) <= MOST_LINES
    assert max(rooms.values()) < 0.2 * sum(rooms.values()), "a room as large as that is several rooms"


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("pmd_lite.model.transformer", "from pmd_lite.data.tokenizer import PAD"),
        ("pmd_lite.model.transformer", "import pmd_lite.config"),
        ("pmd_lite.data.corpus", "from pmd_lite import train"),
        ("pmd_lite.data.corpus", "from pmd_lite import training"),
        ("pmd_lite.sampling.scorer", "from pmd_lite.distillation.losses import kd_loss"),
        ("pmd_lite.training.trainer", "def f():\n    from pmd_lite.methods import METHODS"),
        ("pmd_lite.training.progress", "if TYPE_CHECKING:\n    from pmd_lite.run import Run"),
        ("pmd_lite.cli.arguments", "from pmd_kit import l10"),
        ("pmd_corpora.ted8", "from pmd_lite.api import train"),
        ("pmd_lite.gadgets", ""),
    ],
)
def test_the_check_sees_an_import_that_goes_up(module: str, text: str) -> None:
    everything = {"pmd_lite": "", "pmd_lite.training": "", "pmd_lite.config": ""}
    assert len(upward({**everything, module: text})) == 1


def test_the_check_sees_a_circle() -> None:
    modules = {"pmd_lite.a": "from pmd_lite import b", "pmd_lite.b": "def f():\n    import pmd_lite.c",
               "pmd_lite.c": "from pmd_lite.a import x"}  # fmt: skip
    assert circles(modules) == [["pmd_lite.a", "pmd_lite.b", "pmd_lite.c"]]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("pmd_lite.training.trainer", "from pmd_lite.distillation import losses\nfrom pmd_lite.training import probe"),
        ("pmd_lite.model.decoding", "from pmd_lite.errors import UserError\nimport torch"),
        ("pmd_kit.widgets", "import pmd_lite\nfrom pmd_lite import data"),
        ("pmd_lite.cli.commands", "def f():\n    from pmd_corpora import ted8"),
    ],
)
def test_the_check_lets_downward_imports_pass(module: str, text: str) -> None:
    assert upward({"pmd_lite": "", "pmd_lite.data": "", module: text}) == []
