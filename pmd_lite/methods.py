"""Every method as one row: a sampler for each student, and a distiller. A new method is a new row (and its class)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pmd_lite.distillation.auto import AutoPMD, DynamicMD
from pmd_lite.distillation.mutual import BiPMD, NoDistillation, UniPMD
from pmd_lite.errors import UserError
from pmd_lite.interfaces import Sampler
from pmd_lite.sampling.temperature import TemperatureSampler


@dataclass(frozen=True)
class Method:
    """A row of the table.

    samplers: one specification per student, "tau=5" with a number or inf, or "tau" for the config's own.
    passes: cost of one update of all students in forward passes F of one model (a backward pass is 2 F).
    first_seat: number of the first student's seat. Seats decide initial weights, dropout and order of the data, so a
        single flattened model (seat 1) starts as the very model_2 of a mutual run, and tau=1 (seat 0) as its model_1:
        any later difference between A and A', B and B' is distillation.
    """

    name: str
    samplers: tuple[str, ...]
    distiller: type[NoDistillation]
    passes: str
    about: str
    first_seat: int = 0


_ROWS = (
    Method("tau=1", ("tau=1",), NoDistillation, "3", "one model, pairs drawn in proportion to their size (Eq. 2)"),
    Method("tau=5", ("tau=5",), NoDistillation, "3", "one model, flattened sampling; any tau=X works, tau=inf too", 1),
    Method("vanilla-md", ("tau=1", "tau=1"), BiPMD, "8", "mutual distillation, both students at tau=1"),
    Method("vanilla-md-tau", ("tau", "tau"), BiPMD, "8", "mutual distillation, both students at the config's tau"),
    Method("uni-pmd", ("tau=1", "tau"), UniPMD, "6 to 8", "Eq. 5: per pair, only the worse student learns"),
    Method("bi-pmd", ("tau=1", "tau"), BiPMD, "8", "Eq. 6: one fixed weight everywhere"),
    Method("auto-pmd", ("tau=1", "tau"), AutoPMD, "8 + 20 rho", "Alg. 2: weights searched per pair"),
    Method("dynamic-md", ("tau=1", "tau"), DynamicMD, "8 + 20 rho", "as auto-pmd, but one action for all pairs"),
)
METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def get_method(name: str, samplers: Sequence[str] | None = None) -> Method:
    """The row called `name`, "tau=X" for any temperature; `samplers` replaces its samplers (three make three students).

    Raises UserError for an unknown name, with the nearest known one.
    """
    if name in METHODS:
        row = METHODS[name]
    elif name.startswith("tau="):
        seat = 0 if parse_tau(name) == 1 else 1
        row = Method(name, (name,), NoDistillation, "3", METHODS["tau=5"].about, seat)
    else:
        near = difflib.get_close_matches(name, METHODS, 1, 0.3)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UserError(f"no method called {name!r}; {hint}There are {', '.join(METHODS)}")
    if samplers is None:
        return row
    for specification in samplers:
        if specification != "tau":
            parse_tau(specification)
    if not samplers or (row.distiller is NoDistillation and len(samplers) != len(row.samplers)):
        raise UserError(f"{name} takes {len(row.samplers)} sampler(s), not {len(samplers)}")
    if row.distiller is not NoDistillation and len(samplers) < 2:
        raise UserError(f"{name} with {len(samplers)} sampler(s): mutual distillation needs at least two students")
    return replace(row, samplers=tuple(samplers))


def parse_tau(specification: str) -> float:
    """ "tau=5" -> 5.0. Raises UserError."""
    try:
        tau = float(specification.removeprefix("tau="))
    except ValueError:
        tau = -1.0
    if not specification.startswith("tau=") or not tau > 0:
        raise UserError(f"sampler {specification!r}: write tau=1, tau=5 or tau=inf (a positive temperature), or tau")
    return tau


def make_samplers(method: Method, sizes: Sequence[int], tau: float) -> list[Sampler]:
    """The samplers of a method's students, for these training sizes and the config's tau."""
    taus = [tau if s == "tau" else parse_tau(s) for s in method.samplers]
    return [TemperatureSampler(sizes, t) for t in taus]


def student_labels(method: Method, tau: float) -> list[str]:
    """How tables and pictures name the students: "tau=1", or "auto-pmd model_2 (tau=5)"."""
    taus = [tau if s == "tau" else parse_tau(s) for s in method.samplers]
    words = ["inf" if t == math.inf else f"{t:g}" for t in taus]
    if len(words) == 1:
        return [f"tau={words[0]}"]
    return [f"{method.name} model_{i + 1} (tau={word})" for i, word in enumerate(words)]
