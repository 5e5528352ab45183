"""What a corpus of millions of pairs costs in memory and time: reading, checking and encoding, in a process of its own.

    python -m benchmarks.encoding_memory [--pairs 1000000 4000000] [--folder DIR] [--vocab 8000]

For every size, it writes invented text (a few hundred bytes a pair, .tsv files). Then a fresh process loads the corpus,
encodes it with a tokenizer that was trained once, on the smallest corpus, and maps the cache. Peak: ru_maxrss, which
also counts the pages of mapped files that happen to be in memory. Anonymous: what the process itself holds, read every
50 ms; this decides whether the corpus fits. Linux only. The target: neither grows by 10 % from the smallest to the
largest corpus.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pmd_lite.config import TokenizerConfig
from pmd_lite.data.corpus import load_corpus
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.evaluation.tables import Table

SHARES = {"fr-en": 0.6, "de-en": 0.3, "tr-en": 0.1}
HELD_OUT, BLOCK, MAX_LEN = 1000, 10_000, 64


def lines(pair: str, count: int, rng: np.random.Generator) -> Iterator[str]:
    """`count` invented pairs, 3 to 30 words a side, in blocks of text; every source ends in a different number."""
    sides = []
    for language in pair.split("-"):
        own = np.random.default_rng(list(language.encode()))
        syllables = [a + b for a in "bcdfglmnprstvz" for b in "aeiou"]
        words = ["".join(own.choice(syllables, size)) for size in own.integers(1, 5, 20_000)]
        sides.append(np.array(words, dtype=object))
    for at in range(0, count, BLOCK):
        size = min(BLOCK, count - at)
        lengths = rng.integers(3, 31, size)
        stops = np.cumsum(lengths)
        # A power of a uniform number makes few words frequent and many rare.
        texts = [side[(20_000 * rng.random(stops[-1]) ** 4).astype(int)].tolist() for side in sides]
        spans = list(zip((stops - lengths).tolist(), stops.tolist(), strict=True))
        left, right = ([" ".join(text[a:b]) for a, b in spans] for text in texts)
        numbers = range(at, at + size)
        yield "".join(f"{src} {n}\t{trg}\n" for src, trg, n in zip(left, right, numbers, strict=True))


def write(folder: Path, pairs: int) -> None:
    """A corpus of `pairs` training pairs over all languages, the same text every time."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (pair, share) in enumerate(SHARES.items()):
        rng = np.random.default_rng((7, number))
        for split, count in (("valid", HELD_OUT), ("test", HELD_OUT), ("train", round(share * pairs))):
            with (folder / f"{split}.{pair}.tsv").open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(lines(pair, count, rng))


class Watch:
    """The largest anonymous memory of this process, in MB, while the context is open."""

    def __init__(self) -> None:
        self.peak, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._stop.wait(0.05):
            text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
            self.peak = max(self.peak, int(re.search(r"^Anonymous:\s+(\d+)", text, re.MULTILINE)[1]) / 1024)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def measure(folder: Path, tokenizer: Path, vocab: int) -> dict[str, Any]:
    """Load, encode, map; run in a fresh process. If there is no tokenizer, train one and measure only that."""
    seconds: dict[str, float] = {}

    def timed(name: str, do: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = do()
        seconds[name] = time.perf_counter() - started
        return result

    with Watch() as watch:
        corpus = timed("load", lambda: load_corpus(folder))
        after = watch.peak
        if not tokenizer.exists():
            config = TokenizerConfig(vocab_size=vocab, max_sentences=20_000, byte_fallback=True)
            timed("train", lambda: train_tokenizer(corpus, config)).save(tokenizer)
        else:
            ready = Tokenizer.load(tokenizer)
            encoded = timed("encode", lambda: encode_corpus(corpus, ready, MAX_LEN, folder / "cache"))
            assert sum(encoded.sizes) > 0.9 * sum(corpus.sizes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak": peak, "anonymous": watch.peak, "load": after, "pairs": sum(corpus.sizes)}


def in_a_process(folder: Path, tokenizer: Path, vocab: int) -> dict[str, Any]:
    """Run `measure` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.encoding_memory", "--measure", str(folder), str(tokenizer)]
    done = subprocess.run([*command, "--vocab", str(vocab)], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def threads_help(folder: Path, tokenizer: Path) -> str:
    """Seconds for 50,000 sentences with one thread, and with as many as `encode_corpus` takes at most."""
    text, ready = [src for src, _ in load_corpus(folder).train["fr-en"][:50_000]], Tokenizer.load(tokenizer)
    taken = []
    for threads in (1, 16):
        started = time.perf_counter()
        for at in range(0, len(text), 8192):
            ready.encode_flat(text[at : at + 8192], "fr-en", "src", threads)
        taken.append(time.perf_counter() - started)
    return f"{len(text):,} sentences: {taken[0]:.1f} s with 1 thread, {taken[1]:.1f} s with 16"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--measure", type=Path, nargs=2, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.measure:
        print(json.dumps(measure(*words.measure, words.vocab)))
        return
    with tempfile.TemporaryDirectory(dir=words.folder) as name:
        place, rows, found = Path(name), [], []
        for pairs in sorted(words.pairs):
            folder = place / str(pairs)
            started = time.perf_counter()
            write(folder, pairs)
            made = time.perf_counter() - started
            if not (place / "tokenizer").exists():
                training = in_a_process(folder, place / "tokenizer", words.vocab)
                print(f"tokenizer of 20,000 sentences: {training['seconds']['train']:.0f} s, "
                      f"peak {training['peak']:.0f} MB; {threads_help(folder, place / 'tokenizer')}")  # fmt: skip
            result = in_a_process(folder, place / "tokenizer", words.vocab)
            found.append(result)
            load, encode = result["seconds"]["load"], result["seconds"]["encode"]
            text = sum(file.stat().st_size for file in folder.glob("*.tsv")) / 2**20
            rows.append([pairs, text, made, load, encode, pairs / (load + encode), result["load"], result["anonymous"],
                         result["peak"]])  # fmt: skip
    columns = ["pairs", "text MB", "write s", "load s", "encode s", "pairs/s", "load: anonymous MB", "anonymous MB",
               "peak MB"]  # fmt: skip
    print(Table(columns, rows, digits=0).to_text())
    for kind in ("anonymous", "peak"):
        print(f"{kind}: largest / smallest corpus = {found[-1][kind] / found[0][kind]:.3f} (bar: 1.100)")


if __name__ == "__main__":
    main()
