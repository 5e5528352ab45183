"""Whether a finished run can serve as an auxiliary run of a method: what must be equal, and why.

Always: the method with its samplers, the corpus (texts, pairs and their direction), the weights it started from. The
rest depends on what is read from the run:

    losses        chi-IBR's b, CCL-M's H*: compared with this run's own, nat by nat. A nat per token means the same only
                  with the same tokenizer (with its tags) and label smoothing; and a difference says something about the
                  sampler only between models of one shape and dropout, trained for as long.
    predictions   Teachers of Multi-Distill, EnsembleDistill: a distribution over the same ids, so the same tokenizer,
                  and room for sentences as long. Size, smoothing and length are free: any model may teach, and A*, the
                  dev score of a bilingual one, is measured on this dev set.
    weights       LSMD's alpha: numbers for the same pairs and students, in no unit.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pmd_lite.config import Config
from pmd_lite.run import Run

Reads = Literal["losses", "predictions", "weights"]


def unfit(
    run: Run, method: str, samplers: Sequence[str], fingerprint: str, config: Config, start: str | None, tokenizer: str,
    reads: Sequence[Reads],
) -> list[str]:  # fmt: skip
    """The reasons why `run` cannot serve as the wanted one, in words; [] if it can.

    method, samplers, config: of the wanted run. fingerprint, tokenizer: of its corpus and tokenizer. start: sha256 of
    the weights it starts from, None for random ones. reads: what is taken from it.
    """
    if not run.dir.finished:
        return ["it is not finished"]
    why = _unlike("method", run.method.name, method)
    why += _unlike("samplers", _spelt(run.method.samplers, run.config), _spelt(samplers, config))
    why += ["its corpus differs"] * (run.corpus["fingerprint"] != fingerprint)
    why += ["it started from other weights (init)"] * ((run.dir.config.get("init") or {}).get("sha256") != start)
    if reads != ("weights",):
        why += ["its tokenizer differs"] * (run.tokenizer.fingerprint != tokenizer)
    if "losses" in reads:
        theirs, ours = run.config, config
        why += _unlike("label_smoothing", theirs.optim.label_smoothing, ours.optim.label_smoothing)
        for name, value in asdict(theirs.model).items():
            why += _unlike(name, value, getattr(ours.model, name))
        length = "epochs" if theirs.train.epochs or ours.train.epochs else "steps"
        why += _unlike(length, getattr(theirs.train, length), getattr(ours.train, length))
    elif "predictions" in reads and run.config.model.max_len < config.model.max_len:
        why += _unlike("max_len", run.config.model.max_len, config.model.max_len)
    return why


def _unlike(name: str, theirs: Any, ours: Any) -> list[str]:
    return [] if theirs == ours else [f"{name} is {theirs} there and {ours} here"]


def _spelt(samplers: Sequence[str], config: Config) -> str:
    """Samplers in one spelling: "tau" is the temperature of the configuration."""
    return ",".join(f"tau={config.tau:g}" if sampler == "tau" else sampler for sampler in samplers)
