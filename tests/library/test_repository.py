"""Promises of the repository as a whole: docstrings, sizes, pins, links, notebooks, scripts."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import pmd_lite as pmd
from lessons import build as builder
from lessons.execution import code_outputs, figures, stderr_texts
from pmd_lite.config import preset

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "lessons").glob("*.ipynb"))
MAX_LINES = 350
MAX_NOTEBOOK_BYTES = 300_000
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)  # in Markdown: a fenced block or inline code


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_is_something_to_check() -> None:
    assert len(python_files("pmd_lite")) > 20, "these tests look at the wrong folder"


# --- code -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_public_function_and_class_says_what_it_is() -> None:
    silent = []
    for path in python_files("pmd_lite", "lessons/pmd_kit", "data_scripts"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree) and tree.body:
            silent.append(f"{relative(path)}: the file")
        for node in tree.body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_") and not ast.get_docstring(node):
                silent.append(f"{relative(path)}:{node.lineno} {node.name}")
    assert not silent, "without a docstring:\n" + "\n".join(silent)


def test_no_file_is_too_long_to_be_read_in_one_sitting() -> None:
    files = [
        *python_files("pmd_lite", "lessons/pmd_kit", "data_scripts", "benchmarks"),
        *(ROOT / "lessons").glob("*.py"),  # lesson sources are mostly prose, and as long as their notebook
    ]
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert not {name: count for name, count in lines.items() if count > MAX_LINES}, f"longer than {MAX_LINES} lines"


# --- requirements -----------------------------------------------------------------------------------------------------


def requirement_lines(path: Path) -> list[tuple[str, str]]:
    """(requirement, reason) for each line with a package; the reason is the comment there, else above its group."""
    found, above = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        requirement, _, comment = (part.strip() for part in line.partition("#"))
        if not requirement:
            above = comment  # an empty line ends what a comment explains
        elif not requirement.startswith("-"):
            found.append((requirement, comment or above))
    return found


def pins(path: Path) -> dict[str, str]:
    """{package: version} of a requirements file in which every version is fixed."""
    found = {}
    for text, _ in requirement_lines(path):
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{path.name}: {text} must fix one version with =="
        found[requirement.name] = specifier.version
    return found


REQUIREMENT_FILES = [*sorted(ROOT.glob("requirements*.txt")), ROOT / "binder" / "requirements.txt"]


@pytest.mark.parametrize("path", REQUIREMENT_FILES, ids=relative)
def test_every_requirement_is_pinned_and_has_a_reason(path: Path) -> None:
    assert pins(path)
    unexplained = [requirement for requirement, reason in requirement_lines(path) if len(reason) < 10]
    assert not unexplained, f"{relative(path)}: say in a comment why it needs {unexplained}"


def test_the_constraints_hold_the_pins_and_what_they_need() -> None:
    held = pins(ROOT / "constraints.txt")
    files = [ROOT / f"requirements{name}.txt" for name in ("", "-dev", "-export", "-download")]
    assert {name.lower(): held.get(name.lower().replace("_", "-")) for file in files for name in pins(file)} == {
        name.lower(): version for file in files for name, version in pins(file).items()
    }
    assert {"jinja2", "tokenizers", "contourpy"} <= held.keys()


def test_binder_has_the_pins_of_the_root() -> None:
    root, binder = pins(ROOT / "requirements.txt"), pins(ROOT / "binder" / "requirements.txt")
    public = {name: Version(version).public for name, version in binder.items()}  # 2.13.0+cpu is 2.13.0
    assert public == {name: root.get(name) for name in public}
    assert binder["torch"].endswith("+cpu"), "the default build for Linux does not fit into a small image"


def test_pinned_versions_lie_in_the_ranges_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    root, binder = pins(ROOT / "requirements.txt"), pins(ROOT / "binder" / "requirements.txt")
    ranges = [Requirement(text) for text in project["dependencies"]]
    assert {requirement.name for requirement in ranges} == set(binder), "binder installs what the package depends on"
    more = [ROOT / f"requirements-{name}.txt" for name in ("dev", "export", "download", "site")]
    developer = root | {name: version for file in more for name, version in pins(file).items()}
    extras = [Requirement(text) for group in project["optional-dependencies"].values() for text in group]
    users = {"mtdata", "tensorboard", "wandb"}  # programs of their own: a checkout has no pins for them
    outside = [
        str(r) for r in (*ranges, *extras) if r.name not in users and developer.get(r.name, "0") not in r.specifier
    ]
    assert not outside, f"the pins of requirements.txt do not satisfy pyproject.toml: {outside}"


@pytest.mark.parametrize("name", ["export", "download", "site"])
def test_an_extra_installs_what_its_requirements_file_does(name: str) -> None:
    """Users of the wheel have no such file: messages name the extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {Requirement(text).name for text in project["optional-dependencies"][name]}
    assert extra == set(pins(ROOT / f"requirements-{name}.txt"))


def test_messages_name_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for path in python_files("pmd_lite", "data_scripts", "lessons/pmd_kit"):
        text = path.read_text(encoding="utf-8")
        assert "pip install -r" not in text, f"{relative(path)}: users of the wheel have no requirements files"
        named = {extra for group in re.findall(r"pmd_lite\[([a-z,]+)\]", text) for extra in group.split(",")}
        assert named <= project["optional-dependencies"].keys(), relative(path)


def test_citation_names_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


# --- scripts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".ci/run", "binder/postBuild", "binder/start"])
def test_script_can_be_executed_and_parsed(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text.startswith("#!") and "set -euo pipefail" in text
    if os.name != "nt":  # Windows has no executable bit, and perhaps no bash
        assert os.access(ROOT / name, os.X_OK)
        subprocess.run(["bash", "-n", str(ROOT / name)], check=True)


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, flags=re.MULTILINE))


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "data_scripts" / "README.md"]


def existing(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.exists()]  # the others are named by test_documents_exist


def test_documents_name_only_make_targets_that_exist() -> None:
    targets = make_targets()
    unknown = []
    for path in existing(documents()):
        code = "\n".join(
            re.findall(r"^```.*?^```|`[^`\n]+`", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        )
        used = re.findall(r"^[`$ ]*make ([a-z][a-z-]*)", code, flags=re.MULTILINE)
        unknown += [f"{relative(path)}: make {name}" for name in used if name not in targets]
        if path.name == "README.md" and path.parent == ROOT:
            assert {"demo", "test"} <= set(used), "README.md shows the two commands `make demo` and `make test`"
    assert not unknown


# --- links ------------------------------------------------------------------------------------------------------------


def test_documents_exist() -> None:
    missing = [relative(path) for path in documents() if not path.exists()]
    assert not missing, f"not written yet: {missing}"


def markdown_texts() -> Iterator[tuple[str, Path, str]]:
    """(where, folder that links start from, Markdown) of every document and of the prose of every lesson."""
    for path in [*existing(documents()), *sorted((ROOT / "lessons").glob("*.md"))]:
        yield relative(path), path.parent, path.read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        for number, cell in enumerate(nbformat.read(path, as_version=4).cells, start=1):
            if cell.cell_type == "markdown":
                yield f"{relative(path)}, cell {number}", path.parent, cell.source


def local_links(text: str) -> list[tuple[str, str]]:
    """(label, path) of the links and images of a Markdown text that point to a file, code left aside."""
    prose = CODE.sub("", text)
    found = re.findall(r"(!?\[[^\]]*\])\(\s*<?([^)\s>]+)", prose)
    return [(label, target.split("#")[0]) for label, target in found if not re.match(r"[a-z]+:|#", target)]


def test_python_in_the_readme_calls_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    calls = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]
    assert len(calls) > 4
    owners = {"pmd": pmd, "run": pmd.Run}
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        assert isinstance(call.func.value, ast.Name)
        owner = owners[call.func.value.id]
        given = [None] * (len(call.args) + (owner is pmd.Run)), {str(word.arg): None for word in call.keywords}
        bound = inspect.signature(getattr(owner, call.func.attr)).bind(*given[0], **given[1])
        preset("toy", **{name: 1 for name in bound.arguments.get("overrides", {})})


def test_links_to_local_files_lead_somewhere() -> None:
    broken = [
        f"{where}: {target}"
        for where, folder, text in markdown_texts()
        for _, target in local_links(text)
        if not (folder / target).exists()
    ]
    assert not broken, "\n".join(broken)


def test_no_text_holds_both_sides_of_a_merge() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(path for folder in ("docs", "lessons/src", "data_scripts")
             for path in (ROOT / folder).rglob("*.*") if path.suffix in (".md", ".py"))]  # fmt: skip
    torn = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    assert not [relative(path) for path in texts if torn.search(path.read_text(encoding="utf-8"))]


def test_pictures_in_texts_have_a_text_alternative() -> None:
    silent = [where for where, _, text in markdown_texts() for label, _ in local_links(text) if label == "![]"]
    assert not silent


def test_link_finder_knows_a_link_from_code() -> None:
    text = "[a](x.md#part) ![](p.png)\n`[b](no)`\n```\n[c](no)\n```\n[d](https://e.org) [f](#here)"
    assert local_links(text) == [("[a]", "x.md"), ("![]", "p.png")]


# --- notebooks --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_notebooks_equal_their_sources() -> None:
    complaints = builder.check(ROOT / "lessons")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebook_holds_nothing_of_one_run(path: Path) -> None:
    nb = nbformat.read(path, as_version=4)
    assert "widgets" not in nb.metadata and not stderr_texts(nb)
    for number, out in code_outputs(nb):
        data = out.get("data", {})
        assert "application/vnd.jupyter.widget-view+json" not in data, f"cell {number} keeps a widget"
        words = " ".join([out.get("text", ""), data.get("text/plain", ""), *out.get("traceback", [])])
        found = re.search(r"at 0x[0-9a-f]{6,}|(?<![\w.])/(tmp|home|root|Users|work)/", words)
        assert not found, f"cell {number} shows an address or a folder of one machine: {words[:200]}"
    silent = sorted({figure.cell for figure in figures(nb) if not figure.alt})
    assert not silent, f"figures without a text alternative in cells {silent}"
    assert path.stat().st_size <= MAX_NOTEBOOK_BYTES
