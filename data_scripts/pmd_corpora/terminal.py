"""Commands: the one of a corpus; UTF-8 with LF on every system, no error when the reader of a pipe has enough."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tyro

from pmd_lite.errors import UserError


def script(name: str, build: Callable[..., Path], words: Sequence[str] | None = None) -> int:
    """`python -m pmd_corpora.NAME`: its options are the arguments of `build`, its help is the docstring.

    Returns 0, or 2 after a UserError, printed as one line on stderr.
    """
    try:
        print(tyro.cli(build, prog=f"python -m pmd_corpora.{name}", args=words))
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return 0


class _Heard(io.FileIO):
    """The bytes of an open stream; what comes after its reader has gone is dropped."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EINVAL):  # Windows says EINVAL
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            return memoryview(data).nbytes


@contextmanager
def terminal() -> Iterator[None]:
    """Print UTF-8 and LF in the block, whatever the locale, and in the processes that it starts.

    A reader that ends early (`... | head -1`) is not an error: what it would have read is dropped.
    """
    os.environ["PYTHONIOENCODING"], streams = "utf-8:backslashreplace", (sys.stdout, sys.stderr)
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            if not stream.isatty():
                raw = io.BufferedWriter(_Heard(stream.fileno(), "w", closefd=False))
                setattr(sys, name, io.TextIOWrapper(raw, "utf-8", "backslashreplace", "\n", name == "stderr"))
    try:
        yield
    finally:
        ours, (sys.stdout, sys.stderr) = (sys.stdout, sys.stderr), streams
        try:
            for stream in ours:
                stream.flush()
        except OSError as error:
            raise SystemExit(
                f"the output cannot be written: {error.strerror}. Make room, or write it elsewhere"
            ) from None
