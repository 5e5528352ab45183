"""What the paper and the released scripts set for a data set, a direction and a method, as values.

`preset("ted8", direction="o2m", method="uni-pmd")` looks here. The paper's text has one value for all settings where
the authors' scripts have one for each; `fidelity` chooses (see `settings`). Names of fields are those of `Config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["m2o", "o2m"]
Strategy = Literal["uni", "bi", "auto"]

FOLDERS: Mapping[tuple[str, str], str] = {
    ("wmt6", "m2o"): "sub_wmt6_m2o", ("wmt6", "o2m"): "sub_wmt6_o2m",
    ("ted8", "m2o"): "diverse_ted8_m2o", ("ted8", "o2m"): "diverse_ted8_o2m",
}  # fmt: skip
"""(preset, direction) -> folder of its scripts, of the same name in both repositories."""
STRATEGIES: Mapping[str, Strategy] = {
    "uni-pmd": "uni", "bi-pmd": "bi", "vanilla-md": "bi", "vanilla-md-tau": "bi",
    "auto-pmd": "auto", "dynamic-md": "auto", "lsmd": "auto",
}  # fmt: skip
"""Method -> the script whose settings it takes. Dynamic-MD is a flag of Auto-PMD's; LSMD reads an Auto-PMD run."""


@dataclass(frozen=True)
class Script:
    """What one of the authors' twelve scripts sets (PCL_scripts/FOLDER/{Uni,Bi,Auto}-PMD.sh).

    github.com/OrangeInSouth/Pareto-Mutual-Distillation, commit c6d1b88; defaults of its options.py where a script is
    silent. Distillation begins at epoch 5 in all of them.
    """

    mode: Literal["unidirectional", "bidirectional", "automatic"]
    epochs: int
    tau: float
    """Temperature of model_2; that of model_1 is 1."""
    alpha: float | None = None
    """What the search among .2 .4 .6 .8 found; None: Auto-PMD begins at 0.1."""
    interval: int | None = None
    """T in epochs; None: the weights never change."""
    rho: float | None = None
    """None: nothing is tried."""
    max_steps: int = 0
    """Updates at the most; 0: no limit."""


_CAP = 200_000
SCRIPTS: Mapping[tuple[str, str, str], Script] = {
    ("wmt6", "m2o", "uni"): Script("unidirectional", 73, 5, alpha=0.6, interval=3),
    ("wmt6", "m2o", "bi"): Script("bidirectional", 74, 5, alpha=0.6),
    ("wmt6", "m2o", "auto"): Script("automatic", 74, 5, interval=2, rho=0.1),
    ("wmt6", "o2m", "uni"): Script("unidirectional", 74, 5, alpha=0.2, interval=3),
    ("wmt6", "o2m", "bi"): Script("bidirectional", 74, 5, alpha=0.4),
    ("wmt6", "o2m", "auto"): Script("automatic", 74, 5, interval=1, rho=0.2),
    ("ted8", "m2o", "uni"): Script("unidirectional", 150, 3, alpha=0.6, interval=3, max_steps=_CAP),
    ("ted8", "m2o", "bi"): Script("bidirectional", 200, 3, alpha=0.8, max_steps=_CAP),
    ("ted8", "m2o", "auto"): Script("automatic", 200, 3, interval=1, rho=0.05, max_steps=_CAP),
    ("ted8", "o2m", "uni"): Script("unidirectional", 300, 5, alpha=0.4, interval=3, max_steps=_CAP),
    # Called Bi-PMD, it runs the other mode; ours is Bi-PMD, at its weight.
    ("ted8", "o2m", "bi"): Script("unidirectional", 300, 3, alpha=0.4, interval=3, max_steps=_CAP),
    ("ted8", "o2m", "auto"): Script("automatic", 300, 3, interval=1, rho=0.2, max_steps=_CAP),
}
"""(preset, direction, strategy) -> script."""
EPOCHS_BEFORE = 4
"""Epochs without distillation in every script: it begins with the fifth."""


@dataclass(frozen=True)
class LSSDScript:
    """What a script of LSSD's adaptive variant sets (experiment_scripts/FOLDER/LSSD_Adaptive.sh).

    github.com/OrangeInSouth/LSSD, commit 892bf60. With which settings the paper ran it again it does not say, but for
    tau = 1 in its table, and a dropout of .2 or .3, whichever was better.
    """

    weight: float
    """w in (L_ce + w L_kd) / 2."""
    tau: float
    epochs: int
    tokens: int
    """Of an update, on the eight GPUs of the script."""
    language_aware: bool
    """Whether the teacher is restricted to the target language's own vocabulary; ours never is."""


LSSD_SCRIPTS: Mapping[tuple[str, str], LSSDScript] = {
    ("wmt6", "m2o"): LSSDScript(2.0, 5, 157, 131_072, False),
    ("wmt6", "o2m"): LSSDScript(0.8, 5, 157, 131_072, True),
    ("ted8", "m2o"): LSSDScript(2.5, 1, 300, 65_536, False),
    ("ted8", "o2m"): LSSDScript(0.5, 1, 300, 65_536, True),
}
"""(preset, direction) -> script."""
MULTI_DISTILL: Mapping[str, Mapping[str, Any]] = {
    "paper": {"md_weight": 0.5, "md_temperature": 1.0, "md_top_k": 8, "md_rule": "threshold", "md_margin": 1.0},
    "code": {"md_weight": 0.9, "md_temperature": 0.6, "md_top_k": 4, "md_rule": "fix", "md_margin": 1.0},
}
"""Multi-Distill's settings: Tan et al. 2019 in their paper, and the defaults of their code, commit a369a3e of
github.com/RayeRen/multilingual-kd-pytorch. There are none for a data set or a direction of this paper, which does not
say what it took. The presets have the first; give the second by hand."""


def settings(name: str, direction: str, method: str, fidelity: str) -> dict[str, Any]:
    """Fields of `Config` that a preset takes for a direction and a method: {"distill.alpha": 0.6, ...}.

    Args:
        name: of the preset; only ted8 and wmt6 have any.
        direction: "m2o", "o2m" or "m2m"; nothing was published for many to many, which gets the values of "m2o".
        method: a name of the method table; one that is not the paper's takes only what does not depend on it.
        fidelity: "paper" follows the text where it gives a value (rho, T, tau, epochs) and the scripts where it does
            not: alpha, for which it names the search alone, and LSSD's weight. "released" follows the scripts in all.
    """
    way = "o2m" if direction == "o2m" else "m2o"
    if (name, way) not in LSSD_SCRIPTS:
        return {}
    found: dict[str, Any] = {"teacher.lssd_weight": LSSD_SCRIPTS[name, way].weight}
    script = SCRIPTS.get((name, way, STRATEGIES.get(method, "")))
    if script is None:
        return found
    if script.alpha is not None:
        found["distill.alpha"] = script.alpha
    if fidelity == "released":
        found |= {"train.epochs": float(script.epochs), "train.max_steps": script.max_steps, "tau": float(script.tau)}
        found["distill.start"] = EPOCHS_BEFORE / script.epochs
        if script.interval is not None:
            found["distill.update_epochs"] = float(script.interval)
        if script.rho is not None:
            found["distill.trial_ratio"] = script.rho
    return found


def remark(name: str, direction: str) -> str:
    """What to say of a preset that takes the values of another direction; "" where there is nothing to say."""
    if direction == "m2m" and (name, "m2o") in LSSD_SCRIPTS:
        return f"nothing was published for many to many: preset {name} takes its values for many into one"
    return ""
