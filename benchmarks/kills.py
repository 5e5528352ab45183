"""Send signals to runs at random instants: is a file ever damaged, and does a resumed run ever end with other bits?

    python -m benchmarks.kills [--rounds 2] [--seed 1] [--rows auto-pmd "2 ranks"] [--signals KILL TERM]

Rows: every method of the method table, with the auxiliary runs that it trains; a comparison with two workers; a run on
two processes. A row is one small command of the command line. In a round every row gets each of five signals once, at
instants drawn at random: the same command continues after each, and when all have been sent it runs to its end. After
each signal the benchmark checks the exit status, reads every file, and looks for processes that are still there. At
the end all files must be those of an undisturbed command, but for times.

    KILL                     no process can catch it. With two processes it hits any one of the three
    INT, TERM, HUP, USR1     while it trains, a run saves and ends with 128 + the number; before and after, the signal
                             ends it as it ends any program. With two processes it reaches the launcher, or all of them

Processes are forked from one that has loaded everything, so a signal takes a second or two. No figures; only on Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import pmd_lite as pmd
import pmd_lite.figures.style
from pmd_corpora.writing import write_corpus
from pmd_lite import processes
from pmd_lite.cli import commands
from pmd_lite.cli.arguments import main as command
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import read_json
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Table
from pmd_lite.methods import METHODS
from pmd_lite.run import Run
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.snapshot import differences
from pmd_lite.training.trainer import Trainer
from pmd_lite.training.weights import read_state, read_weights

WORLD: dict[str, Any] = {
    "head": 30, "minimum": 10, "held": 3, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 32, "dropout": 0.2, "max_len": 16,
    "vocab_size": 140, "steps": 10, "tokens": 160, "eval_every": 2, "update_every": 4, "lr": 5e-3, "warmup": 4,
    "beam": 1, "device": "cpu",
}  # fmt: skip
COMPARE, RANKS = "compare", "2 ranks"
ROWS = (*METHODS, COMPARE, RANKS)
SIGNALS = ("KILL", "INT", "TERM", "HUP", "USR1")
PHASES = ("preparation", "update", "search", "evaluation", "saving", "translation")
MARKED: list[tuple[Any, str, str]] = [
    (Trainer, "update", "update"), (AutoPMD, "update", "search"), (Trainer, "_evaluate", "evaluation"),
    (RunDir, "save_best", "saving"), (RunDir, "append_metrics", "saving"), (RunDir, "save_checkpoint", "saving"),
    (Run, "evaluate", "translation"),
]  # fmt: skip
"""Which function is which phase."""
CATCHING = ("update", "search", "evaluation", "saving")
"""Phases of the loop of training, in which no signal may be lost."""
LIMIT = 120.0  # seconds for one command; then it hangs
TIMES = {"seconds", "minutes", "metrics_size", "metrics.jsonl", "sum"}
"""Fields that hold times, the length of the metrics (it depends on the digits of the seconds), or their checksum."""


def words_of(row: str, corpus: Path, out: Path) -> list[str]:
    """The command of a row."""
    if row == COMPARE:
        settings = [f"{name}={value}" for name, value in SETTINGS.items()]
        return ["compare", "--corpus", str(corpus), "--methods", "tau=1", "chi-ibr", "uni-pmd", "--seeds", "1",
                "--workers", "2", "--out", str(out), "--set", *settings]  # fmt: skip
    method, more = (row, {}) if row != RANKS else ("bi-pmd", {"processes": 2, "accumulate": 2, "tokens": 80})
    given = {**SETTINGS, **more}
    options = [f"--{'tokenizer.' if name == 'vocab_size' else ''}{name.replace('_', '-')}={value}"
               for name, value in given.items()]  # fmt: skip
    return ["train", "-c", str(corpus), "-m", method, "--show", "off", "--out", str(out), *options]


# ---- one command in a process of its own


def marking(real: Callable[..., Any], number: int, phase: Any) -> Callable[..., Any]:
    """The same function, which also writes its number into shared memory while it runs."""

    def marked(*args: Any, **words: Any) -> Any:
        before, phase.value = phase.value, number
        try:
            return real(*args, **words)
        finally:
            phase.value = before

    return marked


def forked(words: list[str], said: Path, phase: Any) -> int:
    """Begin a command in a new session; returns its process id as soon as the command has begun."""
    phase.value = -1
    if pid := os.fork():
        while phase.value < 0:
            time.sleep(0.001)
        return pid
    try:
        os.setsid()
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1), os.dup2(file, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
        for name in SIGNALS[1:]:
            number = getattr(signal, f"SIG{name}")
            signal.signal(number, signal.default_int_handler if name == "INT" else signal.SIG_DFL)
        for owner, name, meaning in MARKED:
            setattr(owner, name, marking(getattr(owner, name), PHASES.index(meaning), phase))
        _quick()
        phase.value = 0
        status = command(words)
        sys.stdout.flush()
        os._exit(status)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _quick() -> None:
    """Further processes are forked too, and nothing is drawn: both would take longer than the runs."""
    real = processes.start_processes
    setattr(processes, "start_processes", lambda *words, **more: real(*words, **{**more, "start_method": "fork"}))  # noqa: B010
    setattr(processes, "new_processes", lambda: get_context("fork"))  # noqa: B010
    setattr(commands, "draw", lambda runs, scored: None)  # noqa: B010
    for name in ("plot_frontier", "plot_probabilities", "plot_costs"):
        setattr(Comparison, name, lambda self: None)


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of = place.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(place.parent.name))
    return sorted(found)


def waited(pid: int, seconds: float) -> int | None:
    """The exit status (minus the number of a signal that ended it); None if the process lives on."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.01)


# ---- what it leaves


def damaged(out: Path) -> Iterator[str]:
    """The errors that reading the files raises."""
    readers: list[Callable[[], object]] = [lambda p=p: read_json(p) for p in out.rglob("*.json")]  # type: ignore[misc]
    for config in out.rglob("config.json"):
        here = RunDir(config.parent)
        readers += [here.load_checkpoint, here.metrics]
        best = (here.checkpoints / "best").glob("*.safetensors")
        readers += [lambda p=p, here=here: here.load_weights(int(p.stem[-1]) - 1) for p in best]  # type: ignore[misc]
    readers += [lambda p=p: Tokenizer.load(p.parent) for p in out.rglob("tokenizer.json")]  # type: ignore[misc]
    for read in readers:
        try:
            read()
        except UserError as error:
            yield str(error)


def untimed(data: Any) -> Any:
    """The same without times, and without the checksums of what holds times."""
    if isinstance(data, dict):
        return {key: untimed(value) for key, value in data.items() if key not in TIMES}
    return [untimed(value) for value in data] if isinstance(data, list) else data


def left(out: Path) -> dict[str, Any]:
    """{file: content} of all that a finished command leaves, without times."""
    found: dict[str, Any] = {}
    for file in sorted(path for path in out.rglob("*") if path.is_file()):
        if file.suffix == ".safetensors":
            content: Any = read_weights(file)
        elif file.suffix == ".pt":
            content = untimed(read_state(file))
        elif file.suffix in (".json", ".jsonl"):
            lines = [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines()
            content = [untimed(json.loads(line)) for line in lines]
        else:
            content = b"" if file.name == "costs.md" else file.read_bytes()  # minutes are in the table of costs
        found[str(file.relative_to(out))] = content
    return found


# ---- the campaign


class Row:
    """One command, what it leaves undisturbed, and the signals so far."""

    def __init__(self, name: str, corpus: Path, folder: Path, chance: random.Random, signals: Sequence[str] = SIGNALS):
        self.name, self.chance, self.signals = name, chance, signals
        self.out, self.said = folder / "out", folder / "said.txt"
        self.words = words_of(name, corpus, self.out)
        self.phase = get_context("fork").Value("i", 0, lock=False)
        self.sent: Counter[str] = Counter()
        self.phases: Counter[str] = Counter()
        self.same = 0
        self.wrong: list[str] = []
        folder.mkdir()
        began = time.perf_counter()
        self.finish(forked(self.words, self.said, self.phase), [])
        self.length = time.perf_counter() - began
        self.whole = left(self.out)
        shutil.rmtree(self.out)

    def round(self) -> None:
        """Send each signal once, in a random order; a command that ends before its instant is checked, and a new one
        begins."""
        waiting = self.chance.sample(list(self.signals), len(self.signals))
        while waiting:
            chain: list[str] = []
            before = len(self.wrong)
            while True:
                pid = forked(self.words, self.said, self.phase)
                if not waiting:
                    self.finish(pid, chain)
                    break
                if waited(pid, self.chance.uniform(0, 0.6 * self.length)) is not None:
                    break
                if self.send(pid, waiting[-1]):
                    chain.append(waiting.pop())
                    self.wrong += [f"{self.name}, {chain}: {error}" for error in damaged(self.out)]
                else:
                    break
            unlike = list(differences(left(self.out), self.whole)) if self.out.exists() else ["nothing is left"]
            self.wrong += [f"{self.name}, {chain}: in the end another {what}" for what in unlike]
            self.same += len(chain) * (len(self.wrong) == before)
            self.sent.update(chain)
            shutil.rmtree(self.out, ignore_errors=True)

    def send(self, pid: int, name: str) -> bool:
        """Send a signal and wait for the end; False if the command had ended by itself, whole, when it arrived."""
        number, phase = int(getattr(signal, f"SIG{name}")), PHASES[self.phase.value]
        group = members(pid)
        several = self.name == RANKS
        all_of_them = several and name != "KILL" and self.chance.random() < 0.5
        hit = self.chance.choice(group) if several and name == "KILL" else pid
        for one in group if all_of_them else [hit]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)
        status = waited(pid, LIMIT)
        said = self.said.read_text(errors="replace")
        if status == 0 and phase not in CATCHING:  # it ended first, or Python lost Ctrl-C in a callback of fork
            self.gone(pid)
            return False
        self.phases[phase] += 1
        right = {128 + number, -number} if "stopped at step" not in said else {128 + number}
        right = {2} if hit != pid else right
        if status not in right:
            self.wrong.append(f"{self.name}: {name} in {phase} ended with {status}: {said[-1500:]}")
        if "Traceback" in said and hit == pid:
            self.wrong.append(f"{self.name}: {name} in {phase}: {said[-3000:]}")
        self.gone(pid)
        return True

    def gone(self, pid: int) -> None:
        """Wait until no process of the command is left."""
        until = time.monotonic() + 30
        while (living := members(pid)) and time.monotonic() < until:
            time.sleep(0.01)
        for one in living:
            self.wrong.append(f"{self.name}: process {one} is still there")
            os.kill(one, signal.SIGKILL)

    def finish(self, pid: int, chain: list[str]) -> None:
        """Let the command run to its end."""
        status = waited(pid, LIMIT)
        if status != 0:
            self.wrong.append(f"{self.name}, {chain}: then it ended with {status}: {self.said.read_text()[-1500:]}")
        self.gone(pid)


def campaign(names: Sequence[str], rounds: int, seed: int, folder: Path, signals: Sequence[str] = SIGNALS) -> list[Row]:
    """Send all signals to all rows."""
    corpus = write_corpus(pmd.load_corpus("toy", pairs=["fra-eng", "tur-eng"], **WORLD), folder / "corpus")
    rows = []
    for i, name in enumerate(names):
        rows.append(row := Row(name, corpus, folder / f"row{i}", random.Random(f"{name} {seed}"), signals))
        for _ in range(rounds):
            row.round()
        print(f"{name}: {row.sent.total()} signals, {row.same} to the same bits", flush=True)
    return rows


def table(rows: Sequence[Row], signals: Sequence[str] = SIGNALS) -> Table:
    """Signals of each kind, and how many of them changed nothing in the end."""
    lines: list[list[Any]] = [
        [row.name, *(row.sent[name] for name in signals), row.sent.total(), row.same, row.sent.total() - row.same]
        for row in rows
    ]
    lines.append(["all", *(sum(line[i] for line in lines) for i in range(1, len(signals) + 4))])
    return Table(["command", *signals, "sent", "same bits in the end", "other"], lines)


def main() -> int:
    """Send, resume, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="how often every row gets every signal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    words = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = campaign(words.rows, words.rounds, words.seed, Path(folder), words.signals)
    print(table(rows, words.signals).to_text())
    phases = sum((row.phases for row in rows), Counter())
    print("when they came: " + ", ".join(f"{phase} {phases[phase]}" for phase in PHASES))
    wrong = [line for row in rows for line in row.wrong]
    print("\n".join([f"{len(wrong)} faults", *wrong[:40]]))
    print(f"{time.monotonic() - began:.0f} seconds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
