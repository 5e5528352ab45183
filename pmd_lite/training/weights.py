"""Weights on disk, with a checksum: a damaged file raises an error, and training never silently starts from garbage.

The checksum is in the metadata of the safetensors file.
"""

import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pmd_lite.disk import opened
from pmd_lite.errors import UserError

SUM = "sha256"


def save_weights(model: dict[str, Tensor], path: Path, **about: str) -> str:
    """Save a model's tensors, and what the file says `about` itself; returns their checksum."""
    own = {name: tensor.detach().cpu().contiguous() for name, tensor in model.items()}
    about[SUM] = checksum(own)
    for left in path.parent.glob(".tmp*"):  # by a process that was killed in save_file
        left.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode
    save_file(own, path, metadata=about)
    path.chmod(mode)  # safetensors allows only the owner to read it, whatever the umask
    return about[SUM]


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors on the CPU, what the file says about itself; under SUM stands its checksum).

    Raises OSError, ValueError or SafetensorError when the file is absent or damaged.
    """
    opened(path).close()  # safetensors calls a file without the right to read it absent
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (a file is not a dict)
        about = dict(file.metadata() or {})
    if about.get(SUM) != checksum(tensors):
        raise ValueError("its checksum is missing or does not fit its contents")
    return tensors, about


def checksum(tensors: dict[str, Tensor]) -> str:
    """sha256 (hex) of names, types, shapes and bytes."""
    digest = sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(path: Path) -> dict[str, Any]:
    """A file of torch.save, on the CPU; nothing in it is executed. Raises many kinds of exception if it is damaged."""
    with opened(path) as whole, zipfile.ZipFile(whole) as file:  # torch.load ignores the checksums in this zip file
        damaged = file.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of its part {damaged} does not fit")
    return dict(torch.load(path, weights_only=True, map_location="cpu"))


def load_weights(model: nn.Module, weights: dict[str, Tensor], joined: int = 0) -> None:
    """Load weights into a model, whose last `joined` ids keep their own. UserError if they do not fit."""
    own = model.state_dict()
    missing = [name for name in own if name not in weights]
    tables = ("embedding.weight", "src_embedding.weight", "output.weight", "output_bias")
    known = {name: tensor[: len(tensor) - joined] if name in tables else tensor for name, tensor in own.items()}
    wrong = [name for name in weights if name not in own or known[name].shape != weights[name].shape]
    if missing or wrong:
        raise UserError(f"these weights belong to another model shape: {', '.join((missing + wrong)[:4])} do not fit")
    with torch.no_grad():
        for name, tensor in weights.items():
            known[name].copy_(tensor)
