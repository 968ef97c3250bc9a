"""Implementations that remember results. Computing takes them long, so that remembering pays."""

import tempfile
from pathlib import Path

import torch

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(64, 1024)], dtype=["float32"]))
def double(x):
    """x·2."""
    return x * 2


# On a GPU, waiting for the values of a key takes hundreds of microseconds. To compute takes longer than that.
_REPETITIONS = 50 if torch.cuda.is_available() else 5


def _compute(x):
    """Works in memory of its own: to map new memory may take as long as to compute."""
    work = torch.empty_like(x)
    for _ in range(_REPETITIONS):
        torch.lgamma(x, out=work)
    return torch.mul(x, 2, out=work)


@double.impl("honest")
def _(x):
    return _compute(x)


_factors = {}


@double.impl("honest-remembers-a-constant")
def _(x):
    """What does not depend on the inputs may be kept."""
    key = (x.device, x.dtype)
    if key not in _factors:
        _factors[key] = torch.tensor(2, device=x.device, dtype=x.dtype)
    _compute(x)
    return x * _factors[key]


_by_pointer = {}


@double.impl("by-pointer")
def _(x):
    if x.data_ptr() not in _by_pointer:
        _by_pointer[x.data_ptr()] = _compute(x)
    return _by_pointer[x.data_ptr()]


_by_version = {}


@double.impl("honest-by-version")
def _(x):
    """A cache that never hits, and so saves nothing: versions move on between calls."""
    key = (x.data_ptr(), x._version)
    if key not in _by_version:
        _by_version.clear()
        _by_version[key] = _compute(x)
    return _by_version[key].clone()


_by_value = {}


@double.impl("by-value")
def _(x):
    key = (x.shape, x[0, 0].item(), x[-1, -1].item())
    if key not in _by_value:
        _by_value[key] = _compute(x)
    return _by_value[key]


_copies_by_value = {}


@double.impl("copies-by-value")
def _(x):
    key = (x.shape, x[0, 0].item(), x[-1, -1].item())
    if key not in _copies_by_value:
        _copies_by_value[key] = _compute(x)
    return _copies_by_value[key].clone()


_by_sample = {}


@double.impl("copies-by-a-sample-of-values")
def _(x):
    key = (x.shape, *x.reshape(-1)[:: max(1, x.numel() // 64)].tolist())
    if key not in _by_sample:
        _by_sample[key] = _compute(x)
    return _by_sample[key].clone()


_by_checksum = {}


@double.impl("copies-by-checksum")
def _(x):
    """Looks at all values: never wrong, and slow on inputs that it has not seen."""
    key = (x.shape, x.sum().item(), x[0, 0].item())
    if key not in _by_checksum:
        _by_checksum[key] = _compute(x)
    return _by_checksum[key].clone()


_folder = tempfile.TemporaryDirectory()


@double.impl("copies-from-a-file", supports=lambda case: case.device == "cpu" or "reads into memory of the CPU")
def _(x):
    file = Path(_folder.name) / f"{tuple(x.shape)}-{x[0, 0].item()}-{x[-1, -1].item()}"
    if not file.exists():
        torch.save(_compute(x), file)
    return torch.load(file)


_stash = {}


@double.impl("of-another-implementation")
def _(x):
    """Takes what `honest` computed last where the first values agree."""
    if "y" in _stash and _stash["y"].shape == x.shape and _stash["y"][0, 0].item() == 2 * x[0, 0].item():
        return _stash["y"].clone()
    _stash["y"] = _compute(x)
    return _stash["y"].clone()
