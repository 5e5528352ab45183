"""compile=True: PyTorch's own code for the layers trains as the plain layers do, copies for trials included."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pmd_lite.errors import UserError
from pmd_lite.training.learner import Learner, check_compiler
from pmd_lite.training.seeds import seed_torch
from pmd_lite.training.snapshot import differences
from tests.conftest import MakeTrainer, stopped_at
from tests.paper.test_resume import assert_same

compiler = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")


@pytest.fixture(params=["aot_eager"])
def traced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """aot_eager traces as the default backend does, but makes no C++ of what it traced: seconds, not minutes.

    eager leaves out the trace of the backward pass.
    """
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=request.param))


@pytest.mark.slow
def test_compiled_layers_train_as_plain_ones_do(make_short: MakeTrainer, traced: None) -> None:
    """Without dropout, whose random numbers differ: the same weights and alphas after a search, up to rounding."""
    words: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "eps": 1e-3, "steps": 3, "update_every": 2}
    plain, compiled = make_short("auto-pmd", **words), make_short("auto-pmd", compile=True, **words)
    assert compiled.students[0].learner.model.encoder[0]._compiled_call_impl is not None
    assert compiled.students[0].learner.copy().model.encoder[0]._compiled_call_impl is not None
    plain.run()
    compiled.run()
    torch.testing.assert_close(plain.distiller.weights(), compiled.distiller.weights())
    for one, other in zip(plain.students, compiled.students, strict=True):
        for a, b in zip(one.learner.model.parameters(), other.learner.model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("traced", ["eager"], indirect=True)
def test_a_compiled_run_that_was_stopped_ends_in_the_same_bits(
    make_short: MakeTrainer, tmp_path: Path, traced: None
) -> None:
    words: dict[str, Any] = {"dropout": 0.2, "steps": 6, "compile": True}
    make_short("tau=1", path=tmp_path / "whole", **words).run()
    first = make_short("tau=1", path=tmp_path / "parts", **words)
    with stopped_at(3):
        first.run()
    make_short("tau=1", path=tmp_path / "parts", **words).run()
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
@compiler
def test_a_compiled_pass_has_the_bits_of_its_seed(make_trainer: MakeTrainer) -> None:
    """The default backend draws dropout its own way; a run resumes to the same bits because the seed decides it.

    Whatever ran before, and in a copy, which is compiled anew: the encoder layer's gradients are the same.
    """
    learner = make_trainer("tau=1", dropout=0.2, compile=True).students[0].learner

    def gradients(of: Learner, seed: int, length: int = 7) -> list[torch.Tensor]:
        layer, x = of.model.encoder[0], torch.linspace(-1, 1, 3 * length * 16).view(3, length, 16)
        layer.zero_grad()
        seed_torch(seed)
        layer(x, torch.ones(3, 1, 1, length, dtype=torch.bool)).square().sum().backward()
        return [p.grad.clone() for p in layer.parameters() if p.grad is not None]

    first, longer, other, again = (gradients(learner, *words) for words in [(1,), (1, 9), (2,), (1,)])
    copied = gradients(learner.copy(), 1)
    assert first and list(differences(first, again)) == list(differences(first, copied)) == []
    assert list(differences(first, longer)) and list(differences(first, other))


def test_where_nothing_can_be_compiled_it_is_said_before_training(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compiler(*args: Any, **words: Any) -> Any:
        raise RuntimeError("No working C++ compiler\nfound")

    check_compiler.cache_clear()
    monkeypatch.setattr(torch, "compile", no_compiler)
    with pytest.raises(UserError, match=r"compile=True: .* \(No working C\+\+ compiler found\)\. .*set compile=False"):
        make_trainer("tau=1", compile=True)
