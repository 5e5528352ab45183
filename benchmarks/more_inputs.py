"""More kinds of inputs for `benchmarks.fuzz`: those that need things of their own, made when the first one comes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch

import pmd_lite as pmd
from benchmarks.inputs import SETTINGS, Place, Silent, commanded, reads_alike, train
from benchmarks.mutations import ODD, TEXTS, cut, flip, spoil_json, strange
from pmd_corpora import fetch as fetching
from pmd_corpora import local
from pmd_corpora.assembling import Making
from pmd_corpora.transfer import Remote
from pmd_lite.cli import commands
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.comparing.entries import parse_entry
from pmd_lite.config import Config
from pmd_lite.data.batching import eval_batches
from pmd_lite.data.corpus import load_corpus
from pmd_lite.data.tokens import EncodedCorpus, encode_corpus
from pmd_lite.disk import checksum, write_json
from pmd_lite.distillation.topk import TopKCache
from pmd_lite.exchange.huggingface import from_huggingface, load_huggingface
from pmd_lite.exchange.marian import Imported
from pmd_lite.run import Run
from pmd_lite.training.snapshot import differences
from pmd_lite.training.weights import save_weights
from tests.local_server import serve

STORED = Path(__file__).parents[1] / "lessons" / "results" / "compare_longtail.json"
ENDLESS = ("steps", "epochs", "accumulate", "tokens", "compile")
"""Fields of which some values are right, and take long."""
SHOTS = [cut, flip, flip, flip, strange, lambda path, _: path.unlink()]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def mixed(place: Place, here: Path, chance: random.Random) -> None:
    """A finished run with a file or a folder of another one."""
    path = Path(shutil.copytree(place.root / "whole" / "run", here / "r"))
    other = place.prepared("other text", _other_text)
    if chance.random() < 0.7:
        other = place.root / "whole" / chance.choice(["seed", "method", "rate"])
    name = chance.choice([*(file.relative_to(path) for file in _files(path)), Path("tokenizer"), Path("checkpoint"),
                          Path("translations")])  # fmt: skip
    if not (other / name).exists():
        return
    if (path / name).is_dir():
        shutil.rmtree(path / name)
        shutil.copytree(other / name, path / name)
    else:
        shutil.copy(other / name, path / name)
    reads_alike(place, path, name)


def _other_text(out: Path) -> None:
    """A run with as many ids, on another text."""
    world = {"head": 60, "minimum": 10, "held": 6, "nouns": 10, "verbs": 4, "adjectives": 3, "homonyms": 1}
    train(pmd.load_corpus("toy", pairs=["fra-eng", "tur-eng"], seed=5, **world), out)


def records(place: Place, here: Path, chance: random.Random) -> None:
    """The stored summary of a comparison, or the directory of one, with a wrong JSON file."""
    if chance.random() < 0.6:
        file = Path(shutil.copy(STORED, here / "summary.json"))
        spoil_json(file, chance)
        found = Comparison.load(file)
    else:
        path = Path(shutil.copytree(place.prepared("comparison", lambda out: _comparison(place, out)), here / "c"))
        file = chance.choice([path / "runs.json", *(p for p in _files(path) if p.suffix == ".json")])
        spoil_json(file, chance)
        found = Comparison(path)
    repr(found), found.cost_table().to_text(), found.moving()
    for label in found.systems:
        found.points(label), found.points(label, "dev_loss"), found.curve(label), found.cost(label)
        [found.difference(label, of) for of in ("mean", "HRL", "LRL")]


def _comparison(place: Place, out: Path) -> None:
    """As `compare` leaves it, without its processes."""
    methods = ["tau=1", "uni-pmd"]
    for method in methods:
        train(place.corpus, parse_entry(method).path(out / "runs", 1), method=method)
    write_json(out / "runs.json", {"corpus": str(place.root / "corpus"), "corpus_options": {"strict": True},
               "preset": "toy", "overrides": {"steps": 4}, "init": None, "methods": methods, "seeds": [1],
               "folder": "runs", "failed": {}})  # fmt: skip


def caches(place: Place, here: Path, chance: random.Random) -> None:
    """Cached ids, or cached predictions of teachers, with a damaged file; they must be refused or read unchanged."""
    run = Run(place.root / "whole" / "run")
    kept = Path(shutil.copytree(place.prepared("caches", lambda out: _caches(place, run, out)), here / "c"))
    file = chance.choice([path for path in _files(kept) if path.name != "sums.json" or chance.random() < 0.3])
    if file.name == "sums.json":
        spoil_json(file, chance)
    elif chance.random() < 0.2:
        shutil.copy(chance.choice([other for other in _files(file.parent) if other != file]), file)
    else:
        chance.choice(SHOTS)(file, chance)
    encoded = encode_corpus(place.corpus, run.tokenizer, 24, kept)
    true = encode_corpus(place.corpus, run.tokenizer, 24)
    taught = _taught(kept / "top", run, true)
    whole = _taught(place.root / "caches" / "top", run, true)
    for one, other in zip((*encoded.train, *encoded.valid), (*true.train, *true.valid), strict=True):
        for side, beside in ((one.src, other.src), (one.trg, other.trg)):
            if [x.tolist() for x in side] != [x.tolist() for x in beside]:  # type: ignore[attr-defined]
                raise Silent(f"other ids after a change of {file.name}")
    if list(differences(taught, whole)):
        raise Silent(f"other predictions after a change of {file.name}")


def _caches(place: Place, run: Run, out: Path) -> None:
    encode_corpus(place.corpus, run.tokenizer, 24, out)
    _taught(out / "top", run, encode_corpus(place.corpus, run.tokenizer, 24))


def _taught(folder: Path, run: Run, encoded: EncodedCorpus) -> list[torch.Tensor]:
    teachers = [run.model(student) for student in (0, 1)] if not folder.exists() else [torch.nn.Identity()] * 2
    cache = TopKCache.build(folder, teachers, encoded.train, 4, 200, torch.device("cpu"))
    best = [cache.read(batch) for i, split in enumerate(encoded.train) for batch in eval_batches(split, i, 200)]
    return [tensor for one in best for tensor in (one.ids, one.logits)]


def texts(place: Place, here: Path, chance: random.Random) -> None:
    """A file of parallel text that is damaged. A packed one has checksums: it is refused, or gives the same corpus."""
    from_here = place.prepared("texts", lambda out: _texts(place, out))
    names = ["all.fra-eng.tsv", "all.fra-eng.tsv.gz", "all.fra-eng.tmx", "all.fra-eng.tmx.gz", "fra-eng.txt.zip",
             "all.fra-eng.csv", "all.fra-eng.jsonl", "scored.fra-eng.tsv"]  # fmt: skip
    name = chance.choice(names)
    file = Path(shutil.copy(from_here / name, here / name))
    packed = name.endswith(("gz", "zip"))
    if not packed and chance.random() < 0.5:
        lines = file.read_bytes().split(b"\n")
        lines[chance.randrange(len(lines))] = chance.choice(TEXTS)
        file.write_bytes(b"\n".join(lines))
    else:
        chance.choice(SHOTS)(file, chance)
    with redirect_stderr(io.StringIO()):
        scored: dict[str, Any] = {"score_column": "1", "min_score": 0.5} if "scored" in name else {}
        local.build(here / "c", file, making=Making(valid=8, test=8), **scored)
    if packed and load_corpus(here / "c").fingerprint != load_corpus(from_here / "whole").fingerprint:
        raise Silent(f"another text after a change of {name}")


def _texts(place: Place, out: Path) -> None:
    out.mkdir()
    rows = [*place.corpus.train["fra-eng"], *place.corpus.valid["fra-eng"], *place.corpus.test["fra-eng"]]
    plain = "".join(f"{src}\t{trg}\n" for src, trg in rows)
    (out / "all.fra-eng.tsv").write_text(plain, encoding="utf-8")
    with (out / "all.fra-eng.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("fra", "eng"), *rows])
    lines = [json.dumps({"translation": {"fra": src, "eng": trg}}) for src, trg in rows]
    (out / "all.fra-eng.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    scores = "".join(f"{1 - i % 3 / 4}\t{src}\t{trg}\n" for i, (src, trg) in enumerate(rows))
    (out / "scored.fra-eng.tsv").write_text(scores, encoding="utf-8")
    units = "".join(f'<tu><tuv xml:lang="fra"><seg>{src}</seg></tuv>\n<tuv xml:lang="eng"><seg>{trg}</seg></tuv></tu>\n'
                    for src, trg in rows)  # fmt: skip
    (out / "all.fra-eng.tmx").write_text(
        f'<tmx><header srclang="fra"/>\n<body>\n{units}</body></tmx>\n', encoding="utf-8"
    )
    for name in ("all.fra-eng.tsv", "all.fra-eng.tmx"):
        (out / f"{name}.gz").write_bytes(gzip.compress((out / name).read_bytes()))
    with zipfile.ZipFile(out / "fra-eng.txt.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for column, language in enumerate(("fra", "eng")):
            file.writestr(f"x.fra-eng.{language}", "".join(row[column] + "\n" for row in rows))
    with redirect_stderr(io.StringIO()):
        local.build(out / "whole", out / "all.fra-eng.tsv", making=Making(valid=8, test=8))


def words(place: Place, here: Path, chance: random.Random) -> None:
    """An odd value for an option of a command other than train."""
    run, corpus, text = str(here / "r"), str(place.root / "corpus"), here / "text"
    shutil.copytree(place.root / "whole" / "run", run)
    text.write_text("a b\n", encoding="utf-8")
    table = {
        ("translate", run, "--pair", "fra-eng", "--file", str(text)): ("--student", "--beam", "--pair"),
        ("evaluate", run): ("--corpus", "--split", "--beam", "--tokenize", "--strict"),
        ("export", run, "--to", "no", "--out", str(here / "e")): ("--to", "--student"),
        ("show", run): ("--metrics", "--figures"),
        ("estimate", "-c", corpus, "-m", "tau=1", "--tokens-per-second", "9", "--d-model", "16", "--heads", "2"): (
            "--mean-tokens", "--tokens-per-second", "--seconds", "--processes", "--init", "--samplers", "--direction"),
        ("estimate", "--tokens-per-second", "9", "--sizes", "fra-eng=60"): ("--sizes", "--mean-tokens", "--processes"),
        ("compare", "--methods", "no-method", "--out", str(here / "c"), "-c", corpus): (
            "--seeds", "--workers", "--reference", "--equal", "--set", "--preset", "--init", "--strict", "--methods"),
        ("data", "toy", "--out", str(here / "d")): ("--seed", "--direction", "--scale", "--source", "--pairs"),
        ("data", "local", str(text), "--out", str(here / "d")): ("--seed", "--pairs"),
        ("data", "show", corpus): ("--seed", "--scale"),
        ("import", corpus, "--out", str(here / "i"), "--pairs", "fra-eng"): ("--codes", "--pairs"),
        ("train", "-m", "no-method", "--out", str(here / "r2")): (
            "--resume", "--show", "--use", "--init", "--processes", "--direction", "--strict", "--samplers"),
    }  # fmt: skip
    command = chance.choice(list(table))
    option, value = chance.choice(table[command]), str(chance.choice(ODD)).replace("\0", "")
    if (option, value) == ("--processes", "0"):  # right, and starts two processes
        return
    given = [f"{option}={value}"] if chance.random() < 0.5 else [option, value]
    commanded([*command, *given])


def trained(place: Place, here: Path, chance: random.Random) -> None:
    """A run of two updates with an odd value for one option."""
    homes = [(section, name) for section, part in Config().to_dict().items() if isinstance(part, dict) for name in part
             if name not in ENDLESS]  # fmt: skip
    section, name = chance.choice(homes)
    method = chance.choice(["uni-pmd", "auto-pmd", "lssd", "multidds-s", "tau=1"])
    given = {**SETTINGS, "steps": 2, name: chance.choice([x for x in ODD if not isinstance(x, list | dict)])}
    options = [f"--{'tokenizer.' if key == 'vocab_size' or (key == name and section == 'tokenizer') else ''}"
               f"{key.replace('_', '-')}={str(value).replace(chr(0), '')}" for key, value in given.items()]  # fmt: skip
    drawn, commands.draw = commands.draw, lambda runs, scored: None
    try:
        commanded(["train", "-c", str(place.root / "corpus"), "-m", method, "--show", "off", "--out", str(here / "r"),
                   *options])  # fmt: skip
    finally:
        commands.draw = drawn


def downloads(place: Place, here: Path, chance: random.Random) -> None:
    """A download that was interrupted, with one damaged file; in the end the file is whole, or there is an error."""
    body = random.Random(3).randbytes(3000)
    with serve({"a.bin": body}) as url:
        known = chance.random() < 0.5
        remote = Remote((f"{url}/a.bin",), "a.bin", *((len(body), None) if not known else (None, None)))
        tag = url.pages["a.bin"].tag()
        (here / "a.bin.part").write_bytes(body[:1000])
        about: dict[str, Any] = {"url": f"{url}/a.bin", "size": len(body), "etag": tag, "modified": ""}
        write_json(here / "a.bin.part.json", about)
        (here / "sum").write_bytes(body)
        record = {"url": f"{url}/a.bin", "size": len(body), "sha256": checksum(here / "sum"), "date": ""}
        write_json(here / "a.bin.sha256.json", record)
        if chance.random() < 0.3:  # the download had ended
            (here / "a.bin").write_bytes(body)
        file = chance.choice([path for path in _files(here) if path.name != "sum"])
        spoil_json(file, chance) if file.suffix == ".json" and chance.random() < 0.7 else chance.choice(SHOTS)(
            file, chance
        )
        waits, fetching.WAIT = fetching.WAIT, 0.0
        try:
            got = fetching.fetch(remote, here, show=False, retries=1, timeout=5)
        finally:
            fetching.WAIT = waits
        if got.read_bytes() != body:
            raise Silent(f"another file after a change of {file.name}")


def starts(place: Place, here: Path, chance: random.Random) -> None:
    """An imported checkpoint with a damaged file."""
    run = Run(place.root / "whole" / "run")
    path = Path(shutil.copytree(place.prepared("start", lambda out: _start(run, out)), here / "i"))
    file = chance.choice(_files(path))
    spoil_json(file, chance) if file.suffix == ".json" and chance.random() < 0.7 else chance.choice(SHOTS)(file, chance)
    start = Imported(path)
    start.configure(Config(), ())
    start.check(place.corpus.pairs)
    if list(differences(dict(start.model().state_dict()), dict(run.model().state_dict()))):
        raise Silent(f"other weights after a change of {file.name}")


def _start(run: Run, out: Path) -> None:
    out.mkdir()
    save_weights(run.model().state_dict(), out / "model.safetensors")
    run.tokenizer.save(out / "tokenizer")
    shape = Config.to_dict(run.config)["model"]
    write_json(out / "imported.json", {"source": "x", "model": shape, "sha256": checksum(out / "model.safetensors")})


def exports(place: Place, here: Path, chance: random.Random) -> None:
    """An export for transformers with a damaged file. Its weights have no checksum, so no value is compared."""
    run = Run(place.root / "whole" / "run")
    kept: Callable[[Path], object] = lambda out: run.export("hf", out)  # noqa: E731
    path = Path(shutil.copytree(place.prepared("export", kept), here / "e"))
    file = chance.choice([file for file in _files(path) if file.suffix in (".json", ".safetensors")])
    spoil_json(file, chance) if file.suffix == ".json" and chance.random() < 0.7 else chance.choice(SHOTS)(file, chance)
    from_huggingface(load_huggingface(path))
