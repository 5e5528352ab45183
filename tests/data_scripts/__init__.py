"""The scripts that make corpora."""
