"""Kinds of implementations: where each kind runs, which kind a name implies, and which names a pattern matches."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection
from dataclasses import dataclass

from kernellab.base.errors import UserError, nearest


@dataclass(frozen=True)
class Kind:
    """For each device type, the reason why implementations of this kind do not run there natively."""

    name: str
    cpu: str | None
    cuda: str | None
    interpreted_on_cpu: bool = False

    def obstacle(self, device_type: str) -> str | None:
        return self.cpu if device_type == "cpu" else self.cuda


KINDS = {
    kind.name: kind
    for kind in (
        Kind("manual", cpu=None, cuda=None),
        Kind("torch", cpu=None, cuda=None),
        Kind("compile", cpu=None, cuda=None),
        Kind("triton", cpu="interpreter time is not speed", cuda=None, interpreted_on_cpu=True),
        Kind("cuda", cpu="needs a GPU", cuda=None),
        Kind("cpp", cpu=None, cuda="runs on the CPU: try --device cpu"),
        Kind("python", cpu=None, cuda=None),
    )
}


def kind_of(name: str, declared: str | None = None) -> Kind:
    """`triton-v2` is of kind triton. A name that starts with no kind is of kind python: a function without needs."""
    if declared is not None:
        if declared not in KINDS:
            raise UserError(f"no kind of implementation {declared!r}: {nearest(declared, KINDS)}")
        return KINDS[declared]
    return KINDS.get(name.split("-")[0], KINDS["python"])


def match_names(pattern: str, names: Collection[str]) -> list[str]:
    """The name that equals the pattern; otherwise the names that it matches as a shell pattern, such as `triton*`."""
    return [pattern] if pattern in names else [name for name in names if fnmatch.fnmatchcase(name, pattern)]
