"""Everything on one CUDA GPU, in under eight minutes: speed, memory, search, decoding, and whether a step ever waits.

    python -m benchmarks.gpu                              everything
    python -m benchmarks.gpu --only training loss         parts of it
    python -m benchmarks.gpu --device cpu --tiny          the same code at toy size, to check that it runs

training  target tokens per second of one model (base, 32,000 pieces), fp32, fp16, bf16, and bf16 with torch.compile;
          beside nn.Transformer and Marian with the same autocast and batches. MFU: multiplications and additions of
          real tokens (3 x forward) per second, as a share of the data sheet's and of a large product's on this GPU.
update    joint updates of preset wmt6 with distillation: 8 x 8,192 tokens a student, 64,000 pieces, fp16; peak memory;
          waits for the device inside an update, as PyTorch's sync debug mode reports them (there should be none).
loss      projection and loss of 8,192 tokens, 64,000 pieces, with one teacher: fused against whole logits.
search    one search of Auto-PMD beside an epoch of training, rho = 0.1.
decoding  beam 5, sentences per second, lengths forced.
profile   the operations that take most of a step, and whether any of them copies a value back to the CPU.

Clock: wall time after torch.cuda.synchronize (process CPU time on a CPU), the median of the rounds. Memory:
torch.cuda.max_memory_allocated. Exit status 2 if there is no CUDA device.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import pmd_lite as pmd
from benchmarks.card import FULL, SHEET, TINY, Card, flops, waits
from benchmarks.overheads import make_trainer, now, search_overhead
from benchmarks.peers import SHAPES, Ours, Peer, marian, textbook
from benchmarks.training import make_batches
from pmd_lite.data.tokenizer import BOS, EOS, PAD
from pmd_lite.distillation.fused import Mix, projected_loss
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, pmd_loss
from pmd_lite.distillation.projection import Output
from pmd_lite.distillation.targets import TeacherPart, TeacherStates
from pmd_lite.evaluation.tables import Table
from pmd_lite.model.decoding import translate_batch
from pmd_lite.model.transformer import Transformer
from pmd_lite.planning.stand_in import described
from pmd_lite.planning.timing import describe
from pmd_lite.training.trainer import Trainer

READS = ("aten::item", "aten::nonzero")

# ---------------------------------------------------------------------------------------------------- the parts


def training(card: Card) -> None:
    """Tokens per second of one model."""
    size = card.size
    batches = [batch.to(card.device) for batch in make_batches(size.vocab, size.tokens, size.steps, 30.0)]
    tokens, needed = sum(batch.tokens for batch in batches), flops(size.shape, size.vocab, batches) / 1e12
    sheet = next((rate for name, rate in SHEET.items() if name in describe(card.device)), None)
    large = card.product()
    print(
        f"a bf16 product of {size.product:,} x {size.product:,}: {large:,.1f} TFLOP/s; data sheet: {sheet or 'unknown'}"
    )
    rows: list[list[str | float]] = []

    def measure(name: str, engine: Ours | Peer, autocast: torch.dtype | None = None) -> None:
        def work() -> None:
            with torch.autocast(card.device.type, dtype=autocast, enabled=autocast is not None):
                for batch in batches:
                    engine.update(batch)

        seconds, memory = card.seconds(work), card.peak(work)
        rate = needed / seconds
        rows.append([name, f"{tokens / seconds:,.0f}", f"{rate:,.1f}", f"{rate / sheet:.0%}" if sheet else "",
                     f"{rate / large:.0%}", f"{memory:,.0f}"])  # fmt: skip

    device = str(card.device)
    for precision in ("fp32", "bf16", *(["fp16"] if card.device.type == "cuda" else [])):
        measure(f"pmd_lite {precision}", Ours(size.shape, size.vocab, device, precision))
    if card.compiled:
        measure("pmd_lite bf16, compile=True", Ours(size.shape, size.vocab, device, "bf16", compiled=True))
    for name, build in (("nn.Transformer", textbook), ("Marian", marian)):
        try:
            peer = build(size.shape, size.vocab)
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        measure(f"{name} bf16", Peer(peer.model.to(card.device), peer.logits), torch.bfloat16)
    columns = ["", "target tokens/s", "TFLOP/s", "MFU", "of the product", "memory MiB"]
    print(Table(columns, rows).to_text())


def wmt6_trainer(card: Card, folder: str) -> Trainer:
    """Preset wmt6 over random sentences; at tiny size, a tiny model."""
    size = card.size
    words: dict[str, Any] = {"tokens": size.tokens, "accumulate": size.accumulate, "vocab_size": size.big_vocab,
                             "start": 0.0, "alpha0": 0.4, "device": card.device.type}  # fmt: skip
    if card.device.type == "cpu":
        words |= {"precision": "bf16", **SHAPES[size.shape]}
    config = pmd.preset("wmt6", **words)
    sizes = {f"x{i}-en": size.each for i in range(size.pairs)}
    encoded = described(sizes, mean_tokens=30, held_out=max(1, size.each // 100), config=config).encoded
    return make_trainer("auto-pmd", encoded, config, folder)


def joint(trainer: Trainer) -> None:
    """One update of every student."""
    trainer.clock = trainer.clock.__class__(2, trainer.clock.total, trainer.clock.epoch, 0)
    for student in trainer.students:
        trainer.update(student)


def update(card: Card) -> None:
    """Joint updates of preset wmt6."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = wmt6_trainer(card, folder)
        joint(trainer)
        seconds, memory = card.seconds(lambda: joint(trainer)), card.peak(lambda: joint(trainer))
        train = trainer.config.train
        tokens = 2 * sum(draw.tokens for draw in trainer.students[0].draw(train.accumulate))
        print(f"joint update of two students, {train.accumulate} x {train.tokens:,} tokens each, {train.precision}: "
              f"{seconds:.2f} s, {tokens / seconds:,.0f} target tokens/s, {memory:,.0f} MiB above both models; waits: "
              f"{waits(card, lambda: joint(trainer))}")  # fmt: skip


def loss(card: Card) -> None:
    """Fused loss against whole logits."""
    size, width = card.size, SHAPES[card.size.shape]["d_model"]
    dtype = torch.bfloat16
    hidden, taught = (torch.randn(size.tokens, width, device=card.device, dtype=dtype) for _ in range(2))
    weight, teacher = (torch.randn(size.big_vocab, width, device=card.device) * width**-0.5 for _ in range(2))
    gold = torch.randint(size.big_vocab, (size.tokens,), device=card.device)
    for x in (hidden, weight):
        x.requires_grad_()
    target, found = TeacherStates([TeacherPart(taught, Output(teacher), 1.0)]), dict[str, Tensor]()

    def fused() -> None:
        found["fused"], _ = projected_loss(hidden, Output(weight), gold, 0.1, Mix(0.6, 0.4, target))
        torch.autograd.grad(found["fused"], [hidden, weight])

    def whole() -> None:
        logp = log_probs((hidden @ weight.to(dtype).t()).float())
        with torch.no_grad():
            p = torch.softmax((taught @ teacher.to(dtype).t()).float(), -1)
        found["whole logits"] = pmd_loss(ce_loss(logp, gold, 0.1), kd_loss(logp, p), 0.4)
        torch.autograd.grad(found["whole logits"], [hidden, weight])

    rows: list[list[str | float]] = []
    for name, work in (("fused", fused), ("whole logits", whole)):
        rows.append([name, f"{card.peak(work):,.0f}", f"{1000 * card.seconds(work):,.1f}",
                     f"{float(found[name].detach()) / size.tokens:.4f}"])  # fmt: skip
    print(Table(["Eq. 4 with one teacher", "memory MiB", "ms", "loss / token"], rows).to_text())


def search(card: Card) -> None:
    """A search beside an epoch."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = wmt6_trainer(card, folder)
        joint(trainer)
        trainer.cost = trainer.cost.__class__()
        seconds, products = search_overhead(trainer, 1)
        print(f"search / an epoch of {trainer.clock.epoch} updates of both students: {seconds:.0%} of its time, "
              f"{products:.0%} of its multiply-adds (paper: 30 %)")  # fmt: skip


def decoding(card: Card) -> None:
    """Beam search over sentences of one length."""
    size = card.size
    torch.manual_seed(0)
    model = Transformer(size.vocab, **SHAPES[size.shape]).to(card.device).eval()
    src = torch.randint(4, size.vocab, (size.sentences, size.length), device=card.device)
    half = torch.bfloat16

    def work() -> None:
        with torch.autocast(card.device.type, dtype=half, enabled=card.device.type == "cuda"):
            translate_batch(model, src, beam=5, max_len=size.length, bos=BOS, eos=EOS, pad=PAD)

    seconds = card.seconds(work)
    print(f"beam 5, {size.sentences} sentences of {size.length} tokens: {size.sentences / seconds:,.0f} sentences/s, "
          f"{card.peak(work):,.0f} MiB")  # fmt: skip


def profile(card: Card) -> None:
    """The operations of a step."""
    size = card.size
    engine = Ours(size.shape, size.vocab, str(card.device), "bf16")
    batches = [batch.to(card.device) for batch in make_batches(size.vocab, size.tokens, 3, 30.0)]
    engine.update(batches[0])
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if card.device.type == "cuda" else []
    with torch.profiler.profile(activities=kinds) as seen:
        for batch in batches[1:]:
            engine.update(batch)
    events = seen.key_averages()
    own = "self_device_time_total" if card.device.type == "cuda" else "self_cpu_time_total"
    print(events.table(sort_by=own, row_limit=12, max_name_column_width=40))
    # On a CPU the kernel of fused Adam reads its step counters, which are then in the host's own memory.
    back = Counter(e.cpu_parent.name if e.cpu_parent else "Python" for e in seen.events() or () if e.name in READS)
    print(f"values read back in two steps, by caller: {dict(back) or 'none'}")


PARTS = {part.__name__: part for part in (training, update, loss, search, decoding, profile)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--no-compile", action="store_true", help="leave out the row of compile=True")
    words = parser.parse_args(arguments)
    if words.device == "cuda" and not torch.cuda.is_available():
        print("No CUDA device here (torch.cuda.is_available() is False). To see that this code runs: "
              "python -m benchmarks.gpu --device cpu --tiny", file=sys.stderr)  # fmt: skip
        raise SystemExit(2)
    if words.device == "cpu" and not words.tiny:
        print("On a CPU, use --tiny: the full sizes would take hours.", file=sys.stderr)
        raise SystemExit(2)
    card = Card(torch.device(words.device), TINY if words.tiny else FULL, not words.no_compile)
    print(f"{describe(card.device)}; PyTorch {torch.__version__}" + "; tiny, no figures to quote" * words.tiny)
    for name in words.only:
        started = now(card.device)
        print(f"\n== {name}")
        PARTS[name](card)
        print(f"({now(card.device) - started:.0f} s)")


if __name__ == "__main__":
    main()
