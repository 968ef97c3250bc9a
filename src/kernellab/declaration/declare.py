"""`@kl.op`: declaring an op, and collecting the ops that a file declares."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import overload

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.declaration import validation
from kernellab.declaration.op import Op

_collections: list[dict[str, Op]] = []


@contextlib.contextmanager
def collect_ops() -> Iterator[dict[str, Op]]:
    """Collect the ops that are declared in the body, by name. A second op of the same name is refused."""
    ops: dict[str, Op] = {}
    _collections.append(ops)
    try:
        yield ops
    finally:
        _collections.remove(ops)


def declare_op(reference: AnyFunction, **declaration: object) -> Op:
    """Declare an op without adding it to the ops of a file."""
    name = str(declaration.get("name") or getattr(reference, "__name__", "?"))
    validation.require_known(name, declaration, validation.keywords_of(Op.__init__))
    return Op(reference, **declaration)  # type: ignore[arg-type]  # Op checks each value and says what to write


@overload
def op(reference: AnyFunction, /, **declaration: object) -> Op: ...
@overload
def op(reference: None = None, /, **declaration: object) -> Callable[[AnyFunction], Op]: ...
def op(reference: AnyFunction | None = None, /, **declaration: object) -> Op | Callable[[AnyFunction], Op]:
    """Declare an op: `@kl.op` or `@kl.op(cases=…, options=…)` above its plain PyTorch reference."""

    def declare(fn: AnyFunction) -> Op:
        new_op = declare_op(fn, **declaration)
        if _collections:
            if new_op.name in _collections[-1]:
                raise UserError(f"two ops are named {new_op.name}: give one of them another name")
            _collections[-1][new_op.name] = new_op
        return new_op

    return declare(reference) if reference is not None else declare
