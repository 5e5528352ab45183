"""What the paper and the released scripts set for a data set, a direction and a method.

`preset("ted8", direction="o2m", method="uni-pmd")` looks here. The paper's text often has one value for all settings,
and the authors' scripts have one for each; `fidelity` chooses (see `settings`). Names of fields are those of `Config`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

STRATEGIES = {
    "uni-pmd": "uni", "bi-pmd": "bi", "vanilla-md": "bi", "vanilla-md-tau": "bi",
    "auto-pmd": "auto", "dynamic-md": "auto", "lsmd": "auto",
}  # fmt: skip
"""Method -> its script. Dynamic-MD is a flag of Auto-PMD's script; LSMD reads an Auto-PMD run."""


@dataclass(frozen=True)
class Script:
    """What one of the authors' twelve scripts sets: PCL_scripts/FOLDER/{Uni,Bi,Auto}-PMD.sh.

    FOLDER is sub_wmt6_m2o, sub_wmt6_o2m, diverse_ted8_m2o or diverse_ted8_o2m; the repository is
    github.com/OrangeInSouth/Pareto-Mutual-Distillation, commit c6d1b88. Where a script sets no value, the default of
    its options.py stands here. Distillation begins at epoch 5 in all of them.
    """

    mode: Literal["unidirectional", "bidirectional", "automatic"]
    epochs: int
    tau: float
    """Temperature of model_2; model_1 has temperature 1."""
    alpha: float | None = None
    """The result of the search among .2 .4 .6 .8; None: Auto-PMD begins at 0.1."""
    interval: int | None = None
    """T in epochs; None: the weights never change."""
    rho: float | None = None
    """None: there are no trials."""
    max_steps: int = 0
    """At most this many updates; 0: no limit."""


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
    # The script is called Bi-PMD but runs the other mode; ours is Bi-PMD with the script's weight.
    ("ted8", "o2m", "bi"): Script("unidirectional", 300, 3, alpha=0.4, interval=3, max_steps=_CAP),
    ("ted8", "o2m", "auto"): Script("automatic", 300, 3, interval=1, rho=0.2, max_steps=_CAP),
}
"""(preset, direction, strategy) -> script."""
EPOCHS_BEFORE = 4
"""Epochs without distillation in every script."""
LSSD_WEIGHTS: Mapping[tuple[str, str], float] = {
    ("wmt6", "m2o"): 2.0, ("wmt6", "o2m"): 0.8, ("ted8", "m2o"): 2.5, ("ted8", "o2m"): 0.5,
}  # fmt: skip
"""(preset, direction) -> w in (L_ce + w L_kd) / 2, as the scripts of LSSD's adaptive variant set it.

experiment_scripts/FOLDER/LSSD_Adaptive.sh of github.com/OrangeInSouth/LSSD, commit 892bf60, with the same folders as
above. These scripts also set tau = 5 and 157 epochs of 131,072-token updates on WMT-6, tau = 1 and 300 epochs of 65,536
on TED-8; out of English they restrict the teacher to the target language's own vocabulary, which we never do. The paper
does not say with which settings it ran LSSD again, except tau = 1 in its table and a dropout of .2 or .3.
"""


def settings(name: str, direction: str, method: str, fidelity: str) -> dict[str, Any]:
    """Fields of `Config` that a preset takes for a direction and a method: {"distill.alpha": 0.6, ...}.

    Args:
        name: of the preset; only ted8 and wmt6 have such fields.
        direction: "m2o", "o2m" or "m2m". Nothing was published for many to many, so "m2m" gets the values of "m2o".
        method: a name of the method table. A method without a script gets only what does not depend on the method.
        fidelity: "paper" follows the text where it gives a value (rho, T, tau, epochs), and the scripts where it does
            not: alpha, of which the text only names the search, and LSSD's weight. "released" follows all the scripts.
    """
    way = "o2m" if direction == "o2m" else "m2o"
    found: dict[str, Any] = {"teacher.lssd_weight": LSSD_WEIGHTS.get((name, way))}
    if script := SCRIPTS.get((name, way, STRATEGIES.get(method, ""))):
        found["distill.alpha"] = script.alpha
        if fidelity == "released":
            found |= {
                "train.epochs": float(script.epochs), "train.max_steps": script.max_steps, "tau": float(script.tau),
                "distill.start": EPOCHS_BEFORE / script.epochs, "distill.trial_ratio": script.rho,
                "distill.update_epochs": None if script.interval is None else float(script.interval),
            }  # fmt: skip
    return {field: value for field, value in found.items() if value is not None}


def remark(name: str, direction: str) -> str:
    """A note about a preset that takes the values of another direction; "" if it does not."""
    if direction == "m2m" and (name, "m2o") in LSSD_WEIGHTS:
        return f"nothing was published for many to many: preset {name} takes its values for many into one"
    return ""
