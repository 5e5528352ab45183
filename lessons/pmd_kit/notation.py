"""The paper's symbols and their names in the code: one list for lesson 00 and for docs/notation.md."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pmd_corpora.terminal import terminal
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
    Symbol("θ_1, θ_2", "the two students", "3.1", "training.step:Algorithm1", "07"),
    Symbol("B_ℓ", "a batch of one pair", "Alg. 1", "data.batching:Batch", "01"),
    Symbol("L_ce", "label-smoothed cross-entropy", "Eq. 1", "distillation.losses:ce_loss", "04"),
    Symbol("L_kd", "distillation loss", "Eq. 3", "distillation.losses:kd_loss", "07"),
    Symbol("L_PMD", "their mixture", "Eq. 4", "distillation.losses:pmd_loss", "07"),
    Symbol("α_i[ℓ]", "distillation weight of student i on pair ℓ", "Eq. 4",
           "interfaces:Distiller.weight", "07"),
    Symbol("1{i = argmax_j L_ce(θ_j)}", "whether student i is the worse one on ℓ", "Eq. 5",
           "distillation.mutual:uni_weights", "08"),
    Symbol("α", "one weight for all students and pairs", "Eq. 6", "config:DistillConfig.alpha", "08"),
    Symbol("F", "the actions on a weight: keep, up, down", "Eq. 7", "distillation.actions:ACTIONS", "09"),
    Symbol("f_↑, f_↓, f_=", "raise, lower, keep", "Eq. 9-11", "distillation.actions:increase", "09"),
    Symbol("μ", "step size on the logit of a weight", "Eq. 12", "distillation.actions:step_size", "09"),
    Symbol("T", "updates between two decisions", "Alg. 1", "config:DistillConfig.update_every", "08"),
    Symbol("T_max", "updates of the whole run", "Eq. 12", "interfaces:Clock.total", "09"),
    Symbol("D_trial", "the trial set", "Alg. 2", "training.trial:per_pair_trial_set", "10"),
    Symbol("ρ", "its share of the training data", "4.1", "config:DistillConfig.trial_ratio", "10"),
    Symbol("O", "all vectors of actions, 3^|L| of them", "Eq. 8", "distillation.search:full_space", "11"),
    Symbol("Õ", "the three vectors with one action for all pairs", "App. A", "distillation.search:reduced_space", "11"),
    Symbol("R", "dev losses of the trials", "Alg. 2", "distillation.search:choose", "10"),
)  # fmt: skip


def notation_table() -> Table:
    """Symbol, meaning, place in the paper, name in the code, lesson."""
    rows = [[s.symbol, s.meaning, s.where, s.code.replace(":", "."), s.lesson] for s in NOTATION]
    return Table(["symbol", "meaning", "paper", "code (pmd_lite.)", "lesson"], rows)


GLOSSARY: dict[str, str] = {
    "beam search": "keeping the few most probable beginnings of a translation while it grows, instead of one",
    "BLEU": "overlap of translations with references in word sequences of length 1 to 4, from 0 to 100",
    "checkpoint": "weights and training state on disk, from which a run continues",
    "dev set": "held-out sentences on which decisions are made during training (here also: valid)",
    "dropout": "switching off random units in training, so that the model relies on none of them",
    "epoch": "as many updates as one pass over the training data takes",
    "HRL, LRL": "high- and low-resource languages: those with many and with few training sentences",
    "label smoothing": "asking for a little less than certainty, so that a model stays unsure where it should",
    "logit": "a number before it becomes a probability; for a weight, log of a / (1 - a)",
    "M2O, O2M": "many languages into one; one language into many",
    "overfitting": "getting better on the training sentences while getting worse on others",
    "Pareto frontier": "the models that no other model beats on one group of languages without losing on another",
    "piece": "a frequent part of a word, the unit that models read and write (sentencepiece)",
    "teacher, student": "a teacher's predictions are what a student learns from; here every model is both at once",
    "token": "one piece of a sentence, or a mark for its end or its language",
}
"""Words for newcomers to machine translation."""


def glossary_table() -> Table:
    """The glossary, in alphabetical order."""
    words = sorted(GLOSSARY, key=str.casefold)
    return Table(["word", "meaning"], [[word, GLOSSARY[word]] for word in words])


def notation_page() -> str:
    """docs/notation.md."""
    return (
        "# Notation and glossary\n\nMade from `lessons/pmd_kit/notation.py`; edit that file, then run "
        "`python -m pmd_kit.notation > docs/notation.md`.\n\n"
        f"{notation_table().to_markdown()}\n\n## Words\n\n{glossary_table().to_markdown()}\n"
    )


if __name__ == "__main__":
    with terminal():
        print(notation_page(), end="")
