"""Checks of the exercises: they say what is right, and what a wrong answer most likely mixed up."""

from __future__ import annotations

from collections.abc import Mapping

from pmd_lite.run import Run


def check_winners(prediction: Mapping[str, str | None], run_a: Run, run_b: Run) -> None:
    """Lesson 00: which of two single models translates each pair better, predicted from the sizes alone.

    Prints a verdict per pair with the measured BLEU; a prediction of only None counts as not attempted.
    """
    names = (run_a.labels[0], run_b.labels[0])
    if all(answer is None for answer in prediction.values()):
        print("Not attempted yet: write one of the two names behind each pair, then run both cells again.")
        return
    if missing := [pair for pair in run_a.pairs if prediction.get(pair) is None]:
        print(f"Still open: {', '.join(missing)}. Give every pair a name; a guess is fine.")
        return
    if wrong := {answer for answer in prediction.values() if answer not in names}:
        print(f"{', '.join(map(repr, wrong))} is not a model here: write {names[0]!r} or {names[1]!r}, in quotes.")
        return
    lines, right, bleu_a, bleu_b = [], 0, run_a.bleu(), run_b.bleu()
    for pair in run_a.pairs:
        winner = names[0] if bleu_a[pair] > bleu_b[pair] else names[1]
        hit = prediction[pair] == winner
        right += hit
        scores = f"{names[0]} {bleu_a[pair]:.1f}, {names[1]} {bleu_b[pair]:.1f}"
        lines.append(f"{'right' if hit else 'wrong'}  {pair} ({run_a.sizes[pair]:,} training pairs): {scores}")
    if right == 0:
        lines.append(
            "All six the other way round: a larger tau makes sampling *flatter*, so it favours small languages."
        )
    print(f"{right} of {len(run_a.pairs)} right.", *lines, sep="\n")
