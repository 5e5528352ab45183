# %% [markdown]
# # 14 TED-8-Diverse on one GPU
#
# > **You will**: take the paper's smaller corpus from its raw files to a scored run. You will see what is missing in the
# > files, a vocabulary for every language, half precision, 64K-token updates on a card that cannot hold them, and how to
# > continue after a crash. **Time**: about two minutes on two CPU cores for the dry run, thirty-five with the exercises;
# > the real run takes days on one GPU. **Difficulty**: 3 of 5. **You need**: lesson 04 (accumulation, resuming), lesson 10.
#
# **Contents**: one switch · what is in the files · exercise: pairs · eight languages · a vocabulary each · 64K tokens on
# one card · exercise: fit · numbers of 16 bits · exercise: scales · exercise: an overflow log · what it costs · the dry run
# · the run monitor · continuing a run · the paper's columns · quiz ·
# takeaways

# %% [markdown]
# ## One switch
#
# No code in this lesson is special to the real corpus. The same script reads the files, the same `train` trains, and the
# same preset `ted8` sets the defaults. With `FULL = False` the files are a miniature with invented sentences, and the model
# is so small that a laptop can train it in a minute. With `FULL = True` the script downloads 352 MB and the preset stays
# unchanged. The licence of TED's talks allows research, but not passing them on (CC BY-NC-ND). So this notebook contains
# none of their text.

# %%
import itertools
from pathlib import Path

import pmd_lite as pmd
from pmd_corpora import ted8
from pmd_kit import l14, miniatures, paper_tables
from pmd_lite.evaluation.tables import Table
from pmd_lite.planning.stand_in import full_vocabulary

# %%
FULL = False  # True: download, then train for days on one GPU

size = pmd.run_size()
place = Path("runs") / f"lesson14-{'full' if FULL else size}"
raw = None if FULL else miniatures.write_ted(place / "raw")
folder = ted8.build(place / "ted8", source=raw, strict=FULL, overwrite=True)
corpus = pmd.load_corpus(folder)
print(corpus.name, corpus.direction, dict(zip(corpus.pairs, corpus.sizes)))

# %% [markdown]
# With `FULL = False` the sizes are not the published ones. The script warns about that when you run the cell, and `strict=False`
# lets it continue. For the real files keep `strict=True`. Then you notice at once, and not after a week of training, that a
# download lost a part.

# %% [markdown]
# ## What is in the files
#
# The corpus of Qi et al. (2018) has three text files with 61 columns: the talk, English, and 59 more languages. A line is
# one sentence of a talk, with its translations where they exist. A missing translation is marked:

# %%
if raw:
    lines = (raw / "all_talks_train.tsv").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in [*lines[:3], *lines[-6:-3]]]
    at = [rows[0].index(code) for code in ("talk_name", "en", "fr", "ko", "bs")]
    print(*(" | ".join(cells[i] for i in at) for cells in rows), sep="\n")

# %% [markdown]
# The mark is `__NULL__`. But the text was tokenised after it was marked. Where the tokenizer changed the mark, it reads
# `_ _ NULL _ _`. Sometimes it stands in the middle of a sentence that was translated only in part. Other sentences contain
# the word NULL because the speaker said it. If you read this corpus with a single `==`, you train on the mark.
#
# ### Exercise 1: pairs (8 minutes, difficulty 2)
#
# `rows` is a list of dictionaries from language codes to cells. A code may be absent. Return the list of
# `(foreign, English)` for one code, in order. Leave out pairs with a missing side (absent, marked in any of these ways, or
# nothing but spaces).
#
# <details><summary>Hint</summary>
#
# Write a small function that says whether one text is usable: it has letters after `strip()`, and neither form of the mark
# occurs anywhere in it. `row.get(code, "")` also covers a missing code.
#
# </details>

# %% tags=["exercise"]
def pairs(rows, code):
    ### BEGIN SOLUTION
    def whole(text):
        return bool(text.strip()) and "__NULL__" not in text and "_ _ NULL _ _" not in text

    found = [(row.get(code, ""), row.get("en", "")) for row in rows]
    return [(foreign, english) for foreign, english in found if whole(foreign) and whole(english)]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l14.checks.PAIRS.check(pairs)
### BEGIN HIDDEN TESTS
l14.checks.PAIRS.grade(pairs, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# ## Eight languages
#
# TED-8-Diverse takes eight of the columns. Here is the paper's table, with the probabilities at two temperatures:

# %% tags=["hide-input"]
from pmd_lite.sampling.temperature import temperature_probabilities

sizes = miniatures.TED_SIZES
one, three = (temperature_probabilities(list(sizes.values()), tau).tolist() for tau in (1, 3))
rows = [[ted8.NAMES[code], code, n, n / 205_640, p, q] for (code, n), p, q in zip(sizes.items(), one, three)]
rows.append(["all", "", sum(sizes.values()), None, 1.0, 1.0])
columns = ["language", "code", "training pairs", "of the largest", "P, tau=1", "P, tau=3"]
Table(columns, rows, digits=3)

# %% [markdown]
# **What to notice.** The tail is short: Bosnian has 1/36 of Korean's sentences, while WMT-6's Turkish has 1/600 of
# French's. So flattening can gain less, and the paper uses $\tau=3$ here. It says that a larger value did worse. The sum is
# 766,352, but the paper's text says "around 570K". We follow its table.
#
# You need to know three more things before you compare any score. First, the text is tokenised (`I don &apos;t know .`,
# with a space before the full stop). So BLEU on it is BLEU of tokenised text, and you cannot compare it with BLEU of
# ordinary text. Second, English is the other side of all pairs, and many lines of different languages are the same English
# sentence. Third, short lines ("Thank you .") occur again and again. The script removes training pairs that are also test
# pairs.

# %% [markdown]
# ## A vocabulary for every language
#
# WMT-6 has one vocabulary of 64,000 pieces. TED-8 has one of 8,000 for each language (`kind="per-language"`), trained only
# on text of that language, and the model's vocabulary is their union. No language has to share: Korean syllables do not
# compete with Greek endings for a place. The price is the size of the tables.

# %%
from pmd_lite.planning.timing import parameters

full = pmd.preset("ted8")
joint = pmd.preset("ted8", kind="joint")
rows = []
for name, config in (("one of 8,000 for all", joint), ("8,000 for each of nine", full)):
    ids = full_vocabulary(config.tokenizer, languages=9)
    whole, tables = parameters(config, ids), 2 * ids * config.model.d_model
    rows.append([name, ids, whole / 1e6, tables / 1e6, f"{100 * tables / whole:.0f} %"])
columns = ["vocabulary", "ids at most", "parameters, M", "tables, M", "tables' share"]
Table(columns, rows, digits=1)

# %% [markdown]
# **What to notice.** With one vocabulary per language, most of the model is tables: one for the encoder, and one that the
# decoder and the output share. (The column says "at most" because pieces that languages have in common get one id. In real
# text, the 56,000 pieces of seven languages gave only 34,670 ids, see `docs/log.md`.) The model must compare every target
# token with all ids, so a step is slower, too. For translation into English, the authors' scripts used only the English
# vocabulary on the target side. We have one union for both sides. Our program is simpler, and our softmax is larger.

# %% [markdown]
# ## 64K tokens on one card
#
# The paper's updates hold 64K tokens: 65,536. Its authors used eight GPUs with 8,192 tokens each. On one card the same
# update consists of eight micro-batches, one after another (`tokens=8192`, `accumulate=8` in the preset), as in lesson 04:
# we add up the gradients and normalise them by all target tokens together. Each micro-batch holds *one* pair with its own
# $\alpha$.
#
# How large may a micro-batch be? Memory has two parts. One part is *fixed*: the weight, the gradient and Adam's two moments
# of every parameter, 16 bytes in fp32, for each student. The other part grows with the micro-batch: the activations that
# wait for the backward pass. `pmd.estimate` measures both on your card.

# %%
ids = full_vocabulary(full.tokenizer, languages=9)
fixed = 2 * 16 * parameters(full, ids) / 1e9
trial = 3 * 16 * parameters(full, ids) / 1e9
print(f"two students: {fixed:.1f} GB; during a search also three copies of one of them: {trial:.1f} GB")

# %% [markdown]
# ### Exercise 2: fit (6 minutes, difficulty 2)
#
# The card has `memory` GB, the fixed part takes `fixed` GB, and every token of a micro-batch takes `per_token` MB. (Here 1
# GB is 1,000 MB.) The update must stay at 65,536 tokens, in equal micro-batches, and their number must be a power of two.
# Return `(tokens, accumulate)` with the *fewest* micro-batches that fit.
#
# <details><summary>Hint</summary>
#
# Begin with one micro-batch of 65,536 tokens and double the number of micro-batches until the memory is enough. Convert MB
# to GB.
#
# </details>

# %% tags=["exercise"]
def fit(memory, fixed, per_token):
    ### BEGIN SOLUTION
    accumulate = 1
    while fixed + per_token / 1000 * (65_536 // accumulate) > memory:
        accumulate *= 2
    return 65_536 // accumulate, accumulate
    ### END SOLUTION


# %% tags=["check", "points:2"]
l14.checks.FIT.check(fit)
### BEGIN HIDDEN TESTS
l14.checks.FIT.grade(fit, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# Here is the answer for cards of three sizes, with the fixed part of a search from above. The 0.6 MB a token is an
# assumption. Measure it on your card:

# %%
rows = []
for memory in (16, 24, 80):
    tokens, accumulate = l14.checks.right_fit(memory, fixed + trial, 0.6)
    rows.append([f"{memory} GB", tokens, accumulate, tokens * accumulate])
Table(["card", "tokens", "accumulate", "an update"], rows)

# %% [markdown]
# **What to notice.** The update is the same in every row, and so is the run, up to rounding. Only the speed differs. If you
# cut `tokens` without raising `accumulate`, you change the meaning of the learning rate, the number of updates in an epoch,
# and every score.

# %% [markdown]
# ## Numbers of 16 bits
#
# `precision="fp16"` computes forward and backward passes with 16-bit numbers, which a GPU does several times faster.
# Weights, optimiser and losses stay in 32 bits. The smallest number above zero in fp16 is $2^{-24} \approx 6\cdot10^{-8}$,
# and the largest is 65,504. Gradients are often smaller than that smallest number:

# %%
import torch

x = torch.tensor([1e-4, 1e-6, 1e-8, 1e5])
print("unscaled:   ", x.half().tolist())
print("times 1024: ", (x * 1024).half().tolist())

# %% [markdown]
# The solution is the *loss scale*: multiply the loss by a large number before the backward pass, so that all gradients grow
# by the same factor. Before the update, divide the gradients by it, in 32 bits. If the scale is too small, the small
# gradients are lost. If it is too large, the large ones become infinite: an *overflow*. Then we must skip the update;
# otherwise every weight would become infinite.
#
# So the program finds the scale by trying. It starts at 65,536. An overflow halves the scale and skips the update. After
# enough good updates *in a row* (2,000 in PyTorch) the scale is doubled, to see whether a larger one works.
#
# ### Exercise 3: scales (8 minutes, difficulty 3)
#
# `finite` says for each update whether all its gradients were finite. `interval` is the number of good updates in a row
# that doubles the scale. Return the scale with which each update was *computed*, as a list as long as `finite`.
#
# <details><summary>Hint</summary>
#
# Write the scale into the list before you look at the update. A bad update halves the scale and sets the count of good ones
# to 0. A doubling sets the count to 0, too.
#
# </details>

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
l14.checks.SCALES.check(scales)
### BEGIN HIDDEN TESTS
l14.checks.SCALES.grade(scales, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# Here is a run in which updates overflow exactly when the scale is above $2^{14}$, with an interval of 6:

# %%
finite = []
while len(finite) < 40:
    finite.append(l14.checks.right_scales([*finite, True], 6)[-1] <= 2**14)
l14.figures.loss_scale(
    l14.checks.right_scales(finite, 6), finite,
    alt="The scale falls from 2^16 to 2^14 in two overflows, doubles after every six good updates and falls back at once",
)

# %% [markdown]
# **What to notice.** There are two skips at the very start, while the scale comes down. Every fp16 run begins like this.
# Afterwards there is one skip each time the program tries a scale one step higher. This is the healthy state: with
# PyTorch's interval a run loses one update in 2,000. A scale that falls and falls is *not* healthy. Then the gradients
# really are infinite or NaN, and no scale will help: the learning rate is too high, or the loss divides by zero somewhere.
#
# ### Exercise 4: an overflow log (5 minutes, difficulty 2)
#
# Your own task: the log shows the loss scale of fourteen updates in a row, in a run with an interval of 3 (so that
# something happens). Give three things: the list of the updates that were skipped, the scale of the last line, and the
# number of updates that Adam made. (The log cannot show whether the last update was skipped; it was not.)
#
# <details><summary>Hint</summary>
#
# Compare each line with the next one. Where the scale falls, the update of the earlier line was skipped. Adam made all
# others.
#
# </details>

# %% tags=["exercise"]
student = "your name"
log = l14.checks.my_log(student)
answer = None
### BEGIN SOLUTION
skipped = [step for (step, scale), (_, then) in itertools.pairwise(log) if then < scale]
answer = skipped, log[-1][1], len(log) - len(skipped)
### END SOLUTION
for step, scale in log:
    print(f"update {step}: scale {scale:9,.0f}")

# %% tags=["check", "points:2"]
l14.checks.my_reading(student).check(answer)
### BEGIN HIDDEN TESTS
l14.checks.my_reading(student).grade(answer, seed=14)
### END HIDDEN TESTS

# %% [markdown]
# In our runs you do not have to work this out. Every line of `metrics.jsonl` has `overflow_skips`, the number of skips so
# far for each student, and the run monitor below draws it. A search copies the scaler with the model and restores it
# (lesson 10). The authors' program restored the scale, but not the count of good updates. On cards that support it,
# `precision="bf16"` needs no scale at all: it has the range of fp32, with fewer digits.

# %% [markdown]
# ## What it costs
#
# `estimate` says what a run will take before it begins. On a machine with the card,
# `pmd.estimate(corpus, "auto-pmd", "ted8")` times a few real steps. Without a card you can give a speed: *suppose* the card
# trains one plain model at 30,000 target tokens a second. Then the program finds everything else by counting passes through
# the model:

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
columns = ["hours at the supposed speed", "training", "search", "evaluation", "in all", "tau=1 is 1"]
Table(columns, rows, digits=1)

# %% [markdown]
# **What to notice.** Two students cost two trainings, plus a teacher's pass for each: 8 passes instead of 3. The search of
# Auto-PMD adds about three tenths to that: three trials on a tenth of the data after every epoch, with one teacher's pass
# for all three. A fair comparison asks what one model would do with the same compute (lesson 12). With the speed of your
# own card the hours change, but the last column hardly does.

# %% [markdown]
# ## The dry run
#
# Before a run of days, do a run of one minute through the very same code: it finds the wrong path, the missing package, the
# full disk. We change only the sizes, and keep all choices of method: `ted8` still has per-language vocabularies, the
# released tags, pre-norm, extra norms and a separate encoder table. Precision becomes fp32, since fp16 needs a GPU.

# %%
shrunk = dict(
    d_model=48, ffn=96, encoder_layers=2, decoder_layers=2, dropout=0.1, attention_dropout=0.1,
    vocab_size=400, steps=200, epochs=0, tokens=256, accumulate=2, warmup=60, lr=4e-3,
    precision="fp32", eval_every=20, update_every=20, start=0.2, beam=1,
)
if size == "ci":
    shrunk |= dict(d_model=16, ffn=32, encoder_layers=1, decoder_layers=1, steps=8)
    shrunk |= dict(eval_every=4, update_every=5, trial_ratio=0.01, max_len=32)
settings, show = ({}, "dashboard") if FULL else (shrunk, "off")
run = pmd.train(corpus, "auto-pmd", "ted8", out=place / "auto-pmd", show=show, **settings)
print("vocabulary:", run.tokenizer.vocab_size, "ids from", len(run.tokenizer.models), "models")
run.table()

# %% [markdown]
# **What to notice.** The BLEU scores mean nothing: the sentences are invented, there is one for every four hundred of the real
# corpus, and the model trained for a minute. What matters is that there is a score in every cell. Nine vocabularies were
# trained, eight foreign ones and English. Their union is smaller than nine times 400, because bytes, digits and equal pieces
# count once.
#
# The real run is the same cell with `FULL = True`. Outside a notebook, use
#
# ```sh
# python -m pmd_lite data ted8 --out data/ted8
# python -m pmd_lite estimate --corpus data/ted8 --preset ted8
# python -m pmd_lite train --corpus data/ted8 --preset ted8 --method auto-pmd
# ```

# %% [markdown]
# Now that we have a model, we look at its gradients for one sentence of each language, and at what fp16 would make of them:

# %%
from pmd_lite.data.batching import collate
from pmd_lite.data.tokens import EncodedSplit, TokenArray
from pmd_lite.distillation.losses import ce_loss, log_probs, token_logits

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
    lost = (gradients * scale < l14.figures.SMALLEST / 2).float().mean()
    over = (gradients * scale > l14.figures.LARGEST).sum()
    print(f"scale {scale:6,}: {100 * lost:.2f} % become 0, {over} overflow")

# %%
l14.figures.reach_of_fp16(
    gradients.tolist(), 65_536,
    alt=f"Sizes of gradients, {gradients.min():.0e} to {gradients.max():.0e}, without and with a scale of 65,536; two lines "
    "mark the smallest and the largest number of fp16",
)

# %% [markdown]
# **What to notice.** The gradients to the left of the first line are lost; the lines that the cell before printed count them.
# How many are lost without a scale, and how many with it? How far may the right hump still move before a gradient touches the
# second line? In a large model more is at stake: its loss is a mean over 65,536 tokens instead of a hundred, which makes
# gradients smaller. The width of the humps matters more than their position: if a hump is wider than the distance between the
# lines, every scale loses something.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The two printed lines give both shares. The scale of 65,536 saves nearly all gradients of this small model.
# The right hump may move by the distance from its right end to the second line: each factor of two is one step of the scale.
# <!-- END ANSWER -->

# %% [markdown]
# ## The run monitor
#
# A run of days needs attention. `dashboard(path)` reads the run directory and draws the state of the run: dev losses,
# weights and shares of draws for each student, tokens per second, skipped updates. The run may be finished or still in
# progress, in any process. It may even be on another machine, if you can read its directory.
#
# Our dry run is too short to look like training, and this notebook was made without a GPU. So here is a stored log: Bi-PMD with
# the preset `small` on 11,070 real sentence pairs of Tatoeba, 3,600 updates in 33 minutes of one CPU core, with the same code that
# would train TED-8. Its two students are taught by the mean of both. The study cuts `tatoeba6_easy` to a
# long tail and calls the result `tatoeba6-cut`. The directory beside this notebook holds the run's `config.json` and its
# `metrics.jsonl`, and no text. (The command: `python -m benchmarks.study real-text --source data/tatoeba6_easy --seeds 1
# --rows "bi-pmd teacher=ensemble"`.)

# %%
from pmd_lite.reports.dashboard import dashboard, watch
from pmd_lite.run import Run

dashboard(Run(Path("results") / "logs" / "real-text-bi-pmd"))

# %% [markdown]
# **What to notice.** Which pairs stop falling, and after how many updates? When do the weights change, and why do they stand still
# after that? Why do the tokens per second fall at the same update? In a long run, these signs should worry you: a loss that
# jumps, a pair that stands still while others fall, weights that reach 0 or 1 at once, tokens per second that sink for no reason of
# the method (another user on the card), skips that do not stop.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** The small pairs flatten first, and the large ones still fall slowly at the end. The weights are those of Bi-PMD:
# one number for all pairs, from three tenths of the run on. From there on each student also waits for its teacher's pass over
# every batch, so there are fewer tokens per second.
# <!-- END ANSWER -->

# %% [markdown]
# Now the dry run of one minute, without its times, which differ on every machine:

# %%
dashboard(run, times=False)

# %% [markdown]
# In one minute all pairs learn much the same thing, roughly which words there are, so expect losses that fall together. Do the
# weights separate already?
#
# The next cell shows the same figure live: it is redrawn as long as the run continues, with the remaining time. Open it
# beside a run in another process. In the cell that trains, `train(..., show="dashboard")` does the same. (Without a running
# kernel you see only the figure above.)
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Expect no, or hardly. All students know equally little, so no pair asks for a teacher more than another.
# <!-- END ANSWER -->

# %% tags=["widget"]
watch(run.path)

# %% [markdown]
# ## Continuing a run
#
# A run of days will be interrupted. What is on disk is complete at every instant, and the same call continues from there,
# to the same bits on the CPU (lesson 04 proves it). A finished run returns at once. You can see this here: the cell does
# not take a minute. A different setting in the same directory is refused:

# %%
print(pmd.train(corpus, "auto-pmd", "ted8", out=run.path, show="off", **settings))
try:
    pmd.train(corpus, "auto-pmd", "ted8", out=run.path, show="off", **{**settings, "lr": 1e-3})
except pmd.UserError as error:
    print("refused:", str(error).replace(str(run.path), "this directory"))

# %% [markdown]
# **What to notice.** The first Ctrl-C finishes the current update, saves and stops. A second Ctrl-C stops at once. After a
# power cut the last checkpoint counts. It is at most one evaluation old, which is an epoch in this preset. If an epoch
# takes hours, set `eval_every`. The checkpoint contains the scaler, Adam's moments, the order of the data and the random
# numbers. On resuming, the authors' program lost the distillation weights, and the best score of one model.

# %% [markdown]
# ## The paper's columns
#
# A reproduction is compared with these numbers. First the averages:

# %%
paper_tables.main_results("ted8")

# %% [markdown]
# **What to notice.** The row $\tau=1$ into English says 29.00, but the mean of the eight scores in the paper's appendix is
# 29.08. Four rows are copied from other papers, with other models (lesson 12). LSSD wins out of English.
#
# Then language by language. `own=` takes the scores of your run, in the order of the columns:

# %%
own = {label: list(run.bleu(i).values()) for i, label in enumerate(run.labels)} if FULL else None
paper_tables.per_language("ted8", "m2o", own)

# %%
paper_tables.per_language("ted8", "o2m")

# %% [markdown]
# **What to notice.** Into English, `model_1` is ahead of both single models on all eight languages, by 1.2 to 3 BLEU. It
# also has the better mean of the two students: on this shorter tail the sampler that follows the data does well. Out of
# English the gains are smaller, and Korean and Marathi hardly change. Before you are happy or sad about your own numbers:
# how much do two seeds of the same method differ? The paper does not say. Also, one author of this paper tried MultiDDS's
# program (issue 4 of its repository). For TED-8 out of English, the result was about four BLEU per language below the
# published numbers.
#
# <!-- BEGIN ANSWER -->
# **Our answer.** You must measure it: train two seeds and compare. For lesson 06's models, two seeds differed by tenths up
# to several points. A gain below that is not a finding.
# <!-- END ANSWER -->

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** Your card has too little memory for `tokens=8192, accumulate=8`. What do you change?
#
# <details><summary>A. `tokens=4096`, and nothing else.</summary>
#
# Not so. The update would be half as large, with the same learning rate and twice as many updates: another experiment.
#
# </details>
#
# <details><summary>B. `tokens=4096` and `accumulate=16`.</summary>
#
# Right. The update stays at 65,536 tokens. Only the speed changes.
#
# </details>
#
# <details><summary>C. The learning rate.</summary>
#
# Not so. It has no influence on memory.
#
# </details>
#
# **Question 2.** A log of fp16 shows one skipped update in about two thousand. What do you do?
#
# <details><summary>A. Nothing.</summary>
#
# Right. The program tries a larger scale from time to time. A skip is how it learns that the scale was too large.
#
# </details>
#
# <details><summary>B. Lower the learning rate.</summary>
#
# Not so. This is the healthy state. Worry when the scale falls again and again.
#
# </details>
#
# <details><summary>C. Switch to fp32.</summary>
#
# Not so. It costs speed and cures nothing.
#
# </details>
#
# **Question 3.** `__NULL__` marks a missing translation. Why is `cell == "__NULL__"` not enough?
#
# <details><summary>A. Because some files use lower case.</summary>
#
# Not so. The case is always the same; the spaces and the place differ.
#
# </details>
#
# <details><summary>B. Because the text was tokenised after marking, and the mark may stand inside a sentence.</summary>
#
# Right. It can read `_ _ NULL _ _`, or be a part of a longer cell. Otherwise you train on the mark.
#
# </details>
#
# <details><summary>C. Because Python compares addresses.</summary>
#
# Not so. `==` compares texts by their letters.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - A missing sentence can be marked in several ways. Count what you keep, and compare it with the published counts.
# - The experiment fixes the update, and the card limits the micro-batches. Change `tokens` and `accumulate` together, and
#   the run stays the same.
# - fp16 skips updates now and then by design. A scale that keeps falling is a broken run.
# - First estimate, then do a dry run through the same code, then do the real run and watch it with the monitor.
#
# **Where to go next.** TED-8 is in the paper's section 4.1 and its appendix on data, and the hyper-parameters are in the
# appendix after it. The code is in `data_scripts/pmd_corpora/ted8.py`, `pmd_lite/config/presets.py`,
# `pmd_lite/training/learner.py`, `pmd_lite/planning/estimate.py` and `pmd_lite/reports/dashboard.py`. Lesson 15 takes the
# larger corpus.
