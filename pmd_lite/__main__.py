"""python -m pmd_lite: see `cli.arguments`."""

import sys

from pmd_lite.cli.arguments import main

if __name__ == "__main__":
    sys.exit(main())
