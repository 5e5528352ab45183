"""The same network in other hands: our Transformer with the weights of Hugging Face's Marian gives the same logits."""

from __future__ import annotations

from typing import Any

import torch

from pmd_lite.exchange.huggingface import from_huggingface


def marian_difference() -> float | None:
    """Largest difference between Marian's logits and ours for the same random weights; None without `transformers`."""
    try:
        from transformers import MarianConfig, MarianMTModel
    except ImportError:
        return None
    config = MarianConfig(
        vocab_size=40, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32,
        activation_function="relu", dropout=0.0, scale_embedding=True, pad_token_id=0, bos_token_id=0, eos_token_id=3,
        decoder_start_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        marian: Any = MarianMTModel(config)
        marian.eval()
        for name, p in marian.named_parameters():  # as they come the weights are so small that little would be proved
            if "embed_positions" not in name:
                torch.nn.init.normal_(p, mean=float(name.endswith("norm.weight")), std=0.3)
        src, trg_in = torch.randint(4, 40, (4, 9)), torch.randint(4, 40, (4, 7))
        src[1, 5:], src[2, 2:], trg_in[:, 0] = 0, 0, 0
        theirs = marian(input_ids=src, attention_mask=src.ne(0), decoder_input_ids=trg_in).logits
        return float((from_huggingface(marian)(src, trg_in) - theirs).abs().max())
