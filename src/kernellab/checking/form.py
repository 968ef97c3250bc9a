"""What can be wrong with a result besides its values: shape, dtype, device, strides, changed or returned inputs."""

from __future__ import annotations

import torch

from kernellab.accuracy.outputs import Outputs, Wrong, bitwise_equal, inputs_sharing_memory, require_same_shapes
from kernellab.accuracy.prepared_trial import PreparedTrial
from kernellab.base.user_code import PACKAGE
from kernellab.checking import reasons
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import is_upstream

_STRIDES_FROM_PYTORCH = ("manual", "compile")  # PyTorch decides the strides of their results


def judge_form(op: Op, impl: Impl, outputs: Outputs, prepared: PreparedTrial, guards: frozenset[str]) -> list[str]:
    """Raises Wrong for results of another form, changed inputs and returned inputs; returns notes."""
    require_same_shapes(outputs, prepared.peer)
    notes = _judge_tensors(op, impl, outputs, prepared) if "form" in guards else []
    if "unchanged" in guards:
        for name, before in prepared.pristine.items():
            if not bitwise_equal(before, prepared.inputs[name]):
                if is_upstream(name):
                    raise Wrong(f"{reasons.CHANGED_UPSTREAM}, which autograd may pass to other operations as well")
                raise Wrong(f"{reasons.CHANGED_INPUT}{name} without declaring mutates=[{name!r}] or clone=True")
    if "alias" in guards:
        refuse_returned_inputs(impl, outputs, prepared.inputs, prepared.aliases)
    return notes


def _judge_tensors(op: Op, impl: Impl, outputs: Outputs, prepared: PreparedTrial) -> list[str]:
    notes = []
    strict_strides = _is_shipped(impl) and impl.name not in _STRIDES_FROM_PYTORCH and not op.any_strides
    for number, (got, want) in enumerate(zip(outputs, prepared.peer, strict=True)):
        label = prepared.label(number)
        if got.dtype != want.dtype:
            raise Wrong(f"{label}dtype {_name(got.dtype)}, should be {_name(want.dtype)}")
        if got.device != want.device:
            raise Wrong(f"{label}device {got.device}, should be {want.device}")
        # PyTorch promises no strides of gradients: its own backward passes take them from whatever they multiply.
        if number < prepared.result_count and _relevant_strides(got) != _relevant_strides(want):
            if strict_strides:
                theirs = f"{prepared.peer_name}'s are {tuple(want.stride())}"
                raise Wrong(f"{label}strides {tuple(got.stride())}, {theirs}")
            # Without the numbers, so that it is one note for trials of all sizes.
            notes.append(f"{label}the elements lie in memory in another order than {prepared.peer_name}'s")
    return notes


def refuse_returned_inputs(impl: Impl, outputs: Outputs, inputs: Inputs, allowed: frozenset[str]) -> None:
    """Raises Wrong for a result in an input's own memory: it changes when the input does."""
    shared = [name for name in inputs_sharing_memory(outputs, inputs) if name not in impl.mutates | allowed]
    if shared:
        raise Wrong(f"{reasons.RETURNED_INPUT}{shared[0]} as its result")


def wrote_outside(name: str) -> str:
    """The reason where the guard bands of an input have been written to."""
    if is_upstream(name):
        return f"{reasons.CHANGED_UPSTREAM}: it wrote outside its elements"
    return f"{reasons.WROTE_OUTSIDE_INPUT}: {name}"


def inputs_unchanged(prepared: PreparedTrial) -> bool:
    """Whether the inputs still hold their values."""
    try:
        return all(bitwise_equal(before, prepared.inputs[name]) for name, before in prepared.pristine.items())
    except Exception:  # a dead GPU context: the worker is about to be replaced
        return False


def overlaps_itself(t: torch.Tensor | None) -> bool:
    """Whether elements of the tensor share memory, as in an expanded one."""
    return t is not None and any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True))


def _is_shipped(impl: Impl) -> bool:
    """Whether it is one of kernellab's own: a user's file or a peer may add others to a shipped op."""
    return all(PACKAGE / "ops" in file.resolve().parents for file in (impl.op.file, impl.file))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _relevant_strides(t: torch.Tensor) -> tuple[int, ...]:
    """The strides of dims with more than one element; none for an empty tensor."""
    return tuple(t.stride(d) for d in range(t.dim()) if t.size(d) > 1) if t.numel() else ()
