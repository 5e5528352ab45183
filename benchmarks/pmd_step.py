"""What a distilled step costs beside a plain one, and what the fused loss saves, by vocabulary size.

    python -m benchmarks.pmd_step [--shape small] [--vocab 8000 32000 64000] [--tokens 2048] [--rounds 2]

A step is an update of one model, or of both students of Bi-PMD (each with its teacher's forward pass), Adam included.
plain: whole logits, the functions of losses.py. fused: what training uses. Clock: process CPU seconds of one thread,
the least of the rounds. Memory: peak of a process of its own. The floor of the ratio is 8 F / 3 F = 2.67.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable

import torch

from pmd_lite.distillation.fused import Mix, projected_loss, teacher_states, token_states
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, pmd_loss, soft_target, token_logits
from pmd_lite.evaluation.tables import Table
from pmd_lite.model.transformer import Transformer

SHAPES = {
    "small": {"d_model": 256, "heads": 4, "encoder_layers": 3, "decoder_layers": 3, "ffn": 1024},
    "base": {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "ffn": 2048},
}
LENGTH, SMOOTHING, ALPHA = 32, 0.1, 0.4


def make_step(shape: str, vocab: int, tokens: int, students: int, fused: bool) -> Callable[[], None]:
    """A function that updates every student once on one batch without padding."""
    torch.manual_seed(0)
    models = [Transformer(vocab, **SHAPES[shape]).train() for _ in range(students)]  # type: ignore[arg-type]
    adams = [torch.optim.Adam(model.parameters(), lr=1e-4, fused=True) for model in models]
    src, trg, gold = (torch.randint(4, vocab, (tokens // LENGTH, LENGTH)) for _ in range(3))
    gold, keep = gold.flatten(), torch.arange(tokens)

    def update(i: int) -> None:
        model, adam, teachers = models[i], adams[i], [(models[1 - i], 1.0)] if students == 2 else []
        if not fused:
            adam.zero_grad(set_to_none=True)
        if fused:
            mix = Mix(1 - ALPHA, ALPHA, teacher_states(teachers, src, trg, keep)) if teachers else Mix()
            hidden = token_states(model, src, trg, keep)
            loss, _ = projected_loss(hidden, model.output_weight, gold, SMOOTHING, mix)
        else:
            soft = soft_target(teachers, src, trg, keep) if teachers else None
            logp = log_probs(token_logits(model, src, trg, keep))
            loss = ce_loss(logp, gold, SMOOTHING)
            loss = loss if soft is None else pmd_loss(loss, kd_loss(logp, soft), ALPHA)
        (loss / tokens).backward()
        adam.step()
        if fused:  # as Learner.finish does; tutorials do it before the next step
            adam.zero_grad(set_to_none=True)

    def step() -> None:
        for i in range(students):
            update(i)

    return step


def measure(job: tuple[str, int, int, int, bool, int]) -> tuple[float, float]:
    """(CPU seconds of a step, peak MiB of the process)."""
    *what, rounds = job
    torch.set_num_threads(1)
    step = make_step(*what)
    step()
    seconds = []
    for _ in range(rounds):
        before = time.process_time()
        step()
        seconds.append(time.process_time() - before)
    return min(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--vocab", type=int, nargs="+", default=[8000, 32000, 64000])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=2)
    words = parser.parse_args()
    rows: list[list[str | float]] = []
    for vocab in words.vocab:
        found = {}
        for students in (1, 2):
            for fused in (False, True):
                job = (words.shape, vocab, words.tokens, students, fused, words.rounds)
                with multiprocessing.get_context("spawn").Pool(1) as alone:
                    found[students, fused] = alone.apply(measure, (job,))
        (single, _), (single_fused, _) = found[1, False], found[1, True]
        (pmd, memory), (pmd_fused, memory_fused) = found[2, False], found[2, True]
        rows.append([f"{vocab:,}", single, single_fused, pmd, pmd_fused, pmd_fused / single_fused, pmd_fused / single,
                     1 - pmd_fused / pmd, f"{memory:,.0f}", f"{memory_fused:,.0f}", memory_fused / memory])  # fmt: skip
    columns = ["vocab", "single plain s", "single fused s", "PMD plain s", "PMD fused s", "fused/fused",
               "fused/single plain", "time saved", "plain MiB", "fused MiB", "memory"]  # fmt: skip
    print(Table(columns, rows, best=None, digits=2, caption=f"{words.shape}, {words.tokens} target tokens").to_text())


if __name__ == "__main__":
    main()
