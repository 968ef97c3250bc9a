"""`kl.auto_ranges`: a range for every module of a model, forward and backward."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import torch
from torch.autograd.graph import Node
from torch.utils.hooks import RemovableHandle

from kernellab.profiler.ranges import is_recorded
from kernellab.profiler.ranges import range as named_range


class ModuleRanges:
    """The hooks that `auto_ranges` has registered on a model; `remove` removes them. Also a context manager."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> ModuleRanges:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def auto_ranges(model: torch.nn.Module) -> ModuleRanges:
    """Mark every module's forward, by its path in the model, and its backward, as `PATH.backward`.

    The autograd graph is not changed: hooks of its nodes open and close the ranges. Compiled code is not marked.
    """
    handles: list[RemovableHandle] = []
    for path, module in model.named_modules():
        hooks = _ModuleHooks(path or type(model).__name__)
        handles.append(module.register_forward_pre_hook(hooks.begin, prepend=True))
        handles.append(module.register_forward_hook(hooks.end, always_call=True))
    return ModuleRanges(handles)


class _OpenCalls(threading.local):
    """The calls of marked modules that each thread is in: the range, and autograd's next sequence number."""

    def __init__(self) -> None:
        self.stack: list[tuple[named_range, int | None]] = []


_open_calls = _OpenCalls()


class _ModuleHooks:
    """One module's hooks. A named class, so that a marked model can still be copied and saved."""

    def __init__(self, path: str) -> None:
        self.path = path

    def begin(self, module: torch.nn.Module, args: object) -> None:
        if not torch.compiler.is_dynamo_compiling():
            sequence = torch._C._autograd._get_sequence_nr() if is_recorded() else None
            _open_calls.stack.append((named_range(self.path).__enter__(), sequence))

    def end(self, module: torch.nn.Module, args: object, output: object) -> None:
        if torch.compiler.is_dynamo_compiling() or not _open_calls.stack:
            return
        opened, first_sequence = _open_calls.stack.pop()
        opened.__exit__(None, None, None)
        if first_sequence is None:
            return
        for node in _nodes_since(first_sequence, output):
            metadata: dict[str, object] = node.metadata  # type: ignore[assignment]  # a property, typed as a method
            if "kernellab" not in metadata:  # an inner module may have marked it
                metadata["kernellab"] = hooks = _NodeHooks(f"{self.path}.backward")
                node.register_prehook(hooks.begin)
                node.register_hook(hooks.end)


class _NodeHooks:
    """One autograd node's hooks. They run on the node's thread, right before and after it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[named_range] = []

    def begin(self, grad_outputs: Sequence[torch.Tensor]) -> None:
        self._open.append(named_range(self._name).__enter__())

    def end(self, grad_inputs: Sequence[torch.Tensor], grad_outputs: Sequence[torch.Tensor]) -> None:
        if self._open:
            self._open.pop().__exit__(None, None, None)


def _nodes_since(first_sequence: int, output: object) -> list[Node]:
    """The nodes behind a module's output that its forward created: those with this sequence number or a later one.

    Nodes that accumulate gradients get no hook: they outlive the graph, and DDP has its own hooks there.
    """
    nodes: dict[Node, None] = {}
    queue = [tensor.grad_fn for tensor in _tensors(output) if tensor.grad_fn is not None]
    while queue:
        node = queue.pop()
        if node in nodes or node.name() == "torch::autograd::AccumulateGrad" or node._sequence_nr() < first_sequence:
            continue
        nodes[node] = None
        queue += [earlier for earlier, _ in node.next_functions if earlier is not None]
    return list(nodes)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
