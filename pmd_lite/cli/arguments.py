"""The command line: python -m pmd_lite train | estimate | compare | translate | evaluate | export | show | ...

Nothing here or in commands.py imports torch before a command needs it: help comes at once.
"""

import os
import re
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import tyro
from tyro.conf import arg

from pmd_corpora import commands as corpora
from pmd_lite import config
from pmd_lite.cli import commands
from pmd_lite.cli.lessons import lessons
from pmd_lite.disk import CONTROL, plain
from pmd_lite.errors import Interrupted, UserError
from pmd_lite.planning import MEAN_TOKENS

if TYPE_CHECKING:
    from pmd_lite.data.corpus import Corpus

if lines := getattr(tyro._strings, "remove_single_line_breaks", None):  # a field's indented line is not a paragraph
    vars(tyro._strings)["remove_single_line_breaks"] = lambda text: lines(re.sub(r"\n {4}(?=\S)", " ", text))

Words = tuple[str, ...]
ABOUT = """Pareto Mutual Distillation for multilingual translation.

First steps:  python -m pmd_lite train                      Auto-PMD on the toy languages, a few minutes
              python -m pmd_lite train --method tau=1       one plain model
              python -m pmd_lite estimate --preset small    what a run would take here: hours, memory, disk
              python -m pmd_lite show runs/*                the scores side by side
              python -m pmd_lite methods                    every baseline and variant
              python -m pmd_lite data local FILE ... --out DIR   a corpus of your own text
              python -m pmd_lite compare --methods tau=1 tau=5 lssd auto-pmd --seeds 1 2
"""


@dataclass(frozen=True)
class RunArguments:
    """What defines a run: its corpus, its method and every field of its configuration."""

    corpus: Annotated[str, arg(aliases=["-c"])] = "longtail"
    """A toy world (longtail, toy, hard) or the directory of a corpus."""
    method: Annotated[str, arg(aliases=["-m"])] = "auto-pmd"
    """A method that `python -m pmd_lite methods` lists, or tau=X."""
    preset: Annotated[str, arg(aliases=["-p"])] = "toy"
    """toy, small, ted8 or wmt6: the defaults of all options below. In ted8 and wmt6 some of them depend on the
    direction of the corpus, the method and --fidelity; this help shows those of auto-pmd into English."""
    direction: Literal["m2o", "o2m"] | None = None
    """Swap the sides of the pairs if needed: many into one, or one into many."""
    strict: bool = True
    """Refuse a corpus with an unsound line; --no-strict leaves such lines out."""
    samplers: Words = ()
    """Other samplers than the method's own, one per student: tau=1 tau=5 tau=inf makes three students."""
    tau: float = 5.0
    """Temperature of the student that favours small languages."""
    init: Path | None = None
    """Students start from this: a run (RUN, or RUN:2 for its model_2 alone), an export of one for transformers, or a
    checkpoint of `import`. It brings its tokenizer and the shape of its network. New languages of the corpus join."""
    train: Annotated[config.TrainConfig, arg(name="")] = config.TrainConfig()
    distill: Annotated[config.DistillConfig, arg(name="")] = config.DistillConfig()
    sampling: Annotated[config.SamplingConfig, arg(name="")] = config.SamplingConfig()
    teacher: Annotated[config.TeacherConfig, arg(name="")] = config.TeacherConfig()
    optim: Annotated[config.OptimConfig, arg(name="")] = config.OptimConfig()
    model: Annotated[config.ModelConfig, arg(name="")] = config.ModelConfig()
    tokenizer: config.TokenizerConfig = config.TokenizerConfig()
    named: Annotated[tuple[str, ...], tyro.conf.Suppress] = ()
    """Options that the command line names: they override a preset even if they have its value."""

    @classmethod
    def of_preset(cls, name: str, named: tuple[str, ...] = ()) -> Self:
        """Arguments whose defaults are a preset's."""
        return cls(preset=name, named=named, **vars(config.preset(name)))

    @property
    def overrides(self) -> dict[str, Any]:
        """{full name: value} of all that the arguments change in their preset, such as train.steps."""
        changed = {}
        for section, default in vars(config.preset(self.preset)).items():
            mine = getattr(self, section)
            parts = vars(mine) if section != "tau" else {"": mine}
            for part, value in parts.items():
                before = getattr(default, part) if part else default
                # options of the tokenizer have the name of their section (--tokenizer.tau), the others do not
                option = f"{section}.{part}" if section == "tokenizer" else part or section
                if value != before or option in self.named:
                    changed[f"{section}.{part}" if part else section] = value
        return changed

    def load(self) -> "Corpus":
        """The corpus; warnings of its checks go to stderr."""
        from pmd_lite import api

        corpus = api.load_corpus(self.corpus, direction=self.direction, strict=self.strict)
        for warning in corpus.warnings:
            print(f"note: {warning}", file=sys.stderr)
        return corpus


@dataclass(frozen=True)
class TrainArguments(RunArguments):
    """Train one method on one corpus, then translate and score its test sets."""

    out: Path | None = None
    """Run directory; by default runs/CORPUS-METHOD-seedN. If it has an unfinished run, this continues it; with a larger
    --steps or --epochs it continues a finished one."""
    resume: Literal["auto", "never"] = "auto"
    """auto: continue an interrupted run, with bit-identical results. never: refuse a directory with a run."""
    show: config.Show = "auto"
    """bar, lines, off; auto is a bar in a terminal or a notebook; dashboard is for notebooks."""
    score: bool = True
    """--no-score: the test sets are not translated. `evaluate RUN` does it later."""
    use: tuple[Path, ...] = ()
    """Finished runs for a method that learns from other runs: lsmd from auto-pmd, chi-ibr from tau=1, and so on."""
    given: Annotated[Path | None, arg(name="tokenizer", metavar="FILE|DIR")] = None
    """A sentencepiece model of your own for all languages (FILE.model), or RUN/tokenizer of another run. By default the
    run trains its own, with the options tokenizer.*."""
    metrics: tuple[config.Metric, ...] = ("bleu",)
    """Tables of test scores to print: bleu, chrf, ter. TER takes minutes, and is counted only if it is named."""
    processes: int = 1
    """Processes that share the work, for example one for each GPU; 0 takes as many as there are GPUs. torchrun works
    too. If an update has fewer micro-batches (accumulate), a new run divides it into one for each process."""

    def run(self) -> None:
        """Train, and print the table and the next command."""
        from pmd_lite.api import train
        from pmd_lite.evaluation.score_tables import score_table
        from pmd_lite.evaluation.scoring import said_beside
        from pmd_lite.processes import launch
        from pmd_lite.training.distributed import place_among_ranks

        names = ("out", "resume", "show", "score", "use", "init", "metrics")
        words = {"samplers": self.samplers or None, "tokenizer": self.given, **self.overrides}
        words |= {name: getattr(self, name) for name in names}
        if self.processes == 1:
            run = train(self.load(), self.method, self.preset, **words)
        else:
            run = launch(self.corpus, self.method, self.preset, processes=self.processes,
                         corpus_options={"direction": self.direction, "strict": self.strict}, **words)  # fmt: skip
        if self.processes == 1 and place_among_ranks()[0]:  # torchrun: only one process prints
            return
        if not self.score:
            print(f"Its test scores: python -m pmd_lite evaluate {run.path}")
            return
        for metric in self.metrics:
            print(score_table([run], metric).to_text())
        print("\n".join(said_beside([run.scores], self.metrics)))
        print("\nFigures:")
        commands.draw([run], [run])
        print(f"Side by side with other runs: python -m pmd_lite show {run.path} OTHER ... --figures")


@dataclass(frozen=True)
class EstimateArguments(RunArguments):
    """Hours, memory and disk of a run on this machine, before it begins."""

    sizes: Words = ()
    """Instead of a corpus: training pairs of each language pair, such as fr-en=3000000 de-en=1500000."""
    mean_tokens: float = MEAN_TOKENS
    """With --sizes: tokens of a sentence."""
    processes: int = 1
    """Processes that will share the run: an update with fewer micro-batches is divided. A row gives their best case."""
    tokens_per_second: float | None = None
    """Target tokens per second at which another machine trains one plain model; then nothing is measured here. No card
    has been measured yet: docs/several_gpus.md says how to measure yours."""
    seconds: float = 10.0
    """About how long to measure."""

    def run(self) -> None:
        """Measure, and print the table."""
        from pmd_lite.comparing.entries import parse_settings
        from pmd_lite.planning.estimate import estimate

        found = estimate(
            None if self.sizes else self.load(), self.method, self.preset, samplers=self.samplers or None,
            sizes=parse_settings(self.sizes) if self.sizes else None, mean_tokens=self.mean_tokens,
            tokens_per_second=self.tokens_per_second, seconds=self.seconds, init=self.init,
            processes=self.processes, **self.overrides,
        )  # fmt: skip
        print(found.to_text())


def _preset_of(words: list[str]) -> str:
    """The value of --preset: it decides the defaults that --help shows."""
    for i, word in enumerate(words):
        if word in ("--preset", "-p") and i + 1 < len(words):
            return words[i + 1]
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return "toy"


def _named(words: list[str]) -> tuple[str, ...]:
    """The options among the words, by the names of their fields: --no-rollback and --rollback=False name rollback."""
    options = [word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--")]
    return tuple(option.removeprefix("no_") for option in options)


def main(words: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 for a UserError, 128 + the number of a signal."""
    words = sys.argv[1:] if words is None else words
    # A shell expands ~ only at the beginning of a word, not in --out=~/run.
    words = [re.sub(r"(?:^|(?<==))~[^/=]*(?=/|$)", lambda home: os.path.expanduser(home[0]), word) for word in words]
    try:
        for word in words:  # the parser would repeat them as they are; bytes that are not UTF-8 may name a directory
            if CONTROL.search(word.encode("utf-8", "ignore").decode()):
                raise UserError(f"the argument {word[:80]} holds control characters. Write it without them")
        if words == ["--version"]:
            print(f"pmd_lite {version('pmd_lite')}")
            return 0
        if words[:1] == ["data"]:
            corpora.data(words[1:])
            return 0
        chosen, named = _preset_of(words), _named(words)
        to_train, to_estimate = TrainArguments.of_preset(chosen, named), EstimateArguments.of_preset(chosen, named)

        def train(arguments: Annotated[TrainArguments, arg(name="")] = to_train) -> None:
            """Train one method on one corpus, then translate and score its test sets."""
            arguments.run()

        def plan(arguments: Annotated[EstimateArguments, arg(name="")] = to_estimate) -> None:
            """Measure a few steps of a run on this machine; print hours, memory and disk of the whole run."""
            arguments.run()

        table: dict[str, Any] = {
            "train": train, "estimate": plan, "translate": commands.translate, "evaluate": commands.evaluate,
            "export": commands.export, "average": commands.average, "import": commands.import_, "show": commands.show,
            "data": corpora.listed, "methods": commands.methods, "compare": commands.compare, "lessons": lessons,
        }  # fmt: skip
        tyro.extras.subcommand_cli_from_dict(table, prog="python -m pmd_lite", description=ABOUT, args=words)
    except Interrupted as stopped:
        print(f"\npmd_lite: {stopped}", file=sys.stderr)
        return 128 + stopped.number
    except (UserError, OSError, UnicodeError) as error:  # the last two: a path that the system cannot look at
        advice = "" if isinstance(error, UserError) else ". Check the paths of this command"
        print(f"pmd_lite: error: {plain(str(error))}{advice}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\npmd_lite: stopped at once; the last checkpoint is whole. Give the same command again to continue",
              file=sys.stderr)  # fmt: skip
        return 130
    return 0
