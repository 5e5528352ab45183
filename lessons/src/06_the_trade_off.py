# %% [markdown]
# # 06 The trade-off
#
# > **You will**: train models at five positions of the one knob of temperature sampling, say exactly what it means that one
# > model is better than another, draw the frontier and measure the area below it, and find out which differences two seeds can
# > confirm. **Time**: about five minutes on two CPU cores, nearly all of it in one cell; forty-five with the exercises.
# > **Difficulty**: 2 of 5. **You need**: lessons 02 and 05.
#
# **Contents**: two judges · a sweep of the knob · better beyond dispute · exercise: dominates · the frontier · exercise:
# frontier · the area · exercise: area by hand · exercise: area · lower is better · what averages hide · two seeds ·
# exercise: noise or not · the frontier explorer · the paper's frontier · quiz ·
# takeaways

# %% [markdown]
# ## Two judges
#
# Lesson 05 ended with one number per language pair. Six numbers for a model are too many to draw, and their mean alone says too
# little: a model that gains ten points on French and loses ten on Turkish has the same mean as before. The paper's first figure
# uses two judges: the mean BLEU of the high-resource languages (**HRL**, the larger half) is the vertical axis, and the mean of
# the low-resource languages (**LRL**) is the horizontal axis. A model is a point. A method is worth something if it moves
# points up *and* to the right.

# %%
from pathlib import Path

import numpy as np

import pmd_lite as pmd
from pmd_kit import l06, tiny
from pmd_lite.evaluation.pareto import dominates, hypervolume, mean_by_group, pareto_front
from pmd_lite.evaluation.tables import Table, mean_spread

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings = dict(steps=1200, eval_every=100)
if size == "ci":  # a smaller world, too
    settings = dict(corpus_options=tiny.WORLD, steps=12, eval_every=6, **tiny.MODEL)
runs_in = Path("runs") / f"lesson06-{size}"

# %% [markdown]
# By hand, with invented numbers: a model with BLEU 90, 85, 80 on the three large pairs and 20, 10, 3 on the three small ones is
# the point (11, 85).

# %%
bleu = {"fra": 90, "deu": 85, "zho": 80, "est": 20, "ron": 10, "tur": 3}
high, low = mean_by_group(bleu, (("fra", "deu", "zho"), ("est", "ron", "tur")))
print((low, high))

# %% [markdown]
# ## A sweep of the knob
#
# The knob is $\tau$ of Eq. 2. We train a model at each of five positions, from $\tau=0.5$, which is steeper than the data, to
# $\tau=\infty$, where all pairs are drawn equally often. We train each model twice, with seeds 1 and 2; you will see why. This
# is the cell that takes time. It keeps the trained models in `runs/`, so that a second call is fast.
#
# **Predict** (2 minutes). Before you train: draw the five points on paper, LRL to the right and HRL upwards. Where will
# $\tau=\infty$ be, compared with $\tau=5$?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** It loses on HRL. On LRL it gains little or loses, since thirty sentences do not become more by being shown
# more often. So the curve bends back.
# <!-- END ANSWER -->

# %%
taus = ["0.5", "1", "2", "5", "inf"] if size == "lesson" else ["1", "2", "inf"]
jobs = []
for seed in (1, 2):
    for i, tau in enumerate(taus):
        place = runs_in / f"{i}-tau{tau}-seed{seed}"
        jobs.append(dict(corpus="longtail", method=f"tau={tau}", out=place, seed=seed, **settings))
runs = pmd.train_side_by_side(jobs, workers=2, show=False)
sweep = {f"tau={tau}": [runs[i], runs[i + len(taus)]] for i, tau in enumerate(taus)}  # both seeds of each

# %%
rows = []
for name, both in sweep.items():
    low, high = zip(*[run.point() for run in both])
    overall = [sum(run.bleu().values()) / len(run.pairs) for run in both]
    rows.append([name, mean_spread(high), mean_spread(low), mean_spread(overall)])
caption = "Test BLEU, mean and standard deviation over two seeds"
Table(["model", "HRL", "LRL", "all six"], rows, digits=1, caption=caption)

# %% [markdown]
# Here are the same models on the plane, with the probabilities of one of them (bars). The dashed line is the first temperature
# of the sweep:

# %%
l06.figures.sweep_figure(sweep, "tau=2")

# %% [markdown]
# **What to notice.** Read the table from $\tau=1$ downwards. As long as the knob *trades*, the small pairs gain what the large
# ones lose, step by step. Where does the trade end in your runs? From some $\tau$ on, the large pairs still lose, and the small
# ones gain no more than their ±, or even lose: if thirty sentences are shown more often, the model memorises them instead of
# understanding them (lesson 04). Now go up from $\tau=1$. At 0.5 nearly three draws of four are French. Which large pairs pay
# for that, beside the small ones? Compare the ± of the rows, too. Two seeds may agree to a tenth of a point, or be several
# points apart. With only two seeds, both may be luck.
#
# Here you can change the same picture. (Without a running kernel you see only the figure above.)
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The trade ends at the last row up to which LRL still rises by more than its ±. Expect this at about
# $\tau=2$: beyond it the small pairs see the same thirty sentences too often. At $\tau=0.5$ German and Chinese pay beside
# the small pairs, since French takes their draws.
# <!-- END ANSWER -->

# %% tags=["widget"]
l06.figures.tau_points(sweep)

# %% [markdown]
# ## Better beyond dispute
#
# "Better" is easy to say when nothing speaks against it. Point $a$ **dominates** point $b$ if it is at least as good on every
# axis and better on at least one:
#
# $$a \succ b \iff a_k \ge b_k \text{ for all } k, \text{ and } a_k > b_k \text{ for some } k.$$
#
# (12, 30) dominates (10, 28), and also (12, 28). It does not dominate (9, 31), and (9, 31) does not dominate it. To say which
# of these two is better, you must first decide how many BLEU points on large languages one point on small languages is worth.
#
# ### Exercise 1: dominates (5 minutes, difficulty 1)
#
# Write this for points with any number of axes (tuples of numbers, more is better). Return True or False.

# %% tags=["exercise"]
def better(a, b):
    ### BEGIN SOLUTION
    pairs = list(zip(a, b))
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l06.checks.DOMINATES.check(better)
### BEGIN HIDDEN TESTS
l06.checks.DOMINATES.grade(better, seed=6)
### END HIDDEN TESTS

# %% [markdown]
# Which of the five means of our sweep dominates which?

# %%
import itertools

means = {name: tuple(np.mean([run.point() for run in both], axis=0)) for name, both in sweep.items()}
for a, b in itertools.permutations(means, 2):
    if dominates(means[a], means[b]):
        low, high = np.subtract(means[a], means[b])
        print(f"{a} dominates {b}: LRL {low:+.1f}, HRL {high:+.1f}")

# %% [markdown]
# ## The frontier
#
# The points that no other point dominates form the **Pareto frontier**. It depends on which models take part: it is a statement
# about the models you have, not about all models that are possible. A model on the frontier cannot be improved upon *within the
# set* without a loss on some axis.
#
# ### Exercise 2: frontier (6 minutes, difficulty 2)
#
# Return the indices, in rising order, of the undominated points of a list. Use `dominates` from the library. Equal points do
# not dominate each other.
#
# <details><summary>Hint</summary>
#
# A point belongs to the frontier if no point of the list dominates it. A point never dominates itself, so you need no
# special case.
#
# </details>

# %% tags=["exercise"]
def frontier(points):
    ### BEGIN SOLUTION
    return [i for i, p in enumerate(points) if not any(dominates(q, p) for q in points)]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l06.checks.FRONTIER.check(frontier)
### BEGIN HIDDEN TESTS
l06.checks.FRONTIER.grade(frontier, seed=6)
### END HIDDEN TESTS

# %% [markdown]
# Now we draw the ten models themselves, each seed as its own point. The dotted line is the border of the region that the
# frontier dominates. Between two neighbours it is a step, not a slope: a model on the straight line between them is a model
# that does not exist.

# %%
contenders = l06.contenders.collect(runs_in).contenders
l06.frontier_plane.frontier_plane([one for c in contenders for one in c.apart()])

# %% [markdown]
# **What to notice.** Which of the ten are on the frontier? Look for a $\tau$ of which one seed is on the frontier and the other
# is not. The two seeds of one $\tau$ are *twins*: they differ only by luck. Does a twin ever dominate its twin?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Read the names on the dotted line, then look for their twins. If only one of two twins is on the line,
# being on the frontier was luck for one of them. A twin that dominates its twin is the clearest sign: the lines printed
# below say where this happens.
# <!-- END ANSWER -->

# %%
for name, (one, other) in sweep.items():
    a, b = one.point(), other.point()
    print(f"{name}: {'one seed dominates the other' if dominates(a, b) or dominates(b, a) else 'neither seed dominates'}")

# %% [markdown]
# If chance alone moves two points, and moves them on both axes independently, one of them dominates the other in half of all
# cases. So a method that dominates itself is not rare, and it is a warning: one model can dominate another by luck.

# %% [markdown]
# ## The area
#
# Is one frontier better than another? The usual number is the **hypervolume**. In two dimensions it is the area of the shaded
# region: everything that the frontier dominates and that is better than a *reference* $r$. Here are four models with reference
# (0, 0). The staircase has three steps, of widths 1, 2 and 1 and heights 3, 2 and 1: an area of 3 + 4 + 1 = 8. Model D is
# dominated and adds nothing.

# %%
four = {"A": [(1, 3)], "B": [(3, 2)], "C": [(4, 1)], "D": [(2, 1.5)]}
l06.frontier_plane.plane(four, ("LRL", "HRL"), show_corner=True)

# %% [markdown]
# ### Exercise 3: the area by hand (5 minutes, difficulty 1)
#
# These points are yours alone. Write your name, run the cell, and find the area with pencil and paper.

# %% tags=["exercise"]
student = "your name"
my_points, my_reference = l06.checks.my_points(student)
my_area = None
### BEGIN SOLUTION
my_area = hypervolume(my_points, my_reference)
### END SOLUTION
print(f"points (LRL, HRL): {my_points}, reference {my_reference}")

# %% tags=["check", "points:1"]
l06.checks.my_area(student).check(my_area)
### BEGIN HIDDEN TESTS
l06.checks.my_area(student).grade(my_area, seed=6)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4: the area (10 minutes, difficulty 3)
#
# Now write it for any list of points (x, y) and any reference. Points that are not above the reference on both axes add
# nothing. One way that works: keep the points that count, sort them by x from right to left, and remember how high the
# staircase already is.
#
# <details><summary>Hint</summary>
#
# Walk from right to left. A point adds a rectangle only where it is higher than everything to the right of it: its width is
# x minus the x of the reference, its height is what it adds to the staircase.
#
# </details>

# %% tags=["exercise"]
def area(points, reference):
    ### BEGIN SOLUTION
    inside = sorted((p for p in points if p[0] > reference[0] and p[1] > reference[1]), reverse=True)
    total, height = 0.0, reference[1]
    for x, y in inside:
        total += (x - reference[0]) * max(0.0, y - height)
        height = max(height, y)
    return total
    ### END SOLUTION


# %% tags=["check", "points:3"]
l06.checks.AREA.check(area)
### BEGIN HIDDEN TESTS
l06.checks.AREA.grade(area, seed=6)
### END HIDDEN TESTS

# %% [markdown]
# The library's `hypervolume` works in any number of dimensions. What does each position of the knob add to the area of the
# whole sweep?

# %%
whole = hypervolume(list(means.values()), (0, 0))
rows = []
for name in means:
    others = [point for other, point in means.items() if other != name]
    rows.append([name, hypervolume(others, (0, 0)) - whole])
caption = f"Area of all from (0, 0): {whole:.0f}"
Table(["without", "change of the area"], rows, digits=1, caption=caption)

# %% [markdown]
# One number for a frontier is convenient, and it hides a choice. Here are two sets of models, the same data each time, with three
# references:

# %%
ends, middle = [(2, 10), (10, 2)], [(5.5, 5.5)]
for corner in ((0, 0), (1, 1), (3, 3)):
    print(f"from {corner}: ends {hypervolume(ends, corner)}, compromise {hypervolume(middle, corner)}")

# %% [markdown]
# **What to notice.** From (0, 0) the two ends have the larger area. From (1, 1) the compromise has. From (3, 3), which asks for
# more than 3 from both judges, the ends are worth nothing at all. An area without its reference says nothing. A small change of
# an area says nothing either, because an area is a sum of products of noisy numbers.

# %% [markdown]
# ## Lower is better
#
# Dev loss is a judge as well, and with it everything is reversed. The frontier is the border at the *lower left*, and the
# reference must be *worse*, that is larger, than the losses that should count. The trick is a minus sign: domination with
# $-\text{loss}$ as the score is the same as domination with loss as the cost.

# %%
scores = []
for both in sweep.values():
    six = np.mean([list(run.best_dev_loss().values()) for run in both], axis=0)  # largest pair first
    scores.append((-six[3:].mean(), -six[:3].mean()))
print("on the frontier of BLEU:      ", [list(sweep)[i] for i in pareto_front(list(means.values()))])
print("on the frontier of dev losses:", [list(sweep)[i] for i in pareto_front(scores)])
l06.frontier_plane.frontier_plane(contenders, l06.contenders.LOSS)

# %% [markdown]
# **What to notice.** Do the two judges name the same frontier? Even where they do, they need not agree on the distances. Find
# two temperatures that one judge calls practically equal (their bars overlap) and the other judge separates clearly. BLEU looks
# at the words that the model chose; loss looks at the probability of the word that it should have chosen. Which judge matters?
# Papers report BLEU; Auto-PMD's search (lesson 10) uses dev loss.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The two printed lists answer the first question. For the distances compare $\tau=5$ and $\tau=\infty$ in
# both figures: overlapping bars in BLEU and clearly separate points in loss mean that the probability of the right word has
# fallen, while the most probable words are still the same. Which judge matters depends on the use. A reader sees words, so
# BLEU is nearer to the use; a search during training needs a measure that reacts early, so it uses loss.
# <!-- END ANSWER -->

# %% [markdown]
# ## What averages hide
#
# Two means are two judges, but six languages have six interests. With one axis for each pair, it becomes hard to be "at least
# as good everywhere".

# %%
names = list(sweep)
six = [tuple(np.mean([list(run.bleu().values()) for run in both], axis=0)) for both in sweep.values()]
print("not dominated on two means:", [names[i] for i in pareto_front(list(means.values()))])
print("not dominated on six pairs:", [names[i] for i in pareto_front(six)])
rows = [[name, *scores] for name, scores in zip(names, six)]
Table(["model", *runs[0].pairs], rows, digits=1, caption="Test BLEU, mean over two seeds")

# %% [markdown]
# **What to notice.** Does a model come back to the frontier when there are six judges? Look in the table for the pair that
# brings it back, and for the lead that it has there. One pair is enough. So the more axes there are, the
# less it means to be undominated. A model that is dominated even by six judges has nothing to show: another model is at least
# as good on every pair.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Compare the two lists. A model that appears only in the second was beaten on both means, and is ahead on at
# least one pair. Its lead in the table is often less than two seeds differ. Then its return says little.
# <!-- END ANSWER -->

# %% [markdown]
# ## Two seeds
#
# A point on the plane looks exact. But if you train the same model with another seed, it lands elsewhere. So before you say
# that one point dominates another, ask whether their distance is larger than the distance between two seeds of the *same*
# method.
#
# ### Exercise 5: noise or not (8 minutes, difficulty 2)
#
# `before` and `after` are the scores of two models, as lists with one score per seed. The *spread* of a model is its largest
# score minus its smallest. Take the larger of the two spreads. If the difference of the means is not larger than this spread,
# in either direction, return `"noise"`. Otherwise return `"better"` or `"worse"`, for `after` compared with `before`.
#
# <details><summary>Hint</summary>
#
# Compute the difference of the means with its sign. Compare its size with the larger spread. The sign decides only after the
# difference has turned out to be more than noise.
#
# </details>

# %% tags=["exercise"]
def verdict(before, after):
    ### BEGIN SOLUTION
    delta = sum(after) / len(after) - sum(before) / len(before)
    spread = max(max(scores) - min(scores) for scores in (before, after))
    if abs(delta) <= spread:
        return "noise"
    return "better" if delta > 0 else "worse"
    ### END SOLUTION


# %% tags=["check", "points:2"]
l06.checks.VERDICT.check(verdict)
### BEGIN HIDDEN TESTS
l06.checks.VERDICT.grade(verdict, seed=6)
### END HIDDEN TESTS

# %% [markdown]
# Here is every step of the knob under this rule (with the checked version of your function):

# %% tags=["hide-input"]
rows = []
for before, after in itertools.pairwise(sweep):
    cells = [f"{before} -> {after}"]
    for axis in (0, 1):
        scores = [[run.point()[axis] for run in sweep[name]] for name in (before, after)]
        cells += [f"{np.mean(scores[1]) - np.mean(scores[0]):+.1f}", l06.checks.verdict(*scores)]
    rows.append(cells)
Table(["step", "LRL", "", "HRL", " "], rows)

# %% [markdown]
# How far can we trust such a rule? We let chance alone make all four numbers, and count how often the rule finds a difference:

# %%
rng = np.random.default_rng(0)
for n in (2, 3, 5):
    scores = rng.normal(size=(4000, 2, n)).tolist()
    found = sum(l06.checks.verdict(before, after) != "noise" for before, after in scores)
    same_sign = sum(len({b > a for a, b in zip(*both)}) == 1 for both in scores)
    shares = f"{found / 4000:.0%} pass the rule, {same_sign / 4000:.0%} agree on the sign"
    print(f"{n} seeds: {shares}")

# %% [markdown]
# **What to notice.** Which steps of the table are more than noise, on small pairs and on large ones? A step can bring a model to
# the frontier of the means and still be noise by this rule. Even a step of several points is noise if the two seeds of one
# model are as far apart. And where there is nothing to find, the rule finds something in one case of five with two seeds, and
# in one of twenty-five with three (the shares above). It is worse to ask only whether the seeds agree on the sign: two seeds
# agree half the time by chance. Lessons 12 and 13 have three seeds and draw sentences as well.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The words "better" and "worse" mark them. Expect the large pairs to lose more than noise at every step to a
# larger $\tau$, and the small ones to gain more than noise at the first steps only.
# <!-- END ANSWER -->

# %% [markdown]
# ## The frontier explorer
#
# This is the tool to keep. It reads a *folder of runs*, whatever methods made them. It shows any of them on the plane of any
# two averages or any two pairs, in BLEU or in dev loss. Runs that differ only in their seed are one point with bars. A
# dominated point is gray and carries the name of the model that dominates it. The table below the picture says which model is
# beaten by which, and how much of the area would be lost without each model.

# %%
l06.frontier_plane.frontier_plane(contenders)

# %%
l06.frontier_plane.standing_table(contenders)

# %% [markdown]
# Here you can change the same picture. It opens on the runs of this lesson. Everything else in `runs/` beside this notebook
# stands there without a tick: what lesson 00 trained, if you have run it, and the runs that you train later (press "read folder
# again"). A run that is not finished is named below the picture instead of shown in it. (Without a running kernel you see only
# the figure above.)

# %% tags=["widget"]
l06.explorer.frontier_explorer("runs", contenders)

# %% [markdown]
# **Things to try.** Which $\tau$ is dominated if Turkish alone is the judge of small languages? Switch from BLEU to dev loss:
# does any model change its status? Untick the models on the frontier one after the other: which models take their place? Move
# the reference until another model has the largest share of the area.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** With one pair as the judge the spread between seeds is larger, so the list changes easily; compare the bars
# before you believe it. When you remove a model from the frontier, its neighbours take over, and the area lost is what this
# model alone contributed. With another reference the extremes lose or win most.
# <!-- END ANSWER -->

# %% [markdown]
# ## The paper's frontier
#
# The paper draws this plane for WMT-6 (its figure "Multilingual performance Pareto frontier on the WMT-6 dataset"). We can
# compute the points from its table of BLEU scores per language pair: fr, de, zh are the large languages, et, ro, tr the small
# ones.

# %%
paper = {
    "M2O": {  # fr, de, zh, et, ro, tr
        "tau=1": (34.40, 28.70, 13.27, 16.41, 22.65, 7.99),
        "tau=5": (31.59, 26.61, 12.56, 16.48, 23.06, 9.29),
        "Auto-PMD model 1": (34.96, 28.79, 13.81, 17.90, 25.22, 10.65),
        "Auto-PMD model 2": (34.09, 28.77, 14.05, 19.22, 26.62, 11.60),
    },
    "O2M": {
        "tau=1": (36.16, 23.89, 21.49, 11.53, 14.85, 5.58),
        "tau=5": (31.21, 20.76, 20.76, 13.28, 17.54, 8.20),
        "Auto-PMD model 1": (35.38, 23.12, 20.84, 13.20, 18.79, 9.65),
        "Auto-PMD model 2": (34.47, 23.00, 21.51, 14.15, 19.54, 10.23),
    },
}
planes = {s: {n: (np.mean(b[3:]), np.mean(b[:3])) for n, b in of.items()} for s, of in paper.items()}
for setting, of in planes.items():
    names = list(of)
    print(setting, "two means:", [names[i] for i in pareto_front(list(of.values()))])
    print("    six pairs:", [names[i] for i in pareto_front(list(paper[setting].values()))])

# %%
l06.frontier_plane.plane({name: [point] for name, point in planes["M2O"].items()})

# %%
l06.frontier_plane.plane({name: [point] for name, point in planes["O2M"].items()})

# %% [markdown]
# **What to notice.** Many-to-one is the picture that the paper promises. Both single models are dominated, and model 1
# dominates $\tau=1$ even with all six pairs as judges. The frontier has moved outwards. One-to-many is less clear, and the
# paper says so: model 1 gives up 0.7 BLEU on large languages for 3.2 on small ones, so $\tau=1$ stays on the frontier. The
# paper prints no spread over seeds (its tests of significance are over the sentences of one model). So by this lesson's rule we
# cannot say which of the differences of some tenths are noise; the large differences hardly are.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** Model a has 30 HRL and 12 LRL, model b has 31 and 11. Which statement is right?
#
# <details><summary>A. b dominates a, because its sum is as large and its HRL is higher.</summary>
#
# Not so. Domination needs "at least as good" on every axis. b is worse on LRL.
#
# </details>
#
# <details><summary>B. Neither dominates the other.</summary>
#
# Right. Each is better on one axis. Which you prefer depends on what a point of HRL is worth to you.
#
# </details>
#
# <details><summary>C. a dominates b, because small languages matter more.</summary>
#
# Not so. This is a preference, and domination knows none.
#
# </details>
#
# **Question 2.** You add a sixth language as an axis of its own. What tends to happen to the number of undominated models?
#
# <details><summary>A. It grows.</summary>
#
# Right. One more axis is one more chance to be ahead somewhere. So "undominated" means less.
#
# </details>
#
# <details><summary>B. It shrinks, because the comparison is stricter.</summary>
#
# Not so. It is stricter for the model that wants to dominate, and so fewer models are dominated.
#
# </details>
#
# <details><summary>C. It stays the same, because the models are the same.</summary>
#
# Not so. The models are the same, but a model that was beaten on two means may be ahead on one pair.
#
# </details>
#
# **Question 3.** One method's frontier has a hypervolume of 1,520 and another's of 1,500, with one seed each. What do you
# know?
#
# <details><summary>A. The first is better by 1.3 %.</summary>
#
# Not so. You know neither how much it varies with the seed nor how it changes with the reference.
#
# </details>
#
# <details><summary>B. Very little.</summary>
#
# Right. An area is a sum of products of noisy numbers. Train more seeds, and try another reference.
#
# </details>
#
# <details><summary>C. The first dominates the second.</summary>
#
# Not so. A larger area does not mean that each point lies outside. Two frontiers can cross.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - A point is dominated if another point is at least as good on all axes and better on one. Undominated means only that no
#   point *in the set* dominates it.
# - The frontier is a staircase. The hypervolume is the area below it, and it needs a reference to mean anything.
# - With losses everything is reversed; put a minus in front and use the same functions.
# - With more axes, fewer points are dominated. Two averages make a picture, and hide which language paid.
# - Turning $\tau$ moves a model along a frontier, as long as you do not turn it too far. To push the frontier outwards you need
#   a method, and a comparison with *all* positions of the knob, not with one.
# - No difference without its spread. You need at least two seeds to see any spread.
#
# **Where to go next.** Figure 1 and section 5.1 ("Visualization of Pareto Frontier") of the paper. The code is
# `pmd_lite/evaluation/pareto.py` and, for the explorer, `lessons/pmd_kit/l06/explorer.py`. In lesson 07 two models teach each
# other.
