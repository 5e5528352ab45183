"""load_corpus, train: what notebooks and the command line call."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from multiprocessing import connection
from pathlib import Path
from typing import Any, Literal

import torch

from pmd_lite.config import Config
from pmd_lite.data import corpus as corpora
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.data.toy import toy_corpus
from pmd_lite.data.toy_world import WORLDS
from pmd_lite.errors import UserError
from pmd_lite.methods import Method, get_method, make_samplers
from pmd_lite.presets import preset
from pmd_lite.run import Run
from pmd_lite.training.progress import Show
from pmd_lite.training.rundir import RunDir, write_json
from pmd_lite.training.trainer import Trainer


def load_corpus(
    name: str | Path = "longtail", *, direction: Literal["m2o", "o2m"] | None = None, seed: int = 0, **world: Any
) -> Corpus:
    """A corpus to train on.

    Args:
        name: a toy world ("toy", "hard", ...) or the directory of a corpus (a path with a separator or that exists).
        direction: turn the pairs round where needed: "o2m" trains English into many.
        seed, world: for a toy world, which one and which of its knobs to change.
    Raises: UserError that says what is wrong with the corpus, where, and what to do.
    """
    if str(name) in WORLDS:
        found = toy_corpus(str(name), seed=seed, direction=direction or "m2o", **world)
    else:
        if world:
            raise UserError(f"{', '.join(world)}: only a toy world has such knobs, and {name} is a corpus directory")
        if not Path(name).exists() and not any(c in str(name) for c in "/\\."):
            raise UserError(f"no corpus {str(name)!r}: give a directory, or a toy world ({', '.join(WORLDS)})")
        found = corpora.load_corpus(name)
    return found.reversed() if direction is not None and direction != found.direction else found


def train(
    corpus: Corpus | str | Path = "longtail",
    method: str = "auto-pmd",
    preset_name: str | Config = "toy",
    *,
    out: str | Path | None = None,
    samplers: Sequence[str] | None = None,
    resume: Literal["auto", "never"] = "auto",
    show: Show = "auto",
    score: bool = True,
    **overrides: Any,
) -> Run:
    """Train one method on one corpus; returns the finished run, scored on its test sets.

    Args:
        method: a name of the method table (`pmd_lite.METHODS`), or "tau=X".
        preset_name: "toy", "small", "ted8", "wmt6", or a whole Config.
        out: run directory; by default runs/CORPUS-METHOD-seedN.
        samplers: other samplers than the method's own, one per student: ["tau=1", "tau=5", "tau=inf"].
        resume: "auto" continues an interrupted run to the same bits and returns a finished one as it is; "never"
            refuses a directory that holds a run.
        show: "bar", "lines", "off", or "auto" (a bar in a terminal).
        score: translate and score the test sets at the end.
        overrides: fields of the configuration by name: steps=300, dropout=0.2, fidelity="released".
    Raises: UserError on anything that is wrong with the request or the data; Interrupted after Ctrl-C.
    """
    corpus = corpus if isinstance(corpus, Corpus) else load_corpus(corpus)
    config = preset(preset_name, **overrides) if isinstance(preset_name, str) else preset_name
    if overrides and not isinstance(preset_name, str):
        raise UserError(f"{', '.join(overrides)}: give a whole Config or overrides of a preset, not both")
    row = get_method(method, samplers)
    path = Path(out) if out is not None else Path("runs") / f"{corpus.name}-{row.name}-seed{config.train.seed}"
    rundir = RunDir(path)
    _refuse_foreign(path)
    with rundir.locked():
        _open(rundir, describe(corpus, row, config), resume)
        if not rundir.finished:
            _train(rundir, corpus, row, config, show)
        run = Run(path)
        if score and not (path / "scores.json").exists():
            run.evaluate(corpus)
    return run


def run_size() -> Literal["ci", "lesson"]:
    """How large a lesson runs: the environment variable PMD_SIZE, "lesson" by default, "ci" for a quick check.

    Raises UserError on another value.
    """
    size = os.environ.get("PMD_SIZE", "lesson")
    if size not in ("ci", "lesson"):
        raise UserError(f"PMD_SIZE={size!r}: set it to ci (seconds, for tests) or lesson (minutes, for reading)")
    return "ci" if size == "ci" else "lesson"


def train_side_by_side(jobs: Sequence[dict[str, Any]], workers: int = 2) -> list[Run]:
    """Several runs in processes of their own, one thread each; the same bits as one after another.

    Args:
        jobs: arguments of `train` for each run, `out` among them, with the corpus by name or path; `corpus_options` may
            hold those of `load_corpus`.
        workers: processes at a time; more than the machine's cores gains nothing.
    A small model leaves a second core idle, two small models do not. Raises the first UserError of any run.
    """
    spawn, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(workers, len(jobs)), spawn, _end_with_parent) as pool:
        futures = [pool.submit(_job, job) for job in jobs]
        try:
            _watch(futures, jobs)
        except BaseException:  # an error in one run, or Ctrl-C: do not wait for the others, they can be resumed
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
    return [Run(future.result()) for future in futures]


def _watch(futures: Sequence[Future[Path]], jobs: Sequence[dict[str, Any]]) -> None:
    """Print where every run stands until all are done; raises what a run raised."""
    pending = set(futures)
    while pending:
        pending = wait(pending, timeout=2, return_when=FIRST_EXCEPTION).not_done
        for done in set(futures) - pending:
            done.result()
        standing = [f"{job.get('method', 'auto-pmd')} {_standing(Path(job['out']))}" for job in jobs]
        print("\r" + " | ".join(standing), end="", flush=True)
    print()


def _end_with_parent() -> None:
    """A worker whose parent is gone stops at once; what it saved is whole."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        gone = parent.sentinel
        threading.Thread(target=lambda: (connection.wait([gone]), os._exit(1)), daemon=True).start()


def _standing(out: Path) -> str:
    """How far a run in another process is, from what it has written."""
    rundir = RunDir(out)
    if (out / "scores.json").exists():
        return "done"
    steps = [m["step"] for m in rundir.metrics()]
    return f"step {steps[-1]}" if steps else "..."


def _job(job: dict[str, Any]) -> Path:
    torch.set_num_threads(1)
    words = {"show": "off", **job}
    corpus = load_corpus(words.pop("corpus", "toy"), **words.pop("corpus_options", {}))
    return train(corpus, **words).path


def _train(rundir: RunDir, corpus: Corpus, row: Method, config: Config, show: Show) -> None:
    folder = rundir.path / "tokenizer"
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(folder)
    else:
        tokenizer = train_tokenizer(corpus, config.tokenizer)
        tokenizer.save(folder)
    encoded = encode_corpus(corpus, tokenizer, config.model.max_len)
    samplers = make_samplers(row, encoded.sizes, config.tau)
    trainer = Trainer(encoded, config, samplers, row.distiller, rundir, show, row.name, row.first_seat)
    reason = trainer.run()
    write_json(
        rundir.path / "finished.json", {"reason": reason, "step": trainer.clock.step, "seconds": trainer.seconds}
    )


def describe(corpus: Corpus, row: Method, config: Config) -> dict[str, Any]:
    """config.json of a run: what it takes to know whether two runs are the same experiment."""
    about = {"name": corpus.name, "path": str(corpus.path) if corpus.path else None, "fingerprint": corpus.fingerprint,
             "source": corpus.source, "pairs": list(corpus.pairs), "sizes": corpus.sizes}  # fmt: skip
    whole = {"method": row.name, "samplers": list(row.samplers), "corpus": about, "config": config.to_dict()}
    return dict(json.loads(json.dumps(whole)))


def _refuse_foreign(path: Path) -> None:
    """A directory that holds other things than a run is left alone."""
    there = {p.name for p in path.iterdir()} - {".lock"} if path.is_dir() else set()
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; choose another out directory")
    if there and "config.json" not in there:
        raise UserError(f"{path} is not empty and holds no run; choose another out directory")


def _open(rundir: RunDir, wanted: dict[str, Any], resume: str) -> None:
    """Make the run directory, or check that the run in it is the one asked for."""
    if not (rundir.path / "config.json").exists():
        write_json(rundir.path / "config.json", wanted)
        return
    if resume == "never":
        raise UserError(f"{rundir.path} holds a run already; choose another out directory, or resume=auto to go on")
    there = rundir.config
    there["corpus"]["path"] = wanted["corpus"]["path"]  # the same texts may lie elsewhere now
    differing = sorted(_differing(there, wanted))
    if differing:
        raise UserError(f"{rundir.path} holds another: {', '.join(differing[:5])} differ. Choose another directory, "
                        "or give the settings of its config.json to go on")  # fmt: skip


def _differing(a: Any, b: Any, where: str = "") -> list[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        return [
            name
            for key in a.keys() | b.keys()
            for name in _differing(a.get(key), b.get(key), f"{where}.{key}".lstrip("."))
        ]
    return [] if a == b else [where]
