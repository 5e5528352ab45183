# %% [markdown]
# # 11 Is the independence assumption true?
#
# > **You will**: follow the proof on which Auto-PMD's cheap search depends, break it with a table of nine numbers, and then
# > see how true its assumption is in real trainings, where we ran all 27 trials and not only the three. **Time**: one
# > minute on two CPU cores (nothing is trained), forty with the exercises. **Difficulty**: 4 of 5. **You need**: lessons 09
# > and 10; what a variance is.
#
# **Contents**: three trials for all · exercise: count · the search, defined · exercise: choose · the assumption and the
# proof · the proof as a test · a loss that breaks it · exercise: break it · how wrong is wrong? · exercise: own share ·
# the real thing · each for itself, or all together? · how often do they disagree? · what it means · quiz ·
# takeaways

# %% [markdown]
# ## Three trials for all
#
# At each update Auto-PMD must decide, for every language pair, whether its distillation weight goes up, goes down, or
# stays. The honest way is to try: train a copy of the student for a short time with the new weights, look at the dev loss,
# throw the copy away. But the weights of different pairs can be combined, and each combination needs a separate trial. The
# paper calls the set of all combinations $O$:
#
# $$O = \mathop{\times}_{\ell \in L} \{\, f(\alpha[\ell]) \mid f \in \mathcal{F} \,\}, \qquad \mathcal{F} = \{f_=, f_\uparrow, f_\downarrow\}$$
#
# Instead, Auto-PMD tries only the **reduced space** $\widetilde{O}$: all weights up, all down, all kept. For two pairs:

# %%
from pathlib import Path

import torch

from pmd_kit import l11
from pmd_kit.l11.shares import own_share
from pmd_lite.distillation.actions import ACTIONS
from pmd_lite.distillation.search import choose, full_space, reduced_space

# %%
print("full:   ", [" ".join(vector) for vector in full_space(2)])
print("reduced:", [" ".join(vector) for vector in reduced_space(2)])

# %% [markdown]
# ### Exercise 1: count the trials (3 minutes, difficulty 1)
#
# How many trials does each search make for `n_pairs` pairs and `n_actions` actions? Return both numbers, the full
# search first.

# %% tags=["exercise"]
def trials(n_pairs, n_actions):
    ### BEGIN SOLUTION
    return n_actions**n_pairs, n_actions
    ### END SOLUTION


# %% tags=["check", "points:1"]
l11.checks.TRIALS.check(trials)
### BEGIN HIDDEN TESTS
l11.checks.TRIALS.grade(trials, seed=11)
### END HIDDEN TESTS

# %%
for name, n_pairs in (("three pairs, below", 3), ("WMT-6", 6), ("TED-8-Diverse", 8)):
    print(f"{name:18s} {len(full_space(n_pairs)):5,d} trials in full, {len(reduced_space(n_pairs))} reduced")

# %% [markdown]
# **What to notice.** The paper says that a search of three trials adds 30 % to the training time. A search of 729 trials is
# impossible in practice. So the whole method depends on one question: do the three trials choose the same actions as all
# trials would?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** They do if DWI holds, and this lesson measures how far it holds: partly for the large pair, badly for the small
# ones, in the runs that are stored here.
# <!-- END ANSWER -->

# %% [markdown]
# ## The search, defined
#
# Let $R[\text{trial}, \ell]$ be the dev loss of pair $\ell$ after a trial. For each pair, find the trial in which *that
# pair's* loss is smallest, and take the pair's own action from that trial (Alg. 2, lines 11 to 13; the definition is in
# appendix A). Different pairs may take their actions from different trials. By hand, for the reduced space and three pairs:
#
# | trial | fr | et | tr |
# |---|---|---|---|
# | all keep | 1.90 | 2.40 | **3.00** |
# | all up | 1.95 | **2.10** | 3.20 |
# | all down | **1.85** | 2.60 | 3.10 |
#
# French goes down, Estonian goes up, and Turkish keeps its weight. The result (down, up, keep) is a vector that no trial
# used.
#
# ### Exercise 2: choose (5 minutes, difficulty 2)
#
# Write this choice for the reduced space. `results` is a tensor [3, pair] whose rows are the trials in the order of
# `ACTIONS`. Return a list with the name of an action for each pair.
#
# <details><summary>Hint</summary>
#
# `results.argmin(dim=0)` gives the number of the best trial for each pair. In the reduced space the number of the trial is
# the number of the action.
#
# </details>

# %%
print(ACTIONS)

# %% tags=["exercise"]
def choose_reduced(results):
    ### BEGIN SOLUTION
    return [ACTIONS[row] for row in results.argmin(dim=0).tolist()]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l11.checks.CHOICE.check(choose_reduced)
### BEGIN HIDDEN TESTS
l11.checks.CHOICE.grade(choose_reduced, seed=11)
### END HIDDEN TESTS

# %% [markdown]
# The library's `choose` does this for any space. It settles ties (keep before up before down), and it never takes a trial
# that diverged.

# %%
by_hand = torch.tensor([[1.90, 2.40, 3.00], [1.95, 2.10, 3.20], [1.85, 2.60, 3.10]])
print(choose(by_hand, reduced_space(3)))

# %% [markdown]
# ## The assumption and the proof
#
# The paper assumes **Distillation Weights Independence** (DWI): if two weight vectors agree on pair $\ell$, then the dev
# loss of $\ell$ is the same after training with either vector. In other words: *the loss of a pair depends on the pair's
# own weight, and on no other weight.*
#
# If this holds, both searches choose the same actions. Here is the proof. Fix a pair $\ell$. Let $\hat f$ be its action in
# the best of *all* trials for that pair. Now look at the trial in which *every pair* takes $\hat f$.
#
# 1. This trial agrees with the best trial on $\ell$. So, by the assumption, the loss of $\ell$ is the same in both: this
#    trial is a best trial as well.
# 2. This trial belongs to the reduced space, since all pairs take one action.
# 3. The reduced space is a part of the full space, so no trial in it can be better. The smallest loss in the reduced space
#    is therefore the smallest of all, and the action $\hat f$ reaches it.
#
# So the reduced search finds $\hat f$ too (or an action that is exactly as good; then the same rule for ties decides in
# both searches). The same holds for every other pair. The proof needed no assumption about the quality of the trials.

# %% [markdown]
# ## The proof as a test
#
# A proof about all tables can be tested on many tables. Under DWI a table consists of one short list per pair: three
# losses, one for each of the pair's own actions. We draw a hundred such tables at random, build $R$ for the full space, and
# let both searches choose.

# %%
generator, agreed = torch.Generator().manual_seed(11), 0
for number in range(100):
    n_pairs = 1 + number % 4
    own = torch.rand(n_pairs, 3, generator=generator)  # the loss of each pair after each own action
    vectors, same = full_space(n_pairs), reduced_space(n_pairs)
    R = torch.tensor([[own[pair, ACTIONS.index(a)] for pair, a in enumerate(vector)] for vector in vectors])
    agreed += choose(R, vectors) == choose(R[[vectors.index(v) for v in same]], same)
print(f"{agreed} of 100 random tables: the two searches choose the same actions")

# %% [markdown]
# ## A loss that breaks it
#
# Is the assumption plausible? All pairs share one set of parameters. If French listens more to its teacher, the shared
# layers change, and Turkish uses the same layers. Suppose two pairs compete for room. Each gains by going up (loss 1.8
# instead of 2.0), but if *both* go up, both lose (2.3). On the left, for comparison, is a pair that does not depend on the
# other.

# %%
alone = {"keep": 2.0, "up": 1.8, "down": 2.3}
calm = [[alone[own] for other in ACTIONS] for own in ACTIONS]
tense = [[alone[own] + (0.5 if own == other == "up" else 0.0) for other in ACTIONS] for own in ACTIONS]
l11.figures.action_grids({"independent": calm, "competing": tense}, ACTIONS, "fr", "tr",
                        alt="Loss of fr for both actions. Independent: one loss per row. Competing: 2.3 where both go up")

# %% [markdown]
# **What to notice.** Under DWI every *row* has one colour. The reduced search sees only the diagonal. On the left the
# diagonal contains all the information. On the right it shows that up is bad, and it hides that up is best when the other
# pair does not go up too.

# %%
space, same = full_space(2), reduced_space(2)
R = l11.checks.competing(space)
print("full:   ", choose(R, space))
print("reduced:", choose(R[[space.index(v) for v in same]], same))

# %% [markdown]
# Look closely at the full search's answer, too. Each pair takes its action from *its own* best trial, and these are two
# different trials. Together they give (up, up), where both lose! Appendix A proves that the cheap search gives the same
# result as the expensive one. It does not say that the expensive one is right. Without DWI there may be no vector that is
# best for every pair.
#
# ### Exercise 3: break it (8 minutes, difficulty 3)
#
# Build a table of your own on which the two searches choose differently. `space` is the list of the nine action vectors of
# two pairs. Return nine rows of two losses. Try a table that is *not* like the example: is it possible without any
# competition? Suppose one pair's action only helps or harms the other pair, and always by the same amount, whatever the
# other pair does.
#
# <details><summary>Hint</summary>
#
# Write the loss of the first pair as a sum of two parts: one depends on its own action, the other on the second pair's
# action. Make the second part larger than the first, and compare the three rows on the diagonal with all nine.
#
# </details>

# %% tags=["exercise"]
def breaking_table(space):
    ### BEGIN SOLUTION
    own = {"keep": 2.0, "up": 1.9, "down": 2.1}  # going up is best for the first pair
    harm = {"keep": 0.0, "up": 0.5, "down": 0.0}  # but the second pair's going up harms it
    return [[own[first] + harm[second], own[second]] for first, second in space]
    ### END SOLUTION


# %% tags=["check", "points:3"]
l11.checks.BREAKING.check(breaking_table)
### BEGIN HIDDEN TESTS
l11.checks.BREAKING.grade(breaking_table, seed=11)
### END HIDDEN TESTS

# %% [markdown]
# It is possible. When all pairs always move together, we cannot separate a pair's own effect from the effect of the others.
# Statisticians call the two effects *confounded*. The reduced search credits a pair with what its neighbours did. This does
# not need a complicated interaction. It is enough that the other pairs matter *more* than the pair itself.

# %% [markdown]
# ## How wrong is wrong?
#
# No real loss is exactly independent. The question is how much of a pair's loss depends on its own action. We measure this
# with the share of variance that the action explains. Sort all trials into three groups by the pair's own action. If
# nothing else matters, the losses inside a group are equal, and all variance lies *between* the groups. So take
#
# $$\text{own share} = \frac{\text{variance of the three group means}}{\text{variance over all trials}}$$
#
# An own share of 1 means that DWI holds on this table. An own share of 0 means that the pair's own action does not matter
# on average. By hand, for the competing pairs above (nine trials): the group means are 2.0 (keep),
# $(1.8+2.3+1.8)/3 = 1.967$ (up) and 2.3 (down).

# %%
losses = torch.tensor(tense, dtype=torch.float64)  # [own action, other's action]
print("group means:", losses.mean(dim=1))
print(f"own share: {losses.mean(dim=1).var(unbiased=False) / losses.var(unbiased=False):.3f}")

# %% [markdown]
# ### Exercise 4: own share (6 minutes, difficulty 3)
#
# Write the own share for any table. `results` [trial, pair] holds the losses, `space` holds the action vector of each
# trial, and `pair` is a number. Use `.var(unbiased=False)` for both variances.
#
# <details><summary>Hint</summary>
#
# For each action collect the rows in which the pair takes this action, and take the mean of the losses. Then compare the
# variance of the three means with the variance of all losses.
#
# </details>

# %% tags=["exercise"]
def my_own_share(results, space, pair):
    ### BEGIN SOLUTION
    losses, means = results[:, pair], []
    for action in ACTIONS:
        rows = [row for row, vector in enumerate(space) if vector[pair] == action]
        means.append(losses[rows].mean())
    return torch.stack(means).var(unbiased=False) / losses.var(unbiased=False)
    ### END SOLUTION


# %% tags=["check", "points:3"]
l11.checks.OWN_SHARE.check(my_own_share)
### BEGIN HIDDEN TESTS
l11.checks.OWN_SHARE.grade(my_own_share, seed=11)
### END HIDDEN TESTS

# %% [markdown]
# `share_explained` (in `pmd_kit/l11/shares.py`) computes the same share for *any* pair's action. In the full space every combination
# occurs once, so the shares of all pairs add up to at most 1. The rest is due to *combinations*: the part that no sum of
# separate effects can explain.

# %%
print(f"our own_share: {own_share(l11.checks.competing(full_space(2)), full_space(2), 0):.3f}")

# %% [markdown]
# ## The real thing
#
# Now the experiment. `benchmarks/three_experiments.py` trains Auto-PMD on three pairs of the world `longtail`: a large, a
# medium and a small one. At every search it makes all $3^3 = 27$ trials, follows the reduced choice, and records
# everything. All trials of a search start from the same copy of the student, and see the same batches with the same
# dropout. Only the weights differ, so the weights cause every difference in the table. Luck does not.

# %%
stored = l11.dwi.StoredSearches.load(Path("results") / "dwi_longtail.json")
print(stored.command)
stored.table()

# %% [markdown]
# How to read it. *another action*: in how many searches the full and the reduced search disagree on this pair. *lost*: how
# much worse the pair is after the reduced choice than after the full one, in nats per token (negative: better; remember
# that the full choice promises nothing for the combination). *range*: the difference between the best and the worst trial.
# The last three columns say what the loss depends on.

# %%
stored.bars()

# %%
print(stored.reading())

# %% [markdown]
# **What to notice.** The program computes the words above from the numbers ("nearly true" from an own share of 90 % on,
# "wrong" below 50 %; we chose these limits). For which pair would you expect the others to matter most, the large one or
# the small one, and why? Do the bars agree?
#
# <details><summary>Our answer</summary>
#
# We expected the smallest. The student has seen its few sentences so often that training on them again changes little, whatever
# their weight is. The larger pairs move the shared layers, and the small pair feels this. The bars agree in part: a pair's own
# action explains 71 % on the largest pair, and a quarter on each of the two others. The smallest has no lower share than the
# middle one (26 and 24 %).
#
# </details>

# %%
stored.by_step()

# %% [markdown]
# **What to notice.** Compare the two students: `model_1` ($\tau=1$) hardly ever trains on the small pair, `model_2`
# ($\tau=5$) often does. In which student does the small pair depend more on itself, and does that change over the run?
#
# <details><summary>Our answer</summary>
#
# Look at the lines of the small and of the medium pair. We expect a higher own share in `model_2`, whose layers are shaped by
# these pairs as well. In `model_1` the large pair shapes nearly everything, so it should depend on itself, and the others on it.
# Where a line rises during the run, the pair has come to depend more on its own weight. A line near 0 at every search says that
# DWI is wrong for this pair in this student.
#
# </details>
#
# Before we call the assumption wrong, here is a fair objection. If a weight is already near 0 or 1, an action hardly moves
# it (lesson 09). Such a pair has almost no action of its own, so of course everything else matters more. So sort the same
# shares by the weight that the pair had before the search:

# %%
stored.by_weight()

# %% [markdown]
# **What to notice.** How much of the failure is saturation? Look at the rows in the middle, where an action moves a weight
# furthest: is the own share near 1 there?
#
# <details><summary>Our answer</summary>
#
# If saturation were all, the rows in the middle would be near 1, and only the first and the last row would be low. A middle row
# clearly below 1 shows that DWI fails even where an action moves the weight furthest. A last row near 0 is saturation.
#
# </details>

# %% [markdown]
# ## Each for itself, or all together?
#
# If other pairs' actions matter to one pair, then its actions matter to them. A rule by which every pair looks only at its
# own loss ignores that. With the stored tables we can try other rules on the same trials: take the *vector* with the lowest
# sum of losses, either among the three trials (that is Dynamic-MD, lesson 10) or among all 27.

# %%
print(stored.rules().to_text())

# %%
print(stored.rules_reading())

# %% [markdown]
# **What to notice.** Compare the first two rows: what does the full search gain, if each pair still decides only for
# itself? Then compare the last row with both: what would a common decision gain? Two cautions. First, the best of 27 is
# chosen and judged on the same dev sentences, so part of its lead is luck, and more so than for the best of 3. Second, this
# is the loss after a *trial*, which is a very short training. A rule that wins every trial may not win the run. (Lesson 12's
# comparison shows where runs of Dynamic-MD end.)
#
# <details><summary>Our answer</summary>
#
# The sentence below the table gives the numbers. If the full search gains hardly anything over the reduced one, then 24
# more trials are wasted as long as each pair decides for itself. If the common decision gains more, the loss is not in the
# number of trials but in the rule: a pair that looks only at its own loss does not count what it does to the others.
#
# </details>

# %% [markdown]
# ## How often do they disagree?
#
# How bad is a given own share for the choice? For comparison we draw random losses, in which the own action has an effect
# and *all the rest is noise*. We try noise of several strengths and draw a thousand tables for each. (Even pure noise
# agrees sometimes, since the best of all trials may be one of the three.)

# %%
curve = l11.dwi_tables.simulate([0, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 20], draws=1000)
stored.beside_noise(curve)

# %% [markdown]
# **What to notice.** A pair clearly *above* the curve disagrees more often than noise of that size would cause. Then the rest
# is not noise, but a steady push from the other pairs, and the three trials credit it to the wrong pair (the confounding of
# exercise 3). (Clearly: with 40 searches, a share near one half has a standard error of 8 percentage points.) For a pair
# *below* the curve, the other pairs seldom change the order of its own three actions.
#
# Finally, look into a single search. We show the one in which a pair depended least on itself, together with the pair that
# mattered most to it (mean over the third pair's actions).

# %%
stored.grid(*stored.least_own())

# %% [markdown]
# **What to notice.** Rows of one colour mean independence. *Columns* of one colour mean that the other pair decides this
# pair's loss.
#
# In the next cell you can choose other searches and pairs. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
l11.widgets.interaction_picker(stored)

# %% [markdown]
# ## What it means
#
# - The theorem is right and its proof is short. The assumption is the open question, and only measurement can answer it.
# - A disagreement does not have to hurt. Where the losses of the trials lie close together, another action costs almost
#   nothing. Read *lost* beside *range*, not the count alone.
# - If the other pairs matter, three trials are not the only cheap design. Moving one pair at a time takes $1 + 2|L|$
#   trials, 13 for WMT-6, and separates the effects of all pairs as long as they add up. A well-chosen fraction of the
#   $3^{|L|}$ vectors does the same. Auto-PMD's authors chose the cheapest possible design. Now you know what it gives away.
# - Our evidence is three pairs, one invented world and one small model. With more pairs, every pair has more neighbours. A
#   larger model has more room for them. We measured neither here.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** What does DWI assume?
#
# <details><summary>A. That all pairs prefer the same action.</summary>
#
# Not so. Each pair may prefer another one. This is why R is read column by column.
#
# </details>
#
# <details><summary>B. That the loss of a pair depends on its own weight and on no other.</summary>
#
# Right. Then the trial in which all pairs go up tells French all it needs to know about going up.
#
# </details>
#
# <details><summary>C. That trials are free of noise.</summary>
#
# Not so. The proof is about tables of numbers. It does not ask where they come from.
#
# </details>
#
# **Question 2.** Full and reduced search choose the same actions. Does this show that the actions are good?
#
# <details><summary>A. No. Each pair picks from its own best trial, and no trial may have used the combination.</summary>
#
# Right. Appendix A says that the cheap search equals the expensive one, not that the expensive one is right.
#
# </details>
#
# <details><summary>B. Yes, because the full search has tried everything.</summary>
#
# Not so. It has tried all vectors, but it does not choose a vector; it chooses pair by pair.
#
# </details>
#
# <details><summary>C. Yes, if the own share is 0.</summary>
#
# Not so. An own share of 0 means that a pair's own action does not matter on average.
#
# </details>
#
# **Question 3.** A pair's own share is .5, and its disagreement is above the curve of random noise. What does this suggest?
#
# <details><summary>A. The dev set is too small.</summary>
#
# Not so. A small dev set is noise, and noise of that size is what the curve shows.
#
# </details>
#
# <details><summary>B. Other pairs push it always in the same direction, and moving together hides this.</summary>
#
# Right. The effects are confounded: a pair is credited with what its neighbours did.
#
# </details>
#
# <details><summary>C. DWI holds, because half of the variance is its own.</summary>
#
# Not so. DWI asks for a share of 1. How much it matters is the question of "lost".
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - For $|L|$ pairs the full search makes $3^{|L|}$ trials, the reduced one always three.
# - Under DWI, the trial in which every pair takes a pair's best action is as good for that pair as any other trial. So
#   three trials are enough.
# - An interaction between pairs breaks DWI. A plain side effect of other pairs breaks it too: moving together confounds.
# - The own share says how true DWI is. The loss that the reduced choice gives away says whether it matters.
#
# **Where to go next.** The definition, hypothesis and proof are in the paper's appendix A, the spaces in section 3.3. The
# code is in `pmd_lite/distillation/search.py`, and the experiment is `python -m benchmarks.three_experiments dwi`. Lesson
# 12 looks at the rivals.
