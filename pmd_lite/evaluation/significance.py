"""Is one system better than another, over several seeds and pairs? A paired hierarchical bootstrap of mean test BLEU.

Mean test BLEU is corpus BLEU of every pair, averaged over pairs and then over seeds. It has two sources of chance:
which sentences are in the test set, and which seed a model was trained with. Both are resampled here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmd_lite.config import Tokenize
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import check_lines
from pmd_lite.evaluation.tokenizers import bleu_metric

SentenceStats = NDArray[np.int64]
"""[sentence, 10]: matched n-grams for n = 1..4, n-grams of the translation for n = 1..4, its length, the reference's.

Corpus BLEU depends only on their sums over sentences. One array per system, seed and pair.
"""

ORDERS = 4
LEVEL = 0.05
_BLOCK = 250  # resamples at a time: their counts take 8 bytes for each resample and sentence


@dataclass(frozen=True)
class Difference:
    """How much better `other` is than `base`, in BLEU. low, high: 95 % percentile interval. p_value: two-sided."""

    delta: float
    low: float
    high: float
    p_value: float

    @property
    def mark(self) -> str:
        """ "▲" for better and "▼" for worse with p < 0.05, else nothing."""
        return "" if self.p_value >= LEVEL else "▲" if self.delta > 0 else "▼"


def sentence_stats(
    hyps: Sequence[str], refs: Sequence[str], trg_lang: str, tokenize: Tokenize = "auto"
) -> SentenceStats:
    """BLEU's statistics of each translation, [sentence, 10]; arguments and errors as those of `bleu.corpus_bleu`."""
    check_lines(hyps, refs)
    metric = bleu_metric(trg_lang, tokenize)
    metric.effective_order = True  # changes no counts; without it sacreBLEU logs a warning
    scores = [metric.sentence_score(hyp, [ref]) for hyp, ref in zip(hyps, refs, strict=True)]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores], dtype=np.int64)


def bleu_of(stats_sum: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Corpus BLEU (0..100) from statistics summed over sentences: [..., 10] to [...].

    Equal to sacreBLEU's corpus score with its default smoothing "exp": the k-th precision without a match counts as
    1 / 2**k matches. The score is 0 without any match, or if no translation is long enough for a 4-gram.
    """
    sums = np.asarray(stats_sum, dtype=np.float64)
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    hyp_len, ref_len = sums[..., -2], sums[..., -1]
    none = matches == 0
    scored = ~none.all(axis=-1) & (totals > 0).all(axis=-1)
    smoothed = np.where(none, 0.5 ** np.cumsum(none, axis=-1), matches)
    logs = np.log(smoothed / np.maximum(totals, 1.0)).mean(axis=-1)
    brevity = np.minimum(0.0, 1.0 - ref_len / np.maximum(hyp_len, 1.0))
    return np.where(scored, 100.0 * np.exp(logs + brevity), 0.0)


def paired_bootstrap(
    base: Sequence[Sequence[SentenceStats]], other: Sequence[Sequence[SentenceStats]], n: int = 1000,
    seed: int = 12345,
) -> Difference:  # fmt: skip
    """Difference in mean test BLEU, `other` minus `base`, with an interval and a p-value from n resamples.

    base[s][p], other[s][p]: statistics of pair p in the model of seed s. The two systems must have the same seeds, in
    the same order, and all models the same test sentences. Give the pairs of one group to test that group alone.

    Each resample draws the sentences of every pair with replacement, the same for both systems and all seeds. When
    there are m > 1 seeds, it also draws m - 1 of them with replacement: drawing m would make the variance of a mean
    over m seeds too small by the factor (m - 1) / m (McCarthy and Snowden 1985).
    p_value = 2 min(share of differences <= 0, share >= 0), at most 1, with 1 added to every count so that it is
    never 0; a system compared with itself gets 1.

    It covers another test set of the same kind, and another training run on the same data. It does not cover other
    data, other hyperparameters, or another way to choose the checkpoint. With a single seed only sentences are drawn:
    the answer is about these two models, not about their methods. With three seeds the spread over seeds is rough: if
    all three differences have the same sign (equally good methods do this once in four times), no draw of seeds changes
    the sign. Among 100 simulated comparisons of equally good methods with three seeds, none was marked where seeds did
    not matter, and 11 where seeds mattered more than sentences. Nothing is corrected for testing many systems.

    Raises UserError for unequal numbers of seeds, pairs or sentences, and for different references.
    """
    _check(base, other)
    seeds, pairs = len(base), len(base[0])
    rng = np.random.default_rng(seed)
    draws = max(1, seeds - 1)
    weights = rng.multinomial(draws, np.full(seeds, 1 / seeds), size=n) / draws  # [resample, seed]
    observed = np.zeros(seeds)
    drawn = np.zeros((n, seeds))
    for pair in range(pairs):
        stats = np.array([[model[pair] for model in system] for system in (base, other)], dtype=np.float64)
        observed += _gain(stats.sum(axis=2)) / pairs  # stats: [system, seed, sentence, 10]
        for start in range(0, n, _BLOCK):
            counts = draw_sentences(rng, min(_BLOCK, n - start), stats.shape[2])
            drawn[start : start + _BLOCK] += _gain(counts @ stats).T / pairs
    deltas = np.round((weights * drawn).sum(axis=1), 9)  # equal scores may differ in the last bit
    low, high = np.quantile(deltas, [LEVEL / 2, 1 - LEVEL / 2])
    tail = min(int((deltas <= 0).sum()), int((deltas >= 0).sum()))
    return Difference(float(observed.mean()), float(low), float(high), min(1.0, 2 * (tail + 1) / (n + 1)))


def _gain(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of the second system minus BLEU of the first: [system, ..., 10] to [...]."""
    base, other = bleu_of(sums)
    return np.asarray(other - base)


def draw_sentences(rng: np.random.Generator, rows: int, sentences: int) -> NDArray[np.float64]:
    """[resample, sentence] how often each sentence is drawn; each row sums to `sentences`."""
    picks = rng.integers(sentences, size=(rows, sentences)) + sentences * np.arange(rows)[:, None]
    counts = np.bincount(picks.ravel(), minlength=rows * sentences)
    return counts.reshape(rows, sentences).astype(np.float64)  # floats multiply faster, and exactly here


def _check(base: Sequence[Sequence[SentenceStats]], other: Sequence[Sequence[SentenceStats]]) -> None:
    """Raises UserError unless everything can be compared."""
    if not base or len(base) != len(other):
        raise UserError(f"{len(base)} seeds against {len(other)}. Give both systems the same seeds, at least one.")
    first = base[0]
    for number, model in enumerate([*base, *other], 1):
        if len(model) != len(first) or not first:
            raise UserError(f"Model {number} has {len(model)} pairs, the first has {len(first)}. Score all on equal "
                            "pairs.")  # fmt: skip
        for pair, (stats, known) in enumerate(zip(model, first, strict=True)):
            if np.shape(stats) != (max(1, len(known)), 2 * ORDERS + 2):
                raise UserError(f"Pair {pair}: statistics of shape {np.shape(stats)} beside {np.shape(known)}. Each "
                                "model needs sentence_stats of the same test sentences, at least one.")  # fmt: skip
            if (stats[:, -1] != known[:, -1]).any():
                raise UserError(f"Pair {pair}: references differ in length. Score all models on the same test set.")
