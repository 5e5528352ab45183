"""What a method takes from other runs: found among finished ones, or trained by the same `train()`, and read.

chi-IBR needs the training loss of a tau=1 run, Multi-Distill and CCL-M need a bilingual model of every pair, LSMD the
weights that an Auto-PMD run ended with. `auxiliary.json` in the run directory remembers which runs were used. What
makes a finished run fit is said in `fitting.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pmd_lite.auxiliary.fitting import Reads, unfit
from pmd_lite.config import Config
from pmd_lite.data.batching import round_of
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.data.tokens import EncodedCorpus, TokenArray
from pmd_lite.disk import read_json, write_json
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.methods import Method, Resources, get_method, needed_runs
from pmd_lite.run import Run
from pmd_lite.sampling.ccl_m import piece_similarity
from pmd_lite.training.cost import Cost, Tokens
from pmd_lite.training.dev import greedy_bleu
from pmd_lite.training.distributed import current
from pmd_lite.training.learner import pick_device

Train = Callable[..., Run]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One auxiliary run: where it goes in the run directory, and what `train` is called with."""

    key: str
    corpus: Corpus
    method: str
    config: Config
    start: str | None = None
    """sha256 of the imported weights it starts from; None: random ones."""
    tokenizer: str = ""
    """Fingerprint of the tokenizer it has, which is that of the run that takes from it."""
    reads: tuple[Reads, ...] = ("losses",)
    """What is taken from it."""
    samplers: tuple[str, ...] | None = None
    """Other samplers than the method's own."""

    def unfit(self, run: Run) -> list[str]:
        """Why a run cannot stand in for this one, in words; [] if it can."""
        samplers = self.samplers or get_method(self.method).samplers
        return unfit(run, self.method, samplers, self.corpus.fingerprint, self.config, self.start, self.tokenizer,
                     self.reads)  # fmt: skip


def wanted(
    row: Method, corpus: Corpus, config: Config, encoded: EncodedCorpus, start: str | None = None
) -> list[Wanted]:  # fmt: skip
    """The auxiliary runs of a method, in the order in which they are trained, all from `start` (see `Wanted`)."""
    needs = needed_runs(row.samplers, row.distiller, config)
    single = dataclasses.replace(config, train=dataclasses.replace(config.train, turns="in-turn"))  # one student alone
    runs: list[Wanted] = []
    if "plain" in needs:
        runs.append(Wanted("plain", corpus, "tau=1", single, start, encoded.tokenizer.fingerprint))
    if "auto-pmd" in needs:
        runs.append(Wanted("auto-pmd", corpus, "auto-pmd", config, start, encoded.tokenizer.fingerprint, ("weights",),
                           row.samplers))  # fmt: skip
    if "bilingual" in needs:
        reads: list[Reads] = ["losses"] if "ccl-m" in row.samplers else []
        reads += ["predictions"] if _is_taught(row) else []
        runs += bilingual(corpus, single, encoded, start, tuple(reads))
    return runs


def _is_taught(row: Method) -> bool:
    return issubclass(row.distiller, MultiDistill)


def bilingual(
    corpus: Corpus, config: Config, encoded: EncodedCorpus, start: str | None = None,
    reads: tuple[Reads, ...] = ("losses",),
) -> list[Wanted]:  # fmt: skip
    """A tau=1 run for each pair alone, as long as `bilingual_config` says."""
    batches = [round_of(split, config.train.tokens).batches_per_pass for split in encoded.train]
    return [
        Wanted(f"bilingual-{pair}", corpus.only([pair]), "tau=1", bilingual_config(config, own, sum(batches)), start,
               encoded.tokenizer.fingerprint, reads)
        for pair, own in zip(corpus.pairs, batches, strict=True)
    ]  # fmt: skip


def bilingual_config(config: Config, own: float, all_pairs: float) -> Config:
    """As many passes over a pair's data as the whole run makes at tau=1, but at least a tenth of its updates, with
    warm-up and evaluations in proportion.

    own, all_pairs: micro-batches in one pass over the data of the pair, and of all pairs together.
    """
    train = config.train
    alone, together = (Clock.of(config, batches, waits=False) for batches in (own, all_pairs))
    total = together.total
    steps = max(math.ceil(total / 10), round(total / together.epoch * alone.epoch))
    shorter = of_length(config, min(steps, total), total)
    every = max(1, round(min(1.0, steps / total) * (train.eval_every or together.epoch)))
    return dataclasses.replace(shorter, train=dataclasses.replace(shorter.train, eval_every=every))


def of_length(config: Config, steps: int, total: int) -> Config:
    """The same for `steps` updates instead of `total`, with warm-up in proportion."""
    optim = dataclasses.replace(config.optim, warmup=max(1, round(steps / total * config.optim.warmup)))
    return dataclasses.replace(config, train=dataclasses.replace(config.train, steps=steps, epochs=0.0), optim=optim)


def find_or_train(
    runs: Sequence[Wanted], path: Path, use: Sequence[str | Path], tokenizer: Path, train: Train
) -> dict[str, Run]:
    """Every wanted run, finished: one remembered from before, one of `use`, or one trained now in `path`/auxiliary.

    Raises UserError, before any training, when a run of `use` is none that is wanted, or a remembered one has changed.
    """
    given = [Run(place) for place in use]
    for one in given:
        _check_useful(one, runs)
    memory = path / "auxiliary.json"
    remembered: dict[str, str] = read_json(memory) if memory.exists() else {}
    found: dict[str, Run] = {}
    for want in runs:
        before = Path(remembered[want.key]) if want.key in remembered else None
        matching = [run for run in given if not want.unfit(run)]
        if before is not None and (before / "finished.json").exists():
            found[want.key] = Run(before)
            if why := want.unfit(found[want.key]):
                raise UserError(f"{before}, with which {path} was begun as its {want.key}, is another run now: "
                                f"{', '.join(why)}. Put it back, or train in a new directory")  # fmt: skip
        elif matching:
            found[want.key] = matching[0]
        else:
            found[want.key] = train(
                want.corpus, want.method, want.config, out=path / "auxiliary" / want.key, score=False,
                tokenizer=tokenizer, samplers=want.samplers,
            )  # fmt: skip
    if found and not current().rank:
        write_json(memory, {key: str(run.path.resolve()) for key, run in found.items()})
    return found


def _check_useful(run: Run, runs: Sequence[Wanted]) -> None:
    """Raises UserError for a run that fits none of those wanted, with what keeps it from the one it is most like."""
    why = {want.key: want.unfit(run) for want in runs}
    if not all(why.values()):
        return
    what = ", ".join(f"{w.key} ({w.method} on {', '.join(w.corpus.pairs)})" for w in runs) or "no other run"
    nearest = min(why, key=lambda key: len(why[key]), default=None)
    but = f". For {nearest}: {', '.join(why[nearest])}" if nearest else ""
    raise UserError(f"{run.path} ({run.method.name} on {', '.join(run.pairs)}) is of no use here: wanted are {what}, "
                    f"finished, on this corpus and from the same start{but}")  # fmt: skip


def resources(row: Method, config: Config, encoded: EncodedCorpus, found: Mapping[str, Run], cache: Path) -> Resources:
    """Read from the auxiliary runs what the method takes. `cache`: where Multi-Distill may keep its teachers' top-k."""
    values: dict[str, Any] = {}
    if "plain" in found:
        values["plain_loss"] = _last(found["plain"], "train_ce")
    if "auto-pmd" in found:
        run = found["auto-pmd"]
        rows = [[line["alpha"] for line in run.evaluations(i)][-1] for i in range(len(run.labels))]
        values["alphas"] = torch.tensor(rows, dtype=torch.float64)
    pairs = [found[f"bilingual-{pair}"] for pair in encoded.pairs if f"bilingual-{pair}" in found]
    if "ccl-m" in row.samplers:
        values["similarity"] = piece_similarity(_piece_counts(encoded), config.sampling.ccl_top_k)
        # Without bilingual models H* is 0, and competence is exp(-H), the mean token probability.
        values["bilingual_loss"] = _best_losses(pairs) if pairs else torch.zeros(len(encoded.pairs)).double()
    if _is_taught(row):
        values |= _teachers(pairs, config, encoded, cache)
    return Resources(**values)


def _teachers(runs: Sequence[Run], config: Config, encoded: EncodedCorpus, cache: Path) -> dict[str, Any]:
    device, cost = pick_device(config.train.device, config.train.precision), Cost()
    models = [run.model().to(device).requires_grad_(False) for run in runs]
    settings = config.teacher
    if settings.md_criterion == "loss":
        scores = _best_losses(runs)
    else:
        alone = [
            dataclasses.replace(encoded, pairs=(pair,), train=(train,), valid=(valid,))
            for pair, train, valid in zip(encoded.pairs, encoded.train, encoded.valid, strict=True)
        ]
        found = [greedy_bleu(model, one, config) for model, one in zip(models, alone, strict=True)]
        scores = torch.cat([score for score, _ in found])
        for model, (_, computed) in zip(models, found, strict=True):
            cost.add("prepare", model, computed)
    kept = None
    if settings.md_cache:
        kept = TopKCache.build(cache, models, encoded.train, settings.md_top_k, config.train.tokens, device)
        for model, split in zip(models, encoded.train, strict=True):  # also when it was made before an interruption
            cost.add("prepare", model, Tokens(split.src_tokens, split.trg_tokens))
    prepared = cost.multiply_adds["prepare"]
    return {"teachers": models, "teacher_scores": scores, "teacher_cache": kept, "prepared": prepared}


def _last(run: Run, field: str) -> Tensor:
    """[pair] the last known value of a field of the metrics (a rare pair may not have been drawn at the very end)."""
    _, curves = run.curve(field)
    known = [[value for value in curves[pair] if value is not None] for pair in run.pairs]
    if not all(known):
        raise UserError(f"{run.path} never trained on one of its pairs: it is too short to learn from")
    return torch.tensor([values[-1] for values in known], dtype=torch.float64)


def _best_losses(runs: Sequence[Run]) -> Tensor:
    """[pair] dev loss of each bilingual run's best weights."""
    return torch.tensor([value for run in runs for value in run.best_dev_loss().values()], dtype=torch.float64)


def _piece_counts(encoded: EncodedCorpus) -> list[dict[int, int]]:
    """How often each token occurs on the side that tells the pairs apart, for each pair."""
    sides = [{split_pair(pair)[side] for pair in encoded.pairs} for side in (0, 1)]
    varying = "src" if len(sides[0]) >= len(sides[1]) else "trg"
    return [_counts(getattr(split, varying)) for split in encoded.train]


def _counts(tokens: TokenArray) -> dict[int, int]:
    """{id: occurrences}, sentence ends and tags included: every language has them alike or has its own."""
    before = np.repeat(np.cumsum(tokens.lengths) - tokens.lengths, tokens.lengths)
    within = np.arange(len(before)) - before
    ids, counts = np.unique(tokens.flat[np.repeat(tokens.starts, tokens.lengths) + within], return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))
