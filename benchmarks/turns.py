"""Time several things in turn, each in its own process: they share no heap, and times close together are compared."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

Name = TypeVar("Name", bound=Hashable)
_WORK: list[Callable[..., float]] = []


class Runner:
    """A process that holds the result of `make(*words)`: a function from an argument to a number (both picklable)."""

    def __init__(self, make: Callable[..., Callable[..., float]], *words: Any):
        self._process = multiprocessing.get_context("spawn").Pool(1, _begin, (make, *words))

    def __call__(self, argument: Any) -> float:
        """The function's number for this argument."""
        return self._process.apply(_run, (argument,))

    def peak(self) -> float:
        """The peak memory of the process in MiB."""
        return self._process.apply(_peak)

    def close(self) -> None:
        """End the process."""
        self._process.terminate()


def take_turns(runners: Mapping[Name, Runner], warmth: Any, arguments: Sequence[Any]) -> dict[Name, list[float]]:
    """{name: [round] number}: each runs with `warmth`, then with each argument; every other round backwards."""
    for runner in runners.values():
        runner(warmth)
    found: dict[Name, list[float]] = {name: [] for name in runners}
    for number, argument in enumerate(arguments):
        for name in list(runners)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(runners[name](argument))
    return found


def _begin(make: Callable[..., Callable[..., float]], *words: Any) -> None:
    _WORK.append(make(*words))


def _run(argument: Any) -> float:
    return _WORK[0](argument)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
