"""torch's own operators, compared with what they were before op files ran.

A file can override an operator in torch's dispatcher, where no Python function is replaced: `copy_`, through which
kernellab writes inputs, or the `softmax` of another implementation.
"""

from __future__ import annotations

import gc

import torch
from torch.library import Library

_NAMESPACE = "aten"
# A kernel that another one has overridden; and shapes without data, which torch registers when it is first needed.
_IGNORED = ("(inactive)", "Meta:")


class Operators:
    """A snapshot of the kernels of every operator; takes 0.2 s."""

    def __init__(self) -> None:
        self._before = _kernels()
        self._libraries = {id(library) for library in _libraries()}

    def restore(self) -> list[str]:
        """Undo every override; the names of the operators."""
        now = _kernels()
        overridden = [name for name, kernels in self._before.items() if now.get(name) != kernels]
        for library in _libraries() if overridden else ():
            if id(library) not in self._libraries:
                library._destroy()  # what torch calls when a library is deleted
        return overridden


def _kernels() -> dict[str, int]:
    """A hash of each operator's kernels."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{_NAMESPACE}::")]
    return {name: hash(tuple(filter(_counts, torch._C._dispatch_dump(name).splitlines()))) for name in names}


def _counts(line: str) -> bool:
    return not any(ignored in line for ignored in _IGNORED)


def _libraries() -> list[Library]:
    return [thing for thing in gc.get_objects() if type(thing) is Library and thing.ns == _NAMESPACE]
