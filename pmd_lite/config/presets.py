"""Four configurations by name: toy and small for a laptop, ted8 and wmt6 as in the paper and the released scripts.

In ted8 and wmt6 some values depend on direction and method: `pmd_lite.config.published` has them, with their sources.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pmd_lite.config.fields import hints_of
from pmd_lite.config.published import LSSD_WEIGHTS, settings
from pmd_lite.config.rivals import TeacherConfig
from pmd_lite.config.sections import Config, DistillConfig, ModelConfig, OptimConfig, TokenizerConfig, TrainConfig
from pmd_lite.errors import UserError, nearest, shown

PRESETS: dict[str, Config] = {
    "toy": Config(
        tokenizer=TokenizerConfig(vocab_size=400),
        optim=OptimConfig(lr=4e-3, warmup=150),
        train=TrainConfig(steps=2000, tokens=400, eval_every=200, beam=1),
        distill=DistillConfig(start=0.3),
    ),
    "small": Config(
        tokenizer=TokenizerConfig(vocab_size=2500, byte_fallback=True),
        model=ModelConfig(d_model=128, ffn=512, dropout=0.2, heads=4),
        optim=OptimConfig(lr=1.5e-3, warmup=400),
        train=TrainConfig(steps=1500, tokens=2000, eval_every=150, beam=5),
        distill=DistillConfig(start=0.15),
    ),
    "ted8": Config(
        tokenizer=TokenizerConfig(vocab_size=8000, kind="per-language", byte_fallback=True, tags="released"),
        model=ModelConfig(
            512, 4, 6, 6, 1024, dropout=0.3, attention_dropout=0.3, tie="decoder", embedding_norm=True, max_len=1024
        ),
        optim=OptimConfig(lr=2e-3, warmup=4000, eps=1e-6),
        train=TrainConfig(steps=0, epochs=300, tokens=8192, accumulate=8, precision="fp16", beam=5),
        tau=3.0,
    ),
    "wmt6": Config(
        tokenizer=TokenizerConfig(vocab_size=64000, byte_fallback=True, tags="released"),
        model=ModelConfig(512, 8, 6, 6, 2048, dropout=0.2, tie="decoder", embedding_norm=True, max_len=1024),
        optim=OptimConfig(lr=1.5e-3, warmup=4000, eps=1e-6, weight_decay=0.01),
        train=TrainConfig(steps=0, epochs=70, tokens=8192, accumulate=8, precision="fp16", beam=5),
        teacher=TeacherConfig(lssd_weight=LSSD_WEIGHTS["wmt6", "m2o"]),
    ),
}
"""ted8 and wmt6 are shown here as for Auto-PMD into English, by the paper's text."""


def preset(name: str, direction: str = "m2o", method: str = "auto-pmd", **overrides: Any) -> Config:
    """A preset with changed fields: `preset("toy", steps=300, dropout=0.2)`.

    Args:
        direction, method: the corpus's (`Corpus.direction`), and a name of the method table. What ted8 and wmt6 take
            from `published.settings` depends on both; train, estimate and compare fill them in.
        overrides: values by field name, if it is unique over all sections, or by "section.field". They replace the
            values of the preset.
    Raises UserError for an unknown preset, field or value.
    """
    if not isinstance(name, str) or name not in PRESETS:
        near = nearest(name, PRESETS)
        raise UserError(f"no preset is called {shown(name)}; {near}choose one of {', '.join(PRESETS)}")
    chosen = {home_of(key): value for key, value in overrides.items()}
    fidelity = chosen.get("distill.fidelity", PRESETS[name].distill.fidelity)
    sections: dict[str, Any] = {}  # all fields of a section at once: its checks compare them with each other
    for key, value in {**settings(name, direction, method, fidelity), **chosen}.items():
        section, _, field = key.rpartition(".")
        sections.setdefault(section, {})[field] = value
    whole, base = sections.pop("", {}), PRESETS[name]
    changed = {section: dataclasses.replace(getattr(base, section), **of) for section, of in sections.items()}
    return dataclasses.replace(base, **whole, **changed)


def configured(chosen: str | Config, direction: str, method: str, overrides: Mapping[str, Any]) -> Config:
    """A preset's Config (errors as `preset`), or a whole Config as it is; UserError if overrides come with it."""
    if isinstance(chosen, Config):
        if overrides:
            raise UserError(f"{', '.join(overrides)}: give a whole Config or overrides of a preset, not both")
        return chosen
    for key in overrides:  # some people write "direction" here, which is not a field
        home_of(key)
    return preset(chosen, direction, method, **overrides)


def home_of(key: str) -> str:
    """The full name of a field: "steps" -> "train.steps"; "tau" stays. Raises UserError for an unknown one."""
    if key == "tau":
        return key
    section, _, name = key.rpartition(".")
    known = [f"{s}.{field}" for s, of in hints_of(Config).items() if s != "tau" for field in hints_of(of)]
    homes = [field for field in known if field == key or (not section and field.endswith(f".{name}"))]
    if len(homes) == 1:
        return homes[0]
    if key == "preset":
        raise UserError("preset: the name of a preset is the third argument, or preset_name=")
    near = "" if homes else nearest(name, ["tau", *(field.partition(".")[2] for field in known)])
    what = " and ".join(homes) or "no field"
    raise UserError(f"{shown(key)} names {what}; {near}fields: {', '.join(known)}")
