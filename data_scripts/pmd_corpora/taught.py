"""A corpus whose training targets a teacher wrote, such as NLLB or M2M-100: Kim and Rush's (2016) sequence-level KD.

    python -m pmd_lite data taught data/mine --teacher facebook/nllb-200-distilled-600M
        --codes fr=fra_Latn en=eng_Latn --out data/taught

The teacher is any translation model of transformers: a name on the hub or a directory. It translates every source of
the training sets with beam search; students then learn these translations instead of the references. valid and test
keep their references. A teacher's probabilities are of no use here, because its pieces are not those of a student.
Where the teacher writes nothing, the reference stays. OUT.work holds what is done, and an interrupted script goes on
from there; you may delete it afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from tyro.conf import Positional

from pmd_corpora.attribution import write_with_attribution
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.data.reading import SPLITS
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.errors import UserError, reason


class Teacher:
    """A sequence-to-sequence model of transformers that translates between languages, on a GPU if there is one."""

    def __init__(self, name: str, codes: Mapping[str, str], beam: int):
        """codes: the teacher's name of every language. Raises UserError if it cannot be loaded or lacks one of them."""
        import torch

        from pmd_lite.exchange.huggingface import optional

        transformers = optional("transformers")
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(name)
            model = transformers.AutoModelForSeq2SeqLM.from_pretrained(name)
        except Exception as error:  # of the network, of the hub, of damaged files
            what = f"{name}: transformers cannot load this teacher ({reason(error)})"
            raise UserError(f"{what}. Without network give the directory of a download (hf download)") from None
        self.model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self.codes, self.beam = codes, beam
        self.multilingual = hasattr(self.tokenizer, "src_lang")
        for language in codes:
            self._id(language)

    def _id(self, language: str) -> int | None:
        """The token that a translation into this language begins with; None for a model of one target."""
        if not self.multilingual:
            return None
        code = self.codes[language]
        known: dict[str, int] = getattr(self.tokenizer, "lang_code_to_id", {})  # M2M-100 writes its code as __fr__
        found = known.get(code, self.tokenizer.convert_tokens_to_ids(code))
        if found in (None, self.tokenizer.unk_token_id):
            raise UserError(f"this teacher has no language {code!r} for {language}. Give its name of it: "
                            f"--codes {language}=...")  # fmt: skip
        return int(found)

    def translate(self, texts: Sequence[str], pair: str) -> list[str]:
        """Translations of sentences of one pair, each on one line."""
        src, trg = split_pair(pair)
        if self.multilingual:
            self.tokenizer.src_lang = self.codes[src]
        elif (tag := f">>{self.codes[trg]}<<") in self.tokenizer.get_vocab():  # an opus-mt with several targets
            texts = [f"{tag} {text}" for text in texts]
        batch = self.tokenizer(list(texts), return_tensors="pt", padding=True, truncation=True).to(self.model.device)
        found = self.model.generate(
            **batch, num_beams=self.beam, do_sample=False, forced_bos_token_id=self._id(trg),
            max_new_tokens=2 * batch["input_ids"].shape[1] + 20, max_length=None,
        )  # fmt: skip
        return [" ".join(text.split()) for text in self.tokenizer.batch_decode(found, skip_special_tokens=True)]


def build(
    out: Path, corpus: Positional[Path], *, teacher: str, codes: Sequence[str] = (), beam: int = 4, batch: int = 32,
    overwrite: bool = False,
) -> Path:  # fmt: skip
    """A corpus whose training targets a teacher wrote, such as NLLB or M2M-100. Returns `out`.

    Args:
        out: the directory to write.
        corpus: directory of a corpus.
        teacher: a name on the Hub, or a directory that save_pretrained wrote.
        codes: the teacher's names of languages, such as fr=fra_Latn en=eng_Latn; by default the corpus's own.
        beam: beam width of the teacher.
        batch: sentences that are translated at a time.
        overwrite: replace another corpus in `out`.

    Raises:
        UserError: the corpus is unsound, the teacher cannot be loaded or lacks a language.
    """
    given, out = load_corpus(corpus), Path(out).expanduser()
    given_names = dict(word.partition("=")[::2] for word in codes)
    if unknown := sorted(set(given_names) - set(given.languages)):
        raise UserError(f"codes for {', '.join(unknown)}, but the corpus has {', '.join(given.languages)}")
    names = {language: given_names.get(language, language) for language in given.languages}
    machine = Teacher(teacher, names, beam)
    about = sha256(repr([teacher, sorted(names.items()), beam, given.fingerprint]).encode()).hexdigest()[:12]
    work, texts, empty = out.with_name(f"{out.name}.work") / about, {}, 0
    for pair in given.pairs:
        split = {name: list(getattr(given, name)[pair]) for name in SPLITS}
        found = _translated(machine, [src for src, _ in split["train"]], pair, work / f"{pair}.txt", batch)
        empty += sum(not line for line in found)
        split["train"] = [(src, line or trg) for (src, trg), line in zip(split["train"], found, strict=True)]
        texts[pair] = split
    taught = Corpus.from_texts(given.name, texts, licence=given.licence, source=f"{given.source}; targets by {teacher}")
    note = (f"The training targets are translations by {teacher} (beam {beam}), whose licence holds for them too; "
            f"{empty:,} references stayed where it wrote nothing. All else is from {given.name}: {given.source}.\n\n"
            f"Licence of that corpus: {given.licence}.\n")  # fmt: skip
    return write_with_attribution(taught, out, note, overwrite)


def _translated(machine: Teacher, sources: Sequence[str], pair: str, file: Path, batch: int) -> list[str]:
    """The teacher's translations, in order; those in `file` are there already, the shortest sources first."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as half:  # a kill may leave half a line
        half.seek(0)
        whole = half.read().rpartition(b"\n")
        half.truncate(len(whole[0] + whole[1]))
    lines = whole[0].decode().split("\n") if whole[1] else []
    with file.open("a", encoding="utf-8", newline="\n") as stream:
        for at in range(len(lines), len(order), batch):
            found = machine.translate([sources[i] for i in order[at : at + batch]], pair)
            stream.writelines(f"{line}\n" for line in found)
            stream.flush()
            lines += found
            print(f"{pair}: {len(lines):,} of {len(order):,}", file=sys.stderr, flush=True)
    return [line for _, line in sorted(zip(order, lines, strict=True))]


main = partial(script, "taught", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
