"""Our Transformer as a CTranslate2 model: the same network in a C++ engine that decodes fast on CPUs and GPUs.

CTranslate2 supports pre- and post-norm, a norm on the embeddings, our activations, tables of positions and a bias of
the output, and it stores equal tables once. So every choice of `norm`, `tie`, `embedding_norm`, `activation` and
`output_bias` has an exact equivalent. Its layers hold queries, keys and values in one matrix, in our order. So each of
our parts corresponds to one of its parts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from pmd_lite.exchange.huggingface import optional, shape_of
from pmd_lite.model.transformer import Transformer

# Our parts -> CTranslate2's.
_LAYER = {
    "self_attention.qkv": "self_attention/linear_0",
    "self_attention.out": "self_attention/linear_1",
    "self_residual.norm": "self_attention/layer_norm",
    "feed_forward.inner": "ffn/linear_0",
    "feed_forward.outer": "ffn/linear_1",
    "ffn_residual.norm": "ffn/layer_norm",
}
_CROSS = {
    "cross_attention.query": "attention/linear_0",
    "cross_attention.kv": "attention/linear_1",
    "cross_attention.out": "attention/linear_2",
    "cross_residual.norm": "attention/layer_norm",
}
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}


def save_ctranslate2(
    model: Transformer, vocabulary: Sequence[str], out: Path, *, unk: int, bos: int, eos: int
) -> None:  # fmt: skip
    """Write model.bin (float32), config.json and shared_vocabulary.json into the directory `out`, which exists.

    vocabulary: [vocab] the name of each id, all different; CTranslate2 reads and returns names. It adds no tokens to a
    source: the caller adds the tag and EOS. Raises UserError if ctranslate2 is not installed.
    """
    optional("ctranslate2")
    from ctranslate2 import specs
    from ctranslate2.specs.common_spec import Activation

    shape = shape_of(model)
    spec = specs.TransformerSpec.from_config(
        (shape["encoder_layers"], shape["decoder_layers"]), shape["heads"], pre_norm=shape["norm"] == "pre",
        activation=Activation[_ACTIVATIONS[shape["activation"]]], layernorm_embedding=shape["embedding_norm"],
    )  # fmt: skip
    spec.encoder.embeddings[0].weight = _array((model.src_embedding or model.embedding).weight)
    spec.decoder.embeddings.weight = _array(model.embedding.weight)
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    for side, theirs in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        _fill_side(model, side, theirs)
    spec.register_source_vocabulary(list(vocabulary))
    spec.register_target_vocabulary(list(vocabulary))
    spec.config.unk_token, spec.config.eos_token = vocabulary[unk], vocabulary[eos]
    spec.config.bos_token = spec.config.decoder_start_token = vocabulary[bos]
    spec.validate()
    spec.optimize()
    spec.save(str(out))


def _fill_side(model: Transformer, side: str, theirs: Any) -> None:
    from ctranslate2.specs.model_spec import index_spec

    theirs.position_encodings.encodings = _array(model.positions)
    norms = {f"{'src' if side == 'encoder' else 'trg'}_embedding_norm": "layernorm_embedding",
             f"{side}_norm": "layer_norm"}  # fmt: skip
    for ours, place in norms.items():
        if isinstance(module := model.get_submodule(ours), nn.LayerNorm):
            _fill(index_spec(theirs, place), module)
    for i, layer in enumerate(model.get_submodule(side).children()):
        for ours, place in {**_LAYER, **(_CROSS if side == "decoder" else {})}.items():
            _fill(index_spec(theirs.layer[i], place), layer.get_submodule(ours))


def _fill(theirs: Any, module: nn.Module) -> None:
    """A linear map or a norm. Both have weight and bias; CTranslate2's norm calls them gamma and beta."""
    names = ("gamma", "beta") if isinstance(module, nn.LayerNorm) else ("weight", "bias")
    for name, part in zip(names, ("weight", "bias"), strict=True):
        setattr(theirs, name, _array(module.get_parameter(part)))


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()
