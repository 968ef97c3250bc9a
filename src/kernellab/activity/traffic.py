"""What each operator of a call has to move: the bytes of its inputs and its outputs, seen as torch dispatches it.

Works on any device, on meta tensors too, where nothing is computed. Views, fresh memory and operators that write
nothing do not count; a tensor that an operator is given twice is read once. What a kernel launched past torch's
dispatcher moves is not seen: Triton's, CUDA C++'s. An active dispatch mode turns `torch.compile` off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Moved = dict[str, Any]
Enclosing = Sequence[Sequence[Any]]  # the operators a kernel was launched in, each a name and which call of it

# Allocating is no traffic, nor is looking at the same memory under another name.
_FRESH = ("empty", "new_empty", "resize", "set", "detach", "lift", "alias")


def traffic(call: Callable[[], Any]) -> list[Moved]:
    """The operators of one call, in order: `op`, `read_bytes`, `write_bytes`."""
    seen = _Seen()
    with seen, torch.no_grad():
        call()
    return seen.moved


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.moved: list[Moved] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        result = func(*args, **given)
        found = _moved(func, args, given, result)
        if found is not None:
            self.moved.append(found)
        return result


def _moved(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Moved | None:
    name = func._schema.name
    if name.partition("::")[2].lstrip("_").startswith(_FRESH):
        return None
    written = _written(func, args, kwargs)
    inputs = _tensors((args, kwargs))
    known = {_storage(t) for t in inputs}
    fresh = [t for t in _tensors(result) if _storage(t) not in known]
    if not fresh and not written:
        return None
    # What an operator writes without asking what was there: the out= of an ordinary one, the target of a copy.
    only_written = {_place(t) for t in written} if _overwrites(func) else set()
    read = [t for t in inputs if _place(t) not in only_written]
    return {
        "op": name,
        "read_bytes": _bytes(read),
        "write_bytes": _bytes([*written, *fresh]),
    }


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Inputs the schema says are written to."""
    found: list[torch.Tensor] = []
    for at, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            found += _tensors(value)
    return found


def _overwrites(func: Any) -> bool:
    name = func._schema.name.partition("::")[2]
    return name.startswith(("copy_", "fill_", "zero_")) or any(a.name == "out" for a in func._schema.arguments)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def _storage(t: torch.Tensor) -> int:
    return int(t.untyped_storage()._cdata)


def _place(t: torch.Tensor) -> tuple[Any, ...]:
    return _storage(t), t.storage_offset(), tuple(t.shape), tuple(t.stride())


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Of distinct tensors; along a dim that is expanded the same elements are meant."""
    return sum(_touched(t) for t in {_place(t): t for t in tensors}.values())


def _touched(t: torch.Tensor) -> int:
    count = 1
    for size, stride in zip(t.shape, t.stride(), strict=True):
        count *= size if stride or not size else 1
    return count * t.element_size()


# Joined with the kernels --------------------------------------------------------------------------------


def with_kernels(moved: Sequence[Moved], enclosing: Sequence[Enclosing]) -> list[Moved]:
    """Each operator with the numbers of the kernels it launched; kernels launched outside of any come as entries of
    their own, whose bytes nobody knows.

    `enclosing` has, for each kernel in order, the operators it was launched in, outermost first. Dispatching sees an
    operator where a profiler sees it and everything inside it: of those around a kernel, the first that comes next
    among the operators is the one.
    """
    found: list[Moved] = []
    at = 0
    current: Sequence[Any] | None = None
    for number, around in enumerate(enclosing):
        if current is not None and current in around:
            found[-1]["kernels"].append(number)
            continue
        ahead = next((i for i in range(at, len(moved)) if any(name == moved[i]["op"] for name, _ in around)), None)
        if ahead is None:
            found.append({"op": around[-1][0] if around else None, "read_bytes": None, "write_bytes": None})
            current = around[-1] if around else None
        else:
            # Between the two stand operators that launched nothing: an empty tensor, work on the host.
            found.append(dict(moved[ahead]))
            current = next(one for one in around if one[0] == moved[ahead]["op"])
            at = ahead + 1
        found[-1]["kernels"] = [number]
    return found
