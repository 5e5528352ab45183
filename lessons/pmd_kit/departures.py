"""Every known difference between the paper's text, the authors' released code and this library, as one list.

docs/methods.md holds it as a table (`python -m pmd_kit.departures` prints it), lesson 15 shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmd_corpora.terminal import terminal


@dataclass(frozen=True)
class Departure:
    """One difference."""

    what: str
    paper: str
    released: str
    ours: str
    file: str
    """Where ours is decided."""
    option: str = ""
    """What changes it: section.field=value of the configuration; "" where nothing does."""


_D = Departure
DEPARTURES: Sequence[Departure] = (
    # ---- the search
    _D("trials of a search", "copies, thrown away", "the student itself, one trial after another; weights and moments "
       "stay", "copies in lock-step; nothing stays", "training/trial.py", "distill.rollback=False"),
    _D("trial data", "a share rho of the training data, sampled", "the first rho of the coming epoch; model_1's "
       "every second update is one of model_2's", "rho of every pair, at least a batch of each", "training/probe.py",
       "distill.trial_data=head"),
    _D("rho", "0.1", "0.05 to 0.2, by script", "0.1; the scripts' with fidelity=released", "config/published.py",
       "distill.trial_ratio=0.2"),
    _D("searches (T)", "once an epoch", "every epoch, WMT-6 into English every second",
       "once an epoch; the scripts' with fidelity=released", "config/published.py", "distill.update_epochs=2.0"),
    _D("when T falls due", "every T updates", "at epochs that T divides, the first from the fifth on",
       "every T from the start of distillation, and at the start itself", "interfaces.py"),
    _D("distillation begins", "at once", "with epoch 5, alpha 0 before", "at once; with fidelity=released after 4 of "
       "the script's epochs, as a fraction of the run", "config/sections.py", "distill.start=0.054"),
    _D("first weight", "Alg. 1 says 0, section 3.3 says 0.1", "0.1 in Auto-PMD, 0 in Uni-PMD, alpha in Bi-PMD",
       "as the code", "config/sections.py", "distill.alpha0=0.2"),
    _D("step size mu", "of update t in T_max", "of the epoch, from the fifth; a limit of updates does not enter",
       "of the update, from the start of distillation; T_max counts the limit", "distillation/auto.py",
       "distill.step_size=constant"),
    _D("scheduler 2", "formula ends at 0.447, text at 0.2", "ends at 0.2", "as the code", "distillation/actions.py",
       "distill.step_size=to_0.2"),
    _D("scheduler 3", "0 from t = 0.833 T_max on", "0 from 0.8 of the epochs on", "as the paper",
       "distillation/actions.py", "distill.step_size=early_stop"),
    _D("weights near 1", "no clip", "cut at 0.98 from above in each inverse sigmoid, also when a trial's shift is "
       "taken back: .97 kept becomes .947", "no clip; the state is the logit", "distillation/actions.py",
       "distill.alpha_clip=0.98"),
    _D("a tie of trials", "not said", "up, then keep", "keep, then up", "distillation/auto.py", "distill.ties=up"),
    _D("what decides", "dev cross-entropy", "label-smoothed, in bits, sums of batches rounded to 3 decimals, the tag "
       "counted", "NLL in nats, unrounded; the tag is counted where it is predicted (tags=released)",
       "training/dev.py", "distill.decide_by=smoothed"),
    _D("a pair without dev data", "not said", "loss 10", "refused when the corpus is read", "data/corpus.py"),
    _D("alpha on several GPUs and after a resume", "not said", "ranks may differ until the next search; a resume "
       "resets alpha", "all ranks alike; a resume continues to the same bits", "training/trainer.py"),
    # ---- Uni-PMD and Bi-PMD
    _D("alpha of Uni-PMD and Bi-PMD", "searched among .2 .4 .6 .8", "one value by script", "the scripts', by direction",
       "config/published.py", "distill.alpha=0.6"),
    _D("Uni-PMD: who learns", "the worse one", "both when within 0.05 bit", "the worse one; on an exact tie both",
       "distillation/mutual.py", "distill.dead_zone=0.035"),
    _D("Uni-PMD: T", "one epoch", "3 epochs", "one epoch; 3 with fidelity=released", "config/published.py",
       "distill.update_epochs=3.0"),
    _D("Bi-PMD on TED out of English", "bidirectional", "its script runs Uni-PMD", "bidirectional",
       "config/published.py"),
    _D("tau of model_2, TED out of English", "3", "3; 5 in Uni-PMD's script", "3; the scripts' with fidelity=released",
       "config/published.py", "tau=5.0"),
    # ---- students and losses
    _D("teacher in training", "not said", "dropout on, but off in trials and the first step of an epoch",
       "dropout off; on in all steps but trials with the option", "distillation/targets.py",
       "distill.teacher_dropout=True"),
    _D("hard loss in Eq. 4", "cross-entropy", "label-smoothed cross-entropy", "as the code", "distillation/losses.py",
       "optim.label_smoothing=0.0"),
    _D("soft loss", "Eq. 3", "the same: whole vocabulary, temperature 1, no gradient to the teacher", "as both",
       "distillation/losses.py"),
    _D("order of the students", "model_2 learns from the updated model_1", "the same", "as both",
       "training/trainer.py", "train.turns=together"),
    _D("random numbers", "not said", "one seed for both models' dropout at an update; a resume changes the order "
       "of batches", "each student, update and micro-batch its own; a resume changes nothing",
       "training/learner.py", "train.seed=2"),
    _D("averaging the two models", "none", "an option, off", "none", "training/trainer.py"),
    # ---- data
    _D("an update", "one batch of one pair", "one batch of one pair on each GPU, 8 or 16, normalised together",
       "`accumulate` batches of one pair each, normalised together", "training/student.py", "train.accumulate=1"),
    _D("P(l) is a share of", "batches (Alg. 1)", "sentences, counted out for each epoch", "sentences",
       "sampling/schedule.py", "train.shares=batches"),
    _D("order of the pairs", "each batch drawn by chance", "an epoch's batches of all pairs shuffled together",
       "dealt out: each pair within one draw of its share", "sampling/schedule.py", "train.draws=iid"),
    _D("sentences of an oversampled pair", "not said", "drawn with replacement within an epoch",
       "pass after pass, each shuffled anew", "data/batching.py"),
    _D("a pair smaller than a batch", "not said", "repeated within its epoch",
       "goes round again until it fills a batch", "data/batching.py"),
    _D("an epoch", "not said", "as many sentences as the corpus has, for every tau",
       "as many updates as one pass takes, from the batches really cut, for every student and tau", "interfaces.py"),
    _D("cutting batches", "not said", "filled one after another, by length of the longer side",
       "as few, but evenly filled", "data/batching.py"),
    _D("padding, first input", "not said", "source padded on the left; the decoder starts with EOS",
       "padded on the right; it starts with BOS", "data/batching.py"),
    _D("long sentences", "not said", "at most 1,024 tokens", "the same in ted8 and wmt6; longer pairs are left out of "
       "train and valid with a word, longer test sources cut with a warning", "data/tokens.py", "model.max_len=256"),
    _D("tags", "target tag at the source", "source tag at the encoder (many to one), target tag predicted first",
       "as the code in ted8 and wmt6", "data/tokenizer.py", "tokenizer.tags=paper"),
    _D("vocabulary of TED", "8K pieces for each language", "the same; into English, its pieces alone there",
       "the same, one union for both sides", "data/tokenizer.py", "tokenizer.kind=joint"),
    _D("unknown characters", "not said", "UNK", "bytes (byte fallback) in ted8 and wmt6, so UNK hardly occurs",
       "data/tokenizer.py", "tokenizer.byte_fallback=False"),
    _D("training data", "WMT and TED, sizes given (570K for TED in the text, 766,352 by its table)",
       "a binary file, text not public", "another sample of the same sizes", "../data_scripts/README.md"),
    # ---- model and optimiser
    _D("TED model", "base (8 heads, 2048)", "4 heads, 1024", "as the code", "config/presets.py", "model.heads=8"),
    _D("network", "Transformer base", "pre-norm, LayerNorm on embeddings, decoder's embeddings tied, the encoder's own",
       "as the code in ted8 and wmt6", "config/presets.py", "model.norm=post"),
    _D("optimiser", "Adam", "fairseq's adam, which decouples weight decay; eps 1e-6",
       "AdamW; eps 1e-6 in ted8 and wmt6, added after the bias correction (apex FusedAdam; fairseq without "
       "apex: before)",
       "training/learner.py", "optim.eps=1e-9"),
    _D("weight decay", "not said", "0.01 on WMT-6, 0 on TED", "as the code",
       "config/presets.py", "optim.weight_decay=0.0"),
    _D("attention dropout", "not said", "0.3 on TED, 0 on WMT-6", "as the code", "config/presets.py",
       "model.attention_dropout=0.0"),
    _D("learning rate", "0.0015", "0.0015, on TED 0.002", "as the code", "config/presets.py", "optim.lr=0.0015"),
    _D("warm-up", "that of Vaswani et al.", "4,000 updates from 1e-7", "4,000 updates from lr / 4,000",
       "training/learner.py", "optim.warmup=8000"),
    _D("length of training", "70 epochs on WMT-6, 300 on TED", "73 or 74; 150 to 300 and at most 200,000 updates",
       "70 and 300; the scripts' with fidelity=released", "config/published.py", "train.max_steps=200000"),
    _D("precision", "half", "fp16 with fp32 masters", "fp16 autocast over fp32 weights in ted8 and wmt6",
       "training/precision.py", "train.precision=bf16"),
    _D("checkpoints on disk", "not said", "WMT-6 all epochs, TED best and last", "latest and best",
       "training/rundir.py"),
    _D("best checkpoint", "not said", "lowest label-smoothed dev loss per token, all pairs pooled",
       "lowest mean over pairs of the NLL; the code's with fidelity=released", "training/dev.py",
       "distill.best=pooled-smoothed"),
    # ---- translation and scores
    _D("UNK in search", "not said", "allowed", "never produced, nor are tags", "evaluation/translation.py"),
    _D("end of beam search", "not said", "when 5 hypotheses have ended (`stop=\"full\"` of our beam_search)",
       "when no live hypothesis can still win", "model/decoding.py"),
    _D("length of a translation", "not said", "at most 200 tokens",
       "at most 1.5 times the source and about 20, within max_len", "evaluation/translation.py"),
    _D("beam, length penalty", "beam 5", "5 and 1, fp32", "5 and 1 in ted8 and wmt6, fp32", "config/presets.py",
       "train.beam=4"),
    _D("references", "not said", "target text as the model's own pieces spell it", "the text of the corpus",
       "evaluation/bleu.py"),
    _D("BLEU of Chinese and Korean", "sacreBLEU", "13a for every target; a zh step is commented out, its table cannot "
       "come from 13a", "sacreBLEU's tokenizer of the language", "evaluation/tokenizers.py", "train.tokenize=13a"),
    _D("a mean over pairs", "29.00 for TED into English at tau=1; its appendix makes it 29.08", "mean of the files "
       "that are found", "mean of the pairs", "../lessons/pmd_kit/paper_tables.py"),
    _D("significance", "t-test", "no code", "paired bootstrap over seeds and sentences", "evaluation/significance.py"),
    _D("cost of searching", "30 % of training", "15 to 60 %, by script", "10 rho F instead of 12: one teacher pass "
       "serves three trials", "training/trial.py"),
    # ---- rivals
    _D("LSSD: weight", "not said", "2.5 and 0.5 on TED, 2 and 0.8 on WMT-6, into and out of English", "as its code",
       "config/published.py", "teacher.lssd_weight=2.5"),
    _D("LSSD: sampling, length", "tau = 1", "WMT-6 at tau = 5, 157 epochs of 128K-token updates, dropout 0.3",
       "tau = 1, as long as the others", "methods.py"),
    _D("LSSD out of English", "not said", "teacher restricted to the target language's pieces", "not restricted",
       "distillation/lssd.py"),
    _D("Multi-Distill", "not said", "weight .9, temperature .6, top 4, never stops (code of Tan et al.)",
       "weight .5, top 8, stops 1 BLEU ahead (paper of Tan et al.)", "config/rivals.py", "teacher.md_rule=fix"),
    _D("rivals' figures", "MultiDDS-S, MultiUAT, CCL-M, chi-IBR copied from other set-ups", "not in the repository",
       "all rivals run on one backbone; CCL-M reconstructed", "methods.py"),
)  # fmt: skip


def to_markdown() -> str:
    """The table of docs/methods.md."""
    lines = ["| what | the paper's text | the released code | ours | file | option |", "|---|---|---|---|---|---|"]
    for d in DEPARTURES:
        option = f"`{d.option}`" if d.option else ""
        lines.append(f"| {d.what} | {d.paper} | {d.released} | {d.ours} | `{d.file}` | {option} |")
    return "\n".join(lines)


if __name__ == "__main__":
    with terminal():
        print(to_markdown())
