"""Feed damaged files and odd values to the library: does each end in one sentence, or in a traceback, or in silence?

    python -m benchmarks.fuzz [--inputs 3000] [--seed 1] [--show 20]

Kinds, in turn:

    lines      a line of a corpus is spoiled, or a file of it cut or replaced; then the corpus is loaded
    corpus     corpus.json is mutated; then the corpus is loaded
    options    a field of the configuration, or an argument, gets an odd value; then it is used
    json       a JSON file of a finished run is mutated; then the run is shown, translated with and scored again
    bytes      one bit of any file of a run is flipped, or the file is cut or replaced; then the run is read
    swaps      a file of an interrupted run is replaced by one of another run, or cut; then training continues
    mixed      a file or folder of a finished run is replaced by that of another run; then the run is read
    records    a record of a comparison or of a study is mutated; then its tables are made
    caches     a file of the cached ids, or of the teachers' cached predictions, is damaged; then they are read
    texts      a .tsv, .gz, .tmx or .zip is damaged; then `data local` makes a corpus of it
    words      an option of any command but train gets an odd value; then the command runs
    trained    an option of train gets an odd value; then a run is trained with it
    downloads  what an interrupted download left is damaged; then it continues, from a server on this machine
    starts     an imported checkpoint is damaged; then it is read as `train --init` reads it
    exports    an export for transformers is damaged; then it is read

Outcomes: clean error (one UserError, printable); accepted (the input works); silent (accepted, but the weights, scores,
texts or ids are not those of the undisturbed ones, or a file was written outside); traceback; hang (over 60 seconds).
Everything runs in this process, and needs no network. The table is the result; the exit status is 1 if an input was
not clean or accepted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from benchmarks import inputs, more_inputs
from benchmarks.inputs import Place, Silent
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Table

OUTCOMES = ("clean error", "accepted", "traceback", "silent", "hang")
LIMIT = 60  # seconds for one input
ROOM = 6 << 30  # bytes of address space for all of them


class Hang(BaseException):
    """An input took longer than LIMIT."""


Kind = Callable[[Place, Path, random.Random], None]
KINDS: dict[str, tuple[Kind, float]] = {
    "lines": (inputs.lines, 0.18), "corpus": (inputs.corpus, 0.15), "options": (inputs.options, 0.2),
    "json": (inputs.json_files, 0.1), "bytes": (inputs.any_bytes, 0.05), "swaps": (inputs.swaps, 0.05),
    "mixed": (more_inputs.mixed, 0.04), "records": (more_inputs.records, 0.05), "caches": (more_inputs.caches, 0.04),
    "texts": (more_inputs.texts, 0.04), "words": (more_inputs.words, 0.05), "trained": (more_inputs.trained, 0.01),
    "downloads": (more_inputs.downloads, 0.02), "starts": (more_inputs.starts, 0.01),
    "exports": (more_inputs.exports, 0.01),
}  # fmt: skip
"""What makes an input of a kind and uses it, and the share of the inputs."""


def one(kind: str, number: int, place: Place, seed: int) -> tuple[str, str]:
    """(outcome, what was said) of one input."""
    chance = random.Random(f"{kind} {number} {seed}")

    def late(signum: int, frame: object) -> None:
        raise Hang

    here = place.root / "here"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    alarm = hasattr(signal, "SIGALRM")
    if alarm:
        signal.signal(signal.SIGALRM, late)
        signal.alarm(LIMIT)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(here):  # for odd names of files
            KINDS[kind][0](place, here, chance)
        return "accepted", ""
    except UserError as error:
        said = str(error)
        clean = said.replace("\n", "").isprintable() and 10 < len(said) < 6000
        return ("clean error" if clean else "traceback"), said
    except Silent as error:
        return "silent", str(error)
    except Hang:
        return "hang", ""
    except (Exception, SystemExit):
        return "traceback", traceback.format_exc()
    finally:
        if alarm:
            signal.alarm(0)


def fuzz(inputs: int, seed: int, place: Place) -> tuple[dict[str, Counter[str]], list[str]]:
    """({kind: {outcome: how many}}, what went wrong)."""
    found: dict[str, Counter[str]] = {}
    wrong = []
    files = {path for path in place.root.parent.iterdir()}
    for kind, (_, share) in KINDS.items():
        found[kind] = Counter()
        for number in range(max(1, round(inputs * share))):
            outcome, said = one(kind, number, place, seed)
            if outside := {path for path in place.root.parent.iterdir()} - files:
                outcome, said = "silent", f"written outside: {sorted(map(str, outside))}"
                files |= outside
            found[kind][outcome] += 1
            if outcome not in ("clean error", "accepted"):
                said = said if len(said) < 3000 else f"{said[:800]} ... {said[-1200:]}"  # odd values are long
                wrong.append(f"{kind} {number}: {outcome}\n{said}")
                print(f"{kind} {number}: {outcome}", flush=True)
    return found, wrong


def table(found: dict[str, Counter[str]]) -> Table:
    """Kinds by outcomes."""
    rows: list[list[Any]] = [[kind, of.total(), *(of[name] for name in OUTCOMES)] for kind, of in found.items()]
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, len(OUTCOMES) + 2))])
    return Table(["kind", "tried", *OUTCOMES], rows)


def main() -> int:
    """Make the inputs, print the table and what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20, help="print this many inputs that went wrong")
    words = parser.parse_args()
    torch.set_num_threads(1)
    if resource:  # an input that fills the memory is a MemoryError here, and harms no other process
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Place.made(Path(folder) / "place")
        found, wrong = fuzz(words.inputs, words.seed, place)
    print("\n\n".join(wrong[: words.show]))
    print(table(found).to_text())
    print(f"{time.monotonic() - began:.0f} seconds, {time.process_time():.0f} of a core")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
