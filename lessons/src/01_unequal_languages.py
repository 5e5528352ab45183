# %% [markdown]
# # 01 Unequal languages
#
# > **You will**: see how much the corpora of one translation model differ in size, learn how we tell one model which language
# > to translate into, and pack sentences of unequal length into batches. **Time**: one minute on two CPU cores, thirty with the
# > exercises. **Difficulty**: 1 of 5. **You need**: Python, and what a PyTorch tensor is.
#
# **Contents**: one model, many pairs · how unequal? · exercise: unequal · one scale hides the tail · from words to pieces ·
# which language is wanted: tags · exercise: tags · a budget of tokens · exercise: pack · exercise: padding by hand · masks ·
# exercise: keep mask · quiz ·
# takeaways

# %% [markdown]
# ## One model, many pairs
#
# A multilingual translation model is trained on several parallel corpora at once. There is one corpus for each *language pair*
# $\ell$, and it holds pairs of sentences that mean the same. In the paper one side is always English. If English is the target,
# the setting is **many-to-one** (M2O). If we reverse the same sentences, the setting is **one-to-many** (O2M). Wherever we
# train a model ourselves, six invented languages take the place of real ones. Here is one meaning in all six:

# %%
import numpy as np
import torch

import pmd_lite as pmd
from pmd_corpora.toy import explain
from pmd_kit import l01
from pmd_lite.data.batching import PairStream, collate, cut_batches
from pmd_lite.evaluation.tables import Table

# %%
corpus = pmd.load_corpus("longtail")
print(explain(world="longtail", i=3))

# %% [markdown]
# A corpus is a list of lines such as these; each line has a source and a target. O2M has the same lines, reversed.

# %%
turned = corpus.reversed()
rows = []
for c in (corpus, turned):
    for pair in (c.pairs[0], c.pairs[2], c.pairs[5]):
        source, target = c.train[pair][0]
        rows.append([c.direction, pair, source, target])
Table(["setting", "pair", "source", "target"], rows)

# %% [markdown]
# ## How unequal?
#
# The paper trains on two collections and lists them in its appendix "Data Statistics". $N_\ell$ is the number of training
# sentence pairs.

# %%
wmt6 = {
    "fr-en": 3_000_000, "de-en": 1_500_000, "zh-en": 400_000,
    "et-en": 80_000, "ro-en": 10_000, "tr-en": 5_000,
}
ted8 = {
    "kor-eng": 205_640, "fra-eng": 192_304, "bul-eng": 174_444, "ell-eng": 134_327,
    "mkd-eng": 25_335, "hin-eng": 18_798, "mar-eng": 9_840, "bos-eng": 5_664,
}
toy = dict(zip(corpus.pairs, corpus.sizes))
corpora = {"WMT-6": wmt6, "TED-8-Diverse": ted8, "longtail (ours)": toy}
rows = []
for name, sizes in corpora.items():
    for pair, n in sizes.items():
        rows.append([name, pair, n, f"{n / sum(sizes.values()):.2%}"])
Table(["corpus", "pair", "sentences", "share"], rows)

# %% [markdown]
# The paper calls the larger half of each list *high-resource* languages (HRL) and the smaller half *low-resource* languages
# (LRL). Two numbers tell us most about such a list. The first is how many times larger the largest pair is than the smallest.
# The second is the share of all sentences that belongs to the larger half.
#
# By hand, for four pairs of 400, 2000, 30 and 110 sentences: the ratio is 2000/30 = 66.7. The larger half owns (2000 + 400) of
# 2540 sentences, a share of 0.945.
#
# ### Exercise 1: unequal (5 minutes, difficulty 1)
#
# Return both numbers, as `(ratio, share)`, for any list `sizes`. The list has even length and may be in any order.

# %% tags=["exercise"]
def unequal(sizes):
    ### BEGIN SOLUTION
    ordered = sorted(sizes, reverse=True)
    larger = ordered[: len(ordered) // 2]
    return ordered[0] / ordered[-1], sum(larger) / sum(ordered)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l01.checks.UNEQUAL.check(unequal)
### BEGIN HIDDEN TESTS
l01.checks.UNEQUAL.grade(unequal, seed=1)
### END HIDDEN TESTS

# %% [markdown]
# The answers for the three corpora, with the totals:

# %%
rows = []
for name, sizes in corpora.items():
    n = sorted(sizes.values(), reverse=True)
    rows.append([name, sum(n), f"{n[0] / n[-1]:.0f} : 1", f"{sum(n[: len(n) // 2]) / sum(n):.1%}"])
Table(["corpus", "sentences", "largest : smallest", "owned by the larger half"], rows)

# %% [markdown]
# **What to notice.** In WMT-6 the three smallest languages together have two sentences of a hundred. TED-8-Diverse is less
# unequal: 36 : 1 against 600 : 1, and the paper says so too. (The paper also says that TED-8-Diverse has "around 570K" sentence
# pairs. The table in its appendix adds up to 766,352. Such things happen in papers, and adding up a column is a cheap check.)

# %% [markdown]
# ## One scale hides the tail
#
# If a few entries of a list own nearly everything, and many entries share the rest, the list has a **long tail**. On a linear
# scale you can hardly see the tail:

# %%
l01.figures.corpus_sizes(
    wmt6, scale="linear",
    alt="WMT-6 on a linear scale: two tall bars, one low, and three that can hardly be seen",
)

# %% [markdown]
# On a logarithmic scale a bar begins at one sentence, and its height counts factors of ten:

# %%
l01.figures.corpus_sizes(
    wmt6, scale="log",
    alt="WMT-6 on a logarithmic scale: six bars falling in steps from 3,000,000 to 5,000",
)

# %% [markdown]
# **What to notice.** These are the same six numbers. Turkish has half as many sentences as Romanian, and German has half as
# many as French. On the logarithmic scale both are the same step down. The next lesson also starts from logarithms of sizes.
#
# Here you can change the same picture. (Without a running kernel you see only the figures above.)

# %% tags=["widget"]
l01.figures.size_scale(corpora)

# %% [markdown]
# ## From words to pieces
#
# A model reads numbers, so we must cut sentences into units and number the units. *Sentencepiece* learns a vocabulary of
# *pieces* from text; a piece can be a whole word or only one letter. It then splits each sentence into pieces that are frequent
# in the text from which it learned. Frequent words stay whole, and rare words are split. But *in which text* must a word be
# frequent? One vocabulary serves all languages. If we learn it from the text as it is, nearly all of that text is in the large
# languages. Our tokenizer therefore draws a flatter sample, with the formula of the next lesson: `tau=1` is the data as they
# are, `tau=5` is flat.

# %%
from pmd_lite.config import TokenizerConfig
from pmd_lite.data.tokenizer import Tokenizer, train_tokenizer

tokenizers = {tau: train_tokenizer(corpus, TokenizerConfig(vocab_size=400, tau=tau)) for tau in (1, 5)}
source = corpus.train["tur-eng"][0][0]
print(source)
for tau, tokenizer in tokenizers.items():
    ids = tokenizer.encode_src(source, "tur-eng")[1:-1]  # without the tag before it and the end after it
    print(f"tau={tau}: ", " ".join(tokenizer.piece(i) for i in ids))

# %% [markdown]
# How many pieces does a sentence have, on average over all training sentences of a pair?

# %%
rows = []
for tau, tokenizer in tokenizers.items():
    row = [f"vocabulary learned at tau={tau}"]
    for pair in corpus.pairs:
        encoded = tokenizer.encode([text for text, _ in corpus.train[pair]], pair, "src")
        row.append(sum(len(ids) - 2 for ids in encoded) / len(encoded))
    rows.append(row)
Table(["pieces per source sentence", *corpus.pairs], rows, digits=1)

# %% [markdown]
# **What to notice.** If the vocabulary is learned from the data as they are, it cuts the three smallest languages almost into
# letters. They get two to three times as many pieces as `fra`, for sentences that say the same kind of thing. With the flatter
# sample all alphabetic languages get about equally many pieces, and `fra` pays for it. (`zho` writes one or two signs per word,
# so there is little to cut.) Languages are treated unequally before the model has seen its first sentence.

# %% [markdown]
# ## Which language is wanted: tags
#
# One model has several target languages. How does it know which one we want? We tell it. In the paper "the language tag is
# appended to the beginning of source sentences as a hint of the target language" (section 2.1). A tag is one more id in the
# vocabulary; we write it as `__fra__`. Ids 0 to 3 have fixed meanings: padding, unknown, beginning, end.

# %%
flat = tokenizers[5]
paper = Tokenizer(TokenizerConfig(tags="paper"), turned.pairs, flat.models, flat.origin)
english = turned.train["eng-fra"][0][0]
for pair in ("eng-fra", "eng-tur"):
    ids = paper.encode_src(english, pair)
    print(pair, ids[:5], "...", " ".join(paper.piece(i) for i in ids))

# %% [markdown]
# In O2M the sources of the same English sentence differ only in their first id, and this id changes the whole translation. In
# M2O the paper's tag is always `__eng__`. The authors' *program* does something different, and the library offers both:
#
# | `tags=` | before the source, M2O | before the source, O2M | before the target |
# |---|---|---|---|
# | `"paper"` | target language | target language | nothing |
# | `"released"` | **source** language | target language | target language, as the first token to predict |
#
# M2O means that all pairs of the corpus share one target language.
#
# ### Exercise 2: tags (5 minutes, difficulty 1)
#
# You get all `pairs` of a corpus, one `pair` of them such as `"fr-en"`, and the `style`. Return the two tags as
# `{"source": "__en__", "target": None}`; `None` stands for "no tag".

# %% tags=["exercise"]
def tags(pairs, pair, style):
    ### BEGIN SOLUTION
    source, target = pair.split("-")
    if style == "paper":
        return {"source": f"__{target}__", "target": None}
    one_target = len({p.split("-")[1] for p in pairs}) == 1
    return {"source": f"__{source if one_target else target}__", "target": f"__{target}__"}
    ### END SOLUTION


# %% tags=["check", "points:2"]
l01.checks.TAGS.check(tags)
### BEGIN HIDDEN TESTS
l01.checks.TAGS.grade(tags, seed=1)
### END HIDDEN TESTS

# %% [markdown]
# ## A budget of tokens
#
# A training step takes a *batch* of sentences of **one** pair: the pair is drawn at random (lesson 02), and the whole batch has
# one distillation weight $\alpha[\ell]$ (lesson 07). How many sentences are in a batch? A tensor is a rectangle, so we fill up
# short sentences with padding until they are as long as the longest. The cost of a batch, in time and memory, is the left side
# of
#
# $$\text{longest} \times \text{sentences} \le \text{budget},$$
#
# and it counts tokens and padding alike. A *token budget* limits this product, not the number of sentences. (The paper trains
# with 64K tokens a step, which is several such batches together.)
#
# By hand: lengths 7, 3, 5, 4, 9, 2, 6, 3 and a budget of 10. Sorted: 2, 3, 3, 4, 5, 6, 7, 9. The first three sentences make 3 ×
# 3 = 9. With the sentence of length 4 the batch would cost 4 × 4 = 16, which is too much. So the batches are (2 3 3), (4 5),
# (6), (7), (9).
#
# ### Exercise 3: pack (10 minutes, difficulty 2)
#
# Write this rule. `lengths` is a list of sentence lengths of one pair. Return a list of batches, each a list of lengths, with
# the shortest first. Fill each batch as long as the next sentence fits. A sentence longer than the budget makes a batch of its
# own.
#
# <details><summary>Hint</summary>
#
# Sort first. Keep the batch that you are filling at the end of a list of batches. The next sentence is the longest so far,
# so the batch with it would cost its length times the new number of sentences.
#
# </details>

# %% tags=["exercise"]
def pack(lengths, budget):
    ### BEGIN SOLUTION
    batches = []
    for n in sorted(lengths):
        if batches and n * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(n)
        else:
            batches.append([n])
    return batches
    ### END SOLUTION


# %% tags=["check", "points:2"]
l01.checks.PACK.check(pack)
### BEGIN HIDDEN TESTS
l01.checks.PACK.grade(pack, seed=1)
### END HIDDEN TESTS

# %% [markdown]
# The library's `cut_batches` makes the same number of batches. Then it moves the borders between them, because the rule above
# can leave a tiny last batch: one sentence that would count as a full step of its pair. On forty sentences of `fra`:

# %%
from pmd_lite.data.tokens import EncodedSplit, TokenArray, encode_corpus

data = encode_corpus(corpus, tokenizers[5], max_len=64)
split = data.train[0]
lengths = np.maximum(split.src.lengths, split.trg.lengths)[:40]
budget = 200
simple = l01.checks.pack(lengths.tolist(), budget)
even = [lengths[rows].tolist() for rows in cut_batches(lengths, np.arange(40), budget)]
print("tokens per batch, filled up one by one:", [sum(batch) for batch in simple])
print("tokens per batch, cut_batches:         ", [sum(batch) for batch in even])

# %% [markdown]
# Why do we sort at all? Below you see the same forty sentences twice: eight at a time in the order of the corpus, and cut by
# `cut_batches`.

# %%
unsorted = [lengths[i : i + 8].tolist() for i in range(0, 40, 8)]
l01.figures.padding(
    {"as they come": unsorted, "sorted, by token budget": even},
    alt="Batches as blocks of rows: as they come, each has a ragged pale edge; sorted, edges are almost straight",
)

# %% [markdown]
# **What to notice.** The model computes padding like everything else, and learns nothing from it. Sorting leaves a quarter of
# the padding. Now the batches differ in their number of sentences: many short ones or few long ones, for about the same work.
#
# ### Exercise 4: padding by hand (3 minutes, difficulty 1)
#
# Five sentences are in one batch, and the five numbers are yours alone. Write your name, run the cell, and compute the share of
# the batch's positions that is padding. Three digits are enough.

# %% tags=["exercise"]
student = "your name"
mine = l01.checks.my_lengths(student)
answer = None
### BEGIN SOLUTION
answer = 1 - sum(mine) / (len(mine) * max(mine))
### END SOLUTION
print("your five lengths:", mine)

# %% tags=["check", "points:1"]
l01.checks.my_padding(student).check(answer)
### BEGIN HIDDEN TESTS
l01.checks.my_padding(student).grade(answer, seed=1)
### END HIDDEN TESTS

# %% [markdown]
# ## Masks
#
# The model must not look at padding, and its loss must not count padding. So every batch knows where its real tokens are. Here
# are two target sentences of three pieces and one piece, each with the end token 3, made into a batch:

# %%
two = TokenArray.build([[11, 12, 13, 3], [14, 3]])
batch = collate(EncodedSplit(two, two), np.arange(2), pair=0)
print("decoder input ", batch.trg_in.tolist())
print("to be kept    ", batch.keep.tolist(), "of", list(range(batch.trg_in.numel())))
print("to predict    ", batch.gold.tolist())

# %% [markdown]
# **What to notice.** The decoder reads the sentence shifted by one (2 is "beginning", 0 is padding). At each position it sees
# what came before and predicts what comes next. `keep` numbers the real positions row by row: 0 to 3 in the first row, 4 and 5
# in the second. Positions 6 and 7 are padding and never reach the loss. The model predicts six tokens. A loss "per token"
# divides by this number, not by the two sentences (lesson 04).
#
# ### Exercise 5: keep mask (5 minutes, difficulty 2)
#
# `lengths` is a tensor of integers, one per sentence. Return a boolean tensor of shape [sentences, longest] that is `True`
# where there is a real token; padding is on the right. You need no loop: `torch.arange` and one comparison are enough.
#
# <details><summary>Hint</summary>
#
# Compare a row of positions 0, 1, 2, ... with a column of lengths. `lengths[:, None]` has the shape [sentences, 1], and the
# comparison then makes a table of all combinations.
#
# </details>

# %% tags=["exercise"]
def keep_mask(lengths):
    ### BEGIN SOLUTION
    return torch.arange(int(lengths.max())) < lengths[:, None]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l01.checks.KEEP_MASK.check(keep_mask)
### BEGIN HIDDEN TESTS
l01.checks.KEEP_MASK.grade(keep_mask, seed=1)
### END HIDDEN TESTS

# %% [markdown]
# Here is everything together, as training uses it: an endless stream of batches for one pair. A *pass* goes once through all
# sentences of the pair, and for a small language passes are short.

# %%
rows = []
for number, pair in enumerate(data.pairs):
    stream = PairStream(data.train[number], number, budget=400, seed=(0, number))
    batches = [stream.next() for _ in range(20)]
    tokens, positions = sum(b.tokens for b in batches), sum(b.trg_in.numel() for b in batches)
    rows.append([pair, data.sizes[number], tokens / 20, f"{1 - tokens / positions:.0%}", stream.visits])
columns = ["20 batches of", "sentences", "target tokens per batch", "padding of the target", "passes made"]
Table(columns, rows)

# %% [markdown]
# **What to notice.** Twenty batches are a fifth of a pass for `fra`, and seven and ten passes for the two pairs of thirty
# sentences. The batches of those pairs also have more padding, because among thirty sentences few have the same length. Now
# imagine that every language got equally many batches. Whether it should is the subject of the next lesson.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** A corpus has 1,000,000 French and 5,000 Turkish pairs. Why does a linear bar chart mislead you here?
#
# <details><summary>A. The Turkish bar is too small to be seen, so the chart looks as if there were one language.</summary>
#
# Right. The chart is correct, but the eye reads a list of one. A logarithmic scale shows both, at the price that heights are
# factors.
#
# </details>
#
# <details><summary>B. Its bars are wrong, because a share must be a logarithm.</summary>
#
# Not so. The lengths are right. A scale is a choice of what to make visible, not a correction.
#
# </details>
#
# <details><summary>C. Small corpora have less reliable counts.</summary>
#
# Not so. A count of sentences is exact, however small it is. What is unreliable is what a model learns from few sentences.
#
# </details>
#
# **Question 2.** Why does a batch hold a limited number of tokens, and not a limited number of sentences?
#
# <details><summary>A. Because the loss is divided by tokens.</summary>
#
# Not so. The loss is divided by real target tokens whatever the batch looks like. The budget limits cost.
#
# </details>
#
# <details><summary>B. Because the cost of a batch is its longest sentence times its number of sentences, padding included.</summary>
#
# Right. Forty short sentences and five long ones can cost the same, and the memory must be enough for every batch.
#
# </details>
#
# <details><summary>C. Because the model cannot read more tokens at once.</summary>
#
# Not so. That limit is `max_len`, for one sentence. A batch may hold many sentences of that length if the memory is large
# enough.
#
# </details>
#
# **Question 3.** In one-to-many translation, two sources differ only in their tag. What follows?
#
# <details><summary>A. The model translates them alike, because the sentences are alike.</summary>
#
# Not so. Every later layer can look at the tag, and so the whole translation may change.
#
# </details>
#
# <details><summary>B. The tag must be repeated before every word to have an effect.</summary>
#
# Not so. Attention looks at any distance, so one id is enough.
#
# </details>
#
# <details><summary>C. One id decides into which language the model translates.</summary>
#
# Right. Training has shown the model that this id goes together with targets of one language.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - M2O and O2M are the same sentences read in two directions. A tag, which is one id, says which language we want.
# - Real collections have a long tail: in WMT-6 the largest of six pairs has 600 times as many sentences as the smallest.
# - Even the vocabulary treats the tail worse, unless we learn it from a flatter sample.
# - A batch holds one pair and costs longest × sentences. Sorting by length saves padding; a mask keeps the remaining padding
#   out of attention and loss.
#
# **Where to go next.** Section 2.1 of the paper and its appendix "Data Statistics". The code is in `pmd_lite/data`:
# `tokenizer.py`, `tokens.py` and `batching.py`; the toy languages are made in `pmd_corpora/toy`. Lesson 02 decides which pair is trained next.
