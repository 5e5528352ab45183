"""What is measured of one model, beyond the curves of its run: likelihood, accuracy, BLEU, chrF, TER, length."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sacrebleu.metrics import CHRF, TER

from pmd_lite.config import Config
from pmd_lite.data.batching import collate, cut_split
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.data.tokens import EncodedCorpus, EncodedSplit
from pmd_lite.distillation.losses import token_logits
from pmd_lite.evaluation.scoring import one_line, score_pair
from pmd_lite.evaluation.significance import SentenceStats, sentence_stats
from pmd_lite.evaluation.translation import translate_ids
from pmd_lite.model import Ensemble, Transformer

Model = Transformer | Ensemble
TEMPERATURES = (0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0)
TRAIN_SAMPLE = 500  # training sentences of each pair that train NLL is measured on


@torch.inference_mode()
def likelihood(
    model: Model, split: EncodedSplit, pair: int, budget: int, most: int = 10**9
) -> dict[str, float]:  # fmt: skip
    """NLL (nats per token), accuracy (share of tokens whose best guess is right) and the best softmax temperature.

    most: sentences to look at, the first of the split.
    """
    sums, right, tokens = torch.zeros(len(TEMPERATURES), dtype=torch.float64), 0, 0
    for rows in cut_split(split, np.arange(min(most, len(split))), budget):
        batch = collate(split, rows, pair)
        logits = token_logits(model, batch.src, batch.trg_in, batch.keep)
        right += int((logits.argmax(-1) == batch.gold).sum())
        tokens += batch.tokens
        for i, temperature in enumerate(TEMPERATURES):
            logp = (logits / temperature).log_softmax(-1)
            sums[i] -= logp.gather(1, batch.gold[:, None]).double().sum()
    best = int(sums.argmin())
    return {
        "nll": round(float(sums[TEMPERATURES.index(1.0)]) / tokens, 4), "accuracy": round(right / tokens, 4),
        "nll_at_best_temperature": round(float(sums[best]) / tokens, 4), "best_temperature": TEMPERATURES[best],
    }  # fmt: skip


def translated(model: Model, corpus: Corpus, encoded: EncodedCorpus, config: Config, beam: int) -> dict[str, list[str]]:
    """{pair: translations of its test set}."""
    tokenizer = encoded.tokenizer
    return {
        pair: translate_ids(
            model, tokenizer.encode([src.strip() for src, _ in corpus.test[pair]], pair, "src"), pair, tokenizer,
            limit=config.model.max_len, budget=6 * config.train.tokens, beam=beam,
            length_penalty=config.train.length_penalty,
        )
        for pair in corpus.pairs
    }  # fmt: skip


def scored(hyps: Sequence[str], refs: Sequence[str], pair: str) -> dict[str, Any]:
    """BLEU, chrF, TER and the ratio of lengths, with what a paired test needs of every sentence."""
    scores = score_pair(hyps, refs, pair, "auto")
    stats = sentence_stats(hyps, refs, split_pair(pair)[1])
    chrf = CHRF()
    sentences = [round(10 * chrf.sentence_score(hyp, [ref]).score) for hyp, ref in zip(hyps, refs, strict=True)]
    lengths = stats[:, -2:].sum(axis=0)
    return {
        "bleu": round(scores["bleu"], 3), "chrf": round(scores["chrf"], 3),
        "ter": round(TER().corpus_score(list(hyps), [list(refs)]).score, 3),
        "length_ratio": round(float(lengths[0] / lengths[1]), 4),
        "sentences": packed(np.concatenate([stats[:, :4], stats[:, -2:], np.array(sentences)[:, None]], axis=1)),
    }  # fmt: skip


def packed(table: np.ndarray[Any, np.dtype[np.int64]]) -> str:
    """[sentence, column] of small whole numbers as text."""
    rows, columns = table.shape
    body = base64.b85encode(zlib.compress(table.astype("<u2").T.tobytes(), 9)).decode()
    return f"{rows}x{columns}:{body}"


def unpacked(text: str) -> tuple[SentenceStats, np.ndarray[Any, np.dtype[np.float64]]]:
    """([sentence, 10] as `sentence_stats` returns them, [sentence] chrF of 0 to 100) of what `packed` wrote."""
    shape, _, body = text.partition(":")
    rows, columns = map(int, shape.split("x"))
    flat = np.frombuffer(zlib.decompress(base64.b85decode(body)), dtype="<u2")
    table = flat.reshape(columns, rows).T.astype(np.int64)
    matches, (hyp, ref), chrf = table[:, :4], table[:, 4:6].T, table[:, 6] / 10
    totals = np.maximum(hyp[:, None] - np.arange(4), 0)  # a sentence of n tokens has n - 3 of four
    return np.concatenate([matches, totals, hyp[:, None], ref[:, None]], axis=1), chrf


def measured(model: Model, corpus: Corpus, encoded: EncodedCorpus, config: Config) -> dict[str, dict[str, Any]]:
    """{pair: {dev, train, beam, greedy}} of one model in eval mode."""
    budget = config.train.tokens
    references = {pair: [one_line(trg) for _, trg in corpus.test[pair]] for pair in corpus.pairs}
    beams = {"beam": config.train.beam, "greedy": 1}
    texts = {name: translated(model, corpus, encoded, config, beam) for name, beam in beams.items()}
    return {
        pair: {
            "dev": likelihood(model, encoded.valid[i], i, budget),
            "train": likelihood(model, encoded.train[i], i, budget, TRAIN_SAMPLE),
            **{name: scored(texts[name][pair], references[pair], pair) for name in beams},
        }
        for i, pair in enumerate(corpus.pairs)
    }  # fmt: skip
