"""Checks of lesson 05: searching for a translation here, scoring it in `lesson05_bleu`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from pmd_kit.exercise import Case, Exercise, Mistake, personal
from pmd_kit.l05.bleu_checks import CORPUS_BLEU, MATCHES, SCORE_ZH, chinese
from pmd_lite.data.tokenizer import BOS, EOS, PAD
from pmd_lite.model.decoding import translate_batch
from pmd_lite.model.transformer import Transformer

__all__ = ["CORPUS_BLEU", "GREEDY", "MATCHES", "SCORE_ZH", "chinese", "scores", "your_hypotheses"]

# ---------------------------------------------------------------------------------------------------- 1: greedy

_VOCAB, _NEVER = 12, 100.0


@functools.lru_cache(maxsize=64)
def _speaker(seed: int, eos_bonus: float) -> Transformer:
    """A tiny model with random weights that never says PAD or BOS; eos_bonus is added to the logit of EOS."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(
            _VOCAB, d_model=8, heads=2, encoder_layers=1, decoder_layers=1, ffn=16, tie="none", max_len=24
        )
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.4)
        norm = model.decoder_norm
        assert model.output is not None and isinstance(norm, torch.nn.LayerNorm)
        with torch.no_grad():
            for table in (model.embedding, model.output):  # large: what is said next depends on what was said last
                torch.nn.init.normal_(table.weight)
            norm.weight.fill_(1.0)
            norm.bias.zero_()
            norm.weight[0], norm.bias[0] = 0.0, 1.0  # the first state is 1 always: a token's first weight is its bonus
            model.output.weight[:, 0] = 0.0
            model.output.weight[[PAD, BOS], 0] = -_NEVER
            model.output.weight[EOS, 0] = eos_bonus
    return model.requires_grad_(False).eval()


def _library_greedy(model: Transformer, src: Tensor, bos: int, eos: int, max_len: int) -> list[int]:
    return translate_batch(model, src, beam=1, max_len=max_len, bos=bos, eos=eos, pad=PAD)[0].tokens


def _greedy_cases(rng: np.random.Generator) -> Sequence[Case]:
    """(seed of the model, bonus of EOS, source, longest translation): one that ends by itself, one that is cut off."""
    return _telling_cases(int(rng.integers(2**31)))


@functools.lru_cache(maxsize=64)  # looking for a model on which no two mistakes agree takes a moment
def _telling_cases(start: int) -> Sequence[Case]:
    rng = np.random.default_rng(start)
    while True:
        seed, length = int(rng.integers(10_000)), int(rng.integers(3, 7))
        src = torch.from_numpy(rng.integers(4, _VOCAB, size=(1, length)))
        model = _speaker(seed, -_NEVER)
        endless = _library_greedy(model, src, BOS, EOS, 9)
        if len(set(endless[:3])) < 3:  # a model that stammers would not tell one mistake from another
            continue
        forgetful = _by_hand(model, src, BOS, EOS, 6, remember=False)
        if forgetful in (_by_hand(model, src, BOS, EOS, 6), _by_hand(model, src, BOS, EOS, 6, place=0)):
            continue
        logits = model(src, torch.tensor([[BOS, *endless[:7]]]))[0]
        missing = logits.max(-1).values - logits[:, EOS]  # what EOS lacks to win, step by step
        order = missing.argsort()
        if order[0] >= 3 and missing[order[1]] - missing[order[0]] > 0.2:
            bonus = float(missing[order[0]]) + 0.1 - _NEVER
            return [(seed, bonus, src, 9), (seed, -_NEVER, src, 6)]


def _by_hand(
    model: Transformer, src: Tensor, bos: int, eos: int, max_len: int, *, choose: str = "argmax", place: int = -1,
    remember: bool = True, stop: bool = True, extra: int = 0,
) -> list[int]:  # fmt: skip
    """Greedy search, with switches for the ways to get it wrong. Keeps BOS, and EOS where it ends."""
    tokens = [bos]
    while len(tokens) <= max_len + extra:
        seen = tokens if remember else tokens[-1:]
        logits = model(src, torch.tensor([seen]))[0, place]
        tokens.append(int(getattr(logits, choose)()))
        if stop and tokens[-1] == eos:
            break
    return tokens


def _content(tokens: Sequence[int], eos: int) -> list[int]:
    return [t for t in tokens[1:] if t != eos]


GREEDY = Exercise(
    "greedy", _library_greedy, _greedy_cases,
    [
        Mistake("EOS stays in: it ends the translation and is not part of it.", lambda *a: _by_hand(*a)[1:]),
        Mistake("BOS stays in: it starts the decoder and is not part of the translation.",
                lambda *a: [a[2], *_content(_by_hand(*a), a[3])]),
        Mistake("EOS is ignored: stop as soon as the model says it.", lambda *a: _by_hand(*a, stop=False)[1:]),
        Mistake("One token too few: BOS does not count as one of the max_len.",
                lambda *a: _content(_by_hand(*a, extra=-1), a[3])),
        Mistake("One token too many when no EOS comes: at most max_len tokens, not counting BOS.",
                lambda *a: _content(_by_hand(*a, extra=1), a[3])),
        Mistake("You read the prediction of the wrong position: the newest one is the last, logits[0, -1].",
                lambda *a: _content(_by_hand(*a, place=0), a[3])),
        Mistake("The decoder gets the last token alone. Without a cache it must see BOS and all that was said so far.",
                lambda *a: _content(_by_hand(*a, remember=False), a[3])),
        Mistake("argmin picks the least probable token.", lambda *a: _content(_by_hand(*a, choose="argmin"), a[3])),
    ],
    lambda answer, case: answer(_speaker(*case[:2]), case[2], BOS, EOS, case[3]),
    library=("translate_batch", "translate"),
)  # fmt: skip

# --------------------------------------------------------------------------------------- 2: two scores by hand


def your_hypotheses(student: str) -> tuple[list[float], list[float], float]:
    """Probabilities of the tokens of a short and a long hypothesis, EOS the last of each, and a length penalty.

    The two totals favour the short one, the scores the long one. UserError for an empty name.
    """
    rng = personal(student, "lesson 05, scores")
    while True:
        short, long = ((rng.integers(30, 95, size=n) / 100).tolist() for n in (3, 6))
        penalty = float(rng.choice([0.8, 0.9, 1.1, 1.2]))
        a, b = _sum(short), _sum(long)
        # far enough apart that rounding to two decimals decides nothing
        if a > b + 0.1 and a / 3**penalty + 0.05 < b / 6**penalty:
            return short, long, penalty


def _sum(probabilities: Sequence[float]) -> float:
    return float(np.log(probabilities).sum())


def scores(student: str) -> Exercise:
    """The exercise to score one student's two hypotheses by hand: [score of the short one, score of the long one]."""
    short, long, penalty = your_hypotheses(student)

    def of_both(rule: Callable[[Sequence[float]], float]) -> Callable[[], list[float]]:
        return lambda: [rule(short), rule(long)]

    return Exercise("scores", of_both(lambda p: _sum(p) / len(p) ** penalty), mistakes=[
        Mistake("These are the sums of the log-probabilities: divide by length ** penalty.", of_both(_sum)),
        Mistake("You divide by the length: raise it to the power of the penalty first.",
                of_both(lambda p: _sum(p) / len(p))),
        Mistake("The length is without EOS: EOS is a token with a probability like the others, and it counts.",
                of_both(lambda p: _sum(p) / (len(p) - 1) ** penalty)),
        Mistake("EOS is left out, in the sum and in the length: it is a token like the others, and it counts.",
                of_both(lambda p: _sum(p[:-1]) / (len(p) - 1) ** penalty)),
        Mistake("You divide by length * penalty: the penalty is an exponent.",
                of_both(lambda p: _sum(p) / (len(p) * penalty))),
        Mistake("You multiply by length ** penalty: divide, or long hypotheses are punished twice.",
                of_both(lambda p: _sum(p) * len(p) ** penalty)),
        Mistake("The log is missing: that is the product of the probabilities, divided.",
                of_both(lambda p: math.exp(_sum(p)) / len(p) ** penalty)),
        Mistake("The sum of probabilities means nothing: add their logarithms.",
                of_both(lambda p: math.fsum(p) / len(p) ** penalty)),
        Mistake("That is log to the base 10: use the natural one, math.log.",
                of_both(lambda p: _sum(p) / math.log(10) / len(p) ** penalty)),
        Mistake("Right numbers in the wrong order: first the short hypothesis, then the long one.",
                lambda: [_sum(p) / len(p) ** penalty for p in (long, short)]),
    ], tolerance=0.006, student=student)  # fmt: skip
