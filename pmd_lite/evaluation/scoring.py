"""The scores of a run as plain data: what scores.json holds, and the notes that belong below a table of them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmd_lite.config import Metric, Tokenize
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.disk import read_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import chrf_only, corpus_bleu, ter_only
from pmd_lite.evaluation.tokenizers import MissingScorer, missing_scorers, tokenizer_for, tokenizer_of

METRICS: dict[Metric, str] = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
"""{field of a score: its name in print}."""
Scores = dict[str, dict[str, dict[str, Any]]]
"""{"model_1": {pair: {bleu, chrf, signature, chrf_signature}}}; without its tokenizer a pair has bleu None, signature
None and a reason. Where TER was asked for, also ter and ter_signature."""
_SCORE = {"bleu": float | None, "chrf": float | None, "signature": str | None, "chrf_signature": str | None,
          "reason": str, "ter": float, "ter_signature": str}  # fmt: skip


def read_scores(file: Path, students: int, pairs: Collection[str], sealed: Callable[[Any], Any]) -> dict[str, Any]:
    """scores.json. UserError when it is absent, damaged, or of other students or pairs. sealed: of its `RunDir`."""
    again = f"python -m pmd_lite evaluate {file.parent}"
    if not file.exists():
        raise UserError(f"{file.parent} has no scores yet: {again}")
    shape = {"beam": int, "tokenize": str, "scores": {"*": {"*": _SCORE}}, "sum": str}
    scored = read_json(file, shape, f"remove it, then: {again}")
    names = {f"model_{i + 1}" for i in range(students)}
    odd = set(scored["scores"]) != names or any(set(of) != set(pairs) for of in scored["scores"].values())
    if odd or scored != sealed(scored):
        raise UserError(f"{file}: these are not the scores of this run's models and pairs. Remove it, then: {again}")
    return dict(scored)


def one_line(text: str) -> str:
    """The sentence without line ends of any kind, so that files of sentences stay parallel line by line."""
    return " ".join(text.splitlines())


def score_pair(
    hyps: Sequence[str], refs: Sequence[str], pair: str, tokenize: Tokenize, metrics: Sequence[Metric] = ()
) -> dict[str, Any]:
    """Scores of one pair, see `Scores`; TER if it is among `metrics`. Raises UserError as `corpus_bleu` does."""
    ter = dict(zip(("ter", "ter_signature"), ter_only(hyps, refs), strict=True)) if "ter" in metrics else {}
    try:
        return asdict(corpus_bleu(hyps, refs, split_pair(pair)[1], tokenize)) | ter
    except MissingScorer as error:
        chrf, signature = chrf_only(hyps, refs)
        return {**ter, "bleu": None, "chrf": chrf, "signature": None, "chrf_signature": signature, "reason": str(error)}


def without_bleu(scores: Scores) -> dict[str, str]:
    """{pair: reason} for every pair that lacks the BLEU of some model."""
    return {pair: score["reason"] for of in scores.values() for pair, score in of.items() if score["bleu"] is None}


def tokenizers_used(scores: Scores) -> dict[str, str]:
    """{pair: the tokenizer behind its BLEU}, for the pairs that have a signature."""
    return {pair: tokenizer_of(score["signature"])
            for of in scores.values() for pair, score in of.items() if score.get("signature")}  # fmt: skip


def is_stale(scores: Scores, tokenize: Tokenize, metrics: Sequence[Metric] = ()) -> bool:
    """Whether scoring the same translations now would differ: another tokenizer, or one that was missing; or TER."""
    if "ter" in metrics and any("ter" not in score for of in scores.values() for score in of.values()):
        return True
    used, lost = tokenizers_used(scores), list(without_bleu(scores))
    return len(missing_scorers(lost, tokenize)) < len(lost) or any(
        name != tokenizer_for(split_pair(pair)[1], tokenize) for pair, name in used.items()
    )


def said_beside(all_scores: Iterable[Scores], metrics: Sequence[Metric] = ("bleu",)) -> list[str]:
    """Lines to print below a table: every signature once, with its pairs, and every missing BLEU with its reason."""
    every = [one for scores in all_scores for of in scores.values() for one in of.items()]
    signatures: dict[tuple[str, str], list[str]] = {}
    for metric in metrics:
        field = "signature" if metric == "bleu" else f"{metric}_signature"
        for pair, score in every:
            if score.get(field):
                signatures.setdefault((METRICS[metric], score[field]), []).append(pair)
    reasons: dict[str, list[str]] = {}
    for pair, score in every:
        if score["bleu"] is None:
            reasons.setdefault(score["reason"], []).append(pair)
    lines = []
    names = [name for name, _ in signatures]
    for (name, signature), pairs in signatures.items():
        where = f" of {', '.join(dict.fromkeys(pairs))}" if names.count(name) > 1 else ""
        lines.append(f"{name} signature{where}: {signature}")
    if "ter" in metrics and any("ter" not in score for _, score in every):
        lines.append("TER was not counted: python -m pmd_lite evaluate RUN --metrics ter")
    lines += [f"no BLEU for {', '.join(dict.fromkeys(pairs))}: {reason}" for reason, pairs in reasons.items()]
    return lines
