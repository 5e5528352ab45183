"""A Python that starts warm: one process imports what every run imports, and forks for each that is to start.

A new process spends seconds on importing PyTorch. A fork of one that has imported it, and has done nothing else, is as
fresh. `warm_python` gives a program to start in place of `python`. It passes folder, environment, open files and
signals on to the fork, and ends as the fork ends. Only on Linux.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

AT_START = ("PYTHONPATH", "PYTHONHASHSEED", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that Python or PyTorch reads once: where they have changed, a new process starts."""


@contextmanager
def warm_python(folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Start the process that forks; gives the program."""
    from subprocess import PIPE, Popen

    place, program = f"warm-python-{os.getpid()}-{folder.name}", folder / "python"
    words = [sys.executable, "-SE", __file__, "--connect", place, sys.executable, _at_start(environment)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    command = [sys.executable, __file__, "--serve", place, str(program)]
    with Popen(command, stdin=PIPE, stdout=PIPE, env=dict(environment)) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield program
        process.stdin.close()  # the process ends with its input, so also when this one is killed


def _at_start(environment: Mapping[str, str]) -> str:
    return json.dumps([environment.get(name) for name in AT_START])


# ---- the program


def connect(place: str, python: str, at_start: str, words: Sequence[str]) -> None:
    """Have a process forked, pass signals on to it, and end as it ends; end it where the parent ends."""
    words = words[1:] if words[:1] == ["-B"] else words  # multiprocessing passes it on
    known = words[:1] in (["-c"], ["-m"]) or (words[:1] and words[0].endswith(".py"))
    if not known or _at_start(os.environ) != at_start:
        os.execv(python, [python, *words])
    parent, said = os.getppid(), b""
    files = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number)]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{place}")
        told = {"folder": os.getcwd(), "environment": dict(os.environ), "words": [*words], "files": files}
        message = json.dumps(told).encode()
        socket.send_fds(connection, [len(message).to_bytes(4, "big")], files)
        connection.sendall(message)
        process = int.from_bytes(connection.recv(4), "big")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda number, _: os.kill(process, number))
        while not select.select([connection], [], [], 1)[0]:
            if os.getppid() != parent:
                return
        said = connection.recv(2)
    if not said:
        sys.exit("The process that watches ended before it could say how the other one ended.")
    status = int.from_bytes(said, "big", signed=True)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    sys.exit(status)


def _is_open(number: int) -> bool:
    """Not so the file with which /proc/self/fd was listed."""
    try:
        return fcntl.fcntl(number, fcntl.F_GETFD) >= 0
    except OSError:
        return False


# ---- the process that forks


def serve(place: str, program: str) -> None:
    """Import, then fork for each process that connects, until the standard input ends."""
    del sys.path[0]  # the folder of this file: nobody else looks there
    os.environ.pop("JPY_PARENT_PID", None)  # or each kernel would end because that process has not started it
    for name in ("ipykernel.kernelapp", "ipywidgets", "matplotlib.figure", "pmd_lite.api", "pmd_lite.cli.arguments"):
        importlib.import_module(name)
    sys.modules["multiprocessing"].set_executable(program)
    sys.executable = program
    gc.collect()
    gc.freeze()  # or each fork would copy what its collector looks at
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{place}")  # no file: the path to one may be too long
        server.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                watch(connection)
            connection.close()


def watch(connection: socket.socket) -> None:
    """Fork the process, say how it ends, kill it where the other end of the connection ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(connection, 4, 250)
    told = json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
    if (process := os.fork()) == 0:
        connection.close()
        become(told, files)
    for number in files:
        os.close(number)
    connection.sendall(process.to_bytes(4, "big"))
    ended = threading.Event()
    threading.Thread(
        target=lambda: connection.recv(1) or ended.is_set() or os.kill(process, signal.SIGKILL), daemon=True
    ).start()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    ended.set()
    with suppress(BrokenPipeError):
        connection.sendall(status.to_bytes(2, "big", signed=True))
    os._exit(0)


def become(told: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
    """Take folder, environment and open files of the program that connected, run what it was told to run, and end."""
    for number, copy in zip(told["files"], [_out_of_the_way(number) for number in files], strict=True):
        os.dup2(copy, number)
        os.close(copy)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    if backend := os.environ.get("MPLBACKEND"):
        sys.modules["matplotlib"].rcParams["backend"] = backend  # which it took from the environment, once
    status: object = None
    try:
        run(told["words"], told["folder"])
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        traceback.print_exc()
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(status, str):
        print(status, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.closed or stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    # Taking the interpreter down would copy all the memory that is shared with the process that forks.
    os._exit(status if isinstance(status, int) else status is not None)


def run(words: Sequence[str], folder: str) -> None:
    """What Python does with its arguments."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    match words:
        case ["-m", module, *more]:
            sys.argv, sys.path[:0] = [module, *more], [folder]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *more]:
            sys.argv, sys.path[:0] = ["-c", *more], [""]
            exec(compile(code, "<string>", "exec"), main.__dict__)
        case [file, *more]:
            sys.argv, sys.path[:0] = [file, *more], [str(Path(file).parent)]
            runpy.run_path(file, run_name="__main__")


def _out_of_the_way(number: int) -> int:
    copy = fcntl.fcntl(number, fcntl.F_DUPFD, 500)
    os.close(number)
    return copy


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    else:
        connect(*sys.argv[2:5], sys.argv[5:])
