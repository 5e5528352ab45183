"""Checks of lesson 15: how long, how expensive, how large a run is; which tokenizer; what --scale does to the sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_kit.miniatures import WMT_SIZES
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.evaluation.tokenizers import tokenizer_for

UPDATE = 65_536
LEAST = 1_000
_SIZES = list(WMT_SIZES.values())


# ---- updates from tokens


def right_updates(sizes: Sequence[int], mean_tokens: float, budget: int, epochs: float) -> int:
    """As the trainer counts: whole updates in an epoch, then epochs of them."""
    epoch = math.ceil(sum(sizes) * mean_tokens / budget)
    return math.ceil(epochs * epoch)


def _lengths(rng: np.random.Generator) -> Sequence[Case]:
    drawn = [int(n) for n in np.exp(rng.uniform(9, 14, size=3))]
    return [
        ([40_000, 2_000], 25.0, 4_096, 10), (_SIZES, 30.0, UPDATE, 70), (_SIZES, 31.5, UPDATE, 70),
        (drawn, float(rng.uniform(15, 40)), 8_192, int(rng.integers(3, 30))),
    ]  # fmt: skip


UPDATES = Exercise(
    "updates", right_updates, _lengths,
    [
        Mistake("You count sentences as if each were one token: multiply by mean_tokens.",
                lambda sizes, mean, budget, epochs: right_updates(sizes, 1.0, budget, epochs)),
        Mistake("That is one epoch. The run has `epochs` of them.",
                lambda sizes, mean, budget, epochs: right_updates(sizes, mean, budget, 1)),
        Mistake("All pairs together make an epoch, not the largest alone.",
                lambda sizes, mean, budget, epochs: right_updates([max(sizes)], mean, budget, epochs)),
        Mistake("An epoch ends with a whole update, so round up once an epoch, before you multiply.",
                lambda sizes, mean, budget, epochs: math.ceil(sum(sizes) * mean * epochs / budget)),
        Mistake("Rounded down: the last tokens of an epoch take an update as well.",
                lambda sizes, mean, budget, epochs: math.floor(sum(sizes) * mean / budget) * epochs),
        Mistake("Return the updates of each student. The second one makes as many.",
                lambda sizes, mean, budget, epochs: 2 * right_updates(sizes, mean, budget, epochs)),
        Mistake("The budget is that of the whole update; it need not be multiplied by 8 again.",
                lambda sizes, mean, budget, epochs: right_updates(sizes, mean, 8 * budget, epochs)),
        Mistake("Nothing is rounded. An epoch ends with a whole update: round up once an epoch.",
                lambda sizes, mean, budget, epochs: sum(sizes) * mean * epochs / budget),
    ],
)  # fmt: skip


# ---- hours from tokens per second


def right_hours(tokens: float, tokens_per_second: float, passes: float, gpus: int) -> float:
    """Wall hours at best: what one GPU would take, shared evenly."""
    return tokens * passes / 3 / tokens_per_second / 3600 / gpus


def _costs(rng: np.random.Generator) -> Sequence[Case]:
    drawn = (float(rng.uniform(1e9, 2e10)), float(rng.uniform(5e3, 5e4)), float(rng.choice([6.0, 8.0, 10.0])),
             int(rng.choice([2, 4, 8])))  # fmt: skip
    return [(1e9, 20_000.0, 10.0, 4), (1.05e10, 25_000.0, 8.0, 8), (1.05e10, 25_000.0, 10.0, 1), drawn]


HOURS = Exercise(
    "gpu_hours", right_hours, _costs,
    [
        Mistake("That is the time of a plain model, three passes a token. A method with `passes` passes takes passes "
                "/ 3 as long.",
                lambda n, speed, passes, gpus: right_hours(n, speed, 3.0, gpus)),
        Mistake("tokens_per_second is the speed of training a plain model, which makes three passes a token already: "
                "take passes / 3.", lambda n, speed, passes, gpus: right_hours(n, speed, 3 * passes, gpus)),
        Mistake("These are seconds. An hour has 3,600.",
                lambda n, speed, passes, gpus: 3600 * right_hours(n, speed, passes, gpus)),
        Mistake("These are minutes. An hour has 60 of them.",
                lambda n, speed, passes, gpus: 60 * right_hours(n, speed, passes, gpus)),
        Mistake("These are GPU hours, what you pay for. Return how long you wait: the GPUs share the work.",
                lambda n, speed, passes, gpus: right_hours(n, speed, passes, 1)),
        Mistake("More GPUs make it shorter, not longer.",
                lambda n, speed, passes, gpus: right_hours(n, speed, passes, 1) * gpus),
        Mistake("More passes make it longer, not shorter.",
                lambda n, speed, passes, gpus: right_hours(n, speed, 9 / passes, gpus)),
        Mistake("These are seconds on one GPU, and passes has no effect.",
                lambda n, speed, passes, gpus: n / speed),
    ],
    tolerance=1e-4,
)  # fmt: skip


# ---- disk, of one's own model

_GB = 1e9


def my_model(student: str) -> tuple[float, int]:
    """(million parameters of one student, number of students). Raises UserError for an empty name."""
    rng = personal(student, "disk")
    return float(rng.choice([40, 60, 76, 90, 110, 140, 210])), int(rng.choice([2, 3]))


def right_disk(millions: float, students: int) -> tuple[float, float]:
    """(GB that stay, GB while a checkpoint replaces the last one)."""
    latest, best = students * millions * 1e6 * 12 / _GB, students * millions * 1e6 * 4 / _GB
    return latest + best, 2 * latest + best


_DISK_MISTAKES: Sequence[tuple[str, Callable[[float, int], tuple[float, float]]]] = (
    ("Adam's two moments are as large as the weights, each: the latest checkpoint has 12 bytes a parameter.",
     lambda m, n: (n * m * 8e6 / _GB, n * m * 12e6 / _GB)),
    ("The best weights are kept beside the latest checkpoint: 4 more bytes a parameter.",
     lambda m, n: (n * m * 12e6 / _GB, n * m * 24e6 / _GB)),
    ("That is one student. All of them are saved.", lambda m, n: right_disk(m, 1)),
    ("Gradients are not saved: they are made anew by the next backward pass.",
     lambda m, n: (n * m * 20e6 / _GB, n * m * 36e6 / _GB)),
    ("The old checkpoint goes only when the new one is whole: for a moment both are there.",
     lambda m, n: (right_disk(m, n)[0], right_disk(m, n)[0])),
    ("The best weights are not written twice: only the latest checkpoint is there in two copies.",
     lambda m, n: (right_disk(m, n)[0], 2 * right_disk(m, n)[0])),
    ("These are MB. A GB has a thousand.", lambda m, n: (1e3 * right_disk(m, n)[0], 1e3 * right_disk(m, n)[1])),
    ("Also in an fp16 run the weights are saved in 32 bits: 4 bytes each.",
     lambda m, n: (right_disk(m, n)[0] / 2, right_disk(m, n)[1] / 2)),
)  # fmt: skip


def my_disk(student: str) -> Exercise:
    """Exercise 3, on this student's own model."""
    millions, students = my_model(student)
    mistakes = [Mistake(says, lambda f=f: f(millions, students)) for says, f in _DISK_MISTAKES]
    return Exercise("answer", lambda: right_disk(millions, students), mistakes=mistakes, tolerance=2e-2,
                    student=student)  # fmt: skip


# ---- tokenizers


def right_tokenizer(pair: str) -> str:
    """By the target language."""
    return tokenizer_for(split_pair(pair)[1])


def _some_pairs(rng: np.random.Generator) -> Sequence[Case]:
    names = ("en-zh", "zh-en", "en-fr", "tr-en", "en-ja", "ja-zh", "zh-ja", "en-ko")
    return [(name,) for name in (*names, str(rng.choice(["en-de", "en-et", "en-ro"])))]


TOKENIZER = Exercise(
    "tokenizer", right_tokenizer, _some_pairs,
    [
        Mistake("BLEU looks at the translation, so the target decides, the second language. You took the first.",
                lambda pair: tokenizer_for(split_pair(pair)[0])),
        Mistake("13a cuts at spaces and punctuation, and Chinese has no spaces.", lambda pair: "13a"),
        Mistake("Chinese on either side is not enough: into English, 13a is right. Look at the target.",
                lambda pair: "zh" if "zh" in pair else right_tokenizer(pair)),
        Mistake("You look at the source: the target decides, the language after the hyphen.",
                lambda pair: "zh" if pair.startswith("zh") else "13a"),
        Mistake("Japanese and Korean have their own, ja-mecab and ko-mecab; zh splits Han characters alone.",
                lambda pair: "zh" if split_pair(pair)[1] in ("zh", "ja", "ko") else "13a"),
        Mistake("Only the Chinese target is right. Japanese and Korean need ja-mecab and ko-mecab.",
                lambda pair: "zh" if split_pair(pair)[1] == "zh" else "13a"),
        Mistake("zh is for Chinese; European languages are split by 13a.",
                lambda pair: right_tokenizer(pair) if split_pair(pair)[1] in ("ja", "ko") else "zh"),
        Mistake("Chinese on either side is not enough, and Japanese and Korean have tokenizers of their own.",
                lambda pair: "zh" if "zh" in pair else "13a"),
        Mistake("That is the target language. Return the name of its tokenizer.",
                lambda pair: split_pair(pair)[1]),
    ],
    library=("tokenizer_for",),
)  # fmt: skip


# ---- sizes under --scale


def right_scaled(sizes: Mapping[str, int], scale: float) -> dict[str, int]:
    """As data_scripts/pmd_corpora/wmt6.py."""
    return {lang: min(size, max(LEAST, round(size * scale))) for lang, size in sizes.items()}


def _scales(rng: np.random.Generator) -> Sequence[Case]:
    odd = {"fr": 3_000_000, "et": 81_270, "xx": 600}
    wmt = dict(WMT_SIZES)
    return [(wmt, 0.01), (wmt, 0.1), (wmt, 1.0), (odd, 0.05), (wmt, float(rng.uniform(0.02, 0.09)))]


SCALED = Exercise(
    "scaled", right_scaled, _scales,
    [
        Mistake("The floor is missing: no language may get fewer than 1,000 pairs.",
                lambda sizes, scale: {k: round(n * scale) for k, n in sizes.items()}),
        Mistake("A language with fewer than 1,000 pairs to begin with cannot get 1,000: never more than there are.",
                lambda sizes, scale: {k: max(LEAST, round(n * scale)) for k, n in sizes.items()}),
        Mistake("The floor comes after the scaling. You raise first and scale afterwards, so small languages shrink "
                "again.",
                lambda sizes, scale: {k: min(n, round(max(LEAST, n) * scale)) for k, n in sizes.items()}),
        Mistake("You take the smaller of the two. The floor is the larger of 1,000 and the scaled size.",
                lambda sizes, scale: {k: min(n, LEAST, round(n * scale)) for k, n in sizes.items()}),
        Mistake("You divide by scale. It is a share of the full size: multiply.",
                lambda sizes, scale: {k: min(n, max(LEAST, round(n / scale))) for k, n in sizes.items()}),
        Mistake("This keeps all ratios, with 1,000 for the smallest, and ignores scale. --scale scales each by itself.",
                lambda sizes, scale: {k: round(n * LEAST / min(sizes.values())) for k, n in sizes.items()}),
        Mistake("You cut off the fraction; sizes are rounded.",
                lambda sizes, scale: {k: min(n, max(LEAST, int(n * scale))) for k, n in sizes.items()}),
    ],
    tolerance=1e-9,
)  # fmt: skip
