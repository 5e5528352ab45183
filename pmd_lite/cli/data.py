"""The data command: build a corpus directory, or describe one. Its docstring is the help text."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from pmd_corpora import catalogs6, local, multi30k, tatoeba6, ted8, wmt6
from pmd_corpora.toy.world import WORLDS
from pmd_lite import api
from pmd_lite.data.corpus import write_corpus
from pmd_lite.errors import UserError

_TURNED = ("direction", "source")
SCRIPTS: dict[str, tuple[Callable[..., object], tuple[str, ...]]] = {
    "catalogs6": (catalogs6.build, ()),
    "tatoeba6": (tatoeba6.build, _TURNED),
    "tatoeba6-easy": (partial(tatoeba6.build, easy=True), _TURNED),
    "multi30k": (multi30k.build, ("source",)),
    "ted8": (ted8.build, _TURNED),
    "ted8-related": (partial(ted8.build, which="related"), _TURNED),
    "wmt6": (wmt6.build, ("scale",)),
    "local": (local.build, ("FILE", "pairs")),
}
"""Name of a corpus: what builds it, and the options that it takes beside --out, --seed and --overwrite."""


def data(
    name: Annotated[Positional[str], arg(metavar="NAME")],
    inputs: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE ...")] = (), out: Path | None = None,
    seed: int = 0, direction: Literal["m2o", "o2m"] = "m2o", source: Path | None = None, scale: float = 1.0,
    pairs: tuple[str, ...] = (), html: Path | None = None, overwrite: bool = False,
) -> None:  # fmt: skip
    """Build a corpus directory, or describe one.

    These work without network: longtail, toy, hard (invented languages), catalogs6 (six real languages from installed
    packages), local (your own parallel files: TSV, two plain files, gz, TMX, Moses zip). These download: tatoeba6,
    tatoeba6-easy (everyday sentences), multi30k (captions), ted8, ted8-related (talks), wmt6 (five million sentence
    pairs). And `show` describes a corpus directory. data_scripts/README.md explains every name.

    Args:
        name: longtail, toy, hard, catalogs6, tatoeba6, tatoeba6-easy, multi30k, ted8, ted8-related, wmt6, local, show.
        inputs: for local, files or a directory; for show, the corpus directory.
        out: the directory to write.
        seed: seed of all random choices.
        direction: many into one, or one into many (a run can also swap the sides of any corpus).
        source: use this downloaded folder or file instead of the network.
        scale: for wmt6: this share of the full sizes, at least 1,000 pairs for each language.
        pairs: for local: language pairs to take from a TMX file or zip that holds several, such as fr-en.
        html: for show: also write the description as a page with figures.
        overwrite: replace another corpus in the directory.
    """
    if name == "show":
        if len(inputs) != 1:
            raise UserError("data show takes exactly one corpus directory")
        _show(inputs[0], html)
        return
    if out is None:
        raise UserError(f"data {name} needs --out DIR, the directory to write")
    if name not in (*WORLDS, *SCRIPTS):
        raise UserError(f"no corpus is called {name!r}; choose one of {', '.join((*WORLDS, *SCRIPTS))}, or show")
    build, takes = SCRIPTS.get(name, (None, ("direction",)))  # a toy world otherwise
    words = {"direction": direction, "source": source, "scale": scale, "pairs": pairs}
    given = {"FILE": bool(inputs), "direction": direction != "m2o", "source": source is not None, "scale": scale != 1,
             "pairs": bool(pairs)}  # fmt: skip
    if unused := [word for word, is_given in given.items() if is_given and word not in takes]:
        options = ", ".join(word if word == "FILE" else f"--{word}" for word in unused)
        raise UserError(f"data {name} does not take {options}")
    if build is None:
        write_corpus(api.load_corpus(name, seed=seed, direction=direction), out, overwrite=overwrite)
    else:
        taken = {word: value for word, value in words.items() if word in takes}
        build(out, *inputs, seed=seed, overwrite=overwrite, **taken)
    _show(out, html)


def _show(path: Path, html: Path | None) -> None:
    from pmd_corpora.datasheet import show_corpus

    show_corpus(path, html)
