"""Everyday sentences of Tatoeba in six languages (fr, de, zh, tr, ro, et; into English), long-tailed like WMT-6.

Read from Tatoeba's weekly exports, one folder a language at https://downloads.tatoeba.org/exports/per_language:

    LLL/LLL_sentences.tsv.bz2    id TAB language TAB text, without header or quoting
    LLL/LLL-eng_links.tsv.bz2    id TAB id of an English translation

LLL is eng (sentences only), fra, deu, cmn, tur, ron or est. We had no network and did not try these addresses; other
public programs use the same ones. The exports have no published checksums and change every week: the same files and the
same seed give the same text. Instead, you can give a folder with these files (--source), packed or not. The files of
manythings.org/anki also serve, one for each language: fra-eng/fra.txt, fra-eng.zip or fra.txt, with `English TAB
foreign TAB attribution` on each line.

--easy makes a smaller set: lines of 3 to 8 words whose English is in the 1,000 commonest words. Chinese stays as its
authors wrote it, in traditional or in simplified characters. Nothing is converted, so one sentence in both scripts
counts as two lines. As translations of one English line they are still on the same side of the split.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
import unicodedata
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from pmd_corpora.attribution import ATTRIBUTION, TITLE, write_with_attribution
from pmd_corpora.cleaning import REASONS, clean_pair, sentence_key
from pmd_corpora.clusters import Cut, Pair, cut_corpus
from pmd_corpora.fetch import Offline, Remote, fetch
from pmd_corpora.parallel_files import one_line
from pmd_corpora.tatoeba_files import LANGUAGES, Files
from pmd_corpora.terminal import script, terminal
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.reading import SPLITS
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Cell, Table

FULL = {"fr": 20_000, "de": 10_000, "zh": 5_000, "tr": 1_500, "ro": 600, "et": 300, "valid": 500, "test": 500}
EASY = {"fr": 16_000, "de": 8_000, "zh": 3_000, "tr": 1_200, "ro": 500, "et": 150, "valid": 300, "test": 400}
WORDS, EASY_WORDS = (3, 14), (3, 8)  # English words of a line
VOCABULARY = 1_000  # commonest English words; the easy lines have no others

UNPINNED = "Tatoeba writes these files anew each week, and keeps no old ones"
ADDRESSES = ("https://downloads.tatoeba.org/exports/per_language",)
CREDITS = "attributions.txt.gz"
_COMMA = str.maketrans("\u015e\u015f\u0162\u0163", "\u0218\u0219\u021a\u021b")  # Romanian, as in cleaning.py
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_OTHER = "another translation of the same English"
_HARD = "not easy"
_ASTRAY = "links to no sentence"
_judge = clean_pair.__wrapped__  # without its cache: no pair comes twice here, and there are over a million


def build(
    out: Path,
    *,
    easy: bool = False,
    source: Path | None = None,
    direction: Literal["m2o", "o2m"] = "m2o",
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    languages: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Everyday sentences of Tatoeba in six languages, with attributions.txt.gz beside them. Returns `out`.

    Args:
        out: the directory to write (layout of pmd_lite.data.corpus, plus ATTRIBUTION.md).
        easy: short lines of common words.
        source: a folder with the files (see the top of this file). Without it, they are fetched into
            `downloads/tatoeba` beside `out`; the English one is the largest.
        direction: m2o writes pairs into English, o2m pairs out of English.
        seed: decides which lines are held out and which are trained on.
        sizes: training pairs of each language, and held-out lines; those that are not named are as in FULL or EASY. If
            there are fewer pairs, all are taken. At most a quarter of a language's clusters is held out.
        languages: some of LANGUAGES, if `source` does not hold them all.
        overwrite: replace another corpus in `out`.

    Raises:
        UserError: there is no network, files are missing or damaged (file:line), there are too few sentences, or `out`
            is unsuitable.
    """
    if direction not in ("m2o", "o2m"):
        raise UserError(f"direction {direction!r}: choose m2o (into English) or o2m (out of English).")
    wanted = _checked_sizes(EASY if easy else FULL, sizes or {})
    langs = _checked_languages(languages)
    folder = _fetch_all(langs, Path(out)) if source is None else Path(source)
    files = Files(folder, langs)
    pairs, counts = collect(files)
    if easy:
        keep_easy(pairs, counts)
    cut = cut_corpus(pairs, {lang: wanted[lang] for lang in langs}, wanted["valid"], wanted["test"], seed)
    texts = {
        f"{lang}-en": {split: [(pair.foreign, pair.english) for pair in cut.texts[lang][split]] for split in SPLITS}
        for lang in langs
    }
    name = "tatoeba6_easy" if easy else "tatoeba6"
    corpus = Corpus.from_texts(name, texts, licence="CC BY 2.0 FR", source=f"tatoeba.org; see {ATTRIBUTION}")
    table = summary(counts, cut, wanted)
    corpus = corpus if direction == "m2o" else corpus.reversed()
    text = attribution(files.paths, folder, table)
    _write(corpus, Path(out).expanduser(), text, _credits(cut, direction), overwrite)
    for line in (*corpus.warnings, "", table):
        _say(line)
    return Path(out)


def collect(files: Files) -> tuple[dict[str, list[Pair]], dict[str, Counter[str]]]:
    """The clean pairs of each language, one translation of each English sentence; counts of what was left out, and why.

    The first translation in the file counts. Text is changed as little as possible (`tidy`). pmd_corpora.cleaning only
    decides which pairs are not sentences, or not translations of each other.
    """
    pairs: dict[str, list[Pair]] = {}
    counts: dict[str, Counter[str]] = {}
    for lang in files.langs:
        count = counts[lang] = Counter()
        kept: dict[str, Pair] = {}
        for raw_english, raw_foreign, credit in files.read(lang):
            count["pairs read"] += 1
            english, foreign = tidy(raw_english, "en"), tidy(raw_foreign, lang)
            if not WORDS[0] <= len(english.split()) <= WORDS[1]:
                count["length"] += 1
            elif (key := sentence_key(english)) in kept:
                count[_OTHER] += 1
            elif isinstance(verdict := _judge(english, foreign, lang), str):
                count[verdict] += 1
            else:
                kept[key] = Pair(foreign, english, credit)
        count[_ASTRAY] = files.astray[lang]
        pairs[lang] = list(kept.values())
        _say(f"{lang}: {count['pairs read']:,} pairs read, {len(kept):,} clean and different")
    return pairs, counts


def tidy(text: str, lang: str) -> str:
    """The text in NFC with single spaces; in Romanian, s and t with the comma below, not the cedilla."""
    line = one_line(unicodedata.normalize("NFC", text))
    return line.translate(_COMMA) if lang == "ro" else line


def keep_easy(pairs: dict[str, list[Pair]], counts: Mapping[str, Counter[str]]) -> None:
    """Keep only pairs with 3 to 8 English words, all of them among the commonest of all different English lines."""
    lines = {pair.english for found in pairs.values() for pair in found}
    seen = Counter(word for line in lines for word in _words(line))
    common = set(sorted(seen, key=lambda word: (-seen[word], word))[:VOCABULARY])
    for lang, found in pairs.items():
        easy = [p for p in found if len(p.english.split()) <= EASY_WORDS[1] and common.issuperset(_words(p.english))]
        counts[lang][_HARD] = len(found) - len(easy)
        pairs[lang] = easy


def summary(counts: Mapping[str, Counter[str]], cut: Cut, wanted: Mapping[str, int]) -> str:
    """A Markdown table of what was read, left out and written; languages with fewer pairs than asked for are named."""
    langs = list(counts)
    steps = (_ASTRAY, "pairs read", *REASONS, _OTHER, _HARD)
    told = [step for step in steps if any(counts[lang][step] for lang in langs)]
    rows: list[list[Cell]] = [[step, *(counts[lang][step] for lang in langs)] for step in told]
    rows.append(["left for training", *(cut.available[lang] for lang in langs)])
    rows += [[split, *(len(cut.texts[lang][split]) for lang in langs)] for split in SPLITS]
    size = {"train": wanted, **{split: dict.fromkeys(langs, wanted[split]) for split in ("valid", "test")}}
    fewer = [
        f"{lang} {split} (of {size[split][lang]:,})"
        for split in SPLITS
        for lang in langs
        if len(cut.texts[lang][split]) < size[split][lang]
    ]
    held = "the same English lines in all languages" if cut.shared else "own lines for each language"
    text = f"{Table(['pairs', *langs], rows).to_markdown()}\n\nvalid and test: {held}."
    return f"{text}\nFewer than asked for: {', '.join(fewer)}." if fewer else text


def attribution(used: Sequence[Path], folder: Path, table: str) -> str:
    """The text of ATTRIBUTION.md: licence, what was changed, where the authors are named, files, counts."""
    rows: list[list[Cell]] = []
    for path in used:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        date = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
        rows.append([path.relative_to(folder).as_posix(), date, path.stat().st_size, digest])
    files = Table(["file", "dated", "bytes", "sha256"], rows).to_markdown()
    return (
        "Sentences and translations by the members of Tatoeba (https://tatoeba.org), under the licence CC BY 2.0 FR\n"
        "(https://creativecommons.org/licenses/by/2.0/fr/). Changed here: some of them were chosen, cut into train,\n"
        "valid and test, and written with single spaces, in NFC, Romanian with the comma below s and t.\n\n"
        f"{CREDITS} says for each line of each file which two sentences it is, English first. The author of sentence\n"
        "#N is named at https://tatoeba.org/sentences/show/N and, with all others of a language, in the fourth column\n"
        f"of {ADDRESSES[0]}/LLL/LLL_sentences_detailed.tsv.bz2;\nlines from manythings.org have the names with them."
        f"\n\n## Files read\n\n{files}\n\n## Sentence pairs\n\n{table}\n"
    )


def _fetch_all(langs: Sequence[str], out: Path) -> Path:
    folder = out.expanduser().resolve().parent / "downloads" / "tatoeba"
    names = ["eng/eng_sentences.tsv.bz2"]
    for code in (LANGUAGES[lang] for lang in langs):
        names += [f"{code}/{code}_sentences.tsv.bz2", f"{code}/{code}-eng_links.tsv.bz2"]
    for number, name in enumerate(names, 1):
        remote = Remote(tuple(f"{address}/{name}" for address in ADDRESSES), name.partition("/")[2], unpinned=UNPINNED)
        _say(f"[{number}/{len(names)}] {remote.name}")
        try:
            fetch(remote, folder)
        except Offline as error:
            raise Offline(f"{error} Or fetch the files on another machine and give their folder: --source.") from error
    return folder


def _checked_sizes(standard: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    wanted = {**standard, **sizes}
    wrong = [f"{k}={n!r}" for k, n in wanted.items() if k not in standard or type(n) is not int or n < 1]
    if wrong:
        names = ", ".join(standard)
        raise UserError(f"sizes: {', '.join(wrong)} cannot be used. Give whole numbers above 0 for {names}.")
    return wanted


def _checked_languages(languages: Sequence[str] | None) -> list[str]:
    chosen = list(LANGUAGES) if languages is None else [lang for lang in LANGUAGES if lang in languages]
    unknown = sorted(set(languages or ()) - set(LANGUAGES))
    if unknown or not chosen:
        raise UserError(f"languages: {', '.join(unknown) or 'none'}. Choose among {', '.join(LANGUAGES)}.")
    return chosen


def _words(english: str) -> list[str]:
    return _WORD.findall(english.replace("\u2019", "'").casefold())


def _credits(cut: Cut, direction: str) -> bytes:
    """`file TAB line TAB attribution` for each line of the corpus, gzipped without a date."""
    lines = [
        f"{split}.{f'{lang}-en' if direction == 'm2o' else f'en-{lang}'}.tsv\t{number}\t{pair.origin}\n"
        for lang, splits in cut.texts.items()
        for split in SPLITS
        for number, pair in enumerate(splits[split], 1)
    ]
    return gzip.compress("".join(lines).encode(), mtime=0)


def _write(corpus: Corpus, out: Path, text: str, credits: bytes, overwrite: bool) -> None:
    """Write the corpus with ATTRIBUTION.md, then our attributions.txt.gz.

    write_corpus refuses files that it does not know, so an earlier attributions.txt.gz of ours is taken away before.
    """
    place, about = out / CREDITS, out / ATTRIBUTION
    ours = place.is_file() and about.is_file() and about.read_bytes().startswith(TITLE.encode())
    previous = place.read_bytes() if ours else None
    temporary = out.resolve().with_name(f".{out.name}.{uuid.uuid4().hex}.{CREDITS}")
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(credits)
        if ours:
            place.unlink()
        try:
            write_with_attribution(corpus, out, text, overwrite)
        except BaseException:
            if previous is not None and about.is_file():  # without ATTRIBUTION.md the next run would refuse it
                place.write_bytes(previous)
            raise
        temporary.replace(place)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}). Choose another directory.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


main = partial(script, "tatoeba6", build)

if __name__ == "__main__":
    with terminal():
        raise SystemExit(main())
