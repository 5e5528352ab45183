"""The program that stands in for Python in the tests of lessons: what it starts is warm, and else as with Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="it forks")]


def said(warm: Path, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(warm), *words], capture_output=True, text=True, timeout=60, **how)


def test_it_has_imported_what_a_run_needs(warm: Path) -> None:
    code = "import sys; print(__name__, *(x in sys.modules for x in ('torch', 'pmd_lite.api', 'ipykernel.kernelapp')))"
    assert said(warm, "-c", code).stdout == "__main__ True True True\n"


def test_folder_environment_arguments_and_input_are_those_it_was_given(warm: Path, tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['WORD'], sys.argv, input())"
    found = said(warm, "-c", code, "a", "b", cwd=tmp_path, env={**os.environ, "WORD": "w"}, input="line\n")
    assert found.stdout == f"{tmp_path.resolve()} w ['-c', 'a', 'b'] line\n" and found.returncode == 0


def test_a_module_and_a_file_run_as_a_program(warm: Path, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("import sys, beside; print(__name__, sys.argv[1:], beside.__file__)", encoding="utf-8")
    (tmp_path / "beside.py").touch()
    assert said(warm, str(file), "x").stdout == f"__main__ ['x'] {tmp_path / 'beside.py'}\n"
    assert said(warm, "-m", "program", "x", cwd=tmp_path).stdout == f"__main__ ['x'] {tmp_path / 'beside.py'}\n"


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [("import sys; sys.exit(3)", 3, ""), ("import sys; sys.exit('so')", 1, "so\n"), ("1 / 0", 1, "ZeroDivisionError"),
     ("import os; os.kill(os.getpid(), 15)", -15, ""), ("import os; os.kill(os.getpid(), 9)", -9, ""),
     ("import atexit, sys; atexit.register(print, 'end', file=sys.stderr)", 0, "end\n")],
)  # fmt: skip
def test_it_ends_as_its_process_ends(warm: Path, code: str, status: int, says: str) -> None:
    found = said(warm, "-c", code)
    assert found.returncode == status and says in found.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_its_process(warm: Path, number: signal.Signals) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"
    with subprocess.Popen([str(warm), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout
        process = int(program.stdout.readline())
        program.send_signal(number)
        assert program.wait(60) == -number
        until = time.monotonic() + 20  # when it is killed it can say nothing, and somebody else notices its end
        while (lives := Path("/proc", str(process)).exists()) and time.monotonic() < until:
            time.sleep(0.01)
        if lives:
            os.kill(process, signal.SIGKILL)
    assert not lives


def test_what_its_processes_start_is_warm_too(warm: Path, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "import multiprocessing, sys\n"
        "def look(): print('torch' in sys.modules, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    for method in ('forkserver', 'spawn'):\n"
        "        process = multiprocessing.get_context(method).Process(target=look)\n"
        "        process.start(), process.join()\n",
        encoding="utf-8",
    )
    assert said(warm, str(file)).stdout == "True\nTrue\n"


def test_where_a_variable_would_have_changed_an_import_a_new_process_starts(warm: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    assert said(warm, "-c", "import sys; print('torch' in sys.modules)", env=environment).stdout == "False\n"
