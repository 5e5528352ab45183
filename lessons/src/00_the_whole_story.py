# %% [markdown]
# # 00 The whole story
#
# > **You will**: watch two small networks teach each other and move a frontier, train three translation systems on six invented
# > languages in the same way, and see why languages are harder. **Time**: ten minutes on two CPU cores, most of it waiting for
# > one cell; a second run is fast, because that cell finds its finished models. **Difficulty**: 1 of 5. **You need**: a little
# > Python; you need to know nothing about translation.
#
# **Contents**: two factories · six languages · two models, and two that teach each other · a prediction · BLEU per language ·
# the frontier · the weights · when does it help? · why not here? · the map · where to go next

# %% [markdown]
# ## Two factories
#
# Two factories sort parts into five kinds. The first has 2,000 labelled parts; the second has 40, and its sensors are mounted
# differently. One small network must serve both.
#
# How often should the network train on each factory? If we draw parts in proportion to their number, it hardly ever sees the
# second factory. If we draw both factories equally often, it sees each of the 40 parts hundreds of times and learns them by
# heart. A network is on the **Pareto frontier** if no other network is better in one factory without being worse in the other.
# Another way of drawing only moves a network along this frontier. The paper (Huang et al., ACL 2023) asks for more: it wants
# to push the whole frontier outwards. It trains *two* networks that draw differently, and each also learns from the
# predictions of the other. This is **Pareto Mutual Distillation**.
#
# The next cell trains both kinds in several invented worlds: two networks alone, and two that teach each other.

# %%
from pathlib import Path

import pmd_lite as pmd
from pmd_corpora.toy import explain
from pmd_kit import factories, l00, pictures, widgets
from pmd_kit.notation import notation_table
from pmd_lite.figures.runs import alphas_of, dev_loss_of, frontier_of

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings = {} if size == "lesson" else dict(steps=40, eval_every=20, update_every=13, d_model=16)
runs_in = Path("runs") / f"lesson00-{size}"

# %%
worlds, shorter = (range(1, 6), {}) if size == "lesson" else ([1], dict(steps=60, every=20))
sorted_parts = factories.compare(worlds, {**factories.ALONE, **factories.TOGETHER}, **shorter)

# %%
sorted_parts.figure()

# %% tags=["result-table"]
print(sorted_parts.reading())

# %% [markdown]
# **What to notice.** Up and to the right is better. The squares are the two single networks; the circles are the two that teach
# each other. Each arrow leads from a single network to the student that began as its twin: the same weights, the same order of
# the parts. So every difference is caused by what the students tell each other. The step through the squares is their frontier:
# whatever lies below and to the left of it is beaten. Where the solid step lies outside the dashed step, the frontier has moved.
# Each world is a new problem, made from a new seed. One world proves little, so the lines above count the worlds.

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
# Training on real corpora takes hours. Our six languages are invented: a program makes them from a seed. They come in families,
# and have their own sound changes, word orders, endings and scripts. A small model learns much of them within minutes, and it
# still meets what makes multilingual translation hard. Their sizes decrease as WMT-6's sizes do, so they borrow the names of
# WMT-6's languages (`fra`, `deu`, `zho`, `est`, `ron`, `tur`); not one of their words is real. Here is one meaning in all six
# languages:

# %%
corpus = pmd.load_corpus("longtail")
print(explain(world="longtail", i=3))

# %%
pictures.sampling_distribution(
    corpus.pairs, corpus.sizes, [1, 5], alt="Probability of drawing each language pair: steep at tau=1, flat at tau=5"
)

# %% [markdown]
# **What to notice.** At $\tau=1$ more than four draws in five go to `fra` and `deu`, and the two smallest pairs are hardly ever
# drawn. At $\tau=5$ a pair of 30 sentences is drawn one time in nine. In 2,000 updates the model sees each of its sentences
# more than a hundred times, and so it may memorise them.

# %% [markdown]
# ## Two models with different temperatures, and two that teach each other
#
# Now we train all three systems: one model with $\tau=1$, one with $\tau=5$, and **Auto-PMD**, which trains a `model_1`
# ($\tau=1$) and a `model_2` ($\tau=5$) together. Two systems are trained at a time, each in its own process, and every model
# gets the same number of updates. `model_1` starts from exactly the same weights, data order and dropout as the single $\tau=1$
# model, and `model_2` from the same as the single $\tau=5$ model. So every difference between them is caused by distillation.

# %%
jobs = [dict(corpus="longtail", method=m, out=runs_in / m.replace("=", ""), **settings) for m in ("auto-pmd", "tau=1", "tau=5")]
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
# line joins the single models. Each arrow goes from a single model to the student that started as its twin. This is a small
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
# that the other model gives it. The weight $\alpha_i[\ell]$ says how much the student listens to the other model. Each student
# has its own weight for each language, and Auto-PMD chooses these weights by trial, again and again during training. It makes
# three copies of the student. It trains each copy for a short time: one with all weights raised, one with all weights lowered,
# one with the weights kept. Then it measures the loss of each copy on held-out sentences, language by language, keeps the best
# action for each language, and throws the copies away.

# %%
alphas_of(auto)

# %% [markdown]
# **What to notice.** Distillation starts after three tenths of the run, because a teacher that knows nothing has nothing to
# teach. Do the small languages end with larger weights than the large ones, as the paper found? For which student?

# %%
dev_loss_of([one, five, auto])

# %% [markdown]
# **What to notice.** This is the loss on held-out sentences; lower is better. If a curve rises again after its star, the model
# *overfits*: it still gets better on its few training sentences, and it gets worse on everything else. Look at the two smallest
# languages, and compare each student with the single model of the same $\tau$. Then compare with the frontier above. A lower
# loss and a higher BLEU are not the same thing: loss asks how much probability the model gives to the right sentence, BLEU only
# looks at the sentence to which the model gives the most probability.

# %% [markdown]
# ## When does it help?
#
# One run proves little. `benchmarks/toy_regimes.py` trained more with this lesson's settings; the line above the table says
# how many seeds each world has. In the world **longtail** (the one of this lesson) the smallest languages have 30 sentences, and
# the models overfit on them. In the world **toy** they have hundreds, and after the same number of updates no model overfits.

# %%
stored = l00.stories.Regimes.load(Path("results") / "toy_regimes.json")
print(stored.table().to_text())

# %%
stored.figure()

# %%
print(stored.reading())

# %% [markdown]
# ## The map
#
# This table lists the paper's symbols, where the paper defines them, their names in the code, and the lesson that explains
# them.

# %%
notation_table()

# %% [markdown]
# ## Takeaways
#
# - Sampling moves a model *along* a frontier: what one language wins, another loses.
# - Two models that draw differently and teach each other can push the frontier. They did so between two factories; with
#   languages it depends on the data and on the length of training.
# - Auto-PMD also costs more: two models, a teacher's forward pass for every distilled batch, and three short trainings per
#   search. Would one larger model, or one that is trained longer, do as well? The question is fair, and later lessons ask it.
# - Read results like these twice: once for the size of a difference, and once for whether all seeds agree on its sign.
#
# **Where to go next.** The code of this lesson is `pmd_lite/training/trainer.py` (Alg. 1) and `pmd_lite/training/trial.py`
# (Alg. 2). The equations are in sections 2.1, 3.1 and 3.3 of the paper.
