"""A run seen from outside: everything here is read from its directory, so any figure can be redrawn later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from pmd_lite.config import Config
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import PAD, Tokenizer, split_pair
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import corpus_bleu
from pmd_lite.evaluation.pareto import mean_by_group, split_high_low
from pmd_lite.evaluation.tables import Table
from pmd_lite.evaluation.translation import translate_ids
from pmd_lite.interfaces import Clock
from pmd_lite.methods import get_method, student_labels
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.dev import kept_by
from pmd_lite.training.learner import pick_device
from pmd_lite.training.progress import describe_passes
from pmd_lite.training.rundir import RunDir, read_json, write_atomic, write_json
from pmd_lite.training.weights import load_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = dict[str, dict[str, dict[str, Any]]]


class Run:
    """A run directory: its configuration, curves, models, translations and scores."""

    def __init__(self, path: str | Path):
        """Raises UserError when `path` is not a run directory."""
        self.dir = RunDir(Path(path))
        about = self.dir.config
        self.config = Config.from_dict(about["config"])
        self.method = get_method(about["method"], about["samplers"])
        self.corpus: dict[str, Any] = about["corpus"]
        self.pairs: list[str] = self.corpus["pairs"]
        self.sizes: dict[str, int] = dict(zip(self.pairs, self.corpus["sizes"], strict=True))
        self.labels = student_labels(self.method, self.config.tau)

    def __repr__(self) -> str:
        state = "finished" if self.dir.finished else "unfinished"
        return f"<{state} run {self.method.name} on {self.corpus['name']} in {self.dir.path}>"

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.dir.path

    @property
    def groups(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(high-resource, low-resource) pairs: the larger and the smaller half."""
        return split_high_low(self.sizes)

    # ---- curves

    def evaluations(self, student: int = 0) -> list[dict[str, Any]]:
        """The metrics lines of one student's evaluations, in order."""
        return [m for m in self.dir.metrics() if m["event"] == "eval" and m["student"] == student]

    def searches(self, student: int = 0) -> list[dict[str, Any]]:
        """Auto-PMD's searches of one student: step, mu, trials, results R, actions, alpha."""
        return [m for m in self.dir.metrics() if m["event"] == "search" and m["student"] == student]

    def curve(self, field: str, student: int = 0) -> tuple[list[int], dict[str, list[float]]]:
        """Steps and, per pair, one field of the metrics: dev_loss, train_nll, alpha, p, visits, tokens."""
        lines = self.evaluations(student)
        if lines and field not in lines[0]:
            raise UserError(f"{self.path}: metrics have no field {field!r}; there are {', '.join(lines[0])}")
        return [m["step"] for m in lines], {pair: [m[field][i] for m in lines] for i, pair in enumerate(self.pairs)}

    @property
    def passes(self) -> list[str]:
        """In words: how long an epoch is, and how often each student has seen a sentence of each pair so far."""
        last = [self.evaluations(student)[-1:] for student in range(len(self.labels))]
        if not all(last) or "epoch" not in last[0][0]:  # not evaluated yet, or an older run
            return []
        clock = Clock(last[0][0]["step"], last[0][0]["total"], last[0][0]["epoch"])
        return describe_passes(clock, self.pairs, [line["visits"] for (line,) in last], so_far=True)

    @property
    def auxiliary(self) -> list[Run]:
        """The runs that this one learnt from (see `pmd_lite.auxiliary`)."""
        memory = self.path / "auxiliary.json"
        return [Run(place) for place in read_json(memory).values()] if memory.exists() else []

    @property
    def cost(self) -> dict[str, int]:
        """Forward passes so far by purpose, in target tokens; a backward pass counts as two (see `training.cost`)."""
        lines = [line for line in self.dir.metrics() if line["event"] == "eval"]
        return dict(lines[-1]["cost"]) if lines else {}

    @property
    def finished(self) -> dict[str, Any]:
        """How the run ended: reason, step, seconds, cost, parameters. Raises UserError while it has not."""
        return dict(read_json(self.path / "finished.json"))

    @property
    def compute(self) -> float:
        """Forward passes in tokens times parameters of one student; times 2 these are about the FLOPs."""
        return float(sum(self.finished["cost"].values()) * self.finished["parameters"])

    def best_dev_loss(self, student: int = 0) -> dict[str, float]:
        """Dev loss per pair, nats per token, at the evaluation whose weights were kept (see `DistillConfig.best`)."""
        rule = self.config.distill.resolved.best

        def value(line: dict[str, Any]) -> float:
            if "dev_tokens" not in line:  # runs of before there was a choice
                return kept_by([line["dev_loss"], line["dev_smoothed"]], [], "mean")
            return kept_by([line["dev_loss"], line["dev_smoothed"]], line["dev_tokens"], rule)

        kept = min(self.evaluations(student), key=value)
        return dict(zip(self.pairs, kept["dev_loss"], strict=True))

    # ---- models

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer the run was trained with."""
        return Tokenizer.load(self.path / "tokenizer")

    def model(self, student: int = 0, which: Literal["best", "latest"] = "best") -> Transformer:
        """A trained student in eval mode: "best" are those kept by `DistillConfig.best`, "latest" the last."""
        if not 0 <= student < len(self.labels):
            raise UserError(f"student {student}: this run has {len(self.labels)}, counted from 0")
        model = Transformer(self.tokenizer.vocab_size, **asdict(self.config.model), pad=PAD)
        load_weights(model, self.dir.load_weights(student, which))
        return model.to(self._device).eval()

    @property
    def _device(self) -> torch.device:
        try:
            return pick_device(self.config.train.device, "fp32")
        except UserError:  # it was trained on another machine
            return pick_device("auto", "fp32")

    def translate(
        self,
        sentences: Sequence[str],
        pair: str,
        student: int = 0,
        beam: int | None = None,
        model: Transformer | None = None,
    ) -> list[str]:
        """Translate sentences of `pair` ("fr-en"); order is kept, an empty sentence stays empty.

        Raises UserError for a pair the run was not trained on, a student that it has not, a beam below 1.
        """
        if isinstance(sentences, str):
            raise UserError('translate takes a list of sentences: translate(["..."], pair)')
        if pair not in self.pairs:
            raise UserError(f"this run translates {', '.join(self.pairs)}; not {pair!r}")
        if beam is not None and beam < 1:
            raise UserError(f"beam={beam}: 1 is greedy search, 5 is the paper's")
        model, train = model or self.model(student), self.config.train
        rows = [i for i, text in enumerate(sentences) if text.strip()]
        sources = [self.tokenizer.encode_src(sentences[i].strip(), pair) for i in rows]
        found = translate_ids(
            model, sources, pair, self.tokenizer, limit=self.config.model.max_len, budget=6 * train.tokens,
            beam=train.beam if beam is None else beam, length_penalty=train.length_penalty,
        )  # fmt: skip
        out = [""] * len(sentences)
        for i, text in zip(rows, found, strict=True):
            out[i] = text
        return out

    def export(self, to: Literal["hf", "ctranslate2"], out: str | Path, student: int = 0) -> Path:
        """Write a student for Hugging Face's transformers or for CTranslate2: see `pmd_lite.export.export`."""
        from pmd_lite.export import export

        return export(self, to, out, student)

    # ---- scores

    def evaluate(self, corpus: Corpus, split: Literal["valid", "test"] = "test", beam: int | None = None) -> Scores:
        """Translate a split with every student's best weights; writes translations/ and, for test, scores.json.

        Returns {"model_1": {pair: {bleu, chrf, signature, chrf_signature}}}. Raises UserError on another corpus.
        """
        if list(corpus.pairs) != self.pairs or corpus.fingerprint != self.corpus["fingerprint"]:
            raise UserError(f"{self.path} was trained on another corpus than {corpus.name} (names or texts differ); "
                            "load the one named in its config.json")  # fmt: skip
        scores: Scores = {}
        for student in range(len(self.labels)):
            name, model = f"model_{student + 1}", self.model(student)
            scores[name] = {}
            for pair in self.pairs:
                text = getattr(corpus, split)[pair]
                hyps = self.translate([src for src, _ in text], pair, student, beam, model)
                target = self.path / "translations" / f"{split}.{name}.{pair}.txt"
                lines = "".join(line + "\n" for line in hyps)
                write_atomic(target, lambda p, lines=lines: p.write_text(lines, encoding="utf-8", newline="\n"))  # type: ignore[misc]
                scores[name][pair] = asdict(corpus_bleu(hyps, [trg for _, trg in text], split_pair(pair)[1]))
        if split == "test":
            write_json(self.path / "scores.json", {"beam": beam or self.config.train.beam, "scores": scores})
        return scores

    @property
    def scores(self) -> Scores:
        """Test scores as `evaluate` wrote them. Raises UserError when there are none yet."""
        if not (self.path / "scores.json").exists():
            raise UserError(f"{self.path} has no scores yet: python -m pmd_lite evaluate {self.path}")
        return dict(read_json(self.path / "scores.json")["scores"])

    def bleu(self, student: int = 0) -> dict[str, float]:
        """Test BLEU of one student, pair by pair."""
        return {pair: score["bleu"] for pair, score in self.scores[f"model_{student + 1}"].items()}

    def point(self, student: int = 0) -> tuple[float, float]:
        """(LRL, HRL) average test BLEU: a point on the plane of the paper's Fig. 1."""
        high, low = mean_by_group(self.bleu(student), self.groups)
        return low, high

    def table(self) -> Table:
        """Test BLEU per pair, with the averages over high- and low-resource pairs."""
        return bleu_table([self])

    # ---- pictures (drawn by the teaching floor)

    def plot_frontier(self, *others: Run) -> Figure:
        """This run's students, and those of other runs, on the plane of low- and high-resource BLEU."""
        from pmd_lite.teaching import figures

        return figures.frontier_of([*others, self])

    def plot_dev_loss(self, *others: Run) -> Figure:
        """Dev loss per pair over training."""
        from pmd_lite.teaching import figures

        return figures.dev_loss_of([*others, self])

    def plot_alphas(self) -> Figure:
        """Distillation weights over training."""
        from pmd_lite.teaching import figures

        return figures.alphas_of(self)


def bleu_table(runs: Sequence[Run]) -> Table:
    """One row for each student of each run: test BLEU per pair, averages of all, high- and low-resource pairs."""
    rows: list[list[Any]] = []
    for run in runs:
        for student, label in enumerate(run.labels):
            bleu = run.bleu(student)
            low, high = run.point(student)
            rows.append([label, *bleu.values(), sum(bleu.values()) / len(bleu), high, low])
    columns = ["model", *runs[0].pairs, "mean", "HRL", "LRL"]
    return Table(
        columns, rows, digits=1, caption="Test BLEU (sacreBLEU). HRL, LRL: means of the larger and smaller pairs"
    )
