"""On which tokens of the dev set does one model lose less than another? Every token after the right ones before it.

    python -m benchmarks.where_loss_falls RUN RUN --students 1 2 --corpus DIR

The two models share a tokenizer. Tokens fall into four kinds: the first guess of both models is right, only that of the
first model, only that of the second, or neither. For each kind and group of pairs: its share, the loss of both models
there in nats per token, and what it adds to the whole difference in loss.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from pmd_lite.api import load_corpus
from pmd_lite.data.batching import eval_batches
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.distillation.losses import token_logits
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Cell, Table
from pmd_lite.model import Transformer
from pmd_lite.run import Run

KINDS = {"both right": (1, 1), "only the first": (1, 0), "only the second": (0, 1), "neither": (0, 0)}


@torch.inference_mode()
def losses(model: Transformer, encoded: EncodedCorpus, pair: str, budget: int = 4000) -> tuple[Tensor, Tensor]:
    """(loss in nats, whether the first guess is right) of each dev token of a pair, in a fixed order: [tokens]."""
    index = encoded.pairs.index(pair)
    lost, right = [], []
    for batch in eval_batches(encoded.valid[index], index, budget):
        logp = token_logits(model, batch.src, batch.trg_in, batch.keep).log_softmax(-1)
        lost.append(-logp.gather(1, batch.gold[:, None])[:, 0].double())
        right.append(logp.argmax(-1) == batch.gold)
    return torch.cat(lost), torch.cat(right)


def by_kind(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> list[list[Cell]]:
    """For each of KINDS: share of tokens in %, loss of both models there, its part of the difference in loss."""
    (a, a_right), (b, b_right) = first, second
    rows: list[list[Cell]] = []
    for kind, (one, two) in KINDS.items():
        here = (a_right == bool(one)) & (b_right == bool(two))
        share = float(here.double().mean())
        means: list[Cell] = [float(x[here].mean()) if share else None for x in (a, b)]
        rows.append([kind, 100 * share, *means, float(((b - a) * here).mean())])
    return [*rows, ["all", 100.0, float(a.mean()), float(b.mean()), float((b - a).mean())]]


def main() -> None:
    """Print one table for the large pairs and one for the small ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs=2, metavar="RUN")
    parser.add_argument("--students", nargs=2, type=int, default=[1, 1], help="which model of each run, from 1")
    parser.add_argument("--corpus", required=True, help="the corpus of both runs")
    words = parser.parse_args()
    try:
        runs = [Run(path) for path in words.runs]
        corpus = load_corpus(words.corpus)
        for run in runs:
            run.check_corpus(corpus)
        if runs[0].tokenizer.fingerprint != runs[1].tokenizer.fingerprint:
            raise UserError("these runs have different tokenizers, so their tokens cannot be compared")
        models = [run.model(number - 1) for run, number in zip(runs, words.students, strict=True)]
    except UserError as error:
        parser.error(str(error))
    encoded = encode_corpus(corpus, runs[0].tokenizer, runs[0].config.model.max_len)
    for name, group in zip(("large", "small"), runs[0].groups, strict=True):
        found = [[losses(model, encoded, pair) for pair in group] for model in models]
        first, second = ((torch.cat([x for x, _ in of]), torch.cat([y for _, y in of])) for of in found)
        columns = [
            f"{name} pairs: first guess",
            "% of tokens",
            "loss of the first",
            "of the second",
            "part of the change",
        ]
        print(Table(columns, by_kind(first, second), digits=3).to_text(), end="\n\n")


if __name__ == "__main__":
    main()
