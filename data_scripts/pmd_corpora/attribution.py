"""A corpus with ATTRIBUTION.md beside it: where the text comes from and under which licence."""

from __future__ import annotations

from pathlib import Path

from pmd_corpora.writing import write_corpus
from pmd_lite.data.corpus import Corpus

ATTRIBUTION = "ATTRIBUTION.md"
TITLE = "# Where these sentences come from\n"


def write_with_attribution(corpus: Corpus, out: Path, text: str, overwrite: bool) -> Path:
    """Write the corpus, then `text` under TITLE into ATTRIBUTION.md; returns `out`.

    write_corpus refuses a directory with files that do not belong to a corpus. So an ATTRIBUTION.md that begins with
    TITLE, which is ours, is taken away before. It is put back if write_corpus raises its UserError.
    """
    place = Path(out).expanduser() / ATTRIBUTION
    temporary = place.with_name(f".{ATTRIBUTION}.new")
    temporary.unlink(missing_ok=True)  # left by a run that was killed before it could rename the file
    previous = place.read_bytes() if place.is_file() else None
    if previous is not None and previous.startswith(TITLE.encode()):
        place.unlink()
    else:
        previous = None
    try:
        write_corpus(corpus, out, overwrite=overwrite)
    except BaseException:
        if previous is not None and place.parent.is_dir():
            place.write_bytes(previous)
        raise
    temporary.write_text(f"{TITLE}\n{text}", encoding="utf-8", newline="\n")
    temporary.replace(place)
    return out
