"""The README.md of an exported directory. `export` fills in the <<words>>; tests run the code blocks."""

HUGGINGFACE = """\
# <<label>>, for Hugging Face transformers

Exported by pmd_lite. The class is
<<class>>: it has the layers of this model. The weights are not those of the checkpoints with that name. Run this here:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
# pair: the id in front of a source sentence (a language's tag), the id a translation begins with (a tag, or none)
PAIRS = <<pairs>>


def translate(sentences, pair):
    tag, first = PAIRS[pair]
    ids = [[tag, *tokenizer(text.strip(), truncation=True)["input_ids"]] for text in sentences]
    batch = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
    found = model.generate(**batch, forced_bos_token_id=first)
    return tokenizer.batch_decode(found, skip_special_tokens=True)
```

`print(translate(["..."], "<<pair>>"))` translates one sentence. Text cannot forge a tag.

The logits are those of pmd_lite. `generation_config.json` holds the run's search: beam <<beam>>, length penalty
<<length_penalty>>. It finds the translations that `run.translate` finds, except where:

* a translation begins with a forced tag: here its probability does not count, in pmd_lite it does;
* a translation does not end: here it stops after <<limit>> tokens, in pmd_lite earlier, at 1.5 times the source and 20;
* two ways to cut a source into pieces are equally probable to the last digit.
"""

CTRANSLATE2 = """\
# <<label>>, for CTranslate2

Exported by pmd_lite. Needs the packages ctranslate2 and sentencepiece. Run this here:

```python
import re

import ctranslate2
import sentencepiece

translator = ctranslate2.Translator(".")  # compute_type="int8" is faster and slightly different
# pair: the model that cuts the source into pieces, the tag in front of it, the tags a translation begins with
PAIRS = <<pairs>>
NEVER = <<never>>


def translate(sentences, pair):
    model, tag, first = PAIRS[pair]
    sp = sentencepiece.SentencePieceProcessor(model_file=model)
    pieces = [sp.id_to_piece(sp.encode(text.strip())) for text in sentences]
    found = translator.translate_batch(
        [[tag, *line][: <<limit>> - 1] + ["</s>"] for line in pieces], target_prefix=[first] * len(pieces),
        beam_size=<<beam>>, length_penalty=<<length_penalty>>, max_decoding_length=<<limit>> - 1, min_decoding_length=0,
        suppress_sequences=[[name] for name in NEVER], return_end_token=True,
    )
    return [text_of(result.hypotheses[0][len(first) :]) for result in found]


def text_of(pieces):
    data = [bytes([int(piece[3:5], 16)]) if re.fullmatch("<0x..>", piece) else piece.replace("\\u2581", " ").encode()
            for piece in pieces if piece != "</s>"]
    return b"".join(data).decode(errors="replace").removeprefix(" ")
```

`print(translate(["..."], "<<pair>>"))` translates one sentence. If a text has the characters U+2581, U+2585 or U+FDD0,
pass `pmd_lite.data.tokenizer.escape(text)` instead.

The probabilities are those of pmd_lite. With a beam of 1 the translations are those of `run.translate`. With a larger
beam they are those of its beam search with stop="full", so sometimes one with a lower score. Both hold except where:

* forbidden tokens (NEVER) have a considerable probability: here the other tokens share it, in pmd_lite they do not;
* a translation begins with a forced tag: here its probability does not count, in pmd_lite it does;
* a translation does not end: here it stops after <<limit>> tokens, in pmd_lite earlier, at 1.5 times the source and 20.
"""
