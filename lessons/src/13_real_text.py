# %% [markdown]
# # 13 Real text
#
# > **You will**: read real translations, test a difference yourself by resampling sentences, and say which differences are
# > noise. **Time**: a minute on two CPU cores (nothing is trained), forty with the exercises. **Difficulty**: 3 of 5. **You
# > need**: lessons 05, 06, 08 and 10; mean and standard deviation.
#
# **Contents**: six real languages · what a model says · one number is not a result · exercise: mean and spread · a
# difference, tested · exercise: paired resamples · exercise: the p-value · the table · who dominates · which number would have
# told you · the bill · exercise: equal compute · what was found · quiz · takeaways

# %% [markdown]
# ## Six real languages
#
# So far everything ran on invented languages, because we know all their rules. This lesson reads runs on real sentences:
# everyday sentences that people wrote and translated on [Tatoeba](https://tatoeba.org) (CC BY 2.0 FR), three to eight words
# long. The corpus is cut to a long tail. The models are small (1.2 million parameters). In most runs they see the training text
# about twenty times, until they know the small languages by heart. A few runs, with `steps=12000`, go on for longer.

# %%
from pathlib import Path

import numpy as np

from pmd_kit import l13
from pmd_lite.evaluation.significance import bleu_of
from pmd_lite.evaluation.tables import Table
from pmd_lite.run import Run

# %%
study = l13.study.Study.load(Path("results") / "studies" / "real-text")
print("training sentences:", study.sizes)
print("high-resource:", study.groups[0], " low-resource:", study.groups[1])

# %% [markdown]
# The study is long: most runs take between ten minutes and an hour of one core, the longest some hours. So this notebook opens
# what was stored of each run: scores, losses and counts of every test sentence, but no sentence, since the corpus is not ours
# to pass on. Your own machine can make the runs anew, and then the lesson shows you the corpus's sentences as well. In a
# terminal:
#
# ```sh
# python -m pmd_lite data tatoeba6-easy --out data/tatoeba6_easy
# python -m benchmarks.study real-text --source data/tatoeba6_easy --seeds 1 --rows tau=1 auto-pmd
# ```

# %% [markdown]
# Have the models learnt all that they can? Here is the update after which the mean dev loss of the large and of the small pairs
# was lowest, and how far it had risen by the last update.

# %%
study.convergence()

# %% [markdown]
# **What to notice.** Compare the two groups. Whose lowest loss comes first: that of the large pairs or that of the small ones?
# Does one of them rise again? A group that reaches its lowest loss at the very end may still have something to learn.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The columns answer it. We expect the small pairs to be first, above all at $\tau=5$, which shows them most often:
# they are learnt by heart. The large pairs have stopped improving quickly, but their lowest loss lies near the last update.
# <!-- END ANSWER -->

# %% [markdown]
# ## What a model says
#
# Before you look at any score, read. The following six sentences were written for this lesson, in six languages. No corpus has
# them. The model that translates them is a student of one run of this study: Bi-PMD, where each student is taught by the mean of
# both. You see it a quarter of the way and at the end.

# %%
read = l13.sentences.Translated.load(Path("results") / "own_sentences.json")
early, _, _, model_1, *_ = read.translations
for label in (early, model_1):
    print(f"{label}: {read.about[label]}")
read.table(3, [early, model_1])

# %%
read.table(1, [early, model_1])

# %%
read.table(4, [early, model_1])

# %% [markdown]
# **What to notice.** Every table is one sentence, from the largest pair at the top to the smallest at the bottom. How far down can
# you still recognise the meaning? What does the model say where it does not know a word? What had it learnt after 800 updates?
# (Where it repeats a sentence of the corpus by heart, a note stands in its place.)
#
# <!-- BEGIN ANSWER -->
# **Our answer.** With 6,000 French pairs, words of the source come back ("brother", "school", "book", "car"), and words that are
# rare in everyday text are lost (key, cheese). Down the table a question stays a question, but the words come from what is
# likely in English. Early on, that is all: how English sentences begin.
# <!-- END ANSWER -->

# %%
read.closeness()

# %% [markdown]
# The table counts for each pair how close the six translations are to the references. Six sentences are few: read the columns from
# left to right, and do not compare neighbours.
#
# If the study has run on your machine, the next cell shows sentences of the corpus's test set. (In the stored notebook it shows
# none.)

# %%
for path in sorted(Path("../runs/studies/real-text/runs").glob("*/translations"))[:1]:
    print(l13.sentences.corpus_sentences(Run(path.parent), "fr-en"))

# %% [markdown]
# ## One number is not a result
#
# The same program with another seed has other initial weights, another order of sentences, and other dropout. How much do
# three such runs differ?

# %%
rows = []
for label in ("tau=1", "tau=5"):
    for seed, *points in zip(study.systems[label].seeds, *study.means(label, "BLEU")):
        rows.append([label, seed, *points])
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
pairs = list(study.sizes)
pair = pairs[-1]
base, other = (study.systems[label].counts(pair) for label in ("tau=1", "tau=5"))
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
    one, five = (study.systems[label].counts(name) for label in ("tau=1", "tau=5"))
    drawn = np.random.default_rng(0).integers(len(one), size=(1000, len(one)))
    found = l13.checks.gains(one, five, drawn)
    rows.append([name, len(one), float(bleu_of(five.sum(0)) - bleu_of(one.sum(0))), l13.checks.p_value(found)])
Table(["pair", "test sentences", "tau=5 minus tau=1", "p"], rows, digits=3)

# %% [markdown]
# **What to notice.** These p-values are about two *models* and other test sentences. They say nothing about another seed.
# To say something about methods, we must resample seeds as well as sentences (a hierarchical bootstrap,
# `pmd_lite/evaluation/significance.py`). The marks in the next tables come from it, wherever a system has several seeds.

# %% [markdown]
# ## The table
#
# **Predict** (2 minutes). Before you look at the table: from $\tau=1$ to $\tau=5$, what happens to HRL and to LRL? What do
# you expect of two models that translate together, by the mean of their probabilities (an *ensemble*)? What of Auto-PMD?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** HRL falls and LRL rises, as in lesson 06. An ensemble can be better than both of its members, where they make
# different mistakes. Auto-PMD's students should be better than the single models that sample alike, if the paper's result holds
# here.
# <!-- END ANSWER -->

# %%
study.table()

# %%
study.difference_table()

# %% [markdown]
# Each student of a mutual method stands against its *twin*, the single model of 3,600 updates that samples as it does. (A
# student of the long Bi-PMD has made up to 12,000, so what it gains on its twin it owes to time as well; "the bill" has the
# rival that trained for longer, too.) The same in words:

# %%
print(study.reading())

# %% [markdown]
# And here is every system against the ensemble of the two single models, which share nothing but a translation's last step:

# %%
print(study.reading("ensemble tau=1 + tau=5"))

# %% [markdown]
# The paper's table for WMT-6 has $\tau=1$ and $\tau=5$ as single models. Is there a third one that it should have? Here is every system
# against a single model with a temperature between the two:

# %%
print(study.reading("tau=2"))

# %% [markdown]
# **What to notice.** Look for a system that is better than $\tau=2$ on one group of pairs and not worse on the other. Is it a student
# that learnt *with* another one, or one that learnt from two finished models (`ensemble-distill`)? What would you have written
# without this baseline?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** A student that trades one group for the other is on the same frontier as $\tau=2$, at more than twice the price. Only a
# system that gains in one group and loses in none has moved the frontier. A baseline that is left out makes a method look better
# than it is: the printed lines put $\tau=2$ above $\tau=5$ on the large pairs, with a mark and three seeds, and not below it on the small
# ones. So who compares a student with $\tau=5$ has chosen a weak rival. Count the seeds before you write your sentence.
# <!-- END ANSWER -->

# %% [markdown]
# ## Who dominates
#
# Seed 1 of most systems, on the plane of lesson 06. The steps enclose all that one of them has reached: nobody has trained a
# model between two corners. Where a mark is hollow, two models translate together. Two students of one sampler, and Auto-PMD
# with a bound on its weights, are left out.

# %%
left_out = ("clip", "vanilla")
shown = [label for label, system in study.systems.items() if 1 in system.seeds and not any(word in label for word in left_out)]
study.figure(shown)

# %% [markdown]
# ## Which number would have told you?
#
# A search of Auto-PMD compares *dev losses*, and every run keeps the weights of its lowest one. **Predict** (1 minute): sort all
# students by dev loss, and then by test BLEU. Is it the same order for the large pairs? And for the small ones?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Who has a lower loss should translate better, so one expects about the same order in both groups. The table shows it for
# one of them.
# <!-- END ANSWER -->

# %%
study.agreement()

# %% [markdown]
# **What to notice.** Compare the row `dev NLL` in the two columns, and then with `accuracy`: how often the model's first choice is
# the right next token, after the right words so far. If dev loss failed because a model is too sure of itself, then the loss at
# the best softmax temperature (`at best T`) would agree better with BLEU. Does it?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** On the large pairs dev loss puts the students almost in the order of BLEU. On the small pairs it says next to
# nothing, and a better temperature does not change that. There, accuracy says more, and greedy BLEU most. Where does the loss
# fall, then? `benchmarks/where_loss_falls.py` looks at every dev token: on the small pairs, nine tenths of what Bi-PMD's
# `model_2` loses less than $\tau=5$ lie on tokens that *both* models guess wrong (seed 2: 4.86 nats there instead of 5.42). It
# guesses right hardly more often (57.5 % instead of 56.2 %). A search that compares dev losses steers the small languages by a
# number that does not know their BLEU. (Students of one run are not independent of each other, so this table describes these
# students; it has no test.)
# <!-- END ANSWER -->

# %% [markdown]
# ## The bill
#
# Two students, a teacher's pass for each batch, and the trials of the search: how much did each run compute, and what did it
# reach? (Multiply-adds; see lesson 12.)

# %%
study.bill()

# %% [markdown]
# **What to notice.** Nearly all runs made equal *updates*, 3,600 of each student. In the rows with `steps=12000 patience=12` a
# run trained until its mean dev loss had not fallen at twelve evaluations, or for 12,000 updates. `mean of 5` made all 12,000
# and is scored with the mean of its last five weights, whatever its dev loss did. Go down the column `compute`: does BLEU rise
# with it? The ensemble of two single models costs twice one of them. Which rows are cheaper than
# Bi-PMD or Auto-PMD, and better? What do the long rows say?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Compare the rows of one price or less. A run that computes more and has less BLEU in both columns is not worth
# its price. At equal updates a mutual method may compute two or three times as much as its rival. Give a single model that
# compute, and the comparison changes: the long $\tau=2$ costs about as much as Bi-PMD of 3,600 updates, and none of the short
# students comes near it on the large pairs. But then it stops, because the small pairs overfit. Students that teach each
# other overfit later: the long Bi-PMD made all its updates, and its `model_1` is best of all on the large pairs. More dropout
# delays overfitting as well, but the long $\tau=2$ with dropout 0.3 is not better than the one without: with one seed it was,
# with three it is not. Then read `mean of 5`: the same $\tau=2$, which only goes on although its mean dev loss rises, gains
# three BLEU on the large pairs and loses nothing on the small ones. So the stop had held it back, not its sampler, and most of
# what the long students seemed to gain was time. Its row has two seeds; and the students' last weights were not averaged.
# The two students that both sample at $\tau=2$ say what different samplers are worth: compare the better one with Bi-PMD's.
# <!-- END ANSWER -->

# %% [markdown]
# ### Exercise 4: updates (3 minutes, difficulty 1)
#
# Your own task: write your name between the quotes and run the cell. How many updates in total could the single model make
# for the computing that the mutual run has used?

# %%
student = "your name"
made, single, mutual = l13.checks.my_costs(student)
print(f"{made} updates of a single model cost {single:g}; the mutual run cost {mutual:g} in the same unit,")
print("for both students")

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
# ## What was found
#
# You have it all in the printed lines: read them again, and write down one sentence for each of these four questions.
#
# - Is the trade-off of lesson 06 there: does $\tau=5$ lose on the large pairs and gain on the small ones, with marks?
# - Is the ensemble of the two single models above both of them? For both groups of pairs?
# - Which students are above their twins, and where do they lose? Does the same hold for `model_1` and for `model_2`?
# - How many seeds stand behind each of these sentences?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The lines say it for the seeds that are stored. Where a system has one seed, the marks speak about two models,
# not about two methods, and your sentence should say so. `docs/log.md` keeps what we read in them, with dates.
# <!-- END ANSWER -->

# %% [markdown]
# What would a fair verdict on the paper need? A corpus whose large pairs have more than 6,000 sentences: the paper's have
# millions, and its models had seen them seventy times. And more seeds of the controls for the
# long runs: one seed has already told us a wrong story here.

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
# **Question 3.** Another table compares methods at BLEU 2. What does it say about their use?
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
# **Where to go next.** The paper's main table is in section 4.3 and has no spread. `docs/log.md` keeps the dated readings of this
# study, and `docs/results.md` says what has been found so far. Lesson 14 takes TED talks and a GPU.
