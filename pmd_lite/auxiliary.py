"""What a method takes from other runs: find them among finished runs or train them with `train()`, and read them.

chi-IBR needs the training loss of a tau=1 run; Multi-Distill and CCL-M need a bilingual model of every pair; LSMD needs
the final weights of an Auto-PMD run; EnsembleDistill needs single models, which teach together. `auxiliary.json` in the
run directory remembers which runs were used.

A finished run can serve if the method with its samplers, the corpus (texts, pairs and their direction) and the weights
it started from are equal. The rest depends on what is read from it (docs/methods.md says why):

    losses        chi-IBR's b, CCL-M's H*: tokenizer, label smoothing, shape, dropout and length must be equal too.
    predictions   Teachers of Multi-Distill and EnsembleDistill: the same tokenizer, and room for sentences as long.
    weights       LSMD's alpha: numbers for the same pairs and students, in no unit.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pmd_lite.config import Config
from pmd_lite.data.batching import round_of
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.disk import read_json, write_json
from pmd_lite.distillation.multi_distill import MultiDistill
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.methods import Method, Resources, get_method, needed_runs, single_methods
from pmd_lite.run import Run
from pmd_lite.sampling.ccl_m import piece_similarity
from pmd_lite.training.cost import Cost, Tokens
from pmd_lite.training.dev import greedy_score
from pmd_lite.training.distributed import current
from pmd_lite.training.learner import pick_device

Train = Callable[..., Run]
Reads = Literal["losses", "predictions", "weights"]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One auxiliary run: its place in the run directory, and the arguments of `train`."""

    key: str
    corpus: Corpus
    method: str
    config: Config
    start: str | None = None
    """sha256 of the imported weights from which it starts; None: random weights."""
    tokenizer: str = ""
    """Fingerprint of its tokenizer, which is the tokenizer of the main run."""
    reads: tuple[Reads, ...] = ("losses",)
    """What the main run reads from it."""
    samplers: tuple[str, ...] | None = None
    """Samplers in place of the method's own."""

    def unfit(self, run: Run) -> list[str]:
        """The reasons why a run cannot serve as this one, in words; [] if it can."""
        if not run.dir.finished:
            return ["it is not finished"]
        samplers = self.samplers or get_method(self.method).samplers
        why = _unlike("method", run.method.name, self.method)
        why += _unlike("samplers", _spelt(run.method.samplers, run.config), _spelt(samplers, self.config))
        why += ["its corpus differs"] * (run.corpus["fingerprint"] != self.corpus.fingerprint)
        start = (run.dir.config.get("init") or {}).get("sha256")
        why += ["it started from other weights (init)"] * (start != self.start)
        if self.reads != ("weights",):
            why += ["its tokenizer differs"] * (run.tokenizer.fingerprint != self.tokenizer)
        theirs, ours = run.config, self.config
        if "losses" in self.reads:
            why += _unlike("label_smoothing", theirs.optim.label_smoothing, ours.optim.label_smoothing)
            for name, value in vars(theirs.model).items():
                why += _unlike(name, value, getattr(ours.model, name))
            length = "epochs" if theirs.train.epochs or ours.train.epochs else "steps"
            why += _unlike(length, getattr(theirs.train, length), getattr(ours.train, length))
        elif "predictions" in self.reads and theirs.model.max_len < ours.model.max_len:
            why += _unlike("max_len", theirs.model.max_len, ours.model.max_len)
        return why


def _unlike(name: str, theirs: Any, ours: Any) -> list[str]:
    return [] if theirs == ours else [f"{name} is {theirs} there and {ours} here"]


def _spelt(samplers: Sequence[str], config: Config) -> str:
    """Samplers in one spelling: "tau" is the temperature of the configuration."""
    return ",".join(f"tau={config.tau:g}" if sampler == "tau" else sampler for sampler in samplers)


def wanted(
    row: Method, corpus: Corpus, config: Config, encoded: EncodedCorpus, start: str | None = None
) -> list[Wanted]:  # fmt: skip
    """The auxiliary runs of a method, in the order of their training, all from `start` (see `Wanted`)."""
    needs = needed_runs(row.samplers, row.distiller, config)
    single = dataclasses.replace(config, train=dataclasses.replace(config.train, turns="in-turn"))  # one student alone
    on_all = partial(Wanted, corpus=corpus, start=start, tokenizer=encoded.tokenizer.fingerprint)
    runs: list[Wanted] = []
    if "plain" in needs:
        runs.append(on_all("plain", method="tau=1", config=single))
    if "auto-pmd" in needs:
        runs.append(on_all("auto-pmd", method="auto-pmd", config=config, reads=("weights",), samplers=row.samplers))
    if "singles" in needs:
        runs += [on_all(f"single-{name}", method=name, config=single, reads=("predictions",))
                 for name in single_methods(config)]  # fmt: skip
    if "bilingual" in needs:
        reads: list[Reads] = ["losses"] if "ccl-m" in row.samplers else []
        reads += ["predictions"] if issubclass(row.distiller, MultiDistill) else []
        runs += bilingual(corpus, single, encoded, start, tuple(reads))
    return runs


def bilingual(
    corpus: Corpus, config: Config, encoded: EncodedCorpus, start: str | None = None,
    reads: tuple[Reads, ...] = ("losses",),
) -> list[Wanted]:  # fmt: skip
    """A tau=1 run for each single pair, with the length of `bilingual_config`."""
    batches = [round_of(split, config.train.tokens).batches_per_pass for split in encoded.train]
    return [
        Wanted(f"bilingual-{pair}", corpus.only([pair]), "tau=1", bilingual_config(config, own, sum(batches)), start,
               encoded.tokenizer.fingerprint, reads)
        for pair, own in zip(corpus.pairs, batches, strict=True)
    ]  # fmt: skip


def bilingual_config(config: Config, own: float, all_pairs: float) -> Config:
    """As many passes over a pair's data as the main run makes at tau=1, but at least a tenth of its updates.

    Warm-up and evaluations are in proportion. own, all_pairs: micro-batches in one pass over the data of the pair, and
    of all pairs together.
    """
    train = config.train
    alone, together = (Clock.of(config, batches, waits=False) for batches in (own, all_pairs))
    total = together.total
    steps = max(math.ceil(total / 10), round(total / together.epoch * alone.epoch))
    shorter = of_length(config, min(steps, total), total)
    every = max(1, round(min(1.0, steps / total) * (train.eval_every or together.epoch)))
    return dataclasses.replace(shorter, train=dataclasses.replace(shorter.train, eval_every=every))


def of_length(config: Config, steps: int, total: int) -> Config:
    """The configuration for `steps` updates instead of `total`, with warm-up in proportion."""
    optim = dataclasses.replace(config.optim, warmup=max(1, round(steps / total * config.optim.warmup)))
    return dataclasses.replace(config, train=dataclasses.replace(config.train, steps=steps, epochs=0.0), optim=optim)


def find_or_train(
    runs: Sequence[Wanted], path: Path, use: Sequence[str | Path], tokenizer: Path, train: Train
) -> dict[str, Run]:
    """Every wanted run, finished: the remembered one, one of `use`, or one that is trained now in `path`/auxiliary.

    Raises UserError, before any training, if a run of `use` is not wanted or a remembered one has changed.
    """
    given = [Run(place) for place in use]
    for one in given:
        _check_useful(one, runs)
    memory = path / "auxiliary.json"
    remembered: dict[str, str] = read_json(memory, {"*": str}) if memory.exists() else {}
    found: dict[str, Run] = {}
    for want in runs:
        before = Path(remembered[want.key]) if want.key in remembered else None
        matching = [run for run in given if not want.unfit(run)]
        if before is not None and (before / "finished.json").exists():
            found[want.key] = Run(before)
            if why := want.unfit(found[want.key]):
                raise UserError(f"{before}, which {path} used as its {want.key}, is another run now: "
                                f"{', '.join(why)}. Put the old one back, or train in a new directory")  # fmt: skip
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
    """Raise UserError for a run that fits no wanted run; it names what differs from the most similar one."""
    why = {want.key: want.unfit(run) for want in runs}
    if not all(why.values()):
        return
    what = ", ".join(f"{w.key} ({w.method} on {', '.join(w.corpus.pairs)})" for w in runs) or "no other run"
    nearest = min(why, key=lambda key: len(why[key]), default=None)
    but = f". For {nearest}: {', '.join(why[nearest])}" if nearest else ""
    raise UserError(f"{run.path} ({run.method.name} on {', '.join(run.pairs)}) cannot be used here: this method needs "
                    f"{what}, finished, on this corpus and from the same start{but}")  # fmt: skip


def resources(row: Method, config: Config, encoded: EncodedCorpus, found: Mapping[str, Run], cache: Path) -> Resources:
    """Read what the method needs from its auxiliary runs. `cache`: where Multi-Distill may store its top-k."""
    values: dict[str, Any] = {}
    if "plain" in found:
        values["plain_loss"] = _last(found["plain"], "train_ce")
    if "auto-pmd" in found:
        rows = [found["auto-pmd"].evaluations(i)[-1]["alpha"] for i in range(len(row.samplers))]
        values["alphas"] = torch.tensor(rows, dtype=torch.float64)
    pairs = [found[f"bilingual-{pair}"] for pair in encoded.pairs if f"bilingual-{pair}" in found]
    device = pick_device(config.train.device, config.train.precision)
    singles = [run.model() for key, run in found.items() if key.startswith("single-")]
    values["singles"] = [model.to(device).requires_grad_(False) for model in singles]
    if "ccl-m" in row.samplers:
        values["similarity"] = piece_similarity(_piece_counts(encoded), config.sampling.ccl_top_k)
        # Without bilingual models H* is 0, and competence is exp(-H), the mean token probability.
        values["bilingual_loss"] = _best_losses(pairs) if pairs else torch.zeros(len(encoded.pairs)).double()
    if issubclass(row.distiller, MultiDistill):
        values |= _teachers(pairs, config, encoded, cache)
    return Resources(**values)


def _teachers(runs: Sequence[Run], config: Config, encoded: EncodedCorpus, cache: Path) -> dict[str, Any]:
    device, cost, settings = pick_device(config.train.device, config.train.precision), Cost(), config.teacher
    models = [run.model().to(device).requires_grad_(False) for run in runs]
    scores, kept = _best_losses(runs), None
    if settings.md_criterion != "loss":
        for i, model in enumerate(models):
            alone = {name: getattr(encoded, name)[i : i + 1] for name in ("pairs", "train", "valid")}
            scores[i], computed = greedy_score(model, dataclasses.replace(encoded, **alone), config)
            cost.add("prepare", model, computed)
    if settings.md_cache:
        kept = TopKCache.build(cache, models, encoded.train, settings.md_top_k, config.train.tokens, device)
        for model, split in zip(models, encoded.train, strict=True):  # also if an interrupted run made the cache
            cost.add("prepare", model, Tokens(split.src_tokens, split.trg_tokens))
    prepared = cost.multiply_adds["prepare"]
    return {"teachers": models, "teacher_scores": scores, "teacher_cache": kept, "prepared": prepared}


def _last(run: Run, field: str) -> Tensor:
    """[pair] the last known value of a field of the metrics (a rare pair may have none at the end)."""
    _, curves = run.curve(field)
    known = [[value for value in curves[pair] if value is not None] for pair in run.pairs]
    if not all(known):
        raise UserError(f"{run.path} never trained on one of its pairs: train it for longer")
    return torch.tensor([values[-1] for values in known], dtype=torch.float64)


def _best_losses(runs: Sequence[Run]) -> Tensor:
    """[pair] dev loss of the best weights of each bilingual run."""
    return torch.tensor([value for run in runs for value in run.best_dev_loss().values()], dtype=torch.float64)


def _piece_counts(encoded: EncodedCorpus) -> list[dict[int, int]]:
    """[pair] {id: occurrences} on the side in which the pairs differ.

    Sentence ends and tags count too: they are equal in all languages or different in each.
    """
    sources, targets = (len({split_pair(pair)[side] for pair in encoded.pairs}) for side in (0, 1))
    counts = []
    for split in encoded.train:
        side = split.src if sources >= targets else split.trg
        before = np.repeat(np.cumsum(side.lengths) - side.lengths, side.lengths)
        places = np.repeat(side.starts, side.lengths) + np.arange(len(before)) - before
        pieces, times = np.unique(side.flat[places], return_counts=True)
        counts.append(dict(zip(pieces.tolist(), times.tolist(), strict=True)))
    return counts
