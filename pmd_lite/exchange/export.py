"""Export trained students: a directory that Hugging Face's transformers or CTranslate2 can load.

It has the weights, the tokenizer and a README.md with a few lines of Python that translate text as the run does.
`exchange.huggingface` and `exchange.ctranslate2` convert the weights, and say which models they can convert.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sentencepiece import SentencePieceProcessor

from pmd_lite.config import Config
from pmd_lite.data.tokenizer import BOS, EOS, ESCAPES, PAD, SPECIALS, UNK, Tokenizer
from pmd_lite.disk import new_directory, place, write_json
from pmd_lite.errors import UserError
from pmd_lite.exchange.ctranslate2 import save_ctranslate2
from pmd_lite.exchange.huggingface import optional, to_huggingface
from pmd_lite.model.transformer import Transformer

Target = Literal["hf", "ctranslate2"]

_SPACE = "\u2581"  # what sentencepiece writes for a space
_BYTE_NAME = "<0x123456789ABCDEF>"  # the characters of the names of byte pieces, such as <0x41>
_BYTE = -1e5  # score of a byte piece, lower than the score of any spelling with real pieces


@dataclass(frozen=True)
class Trained:
    """What is exported: a model in eval mode, its tokenizer, configuration and pairs, and its name."""

    model: Transformer
    tokenizer: Tokenizer
    config: Config
    pairs: Sequence[str]
    label: str


def export(trained: Trained, to: Target, out: str | Path) -> Path:
    """Write the weights of a model, its tokenizer and a README into the new directory `out`; returns `out`.

    Args:
        to: "hf" for transformers' AutoModelForSeq2SeqLM and AutoTokenizer, "ctranslate2" for its Translator (float32;
            it can round to int8 or float16 when it loads).
    Raises: UserError if `out` exists, a package is missing, or the target cannot represent something of the run. Then
        no files are left behind.
    """
    out = place(out)
    if to not in get_args(Target):
        raise UserError(f"to={to!r}: choose {' or '.join(map(repr, get_args(Target)))}")
    with new_directory(out) as part:
        words = _huggingface(trained, part) if to == "hf" else _ctranslate2(trained, part)
        words |= {"label": trained.label, "pair": trained.pairs[0], "beam": str(trained.config.train.beam),
                  "length_penalty": str(trained.config.train.length_penalty),
                  "limit": str(trained.config.model.max_len)}  # fmt: skip
        text = (Path(__file__).parent / f"README.{to}.md").read_text(encoding="utf-8")  # tests run its code
        for word, value in words.items():
            text = text.replace(f"<<{word}>>", value)
        (part / "README.md").write_text(text, encoding="utf-8", newline="\n")
    return out


def _names(tokenizer: Tokenizer) -> list[str]:
    """[vocab] the name of each id. Raises UserError if two ids have one name: other programs need different names."""
    names = [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]
    (name, count), *_ = Counter(names).most_common(1)
    if count > 1:
        raise UserError(f"two ids are called {name!r}, a piece of text and a tag: other programs cannot distinguish "
                        "them. Remove this text from the training sentences and train again")  # fmt: skip
    return names


def _never(tokenizer: Tokenizer) -> list[int]:
    """The ids that `run.translate` never produces."""
    return [PAD, UNK, BOS, *tokenizer.tags.values()]


def _table(rows: Mapping[str, Any]) -> str:
    """A dictionary as lines of Python."""
    return "{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in rows.items()) + "}"


def _huggingface(trained: Trained, out: Path) -> dict[str, str]:
    tokenizer, limit, told = trained.tokenizer, trained.config.model.max_len, "Text cannot forge a tag."
    if tokenizer.models.keys() == {"joint"}:
        huggingface_tokenizer(tokenizer, limit).save_pretrained(out)
    else:
        told = _marian_tokenizer(trained, out)
    model, train = to_huggingface(trained.model, bos=BOS, eos=EOS), trained.config.train
    beams = {"length_penalty": train.length_penalty, "early_stopping": "never"} if train.beam > 1 else {}
    model.generation_config = optional("transformers").GenerationConfig(
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS, max_length=limit,
        bad_words_ids=[[token] for token in _never(tokenizer)], num_beams=train.beam, **beams,
    )  # fmt: skip
    model.save_pretrained(out)
    tokenizer.save(out / "tokenizer")  # ours, for `train(init=out)`
    rows = {pair: (tokenizer.encoder_tag(pair), next(iter(tokenizer.prefix(pair)), None)) for pair in trained.pairs}
    return {"class": type(model).__name__, "pairs": _table(rows), "told": told}


def _marian_tokenizer(trained: Trained, out: Path) -> str:
    """Write the files of transformers' MarianTokenizer: a sentencepiece model for each side, and the ids of all pieces.

    A run that started from an opus-mt has these two models. Tags are called as there: >>eng<<. Returns a text for the
    README. Raises UserError if the run has several models on a side.
    """
    tokenizer = trained.tokenizer
    for side, file in (("src", "source.spm"), ("trg", "target.spm")):
        models = {tokenizer.models[tokenizer.key(pair, side)] for pair in trained.pairs}
        if len(models) > 1:
            raise UserError("tokenizer.kind='per-language', or a language joined later: a tokenizer of transformers "
                            "has one model for each side. Export to ctranslate2, which takes pieces, or train with "
                            "kind='joint'")  # fmt: skip
        (out / file).write_bytes(*models)
    names = _names(tokenizer)
    for language, tag in tokenizer.tags.items():
        names[tag] = f">>{language}<<"
    write_json(out / "vocab.json", {name: i for i, name in enumerate(names)})
    write_json(out / "tokenizer_config.json", {
        "tokenizer_class": "MarianTokenizer", "source_lang": "", "target_lang": "", "split_special_tokens": True,
        "model_max_length": trained.config.model.max_len - 1,
    })  # fmt: skip
    return ("The tokenizer is MarianTokenizer: it also takes a tag from the beginning of a text, as it stands in "
            "vocab.json, and reads the characters U+2581, U+2585 and U+FDD0 otherwise than pmd_lite.")  # fmt: skip


def huggingface_tokenizer(tokenizer: Tokenizer, limit: int) -> Any:
    """The joint tokenizer as one of transformers: the same ids for pieces and EOS; at most `limit` ids with one tag.

    No text can forge a special token or a tag. To ensure this, the names of PAD, UNK, BOS and EOS begin with a space:
    when the text is cut, its spaces are U+2581 already. If two ways to cut a text are equally probable to the last
    digit ("....": one dot and three, or three and one), transformers may choose the other one.
    """
    transformers = optional("transformers")
    names = _names(tokenizer)
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers import Tokenizer as Backend

    sp = SentencePieceProcessor(model_proto=tokenizer.models["joint"])
    special = [f" {name}" for name in names[:SPECIALS]]
    scores = [_BYTE if sp.is_byte(i) else sp.get_score(i) for i in range(sp.get_piece_size())]
    pieces = zip([*special, *names[SPECIALS : len(scores)]], scores, strict=True)
    backend = Backend(models.Unigram(list(pieces), unk_id=UNK, byte_fallback=tokenizer.config.byte_fallback))
    escapes = [normalizers.Replace(character, code) for character, code in ESCAPES.items()]
    spaces = [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
    backend.normalizer = normalizers.Sequence([*escapes, *spaces])
    unknown = "".join(set(_BYTE_NAME) - set(names))
    if tokenizer.config.byte_fallback and unknown:
        # Text that spells the name of a byte piece would become that byte if there were no other way to cut it: cut the
        # text here. Every character of a piece is also a piece itself.
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(f"[{unknown}]"), "isolated")
    # The code of the mark itself is undone last: undone earlier, it could produce one of the other codes.
    unescapes = [decoders.Replace(code, character) for character, code in reversed(ESCAPES.items())]
    backend.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0), *unescapes]
    )
    tags = names[len(scores) :]
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (*special, *tags)])
    pad, unk, bos, eos = special
    backend.post_processor = processors.TemplateProcessing(single=["$A", eos], special_tokens=[(eos, EOS)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, unk_token=unk, bos_token=bos, eos_token=eos, padding_side="right",
        model_max_length=limit - 1, split_special_tokens=True, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def _ctranslate2(trained: Trained, out: Path) -> dict[str, str]:
    tokenizer, names = trained.tokenizer, _names(trained.tokenizer)
    save_ctranslate2(trained.model, names, out, unk=UNK, bos=BOS, eos=EOS)
    for key, model in tokenizer.models.items():
        (out / f"{key}.spm").write_bytes(model)
    rows = {pair: (f"{tokenizer.key(pair, 'src')}.spm", names[tokenizer.encoder_tag(pair)],
                   [names[i] for i in tokenizer.prefix(pair)]) for pair in trained.pairs}  # fmt: skip
    never = [names[token] for token in _never(tokenizer)]
    return {"pairs": _table(rows), "never": json.dumps(never, ensure_ascii=False)}
