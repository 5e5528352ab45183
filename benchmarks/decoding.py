"""Beam search against Hugging Face's `generate` and CTranslate2: same weights, sentences and limits, one thread.

    python -m benchmarks.decoding [--sizes small base] [--sentences 100] [--length 16] [--batch 50] [--rounds 3]
        [--engines generate ours ...] [--memory]

Prints sentences per second of process CPU time. Prints ratios of times from the same round of the same process (the
median round, and all of them). The engines take turns, every other round backwards. --memory adds the peak memory of a
process that runs only this engine (with imports and weights; the process of CTranslate2 has also written its model).

Nothing is trained: the weights are set by hand so that the network copies its source, with a few errors. So
translations are about as long as their sources. Beam 5, length penalty 1, EOS, vocabulary 8,000, sentences sorted by
length, at most 3/2 of the longest source + 20 tokens.

Stopping rules: `generate` with early_stopping=True and CTranslate2 end a sentence as our stop="full" does, and all
three must find the same translations. The default of `generate`, early_stopping=False, is another rule: it judges
hypotheses that still grow by their present score per token. Our default is stop="bound". medium: with
torch.set_float32_matmul_precision("medium"), which is faster only on CPUs with AVX-512.
Targets, from shared figures of a CPU with AVX-512: 1.5 x `generate` at default settings, 2.3 x with medium.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pmd_lite.evaluation.tables import Table
from pmd_lite.exchange.ctranslate2 import save_ctranslate2
from pmd_lite.exchange.huggingface import optional, to_huggingface
from pmd_lite.model.decoding import Stop, beam_search
from pmd_lite.model.layers import CrossAttention
from pmd_lite.model.transformer import Transformer

VOCAB, PAD, UNK, EOS, BEAM = 8000, 0, 1, 3, 5
SIZES: dict[str, dict[str, int]] = {
    "small": {"d_model": 256, "heads": 4, "encoder_layers": 3, "decoder_layers": 3, "ffn": 1024},
    "base": {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "ffn": 2048},
}
ENGINES = (
    "generate", "generate, early_stopping=True", "ours", "ours, stop=full", "ours, medium", "ctranslate2"
)  # fmt: skip
Found = list[list[list[int]]]  # the tokens of every hypothesis of every sentence
Search = Callable[..., Found]


def copying_model(size: str, sharpness: float = 16.0) -> Transformer:
    """Set the weights so that decoder position t attends to source position t and predicts the word that is there.

    The last layer's cross-attention does this; all other weights are small random numbers. The d_head columns of the
    fastest sines and cosines belong to the positions alone: embeddings are zero there, so words do not disturb the
    attention. sharpness: about the logit of the right word; the other logits have a standard deviation of
    sharpness / sqrt(d_model).
    """
    torch.manual_seed(0)
    model = Transformer(VOCAB, **SIZES[size], norm="post", dropout=0.0, max_len=256, pad=PAD).eval()
    d_model, heads = model.d_model, SIZES[size]["heads"]
    rates = torch.arange(d_model // heads // 2)
    clock = torch.cat([rates, d_model // 2 + rates])
    cross = next(module for module in reversed(list(model.modules())) if isinstance(module, CrossAttention))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.01)
        words = model.embedding.weight.normal_(std=sharpness / d_model)
        words[:, clock] = words[PAD] = 0.0
        find, say = torch.eye(d_model)[clock].repeat(heads, 1), torch.eye(d_model)
        say[clock] = 0.0
        cross.query.weight.copy_(20 * find)
        cross.kv.weight.copy_(torch.cat([find, say]))
        cross.out.weight.copy_(5 * torch.eye(d_model))
    return model


def sources(sentences: int, length: int, batch: int) -> list[Tensor]:
    """Random sentences of `length` tokens on average, EOS included, sorted, in padded batches [batch, src_len]."""
    generator = torch.Generator().manual_seed(1)
    lengths = (5 + torch.poisson(torch.full((sentences,), length - 5.0), generator=generator)).long().sort()[0]
    batches = []
    for some in lengths.split(batch):
        ids = torch.randint(EOS + 1, VOCAB, (len(some), int(some[-1])), generator=generator)
        places = torch.arange(ids.shape[1]) - (some[:, None] - 1)
        batches.append(ids.masked_fill(places == 0, EOS).masked_fill(places > 0, PAD))
    return batches


# -------------------------------------------------------------------------------------------------- the engines


def ours(model: Transformer, src: Tensor, max_len: int, *, n_best: int = 1, stop: Stop = "bound") -> Found:
    """Our search."""
    found = beam_search(model, src, beam=BEAM, n_best=n_best, max_len=max_len, bos=PAD, eos=EOS, pad=PAD, stop=stop)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


def theirs(marian: Any, src: Tensor, max_len: int, *, n_best: int = 1, early_stopping: bool = False) -> Found:
    """Hugging Face's search."""
    rows = marian.generate(
        input_ids=src, attention_mask=src.ne(PAD), num_beams=BEAM, num_return_sequences=n_best, do_sample=False,
        max_new_tokens=max_len + 1, length_penalty=1.0, early_stopping=early_stopping,
    )  # fmt: skip
    tokens = [[token for token in row if token not in (PAD, EOS)] for row in rows.tolist()]
    return [tokens[i : i + n_best] for i in range(0, len(tokens), n_best)]


def ctranslate2s(translator: Any, src: Tensor, max_len: int, *, n_best: int = 1) -> Found:
    """CTranslate2's search. It takes and returns names; the name of an id is its digits."""
    rows = [[str(token) for token in row if token != PAD] for row in src.tolist()]
    results = translator.translate_batch(
        rows, beam_size=BEAM, num_hypotheses=n_best, length_penalty=1.0, max_decoding_length=max_len + 1,
        suppress_sequences=[[str(PAD)]], max_batch_size=0,
    )  # fmt: skip
    return [[[int(token) for token in tokens] for tokens in result.hypotheses] for result in results]


def make_engine(name: str, model: Transformer) -> Search:
    """The search with this name, over the same network. Raises UserError if its package is not installed."""
    kind, *options = name.split(", ")
    if kind == "ours":
        return partial(ours, model, stop="full" if options == ["stop=full"] else "bound")
    if kind == "generate":
        return partial(theirs, to_huggingface(model, bos=PAD, eos=EOS), early_stopping=bool(options))
    ctranslate2 = optional(kind)
    with tempfile.TemporaryDirectory() as folder:
        save_ctranslate2(model, [str(i) for i in range(VOCAB)], Path(folder), unk=UNK, bos=PAD, eos=EOS)
        translator = ctranslate2.Translator(folder, compute_type="float32", inter_threads=1, intra_threads=1)
    return partial(ctranslate2s, translator)


# --------------------------------------------------------------------------------------------------- measuring


def run(name: str, search: Search, batches: list[Tensor]) -> tuple[float, Found]:
    """(CPU seconds of this process, the hypotheses found)."""
    torch.set_float32_matmul_precision("medium" if name.endswith("medium") else "highest")
    found: Found = []
    started = time.process_time()
    for src in batches:
        found += search(src, max_len=3 * src.shape[1] // 2 + 20)
    return time.process_time() - started, found


def peak(name: str, size: str, batches: list[Tensor]) -> float:
    """Peak memory of this process in MiB, after it has run one engine."""
    torch.set_num_threads(1)
    run(name, make_engine(name, copying_model(size)), batches)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(size: str, names: list[str], batches: list[Tensor], rounds: int, memory: bool) -> Table:
    """Time all engines in turn, and compare their translations with those of our search under each stopping rule."""
    model = copying_model(size)
    engines = {name: make_engine(name, model) for name in names}
    found = {name: run(name, search, batches)[1] for name, search in engines.items()}  # warms up too
    rules = {stop: run("", partial(ours, model, stop=stop), batches)[1] for stop in ("bound", "full")}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[:: -1 if number % 2 else 1]:
            seconds[name].append(run(name, engines[name], batches)[0])
    sentences, rows = sum(map(len, batches)), []
    for name, times in seconds.items():
        ratios = [base / own for base, own in zip(seconds[names[0]], times, strict=True)]
        same = [sum(a == b for a, b in zip(found[name], rule, strict=True)) for rule in rules.values()]
        row: list[Any] = [name, f"{sentences / statistics.median(times):.1f}", f"{statistics.median(ratios):.2f}",
                          " ".join(f"{ratio:.2f}" for ratio in ratios), *same]  # fmt: skip
        if memory:
            with multiprocessing.get_context("spawn").Pool(1) as alone:
                row.append(f"{alone.apply(peak, (name, size, batches)):,.0f}")
        rows.append(row)
    columns = [size, "sentences / CPU s", f"x {names[0]}", "every round", *(f"as {stop}" for stop in rules)]
    tokens = statistics.mean(len(hypotheses[0]) for hypotheses in rules["full"])
    caption = f"{sentences} sentences; translations have {tokens:.1f} tokens. as ...: same best as ours with stop=..."
    return Table(columns + ["peak MiB"] * memory, rows, caption=caption)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--memory", action="store_true")
    words = parser.parse_args()
    torch.set_num_threads(1)
    batches = sources(words.sentences, words.length, words.batch)
    for size in words.sizes:
        print(measure(size, words.engines, batches, words.rounds, words.memory).to_text(), flush=True)


if __name__ == "__main__":
    main()
