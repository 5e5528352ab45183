# %% [markdown]
# # 07 Learning from each other
#
# > **You will**: write the loss by which one model learns from another, see that it is the old loss with a softer target, keep
# > the gradient away from the teacher, and let two models teach each other. **Time**: about three minutes on two CPU cores,
# > most of it waiting for one cell; fifty with the exercises. **Difficulty**: 3 of 5. **You need**: lessons 02 and 04
# > (sampling, label smoothing); what a gradient is.
#
# **Contents**: a second opinion · exercise: L_kd · what the loss wants · only real tokens · exercise: the mean · two opinions,
# one target · exercise: the mixed target · a teacher that knows one word · which model gets a gradient · exercise: the
# student's loss · two students, one algorithm · exercise: one round · where two students settle · vanilla mutual distillation ·
# the paper's table and ours · quiz ·
# takeaways

# %% [markdown]
# ## A second opinion
#
# "The cat sleeps on the ..." The reference translation says *rug*. So training asks for *rug*, and treats *mat* as being as
# wrong as *of*. Another model, asked for the next word, would answer with a whole distribution: mostly rug or mat, perhaps
# sofa, surely not *of*. That answer says more than the reference does. To learn from it is called **knowledge distillation**: a
# *student* $\theta^S$ is trained towards the probabilities of a *teacher* $\theta^T$,
#
# $$\mathcal{L}_{kd} = \sum_{i \le |y|} \sum_{w \in \mathcal{V}} -\,p(w \mid x, y_{<i}; \theta^T)\,\log p(w \mid x, y_{<i}; \theta^S) \tag{Eq. 3}$$
#
# Both models read the same source and the same beginning of the *reference*; no model translates anything during training. By
# hand, for one position and three words, with the teacher at $(0.5, 0.3, 0.2)$ and the student at $(0.25, 0.5, 0.25)$: $-0.5\ln
# 0.25 - 0.3\ln 0.5 - 0.2\ln 0.25 = 0.693 + 0.208 + 0.277 = 1.178$.

# %%
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_kit import l07, tiny
from pmd_kit.listing import excerpt, listing
from pmd_lite.distillation.losses import ce_loss, kd_loss, log_probs, nll, pmd_loss, probs, soft_target, token_logits

# %%
teacher_p = torch.tensor([[0.5, 0.3, 0.2]])
student_p = torch.tensor([[0.25, 0.5, 0.25]])
print(f"{kd_loss(student_p.log(), teacher_p):.3f}")

# %% [markdown]
# ### Exercise 1: L_kd (6 minutes, difficulty 2)
#
# Write Eq. 3. `student` and `teacher` are logits of shape [tokens, vocab]. Return the sum over all tokens, in nats.
# (`torch.softmax` and `torch.log_softmax` take a `dim`.)
#
# <details><summary>Hint</summary>
#
# `log_softmax` of the student, `softmax` of the teacher, both over the vocabulary (the last axis). The sum in Eq. 3 goes
# over words and over positions, so one `.sum()` does both.
#
# </details>

# %% tags=["exercise"]
def kd(student, teacher):
    ### BEGIN SOLUTION
    target = torch.softmax(teacher, dim=-1)
    return -(target * torch.log_softmax(student, dim=-1)).sum()
    ### END SOLUTION


# %% tags=["check", "points:2"]
l07.checks.KD.check(kd)
### BEGIN HIDDEN TESTS
l07.checks.KD.grade(kd, seed=7)
### END HIDDEN TESTS

# %% [markdown]
# ## What the loss wants
#
# Take a vocabulary of two words, *rug* and *mat*. The reference is *rug*; the teacher gives *rug* a probability of 0.7. How
# high is each loss when the student gives *rug* the probability $q$? The third curve is the *KL divergence*, the usual measure
# of how different two distributions are. It is Eq. 3 minus the teacher's own entropy.

# %%
import numpy as np

q = np.linspace(0.02, 0.98, 97)
entropy = -(0.7 * np.log(0.7) + 0.3 * np.log(0.3))
soft = -(0.7 * np.log(q) + 0.3 * np.log(1 - q))
l07.figures.curves(
    q, {"reference: -log q": -np.log(q), "teacher, Eq. 3": soft, "teacher, KL divergence": soft - entropy},
    "student's probability of rug", "loss (nats)", lowest=True,
    alt="Loss over the student's probability of rug: the reference's falls to the end, "
        "the teacher's two are lowest at 0.7",
)

# %% [markdown]
# **What to notice.** The reference always asks for more: every further bit of certainty pays, on a training sentence that the model
# may have seen two hundred times. The teacher asks for 0.7 and no more. Eq. 3 and KL have the same shape, so they have the same
# gradient. But Eq. 3 is not zero where the student agrees; there it is the teacher's entropy, 0.611 here. If a curve of
# $\mathcal{L}_{kd}$ stays at 0.6, the student may be perfect.

# %% [markdown]
# ## Only real tokens
#
# The sentences of a batch have different lengths, so short ones are filled up with padding. Padding must not count: not in the
# sum, and not in the number by which we divide. The library leaves padding out *before* the output layer, which also saves the
# most expensive multiplication. In a small example you may leave it out afterwards.
#
# ### Exercise 2: the mean (6 minutes, difficulty 2)
#
# `student` and `teacher` are logits [batch, len, vocab]; `lengths` [batch] says how many positions of each row are real. Return
# the mean of $\mathcal{L}_{kd}$ per real token. (A boolean mask [batch, len] can index the first two dimensions.)
#
# <details><summary>Hint</summary>
#
# `torch.arange(len) < lengths[:, None]` is a mask of the real positions. Index with it before you compute anything: the
# result has the shape [real tokens, vocab]. Divide by the number of real tokens.
#
# </details>

# %% tags=["exercise"]
def kd_mean(student, teacher, lengths):
    ### BEGIN SOLUTION
    keep = torch.arange(student.shape[1]) < lengths[:, None]
    target = torch.softmax(teacher[keep], dim=-1)
    return -(target * torch.log_softmax(student[keep], dim=-1)).sum() / keep.sum()
    ### END SOLUTION


# %% tags=["check", "points:2"]
l07.checks.KD_MEAN.check(kd_mean)
### BEGIN HIDDEN TESTS
l07.checks.KD_MEAN.grade(kd_mean, seed=7)
### END HIDDEN TESTS

# %% [markdown]
# ## Two opinions, one target
#
# A student of Pareto-MD does not choose between reference and teacher; it listens to both. For a batch of the pair $\ell$,
#
# $$\mathcal{L}_{PMD} = (1-\alpha[\ell])\,\mathcal{L}_{ce} + \alpha[\ell]\,\mathcal{L}_{kd} \tag{Eq. 4}$$
#
# Each of the two is a cross-entropy, a sum of $-t(w)\log p^S(w)$ with some target $t$. The target of $\mathcal{L}_{ce}$ is the
# smoothed reference $r$ of lesson 04: $1-\varepsilon$ on the right word, $\varepsilon/(V-1)$ on every other. So the mixture of
# the two losses is *one* cross-entropy, and its target is the mixture of the two targets:
#
# $$t(w) = (1-\alpha)\,r(w) + \alpha\,p^T(w)$$
#
# By hand with $V = 4$, $\varepsilon = 0.1$, $\alpha = 0.4$: the right word has $r = 0.9$. If the teacher gives it $0.5$, the
# target is $0.6 \cdot 0.9 + 0.4 \cdot 0.5 = 0.74$. A word with $r = 0.1/3$ and teacher $0.3$ gets
# $0.6 \cdot 0.0333 + 0.4 \cdot 0.3 = 0.14$.
#
# ### Exercise 3: the mixed target (6 minutes, difficulty 2)
#
# `gold` [tokens] are the right words; `teacher_p` [tokens, vocab] are probabilities. Return $t$, [tokens, vocab].
# (`torch.nn.functional.one_hot` may help.)
#
# <details><summary>Hint</summary>
#
# Build the reference first: 1 - eps at the right word, eps / (V - 1) at every other. `one_hot` gives a table of 0 and 1 from
# which you can make both. Then mix the two tables.
#
# </details>

# %% tags=["exercise"]
def mixed_target(gold, teacher_p, alpha, eps):
    ### BEGIN SOLUTION
    vocab = teacher_p.shape[-1]
    right = torch.nn.functional.one_hot(gold, vocab)
    reference = right * (1 - eps) + (1 - right) * eps / (vocab - 1)
    return (1 - alpha) * reference + alpha * teacher_p
    ### END SOLUTION


# %% tags=["check", "points:2"]
l07.checks.MIXED.check(mixed_target)
### BEGIN HIDDEN TESTS
l07.checks.MIXED.grade(mixed_target, seed=7)
### END HIDDEN TESTS

# %% [markdown]
# The check computes its answer in a different way, which does not mix anything. It takes the library's two losses, asks
# autograd for the gradient on the student's logits, and reads the target from this gradient. For a cross-entropy the gradient
# is simply **what the student says minus what it should say**, $p^S - t$. Here is the same on random numbers:

# %%
torch.manual_seed(7)
student, teacher = torch.randn(5, 6, requires_grad=True), torch.randn(5, 6)
gold = torch.tensor([0, 3, 1, 5, 2])
logp, teacher_p = log_probs(student), probs(teacher)
pmd_loss(ce_loss(logp, gold, 0.1), kd_loss(logp, teacher_p), 0.4).backward()
target = l07.checks.mixed_target(gold, teacher_p, 0.4, 0.1)
difference = probs(student).double() - target
print("gradient = p_S - target:", torch.allclose(student.grad.double(), difference, atol=1e-6))
one_loss = -(target * logp).sum()
two_losses = pmd_loss(ce_loss(logp, gold, 0.1), kd_loss(logp, teacher_p), 0.4)
print("Eq. 4 = one cross-entropy:", torch.allclose(one_loss.float(), two_losses))

# %% [markdown]
# In the library, Eq. 1, 3 and 4 are three short functions. (`nll` is the plain sum of $-\log p$ of the right words.)

# %%
listing(ce_loss, kd_loss, pmd_loss)

# %% [markdown]
# Training computes the same sums in `pmd_lite/distillation/fused.py`, without the large table [tokens, vocab]. The tests compare
# the two forms.

# %%
l07.widgets.mixture("knows the scene", alpha=0.4, eps=0.1)

# %% [markdown]
# **What to notice.** The target still prefers *rug*, and now *mat* is a better mistake than *of*. Whatever the teacher says,
# the right word keeps at least $(1-\alpha)(1-\varepsilon)$ of the target. With $\varepsilon = 0.1$ and an $\alpha$ below 0.47
# no teacher, however sure and however wrong, can outweigh the reference.
#
# Here you can change the same picture. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
l07.widgets.target_slider()

# %% [markdown]
# ## A teacher that knows one word
#
# Take two special teachers. The first is *certain* of the reference: its distribution is a 1 and zeros, called one-hot. The
# second is almost certain, and gives the same small probability to every other word. What do we get when we distil from them?

# %%
one_hot = torch.nn.functional.one_hot(gold, 6).float()
unsure = one_hot * 0.9 + (1 - one_hot) * 0.1 / 5
print("one-hot teacher = cross-entropy:", torch.allclose(kd_loss(logp, one_hot), nll(logp, gold)))
print("evenly unsure = label smoothing:", torch.allclose(kd_loss(logp, unsure), ce_loss(logp, gold, 0.1)))

# %% [markdown]
# **What to notice.** Cross-entropy is distillation from a teacher that has seen the answer and knows nothing else. Label
# smoothing is the same teacher with a little modesty. So the step from here to a real teacher is not a new kind of loss. It is
# a target with more information: it is unsure *where* there is something to be unsure of. Remember this when distillation
# helps: more smoothing might have given a part of the gain as well.

# %% [markdown]
# ## Which model gets a gradient
#
# In Eq. 3 both models appear, and autograd would happily send gradients to both. The teacher's gradient would say: *become
# easier to imitate*. We do not want that of a teacher, least of all of one that is itself a student a moment later. So the
# teacher's probabilities are only numbers: the teacher's forward pass runs without a graph.
#
# ### Exercise 4: the student's loss (9 minutes, difficulty 3)
#
# `student` and `teacher` are models: called on `x` they return logits [tokens, vocab]. Return Eq. 4 as a tensor, summed over
# tokens, with plain cross-entropy to `gold` (no smoothing). After `backward()` the student must have its gradient and the
# teacher must have none. The teacher must still be able to learn later. The check looks at all of this.
#
# <details><summary>Hint</summary>
#
# Only the student's forward pass may build a graph. `torch.no_grad()` around the teacher's pass is enough. Do not switch off
# `requires_grad` of the teacher's parameters, and do not leave it in another mode: it must learn later.
#
# </details>

# %% tags=["exercise"]
def student_loss(student, teacher, x, gold, alpha):
    ### BEGIN SOLUTION
    logp = torch.log_softmax(student(x), dim=-1)
    with torch.no_grad():
        target = torch.softmax(teacher(x), dim=-1)
    ce = -logp[torch.arange(len(gold)), gold].sum()
    return (1 - alpha) * ce - alpha * (target * logp).sum()
    ### END SOLUTION


# %% tags=["check", "points:3"]
l07.checks.ISOLATION.check(student_loss)
### BEGIN HIDDEN TESTS
l07.checks.ISOLATION.grade(student_loss, seed=7)
### END HIDDEN TESTS

# %% [markdown]
# Now we do it with two real Transformers. The library's `soft_target` does one more thing: it switches the teacher's dropout
# off while the teacher computes, and then puts the teacher back into training mode. (The authors' program leaves the dropout of
# the teacher on in ordinary training steps; in our library this is a setting, `teacher_dropout`.)

# %%
from dataclasses import asdict

from pmd_lite.config import ModelConfig
from pmd_lite.data.tokenizer import PAD
from pmd_lite.model.transformer import Transformer

torch.manual_seed(7)
shape = ModelConfig(d_model=16, heads=2, encoder_layers=1, decoder_layers=1, ffn=32)
one_model, other_model = (Transformer(40, **asdict(shape), pad=PAD).train() for _ in range(2))
src, trg_in, gold = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 5)), torch.randint(4, 40, (15,))
keep = torch.arange(15)  # every position is real here

target = soft_target([(other_model, 1.0)], src, trg_in, keep)  # [tokens, vocab]
logp = log_probs(token_logits(one_model, src, trg_in, keep))
pmd_loss(ce_loss(logp, gold, 0.1), kd_loss(logp, target), alpha=0.4).backward()
for name, model in (("student", one_model), ("teacher", other_model)):
    reached = [p.grad is not None for p in model.parameters()]
    print(f"{name}: {sum(reached)} of {len(reached)} tensors have a gradient; train mode: {model.training}")

# %% [markdown]
# ## Two students, one algorithm
#
# Usually the teacher is a finished, larger model. In **mutual distillation** there is no finished model: two students are
# trained side by side, and each is the teacher of the other. Each has its own data, drawn by its own sampler, and its own
# weights $\alpha_i[\ell]$, one per language pair.

# %%
l07.figures.framework(
    ["tau=1", "tau=5"],
    alt="Two students; each learns from its own data with weight 1-alpha and from the other student "
        "with weight alpha; student 1 steps first",
)

# %% [markdown]
# That is Figure 2 of the paper in our own drawing, and this is its Algorithm 1, with the paper's numbers of lines:
#
# ```
# 1  while not converged:
# 2      t = t + 1
# 3      for each student i = 1, 2:
# 4          draw a pair l from P_i                             # each student its own
# 5          draw a batch of l
# 6          step on (1 - alpha_i[l]) L_ce + alpha_i[l] L_kd    # the teacher as it is NOW
# 7      every T updates:
# 8          renew alpha with some strategy                     # lessons 08 to 10
# ```
#
# Here is the library's form of it. First lines 3 to 6. `plan` draws the pairs and looks up their weights. `gradients` asks the
# teachers and adds up the gradients. Only then `finish` makes the step. (An update may consist of several micro-batches, each of
# one pair, as in lesson 04.)

# %%
from pmd_lite.training.step import Algorithm1
from pmd_lite.training.trainer import Trainer

listing(Algorithm1.step, Algorithm1.update, Algorithm1.plan, Algorithm1.gradients)

# %% [markdown]
# And this is the loop of lines 1 and 2. `_between_steps` does lines 7 and 8, and it evaluates and saves when it is time.

# %%
excerpt(Trainer.run, "while self.clock.step", "self._between_steps")

# %% [markdown]
# "As it is now" matters. Student 1 steps first, and the old student 2 teaches it. When it is the turn of student 2, student 1
# has already moved, and the *new* student 1 teaches. (In numerical analysis, this way is called Gauss-Seidel. If both used the
# old models, it would be Jacobi.)
#
# ### Exercise 5: one round (9 minutes, difficulty 3)
#
# These are the smallest possible students. There is one position and no network: a student *is* its logits, `z1` or `z2`,
# [vocab]. Instead of a reference each student has `data[i]`, a distribution [vocab]: how often each word follows in its own
# training sentences. Make one round of the inner loop with plain gradient descent, `z - lr * gradient`, and return the new
# `(z1, z2)`. You know the gradient: what the student says minus what it should say.
#
# <details><summary>Hint</summary>
#
# Write one function for one student's step, and call it twice. Think about which `z1` teaches in the second call: the old
# one or the new one?
#
# </details>

# %% tags=["exercise"]
def one_round(z1, z2, data, alphas, lr):
    ### BEGIN SOLUTION
    def step(student, teacher, own, alpha):
        target = (1 - alpha) * own + alpha * torch.softmax(teacher, dim=-1)
        return student - lr * (torch.softmax(student, dim=-1) - target)

    z1 = step(z1, z2, data[0], alphas[0])
    z2 = step(z2, z1, data[1], alphas[1])
    return z1, z2
    ### END SOLUTION


# %% tags=["check", "points:3"]
l07.checks.ONE_ROUND.check(one_round)
### BEGIN HIDDEN TESTS
l07.checks.ONE_ROUND.grade(one_round, seed=7)
### END HIDDEN TESTS

# %% [markdown]
# ## Where two students settle
#
# What happens to two such students in the long run? When they no longer change, each says exactly its target:
# $p_1 = (1-\alpha) d_1 + \alpha p_2$ and $p_2 = (1-\alpha) d_2 + \alpha p_1$, where $d_1$, $d_2$ are their data. If we put the
# second equation into the first, we get
#
# $$p_1 = \frac{d_1 + \alpha\, d_2}{1+\alpha}$$
#
# So **through its teacher a student learns from data it has never seen**. Suppose that in truth the three words follow with
# probabilities $(0.5, 0.3, 0.2)$, that both students have few sentences, and that their samples are wrong in opposite
# directions. By hand for $\alpha = 0.4$ and the first word: $(0.75 + 0.4 \cdot 0.25)/1.4 = 0.607$, nearer to 0.5 than the
# student's own 0.75.

# %%
truth = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
data = torch.tensor([[0.75, 0.2, 0.05], [0.25, 0.4, 0.35]], dtype=torch.float64)


def excess(z):
    return float(kd_loss(log_probs(z[None]), truth[None]) - kd_loss(truth.log()[None], truth[None]))


paths = {}
for alpha in (0.0, 0.4, 0.8, 1.0):
    z = torch.tensor([[0.2, 0.6, 0.2], [0.2, 0.2, 0.6]], dtype=torch.float64).log()
    path = [excess(z[0])]
    for _ in range(100):
        z = torch.stack(l07.checks.one_round(z[0], z[1], data, (alpha, alpha), lr=0.5))
        path.append(excess(z[0]))
    paths[f"alpha={alpha:g}"] = path
    print(f"alpha={alpha:g}: student 1 ends at {[round(p, 3) for p in probs(z)[0].tolist()]}")

# %%
l07.figures.curves(
    range(101), paths, "rounds", "student 1: loss above the best possible",
    alt="Excess loss of student 1 over 100 rounds: alpha 0 falls, then rises to 0.2; 0.4 and 0.8 end "
        "near 0; 1 stays at 0.2",
)

# %% [markdown]
# **What to notice.** Alone ($\alpha = 0$) the student comes close to the truth on its way, and then continues until it has
# memorised its few sentences. With a teacher it stays near the truth, and the larger $\alpha$ is, the nearer it ends, *up to
# but not including* 1. At $\alpha=1$ neither student listens to any data: the two agree with each other on something that
# depends only on how they began. And everything depends on an assumption that we put in by hand: that the two are wrong in
# *opposite* directions. If $d_1 = d_2$, then $p_1 = d_1$ whatever $\alpha$ is: two students of the same data have nothing to
# tell each other. If $d_2$ is simply worse, listening to it hurts. A real pair of students differs in more than its data, of
# course: in initial weights, in dropout, and in what each has learnt so far. Is that enough?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Not by itself. The differences of initial weights and dropout make two students disagree, but about the
# same data. Bi-PMD adds different samplers, and the table of this lesson's end compares the two.
# <!-- END ANSWER -->

# %% [markdown]
# ## Vanilla mutual distillation
#
# In the paper's starting point, two students have the **same** temperature and teach each other with a fixed $\alpha$. The
# paper calls this method *vanilla MD*. We train it on `longtail` with $\tau=1$ for both students and $\alpha = 0.4$. Beside it
# we train a single model that is the *twin* of its `model_1`: same initial weights, same batches, same dropout. Distillation
# begins after three tenths of the run, because a teacher that knows nothing has nothing to teach.
#
# **Predict** (2 minutes). Two students have the same sampler and share the same small corpus. Will `model_1` end with a
# lower dev loss than its twin, with a higher BLEU, with both, or with neither?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** A lower loss on the small pairs is plausible, because a soft target keeps the student from certainty. A
# higher BLEU does not follow from that.
# <!-- END ANSWER -->

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings, world = dict(steps=1200, eval_every=100), {}
if size == "ci":
    settings = dict(steps=16, eval_every=4, tokens=400, **tiny.MODEL)
    world = tiny.WORLD
runs_in = Path("runs") / f"lesson07-{size}"

# %%
common = dict(corpus="longtail", corpus_options=world, **settings)
jobs = [dict(method=m, out=runs_in / m.replace("=", ""), **common) for m in ("vanilla-md", "tau=1")]
vanilla, single = pmd.train_side_by_side(jobs, workers=2, show=False)  # a few minutes
print(vanilla.labels, "alpha", vanilla.config.distill.alpha)

# %% [markdown]
# Are they twins? Until distillation begins they must be *equal*, not similar. We compare their dev losses bit by bit:

# %%
steps, alone = single.curve("dev_loss")
_, taught = vanilla.curve("dev_loss", student=0)
same = [all(alone[pair][i] == taught[pair][i] for pair in vanilla.pairs) for i in range(len(steps))]
start = round(vanilla.config.distill.start * vanilla.config.train.steps)
print(f"distillation begins after update {start}")
print("equal to the last bit at", [step for step, yes in zip(steps, same) if yes])
print("different at", [step for step, yes in zip(steps, same) if not yes])

# %%
from pmd_lite.figures.runs import dev_loss_of

dev_loss_of([single, vanilla])

# %% tags=["result-table"]
from pmd_lite.run import bleu_table

bleu_table([single, vanilla])

# %% [markdown]
# What does `model_1` have more, or less, than its twin?

# %%
from pmd_lite.evaluation.tables import Table

rows = []
for pair, n in vanilla.sizes.items():
    bleu, loss = ([of(run)[pair] for run in (single, vanilla)] for of in (pmd.Run.bleu, pmd.Run.best_dev_loss))
    rows.append([pair, n, bleu[1] - bleu[0], loss[1] - loss[0]])
Table(["model_1 minus its twin", "training sentences", "BLEU", "dev loss, nats"], rows, digits=2)

# %% [markdown]
# **What to notice.** The twins become different once distillation has begun and not before: distillation alone causes what
# comes later. Is the dev loss of `model_1` lower (a minus) on the small pairs? Does it also have more BLEU there? And is what
# you see a finding? The comparison stored beside this notebook holds the same $\tau=1$ run with the same seed, made on another
# day:
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Expect a lower loss on the small pairs, where the twin overfits and a soft target keeps a student from
# certainty. BLEU need not follow, since the most probable word often stays the same. One run is not a finding: the
# difference must be larger than the difference between two runs of the same method, which the next cell shows.
# <!-- END ANSWER -->

# %%
from pmd_lite.comparing.comparison import Comparison

stored = Comparison.load(Path("results") / "compare_longtail.json")
before, now = stored.systems["tau=1"]["bleu"][0], single.bleu()
print(f"mean BLEU of tau=1, seed 1: {sum(before.values()) / 6:.1f} stored, {sum(now.values()) / 6:.1f} here")

# %% [markdown]
# If the two numbers differ, this is chance. Another processor or another version of the library rounds differently, or draws
# other random numbers for dropout, and training magnifies even the last bit of a number. So their distance is a first measure
# of chance: a difference of that size between two single runs is not a finding. (If they are equal, your machine has repeated
# the stored run. Then look at the spread over seeds in the table below.)
#
# Look once more at the losses themselves. `L_kd` is the loss of `model_1` against its teacher in the last stretch of training;
# `L_ce` is its loss against the smoothed reference. Both are in nats per token, on training sentences:

# %% tags=["hide-input"]
rows = []
for i, pair in enumerate(vanilla.pairs):
    drawn = [line for line in vanilla.evaluations(0) if line["train_ce"][i] is not None]
    last = drawn[-1] if drawn else None
    paid = [last["train_ce"][i], last["train_kd"][i]] if last else ["", ""]
    rows.append([pair, vanilla.sizes[pair], *paid])
eps, vocab = vanilla.config.optim.label_smoothing, vanilla.tokenizer.vocab_size
reference = torch.tensor([1 - eps] + [eps / (vocab - 1)] * (vocab - 1))
floor = -(reference * reference.log()).sum()
print(f"the lowest possible L_ce, the entropy of the smoothed reference: {floor:.2f}")
Table(["pair", "training sentences", "L_ce", "L_kd"], rows, digits=2)

# %% [markdown]
# **What to notice.** Which of the two is smaller? If it is $\mathcal{L}_{kd}$, this does not mean that the teacher is easier to
# please. Both losses have a floor, the entropy of their target, and only what lies above the floor is left to learn. The
# reference's floor is the same for every token; the teacher's floor depends on how sure the teacher is, pair by pair.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Expect $\mathcal{L}_{kd}$ to be smaller where the teacher is sure of itself. Subtract the floor from
# $\mathcal{L}_{ce}$ before you compare: what is left to learn from the reference may be little.
# <!-- END ANSWER -->

# %% [markdown]
# ## The paper's table and ours
#
# The paper asks the same question on WMT-6 (many-to-one): mean BLEU of six pairs, one run each.

# %% tags=["hide-input"]
from pmd_lite.methods import METHODS

asked = ["tau=1", "tau=5", "vanilla-md", "vanilla-md-tau", "bi-pmd", "auto-pmd"]
rows = []
for name in asked:
    samplers = [s if "=" in s else "tau=5" for s in METHODS[name].samplers]
    rows.append([name, " + ".join(samplers), METHODS[name].reported[2]])
Table(["method", "sampler of each student", "BLEU (model 1/model 2)"], rows)

# %% [markdown]
# All mutual students are above both single models. Those of vanilla MD are 0.4 to 1.4 BLEU above the single model of their own
# temperature. Bi-PMD is vanilla MD with *different* samplers and nothing else, and it gains another 0.6 to 0.8. This is the
# paper's argument for two different students. Now the same methods on `longtail`, each with three seeds (the results are
# stored; the command is printed):

# %%
print(stored.command)
mutual = [label for label in stored.systems if label.split(" ")[0] in asked[2:]]
stored.table(["tau=1", "tau=5", *mutual])

# %% [markdown]
# Here is one picture of both. Every student is compared with the single model *of the same temperature*, seed by seed. Small
# dots are seeds, the triangle is their mean. Right of the line is better in all three panels.

# %% tags=["hide-input"]
def beside_twin(label, of):
    """(the twin's mean over pairs, the student's), one number per seed each."""
    names = ("tau=1" if "(tau=1)" in label else "tau=5"), label
    return [[sum(by_pair.values()) / len(by_pair) for by_pair in stored.systems[name][of]] for name in names]


def above_twin(label, of):
    """What a student has more than its twin, one number per seed."""
    return [new - old for old, new in zip(*beside_twin(label, of))]


published = {}
for label in mutual:
    method, model, tau = label.split(" ")
    score = METHODS[method].reported[2].split("/")[int(model[-1]) - 1]
    published[label] = [float(score) - float(METHODS[tau.strip("()")].reported[2])]
panels = {
    "paper, WMT-6: BLEU": published,
    "here: BLEU": {label: above_twin(label, "bleu") for label in mutual},
    "here: dev loss saved": {label: [-x for x in above_twin(label, "dev_loss")] for label in mutual},
}
means = "; ".join(f"{label} {sum(x) / len(x):+.1f}" for label, x in panels["here: BLEU"].items())
l07.figures.gains(mutual, panels, alt=f"Paper: all students gain 0.4 to 2.5 BLEU. Here, BLEU: {means}")

# %%
from pmd_kit.l06.checks import finding

for label in mutual:
    for of, unit in (("bleu", "BLEU"), ("dev_loss", "nats of dev loss")):
        deltas, verdict = above_twin(label, of), finding(*beside_twin(label, of), smaller_is_better=of == "dev_loss")
        print(f"{label}: {sum(deltas) / len(deltas):+.2f} {unit} ({verdict})")

# %% [markdown]
# **What to notice.** In the paper every student gains. Read the lines above for our world, BLEU first: is any student above
# the line by more than noise (the rule of lesson 06, in brackets)? If the two vanilla students at $\tau=5$ lose, think of what their teachers know: both
# students see the large pairs seldom, so each has a teacher that is still learning them. Then read the dev loss, where a minus
# is a gain. Does the paper's order appear there: does the `model_1` of Bi-PMD, whose teacher samples *differently*, save more
# than the students of vanilla MD? A lower loss without a higher BLEU is a pattern that you know from lesson 00.
#
# How much does that say about the paper? Our students train for a few epochs. The paper's train for 70, and then little is left
# to learn in the ordinary way. And our BLEU comes from translations of 300 invented sentences a pair. One thing does not depend
# on the outcome: two students cost more than twice as much as one (the column `compute`), so they must gain more than one
# student would gain from as much computing.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The printed lines answer both: "better" and "worse" are more than noise. For the losses compare the `model_1`
# lines of Bi-PMD and of vanilla MD. If the one of Bi-PMD saves more, the paper's order appears in the loss. It says nothing
# about BLEU. How much it says about the paper: that an effect on the loss can exist at this size, not that it pays.
# <!-- END ANSWER -->

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** L_kd of a student stays at 0.6 nats. Is the student bad?
#
# <details><summary>A. Yes: a loss should go to 0.</summary>
#
# Not so. Eq. 3 is a cross-entropy. Its lowest value is the entropy of the teacher, which is not 0.
#
# </details>
#
# <details><summary>B. Not necessarily: this may be the teacher's own entropy.</summary>
#
# Right. What is left to learn is the part above the floor. Compare with the entropy of the teacher.
#
# </details>
#
# <details><summary>C. Yes: it should be as small as L_ce.</summary>
#
# Not so. The two have different floors. Their sizes say nothing about who is easier to please.
#
# </details>
#
# **Question 2.** Why must the teacher's probabilities come without a graph?
#
# <details><summary>A. To save memory, and for no other reason.</summary>
#
# Not so. It saves memory, too. But with a graph the teacher would be changed by the student's step.
#
# </details>
#
# <details><summary>B. Because the teacher would otherwise be trained to be easier to imitate.</summary>
#
# Right. Its own data would lose influence, and the student would be taught by something that moves towards it.
#
# </details>
#
# <details><summary>C. Because a teacher never learns.</summary>
#
# Not so. Here the teacher is a student a moment later. It learns from its own steps.
#
# </details>
#
# **Question 3.** Two students are equal in everything: data, order, initial weights and dropout. What can they teach each
# other?
#
# <details><summary>A. More than two different students, because they agree.</summary>
#
# Not so. Agreement is what makes a teacher useless: its answer is already known.
#
# </details>
#
# <details><summary>B. Almost nothing.</summary>
#
# Right. The other says what the student says already. Only what two students do not share can be passed on. (The second
# student sees a first one that is one update ahead. That is all.)
#
# </details>
#
# <details><summary>C. What one has forgotten.</summary>
#
# Not so. If all is the same, both have forgotten the same.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Distillation is cross-entropy with a soft target. With a reference beside the teacher (Eq. 4) it is still one cross-entropy.
#   Its target is the mixture of both, and the gradient on the logits is what the student says minus that mixture.
# - A teacher that knows nothing but the reference is label smoothing. A real teacher adds that it knows *where* to be unsure.
# - The teacher's probabilities are numbers without a graph. The teacher is a student itself: freeze nothing, detach.
# - In Alg. 1 the students take turns: student 2 learns from the already updated student 1.
# - Two students can give each other only what they do *not* share. In vanilla MD they have little to give; the paper's answer
#   is different samplers.
#
# **Where to go next.** Sections 2.2 and 3.1 of the paper and its table on vanilla mutual distillation. The code is
# `pmd_lite/distillation/losses.py` (Eq. 1, 3, 4), `pmd_lite/distillation/mutual.py` and `pmd_lite/training/step.py` (Alg. 1);
# the tests are `tests/paper/test_algorithm_1.py`. Lesson 08 gives the students different samplers and asks who should teach
# whom.
