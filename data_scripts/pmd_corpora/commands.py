"""The command data: `python -m pmd_lite data NAME ...`.

The options of a corpus are the arguments of its `build`, here and in `python -m pmd_corpora.NAME`; its docstring is the
help text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tyro
from tyro.conf import Positional

PROGRAM = "python -m pmd_lite data"
ABOUT = """Build a corpus directory, or describe one.

These work without network: longtail, toy, hard (invented languages), catalogs6 (six real languages from installed
packages), local (your own parallel files). These download: tatoeba6, tatoeba6-easy (everyday sentences), multi30k
(captions), ted8, ted8-related (talks), wmt6 (five million sentence pairs), hub (a data set of the Hugging Face Hub,
by its name), mtdata (whatever mtdata knows: OPUS, Statmt, Tatoeba, ...). taught makes a corpus of a corpus: a teacher
such as NLLB writes the training targets. And `show` describes a corpus directory.
data_scripts/README.md explains every name; `NAME --help` lists its options.
"""


def listed() -> None:
    """Build a corpus directory, or describe one: `data --help` lists the corpora, `data NAME --help` their options."""


def show(corpus: Positional[Path], html: Path | None = None) -> None:
    """Describe a corpus directory: sizes, lengths, vocabulary, overlaps.

    Args:
        corpus: the directory.
        html: also write the description as a page with figures.
    """
    from pmd_corpora.datasheet import show_corpus

    show_corpus(corpus, html)


def toy(
    world: str, out: Path, *, seed: int = 0, direction: Literal["m2o", "o2m"] = "m2o", overwrite: bool = False
) -> Path:
    """Invented languages, for quick experiments; nothing is downloaded.

    Args:
        out: the directory to write.
        seed: seed of all words and sentences.
        direction: many into one, or one into many (a run can also swap the sides of any corpus).
        overwrite: replace another corpus in the directory.
    """
    from pmd_corpora.toy import toy_corpus
    from pmd_corpora.writing import write_corpus

    return write_corpus(toy_corpus(world, seed=seed, direction=direction), out, overwrite=overwrite)


def table() -> dict[str, Callable[..., Path]]:
    """Name of a corpus: what builds it."""
    from pmd_corpora import catalogs6, hub, local, mtdata, multi30k, tatoeba6, taught, ted8, wmt6
    from pmd_corpora.toy.world import WORLDS

    return {
        **{world: partial(toy, world) for world in ("longtail", *WORLDS)},
        "catalogs6": catalogs6.build,
        "tatoeba6": tatoeba6.build, "tatoeba6-easy": partial(tatoeba6.build, easy=True),
        "multi30k": multi30k.build,
        "ted8": ted8.build, "ted8-related": partial(ted8.build, which="related"),
        "wmt6": wmt6.build,
        "local": local.build, "hub": hub.build, "mtdata": mtdata.build, "taught": taught.build,
    }  # fmt: skip


def data(words: Sequence[str]) -> None:
    """Build the corpus that the words name, and describe it. Raises UserError, or SystemExit after help or a typo."""
    commands: dict[str, Callable[..., Any]] = {**table(), "show": show}
    if words and words[0] in commands:  # then a typo is compared with the options of this corpus alone
        written = tyro.cli(commands[words[0]], prog=f"{PROGRAM} {words[0]}", args=words[1:])
    else:
        written = tyro.extras.subcommand_cli_from_dict(commands, prog=PROGRAM, description=ABOUT, args=list(words))
    if written is not None:
        show(written)
