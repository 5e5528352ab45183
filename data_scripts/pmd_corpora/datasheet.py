"""What is in a corpus, for people: tables on the terminal, and one HTML page with figures, complete in one file.

A word is a piece of text between spaces, without punctuation at its ends, in lower case. Languages written without
spaces are counted in characters. Words are counted in at most 100,000 training lines of a pair, taken at equal
distances; sizes, repeated pairs and leaks are counted in all lines.
"""

from __future__ import annotations

import functools
import html
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pmd_lite.data.corpus import Corpus, load_corpus
from pmd_lite.data.reading import ParallelText
from pmd_lite.disk import write_bytes
from pmd_lite.errors import UserError
from pmd_lite.evaluation.tables import Table
from pmd_lite.figures import style
from pmd_lite.figures.style import LessonFigure
from pmd_lite.sampling.temperature import temperature_probabilities

LINES = 100_000  # training lines of a pair whose words are counted
SCRIPT_LINES = 10_000  # of these, lines whose scripts are checked
ODD = 0.05  # a warning appears when at least this share of lines is in another script
PANELS = 24  # most histograms drawn

_UNSPACED = {"zh", "zho", "cmn", "yue", "ja", "jpn", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"}
_LANGUAGES = {  # script, as Unicode names its letters -> codes of the languages that are written in it alone
    "CJK": "zh zho cmn yue",
    "CJK HIRAGANA KATAKANA": "ja jpn",
    "HANGUL CJK": "ko kor",
    "CYRILLIC": "ru rus bg bul mk mkd uk ukr be bel kk kaz ky kir tg tgk",
    "GREEK": "el ell gre",
    "ARABIC": "ar ara fa fas per ur urd ps pus",
    "HEBREW": "he heb yi yid",
    "DEVANAGARI": "hi hin mr mar ne nep sa san",
    "BENGALI": "bn ben as asm", "TAMIL": "ta tam", "TELUGU": "te tel", "KANNADA": "kn kan", "MALAYALAM": "ml mal",
    "GUJARATI": "gu guj", "GURMUKHI": "pa pan", "ORIYA": "or ori", "SINHALA": "si sin", "THAI": "th tha",
    "LAO": "lo lao", "KHMER": "km khm", "MYANMAR": "my mya", "TIBETAN": "bo bod", "GEORGIAN": "ka kat geo",
    "ARMENIAN": "hy hye arm", "ETHIOPIC": "am amh ti tir",
    "LATIN": "en eng fr fra fre de deu ger es spa it ita pt por nl nld ro ron rum tr tur et est fi fin sv swe da dan "
    "no nor nb nob nn nno is isl pl pol cs ces cze sk slk slo sl slv hr hrv bs bos hu hun lv lav lt lit sq sqi ca cat "
    "gl glg eu eus ga gle cy cym mt mlt id ind ms msa vi vie tl tgl sw swa af afr eo epo la lat",
}  # fmt: skip
SCRIPTS = {code: frozenset(script.split()) for script, codes in _LANGUAGES.items() for code in codes.split()}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SideFacts:
    """One side of one pair."""

    language: str
    unit: str
    """What lengths count: words or characters."""
    lengths: Ints
    """[line] units in each sampled training line."""
    types: int
    """Different units in these lines."""
    unseen: float
    """Share of the test set's units that are not in these lines."""
    odd: float
    """Share of lines that are mostly in a script the language is not written in; 0 if its script is not known."""
    other: float
    """The same share if these lines were in the language of the other side."""


@dataclass(frozen=True)
class PairFacts:
    """What `look` measures of one pair."""

    pair: str
    sizes: tuple[int, int, int]
    """Lines of train, valid, test."""
    repeated: int
    """Training pairs that repeat an earlier one."""
    leaked: tuple[int, int]
    """Training pairs that are in valid, in test."""
    src: SideFacts
    trg: SideFacts
    example: tuple[str, str]
    """The first training pair."""


@functools.cache
def _edges() -> str:
    """Punctuation, symbols and spaces of the scripts with spaces."""
    return "".join(chr(c) for c in (*range(0x3100), *range(0xFE00, 0xFFF0)) if unicodedata.category(chr(c))[0] in "PSZ")


def _units(line: str, unspaced: bool) -> list[str]:
    if unspaced:
        return [character for character in line if unicodedata.category(character)[0] not in "PSZ"]
    return [word for chunk in line.lower().split() if (word := chunk.strip(_edges()))]


@functools.cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "?").partition(" ")[0].replace("FULLWIDTH", "LATIN")


def _fits(line: str, scripts: frozenset[str]) -> bool:
    """Whether at least half of the letters belong to the scripts; a line without letters fits every script.

    A Han sign counts as four letters, about one word: so a Chinese line may have a name in Latin letters.
    """
    weights = [(script, 4 if script == "CJK" else 1) for script in map(_script, filter(str.isalpha, line))]
    return 2 * sum(w for script, w in weights if script in scripts) >= sum(w for _, w in weights)


def _some(text: ParallelText, most: int, column: int) -> Iterator[str]:
    """One side of at most `most` lines, taken at equal distances."""
    return (line[column] for line in text[:: -(-len(text) // most)])


def _look_at_side(train: ParallelText, test: ParallelText, languages: Sequence[str], column: int) -> SideFacts:
    code, other = (languages[side].partition("_")[0] for side in (column, 1 - column))
    unspaced = code in _UNSPACED
    lengths, seen = [], set()
    for line in _some(train, LINES, column):
        units = _units(line, unspaced)
        lengths.append(len(units))
        seen.update(units)
    held = [unit for line in _some(test, LINES, column) for unit in _units(line, unspaced)]
    lines = list(_some(train, SCRIPT_LINES, column))
    odd, as_other = (
        sum(not _fits(line, SCRIPTS[key]) for line in lines) / len(lines) if key in SCRIPTS else 0.0
        for key in (code, other)
    )
    unseen = sum(unit not in seen for unit in held) / max(1, len(held))
    unit = "characters" if unspaced else "words"
    return SideFacts(languages[column], unit, np.array(lengths), len(seen), unseen, odd, as_other)


def _hashes(text: ParallelText) -> Ints:
    """[line] one hash of 8 bytes for each sentence pair."""
    return np.concatenate([src * np.int64(0x5851F42D4C957F2D) + trg for src, trg in text.hash_blocks()])


def look(corpus: Corpus) -> list[PairFacts]:
    """Measure every pair, in the order of the corpus; reads the text once or twice."""
    facts = []
    for pair in corpus.pairs:
        train, valid, test = (getattr(corpus, split)[pair] for split in ("train", "valid", "test"))
        hashes = _hashes(train)
        in_valid, in_test = (int(np.isin(hashes, _hashes(text)).sum()) for text in (valid, test))
        src, trg = (_look_at_side(train, test, pair.split("-"), column) for column in (0, 1))
        sizes, repeated = (len(train), len(valid), len(test)), len(hashes) - len(np.unique(hashes))
        facts.append(PairFacts(pair, sizes, repeated, (in_valid, in_test), src, trg, train[0]))
    return facts


def summary(facts: Sequence[PairFacts]) -> tuple[Table, Table, Table]:
    """Tables of sizes and sampling shares, of lengths and vocabulary of each side, and of faults in the text."""
    shares = [temperature_probabilities([f.sizes[0] for f in facts], tau).tolist() for tau in (1, 5)]
    sizes = Table(
        ["pair", "train", "valid", "test", "share tau=1", "share tau=5"],
        [[f.pair, *f.sizes, shares[0][i], shares[1][i]] for i, f in enumerate(facts)],
        digits=3, caption="Sentence pairs, and the share of each pair in training (Eq. 2)",
    )  # fmt: skip
    sampled = any(f.sizes[0] > LINES for f in facts)
    words = Table(
        ["pair", "side", "counted in", "mean length", "different", "unseen in test"],
        [[f.pair, side.language, side.unit, float(side.lengths.mean()), side.types, f"{side.unseen:.1%}"]
         for f in facts for side in (f.src, f.trg)],
        digits=1, caption=f"Words of the training text{f', in {LINES:,} lines a pair' if sampled else ''}",
    )  # fmt: skip
    faults = Table(
        ["pair", "repeated pairs", "share repeated", "in valid too", "in test too", "source script", "target script"],
        [[f.pair, f.repeated, f"{f.repeated / f.sizes[0]:.1%}", *f.leaked, *map(_say_script, (f.src, f.trg))]
         for f in facts],
        caption="Training pairs that should not be there; lines in another script than the language's",
    )  # fmt: skip
    return sizes, words, faults


def _say_script(side: SideFacts) -> str:
    return f"{side.odd:.1%} other" if side.language.partition("_")[0] in SCRIPTS else "not known"


def hints(facts: Sequence[PairFacts]) -> list[str]:
    """A warning for every side that does not look like its language."""
    lines = []
    for f in facts:
        for which, side, other in (("source", f.src, f.trg), ("target", f.trg, f.src)):
            if side.odd >= ODD:
                scripts = " or ".join(sorted(SCRIPTS[side.language.partition("_")[0]])).title().replace("Cjk", "Han")
                what = f"{f.pair}: {side.odd:.0%} of the {which} lines are not in {side.language}'s script ({scripts})"
                known = other.language.partition("_")[0] in SCRIPTS
                turned = known and side.other < side.odd and other.other < other.odd
                lines.append(f"{what}. {'The sides look exchanged.' if turned else 'Is it another language?'}")
    return lines


def _size_figure(facts: Sequence[PairFacts]) -> LessonFigure:
    pairs, sizes = [f.pair for f in facts], [f.sizes[0] for f in facts]
    shares = [temperature_probabilities(sizes, tau).tolist() for tau in (1, 5)]
    text = "; ".join(f"{p} {n:,} pairs, {a:.1%} and {b:.1%}" for p, n, a, b in zip(pairs, sizes, *shares, strict=True))
    alt = f"Training pairs on a log scale, and their shares in training at tau 1 and tau 5: {text}."
    fig, (left, right) = style.new_figure(alt, 2, columns=2, height=1.2 + 0.32 * len(pairs))
    rows = np.arange(len(pairs))[::-1]
    left.barh(rows, sizes, color=style.COLOURS[0], height=0.7)
    left.set_xscale("log")
    left.set_xlim(left=min(sizes) / 3)
    for i, (tau, share) in enumerate(zip((1, 5), shares, strict=True)):
        right.barh(rows + 0.2 - 0.4 * i, share, 0.38, label=rf"$\tau={tau}$", color=style.COLOURS[i],
                   hatch=style.HATCHES[i], edgecolor="white")  # fmt: skip
    for ax in (left, right):
        ax.set_yticks(rows, pairs)
    style.name_axes(left, "training pairs (log scale)")
    style.name_axes(right, "share in training")
    style.legend_above(fig, *right.get_legend_handles_labels())
    return style.settled(fig)


def _length_figure(facts: Sequence[PairFacts]) -> LessonFigure:
    shown = facts[:PANELS]
    text = "; ".join(
        f"{f.pair} " + " and ".join(f"{np.median(side.lengths):.0f} {side.unit}" for side in (f.src, f.trg))
        for f in shown
    )
    alt = f"Histograms of the lengths of training sentences, a panel per pair. Median of source and target: {text}."
    fig, axes = style.new_figure(alt, len(shown), columns=3 if len(shown) > 4 else 2, height=2.2)
    for f, ax in zip(shown, axes, strict=True):
        top = max(2, int(max(np.percentile(side.lengths, 99) for side in (f.src, f.trg))))
        edges = np.arange(0, top + 2, max(1, top // 40))
        for i, side in enumerate((f.src, f.trg)):
            share = np.histogram(side.lengths, edges)[0] / len(side.lengths)
            line = {key: value for key, value in style.series_style(i).items() if not key.startswith("mark")}
            ax.stairs(share, edges, label=("source", "target")[i], **line)
        style.name_axes(ax, title=f.pair)
        ax.set_ylim(bottom=0)
    style.legend_above(fig, *axes[0].get_legend_handles_labels())
    fig.supxlabel("words (characters where there are no spaces)", fontsize=style.TEXT_SIZE)
    fig.supylabel("share of lines", fontsize=style.TEXT_SIZE)
    return style.settled(fig)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 2rem auto }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0 }}
caption {{ text-align: left; font-weight: bold; padding: .3rem 0 }}
th, td {{ padding: .25rem .7rem; border-bottom: 1px solid #ccc; vertical-align: top }}
.warning {{ border-left: .4rem solid #d55e00; padding: .3rem .8rem; background: #fdf3ec }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""


def write_datasheet(corpus: Corpus, path: Path, facts: Sequence[PairFacts] | None = None) -> Path:
    """Write one HTML page with the tables, warnings, figures and an example of each pair; returns its path.

    The page holds its figures and links to nothing. The same corpus gives the same bytes. facts: what `look` returned,
    if the caller has it. Raises UserError if the page cannot be written, or would be among the files of the corpus.
    """
    if corpus.path and path.resolve().parent == corpus.path.resolve():
        raise UserError(f"{path} is inside the corpus, where only its own files may be. Choose a path outside it.")
    body = "\n".join(_body(corpus, look(corpus) if facts is None else facts))
    page = _PAGE.format(title=html.escape(f"Datasheet: {corpus.name}"), body=body)
    write_bytes(path, page.encode())
    return path


def _body(corpus: Corpus, facts: Sequence[PairFacts]) -> Iterator[str]:
    origin = {"Direction": corpus.direction, "Licence": corpus.licence, "Source": corpus.source}
    yield "".join(f"<p><strong>{key}</strong>: {html.escape(value)}</p>\n" for key, value in origin.items())
    sizes, words, faults = summary(facts)
    yield f"<h2>Sizes</h2>\n{sizes.to_html()}\n{style.figure_html(_size_figure(facts))}"
    yield f"<h2>Sentences and words</h2>\n{words.to_html()}"
    more = f"<p>The first {PANELS} pairs of {len(facts)}:</p>\n" if len(facts) > PANELS else ""
    yield f"{more}{style.figure_html(_length_figure(facts))}"
    yield f"<h2>Faults</h2>\n{faults.to_html()}"
    for warning in [*hints(facts), *corpus.warnings]:
        yield f'<p class="warning">Warning: {html.escape(warning)}</p>'
    yield "<h2>Examples</h2>\n<table>\n<caption>The first training pair of each</caption>\n<thead><tr>"
    yield "".join(f'<th scope="col">{name}</th>' for name in ("pair", "source", "target")) + "</tr></thead>\n<tbody>"
    for f in facts:
        cells = (
            f'<td lang="{side.language.replace("_", "-")}" dir="auto">{html.escape(text)}</td>'
            for side, text in zip((f.src, f.trg), f.example, strict=True)
        )
        yield f'<tr><th scope="row">{f.pair}</th>{"".join(cells)}</tr>'
    how = (__doc__ or "").partition("\n\n")[2] + (
        f" A line is in a script if half of its letters are (a Han sign counts four): {SCRIPT_LINES:,} lines a pair."
    )
    yield f"</tbody>\n</table>\n<h2>How it was counted</h2>\n<p>{html.escape(' '.join(how.split()))}</p>"


def show_corpus(path: Path, html: Path | None = None) -> None:
    """Print what is in the corpus directory; with `html`, also write the datasheet there.

    Training pairs that are in valid or test are only reported. Anything else that makes a corpus unreadable raises
    UserError.
    """
    corpus = load_corpus(path, allow_leakage=True)
    facts = look(corpus)
    print(f"{corpus.name}: {corpus.direction}, licence {corpus.licence}")
    for table in summary(facts):
        print(f"\n{table.to_text()}")
    print()
    for f in facts:
        print(f"{f.pair}: {f.example[0]}  ->  {f.example[1]}")
    for warning in hints(facts):
        print(f"warning: {warning}")
    for warning in corpus.warnings:
        print(f"note: {warning}")
    if html is not None:
        print(f"datasheet: {write_datasheet(corpus, html, facts)}")
