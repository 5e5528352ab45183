# %% [markdown]
# # 09 Actions on alpha
#
# > **You will**: write the three moves by which Auto-PMD changes a distillation weight, find out why they are made on
# > another scale than the weight's own, and compare four ways to let the step shrink. **Time**: one minute on two CPU cores,
# > thirty with the exercises. **Difficulty**: 2 of 5. **You need**: lesson 07 (what $\alpha$ does in the loss);
# > logarithms and $e^x$.
#
# **Contents**: three moves · why not simply add? · up, down, equal · exercise: f_up · odds · exercise: f_down · how far? ·
# exercise: distances · there and back · exercise: a path by hand · trajectories · a step that shrinks · exercise: mu · why
# it shrinks · takeaways

# %% [markdown]
# ## Three moves
#
# A student of Pareto-MD minimises $(1-\alpha[\ell])\,\mathcal{L}_{ce} + \alpha[\ell]\,\mathcal{L}_{kd}$, with a weight $\alpha[\ell]$ of its own for
# every language pair. Auto-PMD starts all of them at 0.1 and from time to time asks, pair by pair: should this weight be
# higher, lower, or stay as it is? So it needs three *actions*,
#
# $$\mathcal{F} = \{f_\uparrow,\; f_\downarrow,\; f_=\}. \tag{Eq. 7}$$
#
# It trains three copies of the student for a moment: one with all weights raised, one with all lowered, one with all kept.
# Then each pair takes the action of the copy that was best *on that pair*. How the copies are trained is lesson 10; here
# the losses are simply given, and we look at what the actions do to the weights.

# %%
import math
from typing import get_args

import numpy as np
import torch

from pmd_lite.config import StepSize
from pmd_lite.distillation.actions import ACTIONS, act, decrease, increase, keep, logit, step_size
from pmd_lite.distillation.search import choose, reduced_space
from pmd_lite.evaluation.tables import Table
from pmd_lite.teaching import figures_09, widgets_09
from pmd_lite.teaching.checks import lesson09

pairs = ["fr-en", "de-en", "tr-en"]
before = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
trials = {"keep": keep(before), "up": increase(before, mu=1.0), "down": decrease(before, mu=1.0)}
losses = torch.tensor([[2.10, 2.31, 3.40], [2.12, 2.30, 3.33], [2.07, 2.35, 3.52]])  # [trial, pair]
chosen = choose(losses, reduced_space(len(pairs)))
after = [trials[action][pair].item() for pair, action in enumerate(chosen)]
print("chosen:", dict(zip(pairs, chosen)))
print("new weights:", {pair: round(a, 3) for pair, a in zip(pairs, after)})

# %% [markdown]
# The same as a picture, which is Figure 3 of the paper in our own drawing:

# %%
figures_09.three_trials(
    pairs, before.tolist(), {action: a.tolist() for action, a in trials.items()}, chosen,
    alt="Three pairs, each with a weight before and three candidates: fr-en goes down, de-en and tr-en go up",
)

# %% [markdown]
# **What to notice.** One call of "up" moved the three weights by different amounts, and up and down from 0.1 are not the
# same distance either. The paper says so under its figure: "due to the non-linear nature of sigmoid function". That is
# not a flaw, it is the point.

# %% [markdown]
# ## Why not simply add?
#
# The obvious action adds 0.3. But a weight lives in $[0, 1]$, so the sum has to be cut off, and cutting off forgets:

# %%
rows = []
for start in (0.1, 0.5, 0.9):
    up = min(1.0, start + 0.3)
    back = max(0.0, up - 0.3)
    rows.append([start, up, back])
Table(["alpha", "0.3 added, cut off at 1", "0.3 subtracted again"], rows, best=None)

# %% [markdown]
# **What to notice.** From 0.9 the way up and down ends at 0.7. There is a second objection. From 0.5 to 0.8 is a change of
# emphasis; from 0.02 to 0.32 is sixteen times as much. Near the ends of the scale a fixed step is too coarse, and it is
# near the ends that precision matters: 0.02 and 0.08 are different regimes.

# %% [markdown]
# ## Up, down, equal
#
# The paper's way out: stretch $[0,1]$ to the whole line, take the step there, and come back. The stretch is the inverse
# of the sigmoid, called *logit*: $\sigma^{-1}(\alpha) = \log\alpha - \log(1-\alpha)$.
#
# $$f_=(\alpha) = \alpha \tag{Eq. 9}$$
#
# $$f_\uparrow(\alpha) = \sigma\left(\sigma^{-1}(\alpha) + \mu\right) \tag{Eq. 10}$$
#
# $$f_\downarrow(\alpha) = \sigma\left(\sigma^{-1}(\alpha) - \mu\right) \tag{Eq. 11}$$
#
# $\mu$ is the *step size*. By hand, with $\alpha=0.5$ and $\mu=1$: the logit of one half is 0, one step up is 1, and
# $\sigma(1) = 1/(1+e^{-1}) = 0.731$. In the code the three are called `keep`, `increase` and `decrease`.

# %%
rows = []
for alpha in (0.1, 0.5, 0.9):
    a = torch.tensor(alpha)
    rows.append([alpha, logit(a).item(), increase(a, 1.0).item(), decrease(a, 1.0).item()])
Table(["alpha", "logit", "up, mu=1", "down, mu=1"], rows, best=None, digits=3)

# %% [markdown]
# ### Exercise 1: f_up (5 minutes, difficulty 1)
#
# Write Eq. 10. `alpha` is a tensor of weights strictly between 0 and 1, `mu` a number; return the raised weights.

# %% tags=["exercise"]
def f_up(alpha, mu):
    ### BEGIN SOLUTION
    return torch.sigmoid(torch.log(alpha / (1 - alpha)) + mu)
    ### END SOLUTION


# %% tags=["check", "points:2"]
lesson09.UP.check(f_up)
### BEGIN HIDDEN TESTS
lesson09.UP.grade(f_up, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# ## Odds
#
# The same thing can be said without a logarithm. $\alpha/(1-\alpha)$ is called the *odds*; the logit is the logarithm of the
# odds. To add $\mu$ to a logarithm is to multiply by $e^\mu$, so **up multiplies the odds by $e^\mu$, down divides
# them by it**. From 0.1 the odds are 1 to 9; one step up with $\mu=1$ makes them $e/9 = 0.302$, and odds $o$ are the weight
# $o/(1+o) = 0.232$, as in the table. Written in one piece:
#
# $$f_\uparrow(\alpha) = \frac{\alpha e^{\mu}}{1-\alpha+\alpha e^{\mu}}$$
#
# ### Exercise 2: f_down (5 minutes, difficulty 2)
#
# Write $f_\downarrow$ in this closed form, without logarithm or sigmoid. What does it do with the weights 0 and 1? The check
# tries them too.

# %% tags=["exercise"]
def f_down(alpha, mu):
    ### BEGIN SOLUTION
    scaled = alpha * math.exp(-mu)
    return scaled / (1 - alpha + scaled)
    ### END SOLUTION


# %% tags=["check", "points:2"]
lesson09.DOWN.check(f_down)
### BEGIN HIDDEN TESTS
lesson09.DOWN.grade(f_down, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# The ends are *fixed points*: odds of 0 stay 0 whatever they are multiplied by, and infinite odds stay infinite. On
# paper no weight inside ever reaches them, and none at them ever leaves.

# %%
ends = torch.tensor([0.0, 1.0])
print("logits:", logit(ends).tolist())
print("up:", increase(ends, 1.0).tolist(), " down:", decrease(ends, 1.0).tolist())

# %% [markdown]
# ## How far?
#
# On the logit scale all steps are equal. Back on the scale of $\alpha$, how far does an action move a weight?
#
# ### Exercise 3: distances (5 minutes, difficulty 2)
#
# For a tensor `alpha` return a tensor of shape [2, pairs]: in the first row how far up moves each weight, in the second
# how far down does; both positive. Use `increase` and `decrease`. Before you run it, guess: where is the step up largest?

# %% tags=["exercise"]
def distances(alpha, mu):
    ### BEGIN SOLUTION
    return torch.stack([increase(alpha, mu) - alpha, alpha - decrease(alpha, mu)])
    ### END SOLUTION


# %% tags=["check", "points:2"]
lesson09.DISTANCES.check(distances)
### BEGIN HIDDEN TESTS
lesson09.DISTANCES.grade(distances, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# Every $\alpha$ at once, for a large and a small step:

# %%
alphas = torch.linspace(0, 1, 201, dtype=torch.float64)
curves = {}
for step in (1.0, 0.3):
    up, down = lesson09.distances(alphas, step).tolist()
    curves |= {f"up, mu={step:g}": up, f"down, mu={step:g}": down}
figures_09.distance_moved(
    alphas.tolist(), curves,
    alt="Distance moved over alpha: four humps, zero at both ends, up leaning left, down right",
)

# %% [markdown]
# The left end of that picture in numbers, for $\mu=1$:

# %%
rows = []
for alpha in (0.001, 0.01, 0.1, 0.5):
    up = lesson09.distances(torch.tensor([alpha], dtype=torch.float64), 1.0)[0].item()
    rows.append([f"{alpha:g}", f"{up:.4f}", f"{1 + up / alpha:.2f}"])
Table(["alpha", "moved up by", "new / old"], rows)

# %% [markdown]
# **What to notice.** In the middle a step is large, towards the ends it shrinks to nothing, and near 0 it multiplies: close
# to 0 each "up" makes the weight about $e = 2.72$ times what it was. So a few actions are enough to explore 0.01, 0.03, 0.07
# as well as 0.3, 0.5, 0.7. The step up is longest where it passes 0.5 in its middle, a little below one half; the step
# down mirrors it.

# %% [markdown]
# ## There and back
#
# Down undoes up *exactly*, since $+\mu$ and $-\mu$ cancel. On a computer only nearly so, and it matters which number one
# keeps. A weight that goes up twenty times and down twenty times, once remembered as $\alpha$ in float32, once as its logit
# in float64:

# %%
alpha, logits = torch.tensor(0.1), logit(torch.tensor(0.1, dtype=torch.float64))
for action in ["up"] * 20 + ["down"] * 20:
    alpha = (increase if action == "up" else decrease)(alpha, 1.0).float()
    logits = act(logits, action, 1.0)
print(f"kept as alpha, float32: {alpha.item():.6f}")
print(f"kept as logit, float64: {torch.sigmoid(logits).item():.6f}")

# %% [markdown]
# **What to notice.** In float32 the weight was rounded to exactly 1, a fixed point, and stayed there for good: the model
# would never again listen to a reference translation. The library therefore keeps the logit and computes $\alpha$ from it.
# The authors' program guards against 1 in another way: it cuts $\alpha$ off at 0.98 before it takes the logit. Then up and
# down no longer cancel, and a large weight loses ground by being tried out (ours does the same with `alpha_clip=0.98`):

# %%
large = torch.tensor(0.97, dtype=torch.float64)
tried = increase(large, 1.0)
back = decrease(tried.clamp(max=0.98), 1.0)
print(f"{large.item()} up: {tried.item():.5f}, back with the cut at 0.98: {back.item():.3f}")

# %% [markdown]
# ### Exercise 4: a path by hand (3 minutes, difficulty 2)
#
# Yours alone: write your name, run the cell, and find where this weight ends, with the same $\mu$ at each step. You need no
# loop: how many steps are left when ups and downs have cancelled? Three digits are enough.

# %% tags=["exercise"]
student = "your name"
start, actions, step = lesson09.my_path(student)
answer = None
### BEGIN SOLUTION
left = actions.count("up") - actions.count("down")
odds = start / (1 - start) * math.exp(step * left)
answer = odds / (1 + odds)
### END SOLUTION
print(f"start {start}, mu {step}:", ", ".join(actions))

# %% tags=["check", "points:1"]
lesson09.my_end(student).check(answer)
### BEGIN HIDDEN TESTS
lesson09.my_end(student).grade(answer, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# ## Trajectories
#
# The order of actions does not matter as long as $\mu$ stays the same. It does when $\mu$ shrinks. Below, three times up,
# two times equal, three times down, with $\mu=1$ throughout and with the paper's shrinking $\mu$ of the next section.

# %%
actions = ["up"] * 3 + ["keep"] * 2 + ["down"] * 3
paths = {f"mu {schedule}": widgets_09.walk(0.1, actions, schedule) for schedule in ("constant", "to_0")}
figures_09.trajectory(
    paths, actions,
    alt="Two weights rise from 0.1, stay, fall: with constant mu back to 0.1, with shrinking mu only to 0.30",
)

# %% [markdown]
# The weights of the left panel:

# %%
rows = [[name, *path] for name, path in paths.items()]
Table(["alpha", "start", *actions], rows, best=None, digits=3)

# %% [markdown]
# **What to notice.** Left, the same action gives steps of different length; right, on the logit scale, the constant
# $\mu$ gives a straight staircase. With a shrinking $\mu$ the early ups weigh more than the late downs, and the weight does
# not come home.
#
# A walk of your own. (Without a running kernel only the figure above is shown.)

# %% tags=["widget"]
widgets_09.alpha_walk()

# %% [markdown]
# ## A step that shrinks
#
# A large step finds the right region soon, a small one finds the right value. The paper's *scheduler* begins with 1 and
# ends with 0, where $t$ is the training step and $\mathcal{T}_{max}$ the last one:
#
# $$\mu = \sqrt{\frac{\mathcal{T}_{max} - t}{\mathcal{T}_{max}}} \tag{Eq. 12}$$
#
# By hand: after three quarters of the run a quarter is left, and $\mu = \sqrt{1/4} = 1/2$. The paper tried four
# schedulers. We call them
#
# | name | $\mu$ |
# |---|---|
# | `constant` | 1 |
# | `to_0.2` | falls from 1 to 0.2: $0.2 + 0.8\sqrt{(\mathcal{T}_{max}-t)/\mathcal{T}_{max}}$ |
# | `early_stop` | $\sqrt{\max(\mathcal{T}_{max}-1.2\,t,\ 0)/\mathcal{T}_{max}}$: nothing is searched in the last sixth |
# | `to_0` | Eq. 12 |
#
# For `to_0.2` paper and program disagree. The formula in the paper's table, $\sqrt{(\mathcal{T}_{max}-0.8\,t)/\mathcal{T}_{max}}$, ends at
# $\sqrt{0.2} = 0.447$; its text says "from 1.0 to 0.2", and so does the authors' program. We follow the latter two.
#
# ### Exercise 5: mu (5 minutes, difficulty 1)
#
# Write all four. `schedule` is one of the names above.

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
lesson09.MU.check(mu)
### BEGIN HIDDEN TESTS
lesson09.MU.grade(mu, seed=9)
### END HIDDEN TESTS

# %% [markdown]
# All four over a run, from its first step to its last:

# %%
progress = np.linspace(0, 1, 101)
schedules = {name: [step_size(t, 1.0, name) for t in progress.tolist()] for name in get_args(StepSize)}
figures_09.step_sizes(
    progress.tolist(), schedules,
    alt="Step size over the run: constant stays at 1, others fall ever faster; early_stop is 0 after five sixths",
)

# %% [markdown]
# And how far can a logit get in a run of 70 updates, going up every time?

# %%
print(f"sum of mu over 70 updates with Eq. 12: {sum(step_size(t, 70) for t in range(70)):.1f}")

# %% [markdown]
# **What to notice.** The root makes $\mu$ fall slowly at first and fast at the end: after half the run it is still 0.71.
# Seventy updates, one per epoch as in the paper's WMT-6 runs, add up to 47. A logit can go anywhere in that, which is why
# the twenty ups above were no idle worry.

# %% [markdown]
# ## Why it shrinks
#
# A game with no training in it. Somewhere there is a best weight. Seventy times we choose the action that comes closest to
# it, but half of the time our measurement fails and the action is drawn by lot. (In Auto-PMD it is noisy too: a short trial, a
# small dev set.) In a second version the best weight itself wanders off during the run, by 3 on the logit scale, as
# it well may while both models learn. How far off is the last weight?

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
Table(["distance from the best alpha", "it stays", "it wanders"], rows, best="min", digits=3)

# %% [markdown]
# **What to notice.** With a constant step the weights are the rungs of a ladder, 1 apart on the logit scale: the best
# weight lies between two of them, and a bad draw near the end costs a whole rung. Shrinking steps settle down. Whoever
# stops early is near a best weight that stays, and is left behind by one that wanders. Our game decides nothing about
# translation; the paper's table on schedulers does, a little (WMT-6, M2O):

# %%
bleu = {"constant": (20.71, 21.80), "to_0.2": (21.90, 22.21), "early_stop": (21.74, 22.31), "to_0": (21.89, 22.39)}
rows = [[name, *scores] for name, scores in bleu.items()]
Table(["mu", "BLEU, model 1 (tau=1)", "BLEU, model 2 (tau=5)"], rows)

# %% [markdown]
# **What to notice.** The constant step is worst for both models, by 0.4 to 1.2 BLEU. The other three lie within 0.2 BLEU
# of each other, in another order for each model, and the paper says nothing of repeated runs. "Let it shrink" is a
# finding; "let it shrink by exactly this formula" is a choice.

# %% [markdown]
# ## Takeaways
#
# - Actions are steps on the logit scale. So a weight stays inside $[0,1]$ without cutting off, down undoes up, and near 0
#   a step multiplies instead of adding.
# - In odds: up multiplies by $e^\mu$, down divides. 0 and 1 are fixed points. Keep the logit, not the weight.
# - The same action moves $\alpha$ furthest in the middle; that is what Figure 3's caption means.
# - $\mu$ shrinks so that the search first roams and then settles. With a shrinking $\mu$ the order of actions matters.
#
# **Where to go next.** Section 3.3 of the paper ("Implementation of Actions") and section 5.4 on the schedulers; the code is
# `pmd_lite/distillation/actions.py`. Lesson 10 puts trials and actions together into Auto-PMD.
