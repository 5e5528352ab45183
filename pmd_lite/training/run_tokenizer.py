"""The tokenizer of a run. Ids have no meaning without it, so it is part of the run.

The files in RUN/tokenizer decide. config.json holds their fingerprint: from the beginning if the run was given a
tokenizer, else from the moment when it has trained its own.
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
    """How a tokenizer differs from the one that `train_tokenizer` makes of this corpus, in words; [] if it does not."""
    theirs, ours, origin = asdict(tokenizer.config), asdict(config), tokenizer.origin
    reasons = [f"{name} is {theirs[name]} there and {ours[name]} here" for name in ours if theirs[name] != ours[name]]
    if origin.get("sha256") != corpus.fingerprint:
        reasons.append(f"it was trained on other texts ({origin.get('name')}) than {corpus.name}'s")
    return reasons


def check_tokenizer(rundir: RunDir, corpus: Corpus, config: TokenizerConfig, shared: Path | None) -> None:
    """Raises UserError when the run in this directory was begun with a tokenizer other than the wanted one.

    shared: the wanted tokenizer; None: one that the run trains itself. A run that was killed before it had a tokenizer
    takes any.
    """
    stored, folder = rundir.config.get("tokenizer"), rundir.path / "tokenizer"
    present = Tokenizer.load(folder) if (folder / "tokenizer.json").exists() else None
    begun_with = present.fingerprint if present else stored
    if begun_with is None:
        return
    if stored and present and present.fingerprint != stored:
        raise UserError(f"{folder / 'tokenizer.json'}: this is not the tokenizer that config.json names. Copy the "
                        "folder back from a backup, or choose another out directory")  # fmt: skip
    remedy = "Choose another out directory, or give the tokenizer= that it was begun with"
    if shared is not None:
        if Tokenizer.load(shared).fingerprint != begun_with:
            raise UserError(f"{rundir.path}: its tokenizer differs from {shared}. {remedy}")
    elif stored is not None:  # config.json of an older run holds no fingerprint: then its files decide
        reasons = unlike(present, corpus, config) if present else ["it was given with tokenizer="]
        if reasons:
            raise UserError(f"{rundir.path}: its tokenizer differs from its own, which it would train without "
                            f"tokenizer=: {'; '.join(reasons)}. {remedy}")  # fmt: skip


def run_tokenizer(rundir: RunDir, corpus: Corpus, config: TokenizerConfig, shared: Path | None) -> Tokenizer:
    """The run's tokenizer: the one it was begun with, else a copy of the shared one, else one trained now.

    Raises UserError when the shared one does not know all languages of the corpus.
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
    stored = rundir.config
    if "tokenizer" in stored and stored["tokenizer"] is None:
        write_json(rundir.path / "config.json", {**stored, "tokenizer": tokenizer.fingerprint})
    return tokenizer
