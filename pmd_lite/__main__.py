"""python -m pmd_lite: see `cli.arguments`."""

import sys

from pmd_corpora.terminal import terminal
from pmd_lite.cli.arguments import main

if __name__ == "__main__":
    with terminal():
        sys.exit(main())
