"""Languages and pairs that join a trained tokenizer, so that a trained model can learn them (Ours)."""

from dataclasses import replace

from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import Tokenizer, escape, sides_of, train_model
from pmd_lite.errors import UserError


def extended(tokenizer: Tokenizer, corpus: Corpus) -> Tokenizer:
    """The tokenizer for the corpus's pairs too: whatever it encoded before gets the same ids as before.

    A new language gets a sentencepiece model of its own, trained on its side of the corpus, and a tag. The model has as
    many pieces as that of any other language; where languages share a model, as many as there are for each of them. A
    piece that is known already keeps its id. Raises UserError when a new pair would change the tags of known pairs.
    """
    known, models = tokenizer.pairs, dict(tokenizer.models)
    more = [pair for pair in corpus.pairs if pair not in known]
    if not more:
        return tokenizer
    sides = sides_of(corpus, "per-language")
    new = sorted(set(corpus.languages) - set(tokenizer.languages))
    for language in new:
        size = tokenizer.config.vocab_size
        if "joint" in models:
            texts = [] if tokenizer.config.byte_fallback else sides[language]
            characters = {char for text, column in texts for line in text for char in escape(line[column])}
            size = size // len(tokenizer.languages) + (len(characters) or 256)  # each character, or byte, is a piece
        models[language] = train_model(sides[language], replace(tokenizer.config, vocab_size=size), language)
    origin = {"name": corpus.name, "sha256": corpus.fingerprint, "extends": tokenizer.fingerprint}
    longer = Tokenizer(tokenizer.config, [*known, *more], models, origin, [*tokenizer.joined, *([new] if new else [])])
    if any(longer.encoder_tag(pair) != tokenizer.encoder_tag(pair) for pair in known):
        raise UserError(f"{', '.join(more)} cannot join {', '.join(known)}: with tags=released all pairs need the same "
                        "target language, because otherwise the tags of known pairs change. Train anew")  # fmt: skip
    return longer
