"""What a lesson trains where it is only checked (size "ci"): every cell runs within seconds, and nothing is learnt."""

from typing import Any

WORLD: dict[str, Any] = dict(
    head=60, minimum=10, held=6, nouns=10, verbs=4, adjectives=3, homonyms=1, false_friends=1,
)  # fmt: skip
"""Options of `load_corpus("longtail", ...)`: few sentences, of few words."""

MODEL: dict[str, Any] = dict(d_model=16, max_len=32, encoder_layers=1, decoder_layers=1, beam=1)
"""Options of `train`: one narrow layer on each side, and the best piece at each step when it translates."""
