# %% [markdown]
# # 16 Beyond the paper
#
# > **You will**: train three students instead of two, write a sampler and a distiller of your own and train with them, use
# > a Hugging Face model as the student; then find out why the two factories of lesson 00 work. **Time**: five minutes on two
# > CPU cores, one hour with the exercises; the two parts can be read on two days. **Difficulty**: 4 of 5. **You need**: lessons
# > 02, 07, 08 and 10; for the second part lessons 00, 06 and 10.
#
# **Contents**: *part one* · three students · exercise: the bill · exercise: whom to listen to · a sampler of your own ·
# exercise: Resting · a distiller of your own · exercise: Council · a model of your own · *part two* · the two factories again ·
# rivals that cost less · under which conditions? · what is left · quiz ·
# takeaways

# %% [markdown]
# ## Part one: three students
#
# The paper makes two promises. Its conclusion says: "Our method can naturally apply to train more models". Its introduction
# says that the method "applies essentially to any multi-objective optimization problem". The paper tries neither. This last
# lesson tries both, on a small scale, and shows where the library is designed to be extended.
#
# Every method here consists of two choices: a *sampler* for each student, and one *distiller*. They know nothing about each
# other. So another number of students, or another mixture of samplers, needs no new code, only another list.

# %%
import math
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_kit import l16, tiny
from pmd_lite.evaluation.tables import Table

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
lesson = size == "lesson"
runs_in = Path("runs") / f"lesson16-{size}"

# %%
from pmd_lite.methods import METHODS, SAMPLERS, Method, get_method, student_labels

for samplers in (["tau=1", "tau=5", "tau=inf"], ["tau=1", "unimax", "multiuat", "tau=inf"]):
    print(student_labels(get_method("auto-pmd", samplers), tau=5.0))

# %% [markdown]
# With $m$ students there is one new decision: *which peers* does a student listen to? Eq. 4 becomes
#
# $$\mathcal{L}_i = (1-\alpha_i[\ell])\,\mathcal{L}_{ce} + \alpha_i[\ell] \sum_{j \ne i} s_{ij}[\ell]\; \mathcal{L}_{kd}(\theta_j, \theta_i), \qquad \sum_{j \ne i} s_{ij}[\ell] = 1$$
#
# with a *share* $s_{ij}$ for each peer. The library gives all peers the same share, $1/(m-1)$. But it does not add up
# losses. Since $\mathcal{L}_{kd}$ (Eq. 3) is linear in the teacher's distribution, listening to several teachers is the
# same as listening to their mean.

# %%
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, nll, pmd_loss, soft_target, token_logits

student_logp = torch.tensor([[0.7, 0.2, 0.1]]).log()
teachers = torch.tensor([[[0.5, 0.5, 0.0]], [[0.1, 0.8, 0.1]]])  # [teacher, token, word]
shares = torch.tensor([0.25, 0.75])
sum_of_losses = sum(s * kd_loss(student_logp, p) for s, p in zip(shares, teachers))
loss_of_mean = kd_loss(student_logp, (shares[:, None, None] * teachers).sum(0))
print(f"{sum_of_losses.item():.6f} = {loss_of_mean.item():.6f}")

# %% [markdown]
# ### Exercise 1: the bill (5 minutes, difficulty 2)
#
# What does one more student cost? Count forward passes of one student on one batch. Training on a batch takes 3 (one
# forward pass, and a backward pass that costs as much as two). Listening to one peer takes 1. In Auto-PMD's search, each
# student trains three trials on a share $\rho$ of the data, and the three trials share the predictions of the peers. For
# two students this makes $2\,(3+1) + 2\rho\,(3 \cdot 3 + 1) = 8 + 20\rho$ per update of both, as the table of methods says.
#
# Your own case: write your name between the quotes, run the cell, and compute the number for all your students together.
#
# <details><summary>Hint</summary>
#
# Count for one student and multiply by their number. Training: 3 for itself and 1 for each peer. Searching, on the share
# rho: three trials with 3 each, and each peer once.
#
# </details>

# %% tags=["exercise"]
student = "your name"
my_students, my_rho = l16.checks.my_plan(student)
answer = None
### BEGIN SOLUTION
peers = my_students - 1
answer = my_students * (3 + peers) + my_rho * my_students * (3 * 3 + peers)
### END SOLUTION
print(f"{my_students} students, rho = {my_rho}")

# %% tags=["check", "points:2"]
l16.checks.my_bill(student).check(answer)
### BEGIN HIDDEN TESTS
l16.checks.my_bill(student).grade(answer, seed=16)
### END HIDDEN TESTS

# %%
rows = [[m, 3 * m, m * (m + 2), m * (m + 2) + 0.1 * m * (m + 8)] for m in (1, 2, 3, 4, 6)]
rows[0] = [1, 3, None, None]
Table(["students", "alone", "taught by all", "and searched, rho = 0.1"], rows, digits=1)

# %% [markdown]
# **What to notice.** Training grows with $m$, teaching with $m^2$: with six students most of the work is listening. If you
# scale this up, let each student listen to one or two peers, not to all.
#
# Now we train three students, on four invented languages of 2,000 to 30 sentences. The distiller is Uni-PMD (Eq. 5): for
# each pair, the student that is best on it is not taught. For comparison we also train two students with the same seeds,
# and two single models. Until distillation begins, `model_1` *is* the single `tau=1` model and `model_2` *is* `tau=5`, with
# two students or three. All later differences come from the peers, and from luck.

# %%
world = dict(pairs=["fra-eng", "zho-eng", "est-eng", "tur-eng"], nouns=20, verbs=8, adjectives=4, held=50)
settings = dict(steps=600, tokens=300, eval_every=50, update_every=50)
if not lesson:
    world |= tiny.WORLD
    settings = dict(steps=16, tokens=160, eval_every=4, update_every=4, **tiny.MODEL)
jobs = [dict(method="tau=1"), dict(method="tau=5"), dict(method="uni-pmd", samplers=["tau=1", "tau=5", "tau=inf"]),
        dict(method="uni-pmd", samplers=["tau=1", "tau=5"])]  # fmt: skip
names = ["one", "five", "three", "two"]
jobs = [dict(job, corpus="longtail", corpus_options=world, out=runs_in / name, **settings) for job, name in zip(jobs, names)]
one, five, three, two = pmd.train_side_by_side(jobs, workers=2, show=False)  # a minute or two

# %%
def standing(*students):
    """Dev loss per pair and mean BLEU of (label, run, student)."""
    rows = [[label, *run.best_dev_loss(i).values(), *reversed(run.point(i))] for label, run, i in students]
    return Table(["", *one.pairs, "HRL BLEU", "LRL BLEU"], rows, digits=2,
                 caption="Dev loss in nats per token, and mean test BLEU of the two larger and the two smaller pairs")  # fmt: skip


standing(("tau=1, alone", one, 0), ("tau=1, one of two", two, 0), ("tau=1, one of three", three, 0),
         ("tau=5, alone", five, 0), ("tau=5, one of two", two, 1), ("tau=5, one of three", three, 1),
         ("tau=inf, one of three", three, 2))  # fmt: skip

# %% [markdown]
# When is each student taught? A weight of 0 means that the student leads the pair (or that distillation has not begun).

# %%
from pmd_lite.figures.runs import alphas_of

alphas_of(three)

# %%
for name, run in (("two", two), ("three", three)):
    weights = [line["alpha"][1][-1] for line in run.dir.metrics() if line["event"] == "uni"]  # model_2, the last pair
    print(f"one of {name}: model_2 is taught {run.pairs[-1]} after {sum(w > 0 for w in weights)} of {len(weights)} decisions")
for i, tau in enumerate(("tau=1", "tau=5")):
    loss = max(abs(three.best_dev_loss(i)[pair] - two.best_dev_loss(i)[pair]) for pair in two.pairs)
    bleu = max(abs(a - b) for a, b in zip(three.point(i), two.point(i)))
    print(f"{tau}: a third student changes no dev loss by more than {loss:.2f} nats, no mean BLEU by more than {bleu:.1f}")

# %% [markdown]
# **What to notice.** Look at `tur-eng`, the pair with 30 sentences. With two students, we expect `model_2` to be the better one
# there, so Eq. 5 seldom or never teaches it. With three students, it is taught whenever `model_3` is ahead. Does its loss there
# fall because of that? The last two lines say how much changes from two students to three, in nats and in BLEU. All of this is
# one seed. Remember these sizes: a placebo below shows how much luck alone can do.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Compare the three rows of $\tau=5$ in the column `tur-eng`. A lower loss "of three" than "of two" fits the
# explanation that `model_3` teaches it there. Then compare the difference with what the placebo changes: if it is no larger,
# luck explains it as well.
# <!-- END ANSWER -->

# %% [markdown]
# ### Exercise 2: whom to listen to (6 minutes, difficulty 2)
#
# Equal shares mean that a student also listens to a peer that is worse than itself. Better peers could count more. Write
# shares in proportion to $e^{-k\,\mathcal{L}_j[\ell]}$, pair by pair, over the *peers* of a student:
#
# $$s_{ij}[\ell] = \frac{e^{-k \mathcal{L}_j[\ell]}}{\sum_{j' \ne i} e^{-k \mathcal{L}_{j'}[\ell]}}, \qquad s_{ii}[\ell] = 0$$
#
# `losses` is a tensor [student, pair] of dev losses, `student` is the number $i$ of the student that listens, and
# `sharpness` is the number $k$. Return a tensor of the same shape. By hand: losses 1 and 2 of two peers and $k = 1$ give
# $1/(1+e^{-1}) = 0.731$ and $0.269$.
#
# <details><summary>Hint</summary>
#
# The softmax over the students of -k times the losses gives shares. The student itself must not take part: which score has
# the share 0? Do not change the losses that you are given.
#
# </details>

# %% tags=["exercise"]
def shares(losses, student, sharpness):
    ### BEGIN SOLUTION
    scores = -sharpness * losses
    scores[student] = -math.inf
    return torch.softmax(scores, dim=0)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l16.checks.SHARES.check(shares)
### BEGIN HIDDEN TESTS
l16.checks.SHARES.grade(shares, seed=16)
### END HIDDEN TESTS

# %%
losses = torch.tensor([list(three.best_dev_loss(i).values()) for i in range(3)])  # [student, pair]
rows = [[f"k = {k}", *l16.own_strategies.teacher_shares(losses, 0, k)[1].tolist()] for k in (0, 1, 10, 100)]
Table(["share of model_2 for model_1", *three.pairs], rows, digits=3)

# %% [markdown]
# **What to notice.** The rest goes to `model_3`. The one number $k$ leads from equal shares ($k=0$) to learning only from
# the leader. Where the numbers of a column fall, `model_3` leads; where they rise, `model_2` leads. The further apart the two
# losses are, the smaller is the $k$ that makes a clear preference: with a tenth of a nat between them, $k=10$ gives the leader
# $1/(1+e^{-1})$, about three quarters.

# %% [markdown]
# ## A sampler of your own
#
# A sampler is any class with these six methods (`pmd_lite/interfaces.py`; you need no base class):
#
# | method | when it is called | what it does |
# |---|---|---|
# | `probabilities()` | before every draw | returns $P$: [pair], float64, not negative, sums to 1 |
# | `after_step(pair, loss, tokens)` | after every batch | may record how training went |
# | `due(clock)` | after every update | says whether `update` should be called now |
# | `update(student, probe)` | when it is due | looks at the model and changes $P$; returns events for the log |
# | `state_dict()`, `load_state_dict(state)` | checkpoints | everything that is needed to continue to the same bits |
#
# A sampler never holds the model. Everything that it may see comes through the `probe`: dev losses, dev BLEU, gradients,
# uncertainty. After each such look, the weights, random numbers and dropout are as before. So a sampler cannot disturb a
# training by accident. `BaseSampler` has all six methods and never changes its $P$ by itself, so it is a good starting point:

# %%
from pmd_lite.sampling.temperature import BaseSampler, temperature_probabilities

sampler = BaseSampler(torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64))
print(sampler.probabilities(), sampler.due(None), sampler.state_dict())

# %% [markdown]
# ### Exercise 3: Resting (15 minutes, difficulty 4)
#
# In lesson 01 you saw small pairs repeated again and again, and in lesson 04 you saw dev losses that turn and rise. Here is
# an idea for a sampler. If the dev loss of a pair is above its lowest value so far, the model is learning that pair by
# heart. So let the pair *rest*:
#
# $$P(\ell) \propto N_\ell^{1/\tau}\; e^{-k\,(\mathcal{L}[\ell] - \mathcal{L}_{\min}[\ell])}$$
#
# `self.base` holds Eq. 2, and `self.lowest` holds the lowest losses. Write four methods:
#
# - `due`: true every `self.every` updates. `clock.every(n)` is true at every n-th update, and `n = 0` means once an epoch.
# - `update`: ask `probe.dev_loss(student)` ([pair], float64), update `self.lowest` (this loss included), set `self._p`, and
#   return a list of events (`[]` is enough).
# - `state_dict` and `load_state_dict`: everything that a sampler must know to continue after an interruption, as copies
#   (`.clone()`).
#
# <details><summary>Hint</summary>
#
# Follow the four points of the list. `torch.minimum` updates the lowest losses; include the present loss before you compute
# P, so that no exponent is above 0. Divide by the sum. `state_dict` needs both tensors as clones: P is computed from losses
# that a resumed run cannot see again.
#
# </details>

# %% tags=["exercise"]
class MyResting(BaseSampler):
    def __init__(self, sizes, tau=5.0, sharpness=10.0, every=0):
        super().__init__(temperature_probabilities(sizes, tau))  # sets self._p
        self.base, self.sharpness, self.every = self.probabilities(), sharpness, every
        self.lowest = torch.full((len(sizes),), math.inf, dtype=torch.float64)

    def due(self, clock):
        ### BEGIN SOLUTION
        return clock.every(self.every)
        ### END SOLUTION

    def update(self, student, probe):
        ### BEGIN SOLUTION
        losses = probe.dev_loss(student)
        self.lowest = torch.minimum(self.lowest, losses)
        weights = self.base * torch.exp(-self.sharpness * (losses - self.lowest))
        self._p = weights / weights.sum()
        return []
        ### END SOLUTION

    def state_dict(self):
        ### BEGIN SOLUTION
        return {"p": self._p.clone(), "lowest": self.lowest.clone()}
        ### END SOLUTION

    def load_state_dict(self, state):
        ### BEGIN SOLUTION
        self._p, self.lowest = state["p"].clone(), state["lowest"].clone()
        ### END SOLUTION


# %% tags=["check", "points:4"]
l16.checks.SAMPLER.check(MyResting)
### BEGIN HIDDEN TESTS
l16.checks.SAMPLER.grade(MyResting, seed=16)
### END HIDDEN TESTS

# %% [markdown]
# To train with your sampler, give it a name. `SAMPLERS` maps names to functions of three things: the training sizes, the
# configuration, and the findings of auxiliary runs (not needed here). After that, the name works wherever a sampler's name
# works: alone, or for any student of any mutual method. `Resting` is our own solution. Put `MyResting` in its place if your
# check is green. An epoch has more than a hundred updates here, so in this short run the sampler looks every 50.
#
# We also train a **placebo**: `tau=5` once more, with another seed. It has other initial weights, another order of draws and
# other dropout, and the same method. So the placebo and `tau=5` differ only by luck. (The sampler with $k=0$ would not do: a
# run draws from random numbers of its own, however often a sampler looks at it, so it would repeat `tau=5` exactly.)

# %%
from pmd_kit import pictures

SAMPLERS["resting"] = lambda sizes, config, found: l16.own_strategies.Resting(sizes, every=settings["eval_every"])
corpus = pmd.load_corpus("longtail", **world)
rested = pmd.train(corpus, "tau=5", samplers=["resting"], out=runs_in / "resting", show="off", **settings)
placebo = pmd.train(corpus, "tau=5", seed=2, out=runs_in / "placebo", show="off", **settings)
steps, p = rested.curve("p")
ranges = ", ".join(f"{pair} {min(values):.2f} to {max(values):.2f}" for pair, values in p.items())
pictures.probabilities_over_time(steps, p, alt=f"Probability of each pair over the updates: {ranges}")

# %%
standing(("tau=5", five, 0), ("placebo", placebo, 0), ("resting", rested, 0))

# %%
for name, run in (("resting", rested), ("placebo", placebo)):
    loss = max(abs(run.best_dev_loss()[pair] - five.best_dev_loss()[pair]) for pair in five.pairs)
    bleu = max(abs(a - b) for a, b in zip(run.point(), five.point()))
    print(f"{name} and tau=5 differ by up to {loss:.2f} nats on a pair, and by up to {bleu:.1f} BLEU in a mean")

# %% [markdown]
# **What to notice.** In the figure, a pair rests where its probability falls. Which pairs have rested, how much, and when? Then
# compare resting with `tau=5` in the table, and compare the placebo with `tau=5`. The placebo changed *nothing* but random
# numbers, so its difference is luck. If the difference of resting is no larger, we have found nothing. With only `tau=5` and
# resting, we might have praised resting for what luck does as well. Expect the losses to be the more stable measure.
#
# You need to know three things about names of your own. First, a run directory holds the *name*, not your code. If you
# change the class, give another `out`; otherwise `train` will return the finished run of the old class. Second, before you
# open the run later, you must register the name. Third, `train_side_by_side` and `compare` start new Python processes,
# which know nothing about your notebook. Use `train`, or put the class and its registration into a module that belongs to
# the library.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Each fall of a line is a rest; the range stands in the text of the figure. We expect the two small pairs to
# rest, and late, because their loss has turned by then. If resting is not further from `tau=5` than the placebo, the sampler
# has shown nothing.
# <!-- END ANSWER -->

# %% [markdown]
# ## A distiller of your own
#
# The distiller decides the rest. There is one distiller for all students together. It has the same `due`, `update` and
# state. The table shows what else it decides, and when you would change it:
#
# | method | decides | change it for |
# |---|---|---|
# | `weight(student, pair)` | $\alpha_i[\ell]$; at 0 no teacher runs | another rule for the weight |
# | `teachers(student, pair)` | models and their shares | other teachers: frozen ones, one peer instead of all |
# | `target(student, batch, dropout)` | what the teachers predict | a temperature, only the best k words |
# | `factors(weight)` | the factors of $\mathcal{L}_{ce}$ and $\mathcal{L}_{kd}$: Eq. 4 | another mixture |
#
# `BaseDistiller` has all methods, with weights of 0, and its `teachers` are all the peers. Suppose one finished model of
# any kind teaches a student on every pair. Then you need to write only two methods:

# %%
from pmd_lite.distillation.mutual import BaseDistiller, UniPMD


class Frozen(BaseDistiller):
    waits = False  # from the first update on: this teacher is not a beginner
    teacher = five.model()

    def __init__(self, students, n_pairs, config):
        super().__init__(students, n_pairs, config)
        self.alpha.fill_(config.alpha)

    def teachers(self, student, pair):
        return [(self.teacher, 1.0)]


# %% [markdown]
# ### Exercise 4: Council (12 minutes, difficulty 4)
#
# Build Exercise 2 into Uni-PMD, for three students or more: a student that does not lead a pair listens to its peers, with
# shares that depend on their dev loss. `UniPMD` has the weights, their `update(probe)` and their state. You add the shares.
# Write
#
# - `update`: collect `probe.dev_loss(i)` of all students into [student, pair]. Store new shares [student, teacher, pair] in
#   `self.shares`, made with `teacher_shares(losses, i, SHARPNESS)`. Let `UniPMD` do its part, and return what it returns.
# - `teachers`: a list of (model, share). A student does not belong on its own list.
# - state: everything that `UniPMD` saves, and the shares.
#
# <details><summary>Hint</summary>
#
# `super().update(probe)` and `super().state_dict()` do the part of `UniPMD`. Stack the dev losses of all students first. For
# `teachers`, go through all students but the one that learns, and give each its entry of `self.shares` for this pair, as a
# plain number.
#
# </details>

# %% tags=["exercise"]
class MyCouncil(UniPMD):
    def __init__(self, students, n_pairs, config):
        super().__init__(students, n_pairs, config)  # sets self.students
        equal = torch.zeros(len(students), n_pairs)
        self.shares = torch.stack([l16.own_strategies.teacher_shares(equal, i, 0.0) for i in range(len(students))])

    def update(self, probe):
        ### BEGIN SOLUTION
        losses = torch.stack([probe.dev_loss(i) for i in range(len(self.students))])
        self.shares = torch.stack([l16.own_strategies.teacher_shares(losses, i, l16.own_strategies.SHARPNESS) for i in range(len(losses))])
        return super().update(probe)
        ### END SOLUTION

    def teachers(self, student, pair):
        ### BEGIN SOLUTION
        shares = self.shares[student, :, pair].tolist()
        return [(model, share) for i, (model, share) in enumerate(zip(self.students, shares)) if i != student]
        ### END SOLUTION

    def state_dict(self):
        ### BEGIN SOLUTION
        return {**super().state_dict(), "shares": self.shares.clone()}
        ### END SOLUTION

    def load_state_dict(self, state):
        ### BEGIN SOLUTION
        super().load_state_dict(state)
        self.shares = state["shares"].clone()
        ### END SOLUTION


# %% tags=["check", "points:4"]
l16.checks.DISTILLER.check(MyCouncil)
### BEGIN HIDDEN TESTS
l16.checks.DISTILLER.grade(MyCouncil, seed=16)
### END HIDDEN TESTS

# %% [markdown]
# A distiller becomes a method through a row in the table of methods: its name, the samplers of its students, the class, the
# cost per update in forward passes, a few words, and its source. (Again, `Council` is our own solution.)

# %%
METHODS["council"] = Method("council", ("tau=1", "tau=5", "tau=inf"), l16.own_strategies.Council, "9 to 15", "peers by merit", "lesson 16")
council = pmd.train(corpus, "council", out=runs_in / "council", show="off", **settings)
standing(*[(f"{name}: {sampler}", run, i) for i, sampler in enumerate(METHODS["council"].samplers)
           for name, run in (("equal shares", three), ("council", council))])

# %% [markdown]
# **What to notice.** Use the placebo as your measure: is any difference between the council and equal shares larger than the
# difference that the placebo made? If not, this run does not answer whether to listen to all peers equally or by merit; and even
# a larger difference is one seed. A council is also not cheaper: a peer with a share of a thousandth costs a whole forward pass.
# If you want to continue, let `teachers` leave out shares below 0.05 and raise the others to a sum of 1.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Take the largest difference of the two rows, in nats, and compare it with the placebo's. Expect it to be of
# the same size: then the run does not answer the question.
# <!-- END ANSWER -->

# %% [markdown]
# ## A model of your own
#
# The losses need two methods of a model: `hidden(src, trg_in)` returns the last states of the decoder, and
# `project(hidden)` returns the logits. (They are separate, so that we can leave out padding before the costly projection.)
# Any sequence-to-sequence model has both under other names. The next cell gives those two methods to Hugging Face's Marian,
# the architecture of the well-known `opus-mt` translators:

# %%
from torch import nn

from pmd_lite.data.tokenizer import PAD


class Wrapped(nn.Module):
    """A Marian model of Hugging Face with the methods that our losses call."""

    def __init__(self, marian):
        super().__init__()
        self.marian = marian

    def hidden(self, src, trg_in):
        outputs = self.marian.model(input_ids=src, attention_mask=src.ne(PAD), decoder_input_ids=trg_in)
        return outputs.last_hidden_state

    def project(self, hidden):
        return self.marian.lm_head(hidden) + self.marian.final_logits_bias


# %% [markdown]
# `train` builds its students itself, so a foreign student needs its own training loop. The loop is short, because it can
# use the library's sampling, batches and losses. `teacher` is one of our finished runs. With `alpha=0` there is no
# teaching.

# %%
from pmd_lite.data.batching import PairStream, eval_batches
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.sampling.schedule import PairSchedule
from pmd_lite.training.learner import learning_rate

encoded = encode_corpus(corpus, five.tokenizer, five.config.model.max_len)


def taught(model, teacher, alpha, updates):
    """Train any model with Eq. 4 at tau=5; returns its dev loss for each pair."""
    adam = torch.optim.Adam(model.parameters())
    streams = [PairStream(split, pair, settings["tokens"], (16, pair)) for pair, split in enumerate(encoded.train)]
    schedule, p = PairSchedule((16,), "stratified"), temperature_probabilities(corpus.sizes, 5)
    for update in range(1, updates + 1):
        adam.param_groups[0]["lr"] = learning_rate(update, 4e-3, warmup=100)
        batch = streams[schedule.next(p)].next()
        logp = log_probs(token_logits(model, batch.src, batch.trg_in, batch.keep))
        target = soft_target([(teacher, 1.0)], batch.src, batch.trg_in, batch.keep)
        loss = pmd_loss(ce_loss(logp, batch.gold, 0.1), kd_loss(logp, target), alpha)
        adam.zero_grad()
        (loss / batch.tokens).backward()
        adam.step()
    model.eval()
    return [dev_loss(model, split, pair) for pair, split in enumerate(encoded.valid)]


@torch.no_grad()
def dev_loss(model, split, pair):
    batches = list(eval_batches(split, pair, 2000))
    total = sum(nll(log_probs(token_logits(model, b.src, b.trg_in, b.keep)), b.gold).item() for b in batches)
    return total / sum(b.tokens for b in batches)


# %% [markdown]
# The student is a Marian of the size of our models, with fresh weights. Nothing is downloaded. (`init_std` matters: Marian
# multiplies embeddings by $\sqrt{d}$ and adds positions. With its default of 0.02, the positions would drown the words for
# hundreds of updates.)

# %%
try:
    from transformers import MarianConfig, MarianMTModel
except ImportError:
    MarianMTModel = None
    print("The package transformers is not installed (pip install transformers): the next two cells are skipped.")


def fresh_marian():
    torch.manual_seed(16)
    width = 64 if lesson else 16
    config = MarianConfig(
        vocab_size=five.tokenizer.vocab_size, d_model=width, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width, encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=256,
        activation_function="relu", dropout=0.1, init_std=width**-0.5, scale_embedding=True, pad_token_id=PAD,
        eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    return Wrapped(MarianMTModel(config)).train()


# %%
if MarianMTModel is not None:
    marians, rows = {}, []
    for alpha in (0.0, 0.5):
        marians[alpha] = fresh_marian()
        rows.append([f"alpha = {alpha}", *taught(marians[alpha], five.model(), alpha, updates=400 if lesson else 3)])
    table = Table(["dev loss of a Marian student", *corpus.pairs], rows)
    print(table.to_text())

# %% [markdown]
# **What to notice.** Four hundred updates are few. If the loss is nearly the same on *every* pair, largest or smallest, the model
# knows English words and does not look at the source yet. Compare the two rows with the placebo above: does the teacher change
# more than luck does? What matters here is that it runs: our model teaches a model that is not ours, through the same losses.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Subtract the two rows pair by pair and compare with the placebo's differences in nats. After 400 updates
# expect no difference that is clearly larger.
# <!-- END ANSWER -->

# %% [markdown]
# The other direction is a foreign model as a *teacher* inside `train`. It needs nothing more than the class `Frozen` above.
# The library can read Hugging Face models whose layers are like ours: `from_huggingface` turns a Marian into our
# `Transformer` with the same logits. (Without the package, the teacher is our own $\tau=5$ model. Here only the mechanism
# matters, not the score.)

# %%
if MarianMTModel is not None:
    from pmd_lite.exchange.huggingface import from_huggingface

    Frozen.teacher = from_huggingface(marians[0.5].marian)
    batch = PairStream(encoded.valid[0], 0, 300, (1,)).next()
    theirs, ours = (token_logits(model, batch.src, batch.trg_in, batch.keep) for model in (marians[0.5], Frozen.teacher))
    print("equal logits:", torch.allclose(theirs, ours, atol=1e-4))
METHODS["frozen"] = Method("frozen", ("tau=1",), Frozen, "4", "one finished teacher for all pairs", "lesson 16")
short = {**settings, "steps": settings["eval_every"]}
learner = pmd.train(corpus, "frozen", out=runs_in / "frozen", show="off", score=False, **short)
print(learner.labels, {kind: spent > 0 for kind, spent in learner.cost.items() if kind in ("train", "teacher")})

# %% [markdown]
# **What is difficult about a real teacher?** A model from the hub brings its own vocabulary, and distillation word by word
# needs *one* vocabulary for teacher and student (the ids must mean the same). So train the students on the *teacher's*
# pieces. For an `opus-mt` model, `pmd.import_marian(DIR, OUT, pairs)` writes its network under our ids and its pieces as
# our tokenizer. Then `pmd.train(corpus, init=OUT)` starts every student from it, and `Imported(OUT).model()` (in
# `pmd_lite.exchange.marian`) is a teacher for `Frozen` with the same ids. Other solutions, such as training on the teacher's
# translations, need no common vocabulary.

# %% [markdown]
# ## Part two: the two factories again
#
# This part needs nothing from the first one; you may read it on another day. Lesson 00 opened with a problem without any
# language in it: two factories, 2,000 labelled parts and 40. Two networks that teach each other pushed a frontier there. Now we
# look at the code, compare with rivals that cost less, and ask *why* it works.
#
# The problem is in `lessons/pmd_kit/factories.py`. A student is a network with its own sampler and its own weights $\alpha$. An
# update is Eq. 4. The losses come from the library, which never asked whether classes are words:

# %%
import inspect

from pmd_kit import factories

print(inspect.getsource(factories.Sorter.step))

# %% [markdown]
# Algorithm 2 has a dozen lines, with the library's actions and its choice. Algorithm 1 is the loop around it. As everywhere in
# the course, we keep the weights with the lowest mean dev loss.

# %%
print(inspect.getsource(factories.search), inspect.getsource(factories.train), sep="\n\n")

# %% [markdown]
# ### Rivals that cost less
#
# We use five worlds as in lesson 00, but a harder case: only a fifth of the labels is random, not two fifths. There are two
# single students, two students that teach each other, and three controls: the same single students with label smoothing 0.2, and
# one single student whose sampler lies between the two ($\tau=2$). Distillation also makes a student less certain of its labels.
# Is that its only effect?

# %%
plans = {
    **factories.ALONE, "tau=1, smoothed": factories.Plan((1,), smoothing=0.2),
    "tau=inf, smoothed": factories.Plan((math.inf,), smoothing=0.2), "tau=2": factories.Plan((2,)), **factories.TOGETHER,
}  # fmt: skip
worlds, shorter = (range(1, 6), {}) if lesson else ([1], dict(steps=60, every=20))
found = factories.compare(worlds, plans, **shorter)
found.table()

# %% [markdown]
# Most of the spread comes from the worlds, since some are harder. All systems saw the same five worlds, so compare them
# world by world:

# %%
(one_alone, pupil_1), (even_alone, pupil_2) = factories.TWINS
smooth = ("tau=1, smoothed", "tau=inf, smoothed")
found.differences([*((pupil, alone) for alone, pupil in factories.TWINS), *zip((pupil_1, pupil_2), smooth),
                   *zip(smooth, (one_alone, even_alone)), (pupil_1, "tau=2"), (pupil_2, "tau=2")])  # fmt: skip

# %%
at = {
    label: sum(large for large, *_ in runs) / len(runs) for label, runs in found.scores.items()
}  # % right, 2,000 parts
both, free = at[pupil_2] - at["tau=inf"], at["tau=inf, smoothed"] - at["tau=inf"]
print(f"large factory: model_2 {both:+.1f} points against tau=inf alone; smoothing alone {free:+.1f}")

# %%
mean = found.points()
pupils = [mean[pupil_1], mean[pupil_2]]
rivals = {"two single": ["tau=1", "tau=inf"], "two smoothed": list(smooth), "one, tau=2": ["tau=2", "tau=2"]}
panels = {title: ([mean[name] for name in names], pupils) for title, names in rivals.items()}
told = "; ".join(f"{label} {x:.0f} and {y:.0f}" for label, (x, y) in mean.items())
pictures.frontiers(
    panels,
    "% right in the factory with 40 parts",
    "% right in the factory with 2,000 parts",
    ("rivals", "two that teach each other"),
    alt=f"Frontier of the two students against three rivals. % right in the small and the large factory, mean of the worlds: {told}",
)

# %% [markdown]
# **What to notice.** In the first panel, follow the arrow of `model_2`. Does it gain in the large factory over the single student
# with the same sampler, and does it lose anything in the small one? Then look at the other panels. Rows three and four of the
# differences say what the two students still have over the *smoothed* single students, the last two rows what they have over the
# sampler between them. The part that smoothing also gives is not to trust every label. The rest is what the peer knows.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The first two rows of the differences say in how many worlds each student gains, and by how much. Expect
# `model_2` to gain in the large factory in all of them. Whether it pays for that in the small factory is the other column of
# its row.
# <!-- END ANSWER -->

# %% [markdown]
# ### Under which conditions?
#
# `benchmarks/factories.py` changed one thing at a time, in the same five worlds, and its results are stored beside this notebook.
# The measure is the area under the frontier (lesson 06), above the 20 % of a network that guesses. The table counts the worlds
# in which the two students have the larger area. The ensemble is the mean of the two single networks' probabilities. The column
# "last update" compares all networks with their last weights instead of those with the lowest dev loss.

# %%
study = l16.conditions.Conditions.load(Path("results") / "studies" / "factories" / "cases.json")
study.table()

# %%
study.figure()

# %%
print(study.reading())

# %% [markdown]
# Why? The next table has three clues for each case: in which factory the gain lies; how far the single $\tau=\infty$ student has
# learnt its small training set by heart at the end; and on how many test parts the two single students disagree.

# %%
study.reasons()

# %% [markdown]
# **What to notice.** These sentences hold for the stored results, and a test compares them.
#
# - **Noisy labels are a condition.** A fifth of the labels is random in the base case. With clean labels the students have a
#   smaller area than two *smoothed* single networks in all five worlds, and at the last update they gain in one world of five.
#   A peer replaces a wrong label by a probability. If no label is wrong, there is nothing to correct. Smoothing stays a strong
#   rival in the base case (the students win in three worlds of five); with 40 % random labels they win in all five.
# - **Common ground is a condition.** If the sensors of the factories have nothing in common, the students lose at the last
#   update in four worlds of five. The large gain in the column before it comes from the choice of the weights (below).
# - **A teacher must know the large factory.** Two students that both draw evenly lose in all five worlds. And training must be
#   long enough: after 300 updates instead of 1,000, the students win in two worlds of five.
# - **Different samplers are not a condition.** Two students that both draw by size ($\tau=1$ twice) gain 4 % on average, where
#   $\tau=1$ and $\tau=\infty$ gain 5 % (at the last update 6 and 9 %). They differ only in their first weights and their order
#   of parts. So most of the gain is *not* what each sampler has shown to one student and not to the other.
# - **The search is not a condition.** A fixed weight of 0.5 gains 4 % on average (at the last update 6 %).
# - **A part of the gain is early stopping.** At the end, the single $\tau=\infty$ network knows all 40 parts by heart, random
#   labels included. Its mean dev loss is lowest long before that, when it has not yet learnt the large factory, and those
#   weights are kept. A taught student does not become so sure of the 40 parts, so its best weights come later. But with the last
#   weights of all networks the students still win in all five worlds of the base case.
#
# **A prediction for the languages.** Our invented languages follow fixed rules, so their labels are nearly clean, and all our
# translation models smooth their labels by 0.1 already. That would explain why there is so little to gain in lessons 00 and 12.
# A real sentence has many right translations, and a corpus gives one of them: that is noise. So we predict for real text, with
# models that are trained until they overfit the small languages: two students beat two single models, and two students with the
# *same* sampler gain most of what two with different samplers gain. The study of real text in `docs/results.md` can refute both.

# %% [markdown]
# ## What is left
#
# This lesson leaves several questions open. Each of them is a list of runs, if you have the time:
#
# - Does a third student help where models have converged and overfit, as in the paper? Test it with three seeds, at equal
#   compute, and with each student listening to one peer, so that the cost grows with $m$ and not $m^2$.
# - With a hundred languages, is one action for all of them (lesson 11) still good enough to choose from?
# - The paper's own wish is to train large language models in this way. Objectives would be domains, languages or skills.
#   The next-word distributions over 100,000 pieces would have to be cut to the best few (`md_top_k` of Multi-Distill shows
#   how).
# - Which part of any gain remains beside the cheaper controls: label smoothing, more updates, a wider model, an average of
#   checkpoints?

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** With six students that all listen to each other, how does the cost of listening grow?
#
# <details><summary>A. In proportion to the number of students.</summary>
#
# Not so. Each of the m students listens to m - 1 peers.
#
# </details>
#
# <details><summary>B. With the square of their number.</summary>
#
# Right. So let each listen to one or two peers if there are many.
#
# </details>
#
# <details><summary>C. Not at all, because peers are trained anyway.</summary>
#
# Not so. A peer's prediction needs a forward pass on the batch of the student that listens.
#
# </details>
#
# **Question 2.** Why does the lesson train a placebo?
#
# <details><summary>A. To show that the sampler works.</summary>
#
# Not so. The placebo does not use the sampler; it cannot show that.
#
# </details>
#
# <details><summary>B. To see how much luck alone changes.</summary>
#
# Right. It is the same method with other random numbers. A gain that is smaller than its difference from the original is
# not a finding.
#
# </details>
#
# <details><summary>C. To save the cost of a second seed.</summary>
#
# Not so. It costs as much as a seed, and it measures the same kind of luck.
#
# </details>
#
# **Question 3.** In the two factories, smoothed labels alone help a student. What does that say about distillation?
#
# <details><summary>A. Distillation does not work.</summary>
#
# Not so. It may give more than smoothing does; the rows that compare the students with smoothed ones say how much.
#
# </details>
#
# <details><summary>B. A part of the gain is not to trust every label; only the rest is what the peer knows.</summary>
#
# Right. A control that is free must be beaten before a gain is credited to the teacher.
#
# </details>
#
# <details><summary>C. Smoothing and distillation add up.</summary>
#
# Not so. Both make targets softer, so a part of the two effects is the same.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Samplers and distillers know nothing about each other, so three or four students are only a list of names. The cost
#   grows with the square of their number if every student listens to all others.
# - A strategy of your own is a class with six methods and one line that gives it a name. The hard part is the state: what
#   is not in `state_dict` is lost at the first interruption.
# - Any model that can return its last states and its logits can learn or teach, as long as both sides share a vocabulary.
# - The idea needs no language: the same losses, actions and searches train two factories. Compare with rivals that cost less
#   (label smoothing, another sampler, an ensemble) before you credit a gain to the teacher.
# - A placebo costs one more run and tells you how much luck there is in a table. Have one.
#
# **Where to go next.** Read the paper's conclusion and limitations. `pmd_lite/interfaces.py` has the three roles,
# `pmd_lite/methods.py` has the table of methods, and `lessons/pmd_kit/l16/own_strategies.py` has this lesson's classes.
