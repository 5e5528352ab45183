# %% [markdown]
# # 03 A Transformer you can read
#
# > **You will**: compute attention yourself, write both of its masks, read the shape of every tensor from the words to the
# > probabilities, look into the heads of a trained model, and show that our code is the same network as PyTorch's and
# > Hugging Face's. **Time**: about one minute on two CPU cores, forty with the exercises. **Difficulty**: 2 of 5. **You need**:
# > lesson 01; matrix products.
#
# **Contents**: what the model is asked · a weighted average · exercise: attention · who may look where · exercise: causal
# mask · exercise: torch's way · reading shapes · the machine in code · inside a trained model · where words stand · exercise: positions ·
# before or after · every part and its size · exercise: count · the same network elsewhere · quiz ·
# takeaways

# %% [markdown]
# ## What the model is asked
#
# Pareto Mutual Distillation would work with any model that gives a probability to every possible next word. The paper says so,
# and then uses the most common one: the Transformer of Vaswani et al. (2017), in its "base" size (section 4.1, appendix C). The
# model answers one question. Given the source sentence $x$ and the translation so far $y_{<t}$, *what comes next?*
#
# $$P_\theta(y_t \mid y_{<t}, x) = \mathrm{softmax}\big(\text{logits}_t\big)$$
#
# Every student and every teacher of this course is such a model. So it is worth an hour to understand it completely.

# %%
import math
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_kit import l03
from pmd_kit.listing import listing

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings = dict(steps=800, eval_every=200) if size == "lesson" else dict(steps=10, eval_every=5)
runs_in = Path("runs") / f"lesson03-{size}"

# %% [markdown]
# Here is the whole machine. Read it from the bottom to the top. Square brackets hold shapes: B sentences in the batch, S source
# tokens, T target tokens, d numbers for each token (`d_model`), and V pieces in the vocabulary.

# %%
l03.architecture.architecture(
    alt="Left, the encoder: embedding, then layers of self-attention and feed-forward, up to the memory. Right, the decoder: "
    "embedding, then layers of self-attention, cross-attention to the memory and feed-forward, up to the logits",
)

# %% [markdown]
# - The **encoder** reads the source. Its result, the *memory*, has one vector of d numbers for each source token.
# - The **decoder** reads the translation so far and predicts what comes next, at every position at once.
# - **Self-attention**: the tokens of one sentence look at each other. **Cross-attention**: the tokens of the translation look at
#   the memory. Its queries come from the decoder, its keys and values from the encoder. This is the only way from the source to
#   the translation.
# - **Feed-forward**: two matrix products with a nonlinearity between them. They act on each token alone. Attention brings
#   information to a token; feed-forward works on it. Most numbers of a layer are here (exercise 5).
#
# A layer keeps the shape of what comes in. So we can stack as many layers as we like: the paper stacks six on each side.

# %% [markdown]
# ## A weighted average
#
# Attention lets a word get information about the other words. Each word asks with a *query* $q$. Each word answers with a *key*
# $k$, which says what it has to offer, and a *value* $v$, which is the offer itself. The dot product of a query and a key is
# their *score*: it says how well they fit together. Softmax turns the scores into weights that add up to 1, and the answer is
# the weighted average of the values:
#
# $$\mathrm{attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{QK^\top}{\sqrt{d_{\text{head}}}}\right) V
# \tag{Vaswani et al., Eq. 1}$$
#
# By hand: one query, the three words of a sentence as keys, $d_{\text{head}}=4$. The keys are chosen so that the scores are
# $\log 1$, $\log 2$ and $\log 3$. So the weights must be 1/6, 2/6 and 3/6.

# %%
q = torch.tensor([[2.0, 0, 0, 0]])
k = torch.tensor([[math.log(n), 0, 0, 0] for n in (1, 2, 3)])
v = torch.tensor([[6.0, 0], [0, 6], [6, 6]])
scores = q @ k.T / math.sqrt(4)
weights = scores.softmax(dim=-1)
print("weights", weights, "answer", weights @ v)  # the answer: (1 * 6 + 3 * 6) / 6 and (2 * 6 + 3 * 6) / 6

# %% [markdown]
# Why do we divide by the square root? If the entries of $q$ and $k$ are of size 1, their dot product is a sum of
# $d_{\text{head}}$ random terms, and its size is $\sqrt{d_{\text{head}}}$. With scores as large as that, softmax would give
# nearly all the weight to one word. Then the gradient of the softmax would be almost zero.

# %% [markdown]
# ### Exercise 1: attention (8 minutes, difficulty 2)
#
# Write attention for whole batches. `q` is `[batch, heads, q_len, d_head]`; `k` and `v` are `[batch, heads, k_len, d_head]`;
# `mask` is `[batch, 1, 1, k_len]`, True where a query may look at the key. The answer has the shape of `q`. Which score must a
# hidden key have so that its weight becomes exactly zero?
#
# <details><summary>Hint</summary>
#
# `k.transpose(-1, -2)` turns keys so that one product gives all scores, [batch, heads, q_len, k_len]. Change the scores of
# hidden keys before the softmax, not the weights after it. Which number becomes 0 under the exponential?
#
# </details>

# %% tags=["exercise"]
def attention(q, k, v, mask):
    ### BEGIN SOLUTION
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ v
    ### END SOLUTION


# %% tags=["check", "points:3"]
l03.checks.ATTENTION.check(attention)
### BEGIN HIDDEN TESTS
l03.checks.ATTENTION.grade(attention, seed=3)
### END HIDDEN TESTS

# %% [markdown]
# The library does this in one place, the function `attend`. This is its code, read from the library when the cell runs. Its
# last lines are your exercise. The first two lines hand the work to PyTorch's own function (exercise 3) where that is faster.

# %%
from pmd_lite.model.layers import attend, positions_table

listing(attend)

# %% [markdown]
# Here is the small example again, now as a batch of two languages. The Turkish sentence has only two words. Its row is filled up
# with a pad, and the mask hides the pad.

# %%
mask = torch.tensor([[True, True, True], [True, True, False]])[:, None, None, :]  # French, Turkish
batch = [x.expand(2, 1, -1, -1) for x in (q, k, v)]  # [batch=2, heads=1, len, d_head]
print(attend(*batch, mask=mask)[:, 0, 0])

# %% [markdown]
# **What to notice.** The first row is the same as before. In the second row the weights are 1/3 and 2/3: the weight that the
# pad would have taken goes to the real words, in proportion. A mask that sets the hidden scores to 0 would not do that.

# %% [markdown]
# ## Who may look where
#
# There are two reasons to hide something. First, *pads* are not words. Second, the decoder must not see the *future*. In
# training the decoder gets the whole reference translation at once, and the word to predict at position $i$ is in the input at
# position $i+1$. A decoder that may look there only has to copy this word, and learns nothing.
#
# ### Exercise 2: causal mask (3 minutes, difficulty 1)
#
# Return a boolean tensor `[length, length]`: row $i$ is True where query $i$ may look, that is, at itself and at everything
# before it.

# %% tags=["exercise"]
def causal_mask(length):
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


# %% tags=["check", "points:1"]
l03.checks.CAUSAL_MASK.check(causal_mask)
### BEGIN HIDDEN TESTS
l03.checks.CAUSAL_MASK.grade(causal_mask, seed=3)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 3: torch's way (5 minutes, difficulty 2)
#
# PyTorch has the same function, and it is much faster on a GPU: `torch.nn.functional.scaled_dot_product_attention(q, k, v,
# attn_mask=...)`. Use it to let every query look at the real words only. This time you do not get a mask. You get the token ids
# of the source, `src` of shape `[batch, k_len]`, and the id `pad` of the pads. Be careful with the shape of your mask: a mask
# that lacks an axis may fit by accident.
#
# <details><summary>Hint</summary>
#
# `src.ne(pad)` is [batch, k_len]. The scores are [batch, heads, q_len, k_len]. So the mask needs two more axes of length 1:
# `mask[:, None, None, :]`.
#
# </details>

# %% tags=["exercise"]
def with_torch(q, k, v, src, pad):
    ### BEGIN SOLUTION
    mask = src.ne(pad)[:, None, None, :]
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l03.checks.WITH_TORCH.check(with_torch)
### BEGIN HIDDEN TESTS
l03.checks.WITH_TORCH.grade(with_torch, seed=3)
### END HIDDEN TESTS

# %% [markdown]
# ## Reading shapes
#
# One attention finds one kind of relation. So a layer has several *heads*. Each head has its own queries, keys and values, and
# each is $1/h$ as wide as the model, where $h$ is the number of heads. All heads together cost no more than a single wide one.
# The answers of the heads are then put side by side again, which gives d numbers, and one more matrix (`out`) mixes them: without
# it, no head would know what the others have found.
#
# Follow a batch of two sentences through a small model, and say each shape before you read it.

# %%
from pmd_lite.model.transformer import Transformer

torch.manual_seed(0)
model = Transformer(vocab_size=1000, d_model=64, heads=4, encoder_layers=1, decoder_layers=1, ffn=256, pad=0).eval()
src = torch.tensor([[11, 12, 13, 3], [14, 15, 3, 0]])  # ids; 3 is the end of a sentence, 0 the pad
trg_in = torch.tensor([[2, 21, 22, 23, 24], [2, 25, 26, 0, 0]])  # 2 begins every translation

x = model.embedding(src)
packed = model.encoder[0].self_attention.qkv(x)
q, k, v = packed.unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
tensors = {
    "source ids: batch, src_len": src,
    "embedded: + d_model": x,
    "queries, keys, values side by side": packed,
    "queries: batch, heads, src_len, d_head": q,
    "scores: batch, heads, query, key": q @ k.transpose(-1, -2),
    "memory, what the decoder sees": model.encode(src),
    "logits: batch, trg_len, vocab": model(src, trg_in),
}
for name, tensor in tensors.items():
    print(f"{name:40} {list(tensor.shape)}")

# %% [markdown]
# ## The machine in code
#
# Now read the machine itself. You know every part. `qkv` makes queries, keys and values in one product, `_split_heads` cuts them
# into heads, `_merge_heads` puts the heads side by side, and `out` mixes them:

# %%
from pmd_lite.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual, SelfAttention

listing(SelfAttention.forward, FeedForward)

# %% [markdown]
# A layer is a chain of such sublayers. None of them replaces its input; each adds something to it. The class `Residual` does the
# adding. The section "Before or after" below explains its two forms. (`past` holds what the decoder has read already. It is for
# translating word by word, lesson 05; in training it is None.)

# %%
listing(Residual.before, Residual.after, EncoderLayer.forward, DecoderLayer.forward)

# %% [markdown]
# And this is the whole model, from ids to logits. `hidden` stops before the output layer, so that a loss needs the logits of the
# real tokens only.

# %%
listing(Transformer.forward, Transformer.hidden, Transformer.encode, Transformer.project)

# %% [markdown]
# **Predict** (2 minutes). Before you continue: which of the listed functions must change if a model should translate without
# seeing the order of words? Which one must change if the decoder may look into the future?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** None of the listed ones for the first question: positions are added where ids become vectors (`_embed`). For the
# second, only `DecoderLayer.forward`: it asks its self-attention for a causal mask (`causal=past is None`).
# <!-- END ANSWER -->

# %% [markdown]
# ## Inside a trained model
#
# Untrained heads look at every word a little. So we train a model for a short time, on two languages with opposite habits:
# `fra` puts adjectives after their nouns, and `tur` puts the verb at the end. The model translates both into English, and has
# 1,500 sentences of each.

# %%
world = dict(beta=0.0, head=1500, nouns=30, verbs=12, adjectives=6)
corpus = pmd.load_corpus("toy", pairs=["fra-eng", "tur-eng"], **world)
run = pmd.train(corpus, "tau=1", out=runs_in / "two", vocab_size=900, score=False, show="off", **settings)
trained = run.model()

# %% [markdown]
# The library never stores attention weights, because it does not need them. But there is a neat way to get them: if the values
# are the identity matrix, the weighted average of the values *is* the weights. The next cell shows this for the small example.
# The cell after it calls `l03.attention.views`, which asks the same question of every attention in the model.

# %%
print(attend(*batch[:2], torch.eye(3).expand(2, 1, 3, 3), mask=mask)[:, 0, 0])

# %%
shown = {}
for pair in corpus.pairs:
    source, target = corpus.test[pair][28]
    print(f"{pair}  {source:42} means  {target}")
    found = l03.attention.views(trained, run.tokenizer, pair, source, target)
    shown |= {f"{pair[:3]}, {name}": view for name, view in found.items()}
l03.widgets.attention_figure("fra, decoder 2 to source", shown["fra, decoder 2 to source"])

# %% [markdown]
# **What to notice.** A row is one step of the decoder, "the piece it reads > the piece it should say next" (a hyphen marks a
# piece that continues a word). Take the row that leads to the beginning of "small": do some heads look at *vabra*, which stands
# *after* its noun? Does the row that leads to "lamps" look back at *pahagebes*? Where you see this, attention has learned that
# adjectives change places; we did not program it. A head that has nothing to look for must still spend its weight somewhere,
# and it often spends it on the language tag (the column `eng`) or on the end of the sentence. Weights below .3 have their colour
# only. The crosses are pads.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Look for the darkest cell of each of the two rows, head by head. The row that leads to "small" should have
# it at a piece of *vabra* in at least one head, and the row that leads to "lamps" at a piece of *pahagebes*. So the two rows
# look at the source in the opposite order of the English words: the model has learnt the exchange. Which head does it is
# chance, and another seed gives the work to another head.
# <!-- END ANSWER -->

# %%
l03.widgets.attention_figure("tur, decoder 2 to source", shown["tur, decoder 2 to source"])

# %% [markdown]
# **What to notice.** This is the same model with the other language. To say "saw", the decoder needs the verb, which stands at
# the end of the sentence; for the object it must come back to the middle. Find the heads that make this jump. Next, see how
# the decoder looks at its own words:
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Search the row that leads to "saw" for a dark cell near the right end, before the end token. The row of the
# object should have its darkest cell in the middle. If one head does both jumps, it looks for "the word I need next",
# whatever its place.
# <!-- END ANSWER -->

# %%
l03.widgets.attention_figure("fra, decoder 1", shown["fra, decoder 1"])

# %% [markdown]
# **What to notice.** The triangle of crosses is the causal mask of exercise 2. The first row can look only at itself, so all
# its weight is there, in every head.
#
# Here you can look at every attention of the model, head by head, with and without its mask. (Without a running kernel you see
# only the figures above.)

# %% tags=["widget"]
l03.widgets.attention_viewer(shown, start="fra, encoder 1")

# %% [markdown]
# ## Where words stand
#
# Attention does not see the order of words: if we shuffle the keys together with their values, the average stays the same. So
# we add its position to every embedding, as a vector of sines and cosines that turn at different speeds:
#
# $$\mathrm{pos}(t)_i = \sin\!\big(t \cdot 10000^{-2i/d}\big), \qquad \mathrm{pos}(t)_{d/2+i} =
# \cos\!\big(t \cdot 10000^{-2i/d}\big), \qquad 0 \le i < d/2$$
#
# The first column turns by one radian from word to word, the last by little more than 1/10000. They are like the hands of a
# clock, from seconds to days. (In Vaswani et al., sines and cosines alternate. fairseq and our library put them side by side.)
#
# ### Exercise 4: positions (6 minutes, difficulty 2)
#
# Return the table `[length, d_model]` for positions `0` to `length - 1`; `d_model` is even.
#
# <details><summary>Hint</summary>
#
# Make the speeds for even columns first: `torch.arange(0, d_model, 2)`. A column of positions times a row of speeds is a
# table of angles. Put all sines left and all cosines right.
#
# </details>

# %% tags=["exercise"]
def positions(length, d_model):
    ### BEGIN SOLUTION
    rates = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l03.checks.POSITIONS.check(positions)
### BEGIN HIDDEN TESTS
l03.checks.POSITIONS.grade(positions, seed=3)
### END HIDDEN TESTS

# %%
l03.figures.position_similarity(
    positions_table(60, 64), [10, 30],
    alt="Dot products of positions 10 and 30 with positions 0 to 59: "
    "each is highest with itself and falls on both sides",
)

# %% [markdown]
# **What to notice.** A position is most similar to itself. Both curves have the same shape, and one is moved by 20: because
# $\sin a \sin b + \cos a \cos b = \cos(a-b)$, the dot product depends only on the *distance* of two words. A head needs exactly
# this if it wants to look at "the word before me", wherever that word is.

# %% [markdown]
# ## Before or after
#
# A layer never replaces its input; it adds something to it. Where to put the normalisation is a choice with consequences:
#
# - **post** (Vaswani et al.): $x \leftarrow \mathrm{norm}(x + f(x))$. The sum is brought back to size 1 after each sublayer.
# - **pre** (the authors' released code, and our default): $x \leftarrow x + f(\mathrm{norm}(x))$. The sum itself is not
#   changed; it is normalised only once, at the end of the stack.

# %%
from pmd_lite.evaluation.tables import Table


def spread_after_each_layer(norm):
    torch.manual_seed(0)
    deep = Transformer(1000, d_model=64, encoder_layers=6, norm=norm, dropout=0.0)
    spread = []
    for layer in deep.encoder:
        layer.register_forward_hook(lambda _, __, out: spread.append(out.std().item()))
    deep.encode(torch.randint(4, 1000, (8, 20)))
    return spread


Table(
    ["spread of x", *(f"layer {i}" for i in range(1, 7))],
    [[norm, *spread_after_each_layer(norm)] for norm in ("pre", "post")],
)

# %% [markdown]
# **What to notice.** Post-norm keeps $x$ at size 1. In a pre-norm stack $x$ grows: every layer adds a part, and the word that
# came in is still there in the sum. So the gradient has a straight way down to this word. Deep post-norm stacks do not have
# this way and need a careful warm-up. Pre-norm also has a price: when the sum has grown, the part that a late layer adds is a
# smaller change.

# %% [markdown]
# ## Every part and its size

# %%
rows = [
    [name, " x ".join(str(n) for n in part.weight.shape), sum(p.numel() for p in part.parameters())]
    for name, part in model.named_modules() if hasattr(part, "weight")
]
Table(["part", "weight", "numbers, with bias"], [*rows, ["all", "", model.parameter_count()]])

# %% [markdown]
# **What to notice.** There is *one* embedding table, and it holds more than a third of the numbers of this small model. The
# model uses it three times: for source words, for target words, and, transposed, as the output layer, which compares the
# decoder's last state with every word of the vocabulary. This is called *tying* (`tie="all"`). Positions are computed, not
# learned, so they are not in the list.
#
# ### Exercise 5: count (8 minutes, difficulty 2)
#
# Put your name between the quotes. You get a model of your own, with `norm="pre"` and `tie="all"` like the one above. How many
# parameters does it have? Work with the table above, not with the library. Your answer may be a formula in Python.
#
# <details><summary>Hint</summary>
#
# Count one attention first: four square matrices (three in `qkv`, one in `out`), each with its bias. A decoder layer has two
# attentions and three norms, an encoder layer one and two. With pre-norm each stack has one more norm at its end. The table
# counts once.
#
# </details>

# %% tags=["exercise"]
student = "your name"
shape = l03.checks.your_shape(student)
parameters = None
### BEGIN SOLUTION
d, f = shape["d_model"], shape["ffn"]
attentions = 4 * (d * d + d)
feed_forward = d * f + f + f * d + d
norm = 2 * d
encoder_layer = attentions + feed_forward + 2 * norm
decoder_layer = 2 * attentions + feed_forward + 3 * norm
table = shape["vocab"] * d
parameters = table + shape["encoder_layers"] * encoder_layer + shape["decoder_layers"] * decoder_layer + 2 * norm
### END SOLUTION
print(shape)

# %% tags=["check", "points:2"]
l03.checks.parameters(student).check(parameters)
### BEGIN HIDDEN TESTS
l03.checks.parameters(student).grade(parameters, seed=3)
### END HIDDEN TESTS

# %% [markdown]
# And the paper's model? On torch's device `meta`, tensors have shapes but no numbers, so any laptop can build the model.

# %% tags=["hide-input"]
import dataclasses

rows = []
for name, tie in (("toy", "all"), ("wmt6", "all"), ("wmt6", "decoder")):
    config = pmd.preset(name)
    options = dataclasses.asdict(config.model) | {"tie": tie}
    with torch.device("meta"):
        big = Transformer(config.tokenizer.vocab_size, **options)
    tables = sum(p.numel() for n, p in big.named_parameters() if "embedding.weight" in n)
    share = 100 * tables / big.parameter_count()
    rows.append([f"{name}, tie={tie}", config.tokenizer.vocab_size, big.parameter_count(), share])
Table(["model", "vocabulary", "parameters", "of these in tables, %"], rows, digits=0)

# %% [markdown]
# **What to notice.** The layers of the paper's model hold 44 million numbers. The table of 64,000 pieces adds another 33
# million. The authors' released setting (`tie="decoder"`) gives the source a table of its own, and then the model has 110
# million numbers in all. In a model of many languages the vocabulary is expensive, not the layers.

# %% [markdown]
# ## The same network elsewhere
#
# Is this really *the* Transformer? To test it, we give the same weights to another implementation and compare. We begin with
# PyTorch's own encoder layer. Its parts have other names, and its padding mask has the opposite meaning.

# %%
names = {
    "self_attention.qkv.": "self_attn.in_proj_", "self_attention.out": "self_attn.out_proj", "self_residual.norm": "norm1",
    "feed_forward.inner": "linear1", "feed_forward.outer": "linear2", "ffn_residual.norm": "norm2",
}
state = {}
for name, value in model.encoder[0].state_dict().items():
    for ours, theirs in names.items():
        name = name.replace(ours, theirs)
    state[name] = value
torch_layer = torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True, norm_first=True).eval()
torch_layer.load_state_dict(state)

x, real = torch.randn(2, 4, 64), src.ne(0)
ours = model.encoder[0](x, real[:, None, None, :])
theirs = torch_layer(x, src_key_padding_mask=~real)  # here True means "hide"
print("equal at every real word:", torch.allclose(ours[real], theirs[real], atol=1e-5))

# %% [markdown]
# Next we compare a whole model that other people wrote: Marian, the translation model of Hugging Face's `transformers`. The
# cell compares only where that library is installed; nothing is downloaded. `pmd_lite/exchange/huggingface.py` holds the list of
# Marian's names and ours.

# %%
difference = l03.parity.marian_difference()
if difference is None:
    print("transformers is not installed here, so there is nothing to compare with.")
else:
    print("all logits of Marian equal ours up to 0.0001:", difference < 1e-4)

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** A padded sentence is in the batch. What goes wrong if hidden scores are set to 0 instead of minus infinity?
#
# <details><summary>A. Nothing: 0 means "no weight".</summary>
#
# Not so. A weight of 0 needs a score of minus infinity. A score of 0 has the exponential 1.
#
# </details>
#
# <details><summary>B. Pads get weight, and the answers depend on how long the other sentences of the batch are.</summary>
#
# Right. exp(0) = 1 is a real share. So the same sentence would be translated differently in another batch.
#
# </details>
#
# <details><summary>C. The softmax no longer adds up to 1.</summary>
#
# Not so. It always adds up to 1. The question is who gets a part of it.
#
# </details>
#
# **Question 2.** Which part of a layer lets a word learn something about another word?
#
# <details><summary>A. The feed-forward sublayer, because it has the most numbers.</summary>
#
# Not so. It acts on each word alone; it works on what attention has brought.
#
# </details>
#
# <details><summary>B. The residual path, because it adds things.</summary>
#
# Not so. It adds the sublayer's output to the same word, never to another one.
#
# </details>
#
# <details><summary>C. Attention.</summary>
#
# Right. It is the only place where vectors of different positions are mixed.
#
# </details>
#
# **Question 3.** Four heads of width 16 take the place of one head of width 64. What changes?
#
# <details><summary>A. The cost of a layer is four times as high.</summary>
#
# Not so. Each head is a quarter as wide, and all of them together cost about the same.
#
# </details>
#
# <details><summary>B. The layer can look for four kinds of relation at once, and a last matrix mixes their answers.</summary>
#
# Right. Each head has its own weights over the words. `out` lets their findings meet.
#
# </details>
#
# <details><summary>C. The model becomes four times as deep.</summary>
#
# Not so. Heads work side by side. Depth is the number of layers.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Attention is a weighted average of what other words offer. All other parts of a layer, above all the feed-forward sublayer,
#   act on each word alone.
# - Scores of $-\infty$ *before* the softmax hide pads and the future. Libraries disagree on whether True means "look" or
#   "hide", and a mask with an axis missing may fit by accident: test masks on one padded sentence.
# - Positions come in as sines and cosines, whose dot product depends on distance alone.
# - With a vocabulary for many languages, much of a model is its embedding table. Tying decides how many tables there are.
# - Test a port with numbers: the same weights must give the same logits.
#
# **Where to go next.** The model's sizes are in appendix C of the paper. The code is in `pmd_lite/model`: read `layers.py`,
# then `transformer.py`. Lesson 04 trains the model.
