"""compare(): methods x seeds on one corpus, at equal tokens or at equal compute, resumable run by run."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pmd_lite import auxiliary
from pmd_lite.api import load_corpus
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.comparing.entries import Entry, parse_entry
from pmd_lite.comparing.summary import finished_run
from pmd_lite.config import Config, Metric, check_number, configured
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.joining import extended
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.disk import place, write_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tokenizers import check_scorers
from pmd_lite.exchange.marian import Imported
from pmd_lite.exchange.start import start_from
from pmd_lite.methods import METHODS, get_method, needed_runs
from pmd_lite.processes import Job, run_jobs
from pmd_lite.training.opening import unlike

Equal = Literal["tokens", "compute"]


def compare(
    corpus: str | Path = "longtail", methods: Sequence[str] = tuple(METHODS), seeds: Sequence[int] = (1, 2, 3),
    preset_name: str = "toy", *, out: str | Path, equal: Equal = "tokens", reference: str = "",
    workers: int | None = None, corpus_options: dict[str, Any] | None = None, init: str | Path | None = None,
    show: bool = True, metrics: Sequence[Metric] = (), **overrides: Any,
) -> Comparison:  # fmt: skip
    """Train every method with every seed, then write tables and figures into `out`.

    Args:
        corpus, corpus_options: a toy world or a corpus directory, and further words for `load_corpus`.
        methods: names of the method table, each with settings of its own if you like, such as
            "auto-pmd samplers=tau=1,chi-ibr fidelity=released" or "tau=1 d_model=128".
        seeds: every method is trained once with each of them.
        preset_name: the configuration that all runs begin with: "toy", "small", "ted8" or "wmt6".
        out: directory of the comparison. After an interruption give the same command again: finished runs are not
            repeated, the others continue. You can add methods and seeds later.
        equal: "tokens" trains all methods for the same number of updates. "compute" gives each as many updates as the
            multiply-adds of `reference` allow (see `training.cost`; auxiliary runs count), with warm-up in proportion.
            The cost of an update is measured first, by a run at equal tokens with the first seed.
        reference: the method whose compute all methods get; by default the first of `methods`.
        workers: processes at a time; by default one per core.
        init: a run, an export or an imported checkpoint that all runs start from, as in `train`.
        show: print how far the runs are.
        metrics: tables always have BLEU and chrF; "ter" adds TER, which is slow.
        overrides: fields of the configuration for all runs.
    Returns: the comparison; `Comparison(out)` reads it again later. A run that fails is left out and reported.
    Raises: UserError when the request makes no sense (before anything is trained), or when no method has finished.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    plan = _Plan(
        str(corpus), dict(corpus_options or {}), [parse_entry(text) for text in methods], tuple(seeds), preset_name,
        overrides, place(out), cores if workers is None else workers, show, start_from(init) if init else None,
        list(metrics),
    )  # fmt: skip
    plan.check(reference)
    plan.out.mkdir(parents=True, exist_ok=True)
    plan.run_at_equal_tokens(plan.seeds if equal == "tokens" else plan.seeds[:1])
    if equal == "compute":
        plan.run_at_equal_compute(reference or methods[0])
    comparison = Comparison(plan.out, "runs" if equal == "tokens" else "equal-compute")
    comparison.save()
    return comparison


@dataclass(frozen=True)
class _Plan:
    """Everything that the caller of `compare` asked for."""

    corpus: str
    corpus_options: dict[str, Any]
    entries: list[Entry]
    seeds: tuple[int, ...]
    preset_name: str
    overrides: dict[str, Any]
    out: Path
    workers: int
    show: bool
    start: Imported | None
    metrics: list[Metric]

    def check(self, reference: str) -> None:
        """Raises UserError for every mistake that can be found before hours of training."""
        texts = [entry.text for entry in self.entries]
        if not texts or not self.seeds:
            raise UserError("compare takes at least one method and one seed")
        if len({*texts}) < len(texts) or len({*self.seeds}) < len(self.seeds):
            raise UserError("a method or a seed is named twice; name each of them once")
        check_number("workers", self.workers, int, 1, 10_000)
        if reference and reference not in texts:
            raise UserError(f"reference={reference!r} is not one of the methods: {', '.join(texts)}")
        configs = {entry.text: self.config(entry, self.seeds[0]) for entry in self.entries}
        for text, config in configs.items():
            if config.tokenizer != configs[texts[0]].tokenizer:
                raise UserError(f"{text}: all methods of a comparison share one tokenizer, but its settings differ "
                                f"from those of {texts[0]}. Give them to all methods with --set")  # fmt: skip
        wanted = {config.train.tokenize for config in configs.values()}
        if len(wanted) > 1:
            raise UserError(f"tokenize is {' and '.join(sorted(wanted))}: BLEU of different tokenizers cannot be "
                            "compared; give one to all methods (--set tokenize=13a)")  # fmt: skip
        check_scorers(self.texts.pairs, wanted.pop())

    @cached_property
    def texts(self) -> Corpus:
        """The corpus that `corpus` names."""
        return load_corpus(self.corpus, **self.corpus_options)

    def config(self, entry: Entry, seed: int) -> Config:
        """The configuration of one run."""
        words = {**self.overrides, **entry.overrides, "seed": seed}
        config = configured(self.preset_name, self.texts.direction, entry.row.name, words)
        return self.start.configure(config, words) if self.start else config

    def job(self, entry: Entry, seed: int, folder: str, **words: Any) -> dict[str, Any]:
        """Arguments of `train` for one run."""
        return {
            "corpus": self.corpus, "corpus_options": self.corpus_options, "method": entry.method,
            "samplers": entry.samplers, "preset_name": self.config(entry, seed),
            "out": entry.path(self.out / folder, seed), "init": self.start and self.start.init,
            "tokenizer": self.out / "tokenizer", "metrics": self.metrics, **words,
        }  # fmt: skip

    def run_at_equal_tokens(self, seeds: Sequence[int]) -> None:
        """Train auxiliary runs and runs that need none, then the runs that learn from them; the longest first."""
        first: dict[Path, Job] = {}  # by directory: a tau=1 run may be auxiliary and in the table
        second: list[Job] = []
        for seed, entry in itertools.product(seeds, self.entries):
            needs = needed_runs(entry.row.samplers, entry.row.distiller, self.config(entry, seed))
            if not needs or entry.overrides:  # a method with settings of its own gets auxiliary runs of its own
                job = self.job(entry, seed, "runs")
                first[job["out"]] = job
            else:
                auxiliaries = {job["out"]: job for job in self._auxiliary_jobs(entry, seed)}
                first |= auxiliaries
                second.append(self.job(entry, seed, "runs", use=list(auxiliaries)))
        self._run([list(first.values()), second], "runs", seeds)

    def _auxiliary_jobs(self, entry: Entry, seed: int) -> list[dict[str, Any]]:
        config = self.config(entry, seed)
        encoded = encode_corpus(self.texts, self._tokenizer(config), config.model.max_len)
        jobs = []
        for want in auxiliary.wanted(entry.row, self.texts, config, encoded):
            own = want.samplers is None or want.samplers == METHODS[want.method].samplers
            text = want.method if own else f"{want.method} samplers={','.join(want.samplers or ())}"
            options, out = {**self.corpus_options, "pairs": list(want.corpus.pairs)}, self.out / "auxiliary"
            alone = {"corpus_options": options, "preset_name": want.config, "score": False,
                     "out": out / f"{want.key}-seed{seed}"}  # fmt: skip
            words = alone if want.key.startswith("bilingual") else {}
            jobs.append(self.job(parse_entry(text), seed, "runs", **words))
        return jobs

    def run_at_equal_compute(self, reference: str) -> None:
        """Train each method for as many updates as it gets for the compute of `reference`."""
        folder, seed = self.out / "runs", self.seeds[0]
        measured = {entry.text: run for entry in self.entries if (run := finished_run(folder, entry, seed))}
        if reference not in measured:
            raise UserError(f"{reference} did not finish, so its compute is not known; see {self.out}")
        budget, jobs = measured[reference].compute_with_auxiliary, []
        for entry in (entry for entry in self.entries if entry.text in measured):
            run = measured[entry.text]
            (made, total), fixed = run.clock, run.cost["prepare"]
            # All costs but the preparations grow with updates, evaluations included.
            steps = max(1, round(made * (budget - fixed) / (run.compute_with_auxiliary - fixed)))
            for seed in self.seeds:
                config = auxiliary.of_length(self.config(entry, seed), steps, total)
                jobs.append(self.job(entry, seed, "equal-compute", preset_name=config))
        self._run([jobs], "equal-compute", self.seeds)

    def _tokenizer(self, config: Config) -> Tokenizer:
        """The tokenizer of all runs, trained if there is none yet. Raises UserError when another one is there."""
        folder, start = self.out / "tokenizer", self.start
        if not (folder / "tokenizer.json").exists():
            wanted = extended(start.tokenizer, self.texts) if start else train_tokenizer(self.texts, config.tokenizer)
            wanted.save(folder)
        tokenizer = Tokenizer.load(folder)
        unfit = ["it does not belong to init="] if start and not start.fits(tokenizer) else []
        if why := unfit if start else unlike(tokenizer, self.texts, config.tokenizer):
            raise UserError(f"{folder}: the tokenizer of this comparison differs from the one you ask for: "
                            f"{'; '.join(why)}. Choose another out directory")  # fmt: skip
        return tokenizer

    def _run(self, waves: Sequence[Sequence[Job]], folder: str, seeds: Sequence[int]) -> None:
        """Train wave after wave, and write down what was asked for and what failed."""
        self._tokenizer(self.config(self.entries[0], self.seeds[0]))
        failed: dict[str, str] = {}
        for wave in waves:
            jobs = sorted(wave, key=_length, reverse=True)
            outcomes = run_jobs(jobs, self.workers, stop_at_error=False, show=self.show)
            for job, outcome in zip(jobs, outcomes, strict=True):
                if isinstance(outcome, UserError):
                    failed[Path(job["out"]).name] = str(outcome)
                    print(f"FAILED {Path(job['out']).name}: {outcome}")
        write_json(self.out / f"{folder}.json", {
            "corpus": self.corpus, "corpus_options": self.corpus_options, "preset": self.preset_name,
            "overrides": self.overrides, "init": str(self.start.init) if self.start else None,
            "methods": [entry.text for entry in self.entries], "seeds": list(seeds), "folder": folder, "failed": failed,
        })  # fmt: skip


def _length(job: Job) -> float:
    """A guess of how long a run takes, for starting the longest first."""
    row, config = get_method(job["method"], job["samplers"]), job["preset_name"]
    steps = config.train.epochs * 100 or config.train.steps
    return float(steps * config.model.d_model * len(row.samplers) * (1 + ("20 rho" in row.passes)))
