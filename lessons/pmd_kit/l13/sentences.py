"""Six sentences that were written for lesson 13, in six languages, and what stored models made of them.

No sentence of a corpus may stand in a stored notebook. So the lesson's models translate these; the lesson shows the
corpus's own test sentences only where a reader has trained the models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean

from sacrebleu import CHRF

from pmd_lite.disk import read_json
from pmd_lite.evaluation.tables import Cell, Table
from pmd_lite.evaluation.translation import read_translations
from pmd_lite.run import Run

PARROT = "(a sentence of the corpus)"
"""Stands for a translation that repeats a sentence of the corpus, which a stored file may not hold."""
REFERENCES = (
    "The black cat is sleeping on my mother's chair.",
    "Why did you buy three books yesterday?",
    "We are eating bread and cheese in the garden.",
    "My brother does not want to go to school tomorrow.",
    "Where is the key of the red car?",
    "She drinks a glass of water before she sleeps.",
)
SOURCES: Mapping[str, Sequence[str]] = {
    "fr-en": (
        "Le chat noir dort sur la chaise de ma mère.",
        "Pourquoi as-tu acheté trois livres hier ?",
        "Nous mangeons du pain et du fromage dans le jardin.",
        "Mon frère ne veut pas aller à l'école demain.",
        "Où est la clé de la voiture rouge ?",
        "Elle boit un verre d'eau avant de dormir.",
    ),
    "de-en": (
        "Die schwarze Katze schläft auf dem Stuhl meiner Mutter.",
        "Warum hast du gestern drei Bücher gekauft?",
        "Wir essen Brot und Käse im Garten.",
        "Mein Bruder will morgen nicht zur Schule gehen.",
        "Wo ist der Schlüssel des roten Autos?",
        "Sie trinkt vor dem Schlafen ein Glas Wasser.",
    ),
    "zh-en": (
        "黑猫睡在我妈妈的椅子上。",
        "你昨天为什么买了三本书？",
        "我们在花园里吃面包和奶酪。",
        "我弟弟明天不想去学校。",
        "红色汽车的钥匙在哪里？",
        "她睡觉以前喝一杯水。",
    ),
    "tr-en": (
        "Siyah kedi annemin sandalyesinde uyuyor.",
        "Dün neden üç kitap aldın?",
        "Bahçede ekmek ve peynir yiyoruz.",
        "Kardeşim yarın okula gitmek istemiyor.",
        "Kırmızı arabanın anahtarı nerede?",
        "Uyumadan önce bir bardak su içiyor.",
    ),
    "ro-en": (
        "Pisica neagră doarme pe scaunul mamei mele.",
        "De ce ai cumpărat trei cărți ieri?",
        "Mâncăm pâine și brânză în grădină.",
        "Fratele meu nu vrea să meargă la școală mâine.",
        "Unde este cheia mașinii roșii?",
        "Ea bea un pahar cu apă înainte de culcare.",
    ),
    "et-en": (
        "Must kass magab minu ema toolil.",
        "Miks sa eile kolm raamatut ostsid?",
        "Me sööme aias leiba ja juustu.",
        "Mu vend ei taha homme kooli minna.",
        "Kus on punase auto võti?",
        "Ta joob enne magamaminekut klaasi vett.",
    ),
}
"""{pair: the sentences of REFERENCES in its source language}."""


@dataclass(frozen=True)
class Translated:
    """translations: {system: {pair: one translation for each of REFERENCES}}; about: {system: which model it is}."""

    translations: Mapping[str, Mapping[str, Sequence[str]]]
    about: Mapping[str, str]
    command: str

    @classmethod
    def load(cls, file: Path) -> Translated:
        """Raises UserError when the file is absent or of another form."""
        shape = {"translations": {"*": {"*": [str]}}, "about": {"*": str}, "command": str}
        stored = read_json(file, shape, "make it with python -m benchmarks.own_sentences")
        return cls(stored["translations"], stored["about"], stored["command"])

    def table(self, number: int, labels: Sequence[str] | None = None) -> Table:
        """One sentence in all languages, from the largest pair to the smallest, as the systems translate it."""
        chosen = list(labels or self.translations)
        rows: list[list[Cell]] = [
            [pair, sources[number], *(self.translations[label][pair][number] or "(nothing)" for label in chosen)]
            for pair, sources in SOURCES.items()
        ]
        return Table(["pair", "source", *chosen], rows, caption=f"Reference: {REFERENCES[number]}")

    def closeness(self) -> Table:
        """Mean chrF of the translations, pair by pair (100: the reference itself), and how many are parrots.

        A repeated sentence of the corpus counts 0: none of the six references stands there.
        """
        chrf = CHRF()

        def close(text: str, reference: str) -> float:
            return 0.0 if text == PARROT else chrf.sentence_score(text, [reference]).score

        rows: list[list[Cell]] = [
            [label, *(fmean(map(close, by_pair[pair], REFERENCES)) for pair in SOURCES),
             sum(texts.count(PARROT) for texts in by_pair.values())]
            for label, by_pair in self.translations.items()
        ]  # fmt: skip
        return Table(["mean chrF", *SOURCES, "repeats the corpus"], rows, digits=0)


def corpus_sentences(run: Run, pair: str, number: int = 4) -> Table:
    """The first test sentences of a run's corpus, as its students translate them: text that may not be passed on.

    Raises UserError when the run has no translations.
    """
    folder = run.path / "translations"
    texts = [read_translations(folder / f"test.{side}.{pair}.txt") for side in ("src", "ref")]
    found = [run.translations(pair, student) for student in range(len(run.labels))]
    rows = [list(row) for row in islice(zip(*texts, *found, strict=True), number)]
    return Table(["source", "reference", *run.labels], rows, caption=f"{pair}, test sentences of {run.corpus['name']}")
