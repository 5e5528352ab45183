"""A slice of benchmarks/fuzz.py: no damaged file and no odd value ends in a traceback, in silence or in a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz import KINDS, OUTCOMES, Place, fuzz, one, table
from pmd_lite.errors import UserError


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.made(tmp_path_factory.mktemp("fuzz") / "place")


@pytest.mark.slow
def test_a_hundred_inputs_end_in_one_sentence_or_work(place: Place) -> None:
    found, wrong = fuzz(100, 7, place)
    assert not wrong, "\n".join(wrong)
    assert set(found) == set(KINDS) and sum(of.total() for of in found.values()) == 100
    assert sum(of["clean error"] for of in found.values()) > 40, "most inputs are wrong, and that is noticed"
    assert table(found).rows[-1][1] == 100


@pytest.mark.slow
def test_the_fuzzer_sees_what_goes_wrong(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback, an error that steers the terminal, another end of a run, and a file outside."""

    def failing(error: BaseException | None, write: Path | None = None) -> object:
        def kind(place: Place, here: Path, chance: object) -> None:
            if write:
                write.write_text("x")
            if error:
                raise error

        return kind

    from benchmarks.fuzz import Hang, Silent

    cases = {
        "traceback": [KeyError("student"), UserError("\x1b[2J a name from a file")], "silent": [Silent("weights")],
        "hang": [Hang()], "clean error": [UserError("a sentence that says what to do")], "accepted": [None],
    }  # fmt: skip
    assert set(cases) == set(OUTCOMES)
    for outcome, errors in cases.items():
        for error in errors:
            monkeypatch.setitem(KINDS, "lines", (failing(error), 1.0))
            assert one("lines", 0, place, 1)[0] == outcome
    outside = place.root.parent / "escaped"
    for kind in KINDS:
        monkeypatch.setitem(KINDS, kind, (failing(None, outside), 0.01))
    found, wrong = fuzz(10, 1, place)
    outside.unlink()
    assert sum(of["silent"] for of in found.values()) == 1 and "escaped" in wrong[0]
