"""Our Transformer as a model of Hugging Face's transformers, and back: the same weights under other names.

Four of its classes have exactly our layers. A class is named after the checkpoint for which it was written (one is a
summariser); only the architecture matters here:

    norm   embedding_norm   class                              positions
    pre    no               PegasusForConditionalGeneration    sinusoids
    pre    yes              MBartForConditionalGeneration      a table, here holding the sinusoids
    post   no               MarianMTModel                      sinusoids
    post   yes              BartForConditionalGeneration       a table, here holding the sinusoids

Every choice of `tie`, `activation` and `output_bias` (there final_logits_bias) fits each class, so all our models can
be converted. In the other direction, we refuse models with unscaled embeddings, with other positions, or with an
encoder and a decoder that differ in heads, width or vocabulary.
"""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from pmd_lite.disk import opened
from pmd_lite.errors import UserError, reason
from pmd_lite.model.layers import ACTIVATIONS, EncoderLayer
from pmd_lite.model.transformer import Transformer

Shape = dict[str, Any]  # the arguments of Transformer other than vocab_size

_KINDS = {  # (norm, embedding_norm) -> the type in the config of transformers, and the class that generates
    ("pre", False): ("pegasus", "PegasusForConditionalGeneration"),
    ("pre", True): ("mbart", "MBartForConditionalGeneration"),
    ("post", False): ("marian", "MarianMTModel"),
    ("post", True): ("bart", "BartForConditionalGeneration"),
}

# Our parts -> those of transformers. If there are several, our part is their rows in one matrix, in this order.
_LAYER = {
    "self_attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention.out": ["self_attn.out_proj"],
    "self_residual.norm": ["self_attn_layer_norm"],
    "feed_forward.inner": ["fc1"],
    "feed_forward.outer": ["fc2"],
    "ffn_residual.norm": ["final_layer_norm"],
}
_CROSS = {
    "cross_attention.query": ["encoder_attn.q_proj"],
    "cross_attention.kv": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross_attention.out": ["encoder_attn.out_proj"],
    "cross_residual.norm": ["encoder_attn_layer_norm"],
}
_SIDES = (("encoder", "src"), ("decoder", "trg"))


def optional(package: str) -> Any:
    """The module of a package that only export needs. Raises UserError if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UserError(f'the package {package} is not installed: pip install "pmd_lite[export]"') from None


def shape_of(model: Transformer) -> Shape:
    """The arguments that `Transformer(vocab_size, **shape)` was built with."""
    layer = cast(EncoderLayer, model.encoder[0])  # the type of a ModuleList does not say what it holds
    attention, feed_forward = layer.self_attention, layer.feed_forward
    return {
        "d_model": model.d_model, "heads": attention.heads, "ffn": feed_forward.inner.out_features,
        "encoder_layers": len(model.encoder), "decoder_layers": len(model.decoder),
        "dropout": model.dropout, "attention_dropout": attention.dropout,
        "norm": "pre" if layer.self_residual.pre else "post",
        "tie": "all" if model.src_embedding is None else "decoder" if model.output is None else "none",
        "embedding_norm": isinstance(model.src_embedding_norm, nn.LayerNorm),
        "activation": next(name for name, function in ACTIVATIONS.items() if function is feed_forward.activation),
        "output_bias": model.output_bias is not None, "max_len": model.max_len, "pad": model.pad,
    }  # fmt: skip


def to_huggingface(model: Transformer, *, bos: int, eos: int) -> Any:
    """A model of transformers, in eval mode, with the weights of ours: equal logits up to rounding.

    bos: the id its decoder starts with. A tied table is one table there too, with one exception: classes other than
    Marian's can only tie all tables or none. For tie="decoder" they hold copies, and one more table that is never read.
    The random state does not change. Raises UserError without transformers.
    """
    transformers = optional("transformers")
    shape = shape_of(model)
    kind, name = _KINDS[shape["norm"], shape["embedding_norm"]]
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=model.vocab_size, d_model=shape["d_model"], max_position_embeddings=shape["max_len"],
        encoder_layers=shape["encoder_layers"], decoder_layers=shape["decoder_layers"],
        encoder_attention_heads=shape["heads"], decoder_attention_heads=shape["heads"],
        encoder_ffn_dim=shape["ffn"], decoder_ffn_dim=shape["ffn"], activation_function=shape["activation"],
        dropout=shape["dropout"], attention_dropout=shape["attention_dropout"], scale_embedding=True,
        tie_word_embeddings=shape["tie"] == "all" or (kind == "marian" and shape["tie"] == "decoder"),
        **({"share_encoder_decoder_embeddings": shape["tie"] == "all"} if kind == "marian" else {}),
        pad_token_id=shape["pad"], bos_token_id=bos, eos_token_id=eos, decoder_start_token_id=bos,
        forced_eos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        theirs = getattr(transformers, name)(config).eval()
    state = theirs.state_dict()
    own = {key: value.detach().float().cpu() for key, value in model.state_dict().items()}
    for ours, names in _names(shape):
        state.update(zip(names, own[ours].chunk(len(names)), strict=True))
    state.update((key, table) for key, table in _tables(own).items() if key in state)
    if shape["output_bias"]:
        state["final_logits_bias"] = own["output_bias"][None]
    for side, _ in _SIDES:
        key = f"model.{side}.embed_positions.weight"
        unused = len(state[key]) - model.max_len  # BART and mBART count from 2
        state[key] = torch.cat([torch.zeros(unused, model.d_model), model.positions.cpu()])
    theirs.load_state_dict(state)
    return theirs


def load_huggingface(directory: str | Path) -> Any:
    """The model of transformers in a directory, without any download. Raises UserError if there is none."""
    if not Path(directory).is_dir():
        raise UserError(f"{directory} is not a directory; give one that save_pretrained wrote, or a loaded model")
    auto = optional("transformers").AutoModelForSeq2SeqLM
    try:
        for path in (path for path in Path(directory).iterdir() if path.is_fifo() or path.is_char_device()):
            opened(path)  # refuses it: transformers would wait for a pipe, and read a device without end
        model, found = auto.from_pretrained(directory, local_files_only=True, output_loading_info=True)
    except Exception as error:  # OSError, UnpicklingError, SafetensorError, errors of its configuration classes, ...
        what = f"{directory}: transformers cannot load a model from it ({reason(error)})"
        raise UserError(f"{what}. Save the model again with save_pretrained, as model.safetensors") from None
    for what in ("missing", "unexpected", "mismatched"):  # transformers would fill gaps with random numbers
        if names := sorted(map(str, found[f"{what}_keys"])):
            listed = ", ".join(names[:3])
            raise UserError(f"{directory}: its weights are not those that config.json describes; {what}: {listed}")
    return model


def from_huggingface(source: Any) -> Transformer:
    """Our Transformer, in eval mode, with the weights of a model of transformers, or of the directory of one.

    It takes what `to_huggingface` writes, also after fine-tuning if position tables were not trained, and any Marian,
    Pegasus, BART or mBART model that is not refused (see above). Dropout is taken over, except dropout inside the
    feed-forward layers, which ours do not have. Raises a UserError that names what does not fit.
    """
    if isinstance(source, (str, Path)):
        source = load_huggingface(source)
    theirs = {key: value.detach().float().cpu() for key, value in source.state_dict().items()}
    shape = _shape_of_theirs(source.config, theirs)
    with torch.random.fork_rng(devices=[]):
        ours = Transformer(source.config.vocab_size, **shape)
    for side, _ in _SIDES:
        positions = theirs[f"model.{side}.embed_positions.weight"][-shape["max_len"] :]
        # Sinusoids of other implementations differ in the last digits; those stored in bf16 have only two exact digits.
        if not torch.allclose(positions, ours.positions, atol=5e-3):
            raise UserError(f"embed_positions of the {side} are not sinusoidal; our Transformer has no others")
    state = {name: torch.cat([theirs[key] for key in names]) for name, names in _names(shape)}
    state["embedding.weight"] = theirs["model.decoder.embed_tokens.weight"]
    if shape["tie"] != "all":
        state["src_embedding.weight"] = theirs["model.encoder.embed_tokens.weight"]
    if shape["tie"] == "none":
        state["output.weight"] = theirs["lm_head.weight"]
    if shape["output_bias"]:
        state["output_bias"] = theirs["final_logits_bias"][0]
    ours.load_state_dict(state)
    return ours.eval()


def _names(shape: Shape) -> Iterator[tuple[str, list[str]]]:
    """(name in our state, names in that of transformers) of all parameters but the tables of tokens and positions."""
    for part in ("weight", "bias"):
        for side, short in _SIDES:
            for i in range(shape[f"{side}_layers"]):
                for ours, theirs in {**_LAYER, **(_CROSS if side == "decoder" else {})}.items():
                    yield f"{side}.{i}.{ours}.{part}", [f"model.{side}.layers.{i}.{name}.{part}" for name in theirs]
            if shape["embedding_norm"]:
                yield f"{short}_embedding_norm.{part}", [f"model.{side}.layernorm_embedding.{part}"]
            if shape["norm"] == "pre":
                yield f"{side}_norm.{part}", [f"model.{side}.layer_norm.{part}"]


def _tables(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The names that transformers gives to the tables [vocab, d_model]."""
    target = own["embedding.weight"]
    source = own.get("src_embedding.weight", target)
    return {
        "model.shared.weight": source, "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target, "lm_head.weight": own.get("output.weight", target),
    }  # fmt: skip


def _shape_of_theirs(config: Any, theirs: Mapping[str, Tensor]) -> Shape:
    """The arguments of our Transformer for this configuration. Raises UserError for what ours cannot represent."""
    fits = {kind: choice for choice, (kind, _) in _KINDS.items()}
    if config.model_type not in fits:
        raise UserError(f"a model of type {config.model_type!r} cannot be converted; {', '.join(fits)} can")
    norm, embedding_norm = fits[config.model_type]
    if not config.scale_embedding:
        raise UserError("scale_embedding=False: our Transformer multiplies embeddings by sqrt(d_model)")
    for name in ("attention_heads", "ffn_dim"):
        sides = [getattr(config, f"{side}_{name}") for side, _ in _SIDES]
        if sides[0] != sides[1]:
            raise UserError(f"{name} is {sides[0]} in the encoder and {sides[1]} in the decoder: they must be equal")
    source, target = (theirs[f"model.{side}.embed_tokens.weight"] for side, _ in _SIDES)
    if len(source) != len(target):
        raise UserError(f"vocabularies of {len(source)} and {len(target)} ids: our Transformer has one for both sides")
    activation = {"silu": "swish"}.get(config.activation_function, config.activation_function)
    if activation not in ACTIVATIONS:
        raise UserError(f"activation_function={activation!r}: our Transformer has {', '.join(ACTIVATIONS)}")
    tied = torch.equal(target, theirs["lm_head.weight"])
    return {
        "d_model": config.d_model, "heads": config.encoder_attention_heads, "ffn": config.encoder_ffn_dim,
        "encoder_layers": config.encoder_layers, "decoder_layers": config.decoder_layers, "dropout": config.dropout,
        "attention_dropout": config.attention_dropout, "norm": norm, "embedding_norm": embedding_norm,
        "tie": ("all" if torch.equal(source, target) else "decoder") if tied else "none",
        "activation": activation, "max_len": config.max_position_embeddings, "pad": config.pad_token_id,
        "output_bias": "final_logits_bias" in theirs and bool(theirs["final_logits_bias"].any()),
    }  # fmt: skip
