"""The data command: build a corpus directory, or look at one. Its docstring is the help text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from pmd_corpora.toy.world import WORLDS
from pmd_lite import api
from pmd_lite.data.corpus import write_corpus
from pmd_lite.errors import UserError

SCRIPTS = ("catalogs6", "tatoeba6", "tatoeba6-easy", "multi30k", "ted8", "ted8-related", "wmt6", "local")


def data(
    name: Annotated[Positional[str], arg(metavar="NAME")],
    inputs: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE ...")] = (),
    out: Path | None = None,
    seed: int = 0,
    direction: Literal["m2o", "o2m"] = "m2o",
    source: Path | None = None,
    scale: float = 1.0,
    pairs: tuple[str, ...] = (),
    html: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Build, or look at, a corpus directory.

    Works without network: longtail, toy, hard (invented languages), catalogs6 (six real languages from installed
    packages), local (your own parallel files: TSV, two plain files, gz, TMX, Moses zip). Downloads: tatoeba6,
    tatoeba6-easy (everyday sentences), multi30k (captions), ted8, ted8-related (talks), wmt6 (five million sentence
    pairs). And show, which describes a corpus directory. data_scripts/README.md says what is what.

    Args:
        name: longtail, toy, hard, catalogs6, tatoeba6, tatoeba6-easy, multi30k, ted8, ted8-related, wmt6, local, show.
        inputs: for local, files or a directory; for show, the corpus directory.
        out: the directory to write.
        seed: of what is drawn at random.
        direction: many into one, or one into many (a run can turn any corpus round, too).
        source: a folder or file that was downloaded before, instead of the network.
        scale: wmt6: this share of the full sizes, at least 1,000 pairs a language.
        pairs: local: language pairs to take from a TMX file or zip that holds several, such as fr-en.
        html: for show: also write the description as a page with figures.
        overwrite: replace another corpus in the directory.
    """
    if name == "show":
        if len(inputs) != 1:
            raise UserError("data show takes one corpus directory")
        _show(inputs[0], html)
        return
    if out is None:
        raise UserError(f"data {name} needs --out DIR, the directory to write")
    if name not in (*WORLDS, *SCRIPTS):
        raise UserError(f"no corpus {name!r}; there are {', '.join((*WORLDS, *SCRIPTS))}, and show")
    given = {"FILE": bool(inputs), "--direction": direction != "m2o", "--source": source is not None,
             "--scale": scale != 1, "--pairs": bool(pairs)}  # fmt: skip
    if unused := [word for word, is_given in given.items() if is_given and word not in _takes(name)]:
        raise UserError(f"data {name} takes no {', '.join(unused)}")
    if name in WORLDS:
        write_corpus(api.load_corpus(name, seed=seed, direction=direction), out, overwrite=overwrite)
    else:
        _builder(name, inputs, out, seed, direction, source, scale, pairs, overwrite)()
    _show(out, html)


def _takes(name: str) -> tuple[str, ...]:
    """The options, among those that only some corpora have, that this one has."""
    if name in WORLDS:
        return ("--direction",)
    if name.startswith(("tatoeba6", "ted8")):
        return ("--direction", "--source")
    return {"multi30k": ("--source",), "wmt6": ("--scale",), "local": ("FILE", "--pairs")}.get(name, ())


def _builder(
    name: str, inputs: tuple[Path, ...], out: Path, seed: int, direction: Literal["m2o", "o2m"], source: Path | None,
    scale: float, pairs: tuple[str, ...], overwrite: bool,
) -> Callable[[], object]:  # fmt: skip
    """The script that makes a corpus, with its arguments. Scripts are imported only when asked for."""
    if name == "catalogs6":
        from pmd_corpora import catalogs6

        return lambda: catalogs6.build(out, seed=seed, overwrite=overwrite)
    if name.startswith("tatoeba6"):
        from pmd_corpora import tatoeba6

        return lambda: tatoeba6.build(
            out, easy=name.endswith("easy"), source=source, direction=direction, seed=seed, overwrite=overwrite
        )
    if name == "multi30k":
        from pmd_corpora import multi30k

        return lambda: multi30k.build(out, source=source, seed=seed, overwrite=overwrite)
    if name.startswith("ted8"):
        from pmd_corpora import ted8

        which: Literal["diverse", "related"] = "related" if name.endswith("related") else "diverse"
        return lambda: ted8.build(out, which=which, direction=direction, source=source, seed=seed, overwrite=overwrite)
    if name == "wmt6":
        from pmd_corpora import wmt6

        return lambda: wmt6.build(out, seed=seed, overwrite=overwrite, scale=scale)
    from pmd_corpora import local

    return lambda: local.build(out, *inputs, pairs=pairs, seed=seed, overwrite=overwrite)


def _show(path: Path, html: Path | None) -> None:
    from pmd_lite.reports.datasheet import show_corpus

    show_corpus(path, html)
