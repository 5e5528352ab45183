"""What a run will take, before it begins: how much it will compute (`counting`), and how fast that goes (`timing`)."""

MEAN_TOKENS = 30.0
"""Tokens of a sentence where nothing else is known."""
