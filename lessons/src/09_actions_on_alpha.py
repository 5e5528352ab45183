# %% [markdown]
# # 09 Actions on alpha
#
# > **You will**: write the three actions by which Auto-PMD changes a distillation weight, find out why they work on a
# > different scale from the weight itself, and compare four ways to make the step shrink. **Time**: one minute on two CPU
# > cores, thirty with the exercises. **Difficulty**: 2 of 5. **You need**: lesson 07 (what $\alpha$ does in the loss);
# > logarithms and $e^x$.
#
# **Contents**: three moves · why not simply add? · up, down, equal · exercise: f_up · odds · exercise: f_down · how far? ·
# exercise: distances · there and back · exercise: a path by hand · trajectories · a step that shrinks · exercise: mu · why
# it shrinks · quiz ·
# takeaways

# %% [markdown]
# ## Three moves
#
# A student of Pareto-MD minimises $(1-\alpha[\ell])\,\mathcal{L}_{ce} + \alpha[\ell]\,\mathcal{L}_{kd}$. It has a separate
# weight $\alpha[\ell]$ for every language pair. Auto-PMD starts all weights at 0.1. From time to time it asks, for each
# pair: should this weight go up, go down, or stay as it is? So it needs three *actions*,
#
# $$\mathcal{F} = \{f_\uparrow,\; f_\downarrow,\; f_=\}. \tag{Eq. 7}$$
#
# Auto-PMD trains three copies of the student for a short time: one with all weights raised, one with all weights lowered,
# and one with all weights kept. Then each pair takes the action of the copy that was best *on that pair*. Lesson 10 shows
# how the copies are trained. In this lesson the losses are given, and we look at what the actions do to the weights.

# %%
import math

import torch

from pmd_kit import l09
from pmd_lite.distillation.actions import ACTIONS, act, decrease, increase, keep, logit, step_size
from pmd_lite.distillation.search import choose, reduced_space
from pmd_lite.evaluation.tables import Table

# %%
pairs = ["fr-en", "de-en", "tr-en"]
before = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
trials = {"keep": keep(before), "up": increase(before, mu=1.0), "down": decrease(before, mu=1.0)}
losses = torch.tensor([[2.10, 2.31, 3.40], [2.12, 2.30, 3.33], [2.07, 2.35, 3.52]])  # [trial, pair]
chosen = choose(losses, reduced_space(len(pairs)))
after = [trials[action][pair].item() for pair, action in enumerate(chosen)]
print("chosen:", dict(zip(pairs, chosen)))
print("new weights:", {pair: round(a, 3) for pair, a in zip(pairs, after)})

# %% [markdown]
# The next figure shows the same search. It is our own drawing of Figure 3 in the paper:

# %%
l09.figures.three_trials(
    pairs, before.tolist(), {action: a.tolist() for action, a in trials.items()}, chosen,
    alt="Three pairs, each with a weight before and three candidates: fr-en goes down, de-en and tr-en go up",
)

# %% [markdown]
# **What to notice.** The action "up" moved the three weights by different amounts. Also, from 0.1 the step up and the step
# down do not have the same length. The paper says so under its figure: "due to the non-linear nature of sigmoid function".
# This is not a flaw. It is the point.

# %% [markdown]
# ## Why not simply add?
#
# The obvious action adds 0.3. But a weight lies in $[0, 1]$, so we must clip the sum, and clipping loses information:

# %%
rows = []
for start in (0.1, 0.5, 0.9):
    up = min(1.0, start + 0.3)
    back = max(0.0, up - 0.3)
    rows.append([start, up, back])
Table(["alpha", "0.3 added, cut off at 1", "0.3 subtracted again"], rows)

# %% [markdown]
# **What to notice.** From 0.9, one step up and one step down end at 0.7. There is a second problem. A step from 0.5 to 0.8
# is a change of emphasis. A step from 0.02 to 0.32 multiplies the weight by sixteen. Near the ends of the scale a fixed
# step is too coarse, and precision matters most there: 0.02 and 0.08 are different regimes.

# %% [markdown]
# ## Up, down, equal
#
# The paper's solution has three parts: stretch $[0,1]$ to the whole real line, take the step there, and come back. The
# stretch is the inverse of the sigmoid. It is called the *logit*: $\sigma^{-1}(\alpha) = \log\alpha - \log(1-\alpha)$.
#
# $$f_=(\alpha) = \alpha \tag{Eq. 9}$$
#
# $$f_\uparrow(\alpha) = \sigma\left(\sigma^{-1}(\alpha) + \mu\right) \tag{Eq. 10}$$
#
# $$f_\downarrow(\alpha) = \sigma\left(\sigma^{-1}(\alpha) - \mu\right) \tag{Eq. 11}$$
#
# $\mu$ is the *step size*. By hand, with $\alpha=0.5$ and $\mu=1$: the logit of one half is 0, one step up gives 1, and
# $\sigma(1) = 1/(1+e^{-1}) = 0.731$. In the code the three actions are called `keep`, `increase` and `decrease`.

# %%
rows = []
for alpha in (0.1, 0.5, 0.9):
    a = torch.tensor(alpha)
    rows.append([alpha, logit(a).item(), increase(a, 1.0).item(), decrease(a, 1.0).item()])
Table(["alpha", "logit", "up, mu=1", "down, mu=1"], rows, digits=3)

# %% [markdown]
# ### Exercise 1: f_up (5 minutes, difficulty 1)
#
# Write Eq. 10. `alpha` is a tensor of weights strictly between 0 and 1, and `mu` is a number. Return the raised weights.

# %% tags=["exercise"]
def f_up(alpha, mu):
    ### BEGIN SOLUTION
    return torch.sigmoid(torch.log(alpha / (1 - alpha)) + mu)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l09.checks.UP.check(f_up)
### BEGIN HIDDEN TESTS
l09.checks.UP.grade(f_up, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# ## Odds
#
# We can describe the same actions without a logarithm. $\alpha/(1-\alpha)$ is called the *odds*, and the logit is the
# logarithm of the odds. Adding $\mu$ to a logarithm means multiplying by $e^\mu$. So **up multiplies the odds by $e^\mu$,
# and down divides them by $e^\mu$**. At weight 0.1 the odds are 1 to 9. One step up with $\mu=1$ makes them $e/9 = 0.302$.
# Odds of $o$ belong to the weight $o/(1+o) = 0.232$, as in the table. In one formula:
#
# $$f_\uparrow(\alpha) = \frac{\alpha e^{\mu}}{1-\alpha+\alpha e^{\mu}}$$
#
# ### Exercise 2: f_down (5 minutes, difficulty 2)
#
# Write $f_\downarrow$ in this closed form, without a logarithm or a sigmoid. What does it do to the weights 0 and 1? The
# check tests them too.
#
# <details><summary>Hint</summary>
#
# Start from the odds: alpha / (1 - alpha). Down divides them by e to the mu. Then turn odds back into a weight: o / (1 + o).
# Simplify until nothing is divided by zero at alpha = 1.
#
# </details>

# %% tags=["exercise"]
def f_down(alpha, mu):
    ### BEGIN SOLUTION
    scaled = alpha * math.exp(-mu)
    return scaled / (1 - alpha + scaled)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l09.checks.DOWN.check(f_down)
### BEGIN HIDDEN TESTS
l09.checks.DOWN.grade(f_down, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# The ends are *fixed points*. Odds of 0 stay 0, whatever we multiply them by, and infinite odds stay infinite. In exact
# arithmetic, a weight between 0 and 1 never reaches them, and a weight of 0 or 1 never leaves.

# %%
ends = torch.tensor([0.0, 1.0])
print("logits:", logit(ends).tolist())
print("up:", increase(ends, 1.0).tolist(), " down:", decrease(ends, 1.0).tolist())

# %% [markdown]
# ## How far?
#
# On the logit scale all steps are equal. How far does an action move a weight on the scale of $\alpha$?
#
# ### Exercise 3: distances (5 minutes, difficulty 2)
#
# For a tensor `alpha`, return a tensor of shape [2, pairs]. The first row holds how far "up" moves each weight, the second
# row how far "down" moves it. Both are positive. Use `increase` and `decrease`. Before you run it, guess: where is the step
# up largest?
#
# <details><summary>Hint</summary>
#
# You need two differences and `torch.stack`. Both rows are positive, so the second row is alpha minus the lowered weight.
#
# </details>

# %% tags=["exercise"]
def distances(alpha, mu):
    ### BEGIN SOLUTION
    return torch.stack([increase(alpha, mu) - alpha, alpha - decrease(alpha, mu)])
    ### END SOLUTION


# %% tags=["check", "points:2"]
l09.checks.DISTANCES.check(distances)
### BEGIN HIDDEN TESTS
l09.checks.DISTANCES.grade(distances, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# All values of $\alpha$ at once, for a large and a small step:

# %%
alphas = torch.linspace(0, 1, 201, dtype=torch.float64)
curves = {}
for step in (1.0, 0.3):
    up, down = l09.checks.distances(alphas, step).tolist()
    curves |= {f"up, mu={step:g}": up, f"down, mu={step:g}": down}
l09.figures.distance_moved(
    alphas.tolist(), curves,
    alt="Distance moved over alpha: four humps, zero at both ends, up leaning left, down right",
)

# %% [markdown]
# The left end of that figure in numbers, for $\mu=1$:

# %%
rows = []
for alpha in (0.001, 0.01, 0.1, 0.5):
    up = l09.checks.distances(torch.tensor([alpha], dtype=torch.float64), 1.0)[0].item()
    rows.append([f"{alpha:g}", f"{up:.4f}", f"{1 + up / alpha:.2f}"])
Table(["alpha", "moved up by", "new / old"], rows)

# %% [markdown]
# **What to notice.** In the middle a step is large. Towards the ends it shrinks to nothing. Near 0 a step multiplies: each
# "up" makes the weight about $e = 2.72$ times what it was. So a few actions are enough to explore 0.01, 0.03, 0.07 as well
# as 0.3, 0.5, 0.7. The step up is longest when 0.5 lies in its middle, so it starts a little below one half. The step down
# is its mirror image.

# %% [markdown]
# ## There and back
#
# Down undoes up *exactly*, because $+\mu$ and $-\mu$ cancel. On a computer they cancel only approximately, and it matters
# which number we store. The next cell moves one weight up twenty times and down twenty times. One copy stores $\alpha$ in
# float32, the other stores the logit in float64:

# %%
alpha, logits = torch.tensor(0.1), logit(torch.tensor(0.1, dtype=torch.float64))
for action in ["up"] * 20 + ["down"] * 20:
    alpha = (increase if action == "up" else decrease)(alpha, 1.0).float()
    logits = act(logits, action, 1.0)
print(f"kept as alpha, float32: {alpha.item():.6f}")
print(f"kept as logit, float64: {torch.sigmoid(logits).item():.6f}")

# %% [markdown]
# **What to notice.** In float32 the weight was rounded to exactly 1. That is a fixed point, so it stayed there: the model
# would never again listen to a reference translation. The library therefore stores the logit and computes $\alpha$ from it.
# The authors' program avoids 1 in another way: it clips $\alpha$ at 0.98 before it takes the logit. Then up and down no
# longer cancel, and a large weight loses ground whenever a search tries "up" (ours does the same with `alpha_clip=0.98`):

# %%
large = torch.tensor(0.97, dtype=torch.float64)
tried = increase(large, 1.0)
back = decrease(tried.clamp(max=0.98), 1.0)
print(f"{large.item()} up: {tried.item():.5f}, then down after clipping at 0.98: {back.item():.3f}")

# %% [markdown]
# ### Exercise 4: a path by hand (3 minutes, difficulty 2)
#
# Your own task: write your name, run the cell, and find where this weight ends. $\mu$ is the same at each step. You need no
# loop: how many steps are left after ups and downs have cancelled? Three digits are enough.
#
# <details><summary>Hint</summary>
#
# Count ups minus downs; "keep" counts nothing. Multiply the odds of the start by e to the power of mu times this number.
# Then turn the odds into a weight.
#
# </details>

# %% tags=["exercise"]
student = "your name"
start, actions, step = l09.checks.my_path(student)
answer = None
### BEGIN SOLUTION
left = actions.count("up") - actions.count("down")
odds = start / (1 - start) * math.exp(step * left)
answer = odds / (1 + odds)
### END SOLUTION
print(f"start {start}, mu {step}:", ", ".join(actions))

# %% tags=["check", "points:1"]
l09.checks.my_end(student).check(answer)
### BEGIN HIDDEN TESTS
l09.checks.my_end(student).grade(answer, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# ## Trajectories
#
# As long as $\mu$ stays the same, the order of actions does not matter. When $\mu$ shrinks, it does. The next figure shows
# three steps up, two steps "keep" and three steps down: once with $\mu=1$ throughout, and once with the paper's shrinking
# $\mu$ from the next section.

# %%
actions = ["up"] * 3 + ["keep"] * 2 + ["down"] * 3
paths = {f"mu {schedule}": l09.figures.walk(0.1, actions, schedule) for schedule in ("constant", "to_0")}
l09.figures.trajectory(
    paths, actions,
    alt="Two weights rise from 0.1, stay, fall: to 0.1 with constant mu, only to 0.30 with shrinking mu",
)

# %% [markdown]
# The weights of the left panel:

# %%
rows = [[name, *path] for name, path in paths.items()]
Table(["alpha", "start", *actions], rows, digits=3)

# %% [markdown]
# **What to notice.** On the left, the same action gives steps of different length. On the right, on the logit scale, the
# constant $\mu$ gives a regular staircase. With a shrinking $\mu$ the early ups count more than the late downs, and the
# weight does not return to its start.
#
# Try a walk of your own. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
l09.figures.alpha_walk()

# %% [markdown]
# ## A step that shrinks
#
# A large step finds the right region quickly, and a small step finds the right value. The paper's *scheduler* begins at 1
# and ends at 0. Here $t$ is the training step and $\mathcal{T}_{max}$ is the last one:
#
# $$\mu = \sqrt{\frac{\mathcal{T}_{max} - t}{\mathcal{T}_{max}}} \tag{Eq. 12}$$
#
# By hand: after three quarters of the run, one quarter is left, so $\mu = \sqrt{1/4} = 1/2$. The paper tried four
# schedulers. We call them
#
# | name | $\mu$ |
# |---|---|
# | `constant` | 1 |
# | `to_0.2` | falls from 1 to 0.2: $0.2 + 0.8\sqrt{(\mathcal{T}_{max}-t)/\mathcal{T}_{max}}$ |
# | `early_stop` | $\sqrt{\max(\mathcal{T}_{max}-1.2\,t,\ 0)/\mathcal{T}_{max}}$: no search in the last sixth |
# | `to_0` | Eq. 12 |
#
# For `to_0.2` the paper's formula and the program disagree. The formula in the paper's table,
# $\sqrt{(\mathcal{T}_{max}-0.8\,t)/\mathcal{T}_{max}}$, ends at $\sqrt{0.2} = 0.447$. The paper's text says "from 1.0 to
# 0.2", and the authors' program does the same. We follow the text and the program.
#
# ### Exercise 5: mu (5 minutes, difficulty 1)
#
# Write all four schedulers. `schedule` is one of the names above.

# %% tags=["exercise"]
def mu(t, t_max, schedule):
    ### BEGIN SOLUTION
    root = math.sqrt((t_max - t) / t_max)
    if schedule == "to_0":
        return root
    if schedule == "to_0.2":
        return 0.2 + 0.8 * root
    if schedule == "early_stop":
        return math.sqrt(max(t_max - 1.2 * t, 0) / t_max)
    return 1.0
    ### END SOLUTION


# %% tags=["check", "points:2"]
l09.checks.MU.check(mu)
### BEGIN HIDDEN TESTS
l09.checks.MU.grade(mu, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# All four over a whole run:

# %%
from typing import get_args

import numpy as np

from pmd_lite.config import StepSize

progress = np.linspace(0, 1, 101)
schedules = {name: [step_size(t, 1.0, name) for t in progress.tolist()] for name in get_args(StepSize)}
l09.figures.step_sizes(
    progress.tolist(), schedules,
    alt="Step size over the run: constant stays at 1, the others fall faster and faster; early_stop is 0 after 5/6",
)

# %% [markdown]
# How far can a logit move in a run of 70 updates, if every action is "up"?

# %%
print(f"sum of mu over 70 updates with Eq. 12: {sum(step_size(t, 70) for t in range(70)):.1f}")

# %% [markdown]
# **What to notice.** The square root makes $\mu$ fall slowly at first and fast at the end. After half the run it is still
# 0.71. The WMT-6 runs of the paper have seventy updates, one per epoch. These steps add up to 47, so a logit can go very
# far. This is why the twenty ups above are a real risk.

# %% [markdown]
# ## Why it shrinks
#
# Here is a game without any training. There is a best weight. Seventy times we choose the action that comes closest to it.
# But half of the time our measurement fails, and we draw the action at random. (Auto-PMD's measurements are noisy too: a
# short trial, a small dev set.) In a second version the best weight itself moves during the run, by 3 on the logit scale.
# This may well happen while both models learn. How far is the last weight from the best one?
#
# **Predict** (2 minutes). Before you run the game: which schedule ends nearest to a best weight that stays, and which one
# follows a best weight that moves?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** A schedule that ends at small steps settles best when the target stays. One that stops early cannot follow.
# One that never shrinks follows and never settles.
# <!-- END ANSWER -->

# %%
def off_by(schedule, wander, rng, updates=70):
    best, weight = rng.uniform(-3, 3), logit(torch.tensor(0.1)).item()  # both as logits
    direction = rng.choice([-1, 1])
    for t in range(updates):
        best += direction * wander / updates
        moves = {action: act(weight, action, step_size(t, updates, schedule)) for action in ACTIONS}
        nearest = min(ACTIONS, key=lambda action: abs(moves[action] - best))
        weight = moves[rng.choice(ACTIONS) if rng.random() < 0.5 else nearest]
    return abs(1 / (1 + math.exp(-weight)) - 1 / (1 + math.exp(-best)))


rows = []
for schedule in get_args(StepSize):
    means = []
    for wander in (0, 3):
        rng = np.random.default_rng(0)
        means.append(sum(off_by(schedule, wander, rng) for _ in range(500)) / 500)
    rows.append([schedule, *means])
Table(["distance from the best alpha", "best alpha stays", "best alpha moves"], rows, digits=3)

# %% [markdown]
# **What to notice.** With a constant step the weights are the rungs of a ladder, 1 apart on the logit scale. The best
# weight lies between two rungs, and one bad draw near the end costs a whole rung. Shrinking steps settle down. `early_stop`
# ends near a best weight that stays, but falls behind a best weight that moves. (Compare numbers of one column only. A best
# weight that moves often ends near 0 or 1, and there a rung is a short distance on the scale of $\alpha$. So every error looks
# smaller there: even the constant step seems better when the best weight moves.) Our game proves nothing about translation.
# The paper's table on schedulers says a little more (WMT-6, M2O):

# %%
bleu = {"constant": (20.71, 21.80), "to_0.2": (21.90, 22.21), "early_stop": (21.74, 22.31), "to_0": (21.89, 22.39)}
rows = [[name, *scores] for name, scores in bleu.items()]
Table(["mu", "BLEU, model 1 (tau=1)", "BLEU, model 2 (tau=5)"], rows)

# %% [markdown]
# **What to notice.** The constant step is worst for both models, by 0.4 to 1.2 BLEU. The other three lie within 0.2 BLEU of
# each other, and their order differs between the two models. The paper does not mention repeated runs. "Let the step
# shrink" is a finding. "Let it shrink by exactly this formula" is a choice.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** Why do the actions step on the logit and not on alpha itself?
#
# <details><summary>A. Because gradients flow better through a sigmoid.</summary>
#
# Not so. No gradient flows here. The actions are tried, not differentiated.
#
# </details>
#
# <details><summary>B. So that a weight stays between 0 and 1 without clipping, and down undoes up.</summary>
#
# Right. On the whole real line there is no border at which a step would be cut off.
#
# </details>
#
# <details><summary>C. So that all weights move by the same amount.</summary>
#
# Not so. On the scale of alpha the amounts differ: far in the middle, little near the ends.
#
# </details>
#
# **Question 2.** A weight was rounded to exactly 1 in float32. What does "down" do?
#
# <details><summary>A. It brings the weight back, slowly.</summary>
#
# Not so. The odds are infinite, and infinite odds divided by e to the mu stay infinite.
#
# </details>
#
# <details><summary>B. Nothing: 1 is a fixed point.</summary>
#
# Right. Therefore the library stores the logit in float64 and computes alpha from it.
#
# </details>
#
# <details><summary>C. It raises an error.</summary>
#
# Not so. It silently returns 1, which is worse.
#
# </details>
#
# **Question 3.** With a shrinking mu, three ups and later three downs do not bring a weight back. Why?
#
# <details><summary>A. Because down is weaker than up.</summary>
#
# Not so. At the same mu they cancel exactly.
#
# </details>
#
# <details><summary>B. Because the ups came first, when mu was larger.</summary>
#
# Right. The order of actions matters as soon as mu changes.
#
# </details>
#
# <details><summary>C. Because of rounding.</summary>
#
# Not so. Rounding is far smaller than this effect.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Actions are steps on the logit scale. So a weight stays inside $[0,1]$ without clipping, down undoes up, and near 0 a
#   step multiplies instead of adding.
# - In odds: up multiplies by $e^\mu$, down divides by it. 0 and 1 are fixed points. Store the logit, not the weight.
# - The same action moves $\alpha$ furthest in the middle. This is what the caption of Figure 3 means.
# - $\mu$ shrinks so that the search first explores and then settles. With a shrinking $\mu$ the order of actions matters.
#
# **Where to go next.** Read section 3.3 of the paper ("Implementation of Actions") and section 5.4 on the schedulers. The
# code is in `pmd_lite/distillation/actions.py`. Lesson 10 combines trials and actions into Auto-PMD.
