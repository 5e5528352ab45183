"""A finished or unfinished run, read from its directory: curves, models, translations, scores and figures."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pmd_lite.config import EngineName, Metric, Tokenize, check_number
from pmd_lite.config.sections import BEAM
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import PAD, Tokenizer
from pmd_lite.disk import place, read_json, write_json
from pmd_lite.errors import UserError, shown
from pmd_lite.evaluation.pareto import mean_by_group, split_high_low
from pmd_lite.evaluation.score_tables import bleu_table
from pmd_lite.evaluation.scoring import Scores, one_line, read_scores, score_pair, without_bleu
from pmd_lite.evaluation.tables import Table
from pmd_lite.evaluation.translation import Engine, read_translations, translate_texts, write_lines
from pmd_lite.exchange.ctranslate2 import in_ctranslate2
from pmd_lite.interfaces import Clock
from pmd_lite.methods import get_method, student_labels
from pmd_lite.model import Transformer
from pmd_lite.model.ensemble import Ensemble
from pmd_lite.training.dev import kept_line
from pmd_lite.training.distributed import current
from pmd_lite.training.learner import pick_device
from pmd_lite.training.opening import own_tokenizer
from pmd_lite.training.progress import describe_passes
from pmd_lite.training.rundir import PER_PAIR, RunDir, lengthened
from pmd_lite.training.weights import load_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run:
    """A run directory: its configuration, curves, models, translations and scores."""

    def __init__(self, path: str | Path):
        """Raises UserError when `path` is not a run directory."""
        self.dir = RunDir(place(path))
        self.path = self.dir.path
        written = self.dir.config
        self.config = lengthened(written)
        self.method = get_method(written["method"], written["samplers"])
        self.corpus: dict[str, Any] = written["corpus"]
        self.pairs: list[str] = self.corpus["pairs"]
        self.sizes: dict[str, int] = dict(zip(self.pairs, self.corpus["sizes"], strict=True))
        self.groups = split_high_low(self.sizes)
        """(high-resource, low-resource) pairs: the larger and the smaller half."""
        self.labels = student_labels(self.method, self.config.tau)

    def _repr_html_(self) -> str:
        scored = (self.path / "scores.json").exists()
        return f"<p>{html.escape(repr(self))}</p>" + (self.table().to_html() if scored else "")

    def __repr__(self) -> str:
        state = "finished" if self.dir.finished else "unfinished"
        return f"<{state} run {self.method.name} on {self.corpus['name']} in {self.path}>"

    # ---- curves

    def evaluations(self, student: int = 0) -> list[dict[str, Any]]:
        """The metrics lines of one student's evaluations, in order."""
        self._name(student)
        return self.lines("eval", student)

    def lines(self, event: Literal["eval", "search"], student: int | None = None) -> list[dict[str, Any]]:
        """The metrics lines of one kind, of one student or of all. Raises UserError when one is damaged."""
        return [line for line in self.dir.lines(event, len(self.pairs)) if student in (None, line["student"])]

    def _evaluated(self, student: int) -> list[dict[str, Any]]:
        if not (lines := self.evaluations(student)):
            raise UserError(f"{self.path}: no evaluation of model_{student + 1} yet; train this run first")
        return lines

    def searches(self, student: int = 0) -> list[dict[str, Any]]:
        """Auto-PMD's searches of one student: step, mu, trials, results R, actions, alpha."""
        return self.lines("search", student)

    def curve(self, field: str, student: int = 0) -> tuple[list[int], dict[str, list[float]]]:
        """Steps and, per pair, a field of the metrics, such as dev_loss, alpha, p, visits. UserError for another."""
        lines = self.evaluations(student)
        if lines and not (field in PER_PAIR and field in lines[0]):
            known = ", ".join(name for name in PER_PAIR if name in lines[0])
            raise UserError(f"{self.path}: metrics have no field {shown(field)} of pairs; there are {known}")
        return [m["step"] for m in lines], {pair: [m[field][i] for m in lines] for i, pair in enumerate(self.pairs)}

    @property
    def passes(self) -> list[str]:
        """In words: the length of an epoch, and how often each student has seen a sentence of each pair so far."""
        last = [self.evaluations(student)[-1:] for student in range(len(self.labels))]
        if not all(last):
            return []
        clock = Clock(last[0][0]["step"], last[0][0]["total"], last[0][0]["epoch"])
        return describe_passes(clock, self.pairs, [line["visits"] for (line,) in last], so_far=True)

    @property
    def auxiliary(self) -> list[Run]:
        """The runs that this one learnt from (see `pmd_lite.auxiliary`)."""
        file = self.path / "auxiliary.json"
        return [Run(path) for path in read_json(file, {"*": str}).values()] if file.exists() else []

    @property
    def cost(self) -> dict[str, int]:
        """Multiply-adds up to the last evaluation, by purpose (`training.cost`)."""
        return dict(lines[-1]["multiply_adds"]) if (lines := self.lines("eval")) else {}

    @property
    def finished(self) -> dict[str, Any]:
        """How it ended: reason, step, seconds, multiply_adds by purpose, parameters of a student. Else UserError."""
        return self.dir.summary()

    @property
    def compute(self) -> int:
        """Multiply-adds of the whole run; times 2 they are its FLOPs. Raises UserError as `finished` does."""
        return sum(self.finished["multiply_adds"].values())

    @property
    def compute_with_auxiliary(self) -> int:
        """`compute` plus that of the runs it learnt from. Raises UserError as `compute` does."""
        return sum(run.compute for run in (self, *self.auxiliary))

    @property
    def clock(self) -> tuple[int, int]:
        """Updates of each student at the last evaluation, and those that were asked for."""
        last = self._evaluated(0)[-1]
        return last["step"], last["total"]

    def best_dev_loss(self, student: int = 0) -> dict[str, float]:
        """Dev loss per pair, nats per token, at the evaluation whose weights were kept (see `DistillConfig.best`)."""
        kept = kept_line(self._evaluated(student), self.config.distill.resolved.best)
        return dict(zip(self.pairs, kept["dev_loss"], strict=True))

    # ---- models

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer the run was trained with."""
        return own_tokenizer(self.dir)

    def model(self, student: int = 0, which: Literal["best", "latest"] = "best") -> Transformer:
        """A trained student in eval mode: "best" are those kept by `DistillConfig.best`, "latest" the last."""
        self._name(student)
        model = Transformer(self.tokenizer.vocab_size, **asdict(self.config.model), pad=PAD)
        load_weights(model, self.dir.load_weights(student, which))
        try:
            return model.to(pick_device(self.config.train.device, "fp32")).eval()
        except UserError:  # it was trained on another machine
            return model.to(pick_device("auto", "fp32")).eval()

    def ensemble(self, *others: Run | str | Path) -> Transformer:
        """All students of these runs as one model: their mean probability. UserError unless tokenizer and pairs fit."""
        runs = {run.path.resolve(): run for run in (self, *(x if isinstance(x, Run) else Run(x) for x in others))}
        for run in runs.values():
            if run.tokenizer.fingerprint != self.tokenizer.fingerprint or not set(self.pairs) <= set(run.pairs):
                raise UserError(f"{run.path} and {self.path} cannot translate together: they need one tokenizer and "
                                "the same pairs. Train both with the same tokenizer=")  # fmt: skip
        models = [run.model(i) for run in runs.values() for i in range(len(run.labels))]
        device = next(models[0].parameters()).device
        together = Ensemble([model.to(device) for model in models]).eval()
        return cast(Transformer, together)  # translation calls the same methods

    def _name(self, student: int) -> str:
        """ "model_1" of student 0. Raises UserError for a student that this run does not have."""
        if type(student) is not int or not 0 <= student < len(self.labels):
            raise UserError(f"student {shown(student)}: this run has {len(self.labels)}, counted from 0 (model_1 is 0)")
        return f"model_{student + 1}"

    def translator(
        self, student: int = 0, ensemble: Sequence[Run | str | Path] = (), engine: EngineName = "ours"
    ) -> Transformer | Engine:
        """What `translate` translates with.

        ensemble: runs whose students translate together with all students of this run; this run alone: [run].
        engine: "ctranslate2": see `CTranslate2`; where it cannot be used, ours translates, with a warning.
        """
        model = self.ensemble(*ensemble) if ensemble else self.model(student)
        return in_ctranslate2(model) if engine == "ctranslate2" else model

    def translate(
        self, sentences: Sequence[str], pair: str, student: int = 0, beam: int | None = None,
        model: Transformer | Engine | None = None, ensemble: Sequence[Run | str | Path] = (),
    ) -> list[str]:  # fmt: skip
        """Translate sentences of `pair` ("fr-en"), in their order; a blank sentence stays empty.

        model: one of `translator`, so that many calls load it once. ensemble: see there.
        Raises UserError for a pair the run was not trained on, an unknown student, or a beam below 1.
        """
        if isinstance(sentences, str):
            raise UserError('translate takes a list of sentences: translate(["..."], pair)')
        if pair not in self.pairs:
            raise UserError(f"this run translates {', '.join(self.pairs)}; not {shown(pair)}")
        if beam is not None:
            check_number("beam", beam, int, *BEAM)
        model, train = model or self.translator(student, ensemble), self.config.train
        return translate_texts(
            model, sentences, pair, self.tokenizer, limit=model.max_len, budget=6 * train.tokens,
            beam=train.beam if beam is None else beam, length_penalty=train.length_penalty,
        )  # fmt: skip

    def export(self, to: Literal["hf", "ctranslate2"], out: str | Path, student: int = 0) -> Path:
        """Write a student for Hugging Face's transformers or for CTranslate2: see `pmd_lite.exchange.export.export`."""
        from pmd_lite.exchange.export import Trained, export

        label = f"model_{student + 1} of {self.method.name} on {self.corpus['name']}"
        return export(Trained(self.model(student), self.tokenizer, self.config, self.pairs, label), to, out)

    def evaluate(
        self, corpus: Corpus, split: Literal["valid", "test"] = "test", beam: int | None = None,
        tokenize: Tokenize | None = None, metrics: Sequence[Metric] = (), ensemble: Sequence[Run | str | Path] = (),
        engine: EngineName = "ours",
    ) -> Scores:  # fmt: skip
        """Translate a split with every student's best weights; writes translations/ and, for test, scores.json.

        Sources and references (SPLIT.src.PAIR.txt, SPLIT.ref.PAIR.txt) go beside the translations
        (SPLIT.model_1.PAIR.txt), for any other metric: UTF-8, one sentence a line. Inside `train`, the processes of a
        run share the students and pairs.

        Args:
            tokenize: the tokenizer of BLEU; by default the one of the last scores, else the configuration's.
            metrics: BLEU and chrF are always counted; "ter" adds TER, which is slow.
            ensemble, engine: see `translator`. With an ensemble, scores.json stays as it is.
        Returns: see `Scores`. Raises: UserError on another corpus.
        """
        self.check_corpus(corpus)
        names = ["ensemble"] if ensemble else [f"model_{student + 1}" for student in range(len(self.labels))]
        model = cache(lambda student: self.translator(student, ensemble, engine))
        tasks, group, mine = [(i, pair) for i in range(len(names)) for pair in self.pairs], current(), []
        for i, pair in (tasks[number] for number in group.mine(len(tasks))):
            lines = self.translate([src for src, _ in getattr(corpus, split)[pair]], pair, beam=beam, model=model(i))
            mine.append((f"{split}.{names[i]}.{pair}", lines))
        group.barrier("the other processes of this run, which translate")
        for name, lines in (one for share in group.gathered(mine) for one in share if not group.rank):
            write_lines(self.path / "translations" / f"{name}.txt", lines)
        used = engine if engine == "ours" or isinstance(model(0), Engine) else "ours"
        about = dict[str, Any](beam=beam or self.config.train.beam, engine=used, tokenize=tokenize or self.tokenize)
        scores = {} if group.rank else self._score(corpus, split, about, names, metrics)
        group.barrier("process 0 of this run, which scores")
        return cast(Scores, group.gathered(scores)[0])

    def rescore(self, corpus: Corpus, tokenize: Tokenize | None = None, metrics: Sequence[Metric] = ()) -> Scores:
        """Score stored test translations anew into scores.json. UserError for none, or on another corpus."""
        self.check_corpus(corpus)
        told = {**self._scored, "tokenize": tokenize or self.tokenize}
        return self._score(corpus, "test", told, list(self.scores), metrics)

    def check_corpus(self, corpus: Corpus) -> None:
        """Raises UserError unless this run was trained on these texts."""
        if list(corpus.pairs) != self.pairs or corpus.fingerprint != self.corpus["fingerprint"]:
            raise UserError(f"{self.path} was trained on another corpus than {corpus.name} (names or texts differ, or "
                            "a file has changed since). Give the corpus that its config.json names")  # fmt: skip

    def _score(
        self, corpus: Corpus, split: str, about: dict[str, Any], names: Sequence[str], metrics: Sequence[Metric]
    ) -> Scores:
        texts, folder = getattr(corpus, split), self.path / "translations"
        scores: Scores = {name: {} for name in names}
        for pair, text in texts.items():
            references = [one_line(trg) for _, trg in text]
            write_lines(folder / f"{split}.src.{pair}.txt", [src for src, _ in text])
            write_lines(folder / f"{split}.ref.{pair}.txt", references)
            for name, of in scores.items():
                hypotheses = read_translations(folder / f"{split}.{name}.{pair}.txt")
                of[pair] = score_pair(hypotheses, references, pair, about["tokenize"], metrics)
        if split == "test" and names != ["ensemble"]:
            write_json(self.path / "scores.json", self.dir.sealed({**about, "scores": scores}))
        return scores

    def translations(self, pair: str, student: int = 0, split: Literal["valid", "test"] = "test") -> list[str]:
        """A student's translations of a split, as `evaluate` wrote them. Raises UserError when there are none."""
        return read_translations(self.path / "translations" / f"{split}.{self._name(student)}.{pair}.txt")

    @property
    def scores(self) -> Scores:
        """Test scores as `evaluate` wrote them. Raises UserError when there are none yet."""
        return self._scored["scores"]

    @property
    def _scored(self) -> dict[str, Any]:
        return read_scores(self.path / "scores.json", len(self.labels), self.pairs, self.dir.sealed)

    @property
    def tokenize(self) -> Tokenize:
        """The tokenizer that the test scores were asked for, or will be when there are none yet."""
        there = (self.path / "scores.json").exists()
        return self._scored.get("tokenize", "auto") if there else self.config.train.tokenize

    @property
    def without_bleu(self) -> dict[str, str]:
        """{pair: why it has no test BLEU}: its tokenizer was missing on the machine that scored it."""
        return without_bleu(self.scores)

    def measured(self, metric: Metric, student: int = 0) -> dict[str, float]:
        """Test scores of one student by one metric, pair by pair; nan for a pair that could not be scored."""
        return {pair: math.nan if score.get(metric) is None else score[metric]
                for pair, score in self.scores[self._name(student)].items()}  # fmt: skip

    def bleu(self, student: int = 0) -> dict[str, float]:
        """Test BLEU of one student, pair by pair; nan for a pair whose tokenizer was missing (see `scores`)."""
        return self.measured("bleu", student)

    def point(self, student: int = 0) -> tuple[float, float]:
        """(LRL, HRL) average test BLEU: a point on the plane of the paper's Fig. 1; nan where a pair has no BLEU."""
        high, low = mean_by_group(self.bleu(student), self.groups)
        return low, high

    def table(self) -> Table:
        """Test BLEU per pair, with the averages over high- and low-resource pairs."""
        return bleu_table([self])

    def plot_frontier(self, *others: Run) -> Figure:
        """This run's students, and those of other runs, on the plane of low- and high-resource BLEU."""
        from pmd_lite.figures.runs import frontier_of

        return frontier_of([*others, self])

    def plot_dev_loss(self, *others: Run) -> Figure:
        """Dev loss per pair over training."""
        from pmd_lite.figures.runs import dev_loss_of

        return dev_loss_of([*others, self])

    def plot_alphas(self) -> Figure:
        """Distillation weights over training."""
        from pmd_lite.figures.runs import alphas_of

        return alphas_of(self)
