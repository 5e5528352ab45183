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
    return _changed(PRESETS[name], {**settings(name, direction, method, fidelity), **chosen})


def configured(chosen: str | Config, direction: str, method: str, overrides: Mapping[str, Any]) -> Config:
    """The Config that train, estimate and compare use for a preset's name; a whole Config is used as it is.

    Raises UserError for overrides of a whole Config, and for all that `preset` refuses.
    """
    if isinstance(chosen, Config):
        if overrides:
            raise UserError(f"{', '.join(overrides)}: give a whole Config or overrides of a preset, not both")
        return chosen
    for key in overrides:  # some people write "direction" here, which is not a field
        home_of(key)
    return preset(chosen, direction, method, **overrides)


def home_of(key: str) -> str:
    """The full name of a field: "steps" -> "train.steps"; "tau" stays. Raises UserError for an unknown one."""
    section, _, name = key.rpartition(".")
    if key == "tau":
        return key
    fields = {s: [*hints_of(kind)] for s, kind in hints_of(Config).items() if s != "tau"}
    homes = [s for s in ([section] if section else fields) if name in fields.get(s, ())]
    if len(homes) == 1:
        return f"{homes[0]}.{name}"
    if key == "preset":
        raise UserError("preset: the name of a preset is the third argument, or preset_name=")
    known, near = ", ".join(f"{s}.{f}" for s in fields for f in fields[s]), ""
    if not homes:
        near = nearest(name, ["tau", *(f for names in fields.values() for f in names)])
    what = f"fields of {' and '.join(homes)}" if homes else "no field"
    raise UserError(f"{shown(key)} names {what}; {near}fields: {known}")


def _changed(config: Config, values: Mapping[str, Any]) -> Config:
    """Change fields by full name: all of a section at once, because its checks compare them with each other."""
    sections: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    changed = sections.pop("", {})
    for section, fields in sections.items():
        changed[section] = dataclasses.replace(getattr(config, section), **fields)
    return dataclasses.replace(config, **changed)
