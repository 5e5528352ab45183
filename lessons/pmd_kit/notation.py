"""The paper's symbols and what they are called in the code: one list for lesson 00, the docs and whoever is lost."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pmd_lite.evaluation.tables import Table


@dataclass(frozen=True)
class Symbol:
    """One symbol. code: "module:name" under pmd_lite, the name with its class if it has one."""

    symbol: str
    meaning: str
    where: str
    code: str
    lesson: str

    def resolve(self) -> Any:
        """The thing itself. Raises AttributeError or ImportError when the code has no such name."""
        module, _, name = self.code.partition(":")
        found: Any = importlib.import_module(f"pmd_lite.{module}")
        for part in name.split("."):
            fields = getattr(found, "__dataclass_fields__", {})
            found = fields[part] if part in fields else getattr(found, part)
        return found


NOTATION: tuple[Symbol, ...] = (
    Symbol("ℓ, L", "a language pair; all of them", "2.1", "data.corpus:Corpus.pairs", "01"),
    Symbol("N_ℓ", "training sentence pairs of ℓ", "Eq. 2", "data.corpus:Corpus.sizes", "01"),
    Symbol("τ", "sampling temperature", "Eq. 2", "config:Config.tau", "02"),
    Symbol("P, P_1, P_2", "probability of drawing each pair", "Eq. 2",
           "interfaces:Sampler.probabilities", "02"),
    Symbol("θ_1, θ_2", "the two students", "3.1", "training.trainer:Trainer", "07"),
    Symbol("B_ℓ", "a batch of one pair", "Alg. 1", "data.batching:Batch", "01"),
    Symbol("L_ce", "label-smoothed cross-entropy", "Eq. 1", "distillation.losses:ce_loss", "04"),
    Symbol("L_kd", "distillation loss", "Eq. 3", "distillation.losses:kd_loss", "07"),
    Symbol("L_PMD", "their mixture", "Eq. 4", "distillation.losses:pmd_loss", "07"),
    Symbol("α_i[ℓ]", "distillation weight of student i on pair ℓ", "Eq. 4",
           "interfaces:Distiller.weight", "07"),
    Symbol("F", "the actions on a weight: keep, up, down", "Eq. 7", "distillation.actions:ACTIONS", "09"),
    Symbol("f_↑, f_↓, f_=", "raise, lower, keep", "Eq. 9-11", "distillation.actions:increase", "09"),
    Symbol("μ", "step size on the logit of a weight", "Eq. 12", "distillation.actions:step_size", "09"),
    Symbol("T", "updates between two decisions", "Alg. 1", "config:DistillConfig.update_every", "08"),
    Symbol("T_max", "updates of the whole run", "Eq. 12", "interfaces:Clock.total", "09"),
    Symbol("D_trial", "the trial set", "Alg. 2", "training.trial:per_pair_trial_set", "10"),
    Symbol("ρ", "its share of the training data", "4.1", "config:DistillConfig.trial_ratio", "10"),
    Symbol("O, Õ", "all action vectors; those with one action for all", "App. A",
           "distillation.search:full_space", "11"),
    Symbol("R", "dev losses of the trials", "Alg. 2", "distillation.search:choose", "10"),
)  # fmt: skip


def notation_table() -> Table:
    """Symbol, meaning, place in the paper, name in the code, lesson."""
    rows = [[s.symbol, s.meaning, s.where, s.code.replace(":", "."), s.lesson] for s in NOTATION]
    return Table(["symbol", "meaning", "paper", "code (pmd_lite.)", "lesson"], rows, best=None)


GLOSSARY: dict[str, str] = {
    "beam search": "keeping the few most probable beginnings of a translation while it grows, instead of one",
    "BLEU": "overlap of translations with references in word sequences of length 1 to 4, from 0 to 100",
    "checkpoint": "weights and training state on disk, from which a run goes on",
    "dev set": "held-out sentences on which decisions are made during training (here also: valid)",
    "dropout": "switching off random units in training, so that none is relied upon",
    "epoch": "as many updates as one pass over the training data takes",
    "HRL, LRL": "high- and low-resource languages: those with many and with few training sentences",
    "label smoothing": "asking for a little less than certainty, so that a model stays unsure where it should",
    "logit": "a number before it becomes a probability; for a weight, log of a / (1 - a)",
    "M2O, O2M": "many languages into one; one language into many",
    "overfitting": "getting better on the training sentences while getting worse on others",
    "Pareto frontier": "the models that no other beats on one group of languages without losing on another",
    "piece": "a frequent part of a word, the unit that models read and write (sentencepiece)",
    "teacher, student": "the model whose predictions are learnt from, and the one that learns; here both at once",
    "token": "one piece of a sentence, or a mark for its end or its language",
}
"""Words for newcomers to machine translation."""


def glossary_table() -> Table:
    """The glossary, in alphabetical order."""
    words = sorted(GLOSSARY, key=str.casefold)
    return Table(["word", "meaning"], [[word, GLOSSARY[word]] for word in words], best=None)


def notation_page() -> str:
    """docs/notation.md."""
    return (
        "# Notation and glossary\n\nMade from `lessons/pmd_kit/notation.py`; edit that file, then run "
        "`python -m pmd_kit.notation > docs/notation.md`.\n\n"
        f"{notation_table().to_markdown()}\n\n## Words\n\n{glossary_table().to_markdown()}\n"
    )


if __name__ == "__main__":
    print(notation_page(), end="")
