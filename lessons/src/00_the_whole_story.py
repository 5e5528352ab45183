# %% [markdown]
# # 00 The whole story in five minutes
#
# > **You will**: train three translation systems on six invented languages, see large and small languages pull in
# > opposite directions, and see what Pareto Mutual Distillation does about it. **Time**: about five minutes on two CPU
# > cores, most of it waiting for one cell. **Difficulty**: 1 of 5. **You need**: a little Python; nothing about translation.
#
# **Contents**: the problem · six languages · two models, two tempers · a prediction · teaching each other · the frontier
# · the weights · when does it help? · the map · where to go next

# %% [markdown]
# ## The problem
#
# One model that translates many languages is cheaper than many models, and small languages profit from their large
# relatives. But its training data are wildly unequal: in the paper's WMT-6, three million sentences of French stand
# beside five thousand of Turkish. Whoever builds the model must decide how often to show it each language pair
# $\ell$ with $N_\ell$ sentences, and the usual knob is a *temperature* $\tau$:
#
# $$P(\ell) = \frac{N_\ell^{1/\tau}}{\sum_j N_j^{1/\tau}} \tag{Eq. 2}$$
#
# With $\tau = 1$ the data decide; the larger $\tau$, the flatter $P$, and the more often the small languages come up.
# Either way somebody loses. Points that cannot be improved for one language without loss for another form a **Pareto
# frontier**, and turning $\tau$ only moves along it. The paper (Huang et al., ACL 2023) asks for more: push the whole
# frontier outwards, by training *two* models with different $\tau$ that learn from each other's strengths.

# %%
from pathlib import Path

import pmd_lite as pmd
from pmd_lite.data.toy import explain
from pmd_lite.teaching import figures, plots, stories, widgets
from pmd_lite.teaching.checks import check_winners
from pmd_lite.teaching.notation import notation_table

size = None  # papermill: -p size ci

# %% tags=["parameters"]
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
settings = {} if size == "lesson" else dict(steps=40, eval_every=20, update_every=13, d_model=16)
runs_in = Path("runs") / f"lesson00-{size}"

# %% [markdown]
# ## Six languages
#
# Real corpora take hours. Our six languages are invented, from a seed, in families with sound changes, word orders,
# endings and scripts of their own, so that a small model learns them in a minute and still meets everything that makes
# multilingual translation hard. Their sizes fall off like WMT-6's. Here is one meaning in all of them:

# %%
corpus = pmd.load_corpus("longtail")
print(explain(world="longtail", i=3))

# %%
plots.sampling_distribution(
    corpus.pairs, corpus.sizes, [1, 5], alt="Probability of drawing each language pair: steep at tau=1, flat at tau=5"
)

# %% [markdown]
# **What to notice.** At $\tau=1$ more than four draws in five go to `fra` and `deu`, and the two smallest pairs hardly ever
# come up. At $\tau=5$ a pair of 30 sentences is drawn one time in nine: in 2,000 updates each of its sentences is seen some
# two hundred times, which invites the model to learn them by heart.

# %% [markdown]
# ## Two models, two tempers, and two that teach each other
#
# Now we train all three systems: one model with $\tau=1$, one with $\tau=5$, and **Auto-PMD**, which trains a
# `model_1` ($\tau=1$) and a `model_2` ($\tau=5$) together. They run side by side, a process each, the same number of updates
# for every model. `model_1` starts from the very same weights, data order and dropout as the single $\tau=1$ model, and
# `model_2` as the single $\tau=5$ model: whatever comes out different is the work of distillation.

# %%
jobs = [dict(corpus="longtail", method=m, out=runs_in / m.replace("=", ""), **settings) for m in ("auto-pmd", "tau=1", "tau=5")]
auto, one, five = pmd.train_side_by_side(jobs, workers=2)

# %% [markdown]
# ### Exercise: who wins where? (2 minutes, difficulty 1)
#
# Before you look: which of the two *single* models will translate each pair better? Decide from the training sizes
# above, replace each `None` by `"tau=1"` or `"tau=5"` (write the six by hand, or one line), and run both cells.

# %% tags=["exercise"]
prediction = {pair: None for pair in corpus.pairs}
### BEGIN SOLUTION
prediction = {pair: "tau=1" if n > 300 else "tau=5" for pair, n in zip(corpus.pairs, corpus.sizes)}
### END SOLUTION
print(prediction)

# %% tags=["check"]
check_winners(prediction, one, five)

# %% [markdown]
# ## BLEU per language
#
# BLEU compares a translation with a reference, 0 to 100, higher is better. HRL is the mean of the three large
# languages, LRL of the three small ones.

# %% tags=["result-table"]
print(pmd.bleu_table([one, five, auto]).to_text())

# %%
print(stories.gains(one, five, auto))

# %% [markdown]
# ## The frontier
#
# Each model is a point: how good on small languages (right), how good on large ones (up). The gray line joins the single
# models; arrows lead from each to the student that began as its twin. This is the first figure of the paper, in small.

# %%
figures.frontier_of([one, five, auto])

# %% [markdown]
# The same picture to play with: untick a method and see what is left. (Without a running kernel only the figure above
# is shown.)

# %% tags=["widget"]
widgets.frontier_picker([one, five, auto])

# %% [markdown]
# ## The weights
#
# At every step, a student minimises
#
# $$(1-\alpha_i[\ell])\,\mathcal{L}_{ce} + \alpha_i[\ell]\,\mathcal{L}_{kd} \tag{Eq. 4}$$
#
# the first term asks for the reference translation, the second for the other model's opinion of every next word. How
# much to listen, $\alpha_i[\ell]$, is decided per student and per language: every now and then Auto-PMD copies the student
# three times, trains the copies for a moment with all weights raised, lowered or kept, looks at the loss on held-out
# sentences language by language, throws the copies away and keeps the best action for each language.

# %%
figures.alphas_of(auto)

# %% [markdown]
# **What to notice.** Distillation starts after three tenths of the run (a teacher who knows nothing has nothing to teach). Do the
# small languages end with larger weights than the large ones, as the paper found? For which student?

# %%
figures.dev_loss_of([one, five, auto])

# %% [markdown]
# **What to notice.** Held-out loss, lower is better. A curve that has passed its star and rises again *overfits*: the model
# still gets better on its few training sentences and worse on everything else. Look at the two smallest languages. On
# Romanian Auto-PMD's students, who also listen to a model that has *not* seen those sentences so often, stay below the
# single models. On Turkish they begin below, too; but in the stored run both end with a weight of .99 there: each
# listens to the other and hardly to anything else, and up they go together. Then compare with the frontier above: a
# lower loss and a higher BLEU are not the same thing. Loss asks how much probability the right sentence gets, BLEU only
# looks at the sentence that gets the most.

# %% [markdown]
# ## When does it help?
#
# One run proves little. Here are more, trained by `benchmarks/toy_regimes.py` with this lesson's settings and stored
# beside this notebook; the line above the table says how many seeds each world has. In the world **longtail** (this lesson's) the smallest languages have 30
# sentences and overfit. In the world **toy** they have hundreds, and after the same number of updates nothing overfits.

# %%
stored = stories.Regimes.load(Path("results") / "toy_regimes.json")
print(stored.table().to_text())

# %%
stored.figure()

# %%
print(stored.reading())

# %% [markdown]
# ## The map
#
# The paper's symbols, where they stand in it, what they are called in the code, and which lesson explains them.

# %%
notation_table()

# %% [markdown]
# ## Takeaways
#
# - Sampling moves *along* a frontier: what one language wins, another loses.
# - Distillation between two differently sampled models can give each a share of the other's strength. It pays where a
#   language overfits, and costs where it is still being learned; so weights must differ by language and over time.
# - In this small world the gain is in held-out loss. What BLEU says of it stands above, seed by seed: the paper's result
#   is from models hundreds of times larger, trained for days, and is neither proved nor refuted here.
# - It also costs: two models, a teacher's forward pass for every distilled batch, and three short trainings per search.
#   Whether one larger or longer-trained model would do as well is a fair question, and later lessons ask it.
# - Read results like these twice: once for the size of a difference, once for whether all seeds agree on its sign.
#
# **Where to go next.** The code of this lesson is `pmd_lite/training/trainer.py` (Alg. 1) and
# `pmd_lite/training/trial.py` (Alg. 2); the equations are in the paper's sections 2.1, 3.1 and 3.3.
