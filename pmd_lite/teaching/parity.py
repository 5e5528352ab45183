"""The same network in other hands: our Transformer with the weights of Hugging Face's Marian gives the same logits."""

from __future__ import annotations

from typing import Any

import torch

from pmd_lite.model.transformer import Transformer

# Names of the parts of a layer: Marian's -> ours. Lists are put on top of each other in one matrix.
_LAYER = {
    "self_attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention.out": ["self_attn.out_proj"],
    "self_residual.norm": ["self_attn_layer_norm"],
    "feed_forward.inner": ["fc1"],
    "feed_forward.outer": ["fc2"],
    "ffn_residual.norm": ["final_layer_norm"],
}
_DECODER = {
    "cross_attention.query": ["encoder_attn.q_proj"],
    "cross_attention.kv": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross_attention.out": ["encoder_attn.out_proj"],
    "cross_residual.norm": ["encoder_attn_layer_norm"],
}


def from_marian(marian: Any) -> Transformer:
    """Our Transformer in eval mode with the weights of a `MarianMTModel` whose tables are shared.

    Marian has an output bias, ours has none; ValueError if it is not zero.
    """
    if marian.final_logits_bias.any():
        raise ValueError("this Marian model has an output bias, for which our Transformer has no place.")
    c = marian.config
    ours = Transformer(
        c.vocab_size, d_model=c.d_model, heads=c.encoder_attention_heads, encoder_layers=c.encoder_layers,
        decoder_layers=c.decoder_layers, ffn=c.encoder_ffn_dim, norm="post", tie="all", dropout=0.0,
        activation=c.activation_function, max_len=c.max_position_embeddings, pad=c.pad_token_id,
    )  # fmt: skip
    state = {"embedding.weight": marian.model.decoder.embed_tokens.weight}
    for side, layers in (("encoder", marian.model.encoder.layers), ("decoder", marian.model.decoder.layers)):
        for i, layer in enumerate(layers):
            for name, theirs in {**_LAYER, **(_DECODER if side == "decoder" else {})}.items():
                for part in ("weight", "bias"):
                    found = [layer.get_submodule(module).get_parameter(part) for module in theirs]
                    state[f"{side}.{i}.{name}.{part}"] = torch.cat(found)
    ours.load_state_dict(state)
    return ours.eval()


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
        return float((from_marian(marian)(src, trg_in) - theirs).abs().max())
