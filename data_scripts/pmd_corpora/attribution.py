"""A corpus with ATTRIBUTION.md beside it: where the text comes from and under which licence."""

from __future__ import annotations

from pathlib import Path

from pmd_lite.data.corpus import Corpus, write_corpus

ATTRIBUTION = "ATTRIBUTION.md"
TITLE = "# Where these sentences come from\n"


def write_with_attribution(corpus: Corpus, out: Path, text: str, overwrite: bool) -> Path:
    """Write the corpus, then `text` under TITLE into ATTRIBUTION.md; returns `out`.

    An ATTRIBUTION.md that begins with TITLE is ours and steps aside for write_corpus, which refuses directories with
    files that are no part of a corpus; it is there again when write_corpus raises its UserError.
    """
    place = Path(out).expanduser() / ATTRIBUTION
    temporary = place.with_name(f".{ATTRIBUTION}.new")
    temporary.unlink(missing_ok=True)  # of a run that was killed before its rename
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
