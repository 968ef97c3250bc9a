"""Which rules hold on a device: the user's own, then those that `klab tune` measured, then the shipped ones.

`rules.py` describes the files. They are read when rules are first asked for.
"""

from __future__ import annotations

import functools
import os
import warnings

import torch

from kernellab.base.paths import cache_path
from kernellab.library.rules import Rules, available, read_table, shipped_name, shipped_table, usable
from kernellab.library.tuned import SWITCH, find_tuned

_OLDEST_GPU = (8, 0)  # the kernels are compiled and tested for GPUs from here on


def rules(op: str, dtype: torch.dtype, device: torch.device) -> Rules:
    """The rules for an op and a dtype on a device whose implementations can run here, in the order of their rank."""
    name = architecture(device)
    if name is None:
        return ()
    key = (op, str(dtype).removeprefix("torch."))
    own = cache_path("tables", f"{shipped_name(name)}.toml")
    found = read_table(own).get(key, ()) if own.exists() else ()
    tuned = find_tuned(name)
    if tuned is not None:
        if tuned.problem and os.environ.get(SWITCH) != "0":
            _warn_once(tuned.problem)
        found += tuned.rules.get(key, ())
    return usable((*found, *shipped_table(name).get(key, ())))


@functools.cache
def _warn_once(problem: str) -> None:
    warnings.warn(f"kernellab: {problem}", stacklevel=2)


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
