"""A clean environment with the wheel alone: what a user of pip has, from a TSV to a translation by CTranslate2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from pmd_corpora.toy import toy_corpus

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("pmd_lite", "lessons", "data_scripts", "pyproject.toml", "README.md", "LICENSE")
SCRIPT = '''
"""Run from a directory with all.fra-eng.tsv and so on: data, train, evaluate, add a language, export, translate."""
import contextlib, io, os, re, sys
from pathlib import Path
import pmd_lite
from pmd_lite.cli.arguments import main

assert "site-packages" in pmd_lite.__file__, f"not the wheel: {pmd_lite.__file__}"

def said(*words):
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        assert main([*map(str, words)]) == 0, words
    return heard.getvalue()

shape = "--d-model 16 --heads 2 --encoder-layers 1 --decoder-layers 1 --ffn 32 --tokenizer.vocab-size 300".split()
tiny = "--method tau=1 --max-len 32 --tokens 160 --eval-every 3 --warmup 4 --beam 1 --show off".split()
cut = ["--valid", 4, "--test", 4, "--columns", 2, 3, "--score-column", 1, "--min-score", 0.5]
said("data", "local", "all.fra-eng.tsv", "all.deu-eng.tsv", *cut, "--out", "two")
said("data", "local", "all.fra-eng.tsv", "all.deu-eng.tsv", "all.tur-eng.tsv", *cut, "--out", "three")
said("train", "--corpus", "two", "--out", "run", "--steps", 6, *tiny, *shape)
assert "chrF" in said("evaluate", "run", "--metrics", "chrf")
said("train", "--corpus", "three", "--init", "run", "--out", "joined", "--steps", 3, *tiny)
said("export", "joined", "--to", "ctranslate2", "--out", "ct2")
trained = pmd_lite.Run("joined")
text = pmd_lite.load_corpus("three").test["tur-eng"][0][0]
want = trained.translate([text], "tur-eng")
os.chdir("ct2")
names = {}
exec(re.search(r"```python\\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)[1], names)
assert names["translate"]([text], "tur-eng") == want
print("done", trained.pairs)
'''


LESSON = """
import nbformat
from nbclient import NotebookClient

lesson = nbformat.read("10_auto_pmd.ipynb", as_version=4)
lesson.cells.append(nbformat.v4.new_code_cell("print(pmd.__file__, l10.__file__)"))
NotebookClient(lesson, timeout=300).execute()
print(lesson.cells[-1].outputs[0].text)
"""


def alone() -> dict[str, str]:
    """The variables of this process, without a path to the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: beside the checkout it would leave build/, whose old files go into the next wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / "source" / name)
    words = [
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(folder / "source"),
    ]
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment with the wheel, and the dependencies of this one, but not its project."""
    place = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    folder = "Scripts" if os.name == "nt" else "bin"
    python = place / folder / "python"
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *words], check=True, env=alone())
    (site,) = [path for path in place.rglob("site-packages") if path.is_dir()]
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return place / folder


def run(words: Sequence[str | Path], place: Path, **variables: str) -> str:
    """What a command prints, run in another directory with nothing of the checkout on the path."""
    place.mkdir(exist_ok=True)
    done = subprocess.run([*map(str, words)], cwd=place, env=alone() | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_nothing_of_a_general_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    ours = {path.relative_to(ROOT / home).as_posix() for home, package in
            ((".", "pmd_lite"), ("lessons", "pmd_kit"), ("data_scripts", "pmd_corpora"))
            for path in (ROOT / home / package).rglob("*.py")}  # fmt: skip
    assert {name for name in names if name.endswith(".py")} == ours
    assert {name.split("/")[0] for name in names if "dist-info" not in name and ".data" not in name} == {
        "pmd_lite", "pmd_kit", "pmd_corpora",
    }  # fmt: skip
    typed = {f"{package}/py.typed" for package in ("pmd_lite", "pmd_kit", "pmd_corpora")}
    assert {*typed, "pmd_lite/exchange/README.hf.md"} <= {*names}


@pytest.mark.slow
def test_lessons_are_copied_out_of_the_wheel(clean: Path, tmp_path: Path) -> None:
    script = clean / "pmd-lite"
    assert run([script, "--version"], tmp_path).startswith("pmd_lite ")
    run([script, "lessons", "course"], tmp_path)
    copied, ours = tmp_path / "course", ROOT / "lessons"
    for pattern in ("*.ipynb", "solutions/*.ipynb", "results/**/*.json*"):
        names = {path.relative_to(ours) for path in ours.glob(pattern)}
        assert names and {path.relative_to(copied) for path in copied.glob(pattern)} == names
        assert all((copied / name).read_bytes() == (ours / name).read_bytes() for name in names)
    (copied / "00_the_whole_story.ipynb").write_text("{}", encoding="utf-8")
    (copied / "16_beyond_the_paper.ipynb").unlink()
    with pytest.raises(AssertionError, match=r"00_the_whole_story\.ipynb: 1 files there differ from ours"):
        run([script, "lessons", "course"], tmp_path)
    assert not (copied / "16_beyond_the_paper.ipynb").exists(), "a refused call copies nothing"


@pytest.mark.slow
def test_a_copied_lesson_runs_outside_the_checkout(clean: Path, tmp_path: Path) -> None:
    run([clean / "pmd-lite", "lessons", "course"], tmp_path)
    said = run([clean / "python", "-c", LESSON], tmp_path / "course", PMD_SIZE="ci")
    assert [Path(line).is_relative_to(clean.parent) for line in said.split()] == [True, True], said


@pytest.mark.slow
def test_from_a_tsv_to_a_translation(clean: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason='not installed: pip install "pmd_lite[export]"')
    work = tmp_path / "work"
    work.mkdir()
    corpus = toy_corpus("toy", head=60, minimum=30, held=6, nouns=10, verbs=4, adjectives=3)
    for pair in ("fra-eng", "deu-eng", "tur-eng"):
        rows = "".join(f"1\t{src}\t{trg}\n0.1\tbad\tworse\n" for src, trg in corpus.train[pair])
        (work / f"all.{pair}.tsv").write_text(rows, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    assert "tur-eng" in run([clean / "python", tmp_path / "script.py"], work)
