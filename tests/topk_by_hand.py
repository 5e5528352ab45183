"""Multi-Distill's loss in its plainest form; `TopKTarget` computes it chunk by chunk."""

from torch import Tensor

from pmd_lite.distillation.losses import log_probs, probs
from pmd_lite.distillation.topk import TopK


def top_k_kd(student_logp: Tensor, target: TopK, temperature: float) -> Tensor:
    """-theta^2 sum_k q_k log p_k, summed over tokens (Tan et al. 2019). No gradient flows to the teacher.

    Args:
        student_logp: [tokens, vocab] log-probabilities, or logits: a constant added to a row changes no softmax.
        target: q is the softmax of its k logits alone, at the same temperature.
        temperature: theta > 0. p is the student's softmax at theta over the whole vocabulary.
    Returns: [] nats. With all tokens kept and theta = 1 it is Eq. 3. A token with q = 0 costs nothing, as in Eq. 3.
    """
    q = probs(target.logits.detach() / temperature)
    logp = log_probs(student_logp / temperature).gather(-1, target.ids)
    return -(temperature**2) * (q * logp.masked_fill(q == 0, 0)).sum()
