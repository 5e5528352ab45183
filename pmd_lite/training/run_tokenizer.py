"""Which tokenizer a run has: ids mean nothing without it, so it is part of what a run is.

The files in RUN/tokenizer are the truth. config.json holds their fingerprint, from the beginning where a tokenizer was
handed over; a run that trains its own enters it as soon as there is one.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pmd_lite.config import TokenizerConfig
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.training.rundir import RunDir


def unlike(tokenizer: Tokenizer, corpus: Corpus, config: TokenizerConfig) -> list[str]:
    """What keeps a tokenizer from being the one that `train_tokenizer` makes of this corpus, in words; [] if it is."""
    theirs, ours, origin = asdict(tokenizer.config), asdict(config), tokenizer.origin
    found = [f"{name} is {theirs[name]} there and {ours[name]} here" for name in ours if theirs[name] != ours[name]]
    if origin.get("sha256") != corpus.fingerprint:
        found.append(f"it was trained on other texts ({origin.get('name')}) than {corpus.name}'s")
    return found


def check_tokenizer(rundir: RunDir, corpus: Corpus, config: TokenizerConfig, shared: Path | None) -> None:
    """Raises UserError when the run in this directory was begun with another tokenizer than it is to have now.

    shared: the one it is to have; None: its own. A run that was killed before it had one takes any.
    """
    about, folder = rundir.config, rundir.path / "tokenizer"
    there = Tokenizer.load(folder) if (folder / "tokenizer.json").exists() else None
    begun_with = there.fingerprint if there else about.get("tokenizer")
    if begun_with is None:
        return
    remedy = "Choose another out directory, or give the tokenizer= that it was begun with"
    if shared is not None:
        if Tokenizer.load(shared).fingerprint != begun_with:
            raise UserError(f"{rundir.path}: its tokenizer differs from {shared}. {remedy}")
    elif about.get("tokenizer") is not None:  # older runs do not say whose it was: what lies there holds
        why = unlike(there, corpus, config) if there else ["it was handed over"]
        if why:
            raise UserError(f"{rundir.path}: its tokenizer differs from its own, which it would train without "
                            f"tokenizer=: {'; '.join(why)}. {remedy}")  # fmt: skip


def run_tokenizer(rundir: RunDir, corpus: Corpus, config: TokenizerConfig, shared: Path | None) -> Tokenizer:
    """The run's tokenizer: the one it was begun with, else a copy of a shared one, else one trained now.

    Raises UserError when the shared one does not know the pairs.
    """
    folder = rundir.path / "tokenizer"
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(folder)
    elif shared is None:
        tokenizer = train_tokenizer(corpus, config)
        tokenizer.save(folder)
    else:
        tokenizer = Tokenizer.load(shared)
        unknown = sorted(set(corpus.languages) - set(tokenizer.languages))
        if unknown:
            raise UserError(f"{shared}: this tokenizer does not know {', '.join(unknown)}; it was trained for "
                            f"{', '.join(tokenizer.pairs)}")  # fmt: skip
        tokenizer.save(folder)
    about = rundir.config
    if "tokenizer" in about and about["tokenizer"] is None:
        write_json(rundir.path / "config.json", {**about, "tokenizer": tokenizer.fingerprint})
    return tokenizer
