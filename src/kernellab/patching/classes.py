"""Gives a module another class: a subclass of its own, with another forward.

The module stays the same object. Its parameters, its hooks and references to it stay valid, and `isinstance` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from torch import nn

Forward: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]


class Maker(Protocol):
    """Makes the forward of a derived class. Equal makers make equal forwards, and they can be pickled."""

    def forward_for(self, original: type[nn.Module]) -> Forward: ...


_derived: dict[tuple[type[nn.Module], Maker], type[nn.Module]] = {}


def derive(original: type[nn.Module], maker: Maker) -> type[nn.Module]:
    """The class whose forward `maker` makes, always the same. It has the name of the original."""
    if (original, maker) not in _derived:
        _derived[original, maker] = _derive(original, maker)
    return _derived[original, maker]


def _derive(original: type[nn.Module], maker: Maker) -> type[nn.Module]:
    def reduce(self: nn.Module, protocol: int) -> tuple[object, ...]:
        reduced = object.__reduce_ex__(self, 2)
        return (_new, (original, maker), *reduced[2:])

    body = {
        "kernellab_original": original,
        "forward": maker.forward_for(original),
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "__reduce_ex__": reduce,
    }
    return type(original.__name__, (original,), body)


def is_derived(class_: type) -> bool:
    return hasattr(class_, "kernellab_original")


def _new(original: type[nn.Module], maker: Maker) -> nn.Module:
    """A copied or unpickled module, before it has its state."""
    derived = derive(original, maker)
    return derived.__new__(derived)
