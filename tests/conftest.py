"""Shared pieces: a corpus so small that training takes a moment, and trainers over it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from pmd_corpora.toy import toy_corpus
from pmd_lite.config import Config, preset
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.errors import Interrupted
from pmd_lite.exchange.marian import Imported, import_marian
from pmd_lite.methods import Resources, get_method, make_distiller, make_samplers
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.trainer import Trainer

# One thread here and in every process that a test starts: the same bits whatever else the machine is doing, and as many
# processes at a time as there are cores.
torch.set_num_threads(1)
os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
# With nbformat comes jsonschema, which reads the grammar of internationalized addresses: three seconds. No notebook has
# a field in that format, and jsonschema does without it where the package is missing.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Other examples in every run: half of Hypothesis's hundred, where a test does not say how many.
hypothesis.settings.register_profile("suite", max_examples=50)
hypothesis.settings.load_profile("suite")

TINY: dict[str, Any] = {
    "d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 32, "dropout": 0.2, "max_len": 64,
    "vocab_size": 90, "steps": 12, "tokens": 160, "eval_every": 4, "lr": 5e-3, "warmup": 4, "beam": 1,
    "update_every": 4, "start": 0.0,
}  # fmt: skip
SHORT: dict[str, Any] = {**TINY, "vocab_size": 300, "max_len": 32}
"""Pieces of several letters: sentences of at most 29. A model translates up to `max_len` before it has learnt to stop,
so this halves what scoring costs."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there now stays to the end: the garbage collector need not look at it again, a tenth of the time.

    It looks at new objects less often, too: models are many small ones, few of them in circles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the seed of the tests' order, different each time; `pytest -p randomly --randomly-seed=N` repeats it."""
    seed = getattr(config.option, "randomly_seed", None)
    if seed is not None:
        terminalreporter.write_line(f"order of the tests: --randomly-seed={seed}")


@pytest.fixture(scope="session")
def tiny_corpus() -> Corpus:
    """Six invented languages, 60 to 10 training pairs."""
    return toy_corpus("toy", head=60, minimum=10, held=6, nouns=10, verbs=4, adjectives=3, homonyms=1, false_friends=1)


@pytest.fixture(scope="session")
def tiny_encoded(tiny_corpus: Corpus) -> EncodedCorpus:
    config = preset("toy", **TINY)
    return encode_corpus(tiny_corpus, train_tokenizer(tiny_corpus, config.tokenizer), config.model.max_len)


@pytest.fixture(scope="session")
def three_pairs(tiny_corpus: Corpus) -> Corpus:
    """The pairs for which the Marian checkpoint below was made."""
    return tiny_corpus.only(list(tiny_corpus.pairs)[:3])


@pytest.fixture(scope="session")
def short_encoded(three_pairs: Corpus) -> EncodedCorpus:
    """The three pairs in short sentences: a run that searches or translates takes a third of the time."""
    config = preset("toy", **SHORT)
    return encode_corpus(three_pairs, train_tokenizer(three_pairs, config.tokenizer), config.model.max_len)


@pytest.fixture(scope="session")
def one_target(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian checkpoint in the format of Hugging Face that translates into one language."""
    from tests.marian_files import checkpoint

    return checkpoint(tmp_path_factory.mktemp("marian") / "opus", three_pairs)


@pytest.fixture(scope="session")
def imported(one_target: Path, three_pairs: Corpus) -> Imported:
    """The same, imported."""
    return import_marian(one_target, one_target.parent / "imported", three_pairs.pairs)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | None]:
    """A program to start in place of Python, which has imported what a run needs; None where there is none."""
    if sys.platform != "linux":
        yield None
        return
    from tests.warm_python import warm_python

    with warm_python(tmp_path_factory.mktemp("warm"), os.environ) as program:
        yield program


@contextmanager
def forked_processes() -> Iterator[None]:
    """Processes that the library spawns in the block are forks of one that has imported what a run needs.

    A spawned one takes five seconds of a core to import it. On Windows nothing forks, and they are spawned.
    """
    real = multiprocessing.get_context
    with pytest.MonkeyPatch.context() as patched:
        if sys.platform != "win32":
            from multiprocessing import forkserver

            forkserver.set_forkserver_preload(["pmd_lite.api"])
            forkserver.ensure_running()
            patched.setattr(
                multiprocessing, "get_context", lambda method=None: real("forkserver" if method == "spawn" else method)
            )
        yield


@pytest.fixture
def forked() -> Iterator[None]:
    """`forked_processes` for a whole test."""
    with forked_processes():
        yield


MakeTrainer = Callable[..., Trainer]


@contextmanager
def stopped_at(step: int) -> Iterator[None]:
    """Raise as Ctrl-C would, once, in this step of the run that the block makes."""
    gradients = Trainer.gradients

    def interrupted(self: Trainer, *args: Any) -> Any:
        self._asked = self._asked or self.clock.step == step
        return gradients(self, *args)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(Trainer, "gradients", interrupted)
        yield


def trainers(encoded: EncodedCorpus, place: Path, defaults: dict[str, Any]) -> MakeTrainer:
    """make("auto-pmd", steps=8, ...) -> a Trainer over these data, in a directory of its own in `place`."""
    count = 0

    def make(
        method: str = "auto-pmd",
        *,
        path: Path | None = None,
        samplers: list[str] | None = None,
        found: Resources | None = None,
        **overrides: Any,
    ) -> Trainer:
        nonlocal count
        count += 1
        config: Config = preset("toy", **{**defaults, **overrides})
        row = get_method(method, samplers)
        rundir = RunDir(path or place / f"run{count}")
        rundir.path.mkdir(parents=True, exist_ok=True)
        samplers_made = make_samplers(row.samplers, encoded.sizes, config, found)
        distiller = make_distiller(row.distiller, row.options, config, found)
        return Trainer(encoded, config, samplers_made, distiller, rundir, "off", first_seat=row.first_seat)

    return make


@pytest.fixture
def make_trainer(tiny_encoded: EncodedCorpus, tmp_path: Path) -> MakeTrainer:
    """A maker of trainers over all six pairs."""
    return trainers(tiny_encoded, tmp_path, TINY)


@pytest.fixture
def make_short(short_encoded: EncodedCorpus, tmp_path: Path) -> MakeTrainer:
    """A maker of trainers over three pairs of short sentences."""
    return trainers(short_encoded, tmp_path, SHORT)
