"""BLEU and chrF by sacreBLEU, always over detokenised text and always with the signature beside the number.

A BLEU score without its tokenizer is not a number one can compare: Chinese split by the default tokenizer is one long
word per sentence. The tokenizer therefore follows from the target language (tokenizers.py), unless one is asked for.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from sacrebleu import BLEU, CHRF
from sacrebleu.significance import PairedTest, Result

from pmd_lite.config import Tokenize
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tokenizers import bleu_metric, tokenizer_for

__all__ = [
    "Score", "SystemRow", "chrf_only", "compare_systems", "corpus_bleu", "exact_match", "tokenizer_for"
]  # fmt: skip

_TEST_TYPES: dict[str, Literal["bs", "ar"]] = {"bootstrap": "bs", "randomisation": "ar"}
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Score:
    """BLEU and chrF2 of one set of translations, both in 0..100, each with the sacreBLEU signature that explains it."""

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str


@dataclass(frozen=True)
class SystemRow:
    """One system of a comparison; the first row is the baseline.

    ci: half the width of the 95 % bootstrap interval, in BLEU.
    p_value: chance of a difference this large if system and baseline were equally good; None for the baseline.
    """

    system: str
    bleu: float
    ci: float
    p_value: float | None
    signature: str


def corpus_bleu(
    hyps: Sequence[str], refs: Sequence[str], trg_lang: str, tokenize: Tokenize = "auto"
) -> Score:  # fmt: skip
    """Score detokenised translations against one reference each: cased BLEU and chrF2.

    tokenize: the tokenizer of BLEU; "auto" is the one that fits the language (`tokenizer_for`).

    Smoothing is sacreBLEU's default ("exp"): a precision of zero counts as half of one match, then a quarter, and so
    on. It matters only for very poor or very few translations. sacreBLEU logs a warning if the text looks tokenised.

    Raises UserError if the lists are empty, differ in length or hold anything but strings; MissingScorer if the
    tokenizer is not installed (then `chrf_only` still works).
    """
    _check_lines(hyps, refs, "translations")
    bleu = bleu_metric(trg_lang, tokenize)
    bleu_score = float(bleu.corpus_score(hyps, [refs]).score)
    chrf_score, chrf_signature = chrf_only(hyps, refs)
    return Score(bleu_score, chrf_score, str(bleu.get_signature()), chrf_signature)


def chrf_only(hyps: Sequence[str], refs: Sequence[str]) -> tuple[float, str]:
    """chrF2 (0..100) and its signature: n-grams of characters, so that no tokenizer is needed (Popovic 2015)."""
    _check_lines(hyps, refs, "translations")
    chrf = CHRF()
    return float(chrf.corpus_score(hyps, [refs]).score), str(chrf.get_signature())


def exact_match(hyps: Sequence[str], refs: Sequence[str]) -> float:
    """Percentage (0..100) of translations equal to their reference, apart from white space at the ends.

    Only fair where each sentence has exactly one right translation, as in the toy languages.
    """
    _check_lines(hyps, refs, "translations")
    return 100.0 * sum(hyp.strip() == ref.strip() for hyp, ref in zip(hyps, refs, strict=True)) / len(refs)


def compare_systems(
    refs: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    trg_lang: str,
    method: Literal["bootstrap", "randomisation"] = "bootstrap",
    n: int = 1000,
    seed: int = 12345,
    tokenize: Tokenize = "auto",
) -> list[SystemRow]:
    """Test whether systems differ from the first one by more than the choice of test sentences explains.

    "bootstrap" redraws the test set n times (Koehn 2004); "randomisation" swaps the two systems' translations at
    random n times (Riezler and Maxwell 2005). Both are sacreBLEU's PairedTest. Prefer randomisation for a claim:
    sacreBLEU's bootstrap p-values come out too small (two equally good systems fall below 0.05 in clearly more than
    one comparison of twenty).

    One repair: sacreBLEU counts only random differences *larger* than the observed one, so that a system compared
    with itself gets p = 1 / (n + 1). Translations that differ in k sentences cannot be told apart with
    p < 2 / 2**k, the share of swaps that move all k sentences together, so p is raised to that bound.

    The result depends on the arguments alone: not on SACREBLEU_SEED, and nothing is printed.
    Raises UserError for fewer than two systems, unequal lengths, an unknown method, n < 1 or seed < 1.
    """
    _check_comparison(refs, systems, method, n, seed)
    metric = bleu_metric(trg_lang, tokenize)
    named: list[tuple[str, Sequence[str]]] = [(name, list(hyps)) for name, hyps in systems.items()]
    with _quiet_and_seeded(seed):
        test = PairedTest(named, {"BLEU": metric}, [list(refs)], _TEST_TYPES[method], n_samples=n, n_ar_confidence=n)
        signatures, columns = test()
        bounds = [_smallest_p(metric, named[0][1], hyps, refs) for _, hyps in named]
    rows: list[SystemRow] = []
    for (name, _), result, bound in zip(named, columns["BLEU"], bounds, strict=True):
        assert isinstance(result, Result) and result.ci is not None  # the column "System" alone holds strings
        p_value = None
        if result.p_value is not None:
            same_score = math.isclose(result.score, rows[0].bleu, abs_tol=1e-9)
            p_value = 1.0 if same_score else max(result.p_value, bound)
        rows.append(SystemRow(name, float(result.score), float(result.ci), p_value, str(signatures["BLEU"])))
    return rows


def _check_lines(hyps: Sequence[str], refs: Sequence[str], what: str) -> None:
    if isinstance(hyps, str) or isinstance(refs, str):
        raise UserError("A single string was given to be scored. Give lists of sentences, even for one sentence.")
    if not hyps or not refs:
        raise UserError(f"Nothing to score: {len(hyps)} {what} and {len(refs)} references. Give at least one of each.")
    if len(hyps) != len(refs):
        raise UserError(f"{len(hyps)} {what} but {len(refs)} references. Each sentence needs exactly one reference.")
    for name, lines in ((what, hyps), ("references", refs)):
        bad = next((i for i, line in enumerate(lines) if not isinstance(line, str)), None)
        if bad is not None:
            raise UserError(f"Number {bad + 1} of the {name} is a {type(lines[bad]).__name__}, not text.")


def _check_comparison(
    refs: Sequence[str], systems: Mapping[str, Sequence[str]], method: str, n: int, seed: int
) -> None:
    if len(systems) < 2:
        raise UserError(f"A comparison needs at least two systems, the baseline first; {len(systems)} given.")
    if method not in _TEST_TYPES:
        raise UserError(f'Unknown test "{method}". Choose "bootstrap" or "randomisation".')
    if n < 1 or seed < 1:  # sacreBLEU takes n = 0 for its default and seed = 0 for no seed at all
        raise UserError(f"n and seed must be 1 or more; n = {n} and seed = {seed} given.")
    for name, hyps in systems.items():
        _check_lines(hyps, refs, f'translations of "{name}"')


def _smallest_p(metric: BLEU, baseline: Sequence[str], hyps: Sequence[str], refs: Sequence[str]) -> float:
    """The smallest honest p-value of a paired comparison: 2 / 2**k, k = sentences whose BLEU statistics differ."""
    differing = 0
    for base, hyp, ref in zip(baseline, hyps, refs, strict=True):
        if base != hyp:
            a, b = metric.sentence_score(base, [ref]), metric.sentence_score(hyp, [ref])
            differing += (a.counts, a.totals) != (b.counts, b.totals)
    return min(1.0, 2.0 ** (1 - differing))


@contextmanager
def _quiet_and_seeded(seed: int) -> Iterator[None]:
    """Give PairedTest our seed by the only way it reads one, an environment variable, and keep its log to itself."""
    logger = logging.getLogger("sacrebleu")
    with _LOCK:  # two comparisons in two threads must not see each other's seed
        old_seed, old_level = os.environ.get("SACREBLEU_SEED"), logger.level
        os.environ["SACREBLEU_SEED"] = str(seed)
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(old_level)
            if old_seed is None:
                del os.environ["SACREBLEU_SEED"]
            else:
                os.environ["SACREBLEU_SEED"] = old_seed
