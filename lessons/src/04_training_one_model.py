# %% [markdown]
# # 04 Training one model
#
# > **You will**: follow one number, the loss, from a row of probabilities to a trained model; smooth its target, divide it by
# > the right count, and let the learning rate rise and fall. Then you kill a training in the middle and bring it back to
# > exactly the same bits. **Time**: about four minutes on two CPU cores, fifty with the exercises. **Difficulty**: 2 of 5.
# > **You need**: lessons 01 and 03; logarithms; what a gradient is.
#
# **Contents**: what is minimised · exercise: perplexity · a softer target · exercise: smoothed · whose mean? · exercise:
# gradient · up and down again · exercise: rate · does it matter? · killed in the middle · exercise: checkpoint · quiz ·
# takeaways

# %% [markdown]
# ## What is minimised
#
# Lesson 03's Transformer gives every word of the vocabulary a probability. The word that really comes next is the *gold* word.
# Training makes the probability of the gold word larger: it minimises, by gradient descent,
#
# $$\mathcal{L}_{ce} = \sum_{(x,y)} \sum_{i \le |y|} -\log p(y_i \mid x, y_{<i}; \theta) \tag{Eq. 1}$$
#
# This is a sum over all tokens of all sentences. Its unit is the *nat*, because the logarithm is the natural one. By hand: the
# model gives the gold words of a sentence of three tokens 1/2, 1/4 and 1. The loss is $\log 2 + \log 4 + 0 = 3 \log 2 = 2.079$
# nats, or 0.693 per token.

# %%
from pathlib import Path

import numpy as np
import torch

import pmd_lite as pmd
from pmd_kit import l04, tiny
from pmd_lite.training.snapshot import clone, differences

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
torch.set_num_threads(1)
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
runs_in = Path("runs") / f"lesson04-{size}"

# %%
from pmd_lite.distillation.losses import ce_loss, log_probs, nll

logp = torch.tensor([[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 2, 1 / 4], [0, 0, 1]]).log()  # [tokens, vocab]
gold = torch.tensor([0, 0, 2])  # [tokens]
print(f"{nll(logp, gold):.3f} nats, {nll(logp, gold) / 3:.3f} per token")

# %% [markdown]
# What is the loss of a model that knows nothing? If it gives all $V$ words the same probability, the loss is $\log V$ per
# token. This is a useful number: a new model should start near it. If it does not, something is wrong before training begins.
# Here is a new model, on a real batch.

# %%
import math

from pmd_lite.data.batching import collate
from pmd_lite.data.tokenizer import train_tokenizer
from pmd_lite.data.tokens import encode_corpus
from pmd_lite.training.learner import Learner

corpus, config = pmd.load_corpus("longtail"), pmd.preset("toy", dropout=0.0)
tokenizer = train_tokenizer(corpus, config.tokenizer)
encoded = encode_corpus(corpus, tokenizer, config.model.max_len)
learner = Learner(tokenizer.vocab_size, config, torch.device("cpu"), seed=1)
french = encoded.train[0]

batch = collate(french, np.arange(8), pair=0)
learner.begin()
sums = learner.accumulate(batch, alpha=0.0, target=None, distiller=None, tokens=batch.tokens, micro=0)
print(f"V = {tokenizer.vocab_size}, log V = {math.log(tokenizer.vocab_size):.2f}")
print(f"nats per token of the new model: {sums[2] / batch.tokens:.2f}")

# %% [markdown]
# Nats per token are easy to train on and hard to imagine. The **perplexity** is $e$ to their power, and says the same as a
# number of words: with a perplexity of 20, the model is as unsure as if it chose evenly among 20 words. With 0.693 nats the
# perplexity is 2.
#
# ### Exercise 1: perplexity (8 minutes, difficulty 2)
#
# `logp` is `[batch, trg_len, vocab]`. `gold` is `[batch, trg_len]` and holds `pad` after the end of a sentence. Return the
# perplexity per real token of the whole batch. (What should padding contribute, above and below the fraction bar?)
#
# <details><summary>Hint</summary>
#
# `logp.gather(2, gold[:, :, None])` picks the log-probability of the gold word at every place. Padding must be missing from
# the sum and from the count by which you divide. The exponential comes last.
#
# </details>

# %% tags=["exercise"]
def perplexity(logp, gold, pad):
    ### BEGIN SOLUTION
    nats = -logp.gather(2, gold[:, :, None])[:, :, 0]
    real = gold != pad
    return math.exp(nats[real].sum() / real.sum())
    ### END SOLUTION


# %% tags=["check", "points:2"]
l04.checks.PERPLEXITY.check(perplexity)
### BEGIN HIDDEN TESTS
l04.checks.PERPLEXITY.grade(perplexity, seed=4)
### END HIDDEN TESTS

# %% [markdown]
# The library never has padding in its losses: a batch knows the places of its real tokens (`keep`, lesson 01), and only these
# tokens reach the output layer.

# %% [markdown]
# ## A softer target
#
# Eq. 1 always asks for more. A probability of 0.99 for the gold word is good, 0.999 is better, and the logits grow for ever.
# **Label smoothing** asks for a little less: it takes $\varepsilon$ of the target's probability from the gold word and shares
# it among the $V-1$ other words.
#
# $$q(w) = \begin{cases} 1-\varepsilon & w = y_i \\ \varepsilon/(V-1) & \text{otherwise} \end{cases}
# \qquad \mathcal{L} = -\sum_w q(w) \log p(w)$$
#
# The paper writes Eq. 1 and lists "label smoothing as 0.1" in its appendix C. Where you read $\mathcal{L}_{ce}$, the training
# uses the smoothed loss. By hand, with $V=5$, $\varepsilon=0.1$ and gold word 2: the row is (0.025, 0.025, 0.9, 0.025, 0.025).
#
# ### Exercise 2: the smoothed target (5 minutes, difficulty 1)
#
# Make the table for `gold`, `[tokens]`: return a tensor `[tokens, vocab]` with a row $q$ for each token.

# %% tags=["exercise"]
def smoothed(gold, vocab, eps):
    ### BEGIN SOLUTION
    target = torch.full((len(gold), vocab), eps / (vocab - 1))
    target[torch.arange(len(gold)), gold] = 1 - eps
    return target
    ### END SOLUTION


# %% tags=["check", "points:2"]
l04.checks.SMOOTHED.check(smoothed)
### BEGIN HIDDEN TESTS
l04.checks.SMOOTHED.grade(smoothed, seed=4)
### END HIDDEN TESTS

# %% [markdown]
# With a vocabulary of 64,000 it is not necessary to fill such a table. All words but one have the same weight, so two sums are
# enough. The library's `ce_loss` and the table agree:

# %%
logp = log_probs(torch.randn(6, 9, generator=torch.Generator().manual_seed(4)))
gold = torch.tensor([0, 3, 3, 8, 1, 5])
q = l04.checks.smoothed_target(gold, 9, 0.1)
print(torch.allclose(-(q * logp).sum(), ce_loss(logp, gold, 0.1)))

# %% [markdown]
# What does smoothing change? Take one token. Let the model give the gold word $p$, and share the rest evenly among the other
# words:

# %%
doubts = np.logspace(-4, -0.05, 160)
l04.figures.loss_of_confidence(
    (1 - doubts).tolist(), [0, 0.1, 0.3], 400,
    alt="Loss over confidence: it falls to 0 without smoothing; with 0.1 and 0.3 it is lowest at 0.9, 0.7",
)

# %% [markdown]
# **What to notice.** With $\varepsilon=0$ more confidence always pays. With $\varepsilon=0.1$ the best probability is 0.9, and
# more confidence costs. The lowest value is not 0 but the *entropy* of the target, here about 0.9 nats, so we cannot compare
# smoothed losses with plain ones. For this reason our dev losses, in every lesson, are plain nats per token, whatever loss the
# model was trained on.

# %% [markdown]
# ## Whose mean?
#
# Eq. 1 is a sum, and a sum grows with the batch. So we divide it; but by what? We divide by the number of real target tokens.
# Then every *token* has the same weight, in a long sentence as in a short one.
#
# The paper's batch is 64K tokens. Where so large a batch does not fit into the memory of a device, the solution is **gradient
# accumulation**: we compute the gradients of several *micro-batches*, add them up, and make one update. The result equals that
# of the large batch only if we divide each micro-batch by the tokens of *all of them together*. By hand: two micro-batches have
# 1 and 3 tokens, with losses 4, and 1, 1, 1. The mean over all tokens is 7/4 = 1.75. The mean of the two means is (4 + 1)/2 =
# 2.5: here the single token counts three times as much as any other.
#
# ### Exercise 3: the gradient of an update (10 minutes, difficulty 3)
#
# Here the model is one matrix. `weight` is `[features, vocab]`; `batches` is a list of micro-batches `(x, gold)` with `x` of
# shape `[tokens, features]`; the logits are `x @ weight`. Return the gradient of the mean loss over all tokens of all
# micro-batches (plain cross-entropy, no smoothing). Use one forward and backward pass per micro-batch. You may use
# `torch.nn.functional.cross_entropy` and `torch.autograd.grad` or `.backward()`. Do not change the `weight` that you are given.
#
# <details><summary>Hint</summary>
#
# Count the tokens of all micro-batches before the loop. Use `reduction="sum"`, so that you divide once and by the right
# number. `backward()` adds to the gradient that is already there; work on a copy of `weight` that requires a gradient.
#
# </details>

# %% tags=["exercise"]
def gradient(weight, batches):
    ### BEGIN SOLUTION
    weight = weight.clone().requires_grad_()
    tokens = sum(len(gold) for _, gold in batches)
    for x, gold in batches:
        loss = torch.nn.functional.cross_entropy(x @ weight, gold, reduction="sum")
        (loss / tokens).backward()  # backward adds to weight.grad
    return weight.grad
    ### END SOLUTION


# %% tags=["check", "points:3"]
l04.checks.GRADIENT.check(gradient)
### BEGIN HIDDEN TESTS
l04.checks.GRADIENT.grade(gradient, seed=4)
### END HIDDEN TESTS

# %% [markdown]
# Now the same with the real model. We take four short sentences and twelve long ones, as one batch and as two micro-batches. We
# tell the library's `Learner.accumulate` how many tokens the whole update has.

# %%
by_length = np.argsort(french.trg.lengths, kind="stable")
short, long = by_length[:4], by_length[-12:]


def update_gradient(parts, divide_by=None):
    learner.begin()
    batches = [collate(french, rows, pair=0) for rows in parts]
    total = sum(batch.tokens for batch in batches)
    for micro, batch in enumerate(batches):
        tokens = total if divide_by is None else divide_by(batch, len(batches))
        learner.accumulate(batch, 0.0, None, None, tokens, micro)
    return torch.cat([p.grad.flatten() for p in learner.model.parameters()])


whole = update_gradient([np.concatenate([short, long])])
accumulated = update_gradient([short, long])
mean_of_means = update_gradient([short, long], divide_by=lambda batch, n: n * batch.tokens)
for name, other in (("accumulated", accumulated), ("mean of means", mean_of_means)):
    off = ((other - whole).norm() / whole.norm()).item()
    print(f"{name}: {'equal up to rounding' if off < 1e-4 else f'off by {off:.0%} of its length'}")

# %% [markdown]
# **What to notice.** The wrong gradient is not just too small or too large. It points in another direction, and no error
# message says so. In a multilingual model the fault does more harm. Each micro-batch holds one language pair. A pair with
# short sentences, or the tiny last batch of a small corpus, would have more influence than its sampling probability says. (The
# authors' code divides by all target tokens of all its GPUs, as we do. The argument `micro` above is there for dropout, which
# needs a different random mask in every micro-batch.)

# %% [markdown]
# ## Up and down again
#
# Adam divides each step by the size of recent gradients. At the first update it has seen one gradient and knows nothing: every
# weight moves by the full learning rate, in a direction that one batch suggests. So training begins with small steps; this is
# the **warm-up**. Later, when there is less to find, the steps become smaller again. The usual schedule is that of Vaswani et
# al. (2017), a straight line up and an inverse square root down:
#
# $$\eta(t) = \eta_{peak} \cdot \min\left(\frac{t}{w}, \sqrt{\frac{w}{t}}\right), \qquad t = 1, 2, \dots \text{ counts updates.}$$
#
# By hand, with $\eta_{peak} = 0.004$ and $w = 150$: at $t=75$ the rate is half of the peak, 0.002. At $t=600$, four times the
# warm-up, it is again half of the peak.
#
# ### Exercise 4: rate (4 minutes, difficulty 1)
#
# Write $\eta(t)$. `t` is the number of the update, counted from 1; `peak` is the highest rate, and `warmup` is the number of
# updates $w$ after which it is reached. Return the rate as a number.

# %% tags=["exercise"]
def rate(t, peak, warmup):
    ### BEGIN SOLUTION
    return peak * min(t / warmup, math.sqrt(warmup / t))
    ### END SOLUTION


# %% tags=["check", "points:1"]
l04.checks.RATE.check(rate)
### BEGIN HIDDEN TESTS
l04.checks.RATE.grade(rate, seed=4)
### END HIDDEN TESTS

# %% [markdown]
# Here is a schedule with half the peak and a longer warm-up, beside the schedule of the toy preset:

# %%
l04.figures.rate_figure(peak=0.002, warmup=400)

# %% [markdown]
# **What to notice.** Left of the top, the warm-up decides the slope. Right of it only the product $\eta_{peak}\sqrt{w}$ counts.
# Two schedules with the same product have the same tail: a peak of 0.004 with a warm-up of 150 ends like a peak of 0.049 with a
# warm-up of 1, which is the same curve without its warm-up.
#
# Here you can change the same picture. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
l04.figures.rate_sliders()

# %% [markdown]
# Vaswani et al. write the same schedule with $d_{model}^{-1/2}$ instead of a peak. For a model of 512 and a warm-up of 4,000:

# %%
vaswani = 512**-0.5 * min(4000**-0.5, 4000 * 4000**-1.5)
print(f"their peak: {vaswani:.4f}; the paper's: 0.0015, {0.0015 / vaswani:.1f} times as much")

# %% [markdown]
# Appendix C gives the peak, 0.0015, and says "the same learning rate schedule as Vaswani et al."; it does not say how long the
# warm-up is. The released scripts use 4,000 updates. The table shows the values of the appendix (`wmt6`) beside the two presets
# that we use most:

# %% tags=["hide-input"]
from pmd_lite.config import PRESETS
from pmd_lite.evaluation.tables import Table, mean_spread

rows = []
for name in ("wmt6", "small", "toy"):
    optim, train, model = PRESETS[name].optim, PRESETS[name].train, PRESETS[name].model
    rows.append([name, f"{optim.lr:g}", optim.warmup, str(optim.betas), f"{optim.label_smoothing:g}",
                 train.tokens * train.accumulate, f"{model.dropout:g}"])  # fmt: skip
columns = ["preset", "peak", "warm-up", "Adam's betas", "smoothing", "tokens an update", "dropout"]
Table(columns, rows)

# %% [markdown]
# **What to notice.** Betas and smoothing are the same everywhere. Peak, warm-up and batch are not; they belong together. The
# toy model is tiny and tolerates a larger learning rate. It also needs one, because its updates are few and small. "Batch size
# 64K" is 8 micro-batches of 8,192 tokens here, on any number of devices.

# %% [markdown]
# ## Does it matter?
#
# We train the same model in four ways on the six toy languages, all with $\tau=5$ and the same number of tokens:
#
# - *as it should be*: the toy preset;
# - *no label smoothing*: $\varepsilon = 0$;
# - *no warm-up*: the same learning rates, except in the first 150 updates, which follow $0.049/\sqrt{t}$ as all others do;
# - *four micro-batches*: a quarter of the updates, each of four micro-batches, and a quarter of the warm-up.
#
# We train each with two seeds, because one seed shows no spread. This takes a few minutes.
#
# **Predict** (2 minutes). Before you run the next cell, order the four trainings by their dev loss at the end. Which
# difference will be smaller than that of two seeds?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** We expected the preset first, and the missing warm-up or the fewer updates last. Label smoothing is the
# difference that two seeds may not be able to show. Compare with the lines that the program prints; if they contradict you,
# ask which of your reasons was wrong.
# <!-- END ANSWER -->

# %%
steps, every = (600, 60) if size == "lesson" else (12, 4)
world, small = {}, {}
if size == "ci":  # a smaller world, too
    world = tiny.WORLD
    small = dict(vocab_size=90, d_model=16, ffn=32)
variants = {
    "as it should be": {},
    "no label smoothing": dict(label_smoothing=0.0),
    "no warm-up": dict(lr=0.004 * math.sqrt(150), warmup=1),
    "four micro-batches": dict(steps=steps // 4, eval_every=every // 4, warmup=38, accumulate=4),
}
common = dict(corpus="longtail", corpus_options=world, method="tau=5", score=False)
jobs = []
for name, change in variants.items():
    for seed in (1, 2):
        settings = {"steps": steps, "eval_every": every, "seed": seed, **small, **change}
        jobs.append({**common, "out": runs_in / f"{name.replace(' ', '-')}-seed{seed}", **settings})
runs = pmd.train_side_by_side(jobs, workers=2, show=False)
trained = {name: runs[2 * i : 2 * i + 2] for i, name in enumerate(variants)}

# %%
read, means = {}, {}
for name, of in trained.items():
    read[name] = np.cumsum([sum(line["tokens"]) for line in of[0].evaluations()]).tolist()
    means[name] = [[np.mean(line["dev_loss"]) for line in run.evaluations()] for run in of]
ends = "; ".join(f"{name} {np.mean([curve[-1] for curve in curves]):.2f}" for name, curves in means.items())
l04.figures.losses_over(read, means, alt=f"Dev loss over tokens read, two seeds each. At the end: {ends}")

# %% [markdown]
# The table shows the end of these curves. For the largest and the smallest pair it also shows the loss on the training
# sentences, measured since the evaluation before:

# %% tags=["hide-input"]
def at_the_end(of, kind, pair):
    found = [run.evaluations()[-1][kind][pair] for run in of]
    known = [loss for loss in found if loss is not None]  # None: not drawn since the last evaluation
    return mean_spread(known) if known else None


rows = []
for name, of in trained.items():
    overall = mean_spread([np.mean(run.evaluations()[-1]["dev_loss"]) for run in of])
    by_pair = [at_the_end(of, kind, pair) for pair in (0, 5) for kind in ("train_nll", "dev_loss")]
    rows.append([name, overall, *by_pair])
columns = ["training", "dev, all pairs", "fra train", "fra dev", "tur train", "tur dev"]
caption = "Nats per token at the last evaluation, mean and standard deviation over two seeds"
Table(columns, rows, caption=caption)

# %%
usual, *others = means
for name in others:
    ahead = [np.mean([curve[k] for curve in means[name]]) - np.mean([curve[k] for curve in means[usual]]) for k in (0, -1)]
    noise = max(np.ptp([curve[-1] for curve in means[which]]) for which in (usual, name))
    verdict = "more than two seeds differ" if abs(ahead[1]) > noise else "no more than two seeds differ: no finding"
    print(f"{name}, against the preset: {ahead[0]:+.2f} nats at the first evaluation, {ahead[1]:+.2f} at the last ({verdict})")

# %% [markdown]
# **What to notice.** The lines above say what each change did in *your* runs; a minus means a lower loss. Read them so:
#
# - *No warm-up*: compare the first number with the second. Large steps can make the loss fall fast at first, and they can lead
#   to a place that the training does not leave within 600 updates. Then a lead at the beginning becomes a deficit at the end.
# - *Four micro-batches*: this training reads the same text in a quarter of the steps. A deficit means that it made too few
#   steps. Large updates are useful if you can compute their parts side by side; they also need a larger learning rate, which
#   they did not get here.
# - *No label smoothing*: if the difference is no larger than the difference between two seeds, two seeds cannot show an effect
#   on the dev loss.
#
# Now look at the two pairs of the table. A training loss *above* the dev loss, as you may see on French, is not a mistake: the
# training loss is measured with dropout on, and over a period in which the model was still improving. A training loss far
# *below* the dev loss means that the model has memorised its sentences. Turkish has thirty sentences, so look for it there. A
# training that has fallen behind may not have got so far. (Curves for each pair, and what to do about small ones, fill the rest
# of the course.)

# %% [markdown]
# ## Killed in the middle
#
# Trainings die: the notebook is closed, the machine restarts, the time on the cluster is over. A checkpoint on disk brings the
# weights back. But the weights are a model, not a training. To find out what else a training needs, take one that is so small
# that you can read it at a glance:

# %%
from pmd_kit.listing import listing

listing(l04.small_training.SmallTraining)

# %% [markdown]
# ### Exercise 5: checkpoint (12 minutes, difficulty 3)
#
# Return a dictionary with everything that a *new process* needs to continue as if nothing had happened. `load` restores what it
# finds under these names: `weights`, `optimizer`, `updates`, `order`, `generator`, `lr`. Five of them are needed and one is
# not. (A `torch.Generator` has `get_state()`, an optimiser `state_dict()`.)
#
# The check really does this. It trains, calls your function, and *continues to train*. Then it makes a new training, loads what
# you returned, repeats the same updates, and compares the weights bit by bit. So ask yourself: what happens to a tensor in your
# dictionary while the training continues?
#
# <details><summary>Hint</summary>
#
# `state_dict()` and an attribute such as `training.weights` are the living tensors: they change while the training
# continues. `clone` of this lesson's first cell copies a dictionary with everything in it. Which of the six names can be
# computed from another one?
#
# </details>

# %% tags=["exercise"]
def checkpoint(training):
    ### BEGIN SOLUTION
    return clone(
        {
            "weights": training.weights,
            "optimizer": training.optimizer.state_dict(),
            "updates": training.updates,
            "order": training.order,
            "generator": training.generator.get_state(),
        }
    )
    ### END SOLUTION


# %% tags=["check", "points:3"]
l04.checks.CHECKPOINT.check(checkpoint)
### BEGIN HIDDEN TESTS
l04.checks.CHECKPOINT.grade(checkpoint, seed=4)
### END HIDDEN TESTS

# %% [markdown]
# Why does each of the five matter? We make the same restart and forget one part at a time. How far are the weights from where
# they should be?

# %%
right = l04.small_training.restarted(l04.small_training.checkpoint, seed=1, before=7, after=5)
rows = []
for name in ("weights", "optimizer", "updates", "order", "generator"):

    def all_but_one(training, name=name):
        return {part: value for part, value in l04.small_training.checkpoint(training).items() if part != name}

    off = l04.small_training.restarted(all_but_one, seed=1, before=7, after=5) - right
    rows.append([name, off.abs().max().item()])
Table(["forgotten", "largest difference of a weight"], rows, digits=3)

# %% [markdown]
# **What to notice.** Whichever part is missing, the weights end elsewhere. The size of the difference is not a measure of the
# damage. (The new training begins from the same seed, so even its *untrained* weights are only a few updates away from the
# right ones.) And no error message appears. A real training without its weights starts again from a high loss, so you can see
# that. A training without Adam's moments, the order or the random generator looks perfectly healthy, but it is a different one.
# This matters more here than elsewhere. Auto-PMD makes *trials*, short trainings that must be undone without a trace (lesson
# 10). The released code did not undo them completely, because it kept references.
#
# The library has fewer things to remember. It draws the dropout of every update from a seed made of (seed, update,
# micro-batch), and the order of a pass from (seed, pair, pass). A number that can be computed again need not be saved, and
# cannot be forgotten.
#
# Now a real training. A second process trains. As soon as it has written its first checkpoint we kill it, whatever it is
# doing, with a signal that no program can catch.

# %%
import os
import shutil
import subprocess
import sys
import time

short_run = dict(steps=60, eval_every=10, d_model=32, beam=1)
if size == "ci":
    short_run = dict(steps=6, eval_every=3, d_model=16, encoder_layers=1, decoder_layers=1, beam=1)


def start(place):
    """Train in a process of its own: python -m pmd_lite train --method tau=5 --out PLACE ..."""
    command = [sys.executable, "-m", "pmd_lite", "train", "--method", "tau=5", "--no-score"]
    command += ["--out", str(place)]
    for name, value in short_run.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **quiet)


killed, undisturbed = runs_in / "killed", runs_in / "undisturbed"
shutil.rmtree(killed, ignore_errors=True)
process = start(killed)
while process.poll() is None and not (killed / "checkpoint" / "LATEST").exists():
    time.sleep(0.01)
process.kill()
process.wait()
print("had it finished when it was killed?", pmd.Run(killed).dir.finished)

# %% [markdown]
# The same command, started again, continues from the files that are left. Beside it we train a run that nothing disturbs.

# %%
for place in (killed, undisturbed):
    print(place.name, "ended with status", start(place).wait())

weights, others = [], []
for place in (killed, undisturbed):
    models, state = pmd.Run(place).dir.load_checkpoint()
    print(place.name, "ended at update", state["step"])
    weights.append(models)
    others.append(state["students"])
print("weights that differ in any bit:", list(differences(*weights)))
print("anything else (Adam, data, schedule) that differs:", list(differences(*others)))

# %% [markdown]
# **What to notice.** Two empty lists. The training saves everything, and it also writes its files with care. It writes each
# file under a temporary name, flushes it to disk, and then renames it. A checkpoint counts only from the moment when the little
# file `LATEST` names it. So a kill between any two operations leaves the old checkpoint or the new one, never half of one.
# `tests/paper/test_resume.py` tries every such moment.
#
# All work in this course is kept in run directories. Here is what such a directory holds.

# %%
files = [path.relative_to(killed) for path in killed.rglob("*") if path.is_file() and path.name[0] != "."]
print("\n".join(sorted(path.as_posix() for path in files)))

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** A new model with a vocabulary of 400 pieces has a loss of 12 nats per token. What do you do?
#
# <details><summary>A. Train: the loss will fall.</summary>
#
# Not so. log 400 is about 6, the loss of a model that knows nothing. This one is surer than that, and wrong; something is
# broken.
#
# </details>
#
# <details><summary>B. Look for a mistake before you train.</summary>
#
# Right. A new model should start near log V. Twice as much means large logits at the start, or a loss that counts something
# twice.
#
# </details>
#
# <details><summary>C. Lower the learning rate.</summary>
#
# Not so. No step has been made yet, so the rate cannot be the cause.
#
# </details>
#
# **Question 2.** Why is the dev loss of this course a plain one, although training smooths the target?
#
# <details><summary>A. Because a smoothed loss has a floor that depends on epsilon, so losses could not be compared.</summary>
#
# Right. A perfect student of a smoothed target does not reach 0. Plain nats mean the same for every setting.
#
# </details>
#
# <details><summary>B. Because the dev set has no gold words.</summary>
#
# Not so. It has references like the training set; otherwise there would be no loss at all.
#
# </details>
#
# <details><summary>C. Because smoothing would let the model cheat.</summary>
#
# Not so. It is not cheating, only another target with another lowest value.
#
# </details>
#
# **Question 3.** You restart a training from its weights alone. What happens?
#
# <details><summary>A. An error: the optimizer is missing.</summary>
#
# Not so. A new optimizer starts without complaint. This is why the fault is hard to see.
#
# </details>
#
# <details><summary>B. Nothing: the weights are the model.</summary>
#
# Not so. They are the model, but not the training. Adam's moments, the schedule and the order of the data begin again.
#
# </details>
#
# <details><summary>C. It looks healthy, and it is another training.</summary>
#
# Right. No message appears. You find it by comparing bits with a run that was not interrupted.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - The loss is a sum of nats over real target tokens; perplexity is $e$ to its mean. An untrained model has a loss of about
#   $\log V$ per token.
# - Label smoothing asks for $1-\varepsilon$ instead of certainty. Smoothed and plain losses cannot be compared; we report plain
#   ones.
# - Accumulation equals the large batch if every part is divided by the tokens of the whole update.
# - The learning rate first rises (warm-up), then falls as an inverse square root. The right peak depends on the model size and
#   the batch size.
# - A checkpoint holds everything on which the next update depends, as copies: weights, Adam, counters, place in the data,
#   random numbers.
#
# **Where to go next.** Eq. 1 is in section 2 of the paper, the settings are in appendix C. The code is
# `pmd_lite/distillation/losses.py` (the form to read), `pmd_lite/training/learner.py`, `rundir.py` and `snapshot.py`. In lesson
# 05 the trained model translates.
