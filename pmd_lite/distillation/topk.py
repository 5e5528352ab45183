"""A frozen teacher's predictions, cut to its k best tokens: from a forward pass, or from a cache on disk.

A cache takes 6 k bytes for every target token of the training data: 32-bit ids and 16-bit logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pmd_lite.data.batching import Batch, eval_batches
from pmd_lite.data.tokens import EncodedSplit, Ints
from pmd_lite.disk import check_seal, new_directory, remove, seal
from pmd_lite.distillation.losses import log_probs, probs
from pmd_lite.distillation.projection import chunks, output_of, project, token_states
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Scratch
from pmd_lite.model.mode import in_mode


@dataclass(frozen=True)
class TopK:
    """A teacher's k most probable tokens at every target position."""

    ids: Tensor
    """[tokens, k] int64."""
    logits: Tensor
    """[tokens, k] float32; only differences within a row have a meaning."""


def top_k(logits: Tensor, k: int) -> TopK:
    """The k largest logits of every row. k = 0 or k >= vocab keeps all. logits: [tokens, vocab]."""
    vocab = logits.shape[-1]
    if k == 0 or k >= vocab:
        return TopK(torch.arange(vocab, device=logits.device).expand(len(logits), vocab), logits.float())
    best = logits.float().topk(k)
    return TopK(best.indices, best.values)


@dataclass(frozen=True)
class TopKTarget:
    """L_kd = -theta^2 sum_k q_k log p_k, chunk by chunk (Tan et al. 2019; see `interfaces.Target`).

    q is the softmax of the teacher's k logits alone, p the student's softmax over the whole vocabulary, both at the
    temperature theta > 0. With all tokens kept and theta = 1 it is Eq. 3.
    """

    best: TopK
    temperature: float

    def kd(self, rows: slice, logits: Tensor, scratch: Scratch, each: bool) -> tuple[Tensor, Tensor, float]:
        """theta^2 times the cross-entropy to q at temperature theta; its gradient on z is theta (p_theta - q)."""
        theta, ids = self.temperature, self.best.ids[rows]
        q = probs(self.best.logits[rows] / theta).to(logits.dtype)
        if theta == 1:
            return -(q * logits.gather(-1, ids)).sum(-1), scratch[1].zero_().scatter_add_(-1, ids, q), 1.0
        logp = log_probs(logits / theta)
        rest = -(theta**2) * (q * logp.gather(-1, ids)).sum(-1)
        return rest, logp.exp_().mul_(-theta).scatter_add_(-1, ids, theta * q), 0.0

    def gold_logp(self, rows: slice, gold: Tensor) -> Tensor:
        """[chunk] log q of the gold tokens, -inf where they are not among the best."""
        logq = log_probs(self.best.logits[rows] / self.temperature)
        return logq.masked_fill(self.best.ids[rows] != gold[:, None], -torch.inf).amax(-1)


def teacher_top_k(teacher: nn.Module, batch: Batch, k: int) -> TopK:
    """A teacher's forward pass without dropout or gradient, cut to k. The teacher keeps its mode."""
    with in_mode(teacher, False), torch.no_grad():
        hidden, output = token_states(teacher, batch.src, batch.trg_in, batch.keep), output_of(teacher)
        parts = [top_k(project(hidden[rows], output), k) for rows in chunks(len(hidden), len(output.weight))]
    return TopK(torch.cat([part.ids for part in parts]), torch.cat([part.logits for part in parts]))


class TopKCache:
    """The k best tokens of every pair's teacher at every target position of the training data, memory-mapped."""

    def __init__(
        self, ids: Sequence[npt.NDArray[np.int32]], logits: Sequence[npt.NDArray[np.float16]], lengths: Sequence[Ints]
    ):
        """Per pair: ids and logits [token, k], sentence after sentence, and lengths [sentence]."""
        self._ids, self._logits, self._lengths = ids, logits, lengths
        self._starts = [_starts(x) for x in lengths]

    @classmethod
    def build(
        cls, folder: Path, teachers: Sequence[nn.Module], splits: Sequence[EncodedSplit], k: int, budget: int,
        device: torch.device,
    ) -> Self:  # fmt: skip
        """Open the cache in `folder`; if there is none, make it first.

        Args:
            folder: belongs to these teachers and this training data; it appears whole or not at all.
            teachers, splits: one for each pair. device: where the teachers are.
            k: tokens kept at each position. budget: tokens in a batch while the cache is made.
        Raises: UserError when the cache cannot be written, is damaged, or was made for another k or other data.
        While the cache is made, memory holds the predictions of one pair.
        """
        if not folder.exists():
            for left_over in folder.parent.glob(f"{folder.name}.*.part"):  # by a process that was killed
                remove(left_over)
            with new_directory(folder, then="give the same command again, or set md_cache=False") as part:
                for pair, (teacher, split) in enumerate(zip(teachers, splits, strict=True)):
                    best_ids, best_logits = _predictions(teacher, split, pair, k, budget, device)
                    np.save(_file(part, pair, k, "ids"), best_ids)
                    np.save(_file(part, pair, k, "logits"), best_logits)
                seal(part)
        check_seal(folder)
        ids, logits = (
            [_open(_file(folder, pair, k, what), split.trg_tokens) for pair, split in enumerate(splits)]
            for what in ("ids", "logits")
        )
        return cls(ids, logits, [split.trg.lengths for split in splits])

    def read(self, batch: Batch) -> TopK:
        """The predictions for the batch's target tokens by the teacher of its pair, on the batch's device."""
        lengths, starts = self._lengths[batch.pair], self._starts[batch.pair]
        at, device = _positions(starts, lengths, batch.rows), batch.gold.device
        ids, logits = (torch.from_numpy(x[batch.pair][at]).to(device) for x in (self._ids, self._logits))
        return TopK(ids.long(), logits.float())


def _starts(lengths: Ints) -> Ints:
    """[sentence] first position of each sentence when all are concatenated."""
    return np.cumsum(lengths) - lengths


def _positions(starts: Ints, lengths: Ints, rows: Ints) -> Ints:
    """[tokens] positions in the file of these sentences' target tokens, in the order of `Batch.gold`."""
    long = lengths[rows]
    return np.repeat(starts[rows] - _starts(long), long) + np.arange(int(long.sum()))


def _predictions(
    teacher: nn.Module, split: EncodedSplit, pair: int, k: int, budget: int, device: torch.device
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float16]]:
    """[token, k] ids and logits of one pair, sentence after sentence. The best logit is 0, as float16 ends at 65504."""
    order, ids, logits = [], [], []
    starts = _starts(split.trg.lengths)
    with torch.inference_mode():
        for batch in eval_batches(split, pair, budget):
            best = teacher_top_k(teacher, batch.to(device), k)
            order.append(_positions(starts, split.trg.lengths, batch.rows))
            ids.append(best.ids.int().cpu().numpy())
            logits.append((best.logits - best.logits.amax(-1, keepdim=True)).half().cpu().numpy())
    back = np.argsort(np.concatenate(order))
    return np.concatenate(ids)[back], np.concatenate(logits)[back]


def _file(folder: Path, pair: int, k: int, what: str) -> Path:
    """The name holds k, so that a cache made for another k is never read as this one."""
    return folder / f"pair{pair}.top{k}.{what}.npy"


def _open(path: Path, tokens: int) -> npt.NDArray[Any]:
    """One file of a cache whose seal is whole, memory-mapped, [tokens, k]."""
    values = np.asarray(np.load(path, mmap_mode="r") if path.exists() else ())
    if len(values) != tokens:
        what = f"{path}: the teachers' predictions were made for another k or other data"
        raise UserError(f"{what}. Delete {path.parent}; it is made again.")
    return values
