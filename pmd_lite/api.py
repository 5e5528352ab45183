"""load_corpus, train: what notebooks and the command line call."""

import dataclasses
import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, get_args

from pmd_lite import auxiliary
from pmd_lite.config import Config, Metric, Show, configured
from pmd_lite.config.published import remark
from pmd_lite.data import corpus as corpora
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.disk import explained, place
from pmd_lite.errors import UserError, nearest
from pmd_lite.evaluation.scoring import is_stale
from pmd_lite.evaluation.tokenizers import check_scorers
from pmd_lite.exchange.marian import Imported
from pmd_lite.exchange.start import start_from
from pmd_lite.interfaces import OnEvent
from pmd_lite.methods import Method, decides_by_bleu, get_method, make_distiller, make_samplers
from pmd_lite.run import Run
from pmd_lite.training.distributed import Group, current, divided, joined
from pmd_lite.training.opening import check_tokenizer, given_tokenizer, open_run, refuse_foreign, run_tokenizer
from pmd_lite.training.rundir import FORMAT, RunDir
from pmd_lite.training.step import check_machine
from pmd_lite.training.trainer import Trainer
from pmd_lite.training.weights import load_weights

LARGE = 200_000
"""A corpus with more training pairs than this is encoded into a cache beside the run directories."""


def load_corpus(
    name: str | Path = "longtail", *, direction: Literal["m2o", "o2m"] | None = None,
    pairs: Sequence[str] | None = None, strict: bool = True, seed: int = 0, **world: Any,
) -> Corpus:  # fmt: skip
    """A corpus to train on.

    Args:
        name: a toy world ("toy", "hard", ...) or the directory of a corpus (a path with a separator or that exists).
        direction: swap the sides of the pairs if needed: "o2m" trains English into many.
        pairs: only these pairs, with their names after swapping.
        strict: refuse a directory with an unsound line; False leaves such lines out and warns in `Corpus.warnings`.
        seed, world: for a toy world, its seed and the settings to change.
    Raises: UserError that says what is wrong with the corpus, where, and what to do.
    """
    from pmd_corpora.toy import toy_corpus  # not above: pmd_corpora stands on this package
    from pmd_corpora.toy.world import WORLDS

    if str(name) in WORLDS:
        corpus = toy_corpus(str(name), seed=seed, direction=direction or "m2o", **world)
    else:
        if world:
            raise UserError(f"{', '.join(world)}: only a toy world has such settings, and {name} is a corpus directory")
        if not os.path.exists(place(name)) and not any(c in str(name) for c in "/\\."):
            near = nearest(str(name), WORLDS)
            raise UserError(f"no corpus {str(name)!r}: {near}give a directory, or a toy world ({', '.join(WORLDS)})")
        corpus = corpora.load_corpus(name, strict=strict)
    if direction is not None and direction != corpus.direction:
        corpus = corpus.reversed()
    return corpus.only(pairs) if pairs is not None else corpus


def train(
    corpus: Corpus | str | Path = "longtail", method: str = "auto-pmd", preset_name: str | Config = "toy", *,
    out: str | Path | None = None, samplers: Sequence[str] | None = None, resume: Literal["auto", "never"] = "auto",
    show: Show = "auto", score: bool = True, use: Sequence[str | Path] = (), tokenizer: str | Path | None = None,
    init: str | Path | None = None, metrics: Sequence[Metric] = (), on_event: OnEvent | None = None,
    **overrides: Any,
) -> Run:  # fmt: skip
    """Train one method on one corpus; returns the finished run, scored on its test sets.

    Args:
        method: a name of the method table (`pmd_lite.METHODS`), or "tau=X".
        preset_name: "toy", "small", "ted8", "wmt6", or a whole Config, which is used as it is. ted8 and wmt6 take the
            values published for the direction of the corpus and the method (see `preset`).
        out: run directory; by default runs/CORPUS-METHOD-seedN.
        samplers: other samplers than the method's own, one per student: ["tau=1", "tau=5", "tau=inf"].
        resume: "auto" continues an interrupted run, with bit-identical results, and returns a finished one as it is, or
            prolongs it if steps, epochs, max_steps or patience allow more; "never" refuses a directory with a run.
        show: "bar", "lines", "dashboard" (in a notebook, a figure that grows), "off", or "auto" (a bar in a terminal or
            a notebook).
        score: translate and score the test sets at the end.
        use: finished runs for a method that learns from other runs (LSMD from an Auto-PMD run, chi-IBR from a tau=1
            run, Multi-Distill from bilingual ones). If it needs more runs, they are trained first, into out/auxiliary.
        tokenizer: directory of a trained tokenizer to share, or a sentencepiece model of your own (FILE.model) for all
            languages; by default the run trains its own. A run that began with another tokenizer is refused.
        init: models from which the students start, in this run and in its auxiliary runs, with a fresh optimiser: an
            imported checkpoint (`import_marian`), a run or an export for transformers (see `OwnStart`). "RUN:2" is its
            model_2 alone. Its tokenizer and the shape of its network replace those of the configuration; dropout and
            max_len stay. Languages of the corpus that a model of ours does not know join it (see `data.joining`).
        metrics: the test sets always get BLEU and chrF; "ter" adds TER, which is slow.
        on_event: called with each new line of metrics.jsonl, a dictionary, for TensorBoard and the like (docs/faq.md).
            What it raises ends the training; the same call continues it. Auxiliary runs do not call it.
        overrides: fields of the configuration by name: steps=300, dropout=0.2, fidelity="released".
    Raises: UserError if the request or the data is wrong; Interrupted after Ctrl-C.
    """
    corpus = corpus if isinstance(corpus, Corpus) else load_corpus(corpus)
    row = get_method(method, samplers)
    config = configured(preset_name, corpus.direction, row.name, overrides)
    given = given_tokenizer(place(tokenizer), corpus.pairs, config.tokenizer) if tokenizer is not None else None
    start = start_from(init) if init is not None else None
    if start is not None:
        config = start.configure(config, overrides)
        start.check(corpus.pairs, given)
    if resume not in ("auto", "never") or show not in get_args(Show):
        raise UserError(f"resume={resume!r}, show={show!r}: resume is auto or never, show {', '.join(get_args(Show))}")
    plain_name = re.sub(r"[^\w .,=+-]|^\.+", "_", corpus.name)  # a name in a file does not decide where we write
    path = place(out or f"runs/{plain_name}-{row.name}-seed{config.train.seed}")
    with explained(path), joined(config.train.device) as group, ExitStack() as lock:
        rundir = RunDir(path, writes=not group.rank)
        if not rundir.finished:  # any machine can return a finished run
            check_machine(config, group, len(row.samplers))  # before a file is written
            if score or decides_by_bleu(row.distiller, config):
                check_scorers(corpus.pairs, config.train.tokenize)
        shared = given or (start.tokenizer if start else None)
        with group.first():
            refuse_foreign(path)
            lock.enter_context(rundir.locked())
            config, asked = _divided(rundir, config, group)
            joins = start is not None and given is None and not {*corpus.pairs} <= {*start.tokenizer.pairs}
            about = describe(corpus, row, config, start, asked, None if joins else shared)
            only_scores = set() if decides_by_bleu(row.distiller, config) else {"tokenize"}
            open_run(rundir, about, "auto" if group.rank else resume, only_scores)  # rank 0 has just begun it
            check_tokenizer(rundir, corpus, config.tokenizer, shared)
        if not group.of_rank(0, rundir.finished):
            note = remark(preset_name, corpus.direction) if isinstance(preset_name, str) else ""
            _train(
                rundir, corpus, row, config, "off" if group.rank else show, use, shared, start, joins, note, on_event
            )
        run = Run(path)
        if score:
            _note_changes(corpus)
            if not group.of_rank(0, (run.path / "scores.json").exists()):
                run.evaluate(corpus, tokenize=config.train.tokenize, metrics=metrics)
            elif not group.rank and is_stale(run.scores, config.train.tokenize, metrics):
                run.rescore(corpus, config.train.tokenize, metrics)
    return run


def _note_changes(corpus: Corpus) -> None:
    """Warn, once, if a file of the corpus is no longer the one that was read."""
    if not current().rank and (changed := corpus.changed):
        warnings.warn(
            f"{changed[0]} has changed since this run read it. The run continues with the text that it read. "
            "Put that text back: on another one, the run can be neither resumed nor evaluated",
            stacklevel=2,
        )


def run_size() -> Literal["ci", "lesson"]:
    """How large a lesson runs: PMD_SIZE in the environment, "lesson" (default) or "ci". UserError for another value."""
    size = os.environ.get("PMD_SIZE", "lesson")
    if size not in ("ci", "lesson"):
        raise UserError(f"PMD_SIZE={size!r}: set it to ci (seconds, for tests) or lesson (minutes, for reading)")
    return "ci" if size == "ci" else "lesson"


def _divided(rundir: RunDir, config: Config, group: Group) -> tuple[Config, dict[str, int] | None]:
    """The configuration with the micro-batches of this run, or of a new one, and those asked for if they differ."""
    asked = {"tokens": config.train.tokens, "accumulate": config.train.accumulate}
    used, begun = config, (rundir.path / "config.json").exists()
    if not begun:
        used = divided(config, group.size)
    elif rundir.config.get("asked") == asked:
        portion = {name: rundir.config["config"]["train"][name] for name in asked}
        used = dataclasses.replace(config, train=dataclasses.replace(config.train, **portion))
    train = used.train
    if not group.rank and not rundir.finished:  # rank 0 comes first: for the others every run has begun
        if used != config:
            new = f"one micro-batch for each of {group.size} processes. The run keeps them, with any number of them"
            print(f"note: updates are of {train.accumulate} x {train.tokens:,} tokens, not {asked['accumulate']} x "
                  f"{asked['tokens']:,}: {'as this run was begun' if begun else new}", file=sys.stderr)  # fmt: skip
        elif group.size > train.accumulate and train.turns != "together":
            print(f"note: {group.size - train.accumulate} of {group.size} processes have no share of an update: this "
                  f"run was begun with {train.accumulate} micro-batches", file=sys.stderr)  # fmt: skip
    return used, asked if used != config else None


def _train(
    rundir: RunDir, corpus: Corpus, row: Method, config: Config, show: Show, use: Sequence[str | Path],
    shared: Tokenizer | None, start: Imported | None, joins: bool, note: str, on_event: OnEvent | None,
) -> None:  # fmt: skip
    group, begun = current(), Config.from_dict(rundir.config["config"])  # its length is the first that the run had
    with group.first():
        tokenizer = run_tokenizer(rundir, corpus, config.tokenizer, shared, joins)
        # Runs side by side share the ids of a large corpus on disk; encoding a small one again takes less time.
        cache = rundir.path.parent / "encoded" if sum(corpus.sizes) > LARGE else None
        encoded = encode_corpus(corpus, tokenizer, config.model.max_len, cache)
    wanted = auxiliary.wanted(row, corpus, begun, encoded, start.description["sha256"] if start else None)
    train_one = functools.partial(train, show=show, init=start.init if start else None)
    found = auxiliary.find_or_train(wanted, rundir.path, use, rundir.path / "tokenizer", train_one)
    with group.first():
        resources = auxiliary.resources(row, config, encoded, found, rundir.path / "teacher-topk")
    samplers = make_samplers(row.samplers, encoded.sizes, config, resources)
    distiller = make_distiller(row.distiller, row.options, config, resources)
    notes = [*([note] if note else []), *encoded.left_out]
    if start is not None:
        joined = tokenizer.vocab_size - start.tokenizer.vocab_size
        new = ", ".join(sorted({*tokenizer.languages} - {*start.tokenizer.languages}))
        notes.append(f"starts from {start.init} (weights only){f'; {new} joins with {joined} ids' if new else ''}")
        if new and {*row.samplers} == {"tau=1"}:
            notes.append(f"tau=1 seldom draws a small language, and {new} learns from its own sentences: see the next "
                         "lines, and try tau=5")  # fmt: skip
    redraw = None
    if show == "dashboard" and "IPython" in sys.modules:
        from pmd_lite.reports.dashboard import live

        redraw = live(rundir.path)
    trainer = Trainer(
        encoded, config, samplers, distiller, rundir, show, row.name, row.first_seat, notes, redraw=redraw,
        watch=functools.partial(_note_changes, corpus), begun=begun, on_event=on_event,
    )  # fmt: skip
    trainer.cost.multiply_adds["prepare"] = resources.prepared
    if start is not None:
        for student in trainer.students:
            load_weights(student.learner.model, start.weights(row.first_seat + student.index), joined)
    reason = trainer.run()
    rundir.finish(
        {"reason": reason, "step": trainer.clock.step, "seconds": trainer.seconds,
         "multiply_adds": dict(trainer.cost.multiply_adds),
         "parameters": trainer.students[0].learner.model.parameter_count()}
    )  # fmt: skip
    group.barrier()


def describe(
    corpus: Corpus, row: Method, config: Config, start: Imported | None = None, asked: dict[str, int] | None = None,
    tokenizer: Tokenizer | None = None,
) -> dict[str, Any]:  # fmt: skip
    """config.json of a run. asked: tokens and accumulate, where the run has others. tokenizer: one that is given."""
    about = {"name": corpus.name, "path": str(corpus.path) if corpus.path else None, "fingerprint": corpus.fingerprint,
             "source": corpus.source, "pairs": list(corpus.pairs), "sizes": corpus.sizes}  # fmt: skip
    whole = {"format": FORMAT, "method": row.name, "samplers": list(row.samplers), "corpus": about,
             "config": config.to_dict(), "init": start.description if start else None, "asked": asked,
             "tokenizer": tokenizer.fingerprint if tokenizer else None}  # fmt: skip
    return dict(json.loads(json.dumps(whole)))
