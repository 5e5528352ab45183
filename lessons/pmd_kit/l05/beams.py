"""The hypotheses of a beam search with the probability of every word: what the beam explorer draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from pmd_kit.l05.figures import Branch
from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from pmd_lite.model.decoding import beam_search
from pmd_lite.model.transformer import Transformer


@torch.no_grad()
def token_logps(model: Transformer, src: torch.Tensor, tokens: list[int]) -> list[float]:
    """log p of each token of a translation of src [1, src_len], EOS included, in one forward pass."""
    trg = torch.tensor([[BOS, *tokens, EOS]], device=src.device)
    logp = model(src, trg[:, :-1]).log_softmax(-1)
    return list(logp.gather(2, trg[:, 1:, None])[0, :, 0].tolist())


def branches(
    model: Transformer, tokenizer: Tokenizer, pair: str, source: str, *, beam: int, length_penalty: float = 1.0,
    max_len: int = 40,
) -> list[Branch]:  # fmt: skip
    """All hypotheses that a beam search of this width ends with, best first.

    For tokenizers without a decoder tag, as the toy languages have. Pieces are put together to words, whose log p is
    the sum over their pieces; the score is log p / length ** length_penalty with the length in pieces.
    """
    src = torch.tensor([tokenizer.encode_src(source, pair)], device=next(model.parameters()).device)
    (found,) = beam_search(
        model, src, beam=beam, n_best=beam, max_len=max_len, length_penalty=length_penalty, bos=BOS, eos=EOS, pad=PAD,
        banned=[UNK, *tokenizer.tags.values()],
    )  # fmt: skip
    result = []
    for hypothesis in found:
        logps = token_logps(model, src, hypothesis.tokens)
        words, of_words = whole_words([tokenizer.piece(t) for t in (*hypothesis.tokens, EOS)], logps)
        result.append(Branch(words, of_words, math.fsum(logps) / len(logps) ** length_penalty))
    return result


def whole_words(pieces: Sequence[str], logps: Sequence[float]) -> tuple[list[str], list[float]]:
    """Sentencepiece's pieces put together to words, and their log-probabilities added up.

    A piece that begins with U+2581 begins a word, and so does a special token such as </s>.
    """
    words: list[str] = []
    sums: list[float] = []
    for piece, logp in zip(pieces, logps, strict=True):
        if not words or piece.startswith(("\u2581", "<")):
            words.append("")
            sums.append(0.0)
        words[-1] += piece.removeprefix("\u2581")
        sums[-1] += logp
    return words, sums
