"""python -m pmd_lite, pmd-lite: see `cli.arguments`."""

import sys

from pmd_corpora.terminal import terminal
from pmd_lite.cli.arguments import main


def script() -> int:
    """What the console script pmd-lite runs; returns the exit status."""
    with terminal():
        return main()


if __name__ == "__main__":
    sys.exit(script())
