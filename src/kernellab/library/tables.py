"""Which rules hold on a device: the user's own, then those that `klab tune` measured, then the shipped ones.

`rules.py` describes the files. They are read when rules are first asked for.
"""

from __future__ import annotations

import functools
import warnings

import torch

from kernellab.base.paths import cache_path
from kernellab.library.rules import PYTORCH, SHIPPED, Rules, available, read_table, shipped_name, shipped_table, usable
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


def serves_gpus() -> bool:
    """Whether there are kernels for GPUs here. For AMD's there are none, though PyTorch calls them CUDA devices."""
    return torch.version.hip is None and available("triton")


def names_gpu_kernels(op: str, dtype: torch.dtype) -> bool:
    """Whether a shipped table lets an implementation of ours serve on some GPU."""
    tables = (read_table(path) for path in SHIPPED.glob("*.toml") if path.stem != "cpu")
    rules = (rule for table in tables for rule in table.get((op, str(dtype).removeprefix("torch.")), ()))
    return serves_gpus() and any(rule.forward != PYTORCH for rule in rules)
