"""Checks of lesson 01: how unequal a corpus is, language tags, token-budget batches, padding, masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_kit.values import with_type
from pmd_lite.config import TokenizerConfig
from pmd_lite.data.batching import Batch, collate
from pmd_lite.data.tokenizer import Tokenizer, split_pair
from pmd_lite.data.tokens import EncodedSplit, TokenArray

_TED8 = [5_664, 9_840, 18_798, 25_335, 134_327, 174_444, 192_304, 205_640]  # smallest first, as in the paper's table
_WMT6 = [3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000]


def _unequal(sizes: Sequence[int]) -> tuple[float, float]:
    larger = sorted(sizes)[len(sizes) // 2 :]
    return max(sizes) / min(sizes), sum(larger) / sum(sizes)


def _random_sizes(rng: np.random.Generator) -> list[int]:
    return [int(n) for n in np.exp(rng.uniform(3, 13, size=6))]


UNEQUAL = Exercise(
    "unequal", _unequal, lambda rng: [([30, 400, 2000, 110],), (_TED8,), (_WMT6,), (_random_sizes(rng),)],
    [
        Mistake("The first half of the list is not the larger half: the paper's tables begin with the smallest. Sort.",
                lambda sizes: (_unequal(sizes)[0], sum(sizes[: len(sizes) // 2]) / sum(sizes))),
        Mistake("The second half of the list is the larger half only if the list is sorted upwards. Sort first.",
                lambda sizes: (_unequal(sizes)[0], sum(sizes[len(sizes) // 2 :]) / sum(sizes))),
        Mistake("That is the share of the smaller half.", lambda sizes: (_unequal(sizes)[0], 1 - _unequal(sizes)[1])),
        Mistake("That is the share of the single largest pair, not of the larger half of the pairs.",
                lambda sizes: (_unequal(sizes)[0], max(sizes) / sum(sizes))),
        Mistake("The second number is a share of all sentences: divide by the sum of all, not by the smaller half's.",
                lambda sizes: (_unequal(sizes)[0], _unequal(sizes)[1] / (1 - _unequal(sizes)[1]))),
        Mistake("The ratio is upside down: the largest pair divided by the smallest.",
                lambda sizes: (1 / _unequal(sizes)[0], _unequal(sizes)[1])),
        Mistake("The ratio is to the smallest pair, not to the mean of all pairs.",
                lambda sizes: (max(sizes) * len(sizes) / sum(sizes), _unequal(sizes)[1])),
        Mistake("Both numbers are right, but in the wrong order: first the ratio, then the share.",
                lambda sizes: _unequal(sizes)[::-1]),
    ],
)  # fmt: skip

_M2O, _O2M = ["fr-en", "de-en", "tr-en"], ["en-fr", "en-de", "en-tr"]
Style = Literal["paper", "released"]


def _tags(pairs: Sequence[str], pair: str, style: Style) -> dict[str, str | None]:
    """What the library's tokenizer does; tags do not depend on the text it was trained on."""
    tokenizer = Tokenizer(TokenizerConfig(tags=style), pairs, {}, {})
    first = tokenizer.prefix(pair)
    return _tagged(tokenizer.piece(tokenizer.encoder_tag(pair)), tokenizer.piece(first[0]) if first else None)


def _tagged(source: str, target: str | None) -> dict[str, str | None]:
    return {"source": source, "target": target}


def _wrong_tags(choose: Callable[[str, str, bool, bool], tuple[str, str | None]]) -> Callable[..., Any]:
    """A wrong rule of (source language, target language, is M2O, is released) -> the two languages named by tags."""

    def answer(pairs: Sequence[str], pair: str, style: Style) -> dict[str, str | None]:
        one_target = len({split_pair(p)[1] for p in pairs}) == 1
        source, target = choose(*split_pair(pair), one_target, style == "released")
        return _tagged(f"__{source}__", None if target is None else f"__{target}__")

    return answer


TAGS = Exercise(
    "tags", _tags, lambda rng: [(pairs, str(rng.choice(pairs)), style)
                                for pairs in (_M2O, _O2M) for style in ("paper", "released")],
    [
        Mistake('style has no effect: this is the rule of "paper" everywhere.',
                _wrong_tags(lambda src, trg, m2o, released: (trg, None))),
        Mistake('style has no effect: this is the rule of "released" everywhere.',
                _wrong_tags(lambda src, trg, m2o, released: (src if m2o else trg, trg))),
        Mistake("The tag on the source names the language to translate *into*; the words show their own language.",
                _wrong_tags(lambda src, trg, m2o, released: (src, trg if released else None))),
        Mistake('Right except for one thing: in "released", a many-to-one source carries its own language, as the '
                "target is always the same.",
                _wrong_tags(lambda src, trg, m2o, released: (trg, trg if released else None))),
        Mistake('Many-to-one and one-to-many are mixed up in "released": the source gives its own language where all '
                "pairs share the target.",
                _wrong_tags(lambda src, trg, m2o, released: ((trg if m2o else src) if released else trg,
                                                             trg if released else None))),
        Mistake('The source tag is right; "released" also puts the target language in front of the target.',
                _wrong_tags(lambda src, trg, m2o, released: (src if m2o and released else trg, None))),
        Mistake('The source tag is right; "paper" puts no tag in front of the target.',
                _wrong_tags(lambda src, trg, m2o, released: (src if m2o and released else trg, trg))),
        Mistake('The tag in front of the target in "released" is the language of the target, not of the source.',
                _wrong_tags(lambda src, trg, m2o, released: (src if m2o and released else trg,
                                                             src if released else None))),
        Mistake("style has no effect, and every pair gives both of its languages: source and target are two rules.",
                _wrong_tags(lambda src, trg, m2o, released: (src, trg))),
    ],
    library=("Tokenizer",),
)  # fmt: skip


def _fill(lengths: Sequence[int], fits: Callable[[list[int]], bool]) -> list[list[int]]:
    """Fill batch after batch in the order given; a sentence that does not fit opens the next one."""
    batches: list[list[int]] = []
    for n in lengths:
        if batches and fits([*batches[-1], n]):
            batches[-1].append(n)
        else:
            batches.append([n])
    return batches


def pack(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Exercise 3: sentence lengths, shortest first, in batches with longest x sentences <= budget."""
    return _fill(sorted(lengths), lambda batch: max(batch) * len(batch) <= budget)


def _chunks(lengths: Sequence[int], size: int) -> list[list[int]]:
    ordered = sorted(lengths)
    return [ordered[i : i + size] for i in range(0, len(ordered), size)]


PACK = Exercise(
    "pack", pack,
    lambda rng: [
        ([7, 3, 5, 4, 9, 2, 6, 3], 10), ([4, 30, 5, 6, 5], 20),
        (rng.integers(3, 25, size=14).tolist(), int(rng.integers(50, 90))),
        (rng.integers(3, 25, size=14).tolist(), int(rng.integers(50, 90))),
    ],
    [
        Mistake("You add up the tokens, and padding is missing: every sentence takes as much room as the longest one.",
                lambda lengths, budget: _fill(sorted(lengths), lambda batch: sum(batch) <= budget)),
        Mistake("You fill batches in the order given. Sort by length first, or a long one sits among short ones.",
                lambda lengths, budget: _fill(lengths, lambda batch: max(batch) * len(batch) <= budget)),
        Mistake("Longest first is sensible too, but the exercise asks for shortest first.",
                lambda lengths, budget: _fill(sorted(lengths)[::-1], lambda batch: max(batch) * len(batch) <= budget)),
        Mistake("A batch that fits exactly is allowed: longest x sentences <= budget, not <.",
                lambda lengths, budget: _fill(sorted(lengths), lambda batch: max(batch) * len(batch) < budget)),
        Mistake("The last batch is lost: after the loop, the one still open must be appended.",
                lambda lengths, budget: pack(lengths, budget)[:-1]),
        Mistake("The budget is in tokens, and you count sentences.",
                lambda lengths, budget: _fill(sorted(lengths), lambda batch: len(batch) <= budget)),
        Mistake("You close a batch after it is over the budget: compute longest x sentences before you add the "
                "sentence.",
                lambda lengths, budget: _fill(sorted(lengths),
                                              lambda batch: max(batch[:-1]) * (len(batch) - 1) <= budget)),
        Mistake("A sentence longer than the budget is lost: it makes a batch of its own.",
                lambda lengths, budget: pack([n for n in lengths if n <= budget], budget)),
        Mistake("All batches have the same number of sentences: only the longest of *this* batch limits it.",
                lambda lengths, budget: _chunks(lengths, max(1, budget // max(lengths)))),
        Mistake("These are numbers of sentences. Return the batches themselves, as lists of lengths.",
                lambda lengths, budget: [len(batch) for batch in pack(lengths, budget)]),
        Mistake("This is one list. Return a list of batches, and each batch is a list.",
                lambda lengths, budget: [n for batch in pack(lengths, budget) for n in batch]),
    ],
    library=("cut_batches",),
)  # fmt: skip


def _padding(lengths: Sequence[int]) -> float:
    batch = _batch(lengths)
    return 1 - batch.tokens / batch.trg_in.numel()


def _batch(lengths: Sequence[int]) -> Batch:
    """The library's batch of sentences of these lengths; their tokens do not matter."""
    tokens = TokenArray.build([[9] * n for n in lengths])
    return collate(EncodedSplit(tokens, tokens), np.arange(len(lengths)), 0)


_PADDING_MISTAKES: Sequence[tuple[str, Callable[[Sequence[int]], float]]] = (
    ("That is the share of real tokens; padding is the rest.", lambda x: sum(x) / (len(x) * max(x))),
    ("You divide by the real tokens. A share of the batch is divided by all its positions.",
     lambda x: len(x) * max(x) / sum(x) - 1),
    ("That is how many positions are padding; the question asks for their share.", lambda x: len(x) * max(x) - sum(x)),
    ("That is the padding of the shortest sentence only; average over all of them.", lambda x: 1 - min(x) / max(x)),
    ("The longest sentence has no padding, but its positions count in the batch too.",
     lambda x: (len(x) * max(x) - sum(x)) / ((len(x) - 1) * max(x))),
    ("In per cent it is right; give the share, a number between 0 and 1.",
     lambda x: 100 - 100 * sum(x) / (len(x) * max(x))),
)  # fmt: skip
_BY_HAND = 4e-3  # three rounded digits are near enough


def my_lengths(student: str) -> list[int]:
    """The batch that this student computes by hand. Raises UserError for an empty name."""
    rng = personal(student, "padding")
    while True:
        lengths = [int(n) for n in rng.permutation(np.arange(4, 21))[:5]]
        answers = [_padding(lengths), *(answer(lengths) for _, answer in _PADDING_MISTAKES)]
        if min(abs(a - b) for i, a in enumerate(answers) for b in answers[:i]) > 0.03:
            return lengths


def my_padding(student: str) -> Exercise:
    """Exercise 4, on this student's own batch."""
    lengths = my_lengths(student)
    mistakes = [Mistake(says, lambda answer=answer: answer(lengths)) for says, answer in _PADDING_MISTAKES]
    return Exercise("padding", lambda: _padding(lengths), mistakes=mistakes, tolerance=_BY_HAND,
                    student=student)  # fmt: skip


def _keep(lengths: Tensor) -> Tensor:
    batch = _batch(lengths.tolist())
    mask = torch.zeros(batch.trg_in.numel(), dtype=torch.bool)
    mask[batch.keep] = True
    return mask.view(batch.trg_in.shape)


def _mask_cases(rng: np.random.Generator) -> Sequence[Case]:
    drawn = [torch.from_numpy(rng.integers(1, 9, size=n)) for n in (5, 7)]
    return [(torch.tensor([4, 2, 3]),), *((torch.cat([x, torch.tensor([10, 1])]),) for x in drawn)]


def _columns(lengths: Tensor) -> Tensor:
    return torch.arange(int(lengths.max()))


KEEP_MASK = Exercise(
    "keep_mask", _keep, _mask_cases,
    [
        Mistake("The mask is inverted: True is a real token, False is padding.", lambda lengths: ~_keep(lengths)),
        Mistake("One position too many in each short row: columns count from 0, so length 2 keeps columns 0 and 1.",
                lambda lengths: _columns(lengths) <= lengths[:, None]),
        Mistake("One position too few: the last token, the end of the sentence, is real and must be learned.",
                lambda lengths: _columns(lengths) < lengths[:, None] - 1),
        Mistake("This pads on the left. Ours are padded on the right: the tokens come first.",
                lambda lengths: _keep(lengths).flip(1)),
        Mistake("Wrong way round: a row is a sentence, a column a position. Compare with lengths[:, None].",
                lambda lengths: _keep(lengths).T),
        Mistake("These are the positions of the real tokens; the exercise asks for the mask that they come from.",
                lambda lengths: _keep(lengths).flatten().nonzero().flatten()),
        Mistake("Every position is kept, padding too: each row must end at its own length.",
                lambda lengths: torch.ones_like(_keep(lengths))),
        Mistake("The pattern is right, the type is not. The exercise asks for a boolean tensor, not for numbers or a "
                "list: compare, or convert with .bool().", lambda lengths: _keep(lengths).float()),
        Mistake("These are the positions of the tokens, not whether there is one.",
                lambda lengths: _columns(lengths).expand(len(lengths), -1)),
    ],
    with_type,
    library=("collate",),
)  # fmt: skip
