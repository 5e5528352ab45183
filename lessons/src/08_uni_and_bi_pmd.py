# %% [markdown]
# # 08 Uni-PMD and Bi-PMD
#
# > **You will**: decide for every language pair which student teaches and which one listens, count how often this makes a
# > difference, test whether even the worse student has something to teach, and find a rule in the authors' program that is not
# > in the paper. **Time**: about five minutes on two CPU cores, most of it waiting for one cell; fifty with the exercises.
# > **Difficulty**: 2 of 5. **You need**: lesson 07.
#
# **Contents**: twelve weights · only the worse one learns · exercise: Eq. 5 · how often does it matter? · exercise: the share ·
# both learn · six models · exercise: a second opinion · which student learnt what · a rule that is not in the paper ·
# exercise: the dead zone · exercise: by hand · how large should alpha be? · quiz ·
# takeaways

# %% [markdown]
# ## Twelve weights
#
# Two students with different samplers are good at different things: student 1 ($\tau=1$) sees mostly the large pairs, student 2
# ($\tau=5$) sees the small ones far more often. Each has its own distillation weight for every pair, $\alpha_i[\ell]$. With six
# pairs, twelve numbers say which student listens to the other, for which pair, and how much. This lesson presents the paper's
# two simple rules for these weights. Lesson 10 presents the rule that searches.
#
# Here are dev losses as two such students might have them (invented numbers); lower is better:

# %%
import math
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_kit import l08, tiny
from pmd_lite.evaluation.tables import Table

# %%
pairs = ["fr-en", "et-en", "tr-en"]
losses = torch.tensor([[0.20, 1.30, 1.95], [0.55, 0.85, 1.60]])  # [student, pair], nats per token
rows = [[f"student {i + 1}", *losses[i].tolist()] for i in (0, 1)]
Table(["", *pairs], rows, digits=2)

# %% [markdown]
# ## Only the worse one learns
#
# The idea of **Uni-PMD** is that a student should learn from the other's strengths and never from its weaknesses. So for each
# pair the student with the higher dev loss listens, with one fixed weight $\alpha$. The better student does not listen at all:
#
# $$\alpha_i[\ell] = \alpha \times \mathbb{1}\left\{ i = \arg\max_{j \in \{1,2\}} \mathcal{L}_{ce}(D^{valid}_\ell; \theta_j) \right\} \tag{Eq. 5}$$
#
# The indicator $\mathbb{1}\{\cdot\}$ is 1 if the statement in it is true and 0 if not. Uni-PMD decides again every
# $\mathcal{T}$ updates, by default once an epoch; before the first decision all weights are 0. **Bi-PMD** takes the opposite
# position, that both students always listen:
#
# $$\alpha_i[\ell] = \alpha \tag{Eq. 6}$$
#
# By hand for the table above: student 1 is better on French, so student 2 listens there. On Estonian and Turkish student 2 is
# better, so student 1 listens. Arrows lead from the teacher to the learner.

# %%
from pmd_lite.distillation.mutual import uni_weights

rules = {"Uni-PMD (Eq. 5)": uni_weights(losses, 0.4), "Bi-PMD (Eq. 6)": torch.full((2, 3), 0.4)}
print(rules["Uni-PMD (Eq. 5)"])
l08.figures.directions(
    pairs, losses.tolist(), {title: weights.tolist() for title, weights in rules.items()},
    alt="Dev losses of two students on three pairs. Uni-PMD: one arrow a pair, to the higher loss. "
        "Bi-PMD: two arrows a pair",
)

# %% [markdown]
# ### Exercise 1: Eq. 5 (6 minutes, difficulty 2)
#
# `losses` is [2, pair] and `alpha` is a number. Return the weights, [2, pair]. The formula's $\arg\max$ says nothing about
# exact ties. Our rule: on a tie neither student leads, so *both* learn.
#
# <details><summary>Hint</summary>
#
# `losses.flip(0)` exchanges the two rows, so that each student stands beside the other. A comparison gives True and False,
# and these count as 1 and 0 when you multiply. What must happen where both are equal?
#
# </details>

# %% tags=["exercise"]
def uni(losses, alpha):
    ### BEGIN SOLUTION
    behind_or_level = losses >= losses.flip(0)
    return alpha * behind_or_level
    ### END SOLUTION


# %% tags=["check", "points:2"]
l08.checks.UNI.check(uni)
### BEGIN HIDDEN TESTS
l08.checks.UNI.grade(uni, seed=8)
### END HIDDEN TESTS

# %% [markdown]
# ## How often does it matter?
#
# A weight does something only when its pair is drawn. If the student's $P$ gives a pair one batch in a hundred, then the
# teacher is asked for one batch in a hundred, whatever $\alpha$ is.
#
# ### Exercise 2: the share (4 minutes, difficulty 2)
#
# `p` is [2, pair], each student's own sampling probabilities; `weights` is [2, pair]. For each student, return the share of its
# batches for which a teacher is asked, that is, whose weight is above 0.
#
# <details><summary>Hint</summary>
#
# A batch of pair l is drawn with probability p[i, l]. The share of taught batches is a sum of these probabilities over the
# pairs whose weight is above 0. The size of the weight does not matter.
#
# </details>

# %% tags=["exercise"]
def distilled(p, weights):
    ### BEGIN SOLUTION
    return (p * (weights > 0)).sum(dim=1)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l08.checks.DISTILLED.check(distilled)
### BEGIN HIDDEN TESTS
l08.checks.DISTILLED.grade(distilled, seed=8)
### END HIDDEN TESTS

# %% [markdown]
# Suppose that, as expected, student 1 leads on the three large pairs and student 2 on the three small ones. Count a forward
# pass as 1, and a forward pass with its backward pass as 3. Then each student's update costs 3, and 1 more when a teacher is
# asked.

# %% tags=["hide-input"]
from pmd_lite.sampling.temperature import temperature_probabilities

wmt6 = [3_000_000, 1_500_000, 400_000, 80_000, 10_000, 5_000]
worlds = {"WMT-6": wmt6, "longtail": pmd.load_corpus("longtail").sizes}
large_and_small = torch.tensor([[1.0, 1, 1, 2, 2, 2], [2.0, 2, 2, 1, 1, 1]])  # losses
rows = []
for world, sizes in worlds.items():
    p = torch.stack([temperature_probabilities(sizes, tau) for tau in (1, 5)])
    for name, weights in (("Uni-PMD", uni_weights(large_and_small, 0.4)), ("Bi-PMD", torch.full((2, 6), 0.4))):
        one, two = l08.checks.distilled(p, weights).tolist()
        rows.append([world, name, f"{one:.1%}", f"{two:.1%}", f"{6 + one + two:.2f}"])
Table(["world", "rule", "student 1 taught in", "student 2 taught in", "passes per round"], rows)

# %% [markdown]
# **What to notice.** With Uni-PMD student 1 learns only on the pairs that it hardly ever draws: two batches in a hundred on
# WMT-6. Nearly all of Uni-PMD's distillation happens in student 2. So we expect that Uni-PMD's `model_1` differs little from
# plain $\tau=1$. By the count of this table Uni-PMD is cheaper than Bi-PMD. But the table leaves out one cost: Eq. 5 needs dev
# losses, and measuring them costs compute. On a corpus of a few thousand sentences, measuring can cost as much as the teacher's
# passes that Eq. 5 saves. The column `compute` further below counts everything.

# %% [markdown]
# ## Both learn
#
# Why should the better student listen to the worse one? The paper points to theory on *multi-view data*. A sentence can be
# understood from several clues, and each network learns to use some of them. So a network that is worse overall may still see
# clues that the better one misses. If this is true, we should be able to *see* it: among the words that the better model gets
# wrong, the worse one should get some right. To test this we need models.
#
# ## Six models
#
# We train Uni-PMD and Bi-PMD, both with $\alpha = 0.4$, and the two single models that are the twins of their students. As
# controls we train each single model a second time, with other initial weights and another order of the data.
#
# **Predict** (2 minutes). Which of the four mutual students will differ most from its twin, and which least?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Least: `model_1` of Uni-PMD, which is taught in a few batches of a hundred. Most: one of Bi-PMD's students,
# since every batch is taught.
# <!-- END ANSWER -->

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings, world = dict(steps=1200, eval_every=100), {}
if size == "ci":
    settings = dict(steps=16, eval_every=8, update_every=4, tokens=400, **tiny.MODEL)
    world = tiny.WORLD
runs_in = Path("runs") / f"lesson08-{size}"

# %%
common = dict(corpus="longtail", corpus_options=world, **settings)
methods = ("uni-pmd", "bi-pmd", "tau=5", "tau=1")
jobs = [dict(method=m, out=runs_in / m.replace("=", ""), **common) for m in methods]
# Each control begins as one single model does, and samples as the other one does.
jobs.append(dict(method="tau=5", samplers=["tau=1"], out=runs_in / "second-tau1", **common))
jobs.append(dict(method="tau=1", samplers=["tau=5"], out=runs_in / "second-tau5", **common))
uni_run, bi_run, five, one, one_again, five_again = pmd.train_side_by_side(jobs, workers=2, show=False)  # a few minutes

# %% [markdown]
# ### Exercise 3: a second opinion (4 minutes, difficulty 2)
#
# `better` and `worse` are tensors of True and False, with one entry per token: is the model's first choice the reference's
# word? Return the share of the better model's *errors* that the worse one gets right.
#
# <details><summary>Hint</summary>
#
# `~better` is True where the better model is wrong. Use it to select the entries of `worse`. The share of True values is
# their mean as floats.
#
# </details>

# %% tags=["exercise"]
def second_opinion(better, worse):
    ### BEGIN SOLUTION
    return worse[~better].float().mean()
    ### END SOLUTION


# %% tags=["check", "points:2"]
l08.checks.SECOND_OPINION.check(second_opinion)
### BEGIN HIDDEN TESTS
l08.checks.SECOND_OPINION.grade(second_opinion, seed=8)
### END HIDDEN TESTS

# %% [markdown]
# Now we compare the two single models on the dev sentences. Each pair has one bar with three parts: what the better of the two
# gets right, what *only* the worse gets right, and what both get wrong.

# %% tags=["hide-input"]
corpus = pmd.load_corpus("longtail", **world)
right = l08.second_opinions.right_tokens([(one, 0), (five, 0), (one_again, 0), (five_again, 0)], corpus)
shares, rows = {"the better model": [], "only the worse model": [], "neither": []}, []
for pair, (plain, flat, plain_again, flat_again) in right.items():
    ahead = plain.float().mean() >= flat.float().mean()
    better, worse, control = (plain, flat, plain_again) if ahead else (flat, plain, flat_again)
    good, rescued = float(better.float().mean()), float((worse & ~better).float().mean())
    for name, share in zip(shares, (good, rescued, 1 - good - rescued)):
        shares[name].append(share)
    opinions = [l08.checks.second_opinion(better, worse), l08.checks.second_opinion(better, control)]
    percent = [f"{100 * float(x):.0f}" for x in (good, worse.float().mean(), *opinions)]
    rows.append([pair, "tau=1" if ahead else "tau=5", *percent])
text = "; ".join(f"{pair} {x:.2f}, {y:.2f}" for pair, x, y in zip(right, *list(shares.values())[:2]))
l08.figures.error_shares(list(right), shares, alt=f"Share of tokens right: the better; only the worse: {text}")

# %%
columns = ["pair", "better", "it is right, %", "worse is right, %", "second opinion, %", "control, %"]
caption = ("second opinion: share of the better model's errors that the worse model gets right. "
           "control: share of the same errors that a second model with the better one's sampler gets right")
Table(columns, rows, caption=caption)

# %% [markdown]
# **What to notice.** Read the column *second opinion* first. Is it clearly above 0? Then the theory's first half holds: the worse
# model knows words that the better one gets wrong. Then read the *control*. It is a second model of the better one's sampler,
# with another seed. Where the control corrects at least as many errors as the other sampler does, the second opinion did not
# need another *sampler*: any two models disagree about what is hard. Only where the second opinion is clearly above the control
# does this table speak for different samplers.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The column is above 0 on every pair if each model makes errors of its own. Then subtract the control. In our
# run it was the higher one on all six pairs: a second model of the same sampler is better than one of the other sampler, so it
# knows more of the missing words. Disagreement alone does not need another sampler.
# <!-- END ANSWER -->

# %% [markdown]
# ## Which student learnt what
#
# Uni-PMD recorded each decision. Colours say which student learnt, from one decision until the next.

# %%
events = [line for line in uni_run.dir.metrics() if line["event"] == "uni"]
who = [l08.figures.learners(line["alpha"]) for line in events]  # [decision][pair]
decided = {pair: [row[i] for row in who] for i, pair in enumerate(uni_run.pairs)}
text = "; ".join(f"{pair}: {', '.join(row)}" for pair, row in decided.items())
at = [line["step"] for line in events]
l08.figures.who_learns(at, {"Uni-PMD, as decided": decided}, alt=f"Who learnt. {text}")

# %%
from pmd_lite.figures.runs import dev_loss_of

dev_loss_of([one, five, uni_run, bi_run])

# %% tags=["result-table"]
from pmd_lite.run import bleu_table

bleu_table([one, five, uni_run, bi_run])

# %% [markdown]
# One run of each method proves little. The stored comparison has three seeds of the same settings, with the same
# $\alpha = 0.4$:

# %%
from pmd_lite.comparing.comparison import Comparison

stored = Comparison.load(Path("results") / "compare_longtail.json")
print(stored.command)
shown = ("tau=1", "tau=5", "uni-pmd", "bi-pmd")
stored.table([label for label in stored.systems if label.split(" ")[0] in shown])

# %% [markdown]
# **What to notice.** First the coloured figure. Does a decision ever change? We expect student 2 to learn the large pairs and
# student 1 the small ones, with exceptions early in training, when the two are still close. Then the table of three seeds.
# Compare `model_1` of Uni-PMD with $\tau=1$: the shares of exercise 2 predict hardly any difference. Bi-PMD teaches every batch,
# so it can gain and lose. Look at the two loss columns of its `model_1`: is the loss lower than that of $\tau=1$ on the small
# pairs, and higher on the large ones? Does BLEU follow, and are the differences marked? A lower loss without more BLEU is
# possible, as in lessons 00 and 07.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Changes are possible where two losses cross, mostly early. `model_1` of Bi-PMD has a lower loss than $\tau=1$ on
# the small pairs (1.31 and 1.46) and a higher one on the large pairs (.26 and .21), where it listens to a worse teacher. BLEU
# follows on the large pairs only: 5.7 less, marked; on the small ones +.1. `model_1` of Uni-PMD differs by +1.4 and -.4, not marked.
# <!-- END ANSWER -->

# %% [markdown]
# Now the paper's numbers, mean BLEU of model 1 and model 2. In all four settings Bi-PMD's students are better than Uni-PMD's,
# with one exception; find it.

# %%
from pmd_lite.methods import METHODS

rows = [[name, *METHODS[name].reported] for name in ("tau=1", "tau=5", "uni-pmd", "bi-pmd")]
Table(["method", "TED-8-Diverse M2O", "TED O2M", "WMT-6 M2O", "WMT-6 O2M"], rows)

# %% [markdown]
# **What to notice.** On WMT-6 the `model_1` of Uni-PMD is hardly better than plain $\tau=1$, by 0.2 and by 0.04, and its
# `model_2` is better than plain $\tau=5$ by 1.8 and 1.1. Look at the shares of exercise 2 again: student 1 was taught in about
# two batches of a hundred, student 2 in seventy. A method can only have an effect where it does something.

# %% [markdown]
# ## A rule that is not in the paper
#
# In Eq. 5 a lead of any size decides, even one of 0.0001 that will be gone tomorrow. The program that the authors published
# uses another rule: a student stops learning a pair only if it leads by **more than 0.05 bit per token**. Inside this *dead
# zone* neither student leads, so both learn. The library has both rules. `fidelity="released"` chooses the second rule, along
# with other habits of that program.

# %%
from pmd_lite.config import FIDELITY

for name, bundle in FIDELITY.items():
    print(f"{name:8s} dead zone {bundle.dead_zone:.4f} nats, compares the {bundle.decide_by} dev loss, "
          f"distils after {bundle.start:.0%} of training")
print(f"the preset of this lesson sets its own start: it distils after {uni_run.config.distill.resolved.start:.0%}")

# %% [markdown]
# About bits and nats: a loss with $\log_2$ is in bits, one with $\ln$ in nats, and $\log_2 x = \ln x / \ln 2$. So a bit is
# $\ln 2 = 0.693$ nats, and 0.05 bit is 0.0347 nats. (The authors' program is built on fairseq, which prints losses in bits;
# PyTorch's losses are in nats.)
#
# ### Exercise 4: the dead zone (7 minutes, difficulty 3)
#
# Write the rule with a zone of any width. `losses` [2, pair] is in nats; `bits` is the width in bits. What must `bits` be for
# Eq. 5, and what for Eq. 6? The check tries both.
#
# <details><summary>Hint</summary>
#
# One bit is ln 2 nats, so convert the width first. A student stops learning a pair only if its loss is lower by more than
# the zone. All others learn.
#
# </details>

# %% tags=["exercise"]
def with_zone(losses, alpha, bits):
    ### BEGIN SOLUTION
    leads = losses + bits * math.log(2) < losses.flip(0)
    return alpha * ~leads
    ### END SOLUTION


# %% tags=["check", "points:3"]
l08.checks.ZONED.check(with_zone)
### BEGIN HIDDEN TESTS
l08.checks.ZONED.grade(with_zone, seed=8)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 5: by hand (5 minutes, difficulty 2)
#
# These losses are yours alone. Write your name, run the cell, and say for each pair which student learns under the *released*
# rule: "1", "2" or "both".
#
# <details><summary>Hint</summary>
#
# 0.05 bit is 0.0347 nats. Where the two losses are closer than that, both learn. Otherwise the student with the higher loss
# learns.
#
# </details>

# %% tags=["exercise"]
student = "your name"
table = l08.checks.my_losses(student)
learners = None
### BEGIN SOLUTION
learners = ["both" if abs(a - b) < 0.05 * math.log(2) else "1" if a > b else "2" for a, b in table]
### END SOLUTION
rows = [[pair, *row] for pair, row in zip(l08.checks.PAIRS, table)]
Table(["dev loss (nats)", "student 1", "student 2"], rows, digits=3)

# %% tags=["check", "points:2"]
l08.checks.my_learners(student).check(learners)
### BEGIN HIDDEN TESTS
l08.checks.my_learners(student).grade(learners, seed=8)
### END HIDDEN TESTS

# %% [markdown]
# Does the zone matter? The figure shows by how many bits student 2 led in our Uni-PMD run at every evaluation; the gray band is
# the zone.

# %%
steps, first = uni_run.curve("dev_loss", 0)
_, second = uni_run.curve("dev_loss", 1)
bits = {pair: [(a - b) / math.log(2) for a, b in zip(first[pair], second[pair])] for pair in uni_run.pairs}
text = ", ".join(f"{pair} {lead[-1]:+.2f}" for pair, lead in bits.items())
l08.figures.leads(steps, bits, zone=0.05, alt=f"Lead of student 2 in bits over training. At the end {text}")

# %% [markdown]
# Now we judge three couples of models by both rules, at every evaluation after distillation has begun: Uni-PMD's students,
# Bi-PMD's, and the two $\tau=1$ models, which were trained separately. (We only judge; this does not change the runs.)

# %% tags=["hide-input"]
zone = FIDELITY["released"].dead_zone
begin = round(uni_run.config.distill.start * uni_run.config.train.steps)
late = [k for k, step in enumerate(steps) if step >= begin]
couples = {"Uni-PMD's students": ((uni_run, 0), (uni_run, 1)), "Bi-PMD's students": ((bi_run, 0), (bi_run, 1)),
           "two tau=1 models": ((one, 0), (one_again, 0))}
rows = []
for name, couple in couples.items():
    found = [run.curve("dev_loss", i)[1] for run, i in couple]
    table = torch.tensor([list(of.values()) for of in found]).permute(2, 0, 1)[late]  # [evaluation, 2, pair]
    paper, released = (torch.stack([uni_weights(then, 0.4, z) for then in table]) for z in (0.0, zone))
    differ = (paper != released).any(dim=1).sum().item()
    changes = (paper[1:] != paper[:-1]).any(dim=1).sum().item()
    rows.append([name, paper[:, 0].numel(), differ, changes])
Table(["couple", "judgements", "the rules differ", "the lead changes hands"], rows)

# %% [markdown]
# **What to notice.** Compare the leads at the end of the figure with the width of the gray band. Where a lead is several times
# the zone, the two rules agree; expect this for students with different samplers. The two $\tau=1$ models are alike. Expect
# small leads there, a lead that changes hands, and two rules that differ more often. Does the table show this? The zone is a
# rule for students that are alike. With it, two equals both learn; without it, chance decides which of them does.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Compare the column "the rules differ" of the last row with the first two rows, in relation to the number of
# judgements. If the last row is much higher, the zone matters for equals. If not, even the two $\tau=1$ models differed by
# more than 0.05 bit on most pairs.
# <!-- END ANSWER -->

# %% [markdown]
# ## How large should alpha be?
#
# Both rules have one number that the experimenter must choose. The authors tried 0.2, 0.4, 0.6 and 0.8, and their published
# scripts show which values they chose:
#
# | | WMT-6 M2O | WMT-6 O2M | TED M2O | TED O2M |
# |---|---|---|---|---|
# | Uni-PMD | 0.6 | 0.2 | 0.6 | 0.4 |
# | Bi-PMD | 0.6 | 0.4 | 0.8 | 0.4 |
#
# (The last script is named after Bi-PMD but switches on the rule of Uni-PMD.) The best value differs from setting to setting.
# The paper's appendix says so too, and uses it as an argument for searching the weights automatically. We made the same
# measurement on `longtail` with the following commands, the first with one seed.

# %%
alphas = l08.alpha_grid.AlphaGrid.load(Path("results") / "alpha_longtail.json", Path("results") / "compare_longtail.json")
print("\n".join(alphas.commands))
alphas.effect("bleu")

# %%
alphas.effect("dev_loss")

# %%
print(alphas.reading())

# %% [markdown]
# **What to notice.** $\alpha = 0$ is the twin, trained alone. The points are seed 1. Bars are one standard deviation over three
# seeds, where we have them. Follow Bi-PMD to the right. If both students fall at a large $\alpha$, here is a reason: at 0.8,
# four fifths of a student's target is what the other student said, and the other student learnt it in the same way; too little
# of the target comes from a reference. Is any gain in BLEU larger than a bar? Is the best $\alpha$ for BLEU also the best for
# dev loss? Uni-PMD's `model_1` should hardly change, and we know why. (The authors chose up to 0.8 for runs of 70 epochs and
# more. Our run is short.)
#
# The mean hides the languages. Here is each pair separately: how much better was the student than its twin?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** For both students of Bi-PMD the dev loss is best at .4 and BLEU at .2. One gain in BLEU is larger than its bar:
# `model_2` at .2 has 2.8 more than its twin, whose bar is 1.9. That is one seed; repeat it before you believe it. At .8 both
# students are ruined: 15.7 and 12.9, where the twins have 44.6 and 35.6.
# <!-- END ANSWER -->

# %%
alphas.grid("bi-pmd", "dev_loss")

# %%
alphas.grid("bi-pmd", "bleu")

# %% [markdown]
# **What to notice.** Here is the trade pair by pair. Begin with the dev loss of `model_1`: which pairs gain when $\alpha$ grows,
# and which pairs pay? We expect the small pairs to gain and the large ones to pay. Find the best value for Turkish and the
# best value for French. If one is the worst value of the other, this is the strongest argument for a separate weight for each
# pair. Then read BLEU: does it gain where the dev loss falls?
#
# Here you can change the same picture. (Without a running kernel you see only the figures above.)
#
# <!-- BEGIN ANSWER -->
# **Our answer.** In `model_1` Turkish saves more dev loss the larger $\alpha$ is, up to .46 nats at .8, and French loses more, up
# to .49. So the best value for one is the worst for the other, and a single $\alpha$ is a compromise. BLEU does not follow:
# Turkish gains .9 BLEU at most. The large pairs pay in both: 53 BLEU at .8.
# <!-- END ANSWER -->

# %% tags=["widget"]
l08.widgets.alpha_grid(alphas)

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** Under Uni-PMD student 1 (tau = 1) is taught in about 2 of 100 batches. Why so few?
#
# <details><summary>A. Because alpha is small.</summary>
#
# Not so. The count asks whether a teacher is consulted, not how much weight it has.
#
# </details>
#
# <details><summary>B. Because it lags only on pairs that it seldom draws.</summary>
#
# Right. It leads on the large pairs, so it is not taught there. The small pairs, where it is taught, are rarely drawn.
#
# </details>
#
# <details><summary>C. Because its teacher is busy.</summary>
#
# Not so. Any student can be asked at any step.
#
# </details>
#
# **Question 2.** The worse model gets right 20 % of the words that the better model gets wrong. A second seed of the better
# model gets right 22 % of them. What do you conclude?
#
# <details><summary>A. Different samplers bring a second view.</summary>
#
# Not so. Another seed brings as much, so this table cannot credit the sampler.
#
# </details>
#
# <details><summary>B. Any two models disagree about what is hard; the sampler is not needed for that.</summary>
#
# Right. The control shows it. Only a share clearly above the control would speak for different samplers.
#
# </details>
#
# <details><summary>C. The worse model is useless as a teacher.</summary>
#
# Not so. It does know words that the better one misses. The question was why.
#
# </details>
#
# **Question 3.** What does the dead zone of 0.05 bit do?
#
# <details><summary>A. It keeps alpha away from 0.</summary>
#
# Not so. It says nothing about the size of alpha, only about who learns.
#
# </details>
#
# <details><summary>B. It lets both students learn a pair on which they are nearly equal.</summary>
#
# Right. Inside the zone no student leads. Without the zone, chance would decide which of two equals learns.
#
# </details>
#
# <details><summary>C. It stops distillation when the loss is low.</summary>
#
# Not so. It compares the two students, not the loss with a limit.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Eq. 5: for each pair, the student with the higher dev loss learns. Eq. 6: both students always learn.
# - A weight acts only when its pair is drawn. Under Uni-PMD student 1 is taught in 2 to 5 batches of a hundred.
# - A worse model can know words that the better one does not. A second seed can know them too, so compare with this control.
# - Uni-PMD can change little in a student that is hardly ever taught. Bi-PMD always teaches, so it can gain on some pairs and
#   pay on others.
# - The dead zone of the released program matters where students are alike, and matters little where their leads are large.
# - The best $\alpha$ need not be the same for every pair.
#
# **Where to go next.** Section 3.2 of the paper and its appendix on the effect of $\alpha$. The code is
# `pmd_lite/distillation/mutual.py`; the two sets of habits are `FIDELITY` in `pmd_lite/config/sections.py`; the tests are
# `tests/paper/test_eq05_06_strategies.py`. Lesson 09 shows how a weight can be moved, and lesson 10 shows what moves it.
