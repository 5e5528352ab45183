"""Import a Marian checkpoint of Hugging Face (an opus-mt) as the initial weights of students.

Such a directory holds a network, two sentencepiece models (source and target) and vocab.json, the id of every piece.
Our ids have another order, and include tags, so the rows of its tables move:

    PAD, UNK, EOS     the checkpoint's own
    BOS               what its decoder starts with (Marian: PAD)
    pieces            by name; a piece that vocab.json does not list is UNK to the checkpoint, and starts as UNK
    tags              the code of the language (>>fra<<) in checkpoints for several targets, else the row of BOS

The output bias of an id that is never predicted makes its probability practically zero; all others share it. This also
holds for PAD: a converted checkpoint gives PAD a logit of 0, which may be above all others, and relies on a search that
forbids it. So the imported model translates as the checkpoint does, with two exceptions. A checkpoint with a single
target has never seen a tag before the source. A rare character that a side's own sentencepiece model lacks is UNK, even
if the other side's model has it.

    OUT/imported.json       where it came from, the network's shape, the checksum of the weights
    OUT/model.safetensors   the weights, under our ids
    OUT/tokenizer/          the sentencepiece models, one copy for each language
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from pmd_lite.config import Config, ModelConfig, TokenizerConfig
from pmd_lite.data.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer, split_pair
from pmd_lite.disk import checksum, new_directory, place, read_json, write_json
from pmd_lite.errors import UserError, reason
from pmd_lite.exchange.huggingface import from_huggingface, load_huggingface, optional, shape_of
from pmd_lite.model.transformer import Transformer
from pmd_lite.training.weights import read_weights, save_weights

NEVER, RARELY = -100.0, 10.0
"""Output bias of ids that are never predicted (with -inf, label smoothing would give an infinite loss), and how far
below UNK a piece starts that is UNK to the checkpoint."""

SHAPE = ("d_model", "heads", "encoder_layers", "decoder_layers", "ffn", "norm", "tie", "embedding_norm", "activation",
          "output_bias")  # fmt: skip
_FILES = ("config.json", "vocab.json", "source.spm", "target.spm")
_PIECES = ("vocab_size", "kind", "max_sentences", "byte_fallback", "tags")


class Imported:
    """What `import_marian` wrote, as `train(init=...)` reads it."""

    joins = False
    """Whether other pairs may join."""

    def __init__(self, path: str | Path):
        """Raises UserError if `path` is not such a directory."""
        self.init = self.path = place(path)
        if not os.path.exists(self.path / "imported.json"):
            raise UserError(f"{self.path} has no imported model, and is neither a run nor an export of one. Name a "
                            "run, or import a checkpoint: python -m pmd_lite import")  # fmt: skip
        about = read_json(self.path / "imported.json", {"model": dict, "sha256": str}, "import the checkpoint again")
        self.model_arguments: dict[str, Any] = {name: about["model"][name] for name in (*SHAPE, "max_len")}
        self._sum: str = about["sha256"]
        try:
            ModelConfig(**self.model_arguments)
        except UserError as error:
            raise UserError(f"{self.path}/imported.json is damaged ({error}); import the checkpoint again") from None

    @property
    def description(self) -> dict[str, str]:
        """For config.json of a run: where the weights are, and their checksum."""
        return {"path": str(self.path.resolve()), "sha256": self._sum}

    def configure(self, config: Config, overrides: Iterable[str] = ()) -> Config:
        """`config` with the network's shape and tokenizer (dropout, max_len stay). UserError for one of `overrides`."""
        bare = {name.removeprefix("model.").removeprefix("tokenizer."): name for name in overrides}
        if decided := sorted(bare[name] for name in bare if name in SHAPE or name in _PIECES):
            raise UserError(f"{', '.join(decided)}: the checkpoint of init={self.path} sets this; leave it out")
        shape = {name: self.model_arguments[name] for name in SHAPE}
        return replace(config, model=replace(config.model, **shape), tokenizer=self.tokenizer.config)

    def check(self, pairs: Sequence[str], tokenizer: Tokenizer | None = None) -> None:
        """Raises UserError if a run on these pairs (with this tokenizer, if given) cannot start from these weights."""
        if (unknown := sorted(set(pairs) - set(self.tokenizer.pairs))) and not self.joins:
            raise UserError(f"{self.path} was imported for {', '.join(self.tokenizer.pairs)}, not for "
                            f"{', '.join(unknown)}; import the checkpoint again, for all these pairs")  # fmt: skip
        if tokenizer is not None and not self.fits(tokenizer):
            raise UserError(f"{self.path}: its weights fit only the ids of its own tokenizer; leave out tokenizer=")
        self._whole()

    def fits(self, tokenizer: Tokenizer) -> bool:
        """Whether the weights fit these ids: its own tokenizer, or one that other languages have joined."""
        return self.tokenizer.fingerprint in (tokenizer.fingerprint, tokenizer.origin.get("extends"))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer with the checkpoint's pieces."""
        return Tokenizer.load(self.path / "tokenizer")

    def weights(self, seat: int = 0) -> dict[str, Tensor]:
        """The weights by name, for any seat. Raises UserError if the file is not the one that was written."""
        return read_weights(self._whole())[0]

    def _whole(self) -> Path:
        """The file of the weights. Raises UserError if its checksum is not that of the file that was written."""
        file = self.path / "model.safetensors"
        if not file.is_file() or checksum(file) != self._sum:
            raise UserError(f"{file}: the weights are missing or damaged; import the checkpoint again")
        return file

    def model(self) -> Transformer:
        """The network in eval mode, before any training."""
        model = Transformer(self.tokenizer.vocab_size, **self.model_arguments, pad=PAD)
        model.load_state_dict(self.weights())
        return model.eval()


def import_marian(
    source: str | Path, out: str | Path, pairs: Sequence[str], codes: Mapping[str, str] | None = None
) -> Imported:
    """Write a Marian checkpoint into the new directory `out`, ready for `train(init=out)`.

    Args:
        source: directory of the checkpoint (`_FILES` and its weights), or its name on the hub, see `_on_disk`.
        pairs: pairs of the corpus that students will be trained on ("fr-en"): source languages get the checkpoint's
            source pieces, target languages its target pieces.
        codes: the checkpoint's code of a target language ({"fr": "fra"}, or ">>fra<<"), if the pairs use another one.
    Raises: UserError if the directory is not such a checkpoint, or if the checkpoint does not fit the pairs.
    """
    said, source, out = str(source), _on_disk(source), place(out)
    tokenizer = _tokenizer(source, pairs)
    names = _vocabulary(source)
    theirs = load_huggingface(source)
    special = _special(source, theirs.config, names)
    model = from_huggingface(theirs)
    bare = {language: code.removeprefix(">>").removesuffix("<<") for language, code in (codes or {}).items()}
    ours = _with_rows(model, _rows(tokenizer, names, special, bare))
    with new_directory(out) as part:
        save_weights(ours.state_dict(), part / "model.safetensors")
        tokenizer.save(part / "tokenizer")
        shape = {name: value for name, value in shape_of(ours).items() if name in (*SHAPE, "max_len")}
        write_json(part / "imported.json",
                   {"source": said, "model": shape, "sha256": checksum(part / "model.safetensors")})  # fmt: skip
    return Imported(out)


def _on_disk(source: str | Path) -> Path:
    """The directory `source`, or where huggingface_hub keeps or downloads a name (OWNER/NAME). UserError if nowhere."""
    if os.path.exists(place(source)) or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        return place(source)
    weights, hub = ("model.safetensors", "pytorch_model.bin"), optional("huggingface_hub")
    fetch = partial(hub.snapshot_download, str(source), allow_patterns=["*.json", "*.spm", *weights])
    why = "PMD_OFFLINE forbids it"
    with suppress(OSError):  # it is not there
        found = Path(fetch(local_files_only=True))
        if all((found / name).exists() for name in _FILES) and any((found / name).exists() for name in weights):
            return found
    if os.environ.get("PMD_OFFLINE", "0") in ("", "0"):
        try:
            return Path(fetch())
        except Exception as error:  # of the network, of the hub or of the disk
            why = reason(error)
    raise UserError(f"{source} is not a directory, nor in huggingface_hub's cache, and cannot be downloaded ({why}). "
                    f"Where there is a network: hf download {source} --local-dir DIR; then import DIR")  # fmt: skip


def _tokenizer(source: Path, pairs: Sequence[str]) -> Tokenizer:
    """Our tokenizer, made of the checkpoint's two sentencepiece models."""
    if missing := [name for name in _FILES if not os.path.isfile(source / name)]:
        raise UserError(f"{source} is not a Marian checkpoint of Hugging Face: it lacks {', '.join(missing)}. Give the "
                        "directory or the name of one, such as Helsinki-NLP/opus-mt-fr-en")  # fmt: skip
    if (source / "target_vocab.json").exists():
        raise UserError(f"{source} has a vocabulary for each side (target_vocab.json): our students have one for both")
    if not pairs or any(not all(split_pair(pair)) or set(pair) & set("/\\") for pair in pairs):
        raise UserError(f"pairs={list(pairs)}: name the pairs of your corpus, such as fr-en")
    sides = [sorted({split_pair(pair)[side] for pair in pairs}) for side in (0, 1)]
    if both := sorted({*sides[0]} & {*sides[1]}):
        raise UserError(f"{', '.join(both)} on both sides of the pairs: a Marian checkpoint has other pieces for "
                        "sources than for targets. Import it for one direction")  # fmt: skip
    files = [source / "source.spm", source / "target.spm"]
    models = {name: file.read_bytes() for file, languages in zip(files, sides, strict=True) for name in languages}
    try:
        sizes = [sentencepiece.SentencePieceProcessor(model_proto=x).get_piece_size() for x in models.values()]
        if min(sizes) == 0:
            raise RuntimeError("it is empty")
        config = TokenizerConfig(vocab_size=max(sizes), kind="per-language")
        origin = {"name": source.resolve().name, "sha256": checksum(source / "vocab.json")}
        return Tokenizer(config, pairs, models, origin)
    except (RuntimeError, UserError) as error:
        raise UserError(f"{source}: source.spm or target.spm is not a sentencepiece model ({error})") from None


def _special(source: Path, config: Any, names: Mapping[str, int]) -> dict[int, int]:
    """The checkpoint's ids of our specials. Raises UserError if it has none, or has ids that its network lacks."""
    wanted = {PAD: "pad_token_id", BOS: "decoder_start_token_id", EOS: "eos_token_id"}
    found: dict[int, Any] = {ours: getattr(config, name, None) for ours, name in wanted.items()}
    for ours, name in wanted.items():
        if type(found[ours]) is not int or not 0 <= found[ours] < config.vocab_size:
            raise UserError(f"{source / 'config.json'}: {name} is {found[ours]}, not one of {config.vocab_size} ids")
    if max(names.values()) >= config.vocab_size or len(set(names.values())) < len(names):
        raise UserError(f"{source / 'vocab.json'} has {len(names)} names with ids up to {max(names.values())}, and the "
                        f"network {config.vocab_size} ids: they do not belong together")  # fmt: skip
    return {**found, UNK: names["<unk>"]}


def _vocabulary(source: Path) -> dict[str, int]:
    """vocab.json: the checkpoint's id of every name."""
    file = source / "vocab.json"
    try:
        names: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))  # pieces may hold any characters
        if "<unk>" not in names or not all(type(i) is int and i >= 0 for i in names.values()):
            raise ValueError("not names with their ids, <unk> among them")
        return names
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{file} is not a vocabulary of Marian ({error}). Fetch it anew") from None


def _rows(
    tokenizer: Tokenizer, names: Mapping[str, int], special: Mapping[int, int], codes: Mapping[str, str]
) -> list[tuple[int, float]]:
    """For each of our ids: the id of the checkpoint that it starts as, and what is added to its output bias."""
    pieces = [tokenizer.piece(i) for i in range(SPECIALS, tokenizer.vocab_size - len(tokenizer.tags))]
    rows = [(special[i], NEVER if i in (PAD, BOS) else 0.0) for i in range(SPECIALS)]
    rows += [(names[piece], 0.0) if piece in names else (special[UNK], -RARELY) for piece in pieces]
    known = sum(piece in names for piece in pieces)
    if 2 * known < len(pieces):
        raise UserError(f"vocab.json lists {known} of the {len(pieces)} pieces of source.spm and target.spm: they do "
                        "not belong together")  # fmt: skip
    there = sorted(name[2:-2] for name in names if name.startswith(">>") and name.endswith("<<"))
    targets = {split_pair(pair)[1] for pair in tokenizer.pairs}
    if unknown := sorted(set(codes) - targets):
        raise UserError(f"codes for {', '.join(unknown)}, but the target languages are {', '.join(sorted(targets))}")
    for language in tokenizer.languages:  # the tags, in the order of their ids
        code = codes.get(language, language)
        if language in targets and (there or language in codes) and code not in there:
            has = f"it has {', '.join(there)}. Name the one for {language}" if there else "it has one, without a code"
            raise UserError(f"this checkpoint has no target language {code!r}; {has}: codes={{...}} or --codes")
        told = language in targets and code in there
        rows.append((names[f">>{code}<<"], 0.0) if told else (special[BOS], NEVER))
    return rows


def _with_rows(model: Transformer, rows: Sequence[tuple[int, float]]) -> Transformer:
    """The same network over other ids, with an output bias."""
    shape = {**shape_of(model), "output_bias": True, "pad": PAD}
    with torch.random.fork_rng(devices=[]):
        ours = Transformer(len(rows), **shape)
    state, (at, lowered) = model.state_dict(), map(torch.tensor, zip(*rows, strict=True))
    for name in ("embedding.weight", "src_embedding.weight", "output.weight"):
        if name in state:
            state[name] = state[name][at]
    bias = state["output_bias"][at] if "output_bias" in state else torch.zeros(len(rows))
    state["output_bias"] = (bias + lowered).masked_fill(bias == -torch.inf, NEVER)
    ours.load_state_dict(state)
    return ours
