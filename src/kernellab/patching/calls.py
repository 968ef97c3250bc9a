"""Redirects the calls of PyTorch's functions in a model's own code to `kernellab.functional`.

A function is copied with other globals, in which the names of PyTorch's functions mean ours. So only the patched model
is changed, and the model's Python files stay as they are. Functions of the same package that it calls are copied too,
if they call PyTorch's functions. A copy does not see names that its file defines later.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

import torch
from torch import Tensor, nn

from kernellab import functional
from kernellab import nn as kernellab_nn
from kernellab.patching.classes import Forward

_NAMESAKES = (
    "gelu",
    "silu",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "cross_entropy",
    "scaled_dot_product_attention",
)
_ROTATION = "apply_rotary_pos_emb"


def _copy_of(module: ModuleType, **others: object) -> ModuleType:
    copied = ModuleType(module.__name__, module.__doc__)
    vars(copied).update({**vars(module), **others})
    return copied


_FUNCTIONAL = _copy_of(nn.functional, **{name: getattr(functional, name) for name in _NAMESAKES})
_NN = _copy_of(nn, functional=_FUNCTIONAL, CrossEntropyLoss=kernellab_nn.CrossEntropyLoss)
_TORCH = _copy_of(torch, nn=_NN)
# What a global may be in a model's file, what it is in the copy, and where in it the function is that is called.
_MEANINGS: list[tuple[object, object, tuple[str, ...], str]] = [
    *((torch, _TORCH, ("nn", "functional", name), name) for name in _NAMESAKES),
    *((nn, _NN, ("functional", name), name) for name in _NAMESAKES),
    *((nn.functional, _FUNCTIONAL, (name,), name) for name in _NAMESAKES),
    *((getattr(nn.functional, name), getattr(functional, name), (), name) for name in _NAMESAKES),
    (torch, _TORCH, ("nn", "CrossEntropyLoss"), "cross_entropy"),
    (nn, _NN, ("CrossEntropyLoss",), "cross_entropy"),
    (nn.CrossEntropyLoss, kernellab_nn.CrossEntropyLoss, (), "cross_entropy"),
]


@dataclass(frozen=True)
class Redirected:
    """The forward of a class, with its calls redirected."""

    def forward_for(self, original: type[nn.Module]) -> Forward:
        return redirect(original.forward)[0]


def redirect(function: Callable[..., object]) -> tuple[Callable[..., object], set[str]]:  # type: ignore[explicit-any]
    """A copy of a function with its calls redirected, and their names; the function itself if there are none."""
    redirection = _Redirection(function.__module__.partition(".")[0])
    copied = redirection.copy(function)
    assert callable(copied)
    return copied, redirection.names


class RedirectedFunction:
    """A function with its calls redirected, which can be pickled."""

    def __init__(self, original: Callable[..., object]) -> None:  # type: ignore[explicit-any]
        self.original = original
        self._copied, self.names = redirect(original)

    def __call__(self, *args: object, **options: object) -> object:
        return self._copied(*args, **options)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.original,)


def uses(function: object, name: str) -> bool:
    """Whether a function, or one that it wraps, uses a name."""
    if not isinstance(function, FunctionType):
        return False
    wrapped = (cell.cell_contents for cell in function.__closure__ or () if _is_bound(cell))
    return name in function.__code__.co_names or any(uses(inner, name) for inner in wrapped)


class _Redirection:
    """One function and those that it calls in the same package."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.names: set[str] = set()
        self._copies: dict[FunctionType, FunctionType] = {}

    def copy(self, function: object) -> object:
        if not isinstance(function, FunctionType) or function.__module__.partition(".")[0] != self.package:
            return function
        if function not in self._copies:
            self._copies[function] = function  # while it is looked at: it may call itself
            self._copies[function] = self._copy(function)
        return self._copies[function]

    def _copy(self, function: FunctionType) -> FunctionType:
        others = {}
        for name, *attributes in _uses_in(function.__code__):
            if name in function.__globals__:
                value = function.__globals__[name]
                meaning = self._meaning(name, value, tuple(attributes))
                if meaning is not value:
                    others[name] = meaning
        cells = tuple(self._copy_cell(cell) for cell in function.__closure__ or ())
        if not others and cells == (function.__closure__ or ()):
            return function
        # Without the name of the file, torch.compile does not look names up in the file itself.
        names = {name: value for name, value in function.__globals__.items() if name != "__name__"}
        copied = FunctionType(
            function.__code__,
            {**names, **others},
            function.__name__,
            function.__defaults__,
            cells or None,
        )
        copied.__kwdefaults__ = function.__kwdefaults__
        copied.__dict__.update(function.__dict__)
        copied.__qualname__, copied.__module__ = function.__qualname__, function.__module__
        copied.__doc__, copied.__annotations__ = function.__doc__, function.__annotations__
        return copied

    def _meaning(self, name: str, value: object, attributes: tuple[str, ...]) -> object:
        """What a global is in the copy, of which these attributes are used."""
        if name == _ROTATION and isinstance(value, FunctionType) and _rotates_halves(value):
            self.names.add("rope")
            return rotation_by_rope(value)
        for before, after, path, function in _MEANINGS:
            if value is before and attributes[: len(path)] == path:
                self.names.add(function)
                return after
        return self.copy(value)

    def _copy_cell(self, cell: types.CellType) -> types.CellType:
        if not _is_bound(cell):
            return cell
        copied = self.copy(cell.cell_contents)
        return cell if copied is cell.cell_contents else types.CellType(copied)


def _is_bound(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _uses_in(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Every use of a global, with the attributes that are taken of it: `nn.functional.gelu` is one."""
    use: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and use:
            use += (instruction.argval,)
        elif instruction.opname != "EXTENDED_ARG":
            if use:
                yield use
            use = (instruction.argval,) if instruction.opname == "LOAD_GLOBAL" else ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _uses_in(constant)


# Rotary embeddings -------------------------------------------------------------------------------------


def rotation_by_rope(original: Callable[..., tuple[Tensor, Tensor]]) -> Forward:  # type: ignore[explicit-any]
    """A function like `apply_rotary_pos_emb`, whose tables are [1, positions, columns], both halves equal."""

    def apply_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor]:
        if unsqueeze_dim == 1 and cos.dim() == 3 and cos.shape[0] == 1 and cos.shape[-1] == q.shape[-1]:
            half = q.shape[-1] // 2
            return functional.rope(q, k, cos[0, :, :half], sin[0, :, :half])
        return original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)

    return apply_rotary_pos_emb


def _rotates_halves(function: Callable[..., object]) -> bool:  # type: ignore[explicit-any]
    """Whether a function computes what `functional.rope` does."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 3, 5, 8, generator=generator), torch.randn(2, 1, 5, 8, generator=generator)
    angles = torch.randn(1, 5, 4, generator=generator).repeat(1, 1, 2)
    try:
        theirs = function(q, k, angles.cos(), angles.sin())
    except Exception:  # another signature: another function of this name
        return False
    ours = functional.rope(q, k, angles[0, :, :4].cos(), angles[0, :, :4].sin())
    return isinstance(theirs, tuple) and all(
        torch.allclose(mine, other, atol=1e-5) for mine, other in zip(ours, theirs, strict=False)
    )
