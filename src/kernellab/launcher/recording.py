"""Records a pass of an op while it runs: which tensors it allocates, and which kernels it launches on them.

A pass can be repeated if it does nothing else: an operator of torch besides allocations and views, or a kernel that is
not one of `kernellab.build.cuda`, makes it not repeatable. The C++ side reads a `Description` by its attributes.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from kernellab.base.operator_mode import AnyOverload, OperatorMode
from kernellab.build import cuda
from kernellab.build.cuda import Dim
from kernellab.ops.gpus import arrivals, is_arrival_counter
from kernellab.ops.gradients import Given

_ALLOCATES = frozenset(
    {
        torch.ops.aten.empty.memory_format,
        torch.ops.aten.empty_like.default,
        torch.ops.aten.empty_strided.default,
        torch.ops.aten.new_empty.default,
        torch.ops.aten.new_empty_strided.default,
    }
)

Options = Sequence[object]
Argument = tuple[str, int, int]  # "value" and its bits; "input" or "allocation", its index and an offset in bytes


class NotRepeatable(Exception):
    """Why a pass cannot be repeated."""


@dataclass
class LaunchDescription:
    kernel: int  # the driver's handle
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    cluster: tuple[int, ...]  # empty: no clusters
    arguments: list[Argument]


@dataclass
class Description:
    """A pass that can be repeated. Outputs are inputs, or else allocations."""

    options: Options
    allocations: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]] = field(default_factory=list)
    launches: list[LaunchDescription] = field(default_factory=list)
    outputs: list[tuple[bool, int]] = field(default_factory=list)
    bound_to_stream: bool = False


_local = threading.local()


def active() -> Recording | None:
    """The recording that this thread makes."""
    return getattr(_local, "recording", None)


class Recording:
    """Records one pass of the op `name` for these inputs; None is one that is not given."""

    def __init__(self, name: str, inputs: Given) -> None:
        self._name, self._inputs = name, inputs
        self.description: Description | None = None
        self.reason = f"{name} was not called"
        self.is_final = True  # False: the next call may be repeatable

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        before, _local.recording = active(), self
        try:
            yield
        finally:
            _local.recording = before

    def run(self, name: str, run_pass: Callable[..., Given], tensors: Given, options: Options) -> Given:  # type: ignore[explicit-any]
        """Run a pass, and record it if it is the one that was asked for."""
        if name != self._name or not _same(tensors, self._inputs):
            self._refuse(f"{name} was called, or with other tensors")
            return run_pass(*tensors)
        if self.description is not None:
            self._refuse(f"{name} was called twice")
            return run_pass(*tensors)
        if any(x is not None and x.is_cuda for x in tensors) and torch.cuda.is_current_stream_capturing():
            self._refuse("a CUDA graph is captured", is_final=False)
            return run_pass(*tensors)
        for x in tensors:
            if x is not None and x.is_cuda:
                arrivals(x.device)  # so that it need not be allocated in the pass
        # Inputs may be the same tensor, or parts of one: aliases are told apart.
        aliases = [None if x is None else x.detach() for x in tensors]
        tracker = _Tracker(aliases)
        with tracker, _observed_launches(tracker.launch):
            outputs = run_pass(*aliases)
        try:
            self.description = tracker.describe(outputs, options)
        except NotRepeatable as reason:
            self._refuse(str(reason))
        originals = {id(alias): x for alias, x in zip(aliases, tensors, strict=True)}
        return [originals.get(id(y), y) for y in outputs]

    def _refuse(self, reason: str, *, is_final: bool = True) -> None:
        self._name, self.description, self.reason, self.is_final = "", None, reason, is_final


def _same(tensors: Given, others: Given) -> bool:
    return len(tensors) == len(others) and all(x is y for x, y in zip(tensors, others, strict=True))


@contextlib.contextmanager
def _observed_launches(observe: cuda.LaunchObserver) -> Iterator[None]:
    thread = threading.get_ident()

    def observe_own(*launch: object) -> None:
        if threading.get_ident() == thread:
            observe(*launch)  # type: ignore[arg-type]

    cuda.launch_observers.append(observe_own)
    try:
        yield
    finally:
        cuda.launch_observers.remove(observe_own)


class _Tracker(OperatorMode):
    """Follows tensors from the inputs and allocations that they come from to the kernels."""

    def __init__(self, inputs: Given) -> None:
        super().__init__()
        self._allocations: list[torch.Tensor] = []
        self._launches: list[LaunchDescription] = []
        self._bound_to_stream = False
        self._problem = ""
        # By id: the tensor itself, which keeps the id its own, where it comes from, and the tensor there.
        self._origins: dict[int, tuple[torch.Tensor, str, int, torch.Tensor]] = {}
        for index, x in enumerate(inputs):
            if x is not None:
                self._origins[id(x)] = (x, "input", index, x)

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func._schema.is_mutable:
            given = args[0] if args else None
            if result is given:  # as by contiguous() of a tensor that is
                return result
            if func in _ALLOCATES:
                self._origins[id(result)] = (result, "allocation", len(self._allocations), result)
                self._allocations.append(result)
                return result
            origin = self._origins.get(id(given))
            if origin is not None and _share_memory(result, origin[0]):  # what is called a view may be a copy
                self._origins[id(result)] = (result, *origin[1:])
                return result
        self._problem = self._problem or f"it calls {func}"
        return result

    def launch(
        self,
        kernel: int,
        grid: Dim,
        block: Dim,
        args: tuple[object, ...],
        shared: int,
        cluster: Dim | None,
    ) -> None:
        arguments = [self._argument(value) for value in args]
        sizes = () if cluster is None else _sizes(cluster)
        self._launches.append(LaunchDescription(kernel, _sizes(grid), _sizes(block), shared, sizes, arguments))

    def _argument(self, value: object) -> Argument:
        if isinstance(value, torch.Tensor):
            if is_arrival_counter(value):
                self._bound_to_stream = True
                return ("value", value.data_ptr(), 0)
            if id(value) not in self._origins:
                self._problem = self._problem or "a kernel gets a tensor of unknown origin"
                return ("value", 0, 0)
            _, kind, index, start = self._origins[id(value)]
            return (kind, index, value.data_ptr() - start.data_ptr())
        if isinstance(value, cuda.TensorMap):
            self._problem = self._problem or "a kernel gets a tensor map"
            return ("value", 0, 0)
        bits = _bits(value)
        if any(_contains(x, bits) for x, *_ in self._origins.values()):
            self._problem = self._problem or "a kernel gets a pointer as a number"
        return ("value", bits, 0)

    def describe(self, outputs: Given, options: Options) -> Description:
        if self._problem:
            raise NotRepeatable(self._problem)
        if not self._launches and any(y is not None and y.numel() for y in outputs):
            raise NotRepeatable("it launches no kernel of CUDA C++")
        shapes = [(tuple(x.shape), x.stride(), x.dtype) for x in self._allocations]
        description = Description(options, shapes, self._launches, bound_to_stream=self._bound_to_stream)
        for y in outputs:
            origin = self._origins.get(id(y))
            if y is None or origin is None or not _alike(y, origin[3]):
                raise NotRepeatable("it returns something else than new tensors and its inputs")
            place = (origin[1] == "input", origin[2])
            if place in description.outputs:
                raise NotRepeatable("it returns a tensor twice")
            description.outputs.append(place)
        return description


def _share_memory(x: torch.Tensor, y: torch.Tensor) -> bool:
    return bool(x.untyped_storage()._cdata == y.untyped_storage()._cdata)


def _alike(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors are the same memory in the same form, as empty_like's result and its alias are."""
    return (x.data_ptr(), x.shape, x.stride(), x.dtype) == (y.data_ptr(), y.shape, y.stride(), y.dtype)


def _sizes(dims: Dim) -> tuple[int, ...]:
    return dims if isinstance(dims, tuple) else (dims,)


def _bits(value: object) -> int:
    """The 8 bytes in which the driver finds a number. A numpy scalar keeps its type."""
    match value:
        case np.generic():
            return int.from_bytes(value.tobytes(), "little")
        case float():
            return int.from_bytes(struct.pack("<d", value), "little")
        case int():
            return value & (1 << 64) - 1
    raise NotRepeatable(f"a kernel gets a {type(value).__name__}")


def _contains(x: torch.Tensor, address: int) -> bool:
    storage = x.untyped_storage()
    return bool(storage.nbytes()) and storage.data_ptr() <= address < storage.data_ptr() + storage.nbytes()
