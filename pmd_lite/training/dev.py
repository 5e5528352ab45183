"""How good a model is on the dev set, pair by pair: losses with one device sync, and BLEU of greedy translations."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from pmd_lite.config.sections import Best, Config
from pmd_lite.data.batching import Batch
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.data.tokens import EncodedCorpus
from pmd_lite.distillation.fused import projected_sums
from pmd_lite.distillation.projection import chunks, output_of, project, token_states
from pmd_lite.evaluation.bleu import chrf_only, corpus_bleu
from pmd_lite.evaluation.translation import search, shortened, text_of
from pmd_lite.model.mode import in_mode
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.cost import Tokens
from pmd_lite.training.distributed import ALONE, Group
from pmd_lite.training.learner import Learner

SAMPLE = 100
"""Dev sentences of each pair that decide a search with `decide_by="chrf"`."""


def kept_by(losses: Sequence[Sequence[float]] | Tensor, tokens: Sequence[float], rule: Best) -> float:
    """The number that decides which weights a student keeps: the weights with the lowest, the earliest of equals.

    Args:
        losses: [2, pair] NLL and label-smoothed cross-entropy, nats per target token.
        tokens: [pair] target tokens of the dev sets.
        rule: "mean": NLL, every pair counts the same. "pooled-smoothed": the smoothed loss per token of all dev sets.
    """
    nll, smoothed = torch.as_tensor(losses, dtype=torch.float64)
    if rule == "mean":
        return float(nll.mean())
    weight = torch.as_tensor(tokens, dtype=torch.float64)
    return float((smoothed * weight).sum() / weight.sum())


def kept_line(lines: Sequence[Mapping[str, Any]], rule: Best) -> Mapping[str, Any]:
    """The evaluation, among the metrics lines of one student, whose weights were kept by this rule."""
    return min(lines, key=lambda line: kept_by([line["dev_loss"], line["dev_smoothed"]], line["dev_tokens"], rule))


def dev_losses(
    learner: Learner, batches: Sequence[Batch], n_pairs: int, group: Group = ALONE, errors: bool = False
) -> Tensor:
    """Mean dev losses of one model.

    Args:
        batches: the whole dev set, on the learner's device; the ranks of `group` share the work.
        errors: whether to look at the model's first guess after each true prefix too.
    Returns: [2, pair] float64 on the CPU, nats per target token: row 0 NLL, row 1 label-smoothed cross-entropy. With
        `errors`, row 2 is the share of tokens whose guess is wrong, 1 - accuracy.
    It makes no gradient and draws no random number; the model keeps its mode.
    """
    model, device = learner.model, learner.device
    dtype = torch.float32 if device.type == "mps" else torch.float64
    sums = torch.zeros(2 + errors, n_pairs, dtype=dtype, device=device)
    tokens = torch.zeros(n_pairs, dtype=torch.float64)
    with in_mode(model, False), torch.inference_mode(), learner.autocast():
        for i in group.mine(len(batches)):
            batch = batches[i]
            # fp32 also under autocast, because searches compare losses that differ by thousandths.
            hidden = token_states(model, batch.src, batch.trg_in, batch.keep).float()
            ce, _, nll = projected_sums(hidden, output_of(model), batch.gold, learner.config.optim.label_smoothing)
            wrong = torch.zeros_like(nll)
            for rows in chunks(len(hidden), model.vocab_size) if errors else ():
                space = hidden.new_empty(rows.stop - rows.start, model.vocab_size)  # autocast does not round into it
                wrong += (project(hidden[rows], output_of(model), space).argmax(-1) != batch.gold[rows]).sum()
            sums[:, batch.pair] += torch.stack((nll, ce, wrong)[: len(sums)])
    group.sum(sums)
    for batch in batches:
        tokens[batch.pair] += batch.tokens
    return sums.cpu().double() / tokens


def greedy_score(
    model: Transformer, encoded: EncodedCorpus, config: Config, metric: Literal["bleu", "chrf"] = "bleu",
    group: Group = ALONE,
) -> tuple[Tensor, Tokens]:  # fmt: skip
    """[pair] scores (0 to 100, float64, CPU) of greedy translations of the dev set, and the number of tokens computed.

    chrF takes `SAMPLE` sentences of each pair, spread over its dev set, always the same ones.
    References are the decoded ids of the dev set, so no text is needed. BLEU's tokenizer is the run's (`tokenize`).
    The ranks of `group` share the pairs. The model keeps its mode. Raises MissingScorer when this machine lacks that
    tokenizer, ValueError on every rank when the weights translate nothing.
    Tokens: those that the encoder reads, and the inputs of the decoder: BOS or the forced prefix, and every token up to
    the one before EOS.
    """
    tokenizer, limit = encoded.tokenizer, config.model.max_len
    mine: list[Any] = []
    try:
        with in_mode(model, False):
            for i in group.mine(len(encoded.pairs)):
                pair, split = encoded.pairs[i], encoded.valid[i]
                count = min(SAMPLE, len(split)) if metric == "chrf" else len(split)
                rows = [k * len(split) // count for k in range(count)]
                sources = [split.src[k].tolist() for k in rows]
                hypotheses = search(model, sources, pair, tokenizer, limit=limit, budget=6 * config.train.tokens)
                references = [tokenizer.decode(split.trg[k].tolist()) for k in rows]
                texts = [text_of(hypothesis, tokenizer) for hypothesis in hypotheses]
                if metric == "chrf":
                    score = chrf_only(texts, references)[0]
                else:
                    score = corpus_bleu(texts, references, split_pair(pair)[1], config.train.tokenize).bleu
                read = sum(len(shortened(ids, limit)) for ids in sources)
                made = sum(1 + len(tokenizer.prefix(pair)) + len(hypothesis.tokens) for hypothesis in hypotheses)
                mine.append((i, score, read, made))
    except ValueError as error:  # weights that are not finite translate nothing; the other ranks must hear of it
        mine = [str(error)]
    found = [row for share in group.gathered(mine) for row in share]
    if wrong := [row for row in found if isinstance(row, str)]:
        raise ValueError(wrong[0])
    _, scores, reads, lengths = zip(*sorted(found), strict=True)
    return torch.tensor(scores, dtype=torch.float64), Tokens(sum(reads), sum(lengths))
