"""Begin a run in a directory, or check that it holds the wanted run, with its tokenizer.

Ids have no meaning without a tokenizer, so it is part of the run. The files in RUN/tokenizer decide. config.json holds
their fingerprint: from the beginning if the run was given one, else from the moment when it has trained its own.
"""

import json
from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

from pmd_lite.config import Config, TokenizerConfig
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.joining import extended
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.disk import content, write_json
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Clock
from pmd_lite.training.rundir import LENGTH, RunDir


def unlike(tokenizer: Tokenizer, corpus: Corpus, config: TokenizerConfig) -> list[str]:
    """How a tokenizer differs from the one that `train_tokenizer` makes of this corpus, in words; [] if it does not."""
    theirs, ours, origin = asdict(tokenizer.config), asdict(config), tokenizer.origin
    reasons = [f"{name} is {theirs[name]} there and {ours[name]} here" for name in ours if theirs[name] != ours[name]]
    if origin.get("sha256") != corpus.fingerprint:
        reasons.append(f"it was trained on other texts ({origin.get('name')}) than {corpus.name}'s")
    return reasons


def given_tokenizer(path: Path, pairs: Sequence[str], config: TokenizerConfig) -> Tokenizer:
    """The tokenizer of a directory; of a file, a sentencepiece model of one's own, for all languages of these pairs.

    What such a model normalises is not decoded to the exact text. Of the config only `tags` counts. Raises UserError.
    """
    if not path.is_file():
        return Tokenizer.load(path)
    model = content(path)
    try:
        size = SentencePieceProcessor(model_proto=model).get_piece_size()
        origin = {"name": path.name, "sha256": sha256(model).hexdigest()}
        return Tokenizer(replace(config, kind="joint", vocab_size=size), pairs, {"joint": model}, origin)
    except (RuntimeError, UserError) as error:
        raise UserError(f"{path} is not a sentencepiece model ({error}). Give FILE.model, or a directory") from None


def own_tokenizer(rundir: RunDir) -> Tokenizer:
    """The tokenizer in RUN/tokenizer. Raises UserError unless it is whole, and the one that config.json names."""
    tokenizer = Tokenizer.load(rundir.path / "tokenizer")
    if rundir.config["tokenizer"] not in (None, tokenizer.fingerprint):
        raise UserError(f"{rundir.path / 'tokenizer/tokenizer.json'}: this is not the tokenizer that config.json "
                        "names. Copy the folder back from a backup, or choose another out directory")  # fmt: skip
    return tokenizer


def check_tokenizer(rundir: RunDir, corpus: Corpus, config: TokenizerConfig, shared: Tokenizer | None) -> None:
    """Raises UserError when the run in this directory was begun with a tokenizer other than the wanted one.

    shared: the wanted tokenizer; None: one that the run trains. A run that was killed before it had one takes any.
    """
    stored, folder = rundir.config["tokenizer"], rundir.path / "tokenizer"
    present = own_tokenizer(rundir) if (folder / "tokenizer.json").exists() else None
    begun_with = present.fingerprint if present else stored
    if begun_with is None:
        return
    remedy = "Choose another out directory, or give the tokenizer= that it was begun with"
    if shared is not None:
        extends = present.origin.get("extends") if present else None
        if shared.fingerprint not in (begun_with, extends):
            raise UserError(f"{rundir.path}: its tokenizer differs from the given one. {remedy}")
    elif reasons := unlike(present, corpus, config) if present else ["it was given with tokenizer="]:
        raise UserError(f"{rundir.path}: its tokenizer is not the one it would train without tokenizer=: "
                        f"{'; '.join(reasons)}. {remedy}")  # fmt: skip


def run_tokenizer(
    rundir: RunDir, corpus: Corpus, config: TokenizerConfig, shared: Tokenizer | None, joins: bool = False
) -> Tokenizer:
    """The run's tokenizer: the one it was begun with, else a copy of the shared one, else one trained now.

    joins: new pairs join the copy. Otherwise UserError when the shared one does not know all languages of the corpus.
    """
    folder = rundir.path / "tokenizer"
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(folder)
    elif shared is None:
        tokenizer = train_tokenizer(corpus, config)
        tokenizer.save(folder)
    else:
        tokenizer = extended(shared, corpus) if joins else shared
        if unknown := sorted(set(corpus.languages) - set(tokenizer.languages)):
            raise UserError(f"the given tokenizer does not know {', '.join(unknown)}; it was trained for "
                            f"{', '.join(tokenizer.pairs)}")  # fmt: skip
        tokenizer.save(folder)
    if (stored := rundir.config)["tokenizer"] is None:
        write_json(rundir.path / "config.json", {**stored, "tokenizer": tokenizer.fingerprint})
    return tokenizer


def refuse_foreign(path: Path) -> None:
    """Raises UserError for a file, and for a directory that holds other things than a run."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; choose another out directory")
    # A run that was killed at once leaves only these two.
    names = {p.name for p in path.iterdir()} - {".lock", "config.json.tmp"} if path.exists() else set()
    if names and "config.json" not in names:
        raise UserError(f"{path} is not empty and does not hold a run; choose another out directory")


def open_run(rundir: RunDir, wanted: dict[str, Any], resume: str, free: Set[str] = frozenset()) -> None:
    """Make the run directory, or check that it holds the wanted run. free: fields of train that may differ.

    A run that is wanted with another length is prolonged. Raises UserError when the directory holds another run, or one
    that may not be resumed.
    """
    if not (rundir.path / "config.json").exists():
        write_json(rundir.path / "config.json", wanted)
        return
    if resume == "never":
        raise UserError(f"{rundir.path} holds a run already; choose another out directory, or resume=auto to continue")
    stored = rundir.config
    settings = Config.from_dict(stored["config"]).to_dict()  # settings that an older version lacked get their defaults
    stored["config"] = json.loads(json.dumps(settings))
    for words in ("path", "source"):  # the same texts may have moved, and be described in other words,
        stored["corpus"][words] = wanted["corpus"][words]
    if stored["init"] and wanted["init"]:
        stored["init"]["path"] = wanted["init"]["path"]  # so may the same initial weights,
    longer = _prolonged(rundir, stored, wanted["config"])
    for name in {"device", "keep_last"} | free | longer.keys():
        stored["config"]["train"][name] = wanted["config"]["train"][name]  # and the run may move to another machine
    stored.pop("prolonged", None)
    stored |= {name: wanted[name] for name in ("asked", "tokenizer")}  # these have checks of their own
    differing = sorted(_differing(stored, wanted))
    if differing and set(differing) <= {"corpus.fingerprint", "corpus.sizes"}:
        raise UserError(f"{rundir.path} was begun on other texts of {wanted['corpus']['name']}: this corpus has "
                        "changed since. Put the old texts back, or choose another out directory")  # fmt: skip
    if differing:
        raise UserError(f"{rundir.path} holds another run: {', '.join(differing[:5])} differ. Choose another "
                        "directory, or give the settings of its config.json to continue")  # fmt: skip
    if longer not in ({}, rundir.config.get("prolonged")):
        for name in ("finished.json", "scores.json"):  # first: a run killed here is an unfinished one of the old length
            (rundir.path / name).unlink(missing_ok=True)
        write_json(rundir.path / "config.json", {**rundir.config, "prolonged": longer})


def _prolonged(rundir: RunDir, stored: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """{field of `LENGTH`: value} if a begun run is wanted with another length; else {}. UserError if it is too long."""
    first, longer = ({name: train[name] for name in LENGTH} for train in (stored["config"]["train"], wanted["train"]))
    if "prolonged" not in stored and longer == first:
        return {}
    if not (lines := rundir.lines("eval", len(stored["corpus"]["pairs"]))):
        return {}
    made, epoch = lines[-1]["step"], lines[-1]["epoch"]
    total = Clock.of(Config.from_dict(wanted), epoch * wanted["train"]["accumulate"], waits=False).total
    if total < made:
        raise UserError(f"{rundir.path} has made {made:,} updates and cannot become a run of {total:,}. Give more "
                        "steps or epochs, or choose another out directory")  # fmt: skip
    return longer


def _differing(a: Any, b: Any, where: str = "") -> list[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        return [name for key in a.keys() | b.keys()
                for name in _differing(a.get(key), b.get(key), f"{where}.{key}".lstrip("."))]  # fmt: skip
    return [] if a == b else [where]
