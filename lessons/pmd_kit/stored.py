"""What stored results of an older version of the library say about themselves."""

from collections.abc import Mapping
from typing import Any

from pmd_lite.training.rundir import FORMAT


def caution(stored: Mapping[str, Any]) -> str:
    """A sentence for captions of results from an older version, whose numbers had another meaning; otherwise ""."""
    old = ". These runs were made by an older version; docs/methods.md says what was wrong then"
    return "" if stored.get("format", 1) == FORMAT else old
