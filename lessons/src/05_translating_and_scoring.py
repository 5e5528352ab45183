# %% [markdown]
# # 05 Translating and scoring
#
# > **You will**: turn a model's probabilities into a sentence, greedily and with a beam; say what a length penalty does; count
# > BLEU by hand; and learn not to trust a BLEU score that comes without its signature. **Time**: about one minute on two CPU
# > cores, fifty with the exercises. **Difficulty**: 2 of 5. **You need**: lesson 03; logarithms.
#
# **Contents**: the best sentence · exercise: greedy · a model to talk to · how to compare lengths · exercise: two scores ·
# the beam · does a wider beam help? · what BLEU counts · exercise: matches · exercise: corpus BLEU · a number and its
# signature · exercise: the trap · quiz ·
# takeaways

# %% [markdown]
# ## The best sentence
#
# A trained model gives a probability to every next word, and so to every sentence:
#
# $$\log P(y \mid x) = \sum_{t=1}^{|y|} \log P(y_t \mid y_{<t}, x)$$
#
# To translate means to look for the sentence with the highest probability. There are far too many sentences to try them all.
# *Greedy* search takes the most probable word, then the most probable word after that, and so on. It never takes a word back.
# By hand, with a model of two words per sentence (`after` says which words may follow each word, and how probable they are):

# %%
import math
from pathlib import Path

import torch

import pmd_lite as pmd
from pmd_kit import l05
from pmd_lite.evaluation.tables import Table

# %%
after = {
    "": {"the": 0.6, "a": 0.4},
    "the": {"cat": 0.4, "dog": 0.3, "fox": 0.3},
    "a": {"cat": 0.9, "dog": 0.1},
}


def search(beam):
    live = [(0.0, [""])]  # (log p, words so far)
    for _ in range(2):
        longer = [(logp + math.log(p), [*words, word]) for logp, words in live for word, p in after[words[-1]].items()]
        live = sorted(longer, reverse=True)[:beam]
    return [(" ".join(words).strip(), round(math.exp(logp), 2)) for logp, words in live]


print("greedy:", search(beam=1))
print("beam 2:", search(beam=2))

# %% [markdown]
# **What to notice.** Greedy search begins with "the", because 0.6 is more than 0.4, and ends at 0.6 * 0.4 = 0.24. It cannot
# know that after "the" three nouns share the probability. A *beam* of 2 keeps the two best beginnings, and finds "a cat" with
# 0.4 * 0.9 = 0.36. A beam of 1 is greedy search.

# %% [markdown]
# ### Exercise 1: greedy (10 minutes, difficulty 2)
#
# Now use a real model. `model(src, trg_in)` takes ids `[1, src_len]` and `[1, trg_len]` and returns logits
# `[1, trg_len, vocab]`. The input of the decoder begins with `bos`. Return the list of ids of the greedy translation, without
# `bos` and `eos`, and at most `max_len` of them. (At each step, run the decoder again on all words so far. This is slow; the
# library stores keys and values instead.)
#
# <details><summary>Hint</summary>
#
# Keep a list of ids that begins with `bos`. In each round you need only the last position of the logits: `logits[0, -1]`.
# Stop at `eos`, or when the list is long enough. Remember what you must not return.
#
# </details>

# %% tags=["exercise"]
def greedy(model, src, bos, eos, max_len):
    ### BEGIN SOLUTION
    tokens = [bos]
    while len(tokens) <= max_len:
        logits = model(src, torch.tensor([tokens]))
        token = int(logits[0, -1].argmax())
        if token == eos:
            break
        tokens.append(token)
    return tokens[1:]
    ### END SOLUTION


# %% tags=["check", "points:3"]
l05.checks.GREEDY.check(greedy)
### BEGIN HIDDEN TESTS
l05.checks.GREEDY.grade(greedy, seed=5)
### END HIDDEN TESTS

# %% [markdown]
# ## A model to talk to
#
# We train a model for half a minute, from three languages into English: `fra` has 2,000 sentences, `zho` 399, `est` 110. The
# model will be sure of itself in one language and unsure in another, and this is just what we need here.

# %% tags=["parameters"]
size = None  # papermill: -p size ci

# %%
size = size or pmd.run_size()  # "ci" only checks that everything runs; "lesson" is what you read here
lesson = size == "lesson"
settings = dict(steps=800, eval_every=200) if lesson else dict(steps=10, eval_every=5, d_model=16)
sentences = 150 if lesson else 10  # of each test set, for the comparisons below
runs_in = Path("runs") / f"lesson05-{size}"

# %%
corpus = pmd.load_corpus("longtail", pairs=["fra-eng", "zho-eng", "est-eng"])
run = pmd.train(corpus, "tau=5", out=runs_in / "three", score=False, show="off", **settings)
model, tokenizer = run.model(), run.tokenizer
tests = {pair: [corpus.test[pair][i] for i in range(sentences)] for pair in corpus.pairs}
for pair, lines in tests.items():
    source, reference = lines[0]
    print(f"{pair}  {source}")
    print(f"         the model says   {run.translate([source], pair, beam=1)[0]}")
    print(f"         the reference is {reference}")

# %% [markdown]
# ## How to compare lengths
#
# Every further word makes $\log P$ smaller, because it adds a negative number. If we chose by $\log P$ alone, short
# translations would win only because they are short. So we compare hypotheses, that is, candidate translations, by
#
# $$\mathrm{score}(y) = \frac{\log P(y \mid x)}{|y|^{\lambda}}$$
#
# with a *length penalty* $\lambda$. With $\lambda=0$ the score is $\log P$ itself, with $\lambda=1$ it is the mean per token.
# The name is misleading: a larger $\lambda$ favours *longer* sentences. The length includes the end-of-sentence token (EOS),
# which has a probability like every other token.
#
# ### Exercise 2: two scores (6 minutes, difficulty 1)
#
# Put your name between the quotes. You get a short and a long hypothesis, each as the probabilities of its tokens (EOS is the
# last), and a $\lambda$. What are their two scores? Use a calculator or Python; two decimals are enough. Which hypothesis would
# win by $\log P$ alone, and which wins by score?

# %% tags=["exercise"]
student = "your name"
short, long, penalty = l05.checks.your_hypotheses(student)
scores = None  # [score of the short one, score of the long one]
### BEGIN SOLUTION
scores = [sum(math.log(p) for p in hypothesis) / len(hypothesis) ** penalty for hypothesis in (short, long)]
### END SOLUTION
print("short", short, "long", long, "length penalty", penalty)

# %% tags=["check", "points:2"]
l05.checks.scores(student).check(scores)
### BEGIN HIDDEN TESTS
l05.checks.scores(student).grade(scores, seed=5)
### END HIDDEN TESTS

# %% [markdown]
# ## The beam
#
# Here are the hypotheses that are left in a beam of four at the end of a search, best first. Where two sentences begin with the
# same words, these words are drawn only once. Under every word you see the probability that the model gave it at that place. On
# the right you see $\log P$ and the score.

# %%
def explore(sentence, beam, penalty):
    return l05.beams.branches(model, tokenizer, "est-eng", sentence, beam=beam, length_penalty=penalty)


shown = [source for source, _ in tests["est-eng"][:8]]
print(shown[4], "means", tests["est-eng"][4][1])
l05.widgets.beam_figure(explore, shown[4], beam=4)

# %% [markdown]
# **What to notice.** The hypotheses share most of their words. Where two of them have the same length in tokens (pieces and EOS),
# $\log P$ and score put them in the same order, so no penalty changes which of the two wins. The true answer is in the line above
# the figure. If it is not among the four, the beam cannot find it any more: its beginning dropped out at an earlier step. If
# hypotheses differ in length, a larger penalty helps the longer ones.
#
# Here you can do the same with more sentences; look for one where the penalty decides. (Without a running kernel you see only
# the figure above.)

# %% tags=["widget"]
l05.widgets.beam_explorer(explore, shown)

# %% [markdown]
# ## Does a wider beam help?
#
# A wider beam finds sentences with a higher score; that is all it promises. The paper uses a beam of 5 (appendix C). What does
# this beam do for our model? We translate the first test sentences of the largest and the smallest language several times.
#
# **Predict** (2 minutes). Will a beam of 5 have a higher BLEU than greedy search, and by how many points? On which pair
# more?
#
# <!-- BEGIN ANSWER -->
# **Our answer.** Tenths of a point at most, in either direction. The unsure model (`est`) has more to gain and more to lose,
# because its hypotheses differ more.
# <!-- END ANSWER -->

# %%
from pmd_lite.evaluation.bleu import corpus_bleu
from pmd_lite.evaluation.translation import translate_ids


def translate(pair, beam, penalty=1.0):
    sources = [tokenizer.encode_src(source, pair) for source, _ in tests[pair]]
    return translate_ids(
        model, sources, pair, tokenizer, limit=64, budget=2400, beam=beam, length_penalty=penalty
    )


def row(name, pair, hyps):
    refs = [reference for _, reference in tests[pair]]
    words = sum(len(h.split()) for h in hyps) / sum(len(r.split()) for r in refs)
    return [name, pair, corpus_bleu(hyps, refs, "eng").bleu, 100 * words]


found = {(pair, beam): translate(pair, beam) for pair in ("fra-eng", "est-eng") for beam in (1, 2, 5)}
rows = [row(f"beam {beam}", pair, hyps) for (pair, beam), hyps in found.items()]
rows += [row(f"beam 5, penalty {p:g}", "est-eng", translate("est-eng", 5, p)) for p in (0.0, 2.0)]
Table(["search", "pair", "BLEU", "length, % of reference"], rows, digits=1)

# %% [markdown]
# **What to notice.** A wider beam finds hypotheses with a higher score, and BLEU hardly moves, sometimes down: a higher score
# is not a better translation. On 150 sentences such small differences may be chance. It matters little here whether $\lambda$
# is 0 or 1. With $\lambda=2$ the search prefers everything that is long: the translations become much longer than the
# references, and BLEU falls.

# %% [markdown]
# ## What BLEU counts
#
# BLEU (Papineni et al., 2002) asks: of all sequences of $n$ words in the translations (*$n$-grams*), how many are in the
# references too? This share is the *precision* $p_n$. BLEU is the geometric mean of the precisions for $n = 1$ to 4. A
# translation that says less makes fewer mistakes, so BLEU multiplies this mean by a *brevity penalty*:
#
# $$\mathrm{BLEU} = 100 \cdot \min\!\big(1, e^{1 - r/h}\big) \cdot \Big(\prod_{n=1}^{4} p_n\Big)^{1/4}, \qquad
# p_n = \frac{\text{matching } n\text{-grams}}{n\text{-grams in the translations}}$$
#
# with $h$ words in the translations and $r$ in the references. Matches are *clipped*: "the the the the" matches "the cat" only
# once.

# %%
l05.widgets.bleu_figure("the old cat sees the the small dog", "the small dog sees the old cat .")

# %% [markdown]
# **What to notice.** The translation reverses who sees whom. Nevertheless seven of eight words count, five of seven pairs, and
# two of six triples: BLEU looks at neighbouring words, not at meaning. The third "the" does not find a partner, because the
# reference has only two. No sequence of four words matches, so this sentence alone would have a BLEU of 0. sacreBLEU's
# smoothing counts half a match there.
#
# Edit both sentences yourself. (Without a running kernel you see only the figure above.)

# %% tags=["widget"]
l05.widgets.bleu_editor("the old cat sees the the small dog", "the small dog sees the old cat .")

# %% [markdown]
# ### Exercise 3: matches (8 minutes, difficulty 2)
#
# For one sentence, given as lists of tokens, return `[matching n-grams, n-grams of hyp]`. `collections.Counter` will help you.
#
# <details><summary>Hint</summary>
#
# Make the n-grams as tuples (lists cannot be counted) and count both sides with `Counter`. The operator `&` between two
# counters keeps the smaller count of each n-gram: this is the clipping.
#
# </details>

# %% tags=["exercise"]
def matches(hyp, ref, n):
    ### BEGIN SOLUTION
    from collections import Counter

    of_hyp, of_ref = (Counter(tuple(x[i : i + n]) for i in range(len(x) - n + 1)) for x in (hyp, ref))
    return [sum((of_hyp & of_ref).values()), sum(of_hyp.values())]
    ### END SOLUTION


# %% tags=["check", "points:2"]
l05.checks.MATCHES.check(matches)
### BEGIN HIDDEN TESTS
l05.checks.MATCHES.grade(matches, seed=5)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 4: corpus BLEU (8 minutes, difficulty 3)
#
# Now do the same for a corpus. `matches_of` and `totals_of` are lists with four counts for each sentence (for $n = 1$ to 4).
# `hyp_lens` and `ref_lens` are the lengths of the sentences. Return BLEU of the whole corpus. Where do the sums go?
#
# <details><summary>Hint</summary>
#
# BLEU of a corpus is not a mean over sentences. Add up matches and totals over all sentences for each n, then divide. The
# same holds for the lengths in the brevity penalty.
#
# </details>

# %% tags=["exercise"]
def bleu(matches_of, totals_of, hyp_lens, ref_lens):
    ### BEGIN SOLUTION
    precisions = [sum(m) / sum(t) for m, t in zip(zip(*matches_of), zip(*totals_of))]
    brevity = min(1, math.exp(1 - sum(ref_lens) / sum(hyp_lens)))
    return 100 * brevity * math.exp(sum(math.log(p) for p in precisions) / 4)
    ### END SOLUTION


# %% tags=["check", "points:2"]
l05.checks.CORPUS_BLEU.check(bleu)
### BEGIN HIDDEN TESTS
l05.checks.CORPUS_BLEU.grade(bleu, seed=5)
### END HIDDEN TESTS

# %% [markdown]
# BLEU of a corpus is not the mean of the BLEUs of its sentences. The table shows how different the two are for our
# translations:

# %%
import sacrebleu

rows = []
for pair in ("fra-eng", "est-eng"):
    hyps, refs = found[pair, 5], [reference for _, reference in tests[pair]]
    each = [sacrebleu.sentence_bleu(hyp, [ref]).score for hyp, ref in zip(hyps, refs)]
    perfect = 100 * sum(score > 99 for score in each) / len(each)
    rows.append([pair, corpus_bleu(hyps, refs, "eng").bleu, sum(each) / len(each), perfect])
Table(["pair", "corpus BLEU", "mean of sentence BLEUs", "perfect sentences, %"], rows, digits=1)

# %% [markdown]
# **What to notice.** The mean of sentence BLEUs is another number than the corpus BLEU. It gives a short sentence as much
# weight as a long one, and it must smooth every sentence that has no matching sequence of four words.

# %% [markdown]
# ## A number and its signature
#
# BLEU counts words. So something must decide what a word is, and this is the *tokenizer*. Is "don't" one word or two? Does
# "the" match "The"? Papers that answered these questions differently printed numbers that differ by more than their
# improvements. sacreBLEU (Post, 2018), which the paper uses, prevents this: it starts from plain text, does the tokenization
# itself, and reports how in a *signature*:

# %%
score = corpus_bleu(found["fra-eng", 5], [reference for _, reference in tests["fra-eng"]], "eng")
print(f"{score.bleu:.1f}", score.signature.rsplit("|", 1)[0])  # the last field is sacreBLEU's version

# %% [markdown]
# The signature says: one reference, upper and lower case distinguished, tokenizer 13a, smoothing "exp" for counts of zero. Two
# numbers whose signatures differ must not stand in one column of a table. For most languages 13a is right. For Chinese it is a
# trap, because Chinese is written without spaces. Here are eight translations into Chinese, scored in four ways.

# %%
hyps, refs = l05.checks.chinese()
print(hyps[3], refs[3], sep="\n")
for name in ("13a", "intl", "zh", "char"):
    print(f"{name:5} {sacrebleu.BLEU(tokenize=name).corpus_score(hyps, [refs]).score:5.1f}")

# %% [markdown]
# **What to notice.** The translations are the same; only the definition of a word changed. For 13a a Chinese sentence is one
# long word, or three around a "120". Few of these words match, and never four in a row, so the score is 0. `intl` at least
# separates the Chinese full stop. `zh` cuts Chinese into characters and leaves "120" whole; `char` cuts that too. The authors'
# released scripts call sacreBLEU with 13a for every target language. They have a separate script for Chinese, but its call is
# commented out. It is that easy to print a 0.
#
# ### Exercise 5: the trap (5 minutes, difficulty 2)
#
# Write a function that scores Chinese translations so that the number may be compared with the numbers of other people. Use
# sacreBLEU itself, `sacrebleu.BLEU(...)`, as in the cell above.
#
# <details><summary>Hint</summary>
#
# The table above shows four tokenizers. Which of them cuts Chinese as the papers do that you want to compare with?
# `BLEU(tokenize=...)` takes its name.
#
# </details>

# %% tags=["exercise"]
def score_zh(hyps, refs):
    ### BEGIN SOLUTION
    return sacrebleu.BLEU(tokenize="zh").corpus_score(hyps, [refs]).score
    ### END SOLUTION


# %% tags=["check", "points:2"]
l05.checks.SCORE_ZH.check(score_zh)
### BEGIN HIDDEN TESTS
l05.checks.SCORE_ZH.grade(score_zh, seed=5)
### END HIDDEN TESTS

# %% [markdown]
# The library's `corpus_bleu` takes the target *language* and chooses the tokenizer that belongs to it, so that you cannot
# forget it:

# %%
print(corpus_bleu(hyps, refs, "zh").signature.rsplit("|", 1)[0])

# %% [markdown]
# The paper translates into Chinese too, in the one-to-many half of WMT-6. It reports 21.5 BLEU for temperature sampling, and
# the same for Auto-PMD (table "BLEU score per language pair on the WMT-6 dataset"). It does not print its signature. With 13a
# on plain text, such a number is not possible. So when we reproduce it, we score with `zh`, and say so.

# %% [markdown]
# ## Quiz
#
# Choose an answer before you open it. One answer to each question is right.
#
# **Question 1.** Beam search finds sentences with a higher probability than greedy search. Is its BLEU higher?
#
# <details><summary>A. Yes, because a more probable sentence is a better translation.</summary>
#
# Not so. Probability is the model's opinion. If the model prefers short or dull sentences, a better search finds more of
# them.
#
# </details>
#
# <details><summary>B. It may be. A higher score is all that the search promises.</summary>
#
# Right. Whether the model's score agrees with quality is another question, and BLEU or a reader must answer it.
#
# </details>
#
# <details><summary>C. No: a beam is only for speed.</summary>
#
# Not so. A beam is slower than greedy search, because it follows several beginnings.
#
# </details>
#
# **Question 2.** What does a length penalty of 2 do in the formula of this lesson?
#
# <details><summary>A. It punishes long sentences.</summary>
#
# Not so. The name suggests it. But log P is negative, and dividing it by a larger number brings it nearer to 0.
#
# </details>
#
# <details><summary>B. It lets longer sentences win.</summary>
#
# Right. The division by the length to the power of 2 makes a long sentence's score less negative.
#
# </details>
#
# <details><summary>C. It makes all translations as long as the source.</summary>
#
# Not so. The formula does not know how long the source is.
#
# </details>
#
# **Question 3.** Two papers report 21 and 23 BLEU into Chinese. One was scored with `13a`, the other with `zh`. Which system
# is better?
#
# <details><summary>A. The one with 23.</summary>
#
# Not so. The difference may come from the definition of a word alone.
#
# </details>
#
# <details><summary>B. The one with 21, because 13a is stricter.</summary>
#
# Not so. You cannot translate one number into the other; the order of two systems may even change.
#
# </details>
#
# <details><summary>C. You cannot say.</summary>
#
# Right. Numbers with different signatures are different measurements. Score both outputs with one signature.
#
# </details>

# %% [markdown]
# ## Takeaways
#
# - A beam of 1 is greedy search. A wider beam finds sentences of higher score; BLEU must tell whether they are better.
# - $\lambda$ decides which lengths win: 0 favours short sentences, larger values favour long ones.
# - BLEU is a geometric mean of clipped precisions times a brevity penalty, with counts added up over the *corpus*.
# - No signature, no comparison. Chinese needs `tok:zh`.
# - BLEU sees words, not meaning. Differences of a few tenths are noise more often than not: lesson 13 tests this.
#
# **Where to go next.** The beam size is in appendix C of the paper, the metric in section 4.1. The code is
# `pmd_lite/model/decoding.py` and `pmd_lite/evaluation/bleu.py`. Lesson 06 uses all this to draw the trade-off.
