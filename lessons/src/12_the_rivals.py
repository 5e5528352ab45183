# %% [markdown]
# # 12 The rivals
#
# > **You will**: rebuild the key step of four rival methods, watch samplers change their probabilities, and read one table of
# > many methods without deceiving yourself. **Time**: one minute on two CPU cores (nothing is trained), fifty
# > with the exercises. **Difficulty**: 4 of 5. **You need**: lessons 02, 06, 07 and 10; derivatives; means and variances.
#
# **Contents**: two levers · samplers with a plan · exercise: UniMax · samplers that learn · exercise: one update ·
# the worst mixture · exercise: best response · small after large · whose turn it was · teachers that stand still ·
# exercise: LSSD · what the paper compares · one backbone · what it costs · what this says, and what not · quiz ·
# takeaways

# %% [markdown]
# ## Two levers
#
# Pareto-MD is one of many answers to unequal languages. Each of them pulls one of two levers, or both: *whose turn is it?*
# (a **sampler** gives $P(\ell)$) and *what does the model learn besides the reference?* (a **distiller** gives a teacher
# and a weight). In our library a method is a row that names one sampler per student and one distiller. Here are the rows.

# %%
import math
from pathlib import Path

import torch

from pmd_kit import folding, l12
from pmd_lite.evaluation.tables import Table
from pmd_lite.methods import METHODS

# %%
rows = [[m.name, " + ".join(m.samplers), m.about, m.paper] for m in METHODS.values()]
listed = Table(["method", "sampler of each student", "in a few words", "from"], rows)
folding.Folded(f"All {len(rows)} methods: click, or press Enter", listed)

# %% [markdown]
# Everything below is based on one stored comparison on the invented world `longtail` of lesson 00. This lesson trains nothing.
# The next cell prints what was compared, and the command that made the file, in case you want to repeat it.

# %%
from pmd_lite.comparing.comparison import Comparison

stored = Comparison.load(Path("results") / "compare_longtail.json")
print(stored.command)
methods = {system["method"] for system in stored.systems.values()}
print(len(methods), "methods, seeds", stored.seeds)
pairs, sizes = list(stored.sizes), list(stored.sizes.values())
print(stored.sizes)

# %% [markdown]
# ## Samplers with a plan
#
# The simplest rivals never look at the model. **Cooldown** starts flat and ends steep: the exponent $1/\tau$ moves from
# $1/5$ to 1 during training. The idea: the model sees small languages early, and does not repeat them at the end, when it
# would begin to memorise them. **Order-matters** does the opposite: only the large languages for the first half, then
# all at $\tau=5$. So the small languages come to a model that already translates.

# %%
from pmd_lite.sampling.planned import scheduled_tau

print([f"tau={scheduled_tau(t, 5.0, 1.0, 'linear'):.2f}" for t in (0, 0.25, 0.5, 0.75, 1)])

# %% [markdown]
# **UniMax** asks how flat the distribution may be. Suppose the whole training will see $B$ sentences, and no pair's data
# may be repeated more than $E$ times. Give out the budget from the smallest pair to the largest: each pair gets an equal
# share of what is left, but never more than $E N_\ell$. The part that a small pair may not take stays for the larger ones.
#
# By hand, with $N = (1000, 100, 10)$, $B = 600$ and $E = 4$: the smallest pair is offered $600/3 = 200$ and may take only
# $4 \cdot 10 = 40$. The next pair is offered $(600-40)/2 = 280$ and takes it, since $280 \le 4 \cdot 100$. The largest pair
# gets the remaining 280.

# %%
from pmd_lite.sampling.unimax import unimax_probabilities

print(unimax_probabilities([1000, 100, 10], budget=600, cap=4) * 600)

# %% [markdown]
# ### Exercise 1: UniMax by hand (6 minutes, difficulty 2)
#
# Your own task: write your name between the quotes, run the cell, and divide the budget with pencil and paper. Then give
# the four amounts (sentences, in the order of the sizes) as a list.
#
# <details><summary>Hint</summary>
#
# Begin with the smallest pair. Divide what is left by the number of pairs that are still waiting. If this is more than the
# cap times the size, the pair gets only its cap. The rest is left for the larger pairs.
#
# </details>

# %%
student = "your name"
my_sizes, my_budget, my_cap = l12.checks.my_corpus(student)
print(f"sizes {my_sizes}, budget {my_budget} sentences, no pair more than {my_cap} times")

# %% tags=["exercise"]
amounts = None
### BEGIN SOLUTION
level = (my_budget - my_cap * (my_sizes[2] + my_sizes[3])) / 2
amounts = [level, level, my_cap * my_sizes[2], my_cap * my_sizes[3]]
### END SOLUTION
print("my amounts:", amounts)

# %% tags=["check", "points:2"]
l12.checks.my_amounts(student).check(amounts)
### BEGIN HIDDEN TESTS
l12.checks.my_amounts(student).grade(amounts, seed=12)
### END HIDDEN TESTS

# %% [markdown]
# Now our world, with the library's defaults: a budget of one pass over all data, and a cap of five.

# %%
budget, cap = sum(sizes), 5
share = unimax_probabilities(sizes, budget, cap)
given = {pair: round(budget * p) for pair, p in zip(pairs, share.tolist())}
print(given)
l12.figures.water_level(pairs, list(given.values()), [cap * n for n in sizes],
                       alt=f"UniMax gives out {budget} sentences: {given}")

# %% [markdown]
# **What to notice.** It is like water poured over uneven ground: every pair below the common level is full, and every pair
# above it gets the same amount. One setting takes the place of $\tau$, and it states what we care about: repetitions. (The
# limit holds only within the budget. The stored runs are longer than one pass, and a longer run repeats more.)

# %% [markdown]
# ## Samplers that learn
#
# Could the model tell us whose turn it is? **MultiDDS-S** and **MultiUAT** share one mechanism, a *scorer*. It has one
# logit $\psi_\ell$ per pair, with $p = \mathrm{softmax}(\psi)$. From time to time it takes a few steps of gradient descent
# (Adam) on
#
# $$\mathcal{L}(\psi) = -\sum_i R_i \log p_i, \qquad R_i \text{: the reward of pair } i, \text{ a fixed number here.}$$
#
# The two methods reward different things. MultiUAT rewards uncertainty. A few dev sentences go through the model five times
# with dropout. The less probable its own first choices are, the larger is $R_i$. MultiDDS-S rewards usefulness. A pair's
# reward is high if its training gradient points in the same direction as the *dev* gradients of all pairs, measured by the
# mean cosine:

# %%
dev = torch.tensor([[1.0, 0.0], [0.8, 0.6], [-0.6, 0.8]])  # dev gradients of three pairs, two parameters
train = torch.tensor([[2.0, 0.0], [0.4, 0.3], [0.0, 0.1]])  # their training gradients
cosines = torch.nn.functional.cosine_similarity(train[:, None], dev[None], dim=2)  # [train pair, dev pair]
print(cosines)
print("rewards:", cosines.mean(dim=1))

# %% [markdown]
# **What to notice.** Lengths do not matter: the first pair's gradient is by far the longest and earns the least. The second
# earns the most, because it points between the others. The third helps itself most (0.8), and harms no other pair.

# %% [markdown]
# ### Exercise 2: one scorer update by hand (8 minutes, difficulty 3)
#
# What is the gradient of $\mathcal{L}$ with respect to the logits $\psi$? Work it out on paper; you need
# $\partial \log p_i / \partial \psi_k = [i=k] - p_k$. Then write it in one line without autograd: `p` and `rewards` are
# tensors of shape [pair].
#
# <details><summary>Hint</summary>
#
# Write out the sum over i of -R_i ([i = k] - p_k) and collect the two parts. One part is a single reward. The other contains
# the sum of all rewards.
#
# </details>

# %% tags=["exercise"]
def gradient(p, rewards):
    ### BEGIN SOLUTION
    return rewards.sum() * p - rewards
    ### END SOLUTION


# %% tags=["check", "points:2"]
l12.checks.GRADIENT.check(gradient)
### BEGIN HIDDEN TESTS
l12.checks.GRADIENT.grade(gradient, seed=12)
### END HIDDEN TESTS

# %% [markdown]
# The gradient is zero where $p_i = R_i / \sum_j R_j$: probabilities in proportion to rewards. But does a scorer ever get
# there? Adam ignores the size of gradients. So one update of 200 steps moves a logit by at most 200 times the learning
# rate.

# %%
from pmd_lite.sampling.scorer import scorer_loss

rewards = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
for lr, updates in ((1e-4, 1), (1e-3, 30)):  # as published; our default
    psi = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log().requires_grad_()
    adam, path = torch.optim.Adam([psi], lr=lr), [[0.6, 0.3, 0.1]]
    for step in range(1, updates * 200 + 1):
        adam.zero_grad()
        scorer_loss(psi, rewards, scaled=False).backward()
        adam.step()
        if step % 200 == 0:
            path.append(torch.softmax(psi.detach(), 0).tolist())
    print(f"learning rate {lr:g}, after {updates} update(s): {[round(x, 3) for x in path[-1]]}")
shares = {f"reward {r:g}": [p[i] for p in path] for i, r in enumerate(rewards.tolist())}
l12.figures.shares_over(range(31), shares, "updates of the scorer (200 steps of 1e-3 each)",
                       alt="From 0.6, 0.3, 0.1 to the rewards 0.2, 0.3, 0.5, after about 15 updates")

# %% [markdown]
# **What to notice.** At the published rate one update changes almost nothing. That rate is made for runs with many more
# updates of the scorer than ours, so our default is ten times larger. Also, rewards that are nearly equal lead to nearly uniform
# sampling, whatever the sizes. A learnt sampler is often a slow way from $\tau=1$ towards $\tau=\infty$.

# %% [markdown]
# ## The worst mixture
#
# **chi-IBR** is a game. An adversary may change the mixture of languages, but not far from the data's own $p$. The model
# then trains on the mixture that hurts it most. After every epoch the adversary moves again (*iterated best response*).
# This divergence measures the distance:
#
# $$D(q, p) = \tfrac12 \sum_\ell p_\ell \left(\frac{q_\ell}{p_\ell} - 1\right)^2 \le \rho, \qquad \text{and the adversary maximises } \sum_\ell q_\ell v_\ell$$
#
# Here $v_\ell$ is the difference between the training loss of $\ell$ and its training loss in an earlier $\tau=1$ run.
# (Without that baseline, a language that is hard for every model would win every time.) As long as no $q_\ell$ becomes
# negative, there is a closed form. With the mean $\bar v = \sum_\ell p_\ell v_\ell$ and the variance
# $\sigma^2 = \sum_\ell p_\ell (v_\ell - \bar v)^2$:
#
# $$q_\ell = p_\ell \left(1 + \sqrt{2\rho}\,\frac{v_\ell - \bar v}{\sigma}\right)$$
#
# By hand for $p = (0.6, 0.3, 0.1)$, $v = (1, 2, 3)$, $\rho = 0.05$: the mean is 1.5, the variance is
# $0.6 \cdot 0.25 + 0.3 \cdot 0.25 + 0.1 \cdot 2.25 = 0.45$, and $\sqrt{2\rho}/\sigma = 0.3162/0.6708 = 0.4714$. So
# $q_1 = 0.6\,(1 - 0.4714 \cdot 0.5) = 0.4586$.
#
# ### Exercise 3: best response (8 minutes, difficulty 3)
#
# Write the closed form for tensors `p`, `v` of shape [pair] and a number `rho`. (For all inputs of the check the closed
# form holds.)
#
# <details><summary>Hint</summary>
#
# Compute the mean of v weighted with p, then the variance weighted with p, then its root. The formula of the text is the
# last line.
#
# </details>

# %% tags=["exercise"]
def response(p, v, rho):
    ### BEGIN SOLUTION
    mean = (p * v).sum()
    sigma = (p * (v - mean) ** 2).sum().sqrt()
    return p * (1 + math.sqrt(2 * rho) * (v - mean) / sigma)
    ### END SOLUTION


# %% tags=["check", "points:3"]
l12.checks.RESPONSE.check(response)
### BEGIN HIDDEN TESTS
l12.checks.RESPONSE.grade(response, seed=12)
### END HIDDEN TESTS

# %% [markdown]
# What happens where the closed form would go below zero? Then the easiest language gets 0, and the library finds the rest
# by bisection.

# %%
from pmd_lite.sampling.chi_ibr import best_response, chi_divergence

p, v = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
radii = [i / 20 for i in range(101)]
path = [best_response(p, v, rho).tolist() for rho in radii]
for rho in (0.05, 1.0, 5.0):
    q = best_response(p, v, rho)
    shown = [round(x, 4) for x in q.tolist()]
    print(f"rho {rho:g}: q = {shown}, D = {chi_divergence(q, p):.3f}, worst loss {float(q @ v):.3f}")
shares = {f"v = {loss:g}": [q[i] for q in path] for i, loss in enumerate((1, 2, 3))}
l12.figures.shares_over(radii, shares, r"radius $\rho$",
                       alt="From p at radius 0: the easy pair falls to 0, and in the end the hardest pair gets everything")

# %% [markdown]
# **What to notice.** At the published $\rho = 0.05$ the adversary must stay near $p$. Of two languages, the harder one gains
# exactly $\sqrt{2\rho\,p_1 p_2}$. For a tiny $p_1$ that is few points of probability, but several times its own share:

# %%
for tiny in (0.5, 0.1, 0.01):
    most = tiny + math.sqrt(2 * 0.05 * tiny * (1 - tiny))
    print(f"a pair with {tiny:.0%} of the data: at most {most:.1%} at rho 0.05, {most / tiny:.1f} times its share")

# %% [markdown]
# ## Small after large
#
# **CCL-M** is a curriculum. Large pairs come first. A small pair joins when the model has learnt the large pairs that share
# its word pieces well enough. After that, a pair is drawn in proportion to $1/c$, where $c = e^{H^* - H}$ compares the dev
# loss $H$ with $H^*$, the dev loss of a bilingual model. Our version is a *reconstruction* from the idea: we could check
# neither the code nor the settings. The rule that lets every pair join after three tenths of training is our own.

# %% [markdown]
# ## Whose turn it was
#
# Here is what each sampler did in the stored comparison (first seed).

# %%
stored.plot_probabilities()

# %%
for label in ("tau=1", *stored.moving(), "tau=5"):
    small = sum(stored.curve(label)[1][pair][-1] for pair in stored.groups[1])
    print(f"{label:14s} draws a small pair {small:.0%} of the time at the end")

# %% [markdown]
# **What to notice.** Compare MultiDDS-S and MultiUAT with UniMax: do they move slowly towards probabilities that UniMax has from
# the first step? chi-IBR solves a new problem each epoch, so it can swing: a pair that was just trained hard looks easy in the
# next round.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The printed shares of the small pairs at the end answer it. A learnt sampler that ends near UniMax's share
# has found what UniMax knew from the sizes alone. One that ends near $\tau=1$ has hardly moved, because its scorer made few
# updates.
# <!-- END ANSWER -->

# %% [markdown]
# ## Teachers that stand still
#
# This is the other lever. In Pareto-MD the teacher is a second student, which is still learning. Two older methods use
# teachers that are finished.
#
# **Multi-Distill** first trains one bilingual model for every pair. Each bilingual model teaches its pair until the student
# is one BLEU point better on the dev set. Then the pair continues without a teacher. (Small pairs have weak bilingual
# models, so they have little to learn there.)
#
# **LSSD** starts from an observation that you made in lesson 00: pairs reach their lowest dev loss at different times, so
# no single checkpoint is best for all. For each pair, LSSD keeps the snapshot of the epoch with that pair's lowest dev
# loss. If the last epoch was *not* the pair's best, the next epoch uses distillation: the pair's own snapshot pulls the
# model back. If it was the pair's best, LSSD does not distil, since the teacher would be the same model. The loss is
# $(\mathcal{L}_{ce} + w\,\mathcal{L}_{kd})/2$. A *gate* weights each token or sentence: it trusts the teacher less where
# the teacher is less sure of the reference than the student.
#
# ### Exercise 4: who teaches, who is taught? (8 minutes, difficulty 3)
#
# `losses[epoch][pair]` holds the dev losses at the end of epochs 1, 2, ... Return two lists with one entry for each pair:
# the epoch (counted from 1) whose snapshot is the teacher now, and whether the coming epoch distils the pair (True or
# False). Only a strictly lower loss replaces a teacher. By hand: losses 3, 2, 2.5, 2.4 give teacher 2 and True; losses 3,
# 2.9, 2.8, 2.7 give teacher 4 and False.
#
# <details><summary>Hint</summary>
#
# For each pair take the column of its losses. `list.index(min(...))` finds the first of equal values, which is what
# "strictly lower" asks for. Distil if the best epoch is not the last.
#
# </details>

# %% tags=["exercise"]
def plan(losses):
    ### BEGIN SOLUTION
    best = []
    for pair in range(len(losses[0])):
        column = [row[pair] for row in losses]
        best.append(column.index(min(column)) + 1)
    return best, [epoch < len(losses) for epoch in best]
    ### END SOLUTION


# %% tags=["check", "points:3"]
l12.checks.LSSD_PLAN.check(plan)
### BEGIN HIDDEN TESTS
l12.checks.LSSD_PLAN.grade(plan, seed=12)
### END HIDDEN TESTS

# %% [markdown]
# The library's LSSD on three invented curves: one falls to the end, one turns upwards, and one turns upwards at once.

# %%
curves = {"large": [3.0, 2.2, 1.7, 1.5, 1.4, 1.35, 1.3], "middle": [3.2, 2.5, 2.1, 2.0, 2.2, 2.1, 2.3],
          "small": [3.3, 2.8, 3.0, 3.1, 3.0, 3.3, 3.4]}
table = list(zip(*curves.values()))
taught = [l12.checks.lssd_plan(table[:done])[1] if done else [False] * 3 for done in range(len(table))]
l12.figures.teachers(curves, {pair: [row[i] for row in taught] for i, pair in enumerate(curves)},
                    alt="large: never distilled; middle: epochs 6 and 7, teacher epoch 4; small: from epoch 4, teacher epoch 2")

# %% [markdown]
# **What to notice.** Distillation begins one epoch *after* a pair has failed to improve. At the end of epoch 5 the middle
# curve is above its star for the first time, so epoch 6 is the first epoch with distillation. In a run of few epochs the method
# has little time to act. How much of LSSD's computing went to its teachers in the stored runs?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The next cell prints the share. It is small wherever few epochs followed the best one: then LSSD was a
# plain training for most of the run.
# <!-- END ANSWER -->

# %%
spent = stored.compute["lssd"]
print(f"teachers: {spent['teacher'] / sum(spent.values()):.1%} of LSSD's computing")

# %% [markdown]
# ## What the paper compares
#
# These are the averages of the paper's main table, as our table of methods quotes them.

# %%
copied = {"multidds-s", "multiuat", "ccl-m", "chi-ibr"}  # the rows with a star in the paper's table
names = ["tau=1", "tau=5", "multidds-s", "multiuat", "ccl-m", "chi-ibr", "multi-distill", "lssd"]
names += ["uni-pmd", "bi-pmd", "auto-pmd"]
rows = [[n, "copied" if n in copied else "own run", *METHODS[n].reported] for n in names]
Table(["method", "figures", "TED-8-Diverse M2O", "TED O2M", "WMT-6 M2O", "WMT-6 O2M"], rows)

# %% [markdown]
# **What to notice.** Four rows are *copied* from the rivals' own papers, which used other model sizes, learning rates and
# batch sizes. None of these four methods was run on WMT-6. Plain $\tau=1$ in this paper's setting (29.00) is above three of
# the four. So the table cannot say that MultiDDS-S is worse than temperature sampling: it compares laboratories as much as
# methods. The authors did rerun chi-IBR. Their run was lower than chi-IBR's own paper, so they reported the higher,
# published figure. LSSD, which the authors ran themselves, wins TED O2M (23.55 against 23.31 and 23.28).

# %% [markdown]
# ## One backbone
#
# So let us do what no copied figure can replace: run every method on the same model, tokenizer, data order and evaluation,
# with three seeds each. `diff` is the difference from $\tau=1$. A mark says that chance (other seeds, other test sentences)
# would rarely produce such a difference.

# %%
mutual = [label for label in stored.systems if label.startswith(("uni-pmd", "bi-pmd", "auto-pmd"))]
rivals = ["tau=1", "tau=5", *stored.moving(), "multi-distill", "lssd"]
stored.table([*rivals, *mutual])

# %%
folding.Folded(f"The same for all {len(stored.systems)} systems", stored.table())

# %%
stored.plot_frontier(highlight=rivals)

# %%
print(l12.comparison.reading(stored))

# %% [markdown]
# **What to notice.** Filled marks are this lesson's rivals. Hollow marks are the mutual methods and LSSD's other gates. It
# is easy to give up large pairs and gain on small ones (the lower right of the plane). We look for a method that gains on
# the small pairs and *keeps* the large ones. Which method comes near, and at what price? Which one stands on a corner of the
# dotted steps, with a lead over its neighbours that is smaller than its own error bars?
#
# <details><summary>How to answer</summary>
#
# Look for a point that is right of `tau=1` and not below it by more than its bars. Then read its `compute` in the table: a method
# that costs 1 and a method that costs 3 are not equally good. For the second question take each corner of the dotted steps, and
# ask whether its bars reach its neighbour. If they do, another seed may put the neighbour on a corner.
#
# </details>
#
# <!-- BEGIN ANSWER -->
# **Our answer.** MultiDDS-S, Cooldown and MultiUAT come near: they gain 2.9 to 5.0 BLEU on the small pairs, marked, and lose nothing
# marked on the large ones. MultiDDS-S and MultiUAT compute 1.12 and 1.13 times as much as $\tau=1$, and Cooldown, which only has a
# plan, .96 times. On the dotted steps Cooldown leads MultiDDS-S by .5 on the small pairs, and its bar is .9.
# <!-- END ANSWER -->

# %% [markdown]
# In the next cells you can explore the same comparison: choose a system, and see its curve and its point together. (Without
# a running kernel you see only this figure.)

# %%
l12.comparison.card(stored, "multidds-s")

# %% tags=["widget"]
l12.widgets.method_picker(stored, "multidds-s")

# %% [markdown]
# ## What it costs
#
# Equal numbers of updates are not equal effort. We count 1 for a forward pass and 3 for a forward and a backward pass
# together. Everything counts: students, teachers, trials, probes, the dev sets that any method looks at, and the
# *auxiliary* runs that some methods need before they can start (chi-IBR a $\tau=1$ run, CCL-M and Multi-Distill six
# bilingual models, LSMD an Auto-PMD run).
#
# The unit is a multiply-add: source tokens count in the encoder, target tokens in the decoder and the output layer. Greedy
# translations of dev sets, cached predictions, and the second projection that a gate needs count, too. Look-ups do not.

# %%
stored.plot_costs()

# %%
updates = l12.comparison.equal_compute(stored, ["tau=1", "auto-pmd"])
chosen = [row for row in updates.rows if row[0] in {*rivals, "uni-pmd", "bi-pmd", "auto-pmd"}]
Table(updates.columns, chosen, caption=updates.caption)

# %% [markdown]
# **What to notice.** The last column says how long a single model could train for the price of one Auto-PMD run. In a world
# where longer training helps, that is the comparison that counts. `compare(equal="compute")` makes it: it first measures
# every method's cost and then distributes updates as in this table. (The share of `dev` and `trial` is large here because the
# dev sets are large compared with a corpus of a few thousand sentences. With the paper's millions, a search is cheaper.)
#
# Here are both: every rival at equal *updates*, as above, and at equal *compute*, where every system spent what 1,200 updates of
# Auto-PMD cost. That second comparison is stored, too. It has fewer methods and seeds, because each of its runs takes as long as
# one of Auto-PMD. A dash means that nobody has trained the method so yet.

# %%
fair = Comparison.load(Path("results") / "equal_longtail.json")
print(fair.command)
l12.comparison.both_equalities(stored, fair, [*rivals, *mutual])

# %%
print(l12.comparison.equal_compute_reading(fair))

# %% [markdown]
# **What to notice.** Read a row from left to right: how much does a single model gain when it may compute as much as Auto-PMD?
# The printed lines compare each student with the single model of its own temperature at equal compute (the mean, and in brackets
# each seed). Models that still learn from every further update gain from compute. Where models have converged, as in the paper,
# further updates only overfit, and the answer may be another one.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Both single models gain more than ten BLEU, also on the small pairs: at 1,200 updates all models are far from
# converged, so compute is worth more than any teacher. Every printed difference is negative in both seeds, on average by 4.7 to
# 23.6 BLEU. At equal compute no student comes near the single model of its own temperature.
# <!-- END ANSWER -->

# %% [markdown]
# ## What this says, and what not
#
# It says, for this world and these settings:
#
# - which differences from $\tau=1$ are more than chance: those that the reading above lists as better or worse, and no
#   others. A mean that is two points higher but has no mark is not a finding;
# - what sampling alone, planned or learnt, gains for small pairs at the price of one run, and what it costs the large ones.
#
# It does not say that UniMax is better than Pareto-MD, or that the paper is wrong:
#
# - One world. The languages are invented, and their small pairs have 30 sentences. More repetition cannot teach the model
#   much about them.
# - Default settings. We tuned no method, neither the rivals nor Auto-PMD. With tuning, the order would change.
# - A short run of a few epochs. LSSD and chi-IBR act once an epoch, and are designed for dozens or hundreds of epochs.
# - Many comparisons. The reading counts how many marks chance alone would give among so many differences. All differences
#   share the same three $\tau=1$ runs: if those runs were unlucky, every method looks good at once.
# - BLEU of a small model. Dev loss can fall without a gain in BLEU (lesson 00). Compare the loss columns with BLEU: are the
#   methods with the lowest loss on small pairs also the winners in BLEU?
#
# One thing *is* general: compare methods on one backbone, with their costs, with several seeds, and with no copied numbers.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** A scorer learns p in proportion to rewards. All rewards are nearly equal. What will it do in the end?
#
# <details><summary>A. Nothing.</summary>
#
# Not so. It moves until p is proportional to the rewards, whatever the sizes are.
#
# </details>
#
# <details><summary>B. Sample nearly uniformly.</summary>
#
# Right. So a learnt sampler can be a slow way to tau = infinity. UniMax would be there from the first step.
#
# </details>
#
# <details><summary>C. Return to the shares of the data.</summary>
#
# Not so. The sizes are only where it starts.
#
# </details>
#
# **Question 2.** A table has 27 systems and three seeds, and each is compared with the same tau = 1 runs. Two marks of
# significance appear. What do you do?
#
# <details><summary>A. Report both as findings.</summary>
#
# Not so. Among so many comparisons some marks come by chance alone.
#
# </details>
#
# <details><summary>B. Ask how many marks chance would give, and whether the three tau = 1 runs were unlucky.</summary>
#
# Right. All differences share these runs. If they are low, every method looks good.
#
# </details>
#
# <details><summary>C. Ignore them, because three seeds prove nothing.</summary>
#
# Not so. They are hints. A large effect in all seeds is worth another, separate test.
#
# </details>
#
# **Question 3.** Method A has 2 BLEU more than a single model at equal updates and costs three times as much. Is A better?
#
# <details><summary>A. Yes: the number of updates is the fair measure.</summary>
#
# Not so. An update of A computes three times as much.
#
# </details>
#
# <details><summary>B. Open: compare with a single model that spends the same compute.</summary>
#
# Right. If longer training helps, that model may be ahead. If it only overfits, A may win.
#
# </details>
#
# <details><summary>C. No: it costs more.</summary>
#
# Not so. A higher price can be worth it. The comparison has to be made.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Samplers decide whose turn it is: by a plan (UniMax, cooldown, order-matters), by a reward (MultiDDS-S, MultiUAT),
#   against an adversary (chi-IBR) or by a curriculum (CCL-M).
# - A scorer moves towards $p \propto R$, and only its learning rate sets the speed. A best response in the chi-square ball
#   has a closed form until a language reaches 0.
# - Distillers differ in their teachers: bilingual models (Multi-Distill), the student's own past (LSSD), a peer
#   (Pareto-MD). You can combine the two levers: any sampler can serve any student, as in
#   `--method auto-pmd --samplers tau=1 unimax`.
# - A fair table needs one backbone, several seeds, a test of significance, and the costs.
#
# **Where to go next.** The paper describes the rivals in section 4 and in its main table. The code is in `pmd_lite/sampling`,
# `pmd_lite/distillation/lssd.py`, `pmd_lite/distillation/multi_distill.py` and `pmd_lite/comparing/compare.py`.
# `docs/methods.md` says where our versions differ from theirs, and why. Lesson 13 does the same on real text.
