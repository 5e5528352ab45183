"""Our Transformer as a CTranslate2 model: the same network in a C++ engine that decodes fast on CPUs and GPUs.

CTranslate2 supports pre- and post-norm, a norm on the embeddings, our activations, tables of positions and a bias of
the output, and it stores equal tables once. So every choice of `norm`, `tie`, `embedding_norm`, `activation` and
`output_bias` has an exact equivalent. Its layers hold queries, keys and values in one matrix, in our order. So each of
our parts corresponds to one of its parts.
"""

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pmd_lite.data.tokenizer import BOS, EOS, PAD, UNK
from pmd_lite.errors import UserError
from pmd_lite.evaluation.translation import Engine
from pmd_lite.exchange.huggingface import optional, shape_of
from pmd_lite.model.decoding import Hypothesis
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


class CTranslate2(Engine):
    """A model of ours in this engine, in float32, on the model's device if CTranslate2 knows it, else on the CPU.

    It ends a search as our stop="full" does, and forbidden tokens leave the softmax, so sometimes it finds another
    translation than ours, with about the same score.
    """

    def __init__(self, model: Transformer):
        """Raises UserError if the package is not installed, or if the model is an `Ensemble`."""
        if not isinstance(model, Transformer):
            raise UserError("CTranslate2 translates with one model, not with an ensemble")
        self.max_len, device = model.max_len, next(model.parameters()).device
        with tempfile.TemporaryDirectory() as folder:  # the name of an id is its digits
            save_ctranslate2(model, list(map(str, range(model.vocab_size))), Path(folder), unk=UNK, bos=BOS, eos=EOS)
            self._translator = optional("ctranslate2").Translator(
                folder, device="cuda" if device.type == "cuda" else "cpu", device_index=device.index or 0,
                compute_type="float32", inter_threads=1, intra_threads=torch.get_num_threads(),
            )  # fmt: skip

    def find(self, sources: Sequence[Sequence[int]], **options: Any) -> list[Hypothesis]:
        """See `Engine.find`."""
        prefix, max_len, never = options["prefix"], options["max_len"], (PAD, BOS, *options["banned"])
        found = self._translator.translate_batch(
            [list(map(str, ids)) for ids in sources], target_prefix=[list(map(str, prefix))] * len(sources),
            beam_size=options["beam"], length_penalty=options["length_penalty"], min_decoding_length=0,
            max_decoding_length=max_len + 1 + len(prefix), suppress_sequences=[[str(i)] for i in never],
            return_scores=True,
        )  # fmt: skip
        tokens = [[int(name) for name in result.hypotheses[0][len(prefix) :][:max_len]] for result in found]
        return [Hypothesis(ids, result.scores[0]) for ids, result in zip(tokens, found, strict=True)]


def in_ctranslate2(model: Transformer) -> Transformer | CTranslate2:
    """The model in CTranslate2, or itself, with a warning that says why, where that is impossible."""
    try:
        return CTranslate2(model)
    except (UserError, RuntimeError, ValueError) as error:  # the last two: no CUDA in this build of CTranslate2
        warnings.warn(f"our own beam search translates: {error}", stacklevel=3)
        return model


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
    from ctranslate2.specs.model_spec import index_spec

    shape = shape_of(model)
    spec = specs.TransformerSpec.from_config(
        (shape["encoder_layers"], shape["decoder_layers"]), shape["heads"], pre_norm=shape["norm"] == "pre",
        activation=Activation[shape["activation"].upper()], layernorm_embedding=shape["embedding_norm"],
    )  # fmt: skip
    spec.encoder.embeddings[0].weight = _array((model.src_embedding or model.embedding).weight)
    spec.decoder.embeddings.weight = _array(model.embedding.weight)
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    for side, short in (("encoder", "src"), ("decoder", "trg")):
        theirs = getattr(spec, side)
        theirs.position_encodings.encodings = _array(model.positions)
        for ours, place in ((f"{short}_embedding_norm", "layernorm_embedding"), (f"{side}_norm", "layer_norm")):
            if isinstance(module := model.get_submodule(ours), nn.LayerNorm):
                _fill(index_spec(theirs, place), module)
        for i, layer in enumerate(model.get_submodule(side).children()):
            for ours, place in {**_LAYER, **(_CROSS if side == "decoder" else {})}.items():
                _fill(index_spec(theirs.layer[i], place), layer.get_submodule(ours))
    spec.register_source_vocabulary(list(vocabulary))
    spec.register_target_vocabulary(list(vocabulary))
    spec.config.unk_token, spec.config.eos_token = vocabulary[unk], vocabulary[eos]
    spec.config.bos_token = spec.config.decoder_start_token = vocabulary[bos]
    spec.validate()
    spec.optimize()
    spec.save(str(out))


def _fill(theirs: Any, module: nn.Module) -> None:
    """A linear map or a norm. Both have weight and bias; CTranslate2's norm calls them gamma and beta."""
    names = ("gamma", "beta") if isinstance(module, nn.LayerNorm) else ("weight", "bias")
    for name, part in zip(names, ("weight", "bias"), strict=True):
        setattr(theirs, name, _array(module.get_parameter(part)))


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()
