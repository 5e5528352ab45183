"""Corpora on disk: the directory that every script here writes, in the layout that `pmd_lite.data.corpus` reads."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pmd_lite.data.corpus import MANIFEST, Corpus, RawTexts, load_corpus
from pmd_lite.data.reading import SPLITS
from pmd_lite.disk import new_directory, place, write_json
from pmd_lite.errors import UserError


def write_corpus(
    corpus: Corpus | RawTexts, out_dir: str | Path, *, name: str | None = None, licence: str | None = None,
    source: str | None = None, overwrite: bool = False,
) -> Path:  # fmt: skip
    """Write .tsv files and corpus.json into the directory `out_dir`, which appears whole or not at all.

    This replaces an existing directory: always if it has the same text, only with `overwrite` if it has another corpus,
    never if it has anything else. Returns `out_dir`. Raises UserError.
    """
    out = place(out_dir)
    whole = out.resolve()
    if not isinstance(corpus, Corpus):
        corpus = Corpus.from_texts(name or whole.name, corpus)
    licence, source = licence or corpus.licence, source or corpus.source
    corpus = replace(corpus, name=name or corpus.name, licence=licence, source=source)
    _refuse_foreign(whole, corpus, overwrite)
    files = {}
    with new_directory(whole, replace=True) as part:
        for pair, split, text in corpus.texts():
            files[f"{split}.{pair}.tsv"] = {"lines": len(text), "sha256": text.sha256}
            with (part / f"{split}.{pair}.tsv").open("wb") as file:
                file.writelines(text.raw())
        about = {"name": corpus.name, "licence": corpus.licence, "source": corpus.source, "pairs": corpus.pairs}
        write_json(part / MANIFEST, about | {"files": files})
    return out


def _refuse_foreign(whole: Path, corpus: Corpus, overwrite: bool) -> None:
    """Raise UserError unless `whole` is free, has this corpus, or has a corpus that may be overwritten."""
    if not whole.exists():
        return
    if not whole.is_dir():
        raise UserError(f"{whole} is a file. Choose a directory for the corpus.")
    names = sorted(p.name for p in whole.iterdir())
    if foreign := [n for n in names if n != MANIFEST and not n.startswith(tuple(f"{split}." for split in SPLITS))]:
        raise UserError(f"{whole} has {foreign[0]}, which is not part of a corpus. Choose another directory.")
    if names and not overwrite:
        with suppress(UserError):
            if load_corpus(whole, allow_leakage=True).fingerprint == corpus.fingerprint:
                return
        cure = "Choose another directory, or replace it with overwrite=True (--overwrite)."
        raise UserError(f"{whole} has another corpus. {cure}")
