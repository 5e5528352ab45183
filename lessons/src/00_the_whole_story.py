# %% [markdown]
# # 00 The whole story
#
# > **You will**: watch two small networks teach each other and move a frontier, train three translation systems on six invented
# > languages in the same way, and see why languages are harder. **Time**: ten minutes on two CPU cores, most of it waiting for
# > one cell; a second run is fast, because that cell finds its finished models. **Difficulty**: 1 of 5. **You need**: a little
# > Python; you need to know nothing about translation.
#
# **Contents**: two factories · six languages · two models, and two that teach each other · a prediction · BLEU per language ·
# the frontier · the weights · when does it help? · why not here? · the map · quiz · where to go next

# %% [markdown]
# ## Two factories
#
# Two factories sort parts into five kinds. The first has 2,000 labelled parts; the second has 40, and its sensors are mounted
# differently. One small network must serve both, and the labels are bad: two of five are drawn by lot.
#
# How often should the network train on each factory? If we draw parts in proportion to their number, it hardly ever sees the
# second factory. If we draw both factories equally often, it sees each of the 40 parts hundreds of times and learns them by
# heart. A network is on the **Pareto frontier** if no other network is better in one factory without being worse in the other.
# Another way of drawing moves a network along this frontier at best. The paper (Huang et al., ACL 2023) asks for more: it wants
# to push the whole frontier outwards. It trains *two* networks that draw differently, and each also learns from the
# predictions of the other. This is **Pareto Mutual Distillation**.
#
# The next cell trains two networks alone and two that teach each other, in several invented worlds. We chose a case in which the
# idea works; [lesson 16](16_beyond_the_paper.ipynb) shows others, also those in which it fails.

# %%
from pathlib import Path

import pmd_lite as pmd
from pmd_corpora.toy import explain
from pmd_kit import factories, l00, pictures, tiny, widgets
from pmd_kit.notation import notation_table
from pmd_lite.figures.runs import alphas_of, frontier_of

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings, world = {}, {}
if size == "ci":
    settings = dict(steps=16, eval_every=8, update_every=6, tokens=160, trial_ratio=0.01, **tiny.MODEL)
    world = tiny.WORLD
runs_in = Path("runs") / f"lesson00-{size}"

# %%
worlds, shorter = (range(1, 6), {}) if size == "lesson" else ([1], dict(steps=60, every=20))
sorted_parts = factories.compare(worlds, {**factories.ALONE, **factories.TOGETHER}, factories.World(noise=0.4), **shorter)

# %%
sorted_parts.figure()

# %% tags=["result-table"]
print(sorted_parts.reading())

# %% [markdown]
# **What to notice.** Up and to the right is better, and each world has axes of its own. The squares are the two single networks:
# the higher one draws by number, the lower one evenly. The circles are the two that teach each other. Each arrow leads from a single network to the student that began as its twin, with the same weights and the same
# order of parts. So every difference is caused by what the students tell each other. Whatever lies below and to the left of a
# step is beaten: where the solid step lies outside the dashed one, the frontier has moved. A square inside the dashed step is
# beaten by the other square: in such a world, drawing evenly gains nothing by itself. Each world is a new problem from a
# new seed. One world proves little, so the lines above count the worlds.

# %% [markdown]
# ## Now languages
#
# One model that translates many languages is cheaper than many models, and small languages profit from large languages that are
# related to them. But the training data are very unequal: in the paper's WMT-6, French has three million sentences and Turkish
# has five thousand. Languages take the place of the factories. We must decide how often the model sees each language pair
# $\ell$, which has $N_\ell$ sentences. The usual way to decide is a *temperature* $\tau$:
#
# $$P(\ell) = \frac{N_\ell^{1/\tau}}{\sum_j N_j^{1/\tau}} \tag{Eq. 2}$$
#
# With $\tau = 1$ the sizes of the data decide. A larger $\tau$ makes $P$ flatter, so that the small languages are drawn more
# often. (The factories above used $\tau = 1$ and $\tau = \infty$.)
#
# ### Six languages
#
# Training on real corpora takes hours. Our six languages are invented: a program makes them from a seed, in families, with their
# own sound changes, word orders, endings and scripts. A small model learns much of them within minutes. Their sizes decrease as
# WMT-6's sizes do, so they borrow the names of WMT-6's languages (`fra`, `deu`, `zho`, `est`, `ron`, `tur`); not one of their
# words is real. Here is one meaning in all six languages:

# %%
corpus = pmd.load_corpus("longtail", **world)
print(explain(world="longtail", i=3))

# %%
pictures.sampling_distribution(
    corpus.pairs, corpus.sizes, [1, 5], alt="Probability of drawing each language pair: steep at tau=1, flat at tau=5"
)

# %% [markdown]
# **What to notice.** At $\tau=1$ more than four draws in five go to `fra` and `deu`. At $\tau=5$ a pair of 30 sentences is drawn
# one time in nine: in 2,000 updates the model sees each of its sentences more than a hundred times, and may memorise them.

# %% [markdown]
# ## Two models with different temperatures, and two that teach each other
#
# Now we train all three systems: one model with $\tau=1$, one with $\tau=5$, and **Auto-PMD**, which trains a `model_1`
# ($\tau=1$) and a `model_2` ($\tau=5$) together. Every model gets the same number of updates. As in the factories, `model_1`
# starts as the twin of the single $\tau=1$ model, and `model_2` as the twin of $\tau=5$: the same weights, data order and dropout.

# %%
methods, common = ("auto-pmd", "tau=1", "tau=5"), dict(corpus="longtail", corpus_options=world, **settings)
jobs = [dict(common, method=method, out=runs_in / method.replace("=", "")) for method in methods]
auto, one, five = pmd.train_side_by_side(jobs, workers=2)

# %% [markdown]
# ### Exercise: who wins where? (2 minutes, difficulty 1)
#
# Before you look at the results: which of the two *single* models will translate each pair better? Use the training sizes
# above. Replace each `None` by `"tau=1"` or `"tau=5"` (write the six values by hand, or use one line of code), and run both
# cells.

# %% tags=["exercise"]
prediction = {pair: None for pair in corpus.pairs}
### BEGIN SOLUTION
prediction = {pair: "tau=1" if n > 300 else "tau=5" for pair, n in zip(corpus.pairs, corpus.sizes)}
### END SOLUTION
print(prediction)

# %% tags=["check"]
l00.checks.check_winners(prediction, one, five)

# %% [markdown]
# ## BLEU per language
#
# BLEU compares a translation with a reference. It goes from 0 to 100; higher is better. HRL is the mean of the three large
# languages, LRL the mean of the three small ones.

# %% tags=["result-table"]
print(pmd.bleu_table([one, five, auto]).to_text())

# %%
print(l00.stories.gains(one, five, auto))

# %% [markdown]
# ## The frontier
#
# Again each model is a point: further to the right is better on small languages, further up is better on large ones. The gray
# steps enclose what the single models dominate, the blue ones what the students dominate. Each arrow goes from a single model to the student that started as its twin. This is a small
# version of the first figure of the paper.

# %%
frontier_of([one, five, auto])

# %% [markdown]
# Here you can change the same picture: untick a method and see what is left. (Without a running kernel you see only the figure
# above.)

# %% tags=["widget"]
widgets.frontier_picker([one, five, auto])

# %% [markdown]
# ## The weights
#
# At every step, a student minimises
#
# $$(1-\alpha_i[\ell])\,\mathcal{L}_{ce} + \alpha_i[\ell]\,\mathcal{L}_{kd} \tag{Eq. 4}$$
#
# The first term asks for the reference translation. The second term asks the student to give every next word the probability
# that the other model gives it. The weight $\alpha_i[\ell]$ says how much the student listens to the other model. Auto-PMD
# chooses it for each student and each language by trial, again and again during training. It makes three copies of the student
# and trains each for a short time: with all weights raised, lowered or kept. Then it measures the loss of each copy on held-out
# sentences, keeps the best action for each language, and throws the copies away.

# %%
alphas_of(auto)

# %% [markdown]
# **What to notice.** Distillation starts after three tenths of the run, because a teacher that knows nothing has nothing to
# teach. Do the small languages end with larger weights than the large ones, as the paper found? For which student?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Read the right ends of the lines, student by student. We expect it for `model_1`: its teacher has seen the
# small languages far more often. For `model_2` one run may end either way, and another processor may end elsewhere. Lesson
# 10 names two reasons that can raise a weight.
# <!-- END ANSWER -->

# %% [markdown]
# ## When does it help?
#
# One run proves little. `benchmarks/toy_regimes.py` trained more with this lesson's settings; the line above the table says
# how many seeds each world has. In the world **longtail** (the one of this lesson) the smallest languages have 30 sentences, and
# the models *overfit*: they still get better on these sentences, and worse on all others. In the world **toy** they have
# hundreds, and after the same number of updates no model overfits. A lower loss on held-out sentences and a higher BLEU are not
# the same thing: BLEU only looks at the sentence to which the model gives the most probability.

# %%
stored = l00.stories.Regimes.load(Path("results") / "toy_regimes.json")
print(stored.table().to_text())

# %%
stored.figure()

# %%
print(stored.reading())

# %% [markdown]
# ## Why not here?
#
# Compare the sentences under the factories with the lines above. If the factories' frontier moved and that of the languages did
# not, what is different? Lesson 16 varies the factories, one thing at a time, and finds three conditions:
#
# - **The labels must be noisy.** In the factories a network learns even the wrong labels of the 40 parts by heart, and its peer
#   does not confirm them. If no label is random, smoothing the labels does better than a peer. Our invented languages follow
#   fixed rules, so their labels are nearly clean, and every translation model here smooths its labels anyway.
# - **The tasks must have something in common.** The second factory's sensors are partly the first one's. So what a peer knows
#   about the many parts helps with the few.
# - **A teacher must know the large task.** If the networks of lesson 16 train for 300 updates instead of 1,000, the students win in
#   two of five worlds only. Our translation models would still improve with more updates (lesson 12): beginners teach beginners.
#
# Real sentences have many right translations, which is noise too. [Lesson 13](13_real_text.ipynb) therefore looks at real text,
# [lesson 16](16_beyond_the_paper.ipynb) at the factories, and `docs/results.md` lists what has been found so far.

# %% [markdown]
# ## The map
#
# This table lists the paper's symbols, where the paper defines them, their names in the code, and the lesson that explains
# them.

# %%
notation_table()

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** What does it mean that a model is on the Pareto frontier?
#
# <details><summary>A. It is the best on the sum of both scores.</summary>
#
# Not so. A sum says how much one score is worth in the other. The frontier needs no such price.
#
# </details>
#
# <details><summary>B. No other model of the set is better on one score without being worse on the other.</summary>
#
# Right. Such a model can only be beaten by giving something up. It depends on which models take part.
#
# </details>
#
# <details><summary>C. It is better than all others on both scores.</summary>
#
# Not so. Such a model would dominate all others, and the frontier would be this one point.
#
# </details>
#
# **Question 2.** Why do the two students of Pareto Mutual Distillation sample differently?
#
# <details><summary>A. So that training is faster.</summary>
#
# Not so. Two students and their teachers' passes cost more than one model.
#
# </details>
#
# <details><summary>B. So that each knows something that the other does not.</summary>
#
# Right. Two equal students would have nothing to tell each other.
#
# </details>
#
# <details><summary>C. So that the small group is seen by both as often as the large one.</summary>
#
# Not so. The first student follows the sizes of the data. Only the second one sees the small group often.
#
# </details>
#
# **Question 3.** A method has a higher score than another in one run. What do you ask first?
#
# <details><summary>A. Which method is newer.</summary>
#
# Not so. Age says nothing about a difference.
#
# </details>
#
# <details><summary>B. How far two runs of the same method lie apart.</summary>
#
# Right. A difference that is smaller than this says nothing about methods.
#
# </details>
#
# <details><summary>C. How many digits the score has.</summary>
#
# Not so. Digits show how it was printed, not how sure it is.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - Sampling moves a model *along* a frontier: what one language wins, another loses.
# - Two models that teach each other can push the frontier. Whether they do depends on the data and on the length of training.
# - Auto-PMD also costs more: two models, a teacher's forward pass for every distilled batch, and three short trainings per
#   search. Would one larger model, or one that is trained longer, do as well? The question is fair, and later lessons ask it.
#
# **Where to go next.** The code of this lesson is `pmd_lite/training/trainer.py` (Alg. 1) and `pmd_lite/training/trial.py`
# (Alg. 2). The equations are in sections 2.1, 3.1 and 3.3 of the paper.
