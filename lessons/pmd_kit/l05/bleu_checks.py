"""Checks of lesson 05, the second half: what BLEU counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu import BLEU

from pmd_kit.exercise import Case, Exercise, Mistake
from pmd_lite.evaluation.bleu import corpus_bleu

# ------------------------------------------------------------------------------------------------- 3: precision


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def _library_matches(hyp: Sequence[str], ref: Sequence[str], n: int) -> list[int]:
    """[matches, n-grams of the hypothesis] as sacreBLEU counts them."""
    metric = BLEU(tokenize="none", max_ngram_order=n, effective_order=True)
    score = metric.sentence_score(" ".join(hyp), [" ".join(ref)])
    return [score.counts[n - 1], score.totals[n - 1]]


def _sentences(rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Few words, so that some are repeated; the hypothesis is a reference with words dropped, said twice or changed."""
    words = ["the", "a", "cat", "dog", "sees", "old", "."]
    ref = [str(w) for w in rng.choice(words, size=int(rng.integers(7, 11)))]
    hyp = [word for word in ref for _ in range(int(rng.choice([0, 1, 1, 1, 2])))]
    return [*hyp, "the", "the", "old", "the", "the"], ref


def _matches_cases(rng: np.random.Generator) -> Sequence[Case]:
    known = ["the", "cat", "the", "cat", "on", "the", "mat"], ["the", "cat", "is", "on", "the", "old", "mat"]
    return [(*known, 1), (*known, 2), (*_sentences(rng), 1), (*_sentences(rng), 2), (*_sentences(rng), 3)]


def _clipped(hyp: Counter[tuple[str, ...]], ref: Counter[tuple[str, ...]]) -> int:
    return sum((hyp & ref).values())


MATCHES = Exercise(
    "matches", _library_matches, _matches_cases,
    [
        Mistake("Not clipped: an n-gram of the hypothesis may match only as often as the reference has it.",
                lambda hyp, ref, n: [sum(c for g, c in _ngrams(hyp, n).items() if g in _ngrams(ref, n)),
                                     _ngrams(hyp, n).total()]),
        Mistake("You count kinds of n-grams: one that comes twice in both counts twice.",
                lambda hyp, ref, n: [len(_ngrams(hyp, n).keys() & _ngrams(ref, n).keys()), len(_ngrams(hyp, n))]),
        Mistake("The matches are kinds of n-grams: one that comes twice in both counts twice.",
                lambda hyp, ref, n: [len(_ngrams(hyp, n).keys() & _ngrams(ref, n).keys()), _ngrams(hyp, n).total()]),
        Mistake("The second number counts the reference's n-grams; that would be recall. Precision asks how many of "
                "the "
                "hypothesis's are right.",
                lambda hyp, ref, n: [_clipped(_ngrams(hyp, n), _ngrams(ref, n)), _ngrams(ref, n).total()]),
        Mistake("A sentence of m tokens has m - n + 1 n-grams, not m.",
                lambda hyp, ref, n: [_clipped(_ngrams(hyp, n), _ngrams(ref, n)), len(hyp)]),
        Mistake("n has no effect: these are the single words.",
                lambda hyp, ref, n: [_clipped(_ngrams(hyp, 1), _ngrams(ref, 1)), len(hyp)]),
        Mistake("The last n-gram is missing: it begins at token len - n.",
                lambda hyp, ref, n: [_clipped(_ngrams(hyp[:-1], n), _ngrams(ref[:-1], n)),
                                     _ngrams(hyp[:-1], n).total()]),
        Mistake("Compared position by position: an n-gram may match anywhere in the reference.",
                lambda hyp, ref, n: [sum(hyp[i : i + n] == ref[i : i + n] for i in range(len(hyp) - n + 1)),
                                     _ngrams(hyp, n).total()]),
    ],
    library=("sentence_score",),
)  # fmt: skip


# ----------------------------------------------------------------------------------------------- 4: corpus BLEU

_Counts = Sequence[Sequence[int]]


def _corpus_cases(rng: np.random.Generator) -> Sequence[Case]:
    """Counts of 1- to 4-grams per sentence; corpora that are too short, too long, and both in turn."""
    cases: list[Case] = []
    for stretch in (0.8, 1.3, 1.0):
        hyp_lens = [int(n) for n in rng.integers(7, 30, size=4)]
        ref_lens = [max(5, round(n / stretch) + (-1) ** i * 3) for i, n in enumerate(hyp_lens)]
        totals = [[n - order for order in range(4)] for n in hyp_lens]
        rates = [np.sort(rng.uniform(0.3, 0.95, size=4))[::-1] for _ in totals]
        matches = np.maximum(1, np.array(totals) * rates).astype(int).tolist()
        cases.append((matches, totals, hyp_lens, ref_lens))
    return cases


def _bleu(
    matches: _Counts, totals: _Counts, hyp_len: float, ref_len: float, *,
    brevity: Callable[[float, float], float] | None = None,
    mean: Callable[[Any], Any] = lambda precisions: math.exp(np.log(precisions).mean()),
) -> float:  # fmt: skip
    precisions = np.sum(matches, axis=0) / np.sum(totals, axis=0)
    return float(100 * (brevity or _brevity)(hyp_len, ref_len) * mean(precisions))


def _brevity(hyp_len: float, ref_len: float) -> float:
    return min(1.0, math.exp(1 - ref_len / hyp_len))


def _library_bleu(matches: _Counts, totals: _Counts, hyp_lens: Sequence[int], ref_lens: Sequence[int]) -> float:
    right, all_ = ([int(n) for n in np.sum(x, axis=0)] for x in (matches, totals))
    return float(BLEU.compute_bleu(right, all_, sum(hyp_lens), sum(ref_lens), smooth_method="none").score)


def _with(**changes: Any) -> Callable[..., float]:
    return lambda m, t, h, r: _bleu(m, t, sum(h), sum(r), **changes)


CORPUS_BLEU = Exercise(
    "bleu", _library_bleu, _corpus_cases,
    [
        Mistake("That is the mean of the sentences' BLEUs. Add up matches, totals and lengths over the corpus first.",
                lambda m, t, h, r: np.mean([_bleu([a], [b], c, d) for a, b, c, d in zip(m, t, h, r, strict=True)])),
        Mistake("Precisions are averaged over sentences: add up matches and totals first, so that long sentences "
                "weigh more.",
                lambda m, t, h, r: 100 * _brevity(sum(h), sum(r)) * math.exp(
                    np.log(np.mean(np.array(m) / np.array(t), axis=0)).mean())),
        Mistake("The brevity penalty is missing: a translation that is too short must lose points.",
                _with(brevity=lambda h, r: 1.0)),
        Mistake("The brevity penalty is upside down: it is exp(1 - reference length / hypothesis length).",
                _with(brevity=lambda h, r: min(1.0, math.exp(1 - h / r)))),
        Mistake("The precisions already punish translations that are too long, so the brevity penalty is at most 1.",
                _with(brevity=lambda h, r: math.exp(1 - r / h))),
        Mistake("The brevity penalty is exp(1 - r / h), not the ratio of the lengths.",
                _with(brevity=lambda h, r: min(1.0, h / r))),
        Mistake("Brevity is judged sentence by sentence here; in BLEU only the whole corpus must be long enough.",
                lambda m, t, h, r: _bleu(m, t, 1, 1) * np.mean([_brevity(*both) for both in zip(h, r, strict=True)])),
        Mistake("That is the ordinary mean of the four precisions: BLEU takes the geometric one, exp(mean of logs).",
                _with(mean=np.mean)),
        Mistake("The four precisions are multiplied: take the fourth root of the product.", _with(mean=np.prod)),
        Mistake("BLEU is counted from 0 to 100: multiply by 100.",
                lambda m, t, h, r: _bleu(m, t, sum(h), sum(r)) / 100),
    ],
    library=("compute_bleu", "corpus_score"),
)  # fmt: skip

# ----------------------------------------------------------------------------------------------- 5: the zh trap

_CHINESE = [
    ("我昨天在 bbc 看了一部关于长城的电影。", "昨天我在 BBC 看了一部关于长城的影片。"),
    ("他们的公司有 120 名员工。", "他们公司有 120 名员工。"),
    ("今天的天气很好，我们去公园吧。", "今天天气很好，我们去公园走走吧。"),
    ("这本书是我的朋友写的。", "这本书是我朋友写的。"),
    ("请问火车站在哪里？", "请问，火车站怎么走？"),
    ("老师说明天没有课。", "老师说明天不上课。"),
    ("她每天早上六点起床。", "她每天早上六点钟起床。"),
    ("巴黎是法国的首都。", "巴黎是法国的首都。"),
]


def chinese() -> tuple[list[str], list[str]]:
    """Translations into Chinese and their references, detokenised, as a system would hand them out."""
    return [hyp for hyp, _ in _CHINESE], [ref for _, ref in _CHINESE]


def _chinese_cases(rng: np.random.Generator) -> Sequence[Case]:
    hyps, refs = chinese()
    chosen = rng.permutation(len(hyps))[:5].tolist()
    return [(hyps, refs), ([hyps[i] for i in (0, *chosen)], [refs[i] for i in (0, *chosen)])]


def _sacre(tokenize: str, **options: Any) -> Callable[[list[str], list[str]], float]:
    return lambda hyps, refs: float(BLEU(tokenize=tokenize, **options).corpus_score(hyps, [refs]).score)


SCORE_ZH = Exercise(
    "score_zh", lambda hyps, refs: corpus_bleu(hyps, refs, "zh").bleu, _chinese_cases,
    [
        Mistake("This is the trap: the default tokenizer, 13a, treats a Chinese sentence without spaces as one "
                "long word. "
                "Ask for tokenize='zh'.", _sacre("13a")),
        Mistake("References come as a list of *sets*, an inner list for each set: corpus_score(hyps, [refs]). With "
                "refs alone every line counts as a set, and its letters count as sentences.",
                lambda hyps, refs: float(BLEU(tokenize="zh").corpus_score(hyps, refs).score)),
        Mistake("tokenize='char' cuts Latin words and numbers into letters too: that is not the number that "
                "papers report. Ask for 'zh'.", _sacre("char")),
        Mistake("Translations and references are exchanged: translations first.",
                lambda hyps, refs: _sacre("zh")(refs, hyps)),
        Mistake("That is the mean of sentence BLEUs. Score the corpus: corpus_score.",
                lambda hyps, refs: float(np.mean([BLEU(tokenize="zh", effective_order=True).sentence_score(h, [r]).score
                                                  for h, r in zip(hyps, refs, strict=True)]))),
        Mistake("You score in lower case. The number to compare with is cased.", _sacre("zh", lowercase=True)),
        Mistake("tokenize='intl' knows punctuation of all languages, but no Chinese words. Ask for 'zh'.",
                _sacre("intl")),
    ],
    lambda answer, case: _number(answer(*case)),
)  # fmt: skip


def _number(score: Any) -> Any:
    """The number inside a sacreBLEU score object, so that returning the object counts too."""
    return getattr(score, "score", score)
