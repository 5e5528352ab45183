"""Several models that translate as one: their probabilities are averaged, token by token."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pmd_lite.errors import UserError
from pmd_lite.model.transformer import DecoderState, Transformer


class EnsembleState(list[DecoderState]):
    """The members' decoder states; they select rows and sentences together."""

    def select_rows(self, rows: Tensor) -> None:
        """As `DecoderState.select_rows`."""
        for state in self:
            state.select_rows(rows)

    def select_sentences(self, sentences: Tensor) -> None:
        """As `DecoderState.select_sentences`."""
        for state in self:
            state.select_sentences(sentences)


class Ensemble(nn.Module):
    """p(y_t | y_<t, x) = mean of the members' p; decoding and scoring use it in place of a `Transformer`.

    The members' states are concatenated: [..., d_1 + d_2 + ...]. `project` returns the log of the mean probability;
    log-softmax does not change it.
    Raises UserError without members, or for members of different vocabularies.
    """

    def __init__(self, members: Sequence[Transformer]):
        super().__init__()
        if not members or len({(m.vocab_size, m.pad) for m in members}) > 1:
            raise UserError("an ensemble takes at least one model, and all models need the same vocabulary")
        self.models = nn.ModuleList(members)
        self.members = list(members)
        self.vocab_size, self.pad = members[0].vocab_size, members[0].pad
        self.max_len = min(m.max_len for m in members)
        self.widths = [m.output_weight.shape[1] for m in members]

    def encode(self, src: Tensor) -> list[Tensor]:
        """src [batch, src_len] -> each member's memory [batch, src_len, d_model]."""
        return [member.encode(src) for member in self.members]

    def start(self, memory: Sequence[Tensor], src: Tensor) -> EnsembleState:
        """Every member's state before the first token."""
        return EnsembleState(m.start(states, src) for m, states in zip(self.members, memory, strict=True))

    def decode(self, trg_in: Tensor, state: EnsembleState) -> Tensor:
        """trg_in [rows, length] -> the members' last states, concatenated [rows, length, d_1 + d_2 + ...]."""
        return torch.cat([m.decode(trg_in, s) for m, s in zip(self.members, state, strict=True)], dim=-1)

    def hidden(self, src: Tensor, trg_in: Tensor) -> Tensor:
        """src [batch, src_len], trg_in [batch, trg_len] -> [batch, trg_len, d_1 + d_2 + ...]."""
        return self.decode(trg_in, self.start(self.encode(src), src))

    def project(self, hidden: Tensor) -> Tensor:
        """[..., d_1 + d_2 + ...] -> log of the mean probability [..., vocab], nats, fp32 or better."""
        parts = zip(self.members, hidden.split(self.widths, dim=-1), strict=True)
        logps = [m.project(part).log_softmax(-1, dtype=torch.promote_types(part.dtype, torch.float32))
                 for m, part in parts]  # fmt: skip
        return torch.stack(logps).logsumexp(0) - math.log(len(logps))
