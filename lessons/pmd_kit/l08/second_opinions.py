"""What several models get right, token by token: has the worse one anything to teach the better one?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pmd_lite.data.batching import eval_batches
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.distillation.losses import token_logits
from pmd_lite.errors import UserError
from pmd_lite.run import Run


def right_tokens(models: Sequence[tuple[Run, int]], corpus: Corpus) -> dict[str, Tensor]:
    """Whether each model's first choice for the next dev token is the reference's, given the reference so far.

    Args:
        models: (run, student), all with the same tokenizer.
        corpus: the one they were trained on.
    Returns: {pair: [model, tokens] bool}. Raises UserError when the tokenizers differ, for then tokens do.
    """
    found: dict[str, list[Tensor]] = {pair: [] for pair in corpus.pairs}
    gold: dict[str, Tensor] = {}
    for run, student in models:
        encoded, model = encode_corpus(corpus, run.tokenizer, run.config.model.max_len), run.model(student)
        device = next(model.parameters()).device
        for i, pair in enumerate(encoded.pairs):
            batches = [b.to(device) for b in eval_batches(encoded.valid[i], i, 2 * run.config.train.tokens)]
            with torch.inference_mode():
                choices = [token_logits(model, b.src, b.trg_in, b.keep).argmax(dim=-1) for b in batches]
            tokens = torch.cat([b.gold for b in batches]).cpu()
            if not torch.equal(gold.setdefault(pair, tokens), tokens):
                raise UserError(f"{run.path} cuts text into other tokens than the first model; give it its tokenizer.")
            found[pair].append(torch.cat(choices).cpu() == tokens)
    return {pair: torch.stack(rows) for pair, rows in found.items()}
