"""The cost of a distilled step beside a plain one, and what the fused loss saves, by vocabulary size.

    python -m benchmarks.pmd_step [--shape small] [--vocab 8000 32000 64000] [--tokens 2048] [--rounds 3]

A step is an update of one model, or of both students of Bi-PMD (each with its teacher's forward pass), Adam included.
plain: whole logits, with the functions of losses.py. fused: the loss that training uses. Clock: process CPU seconds of
one thread. Each kind of step has a process of its own. All processes live at the same time and take turns. A ratio is
the median over the rounds (smallest and largest in brackets). Memory: peak of the process. The matrix products alone
would give a ratio of 8 F / 3 F = 2.67.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.peers import SHAPES
from benchmarks.turns import Runner, take_turns
from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, pmd_loss, soft_target, token_logits
from pmd_lite.distillation.projection import output_of, token_states
from pmd_lite.distillation.targets import teacher_states
from pmd_lite.evaluation.tables import Table
from pmd_lite.model.transformer import Transformer

LENGTH, SMOOTHING, ALPHA = 32, 0.1, 0.4
Kind = tuple[int, bool]
KINDS: list[Kind] = [(1, False), (1, True), (2, False), (2, True)]
"""(students, fused)."""


def make_step(shape: str, vocab: int, tokens: int, students: int, fused: bool) -> Callable[[], None]:
    """A function that updates every student once on one batch without padding."""
    torch.manual_seed(0)
    models = [Transformer(vocab, **SHAPES[shape]).train() for _ in range(students)]
    adams = [torch.optim.Adam(model.parameters(), lr=1e-4, fused=True) for model in models]
    src, trg, gold = (torch.randint(4, vocab, (tokens // LENGTH, LENGTH)) for _ in range(3))
    gold, keep = gold.flatten(), torch.arange(tokens)

    def update(i: int) -> None:
        model, adam, teachers = models[i], adams[i], [(models[1 - i], 1.0)] if students == 2 else []
        if fused:
            mix = Mix(1 - ALPHA, ALPHA, teacher_states(teachers, src, trg, keep)) if teachers else Mix()
            hidden = token_states(model, src, trg, keep)
            loss, _ = projected_loss(hidden, output_of(model), gold, SMOOTHING, mix)
        else:
            adam.zero_grad(set_to_none=True)
            soft = soft_target(teachers, src, trg, keep) if teachers else None
            logp = log_probs(token_logits(model, src, trg, keep))
            loss = ce_loss(logp, gold, SMOOTHING)
            loss = loss if soft is None else pmd_loss(loss, kd_loss(logp, soft), ALPHA)
        (loss / tokens).backward()
        adam.step()
        if fused:  # at the end, as Learner.finish does; tutorials do this before the next step
            adam.zero_grad(set_to_none=True)

    def step() -> None:
        for i in range(students):
            update(i)

    return step


def make_timer(*what: Any) -> Callable[[object], float]:
    """A function that makes a step (see `make_step`) -> its CPU seconds."""
    torch.set_num_threads(1)
    step = make_step(*what)

    def timed(_: object) -> float:
        before = time.process_time()
        step()
        return time.process_time() - before

    return timed


def ratio(found: dict[Kind, list[float]], above: Kind, below: Kind) -> str:
    """The median over rounds, and all rounds."""
    ratios = [a / b for a, b in zip(found[above], found[below], strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--vocab", type=int, nargs="+", default=[8000, 32000, 64000])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    words = parser.parse_args()
    rows: list[list[str | float]] = []
    for vocab in words.vocab:
        runners = {kind: Runner(make_timer, words.shape, vocab, words.tokens, *kind) for kind in KINDS}
        found = take_turns(runners, None, [None] * words.rounds)
        peaks = {kind: runner.peak() for kind, runner in runners.items()}
        for runner in runners.values():
            runner.close()
        seconds = [statistics.median(found[kind]) for kind in KINDS]
        rows.append([f"{vocab:,}", *seconds, ratio(found, (2, True), (1, True)), ratio(found, (2, True), (1, False)),
                     ratio(found, (2, True), (2, False)), f"{peaks[2, False]:,.0f}", f"{peaks[2, True]:,.0f}",
                     peaks[2, True] / peaks[2, False]])  # fmt: skip
    columns = ["vocab", "single plain s", "single fused s", "PMD plain s", "PMD fused s", "PMD fused / single fused",
               "PMD fused / single plain", "PMD fused / PMD plain", "plain MiB", "fused MiB", "memory"]  # fmt: skip
    print(Table(columns, rows, digits=2, caption=f"{words.shape}, {words.tokens} target tokens").to_text())


if __name__ == "__main__":
    main()
