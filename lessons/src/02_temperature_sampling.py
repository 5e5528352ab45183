# %% [markdown]
# # 02 Temperature sampling
#
# > **You will**: write the sampling distribution from which every multilingual system starts, change its one number, the
# > temperature, and count what this number does to a rare sentence. **Time**: one minute on two CPU cores, fifteen with the
# > exercises. **Difficulty**: 1 of 5. **You need**: lesson 01; powers and logarithms.
#
# **Contents**: whose turn is it? · one exponent · exercise: P · the knob · exercise: ratio · how often is a sentence seen? ·
# exercise: visits · a share of what? · drawing with less luck · quiz ·
# takeaways

# %% [markdown]
# ## Whose turn is it?
#
# A training step of our systems holds sentences of *one* language pair. Before every step we draw one pair at random, with
# probability $P(\ell)$ for each pair $\ell$. If we want every sentence of the corpus to be seen equally often, $P$ must be
# proportional to the sizes $N_\ell$. On WMT-6 that gives Turkish one step in a thousand.

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
# If we raise the sizes to a power below 1, they come closer together. The usual way to write this power is as a *temperature*
# $\tau$:
#
# $$P(\ell) = \frac{N_\ell^{1/\tau}}{\sum_{j} N_j^{1/\tau}} \tag{Eq. 2}$$
#
# With $\tau=1$ the probabilities are the shares of the data. With $\tau=\infty$ all pairs have the same probability. A tiny
# case by hand, with $\tau=2$ and three languages of 100, 25 and 1 sentences: the square roots are 10, 5 and 1, their sum is 16,
# so $P = (10, 5, 1)/16$.

# %%
print(temperature_probabilities([100, 25, 1], tau=2), "=", [10 / 16, 5 / 16, 1 / 16])

# %% [markdown]
# ### Exercise 1: P (5 minutes, difficulty 1)
#
# Write Eq. 2. `sizes` is a list of numbers and `tau` a positive number. Return one probability per pair.

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
# The library computes the same thing as `softmax(log N / tau)`, because $N^{1/\tau} = e^{\log N/\tau}$. This form cannot
# overflow, however small $\tau$ is. From here on the lesson uses the library's function.

# %%
softmax = torch.softmax(torch.tensor(sizes, dtype=torch.float64).log() / 5, dim=0)
print(torch.allclose(softmax, temperature_probabilities(sizes, 5)))

# %% [markdown]
# ## The knob
#
# **Predict** (2 minutes). Before you look: between $\tau=1$ and $\tau=5$, which of the six pairs gain and which lose? Is
# there one that hardly changes?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** French and German lose, the other four gain. German changes least, from 30 % to 24 %. Chinese doubles: a
# pair that is called large can gain, too.
# <!-- END ANSWER -->

# %%
from pmd_kit import pictures

pictures.sampling_distribution(
    pairs, sizes, [1, 2, 5, math.inf],
    alt="Probability of each WMT-6 pair: falling steeply at tau=1, less at 2 and 5, level at infinity",
)

# %% [markdown]
# **What to notice.** At $\tau=1$ nine steps in ten go to French and German. At $\tau=5$ Turkish gets one step in thirteen, 77
# times its share of the data. This has a price: French falls from 60 % to 28 %.
#
# Here you can change the same picture. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
widgets.tau_slider(pairs, sizes)

# %% [markdown]
# ### Exercise 2: ratio (3 minutes, difficulty 1)
#
# How many times more often is the largest pair drawn than the smallest? Write a function for any sizes and any $\tau$. One line
# is enough, and you need no probabilities for it. (What should the result be for `math.inf`?)

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
# If a pair is drawn often and has few sentences, the model sees the same sentences again and again. We call it an *epoch* when
# as many sentences have been drawn as the corpus has. At $\tau=1$ every sentence is seen once an epoch, on average. What
# happens at other temperatures?
#
# ### Exercise 3: visits (5 minutes, difficulty 2)
#
# If `draws` sentences are drawn in all, how often is *one* sentence of each pair seen, on average? Return one number per pair.
# Use `temperature_probabilities` if your `P` is not ready.
#
# <details><summary>Hint</summary>
#
# The number of draws that a pair gets is draws times its probability. These draws are shared evenly among its sentences.
#
# </details>

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
Table(["visits per sentence and epoch", *pairs], rows, digits=2)

# %% [markdown]
# **What to notice.** At $\tau=5$ each Turkish sentence is seen 77 times an epoch, and the paper trains for 70 epochs: 5,400
# visits. With so many visits a model stops learning the language and begins to memorise the sentences. At the same time a
# French sentence is seen less than once in two epochs. Pareto-MD attacks this trade-off, and both of its halves are in this one
# row of the table.

# %% [markdown]
# ## A share of what?
#
# We train on *batches*, and the size of a batch is limited by its tokens, not by its sentences. Take two pairs with 600
# sentences each. The sentences of the first have 10 tokens, those of the second 30. A batch of 300 tokens holds 30 sentences of
# the first pair and 10 of the second. At $\tau=1$ Eq. 2 gives each pair one half. But one half of what?
#
# - Of the **batches**: this is Alg. 1 as the paper writes it. Then the model sees three times as many sentences of the first
#   pair as of the second.
# - Of the **sentences**: this is the usual way to read Eq. 2, and what the authors' released code does. Then a batch of the
#   second pair must be drawn three times as often.
#
# By default the library shares out sentences (`shares="sentences"`); `shares="batches"` follows Alg. 1 literally. With shares
# of sentences, the probability of a batch is proportional to $P(\ell)$ divided by the number of sentences in a batch:

# %%
p, per_batch = temperature_probabilities([600, 600], 1), torch.tensor([30.0, 10.0], dtype=torch.float64)
rows = []
for shares in ("batches", "sentences"):
    drawn = batch_shares(p, per_batch, shares)
    sentences = drawn * per_batch / (drawn * per_batch).sum()
    rows.append([f'shares="{shares}"', *drawn.tolist(), *sentences.tolist()])
Table(["P = (1/2, 1/2) is a share of", "batches, short", "batches, long", "sentences, short", "sentences, long"], rows,
      digits=2)

# %% [markdown]
# **What to notice.** Only in the second row does each pair get half of the sentences. On real text the sentence lengths of two
# languages rarely differ by a factor of three. But a pair of thirty sentences does not fill a batch at all: each draw of it
# would bring only these few sentences, and the pair would get a fraction of its share. So the library goes through the
# sentences of such a pair again until the batch is full, and the released code's upsampled data do the same.

# %% [markdown]
# ## Drawing with less luck
#
# Alg. 1 makes each draw independently of the others (`draws="iid"`). In a short run much then depends on luck: in 64 draws, a
# pair with $P=1/100$ may come up once, never, or three times. Our default, *stratified*, spreads the draws evenly. It remembers
# how many draws it still owes to each pair, so that at any moment every pair has had its share, up to less than one draw.

# %%
p = temperature_probabilities(sizes, 5)
rows = []
for draws in ("iid", "stratified"):
    counts = []
    for seed in range(200):
        schedule = PairSchedule((seed,), draws)
        counts.append(sum(schedule.next(p) == 5 for _ in range(64)))
    rows.append([draws, 64 * p[5].item(), sum(counts) / 200, min(counts), max(counts)])
Table(["64 draws at tau=5", "Turkish, expected", "average of 200 tries", "fewest", "most"], rows, digits=2)

# %% [markdown]
# **What to notice.** Both averages are near the expected number. They differ in a single run: independent draws may give Turkish
# hardly a turn or twice its share, while stratified draws are never off by a whole draw.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** What happens to P when tau goes to infinity?
#
# <details><summary>A. The small languages get almost everything.</summary>
#
# Not so. The flattest distribution is the uniform one. Only a negative exponent would prefer small languages.
#
# </details>
#
# <details><summary>B. All pairs get the same probability.</summary>
#
# Right. The exponent 1/tau goes to 0, and every size to the power of 0 is 1.
#
# </details>
#
# <details><summary>C. The probabilities become the shares of the data.</summary>
#
# Not so. That is tau = 1.
#
# </details>
#
# **Question 2.** At tau = 5, a Turkish sentence is seen 77 times an epoch. Which sentence is true?
#
# <details><summary>A. Turkish gets 77 times as many batches as French.</summary>
#
# Not so. French still gets more batches. The 77 compares the visits of one sentence with one visit, not two languages.
#
# </details>
#
# <details><summary>B. The Turkish data are 77 times as large for the model.</summary>
#
# Not so. They are the same few sentences again and again; nothing new is in them.
#
# </details>
#
# <details><summary>C. The model may learn these sentences by heart, and held-out loss will show whether it does.</summary>
#
# Right. Repetition is the price of flattening. P itself says nothing about the damage.
#
# </details>
#
# **Question 3.** The library draws "stratified". What does that change?
#
# <details><summary>A. The expected number of draws of each pair.</summary>
#
# Not so. The expectation is P times the number of draws in both cases.
#
# </details>
#
# <details><summary>B. How much the number of draws varies from run to run.</summary>
#
# Right. Each pair has had its share at any moment, up to less than one draw.
#
# </details>
#
# <details><summary>C. It gives small pairs a little more, so that they are not forgotten.</summary>
#
# Not so. It is fair to all pairs alike; only luck is taken out.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - One exponent decides how often each pair is trained. $\tau=1$ follows the data; a larger $\tau$ is flatter.
# - The ratio of the largest to the smallest probability is the $\tau$-th root of the ratio of the sizes.
# - $P(\ell)$ is a share of the sentences drawn, so batches of short sentences are drawn less often.
# - Flatter sampling repeats the sentences of small languages. Held-out loss shows how much repetition is too much; $P$ does
#   not.
# - $\tau$ is one number for all languages and all of training. Lesson 12 shows samplers that learn or schedule $P$. They still
#   train one model, which must serve all languages.
#
# **Where to go next.** Eq. 2 is in section 2.1 of the paper; the code is `pmd_lite/sampling/temperature.py` and
# `pmd_lite/sampling/schedule.py`. Lesson 03 opens the model.
