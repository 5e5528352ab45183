"""What `benchmarks.fuzz` makes its inputs from, and the kinds of inputs that need no more than three small runs."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

import pmd_lite as pmd
from benchmarks.mutations import ODD, TEXTS, cut, flip, spoil_json, strange
from pmd_corpora.writing import write_corpus
from pmd_lite.cli.arguments import main as command
from pmd_lite.config import Config
from pmd_lite.data.corpus import load_corpus
from pmd_lite.errors import UserError
from pmd_lite.run import Run
from pmd_lite.training.snapshot import differences
from pmd_lite.training.trainer import Trainer

WORLD: dict[str, Any] = {
    "head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1, "false_friends": 1
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn": 16, "max_len": 24, "vocab_size": 90,
    "steps": 4, "tokens": 160, "eval_every": 2, "update_every": 2, "lr": 5e-3, "warmup": 4, "beam": 1, "seed": 1,
    "start": 0.0, "device": "cpu",
}  # fmt: skip


class Silent(Exception):
    """An input was taken without a word, and the result is wrong."""


@dataclass
class Place:
    """What the inputs are made from: a corpus, a finished run, an interrupted one, and others beside it."""

    root: Path
    corpus: pmd.Corpus
    weights: list[dict[str, torch.Tensor]]
    seen: dict[str, Any]
    """What a reader sees of the finished run."""

    @classmethod
    def made(cls, root: Path) -> Place:
        """Train the runs."""
        write_corpus(pmd.load_corpus("toy", pairs=["fra-eng", "tur-eng"], **WORLD), root / "corpus")
        corpus = load_corpus(root / "corpus")
        others = {"run": {}, "seed": {"seed": 2}, "method": {"method": "uni-pmd"}, "rate": {"lr": 4e-3}}
        for name, words in others.items():
            for folder, stop in (("whole", 0), ("stopped", 3)):
                with stopped_at(stop):
                    train(corpus, root / folder / name, **words)
        with stopped_at(1):
            train(corpus, root / "stopped" / "step")
        run = Run(root / "whole" / "run")
        weights = [run.dir.load_weights(i, "latest") for i in (0, 1)]
        return cls(root, corpus, weights, reads(corpus, run.path))

    def prepared(self, name: str, make: Callable[[Path], object]) -> Path:
        """A folder that some kinds need; it is made when the first of them comes."""
        if not (self.root / name).exists():
            make(self.root / name)
        return self.root / name


def train(corpus: pmd.Corpus, out: Path, **words: Any) -> Run:
    """A run of four updates of two students."""
    return pmd.train(corpus, **{"method": "bi-pmd", "preset_name": "toy", "show": "off", **SETTINGS, **words}, out=out)


@contextlib.contextmanager
def stopped_at(step: int) -> Iterator[None]:
    """As if Ctrl-C were pressed at this update; 0: never."""
    real = Trainer.gradients

    def interrupted(self: Trainer, *args: Any) -> Any:
        self._asked = self._asked or self.clock.step == step
        return real(self, *args)

    Trainer.gradients = interrupted  # type: ignore[method-assign]
    try:
        yield
    except pmd.UserError:
        if not step:
            raise
    finally:
        Trainer.gradients = real  # type: ignore[method-assign]


# ---- kinds


def lines(place: Place, here: Path, chance: random.Random) -> None:
    """A corpus with a bad line, or with a cut or strange file."""
    shutil.copytree(place.root / "corpus", here / "c")
    (here / "c" / "corpus.json").unlink()
    path = chance.choice(sorted((here / "c").iterdir()))
    what = chance.randrange(6)
    if what < 4:
        rows = path.read_bytes().split(b"\n")
        rows[chance.randrange(len(rows))] = chance.choice(TEXTS)
        path.write_bytes(b"\n".join(rows))
    else:
        (cut if what == 4 else chance.choice([flip, strange]))(path, chance)
    load_corpus(here / "c", strict=chance.random() < 0.5)


def corpus(place: Place, here: Path, chance: random.Random) -> None:
    """A corpus with a wrong corpus.json; a name in it must not lead out of the place for runs."""
    shutil.copytree(place.root / "corpus", here / "c")
    spoil_json(here / "c" / "corpus.json", chance)
    load_corpus(here / "c")


def options(place: Place, here: Path, chance: random.Random) -> None:
    """A field of the configuration, a word of the command line, or an argument of a method."""
    homes = [(section.name, field.name) for section in fields(Config) if section.name != "tau"
             for field in fields(getattr(Config(), section.name))]  # fmt: skip
    what, value, (section, name) = chance.randrange(6), chance.choice(ODD), chance.choice(homes)
    run = Run(place.root / "whole" / "run")
    if what < 3:
        pmd.preset(chance.choice(["toy", "small", "ted8", "wmt6"]), **{f"{section}.{name}": value})
    elif what == 3:
        option = f"--{'tokenizer.' if section == 'tokenizer' else ''}{name.replace('_', '-')}"
        values = [str(value).replace("\0", "")] if not isinstance(value, (list, dict)) else []
        commanded(["train", "-m", "no-method", "--out", str(here / "r"), option, *values])  # a good value: method error
    elif what == 4:
        calls: Sequence[Callable[[], object]] = (
            lambda: run.translate(["a"], "fra-eng", value), lambda: run.translate(["a"], "fra-eng", beam=value),
            lambda: run.translate(["a"], value), lambda: run.bleu(value), lambda: run.curve("p", value),
            lambda: run.curve(value), lambda: run.translations("fra-eng", value), lambda: run.model(value),
            lambda: pmd.preset(value), lambda: pmd.preset("toy", **{str(value): 1}), lambda: Config.from_dict(value),
            lambda: pmd.load_corpus("toy", **{chance.choice(list(WORLD)): value}),
            lambda: pmd.load_corpus(str(value).replace("\0", "")), lambda: pmd.load_corpus("toy", seed=value),
            lambda: pmd.estimate(place.corpus, "tau=1", seconds=value, **SETTINGS) if value not in (1, True) else None,
            lambda: pmd.estimate(place.corpus, "tau=1", tokens_per_second=value or 9, **SETTINGS),
            lambda: pmd.estimate(place.corpus, "tau=1", processes=value, tokens_per_second=9, **SETTINGS),
        )  # fmt: skip
        chance.choice(calls)()
    else:
        word = str(value).replace("\0", "")
        commanded(chance.choice([
            ["show", word], ["translate", word, "--pair", "fra-eng"], ["translate", str(run.path), "--pair", word],
            ["translate", str(run.path), "--pair", "fra-eng", "--file", word], ["data", "show", word],
            ["methods", word], ["evaluate", str(run.path), "--corpus", word],
            ["export", str(run.path), "--to", "hf", "--out", "/dev/null/x"],
            ["train", "-m", word], ["train", "-p", word], ["estimate", "--sizes", word], ["methods", word, "tau=1"],
            ["train", "--samplers", word], ["import", word, "--out", str(here / "i"), "--pairs", "fra-eng"],
        ]))  # fmt: skip


def commanded(words: list[str]) -> None:
    """One command in this process; its error becomes a UserError, what the parser refuses too."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            status = command(words)
        except SystemExit as end:
            status = int(end.code or 0)
    if status:  # the parser repeats the words of the shell, and stderr writes escapes for what it cannot encode
        raise UserError(said.getvalue().strip().encode("utf-8", "backslashreplace").decode() or "no message")


def reads(corpus: pmd.Corpus, path: Path) -> dict[str, Any]:
    """All that can be read of a finished run, in short."""
    run = Run(path)
    repr(run), run.compute
    seen: dict[str, Any] = {"table": run.table().to_text(), "passes": run.passes, "end": dict(run.finished)}
    for student in (0, 1):
        seen[f"of {student}"] = [run.best_dev_loss(student), run.curve("p", student), run.curve("dev_loss", student),
                                 run.searches(student), run.point(student), run.bleu(student)]  # fmt: skip
    seen["translated"] = run.translate(["a b"], run.pairs[0])
    seen["scores"] = run.rescore(corpus)
    return seen


def reads_alike(place: Place, path: Path, changed: Path) -> None:
    """Read a finished run; what is seen must be what was there before `changed` was changed.

    Nothing knows what stands in translations/. config.json may ask for another search.
    """
    seen, free = reads(place.corpus, path), set()
    if "translations" in changed.parts:
        free = {"scores"}
    elif changed.name == "config.json":
        free = {"translated"}
    if other := [name for name in seen if name not in free and seen[name] != place.seen[name]]:
        raise Silent(f"another {', '.join(other)} after a change of {changed}")


def json_files(place: Place, here: Path, chance: random.Random) -> None:
    """A finished run with a wrong JSON file."""
    path = Path(shutil.copytree(place.root / "whole" / "run", here / "r"))
    names = ["config.json", "metrics.jsonl", "scores.json", "finished.json", "tokenizer/tokenizer.json"]
    name = chance.choice(names)
    spoil_json(path / name, chance)
    reads_alike(place, path, Path(name))


def any_bytes(place: Place, here: Path, chance: random.Random) -> None:
    """A finished run with one wrong bit, or a cut file."""
    path = Path(shutil.copytree(place.root / "whole" / "run", here / "r"))
    file = chance.choice(sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".lock"))
    chance.choice([cut, cut, flip, flip, flip, strange])(file, chance)
    reads_alike(place, path, file.relative_to(path))


def swaps(place: Place, here: Path, chance: random.Random) -> None:
    """An interrupted run with a file of another run, student or step, or a cut one; then it continues."""
    path = Path(shutil.copytree(place.root / "stopped" / "run", here / "r"))
    file = chance.choice(sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".lock"))
    what = chance.randrange(4)
    other = place.root / chance.choice(["stopped", "whole"]) / chance.choice(["run", "seed", "method", "rate"])
    if chance.random() < 0.2:
        other = place.root / "stopped" / "step"
    if what < 2 and (same := sorted(other.rglob(file.name))):
        shutil.copy(chance.choice(same), file)
    elif what == 2 and file.suffix in (".json", ".jsonl"):
        spoil_json(file, chance)
    else:
        chance.choice([cut, flip, strange, lambda p, _: p.unlink()])(file, chance)
    run = train(place.corpus, path)
    for student, whole in enumerate(place.weights):
        if list(differences(run.dir.load_weights(student, "latest"), whole)):
            raise Silent(f"model_{student + 1} ends in other weights after a change of {file.relative_to(path)}")
    run.table()
