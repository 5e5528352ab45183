# %% [markdown]
# # 10 Auto-PMD
#
# > **You will**: combine the pieces of Auto-PMD into one search, step through the searches of a real run, make a copy of a
# > student that leaves no trace, and compute what the trials cost. **Time**: one minute on two CPU cores if lesson 00 has been
# > run in this folder, six if not; fifty with the exercises. **Difficulty**: 3 of 5. **You need**: lessons 07 and 09.
#
# **Contents**: what is searched · one search by hand · exercise: search_step · the search in code · step through a real run · what a trial trains
# on · exercise: trial_sentences · leave no trace · exercise: snapshot and restore · a snapshot that was none · exercise:
# sharing · what the leak does · what looking costs · exercise: overhead · the weights over time · two variants · quiz ·
# takeaways

# %% [markdown]
# ## What is searched
#
# Uni-PMD and Bi-PMD (lesson 08) use one number $\alpha$ for every pair, from the first step to the last. Auto-PMD lets the
# students find a separate weight for each pair. Every $\mathcal{T}$ steps (an epoch), it makes a **search** for each student in
# turn (Alg. 2):
#
# 1. *Propose.* From the weights $\alpha$ make three vectors: all raised, all lowered, all kept (lesson 09).
# 2. *Try.* For each vector, copy the student, train the copy on a small **trial set** with these weights, and record its
#    dev loss for each pair. This gives the matrix $R$, with three trials and $|L|$ pairs.
# 3. *Choose.* For each pair $\ell$ the trial with the lowest loss in its own column of $R$ decides what happens to
#    $\alpha[\ell]$. Then the copies are thrown away.
#
# During the trials the other student teaches, and it does not change. We look into lesson 00's Auto-PMD run. The next cell trains
# it if it is not here.

# %%
import copy
import math
from pathlib import Path

import pmd_lite as pmd
from pmd_kit import l10, tiny
from pmd_kit.listing import listing
from pmd_lite.distillation.actions import ACTIONS, act, logit

# %%
size = pmd.run_size()
settings, world = {}, {}
if size == "ci":
    settings = dict(steps=16, eval_every=8, update_every=6, tokens=160, trial_ratio=0.01, **tiny.MODEL)
    world = tiny.WORLD
corpus = pmd.load_corpus("longtail", **world)
runs_in = Path("runs") / f"lesson00-{size}"
auto = pmd.train(corpus, "auto-pmd", out=runs_in / "auto-pmd", show="off", score=False, **settings)

# %% [markdown]
# ## One search by hand
#
# Take three pairs with weights 0.1, 0.5 and 0.8, a step size $\mu = 1$, and a matrix $R$ as the trials might return it. Its
# rows are in the order of `ACTIONS`: keep, up, down.

# %%
import torch

from pmd_lite.distillation.search import choose, reduced_space
from pmd_lite.evaluation.tables import Table

alpha = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
R = torch.tensor([[2.10, 2.31, 3.40], [2.12, 2.30, 3.40], [2.07, 2.35, 3.52]])  # [trial, pair]
actions = choose(R, reduced_space(3))
new = [torch.sigmoid(act(logit(a), action, 1.0)).item() for a, action in zip(alpha, actions)]
rows = [[f"R, {action}", *row.tolist()] for action, row in zip(ACTIONS, R)]
rows += [["action", *actions], ["alpha", *alpha.tolist()], ["new alpha", *new]]
Table(["", "fr-en", "de-en", "tr-en"], rows)

# %% [markdown]
# French was best when all weights went down, German when all went up. For Turkish, *keep* and *up* were equally good. On an
# exact tie `keep` wins over `up`, and `up` over `down`, so a weight moves only if that helps. (The released code prefers up.) No
# trial used the new vector (down, up, keep) as a whole; lesson 11 asks whether we may combine the actions in this way.
#
# ### Exercise 1: search_step (6 minutes, difficulty 2)
#
# Write lines 11 to 13 of Alg. 2. `alpha` [pair] holds the old weights, `results` [trial, pair] is $R$ with its rows in the
# order of `ACTIONS`, and `mu` is the step size. Return a list with the name of each pair's action, and the tensor [pair] of new
# weights. Be careful with ties. (`argmin` returns the first of several smallest values.)
#
# <details><summary>Hint</summary>
#
# The row of the smallest loss in each column is an index into `ACTIONS`. For the weights, add +mu, -mu or 0 to the logit of
# each old weight. The order of `ACTIONS` already settles ties if you use `argmin`.
#
# </details>

# %% tags=["exercise"]
def search_step(alpha, results, mu):
    ### BEGIN SOLUTION
    actions = [ACTIONS[row] for row in results.argmin(dim=0).tolist()]
    shift = {"keep": 0.0, "up": mu, "down": -mu}
    steps = torch.tensor([shift[action] for action in actions], dtype=alpha.dtype)
    return actions, torch.sigmoid(torch.logit(alpha) + steps)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l10.checks.SEARCH.check(search_step)
### BEGIN HIDDEN TESTS
l10.checks.SEARCH.grade(search_step, seed=10)
### END HIDDEN TESTS

# %% [markdown]
# ## The search in code
#
# Here is the library's form of Alg. 2. `update` does the search of every student: it makes the weights of the trials (line 3),
# asks the probe for $R$ (lines 4 to 9), and lets `_decide`, which calls `choose`, pick the actions (lines 11 to 13). It notes
# everything in an event, which this lesson reads below.

# %%
from pmd_lite.distillation.auto import AutoPMD
from pmd_lite.training.trial import lockstep_trial

listing(AutoPMD.update, choose)

# %% [markdown]
# And the trials. The *twins* are copies of the student, trained side by side.

# %%
listing(lockstep_trial)

# %% [markdown]
# ## Step through a real run
#
# A run's `metrics.jsonl` records every search. Here is the first search of `model_1` ($\tau=1$).

# %%
log = l10.stepper.SearchLog.of(auto)
log.figure(student=0, number=1)

# %% [markdown]
# *Left*: the weights tried for each pair, with a ring around the chosen one. *Right*: $R$, a row for each pair; a cell shows the
# weight, the dev loss, and the difference from *keep*. A star marks the lowest. *Below*: all weights so far, and $\mu$ in gray.
#
# **What to notice.** Do large and small pairs separate at once? We expect *down* for the two largest, since their teacher,
# `model_2`, has seen fewer of their sentences, and *up* for the three smallest. The search does not know which pairs are small.
#
# Step from search to search. (Without a running kernel you see only the figure above.)
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Compare the rings of the upper and of the lower half. Where they point in opposite directions already at
# the first search, the losses alone have separated the pairs. A single exception with a difference of a few ten-thousandths
# is noise.
# <!-- END ANSWER -->

# %% tags=["widget"]
l10.stepper.search_stepper(auto)

# %% [markdown]
# Which pairs does `model_2` ($\tau=5$) want to learn from the other? Here is its last search:

# %%
log.figure(student=1, number=len(log.searches[1]))

# %%
for label, searches in zip(log.labels, log.searches):
    for name, search in (("first", searches[0]), ("last", searches[-1])):
        apart = max(max(column) - min(column) for column in zip(*search.results.values()))
        print(f"{label}, {name} search: mu {search.mu:.2f}, trials differ by at most {apart:.4f} nats")
        print("   ", ", ".join(f"{pair} {action}" for pair, action in zip(log.pairs, search.actions)))

# %% [markdown]
# **What to notice.** At the last search $\mu$ is smaller. Are the differences between the trials smaller, too? One trial always
# has the lowest loss, so every row has a star, even where the difference is noise. Only the shrinking $\mu$ keeps a search from
# doing harm there.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The printed lines give both. A smaller step should make the three trials more alike. Where the largest
# difference is below about 0.001 nats, most stars mean nothing.
# <!-- END ANSWER -->

# %% [markdown]
# ## What a trial trains on
#
# The trial set is "constructed by sampling $\rho$ of $D^{train}$", with $\rho = 0.1$. A tenth of longtail would hold about three
# sentences of Turkish, and say almost nothing about its weight. So the library takes $\rho$ of *every* pair's sentences, and at
# least one batch of them; a pair that is smaller than a batch is repeated until the batch is full.
#
# ### Exercise 2: trial_sentences (5 minutes, difficulty 1)
#
# How many sentences of each pair does the trial set hold? `sizes` holds the number of training sentences of each pair, and
# `one_batch` is the number of sentences in a batch. Round a share up. Take at least `one_batch`, even for a pair that has
# fewer. Return a list of numbers.

# %% tags=["exercise"]
def trial_sentences(sizes, rho, one_batch):
    ### BEGIN SOLUTION
    return [max(math.ceil(rho * n), one_batch) for n in sizes]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l10.checks.TRIAL_SET.check(trial_sentences)
### BEGIN HIDDEN TESTS
l10.checks.TRIAL_SET.grade(trial_sentences, seed=10)
### END HIDDEN TESTS

# %%
from pmd_lite.training.trial import per_pair_trial_set

trainer = l10.trials.reopen(auto, corpus)  # stands where the run ended, with both students
rho, budget = auto.config.distill.trial_ratio, auto.config.train.tokens
trial_set = per_pair_trial_set(trainer.encoded, rho, budget, seed=(1,))
rows = []
for i, (pair, n) in enumerate(zip(corpus.pairs, corpus.sizes)):
    held = sum(len(batch.src) for batch in trial_set if batch.pair == i)
    rows.append([pair, n, math.ceil(rho * n), held, f"{held / n:.0%}"])
Table(["pair", "training sentences", "a tenth", "in the trial set", "share"], rows)

# %% [markdown]
# **What to notice.** From a large pair the trial set takes its tenth. From a small one it takes a larger share, because one
# micro-batch is the least that a trial can train a pair on.

# %% [markdown]
# ## Leave no trace
#
# Line 4 of Alg. 2 says $\theta'_i \gets \theta_i$: a trial trains a copy. A copy needs more than the weights. The next
# update of a student depends on
#
# - its **weights**;
# - Adam's **moments**, and the number of steps that Adam has counted;
# - the **learning rate**, and the **count of updates** from which it is computed;
# - the **random state**, from which dropout is drawn.
#
# If any of these is different after the search, the search has trained the student. So either train a *copy* and drop it, as the
# library does, or train the *student* and restore everything. More can go wrong in the second way. Here is a student that is
# small enough to inspect completely:

# %%
listing(l10.students.TinyStudent.__init__, l10.students.TinyStudent.train)

# %%
torch.manual_seed(0)
tiny = l10.students.TinyStudent(seed=0)
tiny.train(*l10.students.batches(seed=0, number=1)[0])
print("weights:      ", list(tiny.model.state_dict()))
adam = tiny.optimizer.state_dict()
print("optimizer:    ", {name: list(x.shape) for name, x in adam["state"][0].items()}, "...")
print("learning rate:", adam["param_groups"][0]["lr"])
print("updates:      ", tiny.updates)

# %% [markdown]
# ### Exercise 3: snapshot and restore (12 minutes, difficulty 4)
#
# `snapshot(student)` returns everything that a restore needs, in any form you like. `restore(student, saved)` puts it back. The
# check trains a student and takes *one* snapshot. Three times it runs a trial, restores, and compares **bits**. Finally it
# trains one more update and compares the result with a twin that has never made a trial. You need `student.model`,
# `student.optimizer`, `student.updates`, and `torch.get_rng_state()`, `torch.set_rng_state(...)`.
#
# <details><summary>Hint</summary>
#
# Go through the four points of the list above one by one. Copy everything when you save. Copy the optimizer's state again
# when you restore it, because Adam takes the tensors that you hand over as its own, and the check restores three times.
#
# </details>

# %% tags=["exercise"]
def snapshot(student):
    ### BEGIN SOLUTION
    return copy.deepcopy({
        "model": student.model.state_dict(), "optimizer": student.optimizer.state_dict(),
        "updates": student.updates, "random": torch.get_rng_state(),
    })
    ### END SOLUTION


def restore(student, saved):
    ### BEGIN SOLUTION
    student.model.load_state_dict(saved["model"])
    student.optimizer.load_state_dict(copy.deepcopy(saved["optimizer"]))  # else they become its own
    student.updates = saved["updates"]
    torch.set_rng_state(saved["random"])
    ### END SOLUTION


# %% tags=["check", "points:3"]
l10.checks.RESTORE.check((snapshot, restore))
### BEGIN HIDDEN TESTS
l10.checks.RESTORE.grade((snapshot, restore), seed=10)
### END HIDDEN TESTS

# %% [markdown]
# The library on a real student: all its state before and after three trials.

# %%
logits = trainer.distiller.logits[0]  # of the weights of model_1
mine = torch.stack([torch.sigmoid(act(logits, action, 0.5)) for action in ACTIONS])
before = l10.trials.student_state(trainer, 0)
results = trainer.probe.trial(0, mine)
print("R, keep:", [round(x, 4) for x in results[0].tolist()])
changed = l10.trials.changed_parts(before, l10.trials.student_state(trainer, 0))
print("changed by the search:", changed or "nothing, to the last bit")

# %% [markdown]
# ## A snapshot that was none
#
# The authors' program takes the second way: it trains the student and restores it. But it stores `state_dict()` without
# copying it. Look at what that is:

# %%
kept = tiny.model.state_dict()
first = kept["0.weight"][0].tolist()
for batch in l10.students.batches(seed=1, number=3):  # a trial
    tiny.train(*batch)
print("kept, before the trial:", [round(x, 4) for x in first])
print("kept, after the trial: ", [round(x, 4) for x in kept["0.weight"][0].tolist()])

# %% [markdown]
# The snapshot was trained along with the student! `state_dict()` returns the very numbers that the optimizer changes. No error
# appears. To find such a leak, ask *where tensors live*: `x.untyped_storage().data_ptr()` is the address of a tensor's storage.
#
# ### Exercise 4: sharing (6 minutes, difficulty 2)
#
# `live` is a state dictionary. `kept` is a second one with the same names, which was saved as a snapshot. Return the list
# of the names (in the order of `live`) whose kept tensor lies in the same memory as the live one. Think about two cases: a
# tensor can share memory without being the same object, and without starting at the same address.
#
# <details><summary>Hint</summary>
#
# Compare addresses of storages, not of tensors: a view of a tensor starts elsewhere and shares the same storage.
#
# </details>

# %% tags=["exercise"]
def sharing(live, kept):
    ### BEGIN SOLUTION
    def address(x):
        return x.untyped_storage().data_ptr()

    return [name for name in live if address(live[name]) == address(kept[name])]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l10.checks.SHARING.check(sharing)
### BEGIN HIDDEN TESTS
l10.checks.SHARING.grade(sharing, seed=10)
### END HIDDEN TESTS

# %%
state = tiny.model.state_dict()
ways = {
    "state_dict()": state,
    "dict(state_dict())": dict(state),
    "x.detach()": {name: x.detach() for name, x in state.items()},
    "x.cpu(), on a CPU": {name: x.cpu() for name, x in state.items()},
    "x.clone()": {name: x.clone() for name, x in state.items()},
    "copy.deepcopy": copy.deepcopy(state),
}
shared = {way: len(l10.checks.sharing(state, kept)) for way, kept in ways.items()}
rows = [[way, f"{count} of {len(state)}"] for way, count in shared.items()]
Table(["snapshot made by", "tensors that share memory"], rows)

# %% [markdown]
# ## What the leak does
#
# So in the released code the three trials of a search are *one* long training. The student trains for longer, and **the trials are
# not comparable**, because the later ones had more training. Take three trials with the *same* weights. A fair comparison must
# call them equal.

# %%
same = torch.full((3, len(corpus.pairs)), 0.1, dtype=torch.float64)
found, left = {}, []
for name, rollback in (("copies", True), ("live, as released", False)):
    trainer = l10.trials.reopen(auto, corpus, rollback=rollback)
    before = l10.trials.student_state(trainer, 1)
    found[name] = trainer.probe.trial(1, same).tolist()
    left.append([name, ", ".join(l10.trials.changed_parts(before, l10.trials.student_state(trainer, 1))) or "nothing"])
Table(["trials with", "what they leave changed in the student"], left)

# %%
first, _, third = found["live, as released"]
drift = ", ".join(f"{pair} {late - early:+.4f}" for pair, early, late in zip(corpus.pairs, first, third))
print(f"live, third trial minus first, nats: {drift}")
l10.figures.equal_trials(
    corpus.pairs, found,
    alt=f"Three trials with equal weights. Copies: three equal losses. Live, third trial minus first: {drift}",
)

# %% [markdown]
# **What to notice.** On the left, the same number three times. On the right, the losses drift. A pair whose loss *rises* overfits.
# Compare the drift with the differences between honest trials in the last searches above:
# which is larger?
#
# The released code makes its trials in the order up, keep, down. Let its rule (a tie goes to up) choose from these three
# *equal* trials:
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Take the largest drift of the printed line and the difference of the last search. If the drift is as large,
# the order of trials decides as much as the weights do.
# <!-- END ANSWER -->

# %%
order = ("up", "keep", "down")
live = torch.tensor(found["live, as released"], dtype=torch.float64)
read = choose(live, reduced_space(len(corpus.pairs), order), order)
Table(["trials of equal weights", *corpus.pairs], [["chosen action", *read]])

# %% [markdown]
# **What to notice.** Where a pair overfits, the first trial is the best one, whatever its weights, and the search calls it
# "up". Where a pair is still learning, a later trial wins. So the leak may produce a part of the finding that small languages ask
# for high weights.
#
# The leak is bad for the *choice*, not for the *student*, which trains for longer: in `docs/log.md` ("Rollback or not, at equal
# compute") students with live trials end above those with exact copies.

# %% [markdown]
# ## What looking costs
#
# A forward pass over a batch costs $F$, the backward pass about $2F$. Two students with their teachers pay
# $2 \cdot (3F + F) = 8F$ a step. A search trains three copies of each student on $\rho$ of the data. If every trial asks the
# teacher separately, a batch costs $3 \cdot (3F + F) = 12F$. But the teacher does not change during a search, and all three
# trials see the same batches. So one pass of the teacher is enough, and the batch costs $3 \cdot 3F + F = 10F$.
#
# ### Exercise 5: overhead (6 minutes, difficulty 2)
#
# What does a search by both students cost, as a share of the training between two searches (one epoch of steps at $8F$)?
# Write it for any `rho` and any number of `trials`. `shared` says whether all trials share the teacher's pass. Leave out
# the dev losses.
#
# <details><summary>Hint</summary>
#
# Count one search of one student: trials times 3F, and the teacher's pass once or once for each trial. All of it happens on
# the share rho, and for two students. Then divide by 8F.
#
# </details>

# %% tags=["exercise"]
def overhead(rho, trials, shared):
    ### BEGIN SOLUTION
    teacher = 1 if shared else trials
    return 2 * rho * (3 * trials + teacher) / 8
    ### END SOLUTION


# %% tags=["check", "points:2"]
l10.checks.OVERHEAD.check(overhead)
### BEGIN HIDDEN TESTS
l10.checks.OVERHEAD.grade(overhead, seed=10)
### END HIDDEN TESTS

# %% [markdown]
# With $\rho = 0.1$ and three trials, the share is 30 % without sharing, which is the paper's figure, and 25 % with it. And in
# our run?

# %% tags=["hide-input"]
epoch, in_set = trainer.encoded.trg_tokens, sum(batch.tokens for batch in trial_set)
on_dev = 2 * 3 * sum(batch.tokens for batch in trainer.dev)  # students, trials, a forward pass
spent = auto.cost
counted = spent["trial"] / (spent["train"] + spent["teacher"])
rows = [
    ["12 F on a tenth of the data: the paper's 30 %", l10.checks.overhead(rho, 3, False)],
    ["10 F on a tenth of the data", l10.checks.overhead(rho, 3, True)],
    ["10 F on our trial set", 2 * 10 * in_set / (8 * epoch)],
    ["and three dev losses for each student", (2 * 10 * in_set + on_dev) / (8 * epoch)],
    ["counted in the run, trials / (training + teachers)", counted],
]
Table(["what a search adds", "share"], [[what, f"{share:.0%}"] for what, share in rows])

# %% [markdown]
# **What to notice.** Compare rows three and four: how much of our bill is evaluation? Six passes over 300 dev sentences per pair
# are a lot for a few thousand training sentences, and nothing for WMT-6's five million.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Row four minus row three, divided by row four. Expect about a half or more here.
# <!-- END ANSWER -->

# %% [markdown]
# ## The weights over time
#
# The paper's figure of the weights of the largest and of the smallest pair, for our run:

# %%
from pmd_lite.figures import plots

ends = (corpus.pairs[0], corpus.pairs[-1])
steps = [log.first, *(search.step for search in log.searches[0])]
paths = {label: {pair: log.path(i)[pair] for pair in ends} for i, label in enumerate(log.labels)}
final = {label: {pair: round(a[-1], 2) for pair, a in by.items()} for label, by in paths.items()}
plots.alpha_over_time(steps, paths, alt=f"Weights of two pairs after each search; at the end {final}")

# %%
rows = [[label, *searches[-1].after] for label, searches in zip(log.labels, log.searches)]
Table(["weights at the end", *log.pairs], rows)

# %% [markdown]
# **What to notice.** The paper finds that Turkish has a higher weight than French: small languages overfit more, and so need more
# distillation. Test two rules on your table:
#
# - *The better teacher.* A weight is high where the *other* student is better on the pair. Then `model_1` ends high on small
#   pairs, and `model_2` on large ones, as in Uni-PMD (lesson 08).
# - *Overfitting.* A weight is high where the student itself overfits, because a soft target then does less harm than the
#   reference. Then both students may end high on Turkish, although only one of them can be the better teacher.
#
# This is one run of one world. The paper's figure is one run, too.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** If `model_1` is high on the small pairs and `model_2` on the large ones, the first rule fits. If both are
# high on Turkish, the second does. A table can fit each rule on some pairs; then neither explains it alone.
# <!-- END ANSWER -->

# %% [markdown]
# ## Two variants
#
# The paper tries two simpler methods. **Dynamic-MD** makes the same three trials, but takes *one* action for all pairs: the
# action of the trial with the smallest sum of dev losses. **LSMD** takes the weights with which an Auto-PMD run ended, and
# keeps them fixed from the beginning. Which action would Dynamic-MD have taken from our trials? Here is the first search of
# `model_1` again, with a row of sums:

# %%
log.figure(student=0, number=1, sums=True)

# %% tags=["hide-input"]
rows = []
for label, searches in zip(log.labels, log.searches):
    against = [
        sum(search.best[i] != search.lowest_sum for search in searches)
        for i in range(len(log.pairs))
    ]
    rows.append([label, len(searches), *against])
Table(["the common action differs from the pair's own", "searches", *log.pairs], rows)

# %% [markdown]
# **What to notice.** A sum listens to the pairs whose losses react most.
#
# Now the paper's BLEU (WMT-6, mean of six pairs, one run each) beside ours (longtail, three seeds). Losses are dev losses. Compute
# is in multiples of that of $\tau=1$.

# %% tags=["hide-input"]
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.methods import METHODS

stored = Comparison.load(Path("results") / "compare_longtail.json")
wanted = ("tau=1", "tau=5", "auto-pmd", "dynamic-md", "lsmd")
labels = [label for label in stored.systems if label.split(" ")[0] in wanted]
rows = []
for label, row in zip(labels, stored.table(labels).rows):
    method, _, rest = label.partition(" model_")
    student = int(rest[0]) - 1 if rest else 0
    paper = [scores.split("/")[student] for scores in METHODS[method].reported[2:]]
    rows.append([label.split(" (")[0], *paper, row[1], row[3], row[5], *row[-3:]])
columns = ["", "M2O, paper", "O2M, paper", "ours", "HRL", "LRL", "HRL loss", "LRL loss", "compute"]
Table(columns, rows, digits=1)

# %% [markdown]
# **What to notice.**
#
# - *Paper.* Auto-PMD's better student is the best in both directions. But the means of the two students of Auto-PMD and of
#   Dynamic-MD differ by less than 0.06. By these numbers, a separate choice for each pair brings almost nothing, and moving weights
#   (compared with LSMD) bring a lot.
# - *Ours.* Is Auto-PMD above Dynamic-MD by more than the ±, and on which pairs? Is it above LSMD?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Take the difference of two rows and compare it with the larger ±. On the large pairs Auto-PMD's `model_1` has
# 77.7 ± 2.1 and Dynamic-MD's 68.9 ± 4.6: there, one action for all pairs costs much. On the small pairs (10.2 ± 1.7 and 10.5 ±
# 1.2) the difference is not a finding. And LSMD, whose weights do not move, has 78.2 ± .9 and 9.7 ± 1.7: what helps here is to
# have a weight for each pair, not to change it during training. The paper's own numbers say the opposite of both.
# <!-- END ANSWER -->

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** In a search, what is trained, and what is kept of it?
#
# <details><summary>A. The student, with three weights in turn; the best of the three versions is kept.</summary>
#
# Not so. This would choose one version for all pairs, and it would train the student on the trial set.
#
# </details>
#
# <details><summary>B. Three copies; of them only the matrix R is kept.</summary>
#
# Right. R decides the actions. The copies are thrown away, and the student is as before, to the last bit.
#
# </details>
#
# <details><summary>C. Three copies; the average of their weights is kept.</summary>
#
# Not so. Nothing of the copies' weights is used.
#
# </details>
#
# **Question 2.** The trials train the live student one after another. Which trial looks best where a pair overfits?
#
# <details><summary>A. The one with the best weights.</summary>
#
# Not so. With equal weights there is no such trial, and the losses still differ.
#
# </details>
#
# <details><summary>B. The first, because the later ones have trained for longer.</summary>
#
# Right. More training makes the dev loss of such a pair worse, whatever the weight. The order decides.
#
# </details>
#
# <details><summary>C. The last, because it has learnt most.</summary>
#
# Not so. This holds for a pair that is still learning, not for one that overfits.
#
# </details>
#
# **Question 3.** One star in every row of R is drawn even when the losses differ by 0.0001. What protects the search from
# such noise?
#
# <details><summary>A. The proof of appendix A.</summary>
#
# Not so. It compares two search spaces. It says nothing about noise.
#
# </details>
#
# <details><summary>B. The dev set, which is the same for all trials.</summary>
#
# Not so. It removes one source of difference, but a lowest number exists all the same.
#
# </details>
#
# <details><summary>C. The shrinking mu.</summary>
#
# Right. A wrong action late in training moves a weight only a little.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - A search: three short trainings, a matrix $R$, and for each pair the action of the trial that was best for it.
# - A trial must leave no trace: weights, moments, counts, learning rate, random state. `state_dict()` is not a copy.
# - Trials that are not undone train the student, and their order can decide in place of their weights.
# - Two reasons can raise a weight: the other student is the better teacher, or the student itself overfits.
#
# **Where to go next.** Sections 3.3 and 5.3 and Alg. 2 of the paper; `pmd_lite/distillation/auto.py`,
# `pmd_lite/training/trial.py` and `snapshot.py`. Lesson 11 asks whether three trials are enough.
