# %% [markdown]
# # 13 Real text
#
# > **You will**: read a table of real translations, test a difference yourself by resampling sentences, and say which
# > differences are noise. **Time**: half a minute on two CPU cores (nothing is trained unless you turn one switch), forty
# > with the exercises. **Difficulty**: 3 of 5. **You need**: lessons 05, 06, 08 and 10; mean and standard deviation.
#
# **Contents**: six real languages · what a small model says · one number is not a result · exercise: mean and spread · a
# difference, tested · exercise: paired resamples · exercise: the p-value · the table · who dominates · the bill · exercise:
# equal compute · what was found · quiz ·
# takeaways

# %% [markdown]
# ## Six real languages
#
# So far everything ran on invented languages, because we know all their rules. This lesson reads runs on real sentences:
# everyday sentences that people wrote and translated on [Tatoeba](https://tatoeba.org) (CC BY 2.0 FR). They are three to
# eight words long. The corpus is cut to a long tail, from 16,000 French sentences to 150 Estonian ones.

# %%
from pathlib import Path

import numpy as np

import pmd_lite as pmd
from pmd_kit import l12, l13
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.evaluation.tables import Table

# %%
results = Path("results") / "compare_tatoeba.json"
stored, sentences = Comparison.load(results), l13.sentences.StoredSentences.load(results)
print(stored.sizes)
print("high-resource:", stored.groups[0], " low-resource:", stored.groups[1])
print(stored.command, "| seeds", stored.seeds, "|", dict(stored.overrides))

# %% [markdown]
# The model is the preset `small`, made even smaller, so that fifteen runs fit into one hour on a laptop. To train
# everything again, get the corpus and set the switch to True. The code does not repeat finished runs, so you may interrupt
# it.

# %%
RETRAIN = False
if RETRAIN:  # python -m pmd_lite data tatoeba6-easy --out data/tatoeba6_easy
    settings = dict(stored.overrides)
    methods = ["tau=1", "tau=5", "bi-pmd", "auto-pmd", "tau=1 steps=4000"]
    pmd.compare("data/tatoeba6_easy", methods, seeds=[1, 2, 3], preset_name="small", out="runs/real_text", **settings)

# %% [markdown]
# ## What a small model says
#
# Before you look at any score, read. These are the first test sentences of the largest and of the smallest language, with
# the translations of three models.

# %%
shown = ["tau=1", "auto-pmd model_2 (tau=5)", "tau=1 steps=4000"]
pairs = list(stored.sizes)
sentences.table(pairs[0], shown)

# %%
sentences.table(pairs[-1], shown)

# %% [markdown]
# **What to notice.** These are hardly translations. After 1,200 updates the models know how English sentences on Tatoeba
# begin ("I don't", "Do you", "Tom has"). They take a question mark or a first word from the source, and then say what is
# likely. "shought" is the output of a model that knows pieces but not yet words. The model of the third column trained
# about three times as long. It is on its way: "My ... is ...", a wrong noun in the right place. So this is what a BLEU of 2
# looks like, and a BLEU of 8.
#
# Remember this for the rest of the lesson: **this lesson compares beginners.** Half an hour on one core with the preset
# `small` brings French to 25 BLEU (`docs/log.md`). What two models can teach each other depends on what they know.

# %% [markdown]
# ## One number is not a result
#
# The same program with another seed has other initial weights, another order of sentences, and other dropout. How much do
# three such runs differ?

# %%
rows = []
for label in ("tau=1", "tau=5"):
    for seed, (low, high) in zip(stored.seeds, stored.points(label)):
        rows.append([label, seed, high, low])
Table(["system", "seed", "HRL BLEU", "LRL BLEU"], rows, digits=2)

# %% [markdown]
# ### Exercise 1: mean_and_spread (3 minutes, difficulty 1)
#
# Return the mean of `values` and their sample standard deviation, $\sqrt{\frac{1}{n-1}\sum_i (x_i - \bar x)^2}$, as a tuple.

# %% tags=["exercise"]
def mean_and_spread(values):
    ### BEGIN SOLUTION
    mean = sum(values) / len(values)
    return mean, (sum((x - mean) ** 2 for x in values) / (len(values) - 1)) ** 0.5
    ### END SOLUTION


# %% tags=["check", "points:2"]
l13.checks.SPREAD.check(mean_and_spread)
### BEGIN HIDDEN TESTS
l13.checks.SPREAD.grade(mean_and_spread, seed=13)
### END HIDDEN TESTS

# %% [markdown]
# With three seeds the spread itself is only a rough estimate. So "the difference is larger than the spread" is a hint. It
# is not a test.

# %% [markdown]
# ## A difference, tested
#
# There is a second source of chance: the test set. Other sentences would have given other scores. We cannot collect another
# test set, but we can imitate it. Draw the same number of sentences *with replacement* from the one we have, score both
# systems on the same draw, and repeat this a thousand times. That is the **paired bootstrap** (Koehn 2004). "Paired"
# matters: an easy sentence is easy for both systems, so its effect cancels.
#
# Corpus BLEU depends on ten counts per sentence (matched and all n-grams for n = 1..4, and two lengths), so the BLEU of a
# resample needs only one sum. Here are the counts of the smallest language, and BLEU from their sum:

# %%
from pmd_lite.evaluation.significance import bleu_of

pair = pairs[-1]
base, other = sentences.counts["tau=1"][pair], sentences.counts["tau=5"][pair]
print(base.shape, "first sentence:", base[0])
print(f"BLEU of {pair}: tau=1 {bleu_of(base.sum(axis=0)):.2f}, tau=5 {bleu_of(other.sum(axis=0)):.2f}")

# %% [markdown]
# ### Exercise 2: gains (8 minutes, difficulty 3)
#
# `base` and `other` are counts [sentence, 10]. `draws` [resample, sentence] holds sentence numbers, one row for each
# resample. Return [resample]: corpus BLEU of `other` minus corpus BLEU of `base` on each resample. `bleu_of` turns summed
# counts [..., 10] into BLEU [...].
#
# <details><summary>Hint</summary>
#
# `base[draws]` has the shape [resample, sentence, 10]. Add up over sentences, then call `bleu_of` once for each system. Both
# systems must use the same draws.
#
# </details>

# %% tags=["exercise"]
def gains(base, other, draws):
    ### BEGIN SOLUTION
    return bleu_of(other[draws].sum(axis=1)) - bleu_of(base[draws].sum(axis=1))
    ### END SOLUTION


# %% tags=["check", "points:3"]
l13.checks.GAINS.check(gains)
### BEGIN HIDDEN TESTS
l13.checks.GAINS.grade(gains, seed=13)
### END HIDDEN TESTS

# %%
draws = np.random.default_rng(0).integers(len(base), size=(1000, len(base)))
deltas = l13.checks.gains(base, other, draws)
low, high = np.quantile(deltas, [0.025, 0.975])
print(f"95 % of the resamples lie between {low:+.2f} and {high:+.2f} BLEU")

# %% [markdown]
# ### Exercise 3: p_value (5 minutes, difficulty 2)
#
# If many resamples point in the other direction, the observed difference may be luck. Turn that into a number: count the
# differences $\le 0$ and those $\ge 0$, take the smaller count $c$ of the two, and return
# $\min\bigl(1, \frac{2(c+1)}{n+1}\bigr)$. (We double it because either system could have won. We add one because $n$ draws
# cannot show that something never happens.)
#
# <details><summary>Hint</summary>
#
# Count the differences on both sides of zero, zeros on both. Take the smaller count, add one, double, and divide by n + 1. A
# probability cannot be larger than 1.
#
# </details>

# %% tags=["exercise"]
def p_value(deltas):
    ### BEGIN SOLUTION
    count = min(sum(d <= 0 for d in deltas), sum(d >= 0 for d in deltas))
    return min(1.0, 2 * (count + 1) / (len(deltas) + 1))
    ### END SOLUTION


# %% tags=["check", "points:2"]
l13.checks.P_VALUE.check(p_value)
### BEGIN HIDDEN TESTS
l13.checks.P_VALUE.grade(p_value, seed=13)
### END HIDDEN TESTS

# %%
rows = []
for name in (pairs[0], pairs[-1]):
    one, five = sentences.counts["tau=1"][name], sentences.counts["tau=5"][name]
    drawn = np.random.default_rng(0).integers(len(one), size=(1000, len(one)))
    found = l13.checks.gains(one, five, drawn)
    rows.append([name, len(one), float(bleu_of(five.sum(0)) - bleu_of(one.sum(0))), l13.checks.p_value(found)])
Table(["pair", "test sentences", "tau=5 minus tau=1", "p"], rows, digits=3)

# %% [markdown]
# **What to notice.** These p-values are about two *models* and other test sentences. They say nothing about another seed.
# To say something about methods, we must resample seeds as well as sentences. `compare` does that (a hierarchical
# bootstrap, `pmd_lite/evaluation/significance.py`), and the marks in the next table come from it.

# %% [markdown]
# ## The table
#
# **Predict** (2 minutes). Before you look at the table: from $\tau=1$ to $\tau=5$, what happens to HRL and to LRL? What do
# you expect of Auto-PMD?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** HRL falls and LRL rises, as in lesson 06. Of Auto-PMD we could only say that it should do no harm where the
# search turns the weights down.
# <!-- END ANSWER -->

# %%
stored.table()

# %%
print(l12.comparison.reading(stored))

# %% [markdown]
# ## Who dominates
#
# The same systems on the plane of lesson 06.

# %%
stored.plot_frontier(highlight=["auto-pmd model_1 (tau=1)", "auto-pmd model_2 (tau=5)"])

# %% [markdown]
# In the next cell you can explore the same systems one at a time: which pairs a system trains on, when, and where that
# leads. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
l12.widgets.method_picker(stored, "auto-pmd model_2 (tau=5)")

# %% [markdown]
# ## The bill
#
# Two students, a teacher's pass for each batch, and the trials of the search: how much did each system compute? (The caption of
# the table above says in which unit; see lesson 12.)

# %%
stored.plot_costs()

# %% [markdown]
# ### Exercise 4: updates (3 minutes, difficulty 1)
#
# Your own task: write your name between the quotes and run the cell. How many updates in total could the single model make
# for the computing that the mutual run has used?

# %%
student = "your name"
made, single, mutual = l13.checks.my_costs(student)
print(f"{made} updates of a single model cost {single:g}; the mutual run cost {mutual:g} in the same unit, for both students")

# %% tags=["exercise"]
updates = None
### BEGIN SOLUTION
updates = round(made * mutual / single)
### END SOLUTION
print("my answer:", updates)

# %% tags=["check", "points:1"]
l13.checks.my_updates(student).check(updates)
### BEGIN HIDDEN TESTS
l13.checks.my_updates(student).grade(updates, seed=13)
### END HIDDEN TESTS

# %% [markdown]
# For these runs the row `tau=1 steps=4000` of the table is that answer: one model, trained for about the price of Auto-PMD.

# %% [markdown]
# ## What was found
#
# - *Temperature trades one group for the other*, as in lesson 06. From $\tau=1$ to $\tau=5$ the large pairs lose 1.2 BLEU
#   and the small ones gain 0.4. Both differences are marked.
# - *Bi-PMD harms.* It uses $\alpha=0.4$ for every pair after three tenths of the run. Both students are below the single
#   models with the same $\tau$, by 0.4 and 0.2 BLEU on average, and their dev losses are higher by up to a tenth of a nat.
#   The opinion of a beginner is not worth four tenths of a reference.
# - *Auto-PMD does nothing, and that is to its credit.* Its students equal the single models with the same $\tau$ to within
#   0.05 BLEU and 0.01 nats. The search turned the weights down. Those of `model_2` end below 0.14 everywhere. Those of
#   `model_1` end below 0.08 on the large pairs and between 0.1 and 0.5 on the small ones. This holds in all three seeds.
#   The paper's figure also shows higher weights for small pairs than for large ones.
# - *Compute wins.* One model alone, trained for the price of Auto-PMD, has 4.9 BLEU, where Auto-PMD's students have 2.2 and
#   1.9. It is better than both students on large and on small pairs.
#
# So on real sentences, at this size, no mutual method is worth its price. This is not a verdict on the paper: its models
# had seen five million pairs seventy times before they were scored, and in 1,200 updates there is little to overfit. It is
# a verdict on teaching too early, and on tables without a control of equal compute. What would change it? Longer training
# (set the switch to True, set `steps=6000` and let it run for a night), or pairs that are small enough to memorise.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** The paired bootstrap gives p = 0.01 for two models. What may you say?
#
# <details><summary>A. Method B is better than method A.</summary>
#
# Not so. It is about these two models. Another seed of the same methods may give another result.
#
# </details>
#
# <details><summary>B. On other test sentences of this kind, model B would very likely still be ahead of model A.</summary>
#
# Right. The bootstrap imitates other test sets. It does not imitate other trainings.
#
# </details>
#
# <details><summary>C. With probability 0.99 B is better.</summary>
#
# Not so. p is the chance of such a difference if there were none, not the probability of a hypothesis.
#
# </details>
#
# **Question 2.** Why are both systems scored on the *same* resample?
#
# <details><summary>A. To save time.</summary>
#
# Not so. It does not save any: both are scored either way.
#
# </details>
#
# <details><summary>B. Because an easy sentence is easy for both, so its effect cancels.</summary>
#
# Right. Without pairing, the luck of the draw would be added to the difference and hide it.
#
# </details>
#
# <details><summary>C. Because BLEU needs two systems.</summary>
#
# Not so. BLEU compares one system with references.
#
# </details>
#
# **Question 3.** A table compares methods at BLEU 2. What does it say about their use?
#
# <details><summary>A. As much as a table at BLEU 25.</summary>
#
# Not so. At BLEU 2 the models know hardly any words. What two models can teach each other depends on what they know.
#
# </details>
#
# <details><summary>B. It says what happens among beginners, and no more.</summary>
#
# Right. Read translations first. A result may reverse when the models have learnt the language.
#
# </details>
#
# <details><summary>C. Nothing at all, so it should be left out.</summary>
#
# Not so. It is a measurement. One must only say of what.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Read translations before you read scores.
# - A score needs its spread over seeds. A difference needs a test that draws seeds *and* sentences. A table of many
#   differences needs the number of marks that chance alone would give.
# - The paired bootstrap is a sum over drawn rows of counts. p is twice the smaller tail.
# - A comparison at equal updates favours the method that computes more per update. Put a single model of equal compute into
#   every table.
#
# **Where to go next.** The paper's main table is in section 4.3 and has no spread. `docs/log.md` has our real-text runs
# with the preset `small`, which are larger and longer than these. Lesson 14 takes TED talks and a GPU.
