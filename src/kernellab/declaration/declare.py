"""`@kl.op`: declaring an op; and collecting the ops of a file while it executes.

An op that a file only extends belongs to others too. The file gets a copy with what it added, and the op itself is
restored, so that no other file sees the addition.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import overload

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.declaration import validation
from kernellab.declaration.op import Impl, Op, extension_listeners


@dataclass
class Collection:
    """`ops`: by name. `extended`: the names of those that another file has declared."""

    ops: dict[str, Op] = field(default_factory=dict)
    extended: list[str] = field(default_factory=list)
    before: dict[int, tuple[Op, dict[str, Impl]]] = field(default_factory=dict)  # by id: with which implementations

    def add(self, op: Op) -> None:
        if op.name in self.ops:
            raise UserError(f"two ops are named {op.name}: give one of them another name")
        self.ops[op.name] = op

    def note_extended(self, op: Op) -> None:
        """An op is about to get another implementation."""
        if not any(op is own for own in self.ops.values()):
            self.before.setdefault(id(op), (op, dict(op.impls)))


_collections: list[Collection] = []


@contextlib.contextmanager
def collect_ops() -> Iterator[Collection]:
    """The ops declared in the body; at its end, also copies of those that it extended. Two of one name are refused."""
    collection = Collection()
    _collections.append(collection)
    extension_listeners.append(collection.note_extended)
    copies = []
    try:
        yield collection
        copies = [op.copy() for op, _ in collection.before.values()]
    finally:
        extension_listeners.pop()
        _collections.pop()
        for op, impls in collection.before.values():
            op.impls = impls
    for op in copies:
        collection.add(op)
        collection.extended.append(op.name)


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
            _collections[-1].add(new_op)
        return new_op

    return declare(reference) if reference is not None else declare
