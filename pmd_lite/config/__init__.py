"""Every setting of a run: the sections, those of the rivals, and the presets."""

from pmd_lite.config.fields import TEMPERATURE, check_number
from pmd_lite.config.presets import PRESETS, configured, preset
from pmd_lite.config.rivals import SamplingConfig, TeacherConfig, Uncertainty
from pmd_lite.config.sections import (
    FIDELITY,
    Config,
    DistillConfig,
    EngineName,
    Metric,
    ModelConfig,
    OptimConfig,
    Show,
    StepSize,
    Tokenize,
    TokenizerConfig,
    TrainConfig,
)  # fmt: skip

__all__ = [
    "FIDELITY", "PRESETS", "TEMPERATURE", "Config", "DistillConfig", "EngineName", "Metric", "ModelConfig",
    "OptimConfig", "SamplingConfig", "Show", "StepSize", "TeacherConfig", "Tokenize", "TokenizerConfig", "TrainConfig",
    "Uncertainty", "check_number", "configured", "preset",
]  # fmt: skip
