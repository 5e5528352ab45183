"""The commands as a user types them: results, help, and one clear line for each mistake."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pmd_corpora.writing import write_corpus
from pmd_lite.cli.arguments import main
from pmd_lite.data.corpus import Corpus

SMALL = [
    "--d-model",
    "16",
    "--heads",
    "2",
    "--encoder-layers",
    "1",
    "--decoder-layers",
    "1",
    "--ffn",
    "32",
    "--max-len",
    "32",
    "--tokenizer.vocab-size",
    "300",
    "--steps",
    "6",
    "--tokens",
    "160",
    "--eval-every",
    "3",
    "--update-every",
    "3",
    "--warmup",
    "4",
    "--beam",
    "1",
    "--show",
    "off",
]


QUICK = [*SMALL, "--steps", "2", "--eval-every", "2"]  # the last of two counts


@pytest.fixture(scope="module", autouse=True)
def coarse() -> Iterator[None]:
    """Figures of few dots: to paint many takes long, and none of these tests looks at them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pmd_lite.figures.style.PRINT_DPI", 50)
        yield


@pytest.fixture(scope="module")
def place(three_pairs: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus directory and one finished Auto-PMD run beside it."""
    folder = tmp_path_factory.mktemp("cli")
    write_corpus(three_pairs, folder / "corpus")
    assert main(["train", "-c", str(folder / "corpus"), "--out", str(folder / "run"), *SMALL]) == 0
    return folder


@pytest.mark.slow
def test_train_leaves_a_whole_run(place: Path) -> None:
    run = place / "run"
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert config["method"] == "auto-pmd"
    assert config["config"]["model"]["d_model"] == 16
    assert config["corpus"]["sizes"] == [60, 42, 22]
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))["scores"]
    assert set(scores) == {"model_1", "model_2"}
    assert set(scores["model_1"]) == set(config["corpus"]["pairs"])
    assert "tok:13a" in scores["model_1"]["fra-eng"]["signature"]
    assert (run / "figures" / "frontier.png").stat().st_size > 1000
    hyps = (run / "translations" / "test.model_1.fra-eng.txt").read_text(encoding="utf-8")
    assert hyps.count("\n") == 6


@pytest.mark.slow
def test_show_prints_scores_and_draws(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(place / "run"), "--figures"]) == 0
    out = capsys.readouterr().out
    assert "auto-pmd model_2 (tau=5)" in out
    for figure in ("dev_loss", "alphas", "frontier"):
        assert (place / "run" / "figures" / f"{figure}.png").stat().st_size > 1000
        assert (place / "run" / "figures" / f"{figure}.pdf").exists()


@pytest.mark.slow
def test_translate_reads_standard_input(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tiny_corpus: Corpus
) -> None:
    """Order is kept, an empty line stays empty, and the lines are those that evaluation wrote."""
    sentences = [src for src, _ in tiny_corpus.test["fra-eng"]]
    typed = "\n".join([sentences[2], "\u200b\r", sentences[0]]) + "\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed.encode()), "latin-1"))
    assert main(["translate", str(place / "run"), "--pair", "fra-eng", "--student", "2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    written = (place / "run" / "translations" / "test.model_2.fra-eng.txt").read_text(encoding="utf-8").split("\n")
    assert lines == [written[2], "", written[0], ""]


@pytest.mark.slow
def test_evaluate_again_gives_the_same_scores(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (place / "run" / "scores.json").read_bytes()
    assert main(["evaluate", str(place / "run")]) == 0
    assert (place / "run" / "scores.json").read_bytes() == before
    assert "signature: nrefs:1" in capsys.readouterr().out


@pytest.mark.slow
def test_data_writes_and_shows_a_toy_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "longtail", "--out", str(tmp_path / "toy"), "--direction", "o2m"]) == 0
    out = capsys.readouterr().out
    assert "longtail: o2m" in out
    assert "eng-fra" in out
    assert main(["data", "show", str(tmp_path / "toy")]) == 0
    assert "2,000" in capsys.readouterr().out


def test_methods_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("tau=1", "vanilla-md", "uni-pmd", "bi-pmd", "auto-pmd", "dynamic-md"))


def test_the_preset_decides_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--preset", "wmt6", "--help"])
    assert end.value.code == 0
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "(default: 64000)" in out
    assert "rho: share of the training data a trial trains on. (default: 0.1)" in out


MISTAKES = [
    (["train", "-m", "autopmd"], "did you mean 'auto-pmd'"),
    (["train", "-p", "huge"], "choose one of toy, small, ted8, wmt6"),
    (["train", "-c", "no-such-corpus"], "toy world"),
    (["train", "-c", "no/such/dir"], "no/such/dir"),
    (["train", "--heads", "3"], "divisible by heads"),
    (["train", "--start", "2"], "must be at most 0.9999"),
    (["train", "--alpha", "1.5"], "must be at most 1"),
    (["train", "-m", "tau=-1"], "a positive temperature"),
    (["train", "-m", "bi-pmd", "--samplers", "tau=1"], "at least two students"),
    (["train", "--device", "cuda"], "device=auto"),
    (["train", "--precision", "fp16"], "needs a CUDA device"),
    (["show", "nowhere"], "is this a run directory?"),
    (["translate", "nowhere", "--pair", "fr-en"], "is this a run directory?"),
    (["compare", "--methods", "tau=1", "--set", "betas=0.9"], "write two numbers in [0, 1), such as 0.9 0.98"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "says"), MISTAKES)
def test_a_mistake_gives_one_line_and_exit_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    if torch.cuda.is_available() and ("cuda" in words or "fp16" in words):
        pytest.skip("this is not a mistake here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a sentence")))
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("pmd_lite: error: ")
    assert says in captured.err.replace(os.sep, "/")
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.slow
def test_a_pair_the_run_does_not_know(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["translate", str(place / "run"), "--pair", "xx-yy", "--file", str(place / "corpus" / "corpus.json")]) == 2
    )
    assert "this run translates fra-eng" in capsys.readouterr().err


@pytest.mark.slow
def test_a_corpus_that_changed_is_noticed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(place / "run"), "--corpus", "longtail"]) == 2
    assert "trained on another corpus" in capsys.readouterr().err


@pytest.mark.slow
def test_what_this_machine_cannot_do_is_refused_before_a_file_is_written(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the advice can be followed: the same command, the other precision, the same directory."""
    folders = ["-c", str(place / "corpus"), "--out", str(tmp_path / "r")]
    words = ["train", "-m", "tau=1", *folders, *QUICK, "--device", "cpu"]
    assert main([*words, "--precision", "fp16"]) == 2
    assert "use precision=fp32 or bf16" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main([*words, "--precision", "fp32"]) == 0
    assert main([*words[:-1], "auto"]) == 0, "a finished run may be looked at on another device"


@pytest.mark.slow
def test_show_passes_over_what_is_no_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(place / "corpus"), str(place / "run")]) == 0
    said = capsys.readouterr()
    assert f"note: {place / 'corpus'} is not a run" in said.err
    assert f"{place / 'run'}: auto-pmd" in said.out
    assert main(["show", str(place / "corpus")]) == 2
    assert "is this a run directory?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("student", ["0", "3"])
def test_models_are_counted_from_1(place: Path, student: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(place / "run"), "--pair", "fra-eng", "--file", os.devnull, "--student", student]) == 2
    assert f"--student {student}: this run has 1, 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["toy"], "--out"),
        (["atlantis", "--out", "x"], "Available subcommands: longtail, toy, hard, catalogs6"),
        (["show"], "the directory. (required)"),
        (["longtail", "--scale", ".1", "--out", "x"], "--scale"),
        (["ted8", "--direktion", "o2m", "--out", "x"], "--direction {m2o,o2m}"),
    ],
)
def test_a_mistake_in_data_is_named(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["data", *words])
    assert end.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_help_comes_without_torch() -> None:
    """Importing torch takes seconds; nobody should wait for it to read a list of options."""
    code = """
import sys
from pmd_lite.cli.arguments import main
for words in (["--help"], ["train", "--help"], ["data", "--help"], ["--version"]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words
    print("===", [name for name in ("torch", "sacrebleu", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *helps, version, end = done.stdout.split("=== []\n")
    assert len(helps) == 3 and all("options" in said for said in helps)
    assert "one plain model\n" in helps[0]
    for line, below in itertools.pairwise(helps[1].splitlines()):  # no line ends before the next word has no room
        if line.startswith("│   ") and below.startswith("│   "):
            assert len(f"{line[26:78].rstrip()} {below.split()[1]}") > 52, (line, below)
    assert "pmd_lite 0." in version and end == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_a_beam_of_0_is_refused(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a sentence")))
    words = ["--pair", "fra-eng"] if command == "translate" else []
    assert main([command, str(place / "run"), *words, "--beam", "0"]) == 2
    said = capsys.readouterr().err
    assert "beam=0: must be at least 1" in said


@pytest.mark.slow
def test_unsound_lines_are_refused_or_left_out(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(place / "corpus", tmp_path / "corpus")
    (tmp_path / "corpus" / "corpus.json").unlink()
    with (tmp_path / "corpus" / "train.fra-eng.tsv").open("a", encoding="utf-8") as file:
        file.write("\thalf a pair\n")
    words = ["train", "-c", str(tmp_path / "corpus"), "-m", "tau=1", *QUICK]
    assert main([*words, "--out", str(tmp_path / "a")]) == 2
    assert re.search(r"train\.fra-eng\.tsv:61: .*strict=False \(--no-strict\)", capsys.readouterr().err)
    assert main([*words, "--out", str(tmp_path / "a"), "--no-strict"]) == 0
    assert "train.fra-eng.tsv:61" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "a"), "--no-strict"]) == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one child on Windows")
def test_ctrl_c_at_the_command_line(place: Path, tmp_path: Path) -> None:
    """Exit 130, a sentence, no traceback; the same command then finishes the run."""
    words = [
        "train",
        "-c",
        str(place / "corpus"),
        "-m",
        "tau=1",
        "--out",
        str(tmp_path / "r"),
        *SMALL,
        "--steps",
        "400",
    ]
    child = subprocess.Popen([sys.executable, "-m", "pmd_lite", *words], stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if (tmp_path / "r" / "checkpoint" / "LATEST").exists() or child.poll() is not None:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    assert "Give the same command again to continue" in err
    assert "Traceback" not in err
    step = int((tmp_path / "r" / "checkpoint" / "LATEST").read_text().removeprefix("step-"))
    assert 0 < step < 400
