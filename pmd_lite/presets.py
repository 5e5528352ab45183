"""Four configurations by name: toy and small for a laptop, ted8 and wmt6 as in the paper and the released scripts."""

from __future__ import annotations

import dataclasses
from typing import Any

from pmd_lite.config import Config, DistillConfig, ModelConfig, OptimConfig, TokenizerConfig, TrainConfig
from pmd_lite.errors import UserError

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
        model=ModelConfig(512, 4, 6, 6, 1024, dropout=0.3, attention_dropout=0.3, tie="decoder", embedding_norm=True),
        optim=OptimConfig(lr=2e-3, warmup=4000, eps=1e-6),
        train=TrainConfig(steps=0, epochs=300, tokens=8192, accumulate=8, precision="fp16", beam=5),
        tau=3.0,
    ),
    "wmt6": Config(
        tokenizer=TokenizerConfig(vocab_size=64000, byte_fallback=True, tags="released"),
        model=ModelConfig(512, 8, 6, 6, 2048, dropout=0.2, tie="decoder", embedding_norm=True),
        optim=OptimConfig(lr=1.5e-3, warmup=4000, eps=1e-6, weight_decay=0.01),
        train=TrainConfig(steps=0, epochs=70, tokens=8192, accumulate=8, precision="fp16", beam=5),
    ),
}


def preset(name: str, **overrides: Any) -> Config:
    """A preset with changed fields: `preset("toy", steps=300, dropout=0.2)`.

    Each override is a field name that is unique over all sections, or "section.field". Raises UserError when unknown.
    """
    if name not in PRESETS:
        raise UserError(f"no preset called {name!r}; there are {', '.join(PRESETS)}")
    config = PRESETS[name]
    for key, value in overrides.items():
        config = _override(config, key, value)
    return config


def _override(config: Config, key: str, value: Any) -> Config:
    section, _, name = key.rpartition(".")
    sections = [f.name for f in dataclasses.fields(config) if dataclasses.is_dataclass(getattr(config, f.name))]
    if key == "tau":
        return dataclasses.replace(config, tau=value)
    fields = {s: {f.name for f in dataclasses.fields(getattr(config, s))} for s in sections}
    homes = [s for s in ([section] if section else sections) if name in fields.get(s, ())]
    if len(homes) != 1:
        known = ", ".join(f"{s}.{f.name}" for s in sections for f in dataclasses.fields(getattr(config, s)))
        if key == "preset":
            raise UserError("preset: the name of a preset is the third argument, or preset_name=")
        raise UserError(
            f"{key!r} names {'no field' if not homes else 'fields of ' + ' and '.join(homes)}; known: {known}"
        )
    changed = dataclasses.replace(getattr(config, homes[0]), **{name: value})
    return dataclasses.replace(config, **{homes[0]: changed})
