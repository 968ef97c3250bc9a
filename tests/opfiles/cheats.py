"""Implementations that are right when they are checked and cheat when they are timed."""

import torch

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(1024, 1024)], dtype=["float32"]))
def double(x):
    """x·2."""
    return x * 2


@double.impl("honest")
def _(x):
    return torch.add(x, x)


_cache = {}


@double.impl("caches-by-pointer")
def _(x):
    if x.data_ptr() not in _cache:
        _cache[x.data_ptr()] = x * 2
    return _cache[x.data_ptr()]


_calls = dict.fromkeys(("skips", "lazy", "mutates", "grows", "aliases"), 0)


def _count(name):
    _calls[name] += 1
    return _calls[name]


_last = {}


@double.impl("skips-every-second-call")
def _(x):
    if _count("skips") % 2 and "y" in _last and _last["y"].shape == x.shape:
        return _last["y"]
    _last["y"] = x * 2
    return _last["y"]


@double.impl("lazy-after-the-tenth-call")
def _(x):
    if _count("lazy") > 10:
        return torch.empty_like(x)
    return x * 2


@double.impl("mutates-its-input-later")
def _(x):
    y = x * 2
    if _count("mutates") > 10:
        x.view(-1)[0] += 1
    return y


@double.impl("returns-its-input-later")
def _(x):
    if _count("aliases") > 10:
        return x.mul_(2)
    return x * 2


def _recompiled(x, n):
    return x * 2 + (n - n)


_compiled = torch.compile(_recompiled, dynamic=False)


@double.impl("recompiles-per-call")
def _(x):
    return _compiled(x, _count("grows"))


_side = {}


@double.impl("side-stream", supports=lambda case: case.device == "cuda" or "needs streams")
def _(x):
    if "s" not in _side:
        _side["s"] = torch.cuda.Stream()
    _side["s"].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_side["s"]):
        return x * 2


@double.impl("side-stream-no-wait", supports=lambda case: case.device == "cuda" or "needs streams")
def _(x):
    if "t" not in _side:
        _side["t"] = torch.cuda.Stream()
    with torch.cuda.stream(_side["t"]):
        return x * 2


_versions = {}


@double.impl("caches-by-version")
def _(x):
    """Not caught, and not faster: versions move on between calls."""
    key = (x.data_ptr(), x._version)
    if key not in _versions:
        _versions.clear()
        _versions[key] = x * 2
    return _versions[key].clone()


@double.impl("waits-for-the-gpu", supports=lambda case: case.device == "cuda" or "needs a GPU")
def _(x):
    y = x * 2
    torch.cuda.synchronize()
    return y


class Lazy(torch.Tensor):
    """Computes when it is looked at, which is after the window."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [a.as_subclass(torch.Tensor) * 2 if isinstance(a, Lazy) else a for a in args]
        return func(*args, **(kwargs or {}))


@double.impl("computes-when-looked-at")
def _(x):
    return x.as_subclass(Lazy)


_values = {}


@double.impl("caches-by-value")
def _(x):
    key = (x.shape, x[0, 0].item(), x[-1, -1].item())
    if key not in _values:
        _values[key] = x * 2
    return _values[key]


_copied = {}


@double.impl("caches-copies-by-value")
def _(x):
    key = (x.shape, x[0, 0].item(), x[-1, -1].item())
    if key not in _copied:
        for _ in range(20):  # what it saves later
            _copied[key] = x * 2
    return _copied[key].clone()


_patched = []


@double.impl("patches-torch")
def _(x):
    _patched.append(1)
    if len(_patched) > 10:
        torch.add = lambda a, b: torch.zeros_like(a)
    return x * 2
