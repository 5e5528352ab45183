"""BLEU, chrF and TER by sacreBLEU, always over detokenised text and always with the signature beside the number.

A BLEU score without its tokenizer cannot be compared: the default tokenizer turns a Chinese sentence into one long
word. The tokenizer therefore follows from the target language (tokenizers.py), unless the caller names one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu import BLEU, CHRF, TER

from pmd_lite.config import Tokenize
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tokenizers import bleu_metric


@dataclass(frozen=True)
class Score:
    """BLEU and chrF2 of one set of translations, both in 0..100, each with the sacreBLEU signature that explains it."""

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str


def corpus_bleu(hyps: Sequence[str], refs: Sequence[str], trg_lang: str, tokenize: Tokenize = "auto") -> Score:
    """Score detokenised translations against one reference each: cased BLEU and chrF2.

    tokenize: the tokenizer of BLEU; "auto" is the one that fits the language (`tokenizers.tokenizer_for`).
    Smoothing is sacreBLEU's default, see `significance.bleu_of`; it matters only for very poor or few translations.
    Raises UserError if the lists are empty, differ in length or hold anything but strings; MissingScorer if the
    tokenizer is not installed (then `chrf_only` still works).
    """
    bleu, signature = _scored(bleu_metric(trg_lang, tokenize), hyps, refs)
    chrf, chrf_signature = chrf_only(hyps, refs)
    return Score(bleu, chrf, signature, chrf_signature)


def chrf_only(hyps: Sequence[str], refs: Sequence[str]) -> tuple[float, str]:
    """chrF2 (0..100, n-grams of characters; Popovic 2015) and its signature. UserError as `corpus_bleu`."""
    return _scored(CHRF(), hyps, refs)


def ter_only(hyps: Sequence[str], refs: Sequence[str]) -> tuple[float, str]:
    """TER (edits per 100 reference words, slow; Snover et al. 2006) and its signature. UserError as `corpus_bleu`."""
    return _scored(TER(), hyps, refs)


def _scored(metric: BLEU | CHRF | TER, hyps: Sequence[str], refs: Sequence[str]) -> tuple[float, str]:
    check_lines(hyps, refs)
    return float(metric.corpus_score(hyps, [refs]).score), str(metric.get_signature())


def check_lines(hyps: Sequence[str], refs: Sequence[str]) -> None:
    """Raises UserError unless there is one reference for each translation, at least one, all of them strings."""
    if isinstance(hyps, str) or isinstance(refs, str):
        raise UserError("A single string was given to be scored. Give lists of sentences, even for one sentence.")
    if not hyps or not refs:
        raise UserError(f"Nothing to score: {len(hyps)} translations, {len(refs)} references. Give at least one each.")
    if len(hyps) != len(refs):
        raise UserError(f"{len(hyps)} translations but {len(refs)} references. Each sentence needs one reference.")
    for name, lines in (("translations", hyps), ("references", refs)):
        for number, line in enumerate(lines, 1):
            if not isinstance(line, str):
                raise UserError(f"Number {number} of the {name} is a {type(line).__name__}, not text.")
