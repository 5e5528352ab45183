"""Other places to run the lessons (dev container, Binder, Colab): what can be checked without their servers."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FAQ = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
IMAGE_BRINGS = {"IPython", "pygments"}  # JupyterLab and its kernel are part of Binder's image
BROUGHT_BY = {"PIL": "matplotlib"}
PACKAGES = {"pmd_lite", "pmd_kit", "pmd_corpora"}  # what `pip install` of this repository installs


def supported(version: str) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return version in SpecifierSet(project["requires-python"])


@pytest.fixture(scope="module")
def container() -> dict[str, Any]:
    return dict(json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")))


# ---------------------------------------------------------------- dev container


def test_its_python_is_one_that_the_package_supports(container: dict[str, Any]) -> None:
    (version,) = re.findall(r"python:\d+-(\d+\.\d+)-", container["image"])
    assert version == "3.11" and supported(version)


def test_it_takes_the_small_torch_as_readme_and_binder_do(container: dict[str, Any]) -> None:
    assert container["containerEnv"]["PIP_EXTRA_INDEX_URL"] == CPU_INDEX
    assert CPU_INDEX in README and CPU_INDEX in (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8")


def test_it_installs_what_the_readme_installs_by_hand(container: dict[str, Any]) -> None:
    words = container["postCreateCommand"].split()
    assert words[0] == "make"
    if shutil.which("make") is None:
        pytest.skip("no make here")
    shown = subprocess.run([*words, "-n", "-B"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps = re.findall(r"pip (?:--\S+ )*install\s+(.+)", shown)
    by_hand = re.findall(r"^pip install (.+)$", README, flags=re.MULTILINE)
    assert steps == by_hand[:2] == ["-r requirements.txt", "--no-deps -e ."]
    assert (
        words[1].partition("/")[0] in container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    )


def test_it_opens_notebooks_that_exist_and_jupyters_port(container: dict[str, Any]) -> None:
    notebooks = container["customizations"]["codespaces"]["openFiles"]
    assert notebooks and all((ROOT / name).exists() for name in notebooks)
    assert container["forwardPorts"] == [8888] and list(container["portsAttributes"]) == ["8888"]
    assert container["containerEnv"]["PMD_SIZE"] == "lesson"


# ---------------------------------------------------------------- Binder


def always_imported(tree: ast.Module) -> Iterator[str]:
    """Top-level names of packages that a file imports as it is loaded, outside `try` and `if TYPE_CHECKING`."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def test_binder_has_all_that_lessons_and_library_import() -> None:
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    installed = {Requirement(line.partition("#")[0]).name for line in lines if re.match(r"[a-z]", line)}
    folders = [ROOT / "lessons" / "src", ROOT / "lessons" / "pmd_kit", ROOT / "pmd_lite"]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    missing = {}
    for path in files:
        for name in always_imported(ast.parse(path.read_text(encoding="utf-8"))):
            known = name in sys.stdlib_module_names or name in {*PACKAGES, *IMAGE_BRINGS}
            if not known and BROUGHT_BY.get(name, name) not in installed:
                missing[path.relative_to(ROOT).as_posix()] = name
    assert not missing


def test_binders_python_is_supported_and_its_files_are_those_it_reads() -> None:
    assert supported((ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-"))
    names = {path.name for path in (ROOT / "binder").iterdir()}
    assert names == {"requirements.txt", "runtime.txt", "apt.txt", "postBuild", "start"}


# ---------------------------------------------------------------- addresses and the cell for Colab


def test_addresses_lead_to_files_that_exist() -> None:
    named = re.findall(r"https://\S+?/(lessons/\w+\.ipynb)`", FAQ) + re.findall(r"labpath=(lessons/\w+\.ipynb)`", FAQ)
    assert len(named) >= 2 and all((ROOT / name).exists() for name in named)


def test_the_cell_for_colab_installs_the_clone_and_goes_to_its_lessons() -> None:
    (cell,) = re.findall(r"```python\n(!git clone.*?)```", FAQ, flags=re.DOTALL)
    clone, install, enter = cell.strip().splitlines()
    folder = clone.split()[-1]
    assert install == f"%pip install -q ./{folder}" and (ROOT / "pyproject.toml").exists()
    assert enter == f"%cd {folder}/lessons" and (ROOT / "lessons").is_dir()
