"""Atomic operations that Triton's interpreter does not have: on bfloat16, and on the blocks of tensor descriptors."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from kernellab.base.functions import AnyFunction
from kernellab.interpreter.bfloat16 import from_bits, to_bits
from kernellab.interpreter.fault import CannotInterpret
from kernellab.interpreter.language import replace_function

_REDUCTIONS = {
    "ADD": np.add,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
}


def complete_atomics(interpreter: ModuleType, tl: ModuleType, float_add: object) -> None:
    """`float_add` is Triton's name for an atomic addition of floating-point numbers."""
    builder, memory = interpreter.InterpreterBuilder, interpreter._interpreter
    original: AnyFunction = builder.create_atomic_rmw

    def create_atomic_rmw(
        self: object, operation: object, pointers: object, value: object, mask: object, *how: object
    ) -> object:
        assert isinstance(value, interpreter.TensorHandle)
        assert isinstance(pointers, interpreter.TensorHandle)
        assert isinstance(mask, interpreter.TensorHandle)
        if value.dtype.scalar != tl.bfloat16 or operation != float_add:
            return original(self, operation, pointers, value, mask, *how)
        shape = pointers.data.shape
        addresses, active = pointers.data.ravel(), np.broadcast_to(mask.data, shape).ravel()
        added = from_bits(np.broadcast_to(value.data, shape).ravel())
        before = np.zeros(addresses.shape, np.uint16)
        waiting = np.flatnonzero(active)
        while waiting.size:  # elements with one address are added one after the other
            _, first = np.unique(addresses[waiting], return_index=True)
            now = waiting[first]
            everywhere = np.ones(now.shape, bool)
            before[now] = memory.load(addresses[now], everywhere, before[now], np.dtype(np.uint16))
            memory.store(addresses[now], to_bits(from_bits(before[now]) + added[now]), everywhere)
            waiting = np.delete(waiting, first)
        return interpreter.TensorHandle(before.reshape(shape), tl.bfloat16)

    def create_descriptor_reduce(
        self: object, kind: object, descriptor: object, value: object, indices: object
    ) -> None:
        assert isinstance(descriptor, interpreter.TensorDescHandle)
        assert isinstance(value, interpreter.TensorHandle)
        name = str(kind).rpartition(".")[2].upper()
        if name not in _REDUCTIONS:
            raise CannotInterpret(f"a tensor descriptor's atomic {name.lower()}")
        pointers, mask = descriptor.materialize_pointers(indices)
        before = memory.load(pointers.data, mask, np.zeros_like(value.data), value.data.dtype)
        if value.dtype.scalar == tl.bfloat16:
            after = to_bits(_REDUCTIONS[name](from_bits(before), from_bits(value.data)))
        else:
            after = _REDUCTIONS[name](before, value.data)
        memory.store(pointers.data, after, mask)

    replace_function(builder, "create_atomic_rmw", create_atomic_rmw)
    replace_function(builder, "create_descriptor_reduce", create_descriptor_reduce)
