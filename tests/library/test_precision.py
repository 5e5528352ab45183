"""precision="auto": the rule, the trial product, and that no global state stays changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pmd_lite.distillation import fused
from pmd_lite.training import precision, step
from pmd_lite.training.distributed import Group
from pmd_lite.training.precision import Precision, choose, for_cpu, for_cuda, try_products
from pmd_lite.training.snapshot import differences
from tests.conftest import MakeTrainer, stopped_at
from tests.paper.test_resume import assert_same

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("error", "speedup", "bf16", "expected", "says"),
    [
        (4e-7, 2.3, 0.1, (True, None), "exact and 2.3 times as fast"),
        (4e-7, 1.0, 0.1, (False, None), "not faster"),
        (3e-3, 4.0, 1.9, (False, None), "less precision"),  # a processor that computes it in bf16
        (float("nan"), 3.0, 1.0, (False, None), "less precision"),
        (3e-3, 4.0, 2.1, (False, torch.bfloat16), "bf16, in which products are 2.1 times as fast"),
        (4e-7, 2.3, 4.5, (True, None), "exact and 2.3 times"),  # less than twice as fast as exact fp32
        (4e-7, 2.3, 4.7, (False, torch.bfloat16), "4.7 times as fast"),
    ],
)
def test_what_a_cpu_gets(
    error: float, speedup: float, bf16: float, expected: tuple[bool, torch.dtype | None], says: str
) -> None:
    found = for_cpu(error, speedup, bf16)
    assert (found.onednn, found.dtype) == expected
    assert not found.scaled
    assert says in found.why


def test_cards_before_ampere_get_fp16_with_a_scaler() -> None:
    assert for_cuda((8, 0)).dtype == for_cuda((9, 0)).dtype == torch.bfloat16
    assert not for_cuda((8, 0)).scaled
    assert for_cuda((7, 5)).dtype == torch.float16
    assert for_cuda((7, 5)).scaled


def test_what_is_asked_for_is_done() -> None:
    assert choose("fp32", CPU) == Precision()
    assert choose("bf16", CPU).dtype == torch.bfloat16
    assert choose("auto", torch.device("mps")).dtype is None


def test_the_trial_product_is_exact_where_the_switch_changes_nothing() -> None:
    """fp32 and bf16, by every routine: results are nearly right; neither random state nor switch has changed."""
    before = torch.get_rng_state(), torch.get_float32_matmul_precision()
    error, speedup, bf16 = try_products.__wrapped__(64)
    assert 1e-8 < error < 1e-2
    assert min(speedup, bf16) > 0
    assert list(differences(before[0], torch.get_rng_state())) == []
    assert torch.get_float32_matmul_precision() == before[1]


def test_the_switch_is_put_back_also_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), Precision(onednn=True).active():
        assert torch.get_float32_matmul_precision() == "medium"
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.slow
def test_training_by_the_other_route_is_the_same_up_to_rounding(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    monkeypatch.setattr(precision, "try_products", lambda d_model: (1e-7, 2.0, 1.0))
    plain = make_trainer("auto-pmd", eps=1e-3)
    plain.run()
    auto = make_trainer("auto-pmd", eps=1e-3, precision="auto")
    auto.show = "lines"
    update = auto.update

    def watched(student: object) -> int:
        seen.append(torch.get_float32_matmul_precision())
        return update(student)  # type: ignore[arg-type]

    monkeypatch.setattr(auto, "update", watched)
    auto.run()
    assert set(seen) == {"medium"}
    where = "auto: torch sees no CUDA device" if auto.config.train.device == "auto" else "as asked"
    why = "precision auto: fp32 through oneDNN, exact and 2.0 times as fast here"
    assert f"  device cpu ({where}); {why}; it keeps kernels" in capsys.readouterr().out
    if try_products(64)[0] < precision.EXACT:
        for one, other in zip(plain.students, auto.students, strict=True):
            for a, b in zip(one.learner.model.parameters(), other.learner.model.parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_resumed_run_keeps_the_route_it_began_with(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Timing decides, and the next time it may decide otherwise on a busy machine: the checkpoint stores the choice."""
    monkeypatch.setattr(precision, "try_products", lambda d_model: (1e-7, 2.0, 1.0))
    make_trainer("auto-pmd", path=tmp_path / "whole", precision="auto").run()
    first = make_trainer("auto-pmd", path=tmp_path / "parts", precision="auto")
    with stopped_at(6):
        first.run()
    monkeypatch.setattr(precision, "try_products", lambda d_model: (1e-7, 1.0, 1.0))
    second = make_trainer("auto-pmd", path=tmp_path / "parts", precision="auto")
    assert not second.students[0].learner.precision.onednn
    second.run()
    assert [student.learner.precision.onednn for student in second.students] == [True, True]
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_all_ranks_compute_as_rank_0_does(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timing decides here; on another machine it may have decided otherwise."""

    class Second(Group):
        def of_rank(self, rank: int, value: Any) -> Any:
            return vars(Precision(torch.bfloat16)) if isinstance(value, dict) and "dtype" in value else value

    monkeypatch.setattr(precision, "try_products", lambda d_model: (1e-7, 1.0, 1.0))
    monkeypatch.setattr(step, "current", Second)
    found = make_trainer("bi-pmd", precision="auto")
    assert [student.learner.precision.dtype for student in found.students] == [torch.bfloat16] * 2


def test_a_run_may_go_on_where_another_precision_is_best(make_trainer: MakeTrainer) -> None:
    """Begun in bf16, which needs no scaler; a card that takes fp16 starts one anew."""
    one, other = (make_trainer("tau=1").students[0].learner for _ in range(2))
    other.scaler = torch.amp.GradScaler("cpu", enabled=True)
    other.load_state_dict(one.state_dict())
    assert other.scaler.get_scale() == 65536


def test_dev_losses_are_projected_in_fp32_whatever_the_model_computes_in(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches decide by thousandths of a nat, and bf16 logits are no finer than that."""
    trainer, seen = make_trainer("tau=1", precision="bf16"), list[torch.dtype]()
    projected = fused.project

    def project(hidden: torch.Tensor, *words: Any) -> torch.Tensor:
        seen.append(hidden.dtype)
        return projected(hidden, *words)

    monkeypatch.setattr(fused, "project", project)
    trainer.probe.dev_loss(0)
    assert set(seen) == {torch.float32}
