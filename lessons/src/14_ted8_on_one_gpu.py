# %% [markdown]
# # 14 TED-8-Diverse on one GPU
#
# > **You will**: take the paper's smaller corpus from its raw files to a scored run: what is missing in the files, a
# > vocabulary for every language, half precision, 64K-token updates on a card that cannot hold them, and going on after a
# > crash. **Time**: about two minutes on two CPU cores for the dry run, thirty-five with the exercises; the real run takes
# > days on one GPU. **Difficulty**: 3 of 5. **You need**: lesson 04 (accumulation, resuming), lesson 10.
#
# **Contents**: one switch · what is in the files · exercise: pairs · eight languages · a vocabulary each · 64K tokens on one
# card · exercise: fit · numbers of 16 bits · exercise: scales · exercise: an overflow log · what it costs · the dry run ·
# the run monitor · going on · the paper's columns · takeaways

# %% [markdown]
# ## One switch
#
# Nothing in this lesson is special to the real corpus. The same script reads the files, the same `train` trains, the same
# preset `ted8` sets the defaults. With `FULL = False` the files are a miniature with invented sentences and the model is
# shrunk until a laptop can train it in a minute. With `FULL = True` the script fetches 352 MB and the preset stays as it is.
# TED's talks may be used for research, but not passed on (CC BY-NC-ND), so none of their text is in this notebook.

# %%
import itertools
from pathlib import Path

import torch

import pmd_lite as pmd
from data_scripts import ted8
from pmd_lite.data.batching import collate
from pmd_lite.data.tokens import EncodedSplit, TokenArray
from pmd_lite.distillation.losses import ce_loss, log_probs, token_logits
from pmd_lite.evaluation.tables import Table
from pmd_lite.planning.stand_in import full_vocabulary
from pmd_lite.planning.timing import parameters
from pmd_lite.sampling.temperature import temperature_probabilities
from pmd_lite.teaching import figures_14, miniatures, paper_tables
from pmd_lite.teaching.checks import lesson14
from pmd_lite.teaching.dashboard import dashboard, watch

FULL = False  # True: download, then train for days on one GPU

size = pmd.run_size()
place = Path("runs") / f"lesson14-{'full' if FULL else size}"
raw = None if FULL else miniatures.write_ted(place / "raw")
folder = ted8.build(place / "ted8", source=raw, strict=FULL, overwrite=True)
corpus = pmd.load_corpus(folder)
print(corpus.name, corpus.direction, dict(zip(corpus.pairs, corpus.sizes)))

# %% [markdown]
# With `FULL = False` the script has just complained, in red, that these are not the published numbers. `strict=False` let
# it go on. For the real files keep `strict=True`: a download that lost a part is then noticed before a week of training.

# %% [markdown]
# ## What is in the files
#
# The corpus of Qi et al. (2018) has three text files with 61 columns: the talk, English, and 59 more. A line is one
# sentence of a talk in every language into which somebody translated it. What nobody translated is marked:

# %%
if raw:
    lines = (raw / "all_talks_train.tsv").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in [*lines[:3], *lines[-6:-3]]]
    at = [rows[0].index(code) for code in ("talk_name", "en", "fr", "ko", "bs")]
    print(*(" | ".join(cells[i] for i in at) for cells in rows), sep="\n")

# %% [markdown]
# The mark is `__NULL__`. But the text was tokenised after it was marked, and where the tokenizer went over the mark it reads
# `_ _ NULL _ _`, sometimes in the middle of a sentence of which only a part was translated. Other sentences hold the word
# NULL because somebody said it. Who reads this corpus with one `==` trains on the mark.
#
# ### Exercise 1: pairs (8 minutes, difficulty 2)
#
# `rows` is a list of dictionaries from language codes to cells; a code may be absent. Return the list of
# `(foreign, English)` for one code, in order, without pairs of which a side is missing (absent, marked in any of these
# ways, or nothing but spaces).

# %% tags=["exercise"]
def pairs(rows, code):
    ### BEGIN SOLUTION
    def whole(text):
        return bool(text.strip()) and "__NULL__" not in text and "_ _ NULL _ _" not in text

    found = [(row.get(code, ""), row.get("en", "")) for row in rows]
    return [(foreign, english) for foreign, english in found if whole(foreign) and whole(english)]
    ### END SOLUTION


# %% tags=["check", "points:2"]
lesson14.PAIRS.check(pairs)
### BEGIN HIDDEN TESTS
lesson14.PAIRS.grade(pairs, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# ## Eight languages
#
# TED-8-Diverse takes eight of the columns. The paper's table, and what two temperatures make of it:

# %%
sizes = miniatures.TED_SIZES
one, three = (temperature_probabilities(list(sizes.values()), tau).tolist() for tau in (1, 3))
rows = [[ted8.NAMES[code], code, n, n / 205_640, p, q] for (code, n), p, q in zip(sizes.items(), one, three)]
rows.append(["all", "", sum(sizes.values()), None, 1.0, 1.0])
columns = ["language", "code", "training pairs", "of the largest", "P, tau=1", "P, tau=3"]
Table(columns, rows, best=None, digits=3)

# %% [markdown]
# **What to notice.** The tail is short: Bosnian has a 36th of Korean, where WMT-6's Turkish has a 600th of French. So less is
# to be gained by flattening, and the paper takes $\tau=3$ here, saying that a larger value did worse. The sum is 766,352; the
# paper's text says "around 570K". We keep to its table.
#
# Three more things to know before any score is compared. The text is tokenised (`I don &apos;t know .`, with a space
# before the full stop), so BLEU on it is BLEU of tokenised text, not to be compared with that of ordinary text. English is
# the other side of all pairs, and many lines of different languages are the same English sentence. And short lines ("Thank
# you .") recur; the script takes training pairs that are test pairs too out of the training set.

# %% [markdown]
# ## A vocabulary for every language
#
# WMT-6 has one vocabulary of 64,000 pieces. TED-8 has one of 8,000 for each language (`kind="per-language"`), trained on
# that language's text alone, and the model's vocabulary is their union. Nobody has to share: Korean syllables do not fight
# with Greek endings for a place. The price is the size of the tables.

# %%
full = pmd.preset("ted8")
joint = pmd.preset("ted8", kind="joint")
rows = []
for name, config in (("one of 8,000 for all", joint), ("8,000 for each of nine", full)):
    ids = full_vocabulary(config.tokenizer, languages=9)
    whole, tables = parameters(config, ids), 2 * ids * config.model.d_model
    rows.append([name, ids, whole / 1e6, tables / 1e6, f"{100 * tables / whole:.0f} %"])
columns = ["vocabulary", "ids at the most", "parameters, M", "of them tables, M", "share"]
Table(columns, rows, best=None, digits=1)

# %% [markdown]
# **What to notice.** With a vocabulary each, most of the model is tables: one for the encoder, one that decoder and output
# share. (At the most: pieces that languages have in common get one id. Of seven languages' 56,000 pieces of real text 34,670
# ids were left, says `docs/log.md`.) Every target token must be compared with all
# ids, so a step is slower, too. The real scripts had the English vocabulary alone on the target side when translating into
# English; we have one union for both sides, which is the simpler program and the larger softmax.

# %% [markdown]
# ## 64K tokens on one card
#
# The paper's updates hold 64K tokens: 65,536. Its authors took eight GPUs with 8,192 each. On one card the same update is
# made of eight micro-batches one after another (`tokens=8192`, `accumulate=8` in the preset), as in lesson 04: gradients are
# added up, and normalised by all target tokens together. Each micro-batch holds *one* pair with its own $\alpha$.
#
# How large may a micro-batch be? Memory has two parts. A *fixed* one: weight, gradient and Adam's two moments of every
# parameter, 16 bytes in fp32, for each student. And one that grows with the micro-batch: activations that wait for the
# backward pass. `pmd.estimate` measures both on your card.

# %%
ids = full_vocabulary(full.tokenizer, languages=9)
fixed = 2 * 16 * parameters(full, ids) / 1e9
trial = 3 * 16 * parameters(full, ids) / 1e9
print(f"two students: {fixed:.1f} GB; during a search three copies of one of them on top: {trial:.1f} GB")

# %% [markdown]
# ### Exercise 2: fit (6 minutes, difficulty 2)
#
# The card has `memory` GB, the fixed part takes `fixed` GB, and every token of a micro-batch takes `per_token` MB. (1 GB are
# 1,000 MB here.) The update must stay at 65,536 tokens, in equal micro-batches whose number is a power of two. Return
# `(tokens, accumulate)` with the *fewest* micro-batches that fit.

# %% tags=["exercise"]
def fit(memory, fixed, per_token):
    ### BEGIN SOLUTION
    accumulate = 1
    while fixed + per_token / 1000 * (65_536 // accumulate) > memory:
        accumulate *= 2
    return 65_536 // accumulate, accumulate
    ### END SOLUTION


# %% tags=["check", "points:2"]
lesson14.FIT.check(fit)
### BEGIN HIDDEN TESTS
lesson14.FIT.grade(fit, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# For cards of three sizes, with the fixed part of a search from above and 0.6 MB a token, which is an assumption; measure it:

# %%
rows = []
for memory in (16, 24, 80):
    tokens, accumulate = lesson14.right_fit(memory, fixed + trial, 0.6)
    rows.append([f"{memory} GB", tokens, accumulate, tokens * accumulate])
Table(["card", "tokens", "accumulate", "an update"], rows, best=None)

# %% [markdown]
# **What to notice.** The update is the same in every row, and so is the run, up to rounding: only its speed differs. Cut
# `tokens` without raising `accumulate`, and you have changed the learning rate's meaning, the number of updates in an epoch
# and every score.

# %% [markdown]
# ## Numbers of 16 bits
#
# `precision="fp16"` computes forward and backward passes with numbers of 16 bits, which a GPU does several times faster.
# Weights, optimiser and losses stay in 32. The smallest number above zero in fp16 is $2^{-24} \approx 6\cdot10^{-8}$, the
# largest 65,504. Gradients are often smaller than that:

# %%
x = torch.tensor([1e-4, 1e-6, 1e-8, 1e5])
print("as they are:", x.half().tolist())
print("times 1024: ", (x * 1024).half().tolist())

# %% [markdown]
# The way out is the *loss scale*: multiply the loss by a large number before the backward pass, so that all gradients grow
# by it, and divide them by it, in 32 bits, before the update. Too small a scale loses the small gradients. Too large a scale
# makes the large ones infinite: an *overflow*. Then the update must be skipped, or infinity would be in every weight.
#
# So the scale is found by trying. It starts at 65,536. An overflow halves it and skips the update. After enough good
# updates *in a row* (2,000 in PyTorch) it is doubled, to see whether more can be had.
#
# ### Exercise 3: scales (8 minutes, difficulty 3)
#
# `finite` says of each update whether all its gradients were finite, `interval` how many good updates in a row double the
# scale. Return the scale that each update was *computed with*, a list as long as `finite`.

# %% tags=["exercise"]
def scales(finite, interval):
    ### BEGIN SOLUTION
    scale, good, used = 65_536.0, 0, []
    for ok in finite:
        used.append(scale)
        good = good + 1 if ok else 0
        if not ok:
            scale /= 2
        elif good == interval:
            scale, good = scale * 2, 0
    return used
    ### END SOLUTION


# %% tags=["check", "points:2"]
lesson14.SCALES.check(scales)
### BEGIN HIDDEN TESTS
lesson14.SCALES.grade(scales, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# A run in which updates overflow exactly when the scale is above $2^{14}$, with an interval of 6:

# %%
finite = []
while len(finite) < 40:
    finite.append(lesson14.right_scales([*finite, True], 6)[-1] <= 2**14)
figures_14.loss_scale(
    lesson14.right_scales(finite, 6), finite,
    alt="The scale falls from 2^16 to 2^14 in two overflows, then doubles after six good updates and falls back at once",
)

# %% [markdown]
# **What to notice.** Two skips at the very start, while the scale comes down: every fp16 run begins so. Afterwards one
# skip each time the scale is tried one step higher. That is the sound state: with PyTorch's interval one update in 2,000 is
# lost. *Not* sound is a scale that falls and falls. Then gradients really are infinite or NaN, and no scale will help:
# the learning rate is too high, or the loss divides by zero somewhere.
#
# ### Exercise 4: an overflow log (5 minutes, difficulty 2)
#
# Yours alone: the loss scale of fourteen updates in a row, in a run with an interval of 3 (so that something happens). Give
# three things: the list of the updates that were skipped, the scale of the last line, and how many updates Adam made.

# %% tags=["exercise"]
student = "your name"
log = lesson14.my_log(student)
answer = None
### BEGIN SOLUTION
skipped = [step for (step, scale), (_, then) in itertools.pairwise(log) if then < scale]
answer = skipped, log[-1][1], len(log) - len(skipped)
### END SOLUTION
for step, scale in log:
    print(f"update {step}: scale {scale:9,.0f}")

# %% tags=["check", "points:2"]
lesson14.my_reading(student).check(answer)
### BEGIN HIDDEN TESTS
lesson14.my_reading(student).grade(answer, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# In a run of ours you need not hunt for it: every line of `metrics.jsonl` has `overflow_skips`, the number so far for each
# student, and the run monitor below draws it. A search copies the scaler with the model and puts it back (lesson 10); the
# authors' program put back the scale, but not the count of good updates. On cards that have it, `precision="bf16"` needs no
# scale at all: it has the range of fp32, with fewer digits.

# %% [markdown]
# ## What it costs
#
# `estimate` says what a run will take before it begins. On a machine with the card, `pmd.estimate(corpus, "auto-pmd",
# "ted8")` times a few real steps. Without one you may name a speed: *suppose* the card trains one plain model with 30,000
# target tokens a second. Then everything follows by counting passes through the model:

# %%
described = {f"{code}-en": n for code, n in sizes.items()}
card = dict(sizes=described, mean_tokens=25, held_out=3000, tokens_per_second=30_000)
methods = ("tau=1", "bi-pmd", "auto-pmd")
plans = {method: pmd.estimate(method=method, preset_name="ted8", **card) for method in methods}
plans["auto-pmd"]

# %%
rows = []
for method, plan in plans.items():
    hours = plan.hours
    rows.append([method, hours["training"], hours["search"], hours["evaluation"], plan.total_hours,
                 plan.total_hours / plans["tau=1"].total_hours])
columns = ["supposed hours", "training", "search", "evaluation", "in all", "tau=1 is 1"]
Table(columns, rows, best=None, digits=1)

# %% [markdown]
# **What to notice.** Two students cost two trainings, plus a teacher's pass for each: 8 passes instead of 3. The search of
# Auto-PMD adds some three tenths to that: three trials on a tenth of the data after every epoch, with one teacher's pass
# for all three. A fair comparison asks what one model would do with as much (lesson 12). With the speed of your own card the hours change;
# the last column hardly does.

# %% [markdown]
# ## The dry run
#
# Before a run of days comes a run of a minute, through the very same code: it finds the wrong path, the missing package,
# the full disk. Only numbers are changed, none of the kinds: `ted8` stays per-language, with the released tags, pre-norm, extra
# norms and separate encoder table. Precision becomes fp32, since fp16 needs a GPU.

# %%
shrunk = dict(
    d_model=48, ffn=96, encoder_layers=2, decoder_layers=2, dropout=0.1, attention_dropout=0.1,
    vocab_size=400, steps=200, epochs=0, tokens=256, accumulate=2, warmup=60, lr=4e-3,
    precision="fp32", eval_every=20, update_every=20, start=0.2, beam=1,
)
if size == "ci":
    shrunk |= dict(d_model=16, ffn=32, encoder_layers=1, decoder_layers=1, steps=8)
    shrunk |= dict(eval_every=4, update_every=4, trial_ratio=0.01)
settings, show = ({}, "dashboard") if FULL else (shrunk, "off")
run = pmd.train(corpus, "auto-pmd", "ted8", out=place / "auto-pmd", show=show, **settings)
print("vocabulary:", run.tokenizer.vocab_size, "ids from", len(run.tokenizer.models), "models")
run.table()

# %% [markdown]
# **What to notice.** The BLEU scores mean nothing: invented sentences, five hundred at the most, and a model that had a
# minute. What means something is that there is a score in every cell. Nine vocabularies were trained, eight foreign ones and
# English, and their union is smaller than nine times 400: the bytes, digits and equal pieces count once.
#
# The real thing is the same cell with `FULL = True`. Outside of a notebook it is
#
# ```sh
# python -m pmd_lite data ted8 --out data/ted8
# python -m pmd_lite estimate --corpus data/ted8 --preset ted8
# python -m pmd_lite train --corpus data/ted8 --preset ted8 --method auto-pmd
# ```

# %% [markdown]
# Now that there is a model, its gradients for one sentence of each language, and what fp16 would make of them:

# %%
model, tokenizer = run.model(0), run.tokenizer
model.zero_grad()
for number, pair in enumerate(corpus.pairs):
    source, target = corpus.valid[pair][0]
    sides = ([tokenizer.encode_src(source, pair)], [tokenizer.encode_trg(target, pair)])
    batch = collate(EncodedSplit(*map(TokenArray.build, sides)), torch.arange(1).numpy(), number)
    logp = log_probs(token_logits(model, batch.src, batch.trg_in, batch.keep))
    (ce_loss(logp, batch.gold, 0.1) / batch.tokens / len(corpus.pairs)).backward()
gradients = torch.cat([p.grad.abs().flatten() for p in model.parameters()])
gradients = gradients[gradients > 0]
for scale in (1, 65_536):
    lost = (gradients * scale < figures_14.SMALLEST / 2).float().mean()
    over = (gradients * scale > figures_14.LARGEST).sum()
    print(f"scale {scale:6,}: {100 * lost:.2f} % become 0, {over} overflow")

# %%
figures_14.reach_of_fp16(
    gradients.tolist(), 65_536,
    alt="Sizes of gradients: the small end touches fp16's smallest number; times 65,536 all lie well inside",
)

# %% [markdown]
# **What to notice.** Of this small model only a few gradients in a thousand would be lost unscaled: those left of the first
# line. Times 65,536 none is, with room for a few more doublings before something touches the second line. In a large
# model more is at stake: its loss is a mean over 65,536 tokens instead of a hundred, which makes gradients smaller. How wide the
# humps are matters more than where they stand: what does not fit between the lines as a whole is lost at any scale.

# %% [markdown]
# ## The run monitor
#
# A run of days needs looking after. `dashboard(path)` reads the run directory and draws where the run stands: dev losses,
# weights and shares of draws for each student, tokens per second, skipped updates. It does not matter who trains, where, or whether
# still: a run on another machine will do if you can read its directory. (Here without the times, which are different on
# every machine.)

# %%
dashboard(run, times=False)

# %% [markdown]
# **What to notice.** In one minute all pairs learn the same thing, roughly which words there are, so their losses fall
# together; the weights already part, those of `model_2` further than those of `model_1`. In a long run this would
# worry you: a loss that jumps, a pair that stands still while others fall, weights that run into 0 or 1 at once, tokens per
# second that sink (another user on the card), skips that do not stop.
#
# The same picture, alive: it is drawn anew as long as the run goes on, with the time that is left. Open it beside a run in
# another process; in the cell that trains, `train(..., show="dashboard")` does the same. (Without a running kernel only the
# figure above is shown.)

# %% tags=["widget"]
watch(run.path)

# %% [markdown]
# ## Going on
#
# A run of days will be interrupted. What is on disk is whole at every instant, and the same call goes on from there, to the
# same bits on the CPU (lesson 04 proves it). A run that is finished comes back at once, as this cell shows by not taking a
# minute. Another setting in the same place is refused:

# %%
print(pmd.train(corpus, "auto-pmd", "ted8", out=run.path, show="off", **settings))
try:
    pmd.train(corpus, "auto-pmd", "ted8", out=run.path, show="off", **{**settings, "lr": 1e-3})
except pmd.UserError as error:
    print("refused:", str(error).replace(str(run.path), "this directory"))

# %% [markdown]
# **What to notice.** Ctrl-C finishes the update in hand, saves and stops; a later one stops at once. After a power cut the
# last checkpoint counts, which is at most one evaluation old: an epoch in this preset. If an epoch takes hours, set
# `eval_every`. The scaler, Adam's moments, the order of the data and the random numbers are all in the checkpoint; the
# authors' program lost the distillation weights on resuming, and the best score of one model.

# %% [markdown]
# ## The paper's columns
#
# What a reproduction is held against. First the averages:

# %%
paper_tables.main_results("ted8")

# %% [markdown]
# **What to notice.** The row $\tau=1$ into English says 29.00; the mean of the eight scores in the paper's appendix is 29.08. Four
# rows are copied from other papers, with other models (lesson 12). LSSD wins out of English.
#
# Then language by language. `own=` takes the scores of your run, in the order of the columns:

# %%
own = {label: list(run.bleu(i).values()) for i, label in enumerate(run.labels)} if FULL else None
paper_tables.per_language("ted8", "m2o", own)

# %%
paper_tables.per_language("ted8", "o2m")

# %% [markdown]
# **What to notice.** Into English `model_1` is ahead of both single models on all eight, by 1.2 to 3 BLEU, and it has the
# better mean of the two students: on this shorter tail the sampler that follows the data does well. Out of English the gains
# are smaller, and Korean and Marathi hardly move. Before you celebrate or mourn your own numbers: how far apart are two seeds
# of the same method? The paper does not say. And an author of this paper, trying out MultiDDS's program (issue 4 of its
# repository), found TED-8 out of English about four BLEU per language below what was published there.

# %% [markdown]
# ## Takeaways
#
# - A missing sentence can be marked in several ways; count what you keep and hold it against the published counts.
# - The update is what the experiment fixes; micro-batches are what the card allows. Change the one with `tokens` and
#   `accumulate` together, and the run stays the same.
# - fp16 skips updates now and then by design. A scale that keeps falling is a broken run.
# - Estimate, then a dry run through the same code, then the real run with a monitor beside it.
#
# **Where to go next.** TED-8 is in the paper's section 4.1 and its appendix on data; hyper-parameters in the appendix after
# it. The code is `data_scripts/ted8.py`, `pmd_lite/presets.py`, `pmd_lite/training/learner.py`, `pmd_lite/estimate.py` and
# `pmd_lite/teaching/dashboard.py`. Lesson 15 takes the larger corpus.
