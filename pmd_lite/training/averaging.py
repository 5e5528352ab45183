"""Checkpoint averaging: the mean of a student's weights at its last evaluations, as one run more.

At the end of a training, weights lie around a minimum, and their mean is nearer to it (Polyak and Juditsky 1992).
Vaswani et al. (2017) translate with such a mean.

    checkpoint/last/model_i-NNNNNNNN.safetensors   weights of the evaluation after update NNNNNNNN
"""

from pathlib import Path

from torch import Tensor, nn

from pmd_lite.data.tokenizer import Tokenizer
from pmd_lite.disk import new_directory, place, write_atomic, write_json
from pmd_lite.errors import UserError
from pmd_lite.training.rundir import RunDir
from pmd_lite.training.weights import save_weights


def keep(rundir: RunDir, student: int, model: nn.Module, step: int, last: int) -> None:
    """Keep the weights of this evaluation, and remove all but those of the `last` ones; 0 keeps none."""
    if last and rundir.writes:
        file, about = rundir.checkpoints / "last" / f"model_{student + 1}-{step:08d}", rundir.about(student, step)
        write_atomic(file.with_suffix(".safetensors"), lambda p: save_weights(model.state_dict(), p, **about))
        for old in kept(rundir, student)[:-last]:
            old.unlink(missing_ok=True)


def kept(rundir: RunDir, student: int) -> list[Path]:
    """The files of `keep` for this student, the latest last."""
    return sorted((rundir.checkpoints / "last").glob(f"model_{student + 1}-*.safetensors"))


def average(run: str | Path, out: str | Path, last: int) -> Path:
    """Write a finished run into the new directory `out`, with mean weights and without a record of its training.

    Each weight is the mean (summed in float64) of the `last` files of `keep`. Raises UserError when the run has not
    ended or has fewer, or when `out` exists.
    """
    rundir, out = RunDir(place(run)), place(out)
    summary = rundir.summary()
    files = [kept(rundir, student) for student in range(len(rundir.config["samplers"]))]
    if not 1 <= last <= (there := min(map(len, files))):
        raise UserError(f"last={last}: {rundir.path} keeps the weights of {there} evaluations. Name 1 to that many, or "
                        "train with a larger --keep-last")  # fmt: skip
    with new_directory(out) as part:
        write_json(part / "config.json", rundir.config)
        Tokenizer.load(rundir.path / "tokenizer").save(part / "tokenizer")
        made = RunDir(part)
        for student, of in enumerate(files):
            mean: dict[str, Tensor] = {}
            for file in of[-last:]:
                for name, weight in rundir.load_weights(student, file).items():
                    mean[name] = mean.get(name, 0) + weight.double() / last
            made.save_best(student, {name: weight.float() for name, weight in mean.items()}, summary["step"])
        steps = ", ".join(str(int(file.stem.rpartition("-")[2])) for file in files[0][-last:])
        made.finish({**summary, "reason": f"mean of the weights after updates {steps}"})
    return out
