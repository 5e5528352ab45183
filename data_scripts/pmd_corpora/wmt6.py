"""WMT-6, the larger corpus of the paper: fr de zh et ro tr into English, 4,995,000 training pairs, from WMT's text.

The authors' own subset is not public, so this is another one of the same sizes: a seeded sample of parquet row groups
over the whole training text of each pair. It is cleaned, has no repeated pairs and no line of a dev or test set, and is
cut to the exact size. About 2 GB are read at full size. We could not look up the size of the row groups: if a few of
each shard hold more than is needed, more is read. `--scale 0.01` makes a corpus for one night of a CPU.

You may interrupt the script: the same command continues. Finished pieces are in a folder beside the corpus (OUT.work
unless --work is given; you may delete it afterwards), and no row group in there is read twice. The same commits, sizes
and seed give the same bytes. Needs pip install "pmd_lite[download]".

Memory: one row group; for the search for repeated pairs, about 60 bytes for each pair of one language (200 MB for
French). The text itself stays on disk, where load_corpus checks it and write_corpus reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from filelock import FileLock, Timeout  # installed with torch; a lock ends with its process
from tyro.conf import Suppress, arg

from pmd_corpora.attribution import write_with_attribution
from pmd_corpora.cleaning import sentence_key
from pmd_corpora.terminal import script, terminal
from pmd_corpora.wmt6_cleaning import VERSION, normalise
from pmd_corpora.wmt6_report import MADE_BY, MARK, REPORT, attribution, table
from pmd_lite.data.checks import read_manifest
from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError

if TYPE_CHECKING:  # both need packages that may be missing; then `build` says so in one line
    from pmd_corpora.wmt6_drawing import Drawn
    from pmd_corpora.wmt6_sampling import Hub, Split

LEAST = 1_000  # fewest training pairs of a language, whatever --scale is
LICENCE = "not named on the Hub; the parts have different terms: see ATTRIBUTION.md"
_HUB_SPLITS = {"valid": "validation", "test": "test"}


@dataclass(frozen=True)
class Source:
    """Where one pair comes from, its training pairs in the paper, and the parts of its text in their order."""

    repo: str
    size: int
    valid: tuple[str, int]
    """Name and sentence pairs of the set that the Hub calls validation."""
    test: tuple[str, int]
    parts: str


SOURCES: dict[str, Source] = {
    "fr": Source("wmt/wmt14", 3_000_000, ("newstest2013", 3_000), ("newstest2014", 3_003),
                 "Europarl v7, Common Crawl, UN 2000, News Commentary v9, Giga-Fr-En"),
    "de": Source("wmt/wmt14", 1_500_000, ("newstest2013", 3_000), ("newstest2014", 3_003),
                 "Europarl v7, Common Crawl, News Commentary v9"),
    "zh": Source("wmt/wmt17", 400_000, ("newsdev2017", 2_002), ("newstest2017", 2_001),
                 "News Commentary v12, UN v1, CWMT (casia2015, casict2011, casict2015, datum2015, datum2017, neu2017)"),
    "et": Source("wmt/wmt18", 80_000, ("newsdev2018", 2_000), ("newstest2018", 2_000),
                 "Europarl v8, ParaCrawl v1, Rapid 2016"),
    "ro": Source("wmt/wmt16", 10_000, ("newsdev2016", 1_999), ("newstest2016", 1_999), "Europarl v8, SETIMES 2"),
    "tr": Source("wmt/wmt17", 5_000, ("newstest2016", 3_000), ("newstest2017", 3_007), "SETIMES 2"),
}  # fmt: skip
SIZES = {lang: source.size for lang, source in SOURCES.items()}
REPOSITORIES = tuple(dict.fromkeys(source.repo for source in SOURCES.values()))


def scaled(scale: float) -> dict[str, int]:
    """The paper's sizes times `scale`, but at least 1,000 pairs of each language. Raises UserError outside 0 to 1."""
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale:g}: give a share of the full size, above 0 and at most 1, such as 0.01.")
    return {lang: min(size, max(LEAST, round(size * scale))) for lang, size in SIZES.items()}


def build(
    out: Path,
    *,
    seed: int = 0,
    overwrite: bool = False,
    scale: float = 1.0,
    sizes: Mapping[str, int] | None = None,
    revisions: Annotated[Mapping[str, str] | None, arg(name="revision")] = None,
    work: Path | None = None,
    endpoint: Annotated[str | None, Suppress] = None,
) -> Path:
    """The paper's WMT-6 sizes, drawn from WMT's training text, with report.json beside them. Returns `out`.

    Args:
        out: the directory to write (layout of pmd_lite.data.corpus, plus ATTRIBUTION.md).
        seed: decides which row groups are read and which of their rows are kept.
        overwrite: replace another corpus in `out`. One with the same text is always written anew.
        scale: share of the paper's sizes, at least 1,000 pairs a language.
        sizes: training pairs of some languages, instead of the scaled sizes.
        revisions: branch, tag or commit of some data sets, such as wmt14 main; report.json holds the commit.
        work: folder for finished pieces (default: OUT.work).
        endpoint: address of the Hub (default: the variable HF_ENDPOINT, else huggingface.co).

    Raises:
        UserError: there is no network (fetch.Offline), files are damaged or missing, there are too few clean pairs,
            `out` is unsuitable, the disk is full, or packages are missing.
    """
    out, wanted = Path(out).expanduser(), _checked({**scaled(scale), **(sizes or {})})
    work = Path(work) if work else out.resolve().with_name(f"{out.resolve().name}.work")
    _refuse(out, overwrite)
    try:
        from pmd_corpora.wmt6_sampling import Hub
    except ImportError as error:
        raise UserError(f'{error.name} is missing. Run: pip install "pmd_lite[download]"') from error
    try:
        work.mkdir(parents=True, exist_ok=True)
        with FileLock(work / ".lock", timeout=0):
            return _build(out, Hub(endpoint), work, wanted, seed, dict(revisions or {}), overwrite)
    except Timeout as error:
        raise UserError(f"{work} is in use by another process. Wait for it, then run this again.") from error
    except OSError as error:
        raise UserError(f"{work} cannot be written ({error.strerror or error}). Make room, or choose another --work; "
                        "the same command continues from here.") from error  # fmt: skip


def _build(
    out: Path, hub: Hub, work: Path, wanted: Mapping[str, int], seed: int, revisions: dict[str, str], overwrite: bool
) -> Path:
    from pmd_corpora.wmt6_drawing import draw, write_lines

    found = _snapshots(hub, work / "sources.json", revisions)
    staged = work / "corpus"
    held = _held_out(hub, found, work, staged)
    rules = blake2b("\n".join([str(VERSION), *sorted(held)]).encode(), digest_size=6).hexdigest()
    drawn = {}
    for lang, size in wanted.items():
        folder = work / lang / f"groups-{rules}"
        drawn[lang] = draw(_split(hub, found, lang, "train", work), lang, size, seed, held, folder)
        write_lines(staged / f"train.{lang}-en.tsv", drawn[lang].lines(folder))
    corpus = load_corpus(staged)
    report = _report(found, drawn, corpus, seed)
    _write(corpus, out, report, overwrite)
    for line in (*corpus.warnings, *report["notes"], "", table(report), f"{work} may be deleted now."):
        _say(line)
    return out


def _snapshots(hub: Hub, kept: Path, revisions: dict[str, str]) -> dict[str, dict[str, Any]]:
    """{repository: {"revision", "commit", "files"}}, fixed by the first run in this folder for all later ones."""
    revisions = {(name if "/" in name else f"wmt/{name}"): revision for name, revision in revisions.items()}
    if unknown := sorted(set(revisions) - set(REPOSITORIES)):
        raise UserError(f"--revision: {unknown[0]} is not used here; choose among {', '.join(REPOSITORIES)}.")
    if kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
        for repo, about in found.items():
            if revisions.get(repo, about["revision"]) not in (about["revision"], about["commit"]):
                raise UserError(f"{kept.parent} was begun with {repo}@{about['revision']} ({about['commit']}). To "
                                "continue, give that --revision; or choose another --work.")  # fmt: skip
        return found
    found = {}
    for repo in REPOSITORIES:
        commit, files = hub.snapshot(repo, revisions.get(repo, "main"))
        configs = tuple(f"{lang}-en/" for lang, source in SOURCES.items() if source.repo == repo)
        files = {path: size for path, size in files.items() if path.startswith(configs)}
        found[repo] = {"revision": revisions.get(repo, "main"), "commit": commit, "files": files}
    write_json(kept, found)
    return found


def _split(hub: Hub, found: Mapping[str, dict[str, Any]], lang: str, name: str, work: Path) -> Split:
    from pmd_corpora.wmt6_sampling import Split

    about = found[SOURCES[lang].repo]
    return Split(hub, SOURCES[lang].repo, about["commit"], about["files"], f"{lang}-en", name, work / lang / "footers")


def _held_out(hub: Hub, found: Mapping[str, dict[str, Any]], work: Path, staged: Path) -> frozenset[str]:
    """Stage valid and test of all pairs, without pairs that have a blank side; returns the keys of all their lines."""
    from pmd_corpora.wmt6_drawing import write_lines

    keys: set[str] = set()
    for lang in SOURCES:
        for name, hub_name in _HUB_SPLITS.items():
            path = staged / f"{name}.{lang}-en.tsv"
            if not path.exists():
                split = _split(hub, found, lang, hub_name, work)
                rows = (row for _, rows in split.rows_of(split.groups, lang) for row in rows)
                pairs = ((normalise(xx, lang), normalise(en, "en")) for xx, en in rows)
                write_lines(path, (f"{xx}\t{en}\n".encode() for xx, en in pairs if xx and en))
            for line in path.read_text(encoding="utf-8").split("\n"):
                keys.update(map(sentence_key, line.split("\t")))
    return frozenset(keys - {""})  # "" is the key of every line without a letter or digit


def _report(found: Mapping[str, Any], drawn: Mapping[str, Drawn], corpus: Corpus, seed: int) -> dict[str, Any]:
    """The content of report.json: data sets with their commits, counts of every pair and of stretches of its shards."""
    pairs, notes = {}, []
    for lang, one in drawn.items():
        source, pair = SOURCES[lang], f"{lang}-en"
        held = {"valid": len(corpus.valid[pair]), "test": len(corpus.test[pair])}
        for name, (title, lines) in (("valid", source.valid), ("test", source.test)):
            if held[name] != lines:
                notes.append(f"{name}.{pair}: {title} has {lines:,} sentence pairs elsewhere, {held[name]:,} here.")
        pairs[pair] = {
            "repository": source.repo, "commit": found[source.repo]["commit"], "parts": source.parts,
            "valid": source.valid[0], "test": source.test[0], "rows": one.split.rows,
            "row groups": len(one.split.groups), "row groups read": len(one.groups), "counts": dict(one.total()),
            "held out pairs": held, "stretches": one.stretches(),
        }  # fmt: skip
    repositories = {repo: {key: about[key] for key in ("revision", "commit")} for repo, about in found.items()}
    return {"made by": MADE_BY, "seed": seed, "repositories": repositories, "notes": notes, "pairs": pairs}


def _checked(sizes: Mapping[str, int]) -> dict[str, int]:
    for lang, size in sizes.items():
        if lang not in SOURCES or type(size) is not int or size < 1:
            raise UserError(f"sizes: {lang}={size!r} cannot be used. Give whole numbers above 0 for "
                            f"{', '.join(SOURCES)}.")  # fmt: skip
    return dict(sizes)


def _refuse(out: Path, overwrite: bool) -> None:
    """Raise UserError now, and not after hours of reading, for an `out` that write_corpus would refuse at the end."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file. Choose a directory for the corpus.")
    if not overwrite and out.is_dir() and any(out.iterdir()) and read_manifest(out / "corpus.json").name != "wmt6":
        raise UserError(f"{out} has another corpus. Choose another directory, or replace a corpus with --overwrite.")


def _write(corpus: Corpus, out: Path, report: Mapping[str, Any], overwrite: bool) -> None:
    """Write the corpus with ATTRIBUTION.md and report.json. An earlier report.json of ours is taken away before.

    (write_corpus would refuse it as a file that it does not know.)
    """
    place = out / REPORT
    previous = place.read_bytes() if place.is_file() and place.read_bytes().startswith(MARK.encode()) else None
    if previous:
        place.unlink()
    commits = ", ".join(f"{repo}@{about['commit']}" for repo, about in report["repositories"].items())
    corpus = replace(corpus, name="wmt6", licence=LICENCE, source=f"Hugging Face Hub: {commits}")
    try:
        write_with_attribution(corpus, out, attribution(report), overwrite)
    except BaseException:
        if previous and out.is_dir():
            place.write_bytes(previous)
        raise
    write_json(place, report)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


main = partial(script, "wmt6", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
