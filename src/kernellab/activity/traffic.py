"""The bytes that each operator of a call has to move: its inputs and outputs, as torch dispatches it.

Works on any device, also on meta tensors, where nothing is computed. Views, fresh memory and operators that write
nothing do not count; a tensor passed twice to an operator is read once. Kernels launched outside torch's dispatcher,
by Triton or CUDA C++, are not counted. An active dispatch mode disables `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernellab.activity.call import Enclosing
from kernellab.activity.documents import OperatorTraffic

# Allocating is not traffic, and neither is a view of the same memory.
_NO_TRAFFIC = ("empty", "new_empty", "resize", "set", "detach", "lift", "alias")


def traffic(call: Callable[[], object]) -> list[OperatorTraffic]:
    """The operators of one call, in order."""
    recorder = _Recorder()
    with recorder, torch.no_grad():
        call()
    return recorder.operators


class _Operator(Protocol):
    """An operator as torch dispatches it: `torch._ops.OpOverload`."""

    _schema: torch.FunctionSchema

    def __call__(self, *args: object, **options: object) -> object: ...


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[OperatorTraffic] = []

    def __torch_dispatch__(
        self,
        func: _Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        options = kwargs or {}
        result: object = func(*args, **options)
        operator = _traffic_of(func, args, options, result)
        if operator is not None:
            self.operators.append(operator)
        return result


def _traffic_of(
    func: _Operator, args: Sequence[object], kwargs: Mapping[str, object], result: object
) -> OperatorTraffic | None:
    name = func._schema.name
    if name.partition("::")[2].lstrip("_").startswith(_NO_TRAFFIC):
        return None
    written = _written_inputs(func, args, kwargs)
    inputs = _tensors((args, kwargs))
    input_storages = {_storage(t) for t in inputs}
    fresh = [t for t in _tensors(result) if _storage(t) not in input_storages]
    if not fresh and not written:
        return None
    only_written = {_view(t) for t in written} if _overwrites(func) else set()
    read = [t for t in inputs if _view(t) not in only_written]
    return {"op": name, "read_bytes": _bytes(read), "write_bytes": _bytes([*written, *fresh])}


def _written_inputs(func: _Operator, args: Sequence[object], kwargs: Mapping[str, object]) -> list[torch.Tensor]:
    """The inputs that the schema declares as written."""
    written: list[torch.Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            written += _tensors(value)
    return written


def _overwrites(func: _Operator) -> bool:
    """Whether the operator writes without reading: the out= of an ordinary operator, the target of a copy."""
    name = func._schema.name.partition("::")[2]
    return name.startswith(("copy_", "fill_", "zero_")) or any(a.name == "out" for a in func._schema.arguments)


def _tensors(value: object) -> list[torch.Tensor]:
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def _storage(t: torch.Tensor) -> int:
    return int(t.untyped_storage()._cdata)


def _view(t: torch.Tensor) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """An identity of the elements of a tensor."""
    return _storage(t), int(t.storage_offset()), tuple(t.shape), tuple(t.stride())


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes of distinct tensors; an expanded dim repeats the same elements and counts once."""
    return sum(_distinct_bytes(t) for t in {_view(t): t for t in tensors}.values())


def _distinct_bytes(t: torch.Tensor) -> int:
    count = 1
    for size, stride in zip(t.shape, t.stride(), strict=True):
        count *= size if stride or not size else 1
    return count * t.element_size()


def with_kernels(operators: Sequence[OperatorTraffic], enclosing: Sequence[Enclosing]) -> list[OperatorTraffic]:
    """Each operator with the numbers of the kernels it launched. A kernel that no operator launched becomes an entry
    of its own, with unknown bytes.

    `enclosing` has, for each kernel in order, the operators it was launched in, outermost first. A profiler records an
    operator and everything inside it, the dispatcher only some of these levels. A kernel is attributed to the next of
    `operators` whose name is among its levels.
    """
    joined: list[OperatorTraffic] = []
    position = 0
    current: tuple[str, int] | None = None
    for number, levels in enumerate(enclosing):
        if current is not None and current in levels:
            joined[-1]["kernels"].append(number)
            continue
        names = {name for name, _ in levels}
        ahead = next((i for i in range(position, len(operators)) if operators[i]["op"] in names), None)
        if ahead is None:
            current = levels[-1] if levels else None
            joined.append({"op": current[0] if current else None, "read_bytes": None, "write_bytes": None})
        else:
            # The operators in between launched nothing: an empty tensor, or work on the host.
            joined.append(operators[ahead].copy())
            current = next(level for level in levels if level[0] == operators[ahead]["op"])
            position = ahead + 1
        joined[-1]["kernels"] = [number]
    return joined
