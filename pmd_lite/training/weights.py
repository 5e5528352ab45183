"""Weights on disk, with a checksum: a damaged file raises an error, and training never silently starts from garbage.

The checksum is in the metadata of the safetensors file. A file without one (from an earlier version) is not checked
here; a checkpoint of today refuses it (see `RunDir.load_checkpoint`).
"""

from __future__ import annotations

import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pmd_lite.disk import regular
from pmd_lite.errors import UserError

SUM = "sha256"


def save_weights(model: dict[str, Tensor], path: Path, **about: str) -> str:
    """Save a model's tensors, and what the file says `about` itself; returns their checksum.

    A tied tensor is saved once, under its first name (safetensors refuses shared memory).
    """
    saved: set[int] = set()
    own = {}
    for name, tensor in model.items():
        if tensor.data_ptr() in saved and tensor.numel():
            continue
        saved.add(tensor.data_ptr())
        own[name] = tensor.detach().cpu().contiguous()
    about[SUM] = _checksum(own)
    save_file(own, path, metadata=about)
    return about[SUM]


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors on the CPU, what the file says about itself with its true checksum under SUM).

    Raises OSError, ValueError or SafetensorError when the file is absent or damaged.
    """
    with safe_open(regular(path), "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (a file is not a dict)
        about = dict(file.metadata() or {})
    true = _checksum(tensors)
    if about.get(SUM, true) != true:
        raise ValueError("its checksum does not fit its contents")
    return tensors, {**about, SUM: true}


def _checksum(tensors: dict[str, Tensor]) -> str:
    digest = sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(path: Path) -> dict[str, Any]:
    """A file of torch.save, on the CPU; nothing in it is executed. Raises many kinds of exception if it is damaged."""
    with zipfile.ZipFile(regular(path)) as file:  # torch.load ignores the checksums in this zip file
        damaged = file.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of its part {damaged} does not fit")
    return dict(torch.load(path, weights_only=True, map_location="cpu"))


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights saved without the second names of tied tensors. Raises UserError when shapes or names differ."""
    own = model.state_dict()
    storage: dict[int, str] = {}
    for name, tensor in own.items():
        storage.setdefault(tensor.data_ptr(), name)
    missing = [name for name, tensor in own.items() if storage[tensor.data_ptr()] not in weights]
    wrong = [name for name in weights if name not in own or own[name].shape != weights[name].shape]
    if missing or wrong:
        raise UserError(f"these weights belong to another model shape: {', '.join((missing + wrong)[:4])} do not fit")
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)
