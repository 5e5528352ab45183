"""A slice of benchmarks/kills.py: real signals to real processes, and the resumed run ends in the same bits."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.kills import COMPARE, RANKS, ROWS, SIGNALS, campaign, table, words_of
from pmd_lite.methods import METHODS
from pmd_lite.training.rundir import RunDir

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes are forked and looked up in /proc")


def test_every_method_is_a_row() -> None:
    assert {*ROWS} == {*METHODS, COMPARE, RANKS}
    assert words_of("ccl-m", Path("c"), Path("o"))[:5] == ["train", "-c", "c", "-m", "ccl-m"]
    assert "--processes=2" in words_of(RANKS, Path("c"), Path("o"))
    assert words_of(COMPARE, Path("c"), Path("o"))[0] == "compare"


@pytest.mark.slow
def test_signals_cost_nothing(tmp_path: Path) -> None:
    (row,) = campaign(["tau=1"], 1, 3, tmp_path, ("KILL", "TERM"))
    assert row.wrong == []
    assert (row.sent.total(), row.same, row.phases.total()) == (2, 2, 2)
    assert table([row], ("KILL", "TERM")).rows[-1] == ["all", 1, 1, 2, 2, 0]


@pytest.mark.slow
def test_another_end_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a run remembered in which process it ended."""
    real = RunDir.finish
    monkeypatch.setattr(RunDir, "finish", lambda self, summary: real(self, {**summary, "process": os.getpid()}))
    (row,) = campaign(["tau=1"], 1, 3, tmp_path, ("TERM",))
    assert (row.sent.total(), row.same) == (1, 0)
    assert "tau=1, ['TERM']: in the end another" in row.wrong[0] and "finished.json" in row.wrong[0]


HERE = {
    "auto-pmd": ("KILL", "HUP"), "ccl-m": ("TERM", "INT"), "multi-distill": ("HUP", "USR1"), COMPARE: ("INT", "USR1"),
    RANKS: ("KILL", "TERM"),
}  # fmt: skip
"""With searches, with auxiliary runs, with a cache of predictions, with workers, with ranks; each signal twice."""


def test_each_signal_is_sent_to_two_commands() -> None:
    assert min(sum(name in signals for signals in HERE.values()) for name in SIGNALS) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_signals_cost_a_larger_command_nothing(name: str, tmp_path: Path) -> None:
    (row,) = campaign([name], 1, 4, tmp_path, HERE[name])
    assert row.wrong == []
    assert row.sent == dict.fromkeys(HERE[name], 1) and row.same == len(HERE[name])
