"""The tools that build, run and show the lessons, tried on a lesson of a few cells."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from lessons import build as builder
from lessons.demo import demo
from lessons.execution import CellFailed, figures, result_tables, run, stderr_texts

ROOT = Path(__file__).resolve().parents[2]
PNG = base64.b64encode(b"\x89PNG not looked at").decode()

SOURCE = f'''# %% [markdown]
# # A tiny lesson
#
# ```
# # not a heading
# ```

# %%
import os, sys
print("one", flush=True)
print("two")
print("10 %\\r100 %")
print("a warning", file=sys.stderr)

# %% tags=["widget"]
import ipywidgets
ipywidgets.IntSlider()

# %% tags=["result-table"]
from pathlib import Path
print("size", os.environ.get("PMD_SIZE"))
print(Path("note.txt").read_text(encoding="utf-8"))
Path("written.txt").write_text("x", encoding="utf-8")

# %% [markdown]
# ## The figure

# %%
from IPython.display import display
display({{"image/png": "{PNG}"}}, raw=True, metadata={{"image/png": {{"alt": "a <line> that rises"}}}})
display({{"text/html": '<img src="data:image/png;base64,{PNG}" alt="two &lt; three">'}}, raw=True)

# %% tags=["raises-exception"]
raise KeyError("shown on purpose")

# %% tags=["exercise"]
answer = None
### BEGIN SOLUTION
answer = 42
### END SOLUTION
print('answer', answer)
### BEGIN HIDDEN TESTS
assert answer == 42
### END HIDDEN TESTS
'''


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """A folder with the source of one lesson and a file beside it."""
    folder = tmp_path / "lessons"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "00_tiny.py").write_text(SOURCE, encoding="utf-8")
    (folder / "note.txt").write_text("a note", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder with its lesson built twice; both results must be the same bytes. Tests copy what they change."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "src").mkdir()
    (folder / "src" / "00_tiny.py").write_text(SOURCE, encoding="utf-8")
    (folder / "note.txt").write_text("a note", encoding="utf-8")
    assert builder.main(["--only", "00"], folder) == 0
    first = (folder / "00_tiny.ipynb").read_bytes()
    assert builder.main([], folder) == 0
    assert (folder / "00_tiny.ipynb").read_bytes() == first
    return folder


def test_a_built_notebook_keeps_what_lasts(built: Path) -> None:
    nb = nbformat.read(built / "00_tiny.ipynb", as_version=4)
    assert [cell.id for cell in nb.cells] == [f"00-{i:03d}" for i in range(len(nb.cells))]
    assert set(nb.metadata) == {"kernelspec", "language_info"}
    by_cell = [[out.output_type for out in cell.get("outputs", [])] for cell in nb.cells]
    assert by_cell[:4] == [[], ["stream"], [], ["stream", "execute_result"]]
    assert by_cell[4:] == [[], ["display_data"] * 2, ["error"], ["stream"]]
    assert nb.cells[1].outputs[0].text == "one\ntwo\n100 %\n"
    assert nb.cells[6].outputs[0].traceback == ["KeyError: 'shown on purpose'"]
    assert not stderr_texts(nb)
    assert [(figure.cell, figure.png, figure.alt) for figure in figures(nb)] == [
        (6, PNG, "a <line> that rises"),
        (6, PNG, "two < three"),
    ]
    assert result_tables(nb) == ["size lesson\na note", "1"]
    assert not (built / "written.txt").exists(), "a lesson wrote into the folder it was built from"


def test_a_learner_gets_dots_where_the_solution_stands() -> None:
    text = "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION\n\nprint(1)"
    assert builder.without_solution(text, "x.py") == "def f(x):\n    # YOUR CODE HERE\n    ...\n\nprint(1)"
    hidden = "check(f)\n### BEGIN HIDDEN TESTS\ncheck(f, seed=2)\n### END HIDDEN TESTS"
    assert builder.without_hidden_tests(hidden, "x.py") == "check(f)"


@pytest.mark.parametrize(
    "text",
    ["### BEGIN SOLUTION\nx = 1", "x = 1\n### END SOLUTION", 2 * "### BEGIN SOLUTION\n" + "### END SOLUTION"],
)
def test_unpaired_markers_are_refused(text: str) -> None:
    with pytest.raises(builder.LessonError, match="SOLUTION"):
        builder.without_solution(text, "x.py")


@pytest.mark.slow
def test_both_versions_come_from_one_source(built: Path) -> None:
    paths = ("00_tiny.ipynb", "solutions/00_tiny.ipynb")
    learner, solved = (nbformat.read(built / path, as_version=4) for path in paths)
    (ours,), (theirs,) = ([c for c in nb.cells if "answer" in c.source] for nb in (learner, solved))
    assert ours.source == "answer = None\n# YOUR CODE HERE\n...\nprint('answer', answer)"
    assert theirs.source == "answer = None\nanswer = 42\nprint('answer', answer)"
    assert (ours.outputs[0].text, theirs.outputs[0].text) == ("answer None\n", "answer 42\n")
    assert not any("HIDDEN" in cell.source for nb in (learner, solved) for cell in nb.cells)
    assert [cell.id for cell in learner.cells] == [cell.id for cell in solved.cells]


def test_check_names_a_stale_solution(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "lessons")
    (tmp_path / "lessons" / "solutions" / "00_tiny.ipynb").unlink()
    assert builder.check(tmp_path / "lessons") == ["solutions/00_tiny.ipynb has not been built: run `make lessons`."]


def test_check_is_content_with_a_fresh_build(built: Path) -> None:
    assert builder.check(built) == []


def copy_of(built: Path, to: Path) -> Path:
    for folder in ("src", "solutions"):
        (to / folder).mkdir(parents=True)
    for name in ("00_tiny.ipynb", "solutions/00_tiny.ipynb", "src/00_tiny.py"):
        (to / name).write_bytes((built / name).read_bytes())
    return to


@pytest.mark.parametrize(
    ("old", "new"),
    [('print("two")', 'print("three")'), ("# ## The figure", "# ## A figure"), ('["widget"]', '["slider"]')],
)
def test_check_names_a_notebook_whose_source_changed(built: Path, tmp_path: Path, old: str, new: str) -> None:
    folder = copy_of(built, tmp_path / "copy")
    (folder / "src" / "00_tiny.py").write_text(SOURCE.replace(old, new), encoding="utf-8")
    names = [line.split(" differs from src/00_tiny.py")[0] for line in builder.check(folder)]
    assert names == ["00_tiny.ipynb", "solutions/00_tiny.ipynb"]
    assert builder.main(["--check"], folder) == 1


@pytest.mark.slow
def test_a_translated_lesson_keeps_its_outputs(built: Path, tmp_path: Path) -> None:
    """What docs/instructor.md says: translate the prose cells, then --text; changed code asks for an execution."""
    folder = copy_of(built, tmp_path / "copy")
    translated = SOURCE.replace("A tiny lesson", "Eine kleine Lektion").replace("The figure", "Das Bild")
    (folder / "src" / "00_tiny.py").write_text(translated, encoding="utf-8")
    assert builder.retell(folder / "src" / "00_tiny.py", folder) and builder.check(folder) == []
    old, new = (nbformat.read(of / "00_tiny.ipynb", as_version=4).cells for of in (built, folder))
    assert "Eine kleine Lektion" in new[0].source and [code_cell(cell) for cell in new] == [code_cell(c) for c in old]
    (folder / "src" / "00_tiny.py").write_text(translated.replace('"two"', '"zwei"'), encoding="utf-8")
    assert not builder.retell(folder / "src" / "00_tiny.py", folder)


def code_cell(cell: NotebookNode) -> object:
    return (cell.source, cell.outputs) if cell.cell_type == "code" else None


def test_check_sees_unexecuted_missing_and_orphaned_notebooks(built: Path, tmp_path: Path, lessons: Path) -> None:
    assert "has not been built" in builder.check(lessons)[0]
    folder = copy_of(built, tmp_path / "copy")
    nb = nbformat.read(folder / "00_tiny.ipynb", as_version=4)
    nb.cells[1].execution_count = None
    nbformat.write(nb, folder / "00_tiny.ipynb")
    (folder / "05_lost.ipynb").write_text("{}", encoding="utf-8")
    complaints = builder.check(folder)
    assert "not executed" in complaints[0]
    assert "05_lost.ipynb has no source" in complaints[1]
    assert "There is no lesson" in builder.check(tmp_path)[0]


@pytest.mark.parametrize("title", ["## Only a second level", "# One\n#\n# # Two"])
def test_a_lesson_has_exactly_one_title(lessons: Path, title: str) -> None:
    source = lessons / "src" / "00_tiny.py"
    source.write_text(f"# %% [markdown]\n# {title}\n", encoding="utf-8")
    assert "first-level headings" in builder.check(lessons)[0]
    with pytest.raises(builder.LessonError):
        builder.load(source)


def test_a_widget_in_an_untagged_cell_is_refused(lessons: Path) -> None:
    view = nbformat.v4.new_output("display_data", {"application/vnd.jupyter.widget-view+json": {}})
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("w", outputs=[view])])
    with pytest.raises(builder.LessonError, match="cell 1 shows a widget"):
        builder.tidy(nb, "00_tiny.py")


def failing_notebook() -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell("x = 1"), nbformat.v4.new_code_cell("y = [1]\ny[x]")]
    return nbformat.v4.new_notebook(cells=cells)


def test_a_failing_cell_is_named_with_its_source_and_error(tmp_path: Path) -> None:
    with pytest.raises(CellFailed) as caught:
        run(failing_notebook(), tmp_path, name="07_x.ipynb", size="ci", timeout=60)
    message = str(caught.value)
    assert message.startswith("07_x.ipynb, cell 2 failed:\n\n    y = [1]\n    y[x]\n")
    assert message.endswith("IndexError: list index out of range") and "\x1b" not in message
    assert caught.value.last_line == "IndexError: list index out of range"


@pytest.mark.slow
def test_a_cell_that_never_ends_is_stopped(tmp_path: Path) -> None:
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("while True: pass")])
    with pytest.raises(CellFailed, match="longer than 1 seconds"):
        run(nb, tmp_path, name="07_x.ipynb", timeout=1)


@pytest.mark.slow
def test_demo_shows_the_table_and_leaves_page_and_figures(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert demo(built / "00_tiny.ipynb", out) == 0
    printed = capsys.readouterr().out
    assert "\na note\n" in printed and "The figure" in printed and "a <line> that rises" in printed
    for picture in ("figure_01.png", "figure_02.png"):
        assert (out / picture).read_bytes() == b"\x89PNG not looked at"
    page = (out / "00_tiny.html").read_text(encoding="utf-8")
    assert PNG in page and 'alt="a &lt;line&gt; that rises"' in page and "No description has been provided" not in page
    assert 'type="application/vnd.jupyter.widget-view+json"' not in page, "a page without a kernel holds a dead widget"
    assert nbformat.read(out / "00_tiny.ipynb", as_version=4).cells[3].outputs


def test_demo_explains_a_failing_cell_without_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lessons").mkdir()
    nbformat.write(failing_notebook(), tmp_path / "lessons" / "00_x.ipynb")
    assert demo(tmp_path / "lessons" / "00_x.ipynb", tmp_path / "demo") == 1
    error = capsys.readouterr().err
    assert "Cell 2 of 00_x.ipynb failed" in error and "    y[x]" in error
    assert error.endswith("IndexError: list index out of range\n") and "Traceback" not in error


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_ctrl_c_ends_the_demo_and_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "lessons").mkdir()
    cell = "import os, time, pathlib\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)"
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(nb, tmp_path / "lessons" / "00_x.ipynb")
    # What runs in the background of a shell without job control ignores Ctrl-C, and so would this child.
    call = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    call += f"import pathlib, sys; from lessons.demo import demo; sys.exit(demo(pathlib.Path({str(tmp_path)!r}, "
    call += f"'lessons', '00_x.ipynb'), pathlib.Path({str(tmp_path)!r}, 'demo')))"
    pid_file = tmp_path / "demo" / "pid"
    with subprocess.Popen([sys.executable, "-c", call], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        waited_until = time.monotonic() + 60
        while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < waited_until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()  # else leaving the block waits for it
    assert process.returncode == 130
    assert "Stopped" in error and "Traceback" not in error
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
