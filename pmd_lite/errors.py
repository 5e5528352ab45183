"""The one exception a user is meant to read, words for its messages, and a word to a user who waits."""

import difflib
import re
import reprlib
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PATIENCE = 5.0  # seconds for which a process may wait in silence


class UserError(Exception):
    """Something outside the code is wrong: a file, an option, a missing package.

    The message says what is wrong, where (file:line when there is one) and what to do. The command line prints it
    without a traceback and exits with 2; anything else that escapes is a bug in this library.
    """


class Interrupted(UserError):
    """Ctrl-C or another signal: the state was saved; the message says how to continue. `number`: of the signal."""

    def __init__(self, message: str, number: int = signal.SIGINT):
        super().__init__(message)
        self.number = number


def nearest(name: object, known: Iterable[str]) -> str:
    """A question with the nearest known name, for an unknown one; "" when none is near."""
    near = difflib.get_close_matches(name[:80], list(known), n=1) if isinstance(name, str) else []
    return f"did you mean {near[0]!r}? " if near else ""


def reason(error: BaseException) -> str:
    """What another library says about its error, in one short line; none of its advice that would run foreign code."""
    said = " ".join(str(error).split())
    if re.search(r"weights_only|weights only|pickle|trust_remote_code|KMP_DUPLICATE_LIB_OK", said, re.IGNORECASE):
        return f"{type(error).__name__}: it holds, or needs, more than numbers, and that could be code. Do not run it"
    return said[:200] or type(error).__name__


def shown(value: object) -> str:
    """A value for a message: short, in one line, without control characters."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python does not write more than 4,300 digits
        return "a number of thousands of digits"


@contextmanager
def waiting(for_whom: str) -> Iterator[None]:
    """A block that may wait for somebody else: after some seconds, print on stderr for whom."""
    said = threading.Timer(PATIENCE, lambda: print(f"pmd_lite: waiting for {for_whom}", file=sys.stderr, flush=True))
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()
