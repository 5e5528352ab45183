"""Every ratio in one run: training, distillation, searches, decoding, padding, scaling, each beside its rivals.

    python -m benchmarks [--only training pmd_step ...]

Each part is a module of this package and runs in a process of its own. It also runs alone, with its own options
(`python -m benchmarks.training --help`). Two parts are left out: kills (takes minutes and gives no ratios) and gpu
(needs a GPU). Padding is measured on a toy corpus, whose small pairs fill no batch; for your corpus, run `python -m
benchmarks.padding --corpus DIR`. JoeyNMT takes part if it is installed: pip install joeynmt importlib_metadata.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec

PARTS: dict[str, list[list[str]]] = {
    "training": [["--shape", "small", "--bf16"], ["--shape", "base", "--bf16"]],
    "pmd_step": [[]],
    "overheads": [["--corpus", "wmt6-like", "--epochs", "1"]],
    "decoding": [[]],
    "padding": [[]],
    "scaling": [[]],
}


def main() -> int:
    """Run the parts one after another; returns 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    failed = []
    for name in parser.parse_args().only:
        for words in PARTS[name]:
            peers = ["--joeynmt"] if name == "training" and find_spec("joeynmt") else []
            command = [f"benchmarks.{name}", *words, *peers]
            print(f"\n## python -m {' '.join(command)}\n", flush=True)
            began = time.monotonic()
            if subprocess.run([sys.executable, "-m", *command]).returncode:
                failed.append(name)
            print(f"({(time.monotonic() - began) / 60:.1f} min)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
