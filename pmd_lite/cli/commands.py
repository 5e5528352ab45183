"""The commands except train, estimate and data; their docstrings are the help texts."""

import io
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from tyro.conf import Positional, arg

from pmd_corpora.archives import LONGEST_LINE, text_lines
from pmd_lite.config import EngineName, Metric, Tokenize
from pmd_lite.errors import UserError, waiting
from pmd_lite.evaluation.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmd_lite.run import Run


def translate(
    run: Positional[Path], pair: str, file: Path | None = None, student: int = 1,
    beam: Annotated[int | None, arg(help_behavior_hint="(default: the run's)")] = None,
    ensemble: tuple[Path, ...] = (), engine: EngineName = "ours",
) -> None:  # fmt: skip
    """Translate sentences, one on each line, from a file or standard input; lines that are typed are answered at once.

    Args:
        run: run directory.
        pair: a language pair of the run, such as fr-en.
        file: text file in UTF-8, also packed (.gz); without it, standard input.
        student: which model, 1 or 2: model_1 favours large languages, model_2 small ones.
        beam: beam width; 1 is greedy.
        ensemble: runs whose students translate together with all students of this run, by their mean probability; name
            this run again to take its own students alone.
        engine: ours, or ctranslate2, which sometimes finds another translation (extra `export`).
    """
    from pmd_lite.data.tokenizer import UNK
    from pmd_lite.run import Run

    where, trained, strange, numbers = str(file or "standard input"), Run(run), list[int](), count(1)
    model = trained.translator(_counted_from_0(trained, student), ensemble, engine)
    with file.open("rb") if file else nullcontext(sys.stdin.buffer) as stream:
        typed = _as_they_arrive(cast(io.BufferedReader, stream), where)
        blocks = iter([list(text_lines(stream, where))]) if file else typed
        with waiting(f"sentences from {where}, one on each line (Ctrl-D in a terminal ends them)"):
            first = next(blocks)
        for block in chain([first], blocks):
            translated = trained.translate(block, pair, beam=beam, model=model)
            print(*translated, sep="\n", end="\n" if block else "", flush=True)
            known = [UNK not in trained.tokenizer.encode_src(line, pair) for line in block]
            strange += [n for fine, n in zip(known, numbers, strict=False) if not fine]
    if strange:
        print(f"note: {where}:{strange[0]}: {len(strange):,} lines hold characters unknown to the tokenizer. Is the "
              "text in the script and the form of Unicode (NFC) of the training text?", file=sys.stderr)  # fmt: skip


def _as_they_arrive(stream: io.BufferedReader, where: str) -> Iterator[list[str]]:
    """The lines of a stream, in blocks of those that are there already; waits only where none is."""
    number, rest = 1, b""
    while len(rest) <= LONGEST_LINE and (more := stream.read1(1 << 16)):
        whole, end, rest = (rest + more).rpartition(b"\n")
        block = list(text_lines(io.BytesIO(whole + end), where, number))
        number += len(block)
        yield block
    yield list(text_lines(io.BytesIO(rest), where, number))


def _counted_from_0(run: "Run", student: int) -> int:
    if student not in (numbers := range(1, len(run.labels) + 1)):
        raise UserError(f"--student {student}: this run has {', '.join(map(str, numbers))}")
    return student - 1


def export(run: Positional[Path], to: Literal["hf", "ctranslate2"], out: Path, student: int = 1) -> None:
    """Write a trained model for Hugging Face's transformers or for CTranslate2, with a README that shows its use.

    Args:
        run: run directory.
        to: hf or ctranslate2; each needs a package of the extra: pip install "pmd_lite[export]".
        out: new directory.
        student: which model, 1 or 2.
    """
    from pmd_lite.run import Run

    trained = Run(run)
    print(trained.export(to, out, _counted_from_0(trained, student)) / "README.md")


def average(run: Positional[Path], out: Path, last: int) -> None:
    """Average the weights of a run's last evaluations: a run in a new directory that translates and scores as any.

    Args:
        run: run directory, trained with --keep-last.
        out: new directory.
        last: how many evaluations.
    """
    from pmd_lite.training.averaging import average as average_weights

    print(f"Its test scores: python -m pmd_lite evaluate {average_weights(run, out, last)}")


def import_(source: Positional[Path], out: Path, pairs: tuple[str, ...], codes: tuple[str, ...] = ()) -> None:
    """Convert a Marian checkpoint of Hugging Face (an opus-mt) into a start for `train --init`.

    Args:
        source: directory of the checkpoint (config.json, its weights, vocab.json, source.spm, target.spm), or its name
            on the hub, such as Helsinki-NLP/opus-mt-fr-en: read from huggingface_hub's cache, else downloaded.
        out: new directory.
        pairs: the pairs of your corpus, such as fr-en de-en.
        codes: the checkpoint's names of target languages, if the pairs have other names, such as fr=fra.
    """
    from pmd_lite.comparing.entries import parse_settings
    from pmd_lite.exchange.marian import import_marian

    named = {language: str(code) for language, code in parse_settings(codes).items()}
    model = import_marian(source, out, pairs, named).model()
    print(f"{out}: {model.parameter_count():,} parameters, {model.vocab_size:,} ids")
    print(f"Train from it: python -m pmd_lite train --corpus DIR --preset small --lr 1e-4 --init {out}")


def evaluate(
    run: Positional[Path], corpus: str | None = None, split: Literal["valid", "test"] = "test",
    beam: int | None = None, tokenize: Tokenize | None = None, metrics: tuple[Metric, ...] = ("bleu", "chrf"),
    strict: bool = True, ensemble: tuple[Path, ...] = (), engine: EngineName = "ours",
) -> None:  # fmt: skip
    """Translate and score a split again; writes translations/ and (for test) scores.json in the run directory.

    Args:
        run: run directory.
        corpus: toy world or corpus directory; by default the run's.
        split: valid or test.
        beam: beam width; by default the run's.
        tokenize: BLEU's tokenizer, such as 13a, flores200, char; by default that of the existing scores. Without
            --beam this scores existing test translations and does not translate again.
        metrics: scores to print: bleu, chrf, ter. TER takes minutes, and is counted only if it is named; then too,
            without --beam, existing translations are scored.
        strict: as in training (--no-strict leaves unsound lines out).
        ensemble: score the students of these runs together with this run's, as in `translate`; not in scores.json.
        engine: as in `translate`.
    """
    from pmd_lite.api import load_corpus
    from pmd_lite.evaluation.scoring import METRICS, said_beside
    from pmd_lite.run import Run

    trained = Run(run)
    text = load_corpus(corpus or trained.corpus["path"] or trained.corpus["name"], strict=strict)
    text = text if list(text.pairs) == trained.pairs else text.reversed()
    anew = beam is not None or engine != "ours" or ensemble or split != "test"
    if not anew and (trained.path / "scores.json").exists() and (tokenize or "ter" in metrics):
        scores = trained.rescore(text, tokenize, metrics)
    else:
        scores = trained.evaluate(text, split, beam, tokenize, metrics, ensemble, engine)
    rows = [[name, METRICS[metric], *(score[metric] for score in of.values())]
            for metric in metrics for name, of in scores.items()]  # fmt: skip
    print(Table(["model", "metric", *trained.pairs], rows, digits=1).to_text())
    print("\n".join(said_beside([scores], metrics)))


def show(
    runs: Positional[tuple[Path, ...]], figures: bool = False, metrics: tuple[Metric, ...] = ("bleu",),
    csv: bool = False,
) -> None:  # fmt: skip
    """Print the scores of runs side by side, and the progress of each.

    Args:
        runs: one or more run directories, e.g. runs/*.
        metrics: a table of test scores for each of these, in this order: bleu, chrf, ter (see `evaluate`).
        csv: print only the scores, one on each line, as comma-separated values.
        figures: also draw dev loss, distillation weights and frontier, into RUN/figures (PNG and PDF).
    """
    from pmd_lite.evaluation.score_tables import by_corpus, score_table
    from pmd_lite.evaluation.scoring import METRICS, said_beside
    from pmd_lite.run import Run

    if not runs:
        raise UserError("name at least one run directory, for example runs/toy-auto-pmd-seed1")
    runs = tuple({path.resolve(): path for path in runs}.values())  # a run that is named twice is shown once
    paths = [path for path in runs if (path / "config.json").exists()] or runs
    for path in runs:
        if path not in paths:  # runs/* also names comparisons and caches
            print(f"note: {path} is not a run", file=sys.stderr)
    shown = [Run(path) for path in paths]
    for run in () if csv else shown:
        lines = run.evaluations(0)
        state = f"step {lines[-1]['step']}, {lines[-1]['seconds'] / 60:.1f} min" if lines else "not evaluated yet"
        print(f"{run.path}: {run.method.name} on {run.corpus['name']}, {state}")
        for line in run.passes:
            print(f"    {line}")
    scored = [run for run in shown if (run.path / "scores.json").exists()]
    if csv:
        rows = [[str(run.path), label, METRICS[metric], pair, None if math.isnan(score) else score] for run in scored
                for i, label in enumerate(run.labels) for metric in metrics
                for pair, score in run.measured(metric, i).items()]  # fmt: skip
        print(Table(["run", "model", "metric", "pair", "score"], rows).to_csv(), end="")
    groups = by_corpus(scored) if not csv else []
    for group in groups:
        about = group[0].corpus
        if len(groups) > 1:
            print(f"\nCorpus {about['name']} ({about['path'] or 'in memory'}), fingerprint {about['fingerprint'][:8]}")
        for metric in metrics:
            print(score_table(group, metric).to_text())
        print("\n".join(said_beside([run.scores for run in group], metrics)))
    if figures:
        draw(shown, scored)


def draw(runs: "list[Run]", scored: "list[Run]") -> None:
    """Draw the figures of each run, and the frontier of the scored ones of each corpus, into RUN/figures."""
    from pmd_lite.evaluation.score_tables import by_corpus
    from pmd_lite.figures.style import save_figure

    def drawn(run: "Run", name: str, figure: "Callable[[], Figure]") -> None:
        try:
            picture = figure()
        except UserError as error:  # such as too many pairs for one figure
            print(f"no {name} of {run.path}: {error}")
            return
        print(*save_figure(picture, run.path / "figures" / name))

    for run in runs:
        if run.evaluations(0):
            drawn(run, "dev_loss", run.plot_dev_loss)
            if len(run.labels) > 1:
                drawn(run, "alphas", run.plot_alphas)
    for run in scored:
        if run.without_bleu:
            print(f"{run.path} is not in the frontier: {', '.join(run.without_bleu)} has no BLEU")
    for group in by_corpus([run for run in scored if not run.without_bleu]):
        drawn(group[-1], "frontier", partial(group[-1].plot_frontier, *group[:-1]))


def methods(names: Positional[tuple[str, ...]] = ()) -> None:
    """List the methods: what they do, their samplers, cost, auxiliary runs, and the BLEU that the paper reports.

    Cost: forward passes F of one model for one update of all students (a backward pass is 2 F; L pairs, K passes with
    dropout, rho the trial ratio). Reported: means over pairs; several models are separated by a slash. The paper copied
    the scores of multidds-s, multiuat, ccl-m and chi-ibr from other experiments.

    Args:
        names: only these methods.
    """
    from pmd_lite.methods import METHODS, SAMPLERS, get_method

    rows = [get_method(name) for name in names] or list(METHODS.values())
    what = [[row.name, " | ".join(row.samplers), row.about, row.paper] for row in rows]
    print(Table(["method", "samplers", "what it does", "from"], what).to_text())
    costs = [[row.name, row.passes, row.auxiliary, *row.reported] for row in rows]
    columns = ["method", "cost in F", "auxiliary runs", "TED-8 M2O", "TED-8 O2M", "WMT-6 M2O", "WMT-6 O2M"]
    print("\n" + Table(columns, costs).to_text())
    print(f"\nSamplers for any student (--samplers): tau=X, tau, {', '.join(SAMPLERS)}")


def compare(
    methods: Annotated[tuple[str, ...], arg(metavar="METHOD ...", help_behavior_hint="(default: all)")] = (),
    corpus: Annotated[str, arg(aliases=["-c"])] = "longtail", preset: Annotated[str, arg(aliases=["-p"])] = "toy",
    seeds: tuple[int, ...] = (1, 2, 3), out: Path = Path("runs/compare"),
    equal: Literal["tokens", "compute"] = "tokens", reference: str = "", workers: int | None = None,
    strict: bool = True, init: Path | None = None, metrics: tuple[Metric, ...] = ("bleu", "chrf"),
    settings: Annotated[tuple[str, ...], arg(name="set")] = (),
) -> None:  # fmt: skip
    """Train several methods with several seeds; write tables, frontier, probabilities and costs into --out.

    You can interrupt it: the same command continues, and repeats no finished run.

    Args:
        methods: each one quoted, with its own changes: "auto-pmd samplers=tau=1,chi-ibr" "tau=1 d_model=128".
        corpus: toy world or corpus directory.
        preset: toy, small, ted8 or wmt6.
        seeds: every method is run once with each seed.
        out: directory of the comparison.
        equal: tokens: the same number of updates for all methods. compute: as many updates as the compute of the
            reference method allows.
        reference: by default the first method.
        workers: processes at the same time; by default one per core.
        strict: refuse a corpus with an unsound line; --no-strict leaves such lines out.
        init: a run, an export or a checkpoint of `import` that all runs start from.
        metrics: tables have BLEU and chrF; if ter is named, TER too, which takes minutes.
        settings: fields of the configuration for all runs: steps=1000 dropout=0.2 tokenize=13a.
    """
    from pmd_lite.comparing.compare import compare as run
    from pmd_lite.comparing.entries import parse_settings
    from pmd_lite.methods import METHODS

    found = run(corpus, methods or tuple(METHODS), seeds, preset, out=out, equal=equal, reference=reference,
                workers=workers, corpus_options={"strict": strict}, init=init, metrics=metrics,
                **parse_settings(settings))  # fmt: skip
    print(found.table().to_text(), *found.notes, "", found.cost_table().to_text(), "", sep="\n")
    print(f"Tables and figures: {out}", *(f"failed: {name}: {why}" for name, why in found.failed.items()), sep="\n")
