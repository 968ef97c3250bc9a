"""Which rules hold on a device: the user's own, then those that `klab tune` measured, then the shipped ones.

`rules.py` describes the files. They are read when rules are first asked for.
"""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import torch

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_path
from kernellab.library.rules import (
    PYTORCH,
    SHIPPED,
    Rules,
    Table,
    available,
    read_table,
    shipped_name,
    shipped_table,
    usable,
)
from kernellab.library.tuned import REMEDY, find_tuned, is_switched_off

_OLDEST_GPU = (8, 0)  # the kernels are compiled and tested for GPUs from here on


def rules(op: str, dtype: torch.dtype, device: torch.device) -> Rules:
    """The rules for an op and a dtype on a device whose implementations can run here, in the order of their rank."""
    name = architecture(device)
    if name is None:
        return ()
    key = (op, str(dtype).removeprefix("torch."))
    own = cache_path("tables", f"{shipped_name(name)}.toml")
    found = read_table(own).get(key, ()) if own.exists() else ()
    tuned = None if is_switched_off() else find_tuned(name)
    if tuned is not None:
        if tuned.problem:
            _warn_once(f"{tuned.path} is not used: {tuned.problem}. {REMEDY}")
        found += tuned.rules.get(key, ())
    return usable((*found, *shipped_table(name).get(key, ())))


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(f"kernellab: {message}", stacklevel=2)


def architecture(device: torch.device) -> str | None:
    """`cpu`, or `sm_90` for a GPU; None where only PyTorch serves."""
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda" or not serves_gpus():
        return None
    capability = torch.cuda.get_device_capability(device)
    return "sm_{}{}".format(*capability) if capability >= _OLDEST_GPU else None


def serves_on_some_gpu(op: str, dtype: torch.dtype) -> bool:
    """Whether a rule of a table for GPUs, whichever GPU that is, names implementations of ours."""
    if not serves_gpus():
        return False
    key = (op, str(dtype).removeprefix("torch."))
    folders = [SHIPPED, cache_path("tables")] + ([] if is_switched_off() else [cache_path("tuned")])
    paths = (path for folder in folders for path in folder.glob("*.toml") if path.stem != "cpu")
    return any(PYTORCH not in (rule.forward, rule.backward) for path in paths for rule in _readable(path).get(key, ()))


def _readable(path: Path) -> Table:
    """A table; without rules if it cannot be read, which is reported where it is used."""
    try:
        return read_table(path)
    except UserError:
        return {}


def serves_gpus() -> bool:
    """Whether there are kernels for GPUs here. For AMD's there are none, though PyTorch calls them CUDA devices."""
    return torch.version.hip is None and available("triton")
