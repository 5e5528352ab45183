"""Dev loss per pair: plain NLL and label-smoothed cross-entropy together, with one device sync."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.data.batching import Batch
from pmd_lite.distillation.losses import ce_loss, log_probs, nll, token_logits
from pmd_lite.training.learner import Learner


def dev_losses(learner: Learner, batches: Sequence[Batch], n_pairs: int) -> Tensor:
    """Mean dev losses of one model.

    Args:
        batches: the whole dev set, on the learner's device.
    Returns: [2, pair] float64 on the CPU, nats per target token: row 0 NLL, row 1 label-smoothed cross-entropy.
    The model's mode is put back; no gradient, no random number.
    """
    model, was_training = learner.model, learner.model.training
    sums = torch.zeros(2, n_pairs, dtype=torch.float32 if learner.device.type == "mps" else torch.float64)
    sums = sums.to(learner.device)
    tokens = torch.zeros(n_pairs, dtype=torch.float64)
    model.eval()
    try:
        with torch.inference_mode(), learner.autocast():
            for batch in batches:
                logp = log_probs(token_logits(model, batch.src, batch.trg_in, batch.keep))
                smoothed = ce_loss(logp, batch.gold, learner.config.optim.label_smoothing)
                sums[:, batch.pair] += torch.stack([nll(logp, batch.gold), smoothed])
                tokens[batch.pair] += batch.tokens
    finally:
        model.train(was_training)
    return sums.cpu().double() / tokens
