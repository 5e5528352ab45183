"""The job script for SLURM runs as it is: here against a stand-in of srun that starts its tasks on this machine."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pmd_corpora.writing import write_corpus
from pmd_lite.cli import arguments
from pmd_lite.data.corpus import Corpus

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "several_nodes.sbatch"
PAGE = ROOT / "docs" / "several_gpus.md"

SRUN = """#!/bin/bash
# The tasks of a step; USR1 as soon as there is a checkpoint, as SLURM sends it before the time is over.
while [ "$1" != bash ]; do shift; done
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task "$@" & tasks="$tasks $!"; done
(until [ -e "$WARN_AT" ]; do sleep 0.05; done; kill -USR1 $tasks) & warner=$!
worst=0
for task in $tasks; do
    while kill -0 $task 2>/dev/null; do status=0; wait $task || status=$?; done
    [ $status -le $worst ] || worst=$status
done
kill $warner 2>/dev/null
exit $worst
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then echo 127.0.0.1; else echo "$@" >> "$CALLS"; fi
"""


def taken(words: list[str], monkeypatch: pytest.MonkeyPatch) -> arguments.RunArguments:
    """What our command line understands of these words; it trains and measures nothing."""
    heard: list[arguments.RunArguments] = []
    for command in (arguments.TrainArguments, arguments.EstimateArguments):
        monkeypatch.setattr(command, "run", lambda self: heard.append(self))
    assert arguments.main(words) == 0, words
    return heard[0]


def test_every_command_of_the_page_and_of_the_script_is_one_that_we_know(monkeypatch: pytest.MonkeyPatch) -> None:
    script, page = SCRIPT.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")
    usage = re.search(r"#     sbatch docs/several_nodes.sbatch (.*)", script)
    assert usage and usage[0].removeprefix("#     ") in page
    found = taken(["train", *shlex.split(usage[1])], monkeypatch)
    assert (found.corpus, found.preset) == ("data/wmt6", "wmt6")
    commands = re.findall(r"-m pmd_lite (train|estimate) ([^\n]*)", "".join(re.findall(r"```sh\n(.*?)```", page, re.S)))
    assert {name for name, _ in commands} == {"train", "estimate"}
    for name, words in commands:
        taken([name, *shlex.split(words, comments=True)], monkeypatch)


def test_the_script_is_sound_for_bash_and_its_directives_come_first() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    lines = SCRIPT.read_text(encoding="utf-8").split("\n")
    directives = [i for i, line in enumerate(lines) if line.startswith("#SBATCH")]
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert len(directives) >= 8 and max(directives) < first, "sbatch reads none after the first command"
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", lines[i]) for i in directives)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="SLURM runs on Linux")
def test_a_job_whose_time_ends_saves_and_queues_itself_again(three_pairs: Corpus, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = f'#!/bin/bash\nexec {shlex.quote(sys.executable)} "$@"\n'
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("python", python)):
        (tmp_path / "bin" / name).write_text(text, encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    out = tmp_path / "run"
    latest = out / "checkpoint" / "LATEST"
    job = {"SLURM_JOB_ID": "71", "SLURM_JOB_NODELIST": "one", "SLURM_NTASKS": "2", "GLOO_SOCKET_IFNAME": "lo",
           "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"),
           "WARN_AT": str(latest)}  # fmt: skip
    corpus = write_corpus(three_pairs, tmp_path / "corpus")
    text = "-m bi-pmd --steps 3000 --eval-every 4 --accumulate 2 --tokens 60 --show off --d-model 8 --heads 2 --ffn 8"
    words = [*text.split(), "--device", "cpu", "-c", corpus, "--out", out]
    done = subprocess.run(["bash", SCRIPT, *words], timeout=240, env={**os.environ, **job}, capture_output=True,
                          text=True, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 138, done.stderr
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "requeue 71\n"
    assert "Traceback" not in done.stderr
    assert "Give the same command again to continue" in done.stderr
    assert latest.read_text(encoding="utf-8") > "step-00000004"
