"""What the documents tell people to type: every line is understood, and those of the README lead to results."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pmd_corpora import commands as corpora
from pmd_corpora.writing import write_corpus
from pmd_lite import api
from pmd_lite.cli import arguments, commands
from pmd_lite.cli.arguments import main
from pmd_lite.data.corpus import Corpus
from tests.library.test_command_line import SMALL
from tests.painted import paint_once

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "data_scripts" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS.remove(ROOT / "docs" / "log.md")  # what was typed then


def shell_lines(path: Path, heading: str = "") -> list[list[str]]:
    """The words of each command in the shell blocks of a document, or of one part of it."""
    text = path.read_text(encoding="utf-8")
    if heading:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(block for kind, block in blocks if kind in ("", "sh")).replace("\\\n", " ").splitlines()
    lines = [line for line in lines if re.match(r"(?:\w+=\S+ )*(?:python|py|torchrun|pmd-lite)", line)]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def ours(words: list[str]) -> list[str] | None:
    """The words after `-m pmd_lite` or pmd-lite; None for another command."""
    for start in (["-m", "pmd_lite"], ["pmd-lite"]):
        for at in range(len(words)):
            if words[at : at + len(start)] == start:
                return words[at + len(start) :]
    return None


LINES = [(path.name if path.parent != ROOT / "data_scripts" else "data_scripts", words)
         for path in DOCUMENTS for line in shell_lines(path) if (words := ours(line)) is not None]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "words"), LINES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_every_command_of_the_documents_is_understood(
    document: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names, options and values exist. Nothing runs: each command is replaced by one of the same signature."""
    called: list[str] = []

    def silent(of: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(of)
        def command(*words: Any, **options: Any) -> None:
            called.append("it")

        return command

    for name in ("translate", "evaluate", "export", "import_", "show", "methods", "compare"):
        monkeypatch.setattr(commands, name, silent(getattr(commands, name)))
    for arguments_of in (arguments.TrainArguments, arguments.EstimateArguments):
        monkeypatch.setattr(arguments_of, "run", lambda self: called.append("run"))
    monkeypatch.setattr(arguments, "lessons", silent(arguments.lessons))
    table = {name: silent(build) for name, build in corpora.table().items()}
    monkeypatch.setattr(corpora, "table", lambda: table)
    monkeypatch.setattr(corpora, "show", silent(corpora.show))
    assert main([word for word in words if word not in ("...", "[...]")]) == 0
    assert len(called) == 1


def test_there_are_commands_to_check() -> None:
    assert len(LINES) > 15 and {"README.md", "data_scripts", "faq.md"} <= {document for document, _ in LINES}


def test_other_modules_of_the_documents_exist() -> None:
    named = {line[at + 1] for path in DOCUMENTS for line in shell_lines(path) for at in range(len(line) - 1)
             if line[at] == "-m" and line[at - 1].startswith(("python", "py"))}  # fmt: skip
    assert "lessons.demo" in named
    assert not [name for name in named - {"venv", "pip", "pytest"} if find_spec(name) is None]


def test_the_page_of_expectations_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "expectations.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 25
    assert not [(file, name) for file, name in named if f"def {name}" not in (ROOT / file).read_text(encoding="utf-8")]


@pytest.mark.slow
def test_the_shell_lines_of_the_readme_lead_to_two_tables(
    tiny_corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, with tiny models. Small worlds stand for both corpora: the invented one is large, and the
    packages of the real one are not installed."""
    monkeypatch.chdir(tmp_path)
    real, two = api.load_corpus, tiny_corpus.only(list(tiny_corpus.pairs)[:2])
    monkeypatch.setattr(api, "load_corpus", lambda name, **words: two if name == "longtail" else real(name, **words))
    paint_once(monkeypatch)
    monkeypatch.setattr(
        corpora, "data", lambda words: write_corpus(tiny_corpus.only(list(tiny_corpus.pairs)[:3]), words[-1])
    )
    block = [words for line in shell_lines(ROOT / "README.md", "From a shell") if (words := ours(line))]
    for words in block[: next(at for at, words in enumerate(block) if words[0] == "show") + 1]:
        here = [part for word in words for part in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
        small = [*SMALL, "--tokenizer.vocab-size", "340"] if words[0] == "train" else []  # the last of two counts
        assert main([*here, *small]) == 0, (words, capsys.readouterr().err)
    shown = capsys.readouterr().out
    assert shown.count("\nCorpus ") == 2
    assert len(list(tmp_path.glob("runs/*/figures/frontier.pdf"))) == len(list(tmp_path.glob("runs/*")))
