"""ATTRIBUTION.md of the WMT-6 corpus, for people, made from the counts in report.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmd_corpora.wmt6_cleaning import STEPS

REPORT = "report.json"
MADE_BY = "data_scripts/wmt6.py"  # the script's former place; existing corpora are recognised by it
MARK = f'{{\n "made by": "{MADE_BY}"'  # how our report.json begins


def table(report: Mapping[str, Any]) -> str:
    """A Markdown table of the report: rows of each pair, how many were left out at each step, and how many are in."""
    pairs = report["pairs"]
    rows = [["row groups read, of", *(f"{p['row groups read']:,} / {p['row groups']:,}" for p in pairs.values())],
            ["rows read", *(f"{p['counts']['rows']:,}" for p in pairs.values())]]  # fmt: skip
    for step in STEPS:
        rows.append([f"without: {step}", *(f"{p['counts'].get(step, 0):,}" for p in pairs.values())])
    rows.append(["train", *(f"{p['counts']['train']:,}" for p in pairs.values())])
    rows += [[name, *(f"{p['held out pairs'][name]:,}" for p in pairs.values())] for name in ("valid", "test")]
    lines = [["pairs", *pairs], ["---", *("--:" for _ in pairs)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def attribution(report: Mapping[str, Any]) -> str:
    """The text of ATTRIBUTION.md below its title: where the sentences come from, their terms, how they were chosen."""
    sources = "\n".join(
        f"* {pair}: https://huggingface.co/datasets/{about['repository']} ({pair}), commit {about['commit']}; valid is "
        f"{about['valid']}, test is {about['test']}; training text: {about['parts']}."
        for pair, about in report["pairs"].items()
    )
    return f"""Made by {MADE_BY} with seed {report["seed"]} from data of the Conference on Machine Translation (WMT):

{sources}

The Hub names no licence for these data sets. Each part has its own terms, of which some allow research only; look them
up at https://www.statmt.org before you pass any of this text on, and cite the findings paper of the year.

The training pairs are not those of the paper, whose choice is not public: they are a seeded sample over the whole
training text of each pair, of the same sizes. Rows were left out in this order ({REPORT} has the counts by shard):

{table(report)}

valid and test are whole, but spelt like train: NFC, one white space, Romanian letters with a comma below. No training
pair shares a line with any of them, in any language; lines are compared without case, punctuation and the values of
numbers.
"""
