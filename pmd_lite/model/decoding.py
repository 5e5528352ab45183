"""Translation: beam search over a `Transformer`; a beam of 1 is greedy search.

All sentences of a batch take a step together. A step is a few tensor operations, without Python code per sentence:

    1. run the decoder on the newest token of every live hypothesis (keys and values of earlier ones are cached)
    2. of all one-token extensions of a sentence's `beam` hypotheses, take the 2 * beam most probable
    3. those among the first `beam` that end in EOS are finished: keep the `beam` best finished ones by score
    4. the first `beam` that do not end in EOS live on
    5. a sentence that is decided leaves the batch

score = log p(y) / |y|^length_penalty in nats, where |y| counts the forced prefix and EOS but not BOS (fairseq's
normalised score). Steps 2-4 are those of fairseq; when to stop is an option, see `beam_search`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from pmd_lite.model.layers import at_least_one, one_of
from pmd_lite.model.mode import in_mode
from pmd_lite.model.transformer import DecoderState, Transformer

Stop = Literal["bound", "full"]


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its token ids (without BOS, EOS and forced prefix) and its score (higher is better)."""

    tokens: list[int]
    score: float


def translate_batch(model: Transformer, src: Tensor, **options: Any) -> list[Hypothesis]:
    """The best translation of each sentence of src [batch, src_len], in order. Options: those of `beam_search`."""
    return [hypotheses[0] for hypotheses in beam_search(model, src, **options)]


@torch.inference_mode()
def beam_search(
    model: Transformer, src: Tensor, *, beam: int = 5, n_best: int = 1, max_len: int, length_penalty: float = 1.0,
    bos: int, eos: int, pad: int, prefix: Sequence[int] = (), banned: Sequence[int] = (), stop: Stop = "bound",
) -> list[list[Hypothesis]]:  # fmt: skip
    """The n_best <= beam best translations of each sentence of src [batch, src_len], best first, sentences in order.

    Args:
        max_len: longest translation, without prefix and EOS. A translation of this length is closed with the true
            probability of EOS.
        prefix: ids with which every translation must start (a language tag); they count in the score but are not
            returned.
        banned: ids that must not be produced (UNK, tags), besides PAD and BOS. Probabilities are not renormalised.
        stop: "bound" ends a sentence when no live hypothesis can still enter the n_best: log p can only fall, so log p
            / longest^length_penalty is the highest score that it can reach. "full" ends it as fairseq does, as soon as
            `beam` hypotheses have finished: earlier, but sometimes before the best one. A beam of 1 always ends at its
            first EOS, as greedy search does.

    Of equal scores, the earlier beam comes first, then the smaller id, so a search can be repeated exactly. (Only if
    there is a tie for the last of the 2 * beam places, torch.topk decides.)
    The search runs in eval mode; afterwards the model is in its old mode. If fewer than n_best translations exist, it
    returns fewer. Raises ValueError for arguments that do not fit, or if no score is finite (weights that are NaN).
    """
    at_least_one(beam=beam, n_best=n_best, max_len=max_len)
    one_of("stop", stop, get_args(Stop))
    _check_ids(model, bos=bos, eos=eos, pad=pad, prefix=prefix, banned=banned)
    if n_best > beam:
        raise ValueError(f"n_best must not exceed beam, but {n_best} > {beam}.")
    if len(prefix) + 1 + max_len > model.max_len:
        raise ValueError(
            f"BOS, a prefix of {len(prefix)} and max_len={max_len} do not fit into the model's max_len={model.max_len}."
        )
    if src.shape[0] == 0:
        return []
    never = torch.tensor(sorted({*banned, bos, pad} - {eos}), device=src.device)
    search = _Search(model, beam, n_best, max_len, length_penalty, [bos, *prefix], eos, pad, never, stop)
    with in_mode(model, False):
        return search.run(src)


def _check_ids(
    model: Transformer, *, bos: int, eos: int, pad: int, prefix: Sequence[int], banned: Sequence[int]
) -> None:
    for name, ids in {"bos": [bos], "eos": [eos], "pad": [pad], "prefix": prefix, "banned": banned}.items():
        if any(not 0 <= i < model.vocab_size for i in ids):
            raise ValueError(f"{name}: {list(ids)} is not within the vocabulary of {model.vocab_size} ids.")
    if pad != model.pad:
        raise ValueError(f"pad is {pad}, but the model was built with pad={model.pad}.")
    if eos == pad or eos in banned:
        raise ValueError("eos must differ from pad and must not be banned: no translation could end.")


@dataclass(frozen=True)
class _Search:
    """The options of `beam_search`, and one method for each part of its loop."""

    model: Transformer
    beam: int
    n_best: int
    max_len: int
    length_penalty: float
    start: list[int]  # BOS and the prefix
    eos: int
    pad: int
    never: Tensor  # ids that must not be produced
    stop: Stop

    def run(self, src: Tensor) -> list[list[Hypothesis]]:
        """src [sentences, src_len] -> n_best hypotheses of each sentence."""
        results: list[list[Hypothesis]] = [[] for _ in range(len(src))]
        place = torch.arange(len(src), device=src.device)  # the index in `results` of each sentence of the batch
        logp, last, state = self._begin(src)
        tokens = src.new_empty(len(src), 1, 0)  # [sentences, hypotheses, length]; one hypothesis until the first step
        finished = _Finished(
            logp.new_full((len(src), self.beam), -math.inf),
            src.new_full((len(src), self.beam, self.max_len), self.pad),
            self.pad,
        )
        for length in range(self.max_len + 1):
            logp, parent, token = self._extensions(logp, self._next_logp(last, length))  # steps 1 and 2
            ends = token == self.eos
            score = logp.masked_fill(~ends, -math.inf)[:, : self.beam] / self._norm(length + 1)
            finished = finished.add(score, _pick(tokens, parent[:, : self.beam]))  # step 3

            logp, alive = _best(logp.masked_fill(ends, -math.inf), self.beam)  # step 4
            parent, token = parent.gather(1, alive), token.gather(1, alive)
            rows = parent + tokens.shape[1] * torch.arange(len(tokens), device=src.device)[:, None]
            tokens = torch.cat([_pick(tokens, parent), token[:, :, None]], dim=2)

            done = self._decided(logp[:, 0], length + 1, finished)  # step 5
            stay = (~done).nonzero()[:, 0]  # only here Python waits for the device
            if len(stay) < len(done):
                leave = done.nonzero()[:, 0]
                ready = finished.keep(leave).as_lists(self.n_best)
                for i, hypotheses in zip(place[leave].tolist(), ready, strict=True):
                    results[i] = hypotheses
                if len(stay) == 0:
                    break
                place, logp, tokens, rows = place[stay], logp[stay], tokens[stay], rows[stay]
                finished = finished.keep(stay)
                state.select_sentences(stay)
            state.select_rows(rows.flatten())
            last = self.model.decode(tokens[:, :, -1].reshape(-1, 1), state)[:, -1]
        if not all(results):
            raise ValueError("no translation has a finite score: the model's weights are probably NaN or infinite.")
        return results

    def _begin(self, src: Tensor) -> tuple[Tensor, Tensor, DecoderState]:
        """Read source, BOS and prefix -> (log p(prefix) [sentences, 1], last state [sentences, d_model], cache)."""
        state = self.model.start(self.model.encode(src), src)
        forced = src.new_tensor(self.start).expand(len(src), -1)
        hidden = self.model.decode(forced, state)
        logp = self._logp(hidden[:, :-1]).gather(2, forced[:, 1:, None])  # [sentences, prefix, 1]
        return logp.sum(1), hidden[:, -1], state

    def _logp(self, hidden: Tensor) -> Tensor:
        """hidden [..., d_model] -> log-probabilities [..., vocab], in float32 or better even under autocast."""
        logits = self.model.project(hidden)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def _next_logp(self, hidden: Tensor, length: int) -> Tensor:
        """hidden [rows, d_model] -> [rows, vocab]: -inf for what may not follow `length` tokens."""
        logp = self._logp(hidden)
        if length < self.max_len:
            return logp.index_fill_(1, self.never, -math.inf)
        eos = logp[:, self.eos].clone()
        logp.fill_(-math.inf)[:, self.eos] = eos
        return logp

    def _extensions(self, logp: Tensor, next_logp: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2 * beam best one-token extensions of each sentence's hypotheses.

        logp [sentences, hypotheses], next_logp [rows, vocab] -> (log p, parent hypothesis, token), each
        [sentences, 2 * beam] (or as many as there are), best first.
        """
        sentences, hypotheses = logp.shape
        vocab = next_logp.shape[-1]
        top, token = next_logp.topk(min(2 * self.beam, vocab))
        total = (logp.reshape(-1, 1) + top).view(sentences, -1)
        row = torch.arange(hypotheses, device=logp.device)[:, None] * vocab
        index = (row + token.view(sentences, hypotheses, -1)).view(sentences, -1)
        # First sort by (hypothesis, token), so that the stable sort in _best breaks ties in this order.
        index, order = index.sort(1)
        total, order = _best(total.gather(1, order), 2 * self.beam)
        index = index.gather(1, order)
        return total, index.div(vocab, rounding_mode="floor"), index % vocab

    def _norm(self, length: int) -> float:
        """The divisor of log p: (prefix + length)^length_penalty, where `length` counts EOS."""
        return float((len(self.start) - 1 + length) ** self.length_penalty)

    def _decided(self, best_logp: Tensor, length: int, finished: _Finished) -> Tensor:
        """[sentences] which are done. Live hypotheses have `length` tokens; the best of a sentence has `best_logp`."""
        if length > self.max_len:
            return torch.ones_like(best_logp, dtype=torch.bool)
        if self.stop == "full" or self.beam == 1:
            return finished.score[:, -1].isfinite() | best_logp.isneginf()
        # log p <= 0 can only fall, and the divisor lies between that of an EOS now and that of the last possible EOS.
        norms = self._norm(length + 1), self._norm(self.max_len + 1)
        bound = torch.maximum(best_logp / norms[0], best_logp / norms[1])
        return finished.score[:, self.n_best - 1] >= bound


@dataclass(frozen=True)
class _Finished:
    """The best finished hypotheses of each sentence, best first; the score of an empty place is -inf."""

    score: Tensor  # [sentences, beam]
    tokens: Tensor  # [sentences, beam, max_len], filled up with pad
    pad: int

    def add(self, score: Tensor, tokens: Tensor) -> _Finished:
        """Add candidates: score [sentences, more] (-inf if not finished), tokens [sentences, more, length]."""
        tokens = F.pad(tokens, (0, self.tokens.shape[-1] - tokens.shape[-1]), value=self.pad)
        score, order = _best(torch.cat([self.score, score], dim=1), self.score.shape[1])
        return replace(self, score=score, tokens=_pick(torch.cat([self.tokens, tokens], dim=1), order))

    def keep(self, sentences: Tensor) -> _Finished:
        """Only the hypotheses of `sentences` [fewer]."""
        return replace(self, score=self.score[sentences], tokens=self.tokens[sentences])

    def as_lists(self, n_best: int) -> list[list[Hypothesis]]:
        """The n_best of each sentence. A search never produces pad, so pads only fill up the end of a translation."""
        rows = zip(self.score[:, :n_best].tolist(), self.tokens[:, :n_best].tolist(), strict=True)
        return [
            [Hypothesis([token for token in tokens if token != self.pad], score)
             for score, tokens in zip(*row, strict=True) if score > -math.inf]  # neither an empty place nor NaN
            for row in rows
        ]  # fmt: skip


def _best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest of each row [rows, n] and their places, best first; equal ones keep their order."""
    values, order = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], order[:, :k]


def _pick(tokens: Tensor, which: Tensor) -> Tensor:
    """tokens [sentences, hypotheses, length], which [sentences, k] -> [sentences, k, length]."""
    return tokens.gather(1, which[:, :, None].expand(-1, -1, tokens.shape[2]))
