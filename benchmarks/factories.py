"""When do two students that teach each other beat two single models? The two factories of lessons 00 and 16, varied.

    python -m benchmarks.factories               what is not stored yet, then the table and the figure
    python -m benchmarks.factories --only noise  one question (with the base case)

One thing is changed at a time: what the two teachers know, how much the tasks have in common, the noise, the parts of
the small factory, the distillation weight, the length of training. Each case is trained in five worlds. Rivals: the two
single networks, the mean of their probabilities, the same two with label smoothing, a single even-handed network with
dropout, and one single network with a sampler between the two. You may interrupt the command and give it again: worlds
that are stored are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pmd_kit.factories import Data, Plan, Sorter, World, loss, predicted, right, train
from pmd_kit.l16.conditions import RIVALS, STORED, Conditions
from pmd_lite.disk import read_json, write_atomic
from pmd_lite.figures.style import save_figure

INF = math.inf
WORLDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Case:
    """One answer to one question. rivals: whether its single networks differ from those of the base case."""

    world: World = field(default_factory=World)
    plan: Plan = field(default_factory=lambda: Plan((1, INF)))
    rivals: bool = True


def _with(taus: Sequence[float] = (1, INF), **words: Any) -> Case:
    """A case with the worlds and single networks of the base case."""
    return Case(plan=Plan(taus, **words), rivals=False)


def _length(steps: int) -> Case:
    return Case(plan=Plan((1, INF), steps=steps, every=steps // 20))


CASES: dict[str, dict[str, Case]] = {
    "base": {"tau=1 and tau=inf, searched": Case()},
    "samplers of the two": {"tau=1 twice": _with((1, 1)), "tau=inf twice": _with((INF, INF)),
                            "tau=1 and tau=2": _with((1, 2))},
    "weight alpha": {f"fixed, {alpha}": _with(alpha=alpha) for alpha in (0.2, 0.5, 0.8)},
    "parts of the small factory": {f"{n:,}": Case(World(parts=(2000, n))) for n in (10, 160, 640)},
    "sensors in common": {"none": Case(World(same=0.0, own=1.0)), "most": Case(World(same=0.9, own=0.4)),
                          "all": Case(World(same=1.0, own=0.0))},
    "random labels": {"none": Case(World(noise=0.0)), "40 %": Case(World(noise=0.4))},
    "updates": {"300": _length(300), "2,000": _length(2000)},
}  # fmt: skip


def _scores(nets: Sequence[nn.Module], data: Data) -> list[float]:
    """[% right large, small; loss large, small] on the test parts."""
    return [round(x, 3) for x in (*right(nets, data), *loss(nets, data))]


def _both(sorters: Sequence[Sorter], data: Data) -> dict[str, list[list[float]]]:
    """The networks that were kept, and those of the last update."""
    return {"kept": [_scores([me.kept], data) for me in sorters], "last": [_scores([me.net], data) for me in sorters]}


def _apart(one: nn.Module, two: nn.Module, data: Data) -> float:
    """% of the test parts of both factories for which two networks name different kinds."""
    shares = [(predicted(one, x).argmax(1) != predicted(two, x).argmax(1)).double().mean() for x, _ in data["test"]]
    return round(50 * float(sum(shares)), 2)


def one_world(case: Case, seed: int) -> dict[str, Any]:
    """All networks of a case in one world."""
    data, plan = case.world.data(seed), case.plan
    students = train(data, seed, plan)
    found: dict[str, Any] = {"students": _both(students, data)}
    found["alpha"] = [[round(a, 3) for a in torch.sigmoid(me.logits).tolist()] for me in students]
    found["apart"] = {"students": _apart(students[0].kept, students[1].kept, data)}
    if not case.rivals:
        return found
    alone = {
        name: [train(data, seed, replace(plan, taus=(tau,), **words))[0] for tau in taus]
        for name, (taus, words) in RIVALS.items()
    }
    found |= {name: _both(sorters, data) for name, sorters in alone.items()}
    one, even = alone["two single"]
    found["ensemble"] = {key: [_scores([getattr(one, net), getattr(even, net)], data)] for key, net in
                         (("kept", "kept"), ("last", "net"))}  # fmt: skip
    found["apart"]["two single"] = _apart(one.kept, even.kept, data)
    # How far the even-handed network has learnt the small factory by heart: % right on what it trained on.
    found["heart"] = {"kept": round(right([even.kept], data, "train")[1], 1),
                      "last": round(right([even.net], data, "train")[1], 1)}  # fmt: skip
    return found


def _write(file: Path, text: str) -> None:
    write_atomic(file, lambda path: path.write_text(text + "\n", encoding="utf-8"))


def main() -> None:
    """Train what is missing, world by world; then write the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), help="only these questions")
    parser.add_argument("--store", type=Path, default=STORED, help="where results are kept")
    parser.add_argument("--report", type=Path, default=Path("build/factories"), help="folder of table and figure")
    words = parser.parse_args()
    torch.set_num_threads(1)
    kept: dict[str, Any] = (
        read_json(words.store) if words.store.exists() else {"command": "python -m benchmarks.factories"}
    )
    results = kept.setdefault("cases", {})
    todo = [
        (question, name, seed)
        for question in dict.fromkeys(["base", *words.only]) for name in CASES[question] for seed in WORLDS
        if str(seed) not in results.get(question, {}).get(name, {})
    ]  # fmt: skip
    print(f"factories: {len(todo)} worlds to train" if todo else "factories: nothing to do", flush=True)
    for question, name, seed in todo:
        began = time.monotonic()
        results.setdefault(question, {}).setdefault(name, {})[str(seed)] = one_world(CASES[question][name], seed)
        _write(words.store, json.dumps(kept, separators=(",", ":")))
        print(f"{question}, {name}, world {seed}: {time.monotonic() - began:.0f} s", flush=True)
    conditions = Conditions.load(words.store)
    tables = "\n\n".join(table.to_markdown() for table in (conditions.table(), conditions.reasons()))
    _write(words.report / "table.md", tables)
    save_figure(conditions.figure(), words.report / "figure")
    print(f"{conditions.table()}\n\n{conditions.reasons()}\n\n{conditions.reading()}\n\nwritten: {words.report}")


if __name__ == "__main__":
    main()
