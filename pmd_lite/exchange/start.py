"""What `train(init=...)` starts from: an imported checkpoint, or models of our own, which new languages may join."""

from dataclasses import asdict
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from torch import Tensor

from pmd_lite.disk import place, read_json
from pmd_lite.errors import UserError
from pmd_lite.exchange.huggingface import from_huggingface, shape_of
from pmd_lite.exchange.marian import SHAPE, Imported
from pmd_lite.training.rundir import RunDir, lengthened
from pmd_lite.training.weights import checksum


class OwnStart(Imported):
    """The best weights of a run's students, or those of one student that was exported for transformers.

    Without a number (RUN:2), the student of each seat starts from the model of this seat: model_1 from model_1, tau=1
    too (see `Method.first_seat`). Where there are fewer models, the other students start from the last one.
    """

    joins = True

    def __init__(self, init: str | Path):
        """init: RUN, RUN:2 (model_2 alone) or the directory of an export. Raises UserError if it cannot be trained."""
        self.init, self.path, self._only = place(init), *_split(init)
        if "samplers" in read_json(self.path / "config.json", {}):
            written = RunDir(self.path).config
            self._students, shape = range(len(written["samplers"])), asdict(lengthened(written).model)
            if self._only is not None and self._only not in self._students:
                raise UserError(f"{init}: this run has model_1 to model_{len(self._students)}")
        elif (self.path / "tokenizer" / "tokenizer.json").exists():
            model = from_huggingface(self.path)
            self._weights, shape = [model.state_dict()], shape_of(model)
        else:
            raise UserError(f"{self.path} has no model of this library that can be trained. Name the run, or export it "
                            "again with --to hf")  # fmt: skip
        self.model_arguments = {name: shape[name] for name in (*SHAPE, "max_len")}

    @cached_property
    def _weights(self) -> list[dict[str, Tensor]]:
        return [RunDir(self.path).load_weights(i) for i in (self._students if self._only is None else [self._only])]

    @property
    def description(self) -> dict[str, str]:
        """For config.json of a run: where the weights are, and a checksum of all of them."""
        whole = " ".join(checksum(weights) for weights in self._weights)
        return {"path": str(self.init.resolve()), "sha256": sha256(whole.encode()).hexdigest()}

    def weights(self, seat: int = 0) -> dict[str, Tensor]:
        """The weights by name from which the student of this seat starts."""
        return self._weights[min(seat, len(self._weights) - 1)]

    def _whole(self) -> Path:
        return self.path


def _split(init: str | Path) -> tuple[Path, int | None]:
    """RUN:2 -> (RUN, 1): models are counted from 1 outside Python."""
    name, _, number = str(init).rpartition(":")
    named = name and number.isdigit() and not place(init).exists()
    return (place(name), int(number) - 1) if named else (place(init), None)


def start_from(init: str | Path) -> Imported:
    """What to start from. Raises UserError when there is nothing of this kind."""
    return OwnStart(init) if (_split(init)[0] / "config.json").exists() else Imported(init)
