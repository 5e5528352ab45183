# %% [markdown]
# # 01 Unequal languages
#
# > **You will**: see how far apart the corpora of one translation model lie, learn how one model is told what to
# > translate into, and pack sentences of unequal length into batches. **Time**: one minute on two CPU cores, thirty with
# > the exercises. **Difficulty**: 1 of 5. **You need**: Python, and what a PyTorch tensor is.
#
# **Contents**: one model, many pairs · how unequal? · exercise: unequal · one scale hides the tail · from words to pieces
# · who is who: tags · exercise: tags · a budget of tokens · exercise: pack · exercise: padding by hand · masks ·
# exercise: keep mask · takeaways

# %% [markdown]
# ## One model, many pairs
#
# A multilingual translation model is trained on several parallel corpora at once, one per *language pair* $\ell$: pairs of
# sentences that mean the same. In the paper one side is always English. If it is the target, the setting is
# **many-to-one** (M2O); turned round, with the same sentences, it is **one-to-many** (O2M). Six invented languages will
# stand in for real ones wherever we train something ourselves; here is one meaning in all of them.

# %%
import numpy as np
import torch

import pmd_lite as pmd
from pmd_kit import l01
from pmd_lite.data.batching import PairStream, collate, cut_batches
from pmd_lite.data.toy import explain
from pmd_lite.evaluation.tables import Table

# %%
corpus = pmd.load_corpus("longtail")
print(explain(world="longtail", i=3))

# %% [markdown]
# A corpus is nothing but lines such as these, a source and a target in each. O2M has the same lines turned round.

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
# The paper trains on two collections, listed in its appendix "Data Statistics". $N_\ell$ is the number of training
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
# The paper calls the larger half of each list *high-resource* (HRL) and the smaller half *low-resource* languages (LRL).
# Two numbers say most about a list: how many times larger the largest pair is than the smallest, and how much of all text
# belongs to the larger half.
#
# By hand, for four pairs of 400, 2000, 30 and 110 sentences: the ratio is 2000/30 = 66.7, and the larger half owns
# (2000 + 400) of 2540 sentences, a share of 0.945.
#
# ### Exercise 1: unequal (5 minutes, difficulty 1)
#
# Return both numbers for any list `sizes` of even length, in any order: `(ratio, share)`.

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
# The answer for the three corpora, with the totals:

# %%
rows = []
for name, sizes in corpora.items():
    n = sorted(sizes.values(), reverse=True)
    rows.append([name, sum(n), f"{n[0] / n[-1]:.0f} : 1", f"{sum(n[: len(n) // 2]) / sum(n):.1%}"])
Table(["corpus", "sentences", "largest : smallest", "owned by the larger half"], rows)

# %% [markdown]
# **What to notice.** In WMT-6 three languages share the last two sentences of a hundred. TED-8-Diverse is milder, with 36 : 1
# against 600 : 1; the paper says so too. (It also says that TED-8-Diverse has "around 570K" sentence pairs. The table in its
# appendix adds up to 766,352. Such things happen in papers, and adding up a column is a cheap check.)

# %% [markdown]
# ## One scale hides the tail
#
# A list in which few own nearly all, and many share the rest, has a **long tail**. On a linear scale the tail looks
# like nothing at all:

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
# **What to notice.** The same six numbers. Turkish has half as many sentences as Romanian, and German half as many as
# French: on the logarithmic scale both are the same step down. Logarithms of sizes are also where the next lesson starts.
#
# The same picture to play with. (Without a running kernel only the figures above are shown.)

# %% tags=["widget"]
l01.figures.size_scale(corpora)

# %% [markdown]
# ## From words to pieces
#
# A model reads numbers. *Sentencepiece* learns from text a vocabulary of *pieces*, from whole words down to single letters,
# and splits each sentence into pieces that are frequent in the text it learned from. Frequent words stay whole, rare ones
# fall apart. Now, frequent *in what*? One vocabulary serves all languages. If it is learned from the text as it lies
# there, nearly all of that text is in the large languages. Our tokenizer therefore draws a flatter sample, with the
# formula of the next lesson; `tau=1` is the data as they are, `tau=5` is flat.

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
# In how many pieces does a sentence fall, on average over all training sentences of a pair?

# %%
rows = []
for tau, tokenizer in tokenizers.items():
    row = [f"vocabulary learned at tau={tau}"]
    for pair in corpus.pairs:
        encoded = tokenizer.encode([text for text, _ in corpus.train[pair]], pair, "src")
        row.append(sum(len(ids) - 2 for ids in encoded) / len(encoded))
    rows.append(row)
Table(["pieces per source sentence", *corpus.pairs], rows, best=None, digits=1)

# %% [markdown]
# **What to notice.** Learned from the data as they are, the vocabulary cuts the three smallest languages almost into letters:
# two to three times as many pieces as for `fra`, for sentences that say the same kind of thing. With the flatter sample all
# alphabetic languages are cut about alike, and `fra` pays for it. (`zho` writes one or two signs per word, so there is
# little to cut.) Unequal treatment begins before the model has seen its first sentence.

# %% [markdown]
# ## Who is who: tags
#
# One model, several target languages: how does it know which one is wanted? It is told. In the paper "the language tag is
# appended to the beginning of source sentences as a hint of the target language" (section 2.1). A tag is one more id in the
# vocabulary; we write `__fra__`. Ids 0 to 3 have fixed parts: padding, unknown, beginning, end.

# %%
flat = tokenizers[5]
paper = Tokenizer(TokenizerConfig(tags="paper"), turned.pairs, flat.models, flat.origin)
english = turned.train["eng-fra"][0][0]
for pair in ("eng-fra", "eng-tur"):
    ids = paper.encode_src(english, pair)
    print(pair, ids[:5], "...", " ".join(paper.piece(i) for i in ids))

# %% [markdown]
# In O2M the same English sentence differs in its first id only, and everything that comes out differs with it. In M2O the
# paper's hint is always `__eng__`. The authors' *program* does something else, and we offer both:
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
# Given all `pairs` of a corpus, one `pair` of them such as `"fr-en"`, and the `style`, return the two tags as
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
# A training step takes a *batch* of sentences of **one** pair: the pair is drawn by lot (lesson 02), and one distillation
# weight $\alpha[\ell]$ holds for the whole batch (lesson 07). How many sentences? A tensor is a rectangle, so short ones are
# filled up with padding to the length of the longest, and what a batch costs in time and memory is
#
# $$\text{longest} \times \text{sentences} \le \text{budget},$$
#
# tokens and padding alike. A *token budget* limits that product and not the number of sentences. (The paper trains with 64K
# tokens a step, which is several such batches together.)
#
# By hand: lengths 7, 3, 5, 4, 9, 2, 6, 3 and a budget of 10. Sorted: 2, 3, 3, 4, 5, 6, 7, 9. The first three make 3 × 3 = 9;
# with the 4 it would be 4 × 4 = 16, too many. So the batches are (2 3 3), (4 5), (6), (7), (9).
#
# ### Exercise 3: pack (10 minutes, difficulty 2)
#
# Write it. `lengths` is a list of sentence lengths of one pair; return a list of batches, each a list of lengths, shortest
# first, each filled while it fits. A sentence longer than the budget makes a batch of its own.

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
# The library's `cut_batches` makes equally many batches. It then moves the borders, because the rule above can leave a
# crumb at the end: a batch of one sentence that would count as a full step of its pair. On forty sentences of `fra`:

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
# Why sort at all? Below, the same forty sentences eight at a time as they stand in the corpus, and cut by `cut_batches`.

# %%
unsorted = [lengths[i : i + 8].tolist() for i in range(0, 40, 8)]
l01.figures.padding(
    {"as they come": unsorted, "sorted, by token budget": even},
    alt="Batches as blocks of rows: as they come, each has a ragged pale edge; sorted, edges are almost straight",
)

# %% [markdown]
# **What to notice.** Padding is computed like everything else and teaches nothing. Sorting leaves a quarter of it. The
# batches differ in their number of sentences instead: many short ones or few long ones, for about the same work.
#
# ### Exercise 4: padding by hand (3 minutes, difficulty 1)
#
# Five sentences in one batch, the numbers are yours alone: write your name, run the cell, and compute the share of the
# batch's positions that is padding. Three digits are enough.

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
# The model must neither look at padding nor be graded on it. So every batch knows where its real tokens are. Here are two
# target sentences of three and one pieces, each with the end token 3, made into a batch:

# %%
two = TokenArray.build([[11, 12, 13, 3], [14, 3]])
batch = collate(EncodedSplit(two, two), np.arange(2), pair=0)
print("decoder input ", batch.trg_in.tolist())
print("to be kept    ", batch.keep.tolist(), "of", list(range(batch.trg_in.numel())))
print("to predict    ", batch.gold.tolist())

# %% [markdown]
# **What to notice.** The decoder reads the sentence shifted by one (2 is "beginning", 0 is padding): at each position it
# sees what came before and predicts what comes next. `keep` numbers the real positions row by row, 0 to 3 in the first row,
# 4 and 5 in the second; 6 and 7 are padding and never reach the loss. Six tokens are to be predicted: that number, and not
# the two sentences, is what a loss "per token" divides by (lesson 04).
#
# ### Exercise 5: keep mask (5 minutes, difficulty 2)
#
# `lengths` is a tensor of integers, one per sentence. Return a boolean tensor of shape [sentences, longest] that is `True`
# where a real token stands, with padding on the right. No loop is needed: `torch.arange` and one comparison will do.

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
# Everything together, as training uses it: an endless stream of batches for one pair. A *pass* is once through its
# sentences, and for a small language passes are short.

# %%
rows = []
for number, pair in enumerate(data.pairs):
    stream = PairStream(data.train[number], number, budget=400, seed=(0, number))
    batches = [stream.next() for _ in range(20)]
    tokens, positions = sum(b.tokens for b in batches), sum(b.trg_in.numel() for b in batches)
    rows.append([pair, data.sizes[number], tokens / 20, f"{1 - tokens / positions:.0%}", stream.visits])
columns = ["20 batches of", "sentences", "target tokens per batch", "padding of the target", "passes made"]
Table(columns, rows, best=None)

# %% [markdown]
# **What to notice.** Twenty batches are a fifth of a pass for `fra`, and seven and ten passes for the two pairs of thirty
# sentences. Those pairs also fill their batches worse: among thirty sentences, few have the same length. Now imagine that
# every language got equally many batches. Whether it should is the subject of the next lesson.

# %% [markdown]
# ## Takeaways
#
# - M2O and O2M are the same sentences read in two directions. A tag, one id, says which language is wanted.
# - Real collections have a long tail: in WMT-6 the largest of six pairs has 600 times as many sentences as the smallest.
# - The tail is treated worse even by the vocabulary, unless that is learned from a flatter sample.
# - A batch holds one pair and costs longest × sentences. Sorting by length saves padding; a mask keeps what remains of it
#   out of attention and loss.
#
# **Where to go next.** Section 2.1 of the paper and its appendix "Data Statistics"; the code is in `pmd_lite/data`:
# `toy.py`, `tokenizer.py`, `tokens.py` and `batching.py`. Lesson 02 decides whose turn it is.
