"""Every setting of a run: the sections, those of the rivals, and the presets."""

from pmd_lite.config.presets import PRESETS, configured, preset
from pmd_lite.config.rivals import SamplingConfig, TeacherConfig, Uncertainty
from pmd_lite.config.sections import (
    FIDELITY,
    LEAST_TOKENS,
    Best,
    Config,
    DistillConfig,
    Fidelity,
    FidelityBundle,
    ModelConfig,
    OptimConfig,
    StepSize,
    Tokenize,
    TokenizerConfig,
    TrainConfig,
)  # fmt: skip

__all__ = [
    "FIDELITY", "LEAST_TOKENS", "PRESETS", "Best", "Config", "DistillConfig", "Fidelity", "FidelityBundle",
    "ModelConfig", "OptimConfig", "SamplingConfig", "StepSize", "TeacherConfig", "Tokenize", "TokenizerConfig",
    "TrainConfig", "Uncertainty", "configured", "preset",
]  # fmt: skip
