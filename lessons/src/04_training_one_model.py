# %% [markdown]
# # 04 Training one model
#
# > **You will**: follow one number, the loss, from a row of probabilities to a trained model; smooth its target, normalise it
# > by the right count, let the learning rate rise and fall; then kill a training in the middle and bring it back to the very
# > same bits. **Time**: about four minutes on two CPU cores, fifty with the exercises. **Difficulty**: 2 of 5. **You need**:
# > lessons 01 and 03; logarithms; what a gradient is.
#
# **Contents**: what is minimised · exercise: perplexity · a softer target · exercise: smoothed · whose mean? · exercise:
# gradient · up and down again · exercise: rate · does it matter? · killed in the middle · exercise: checkpoint · takeaways

# %% [markdown]
# ## What is minimised
#
# Lesson 03's Transformer gives every word of the vocabulary a probability. Training makes the probability of the word that
# really comes next, the *gold* word, larger, by descending on
#
# $$\mathcal{L}_{ce} = \sum_{(x,y)} \sum_{i \le |y|} -\log p(y_i \mid x, y_{<i}; \theta) \tag{Eq. 1}$$
#
# A sum over all tokens of all sentences, in *nats*, because the logarithm is the natural one. By hand: the model gives the
# gold words of a sentence of three tokens 1/2, 1/4 and 1. The loss is $\log 2 + \log 4 + 0 = 3 \log 2 = 2.079$ nats, or 0.693 per
# token.

# %%
from pathlib import Path

import numpy as np
import torch

import pmd_lite as pmd
from pmd_kit import l04
from pmd_lite.training.snapshot import clone, differences

# %%
torch.set_num_threads(1)
size = None  # papermill: -p size ci

# %% tags=["parameters"]
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
runs_in = Path("runs") / f"lesson04-{size}"

# %%
from pmd_lite.distillation.losses import ce_loss, log_probs, nll

logp = torch.tensor([[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 2, 1 / 4], [0, 0, 1]]).log()  # [tokens, vocab]
gold = torch.tensor([0, 0, 2])  # [tokens]
print(f"{nll(logp, gold):.3f} nats, {nll(logp, gold) / 3:.3f} per token")

# %% [markdown]
# What does a model lose that knows nothing? If it gives all $V$ words the same probability, $\log V$ per token. That is a
# useful number: a freshly made model should start near it, and if it does not, something is wrong before training begins. Here
# is one, on a real batch.

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
sums = learner.accumulate(batch, alpha=0.0, target=None, mixture=None, tokens=batch.tokens, micro=0)
print(f"V = {tokenizer.vocab_size}, log V = {math.log(tokenizer.vocab_size):.2f}")
print(f"nats per token of the new model: {sums[2] / batch.tokens:.2f}")

# %% [markdown]
# Nats per token are easy to train on and hard to imagine. The **perplexity**, $e$ to their power, says the same as a number of
# words: a perplexity of 20 is the doubt of somebody who chooses evenly among 20. With 0.693 nats it is 2.
#
# ### Exercise 1: perplexity (8 minutes, difficulty 2)
#
# `logp` is `[batch, trg_len, vocab]`, `gold` is `[batch, trg_len]` and padded with `pad` where a sentence is over. Return the
# perplexity per real token of the whole batch. (What should padding contribute, above and below the fraction bar?)

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
# The library never has padding in its losses: a batch knows the places of its real tokens (`keep`, lesson 01), and only they
# reach the output layer.

# %% [markdown]
# ## A softer target
#
# Eq. 1 is never content. 0.99 for the gold word is good, 0.999 is better, and the logits grow for ever. **Label smoothing** asks
# for a little less: of the target's probability, $\varepsilon$ is taken from the gold word and shared by the $V-1$ others.
#
# $$q(w) = \begin{cases} 1-\varepsilon & w = y_i \\ \varepsilon/(V-1) & \text{otherwise} \end{cases}
# \qquad \mathcal{L} = -\sum_w q(w) \log p(w)$$
#
# The paper writes Eq. 1 and lists "label smoothing as 0.1" in its appendix C; where you read $\mathcal{L}_{ce}$, the training means
# this. By hand, $V=5$, $\varepsilon=0.1$, gold word 2: the row is (.025, .025, .9, .025, .025).
#
# ### Exercise 2: the smoothed target (5 minutes, difficulty 1)
#
# Make the table for `gold`, `[tokens]`: return a tensor `[tokens, vocab]`, a row $q$ for each token.

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
# For a vocabulary of 64,000 nobody fills such a table: all words but one have the same weight, so two sums are enough. The
# library's `ce_loss` and the table agree:

# %%
logp = log_probs(torch.randn(6, 9, generator=torch.Generator().manual_seed(4)))
gold = torch.tensor([0, 3, 3, 8, 1, 5])
q = l04.checks.smoothed_target(gold, 9, 0.1)
print(torch.allclose(-(q * logp).sum(), ce_loss(logp, gold, 0.1)))

# %% [markdown]
# What does smoothing change? Take one token, let the model give the gold word $p$ and share the rest evenly:

# %%
doubts = np.logspace(-4, -0.05, 160)
l04.figures.loss_of_confidence(
    (1 - doubts).tolist(), [0, 0.1, 0.3], 400,
    alt="Loss over confidence: it falls to 0 without smoothing; with 0.1 and 0.3 it is lowest at 0.9, 0.7",
)

# %% [markdown]
# **What to notice.** With $\varepsilon=0$ it never pays to stop. With $\varepsilon=0.1$ the best probability is 0.9, and more confidence
# costs. The lowest value is not 0 but the *entropy* of the target, here about 0.9 nats, so smoothed losses cannot be
# compared with plain ones. For that reason our dev losses, in every lesson, are plain nats per token, whatever was trained on.

# %% [markdown]
# ## Whose mean?
#
# Eq. 1 is a sum, and a sum grows with the batch. So one divides; but by what? We divide by the number of real target tokens: then
# every *token* weighs the same, in a long sentence as in a short one.
#
# Now the paper's batch is 64,000 tokens, which fits no memory. One computes the gradients of several *micro-batches*, adds
# them up, and makes one update: **gradient accumulation**. If that is to equal the large batch, each micro-batch must be divided
# by the tokens of *all of them together*. By hand: two micro-batches of 1 and 3 tokens, with losses 4, and 1, 1, 1. The mean over
# all tokens is 7/4 = 1.75. The mean of the two means is (4 + 1)/2 = 2.5: the lonely token counts three times as much as any other.
#
# ### Exercise 3: the gradient of an update (10 minutes, difficulty 3)
#
# Here the model is one matrix. `weight` is `[features, vocab]`; `batches` is a list of micro-batches `(x, gold)` with `x` of
# shape `[tokens, features]`; the logits are `x @ weight`. Return the gradient of the mean loss over all tokens of all
# micro-batches (plain cross-entropy, no smoothing), with one forward and backward pass per micro-batch. You may use
# `torch.nn.functional.cross_entropy` and `torch.autograd.grad` or `.backward()`; leave the `weight` you are given as it is.

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
# The same with the real model. Four short sentences and twelve long ones, as one batch and as two micro-batches; the library's
# `Learner.accumulate` is told the tokens of the whole update.

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
# **What to notice.** The wrong gradient is not small or large, it points elsewhere, and no error message will tell. In a
# multilingual model there is more to it. Each micro-batch holds one language pair; a pair with short sentences, or the last crumb
# of a tiny corpus, would be heard louder than its sampling probability says. (The authors' code divides by all target tokens
# of all its GPUs, as we do. And `micro` above is there for dropout, which needs a different random mask in every micro-batch.)

# %% [markdown]
# ## Up and down again
#
# Adam divides each step by the size of recent gradients. At the first update it has seen one gradient and knows nothing: every
# weight moves by the full learning rate, in a direction that one batch suggests. So one begins with small steps, the **warm-up**,
# and later, when there is less to be found, makes them smaller again. The usual schedule is that of Vaswani et al. (2017),
# a straight line up and an inverse square root down:
#
# $$\eta(t) = \eta_{peak} \cdot \min\left(\frac{t}{w}, \sqrt{\frac{w}{t}}\right), \qquad t = 1, 2, \dots \text{ counts updates.}$$
#
# By hand, $\eta_{peak} = 0.004$ and $w = 150$: at $t=75$ half of the peak, 0.002; at $t=600$, four times the warm-up, half of it again.
#
# ### Exercise 4: rate (4 minutes, difficulty 1)

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
# Half the peak and a longer warm-up, beside the toy preset's schedule:

# %%
l04.figures.rate_figure(peak=0.002, warmup=400)

# %% [markdown]
# **What to notice.** Left of the top, the warm-up decides the slope; right of it only the product $\eta_{peak}\sqrt{w}$ counts. Two
# schedules with the same product have the same tail: 0.004 and 150 end as 0.049 and 1 do, which is the same curve without
# its warm-up.
#
# The same picture to play with. (Without a running kernel only the figure above is shown.)

# %% tags=["widget"]
l04.figures.rate_sliders()

# %% [markdown]
# Vaswani et al. write the same with $d_{model}^{-1/2}$ in the place of a peak. For a model of 512 and a warm-up of 4,000:

# %%
vaswani = 512**-0.5 * min(4000**-0.5, 4000 * 4000**-1.5)
print(f"their peak: {vaswani:.4f}; the paper's: 0.0015, {0.0015 / vaswani:.1f} times as much")

# %% [markdown]
# Appendix C gives the peak, 0.0015, and says "the same learning rate schedule as Vaswani et al."; it does not say how long the
# warm-up is. The released scripts have 4,000 updates. Here is the appendix beside the two presets that we use most:

# %%
from pmd_lite.config import PRESETS
from pmd_lite.evaluation.tables import Table, mean_spread

rows = []
for name in ("wmt6", "small", "toy"):
    optim, train, model = PRESETS[name].optim, PRESETS[name].train, PRESETS[name].model
    rows.append([name, f"{optim.lr:g}", optim.warmup, str(optim.betas), f"{optim.label_smoothing:g}",
                 train.tokens * train.accumulate, f"{model.dropout:g}"])  # fmt: skip
columns = ["preset", "peak", "warm-up", "Adam's betas", "smoothing", "tokens an update", "dropout"]
Table(columns, rows, best=None)

# %% [markdown]
# **What to notice.** Betas and smoothing are the same everywhere; peak, warm-up and batch are not, and belong together. The toy
# model is tiny and bears a larger rate, which it also needs, with updates as few and small as these. "Batch size 64K" is 8
# micro-batches of 8,192 tokens here, on whatever number of devices.

# %% [markdown]
# ## Does it matter?
#
# Four ways to train the same model on the six toy languages, all with $\tau=5$ and reading the same number of tokens:
#
# - *as it should be*: the toy preset;
# - *no label smoothing*: $\varepsilon = 0$;
# - *no warm-up*: the same learning rates, except in the first 150 updates, which follow $0.049/\sqrt{t}$ as all others do;
# - *four micro-batches*: a quarter of the updates, each of four micro-batches, and a quarter of the warm-up.
#
# Two seeds each, because one is none.

# %%
steps, every = (600, 60) if size == "lesson" else (12, 4)
world, small = {}, {}
if size == "ci":  # a smaller world, too
    world = dict(head=60, minimum=10, held=6, nouns=10, verbs=4, adjectives=3, homonyms=1, false_friends=1)
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
# The end of these curves, and for the largest and the smallest pair also the loss on the sentences of the last stretch of
# training:

# %%
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
Table(columns, rows, best={"dev, all pairs": "min"}, caption=caption)

# %% [markdown]
# **What to notice.** Without warm-up the loss falls *faster* at first, below 3 nats where the preset has 3.5. Two
# evaluations later it is overtaken, and it ends half a nat behind: the large blind steps led to a place out of which
# 600 updates do not lead. Four micro-batches read the same text in a quarter of the steps, and end as far behind. Large
# updates are for those who can compute their parts side by side; they want a larger learning rate, too, which they were
# not given here. To the dev loss, label smoothing makes no difference that two seeds could show.
#
# Then the two pairs. On French the training loss is *above* the dev loss. No mistake: it is measured with dropout on, and over a
# stretch in which the model was still getting better. On Turkish, of which there are thirty sentences, it is the other way
# round, 0.6 against 1.6: learnt by heart. The two trainings that fell behind have not come so far; all they know, they know of all
# languages alike. (Curves for each pair, and what to do about small ones, fill the rest of the course.)

# %% [markdown]
# ## Killed in the middle
#
# Trainings die: the notebook is closed, the machine restarts, the time on the cluster is over. A checkpoint on disk brings
# the weights back. But the weights are a model, not a training. To find out what else there is, take a training so small that it can
# be read at one look:

# %%
import inspect

print(inspect.getsource(l04.small_training.SmallTraining))

# %% [markdown]
# ### Exercise 5: checkpoint (12 minutes, difficulty 3)
#
# Return a dictionary with all that a *new process* needs to go on as if nothing had happened. `load` puts back what it finds under
# these names: `weights`, `optimizer`, `updates`, `order`, `generator`, `lr`. Five of them are needed and one is not. (A
# `torch.Generator` has `get_state()`, an optimiser `state_dict()`.)
#
# The check really does it: it trains, calls your function, *trains on*, then makes a new training, loads what you returned,
# repeats the same updates and compares the weights bit by bit. So ask yourself what happens to a tensor that you have put into
# the dictionary while training goes on.

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
# What does each of the five matter? The same restart, one part forgotten at a time; how far are the weights from where they should be?

# %%
right = l04.small_training.restarted(l04.small_training.checkpoint, seed=1, before=7, after=5)
rows = []
for name in ("weights", "optimizer", "updates", "order", "generator"):

    def all_but_one(training, name=name):
        return {part: value for part, value in l04.small_training.checkpoint(training).items() if part != name}

    off = l04.small_training.restarted(all_but_one, seed=1, before=7, after=5) - right
    rows.append([name, off.abs().max().item()])
Table(["forgotten", "largest difference of a weight"], rows, best=None, digits=3)

# %% [markdown]
# **What to notice.** Whoever forgets the weights notices. Whoever forgets Adam's moments, the order or the random generator gets a
# training that looks perfectly healthy and is another one. That matters here more than elsewhere: Auto-PMD makes *trials*, short
# trainings that must be undone without a trace (lesson 10), and the released code's were not, because it kept references.
#
# The library has fewer things to remember. Dropout of every update is drawn from a seed made of (seed, update, micro-batch), and the
# order of a pass from (seed, pair, pass). A number that can be computed again need not be saved, and cannot be forgotten.
#
# Now the real thing, without mercy. A second process trains; as soon as it has written its first checkpoint we kill it, in
# whatever it is doing, with a signal that no program can catch.

# %%
import os
import shutil
import subprocess
import sys
import time

short_run = dict(steps=60, eval_every=10, d_model=32, beam=1)
if size == "ci":
    short_run = dict(steps=9, eval_every=3, d_model=16, beam=1)


def start(place):
    """Train in a process of its own: python -m pmd_lite train --method tau=5 --out PLACE ..."""
    command = [sys.executable, "-m", "pmd_lite", "train", "--method", "tau=5", "--show", "off"]
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
# The same command once more goes on from the files that are left. Beside it, a run that nobody disturbs.

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
# **What to notice.** Two empty lists. What made it possible, besides saving everything, is how the files are written: each under a
# temporary name, flushed to disk, then renamed, and a checkpoint counts only from the moment when the little file `LATEST`
# names it. So a kill between any two operations leaves the old checkpoint or the new one, never half of one.
# `tests/paper/test_resume.py` tries every such moment.
#
# Run directories are the unit of everything in this course: here is what such a directory holds.

# %%
files = [path.relative_to(killed) for path in killed.rglob("*") if path.is_file() and path.name[0] != "."]
print("\n".join(sorted(path.as_posix() for path in files)))

# %% [markdown]
# ## Takeaways
#
# - The loss is a sum of nats over real target tokens; perplexity is $e$ to its mean. An untrained model loses about $\log V$.
# - Label smoothing asks for $1-\varepsilon$ instead of certainty. Smoothed and plain losses cannot be compared; we report plain ones.
# - Accumulation equals the large batch if every part is divided by the tokens of the whole update.
# - Warm-up, then an inverse square root. The peak belongs to a model size and to a batch size.
# - A checkpoint is everything that the next update depends on, as copies: weights, Adam, counters, place in the data, random numbers.
#
# **Where to go next.** Eq. 1 is in section 2 of the paper, the settings in appendix C; the code is `pmd_lite/distillation/losses.py`
# (the form to read), `pmd_lite/training/learner.py`, `rundir.py` and `snapshot.py`. Lesson 05 lets the trained model speak.
