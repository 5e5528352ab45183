"""Kernels that start warm: one process imports what every lesson imports, and forks for each kernel.

A kernel spends seconds on importing PyTorch. A fork of a process that has imported it, and has done nothing else, is as
fresh. Jupyter starts `connect` in place of the usual kernel; `serve` is the process that forks.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

PLACE = "PMD_WARM_KERNELS"


@contextmanager
def warm_kernels(folder: Path, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start the process that forks; gives the variables with which Jupyter finds it."""
    spec, place = folder / "kernels" / "python3" / "kernel.json", f"warm-kernels-{os.getpid()}-{folder.name}"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, __file__, "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3 (ipykernel)", "language": "python"}))
    with Popen([sys.executable, __file__, "--serve", place], stdin=PIPE, stdout=PIPE, env=environment) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield {"JUPYTER_PATH": str(folder), PLACE: place}
        process.stdin.close()  # the process ends with its input, so also when this one is killed


def serve(place: str) -> None:
    """Import, then fork for each process that connects, until the standard input ends."""
    del sys.path[0]  # the folder of this file: no lesson looks there
    os.environ.pop("JPY_PARENT_PID", None)  # or each kernel would end because that process has not started it
    for name in ("ipykernel.kernelapp", "ipywidgets", "matplotlib.figure", "pmd_lite.api"):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a kernel
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{place}")  # no file: the path to one may be too long
        server.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                become_kernel(connection)
            connection.close()


def become_kernel(connection: socket.socket) -> None:
    """In the fork: take folder, environment, input and output of the process that connected, and be its kernel."""
    from ipykernel.kernelapp import IPKernelApp

    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    words = json.loads(data)
    os.chdir(words["folder"])
    os.environ.clear()
    os.environ.update(words["environment"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.sendall(b"%d\n" % os.getpid())
    threading.Thread(target=lambda: (connection.recv(1), os._exit(1)), daemon=True).start()  # the other has ended
    IPKernelApp.launch_instance(argv=["-f", *words["argv"]])
    os._exit(0)


def connect() -> None:
    """What Jupyter starts: have a kernel forked, pass signals on to it, and end with it or with Jupyter."""
    jupyter = os.getppid()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{os.environ[PLACE]}")
        words = {"folder": os.getcwd(), "environment": dict(os.environ), "argv": sys.argv[1:]}
        socket.send_fds(connection, [json.dumps(words).encode()], [0, 1, 2])
        kernel = int(connection.makefile("rb").readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(kernel, number))
        while os.getppid() == jupyter and not select.select([connection], [], [], 1)[0]:
            pass


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "--serve" else connect()
