# %% [markdown]
# # 02 Temperature sampling
#
# > **You will**: write the sampling distribution that every multilingual system starts from, turn its one knob, and
# > count what the knob costs a rare sentence. **Time**: one minute on two CPU cores, fifteen with the exercises.
# > **Difficulty**: 1 of 5. **You need**: lesson 01; powers and logarithms.
#
# **Contents**: whose turn is it? · one exponent · exercise: P · the knob · exercise: ratio · how often is a sentence
# seen? · exercise: visits · a share of what? · drawing with less luck · takeaways

# %% [markdown]
# ## Whose turn is it?
#
# A training step of our systems holds sentences of *one* language pair. Before every step we draw one pair at random, with
# probability $P(\ell)$ for each pair $\ell$. If every sentence of the corpus were to be
# seen equally often, $P$ would have to follow the sizes $N_\ell$. On WMT-6 that gives Turkish one step in a thousand.

# %%
import math

import torch

from pmd_kit import l02, widgets
from pmd_lite.evaluation.tables import Table
from pmd_lite.sampling.schedule import PairSchedule, batch_shares
from pmd_lite.sampling.temperature import temperature_probabilities

# %%
pairs = ["fr-en", "de-en", "zh-en", "et-en", "ro-en", "tr-en"]
sizes = [3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000]  # WMT-6, as in the paper

# %% [markdown]
# ## One exponent
#
# Raising the sizes to a power below 1 brings them closer together. The usual way to write that power is as a
# *temperature* $\tau$:
#
# $$P(\ell) = \frac{N_\ell^{1/\tau}}{\sum_{j} N_j^{1/\tau}} \tag{Eq. 2}$$
#
# With $\tau=1$ these are the data's own shares. With $\tau=\infty$ all pairs are equal. A tiny case by hand, $\tau=2$, three
# languages with 100, 25 and 1 sentences: the square roots are 10, 5 and 1, their sum is 16, so $P = (10, 5, 1)/16$.

# %%
print(temperature_probabilities([100, 25, 1], tau=2), "=", [10 / 16, 5 / 16, 1 / 16])

# %% [markdown]
# ### Exercise 1: P (5 minutes, difficulty 1)
#
# Write Eq. 2. `sizes` is a list of numbers, `tau` a positive number; return one probability per pair.

# %% tags=["exercise"]
def P(sizes, tau):
    ### BEGIN SOLUTION
    weights = [n ** (1 / tau) for n in sizes]
    return [w / sum(weights) for w in weights]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l02.checks.PROBABILITIES.check(P)
### BEGIN HIDDEN TESTS
l02.checks.PROBABILITIES.grade(P, seed=2)
### END HIDDEN TESTS

# %% [markdown]
# The library computes the same thing as `softmax(log N / tau)`, which cannot overflow however small $\tau$ is:
# $N^{1/\tau} = e^{\log N/\tau}$. From here on the lesson uses the library's.

# %%
softmax = torch.softmax(torch.tensor(sizes, dtype=torch.float64).log() / 5, dim=0)
print(torch.allclose(softmax, temperature_probabilities(sizes, 5)))

# %% [markdown]
# ## The knob

# %%
from pmd_lite.figures import plots

plots.sampling_distribution(
    pairs, sizes, [1, 2, 5, math.inf],
    alt="Probability of each WMT-6 pair: falling steeply at tau=1, less at 2 and 5, level at infinity",
)

# %% [markdown]
# **What to notice.** At $\tau=1$ nine steps in ten go to French and German. At $\tau=5$ Turkish gets one step in thirteen:
# 77 times more than its share. Nothing comes for free: French falls from 60 % to 28 %.
#
# The same picture to play with. (Without a running kernel only the figure above is shown.)

# %% tags=["widget"]
widgets.tau_slider(pairs, sizes)

# %% [markdown]
# ### Exercise 2: ratio (3 minutes, difficulty 1)
#
# How many times more often is the largest pair drawn than the smallest? Write it for any sizes and $\tau$; it is one
# line, and you need no probabilities for it. (What should come out for `math.inf`?)

# %% tags=["exercise"]
def ratio(sizes, tau):
    ### BEGIN SOLUTION
    return (max(sizes) / min(sizes)) ** (1 / tau)
    ### END SOLUTION


# %% tags=["check", "points:1"]
l02.checks.RATIO.check(ratio)
### BEGIN HIDDEN TESTS
l02.checks.RATIO.grade(ratio, seed=2)
### END HIDDEN TESTS

# %% [markdown]
# ## How often is a sentence seen?
#
# A pair that is drawn often and has few sentences shows the same sentences again and again. Call an *epoch* as many draws
# of a sentence as the corpus has sentences. At $\tau=1$ everybody is seen once an epoch. And otherwise?
#
# ### Exercise 3: visits (5 minutes, difficulty 2)
#
# For `draws` sentences drawn in all, how often is *one* sentence of each pair seen, on average? Return one number per pair.
# Use `temperature_probabilities` if your `P` is not ready.

# %% tags=["exercise"]
def visits(sizes, tau, draws):
    ### BEGIN SOLUTION
    p = temperature_probabilities(sizes, tau).tolist()
    return [draws * share / n for share, n in zip(p, sizes)]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l02.checks.VISITS.check(visits)
### BEGIN HIDDEN TESTS
l02.checks.VISITS.grade(visits, seed=2)
### END HIDDEN TESTS

# %%
epoch = sum(sizes)
rows = []
for tau in (1, 2, 5, math.inf):
    p = temperature_probabilities(sizes, tau).tolist()
    rows.append([f"tau={tau:g}", *(epoch * share / n for share, n in zip(p, sizes))])
Table(["visits per sentence and epoch", *pairs], rows, best=None, digits=2)

# %% [markdown]
# **What to notice.** At $\tau=5$ each Turkish sentence is seen 77 times an epoch, and the paper trains for 70 epochs:
# 5,400 visits. That is where a model stops learning the language and begins to learn the sentences. A French sentence is
# seen less than once in two epochs meanwhile. Both halves of the trade-off that Pareto-MD attacks stand in this one line.

# %% [markdown]
# ## A share of what?
#
# We train on *batches*, and a batch has room for so many tokens, not for so many sentences. Take two pairs with 600 sentences each. The
# sentences of the first have 10 tokens, those of the second 30. A batch of 300 tokens holds 30 sentences of the first pair and 10 of the
# second. At $\tau=1$ Eq. 2 gives each pair one half. One half of what?
#
# - Of the **batches**: that is Alg. 1 as it is written. Then the first pair shows three times as many sentences as the second.
# - Of the **sentences**: that is how everybody reads Eq. 2, and what the authors' released code does. Then a batch of the second pair must
#   be drawn three times as often.
#
# The library means sentences (`shares="sentences"`); `shares="batches"` is the letter of Alg. 1. Batches are drawn with a probability in
# proportion to $P(\ell)$ divided by the sentences in a batch:

# %%
p, per_batch = temperature_probabilities([600, 600], 1), torch.tensor([30.0, 10.0], dtype=torch.float64)
rows = []
for shares in ("batches", "sentences"):
    drawn = batch_shares(p, per_batch, shares)
    sentences = drawn * per_batch / (drawn * per_batch).sum()
    rows.append([f'shares="{shares}"', *drawn.tolist(), *sentences.tolist()])
Table(["P = (1/2, 1/2) is a share of", "batches, short", "batches, long", "sentences, short", "sentences, long"], rows,
      best=None, digits=2)

# %% [markdown]
# **What to notice.** Only in the second row each pair gets half of the sentences. On real text the lengths of two languages rarely differ
# by three, but a pair of thirty sentences does not fill a batch at all: a draw of it would bring a crumb, and the pair a fraction of its
# share. Such a pair goes round again until the batch is full, as upsampled data do in the released code.

# %% [markdown]
# ## Drawing with less luck
#
# Alg. 1 draws each pair on its own (`draws="iid"`). In a short run luck then decides much: a pair with $P=1/100$ comes up
# in 64 draws once, never, or three times. Our default, *stratified*, deals the draws out: it remembers what each pair is still owed,
# and at any moment every pair has had its share, up to less than one draw.

# %%
p = temperature_probabilities(sizes, 5)
rows = []
for draws in ("iid", "stratified"):
    counts = []
    for seed in range(200):
        schedule = PairSchedule((seed,), draws)
        counts.append(sum(schedule.next(p) == 5 for _ in range(64)))
    rows.append([draws, sum(counts) / 200, min(counts), max(counts)])
Table(["64 draws at tau=5", "Turkish on average", "fewest", "most"], rows, best=None, digits=2)

# %% [markdown]
# ## Takeaways
#
# - One exponent decides who is trained how often; $\tau=1$ follows the data, larger is flatter.
# - The ratio of the extremes is the $\tau$-th root of the ratio of the sizes.
# - $P(\ell)$ is a share of the sentences drawn, so batches of short sentences are drawn less often.
# - Flatter sampling repeats small languages. How much repetition is too much shows in held-out loss, not in $P$.
# - $\tau$ is one number for all languages and all of training. Lesson 12 shows samplers that learn or schedule $P$; they
#   still train one model, which must please everybody.
#
# **Where to go next.** Eq. 2 is in section 2.1 of the paper; the code is `pmd_lite/sampling/temperature.py` and
# `pmd_lite/sampling/schedule.py`. Lesson 03 opens the model.
