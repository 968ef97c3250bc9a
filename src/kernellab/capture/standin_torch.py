"""Makes torch see the stand-in GPU: torch.cuda answers from the database, and tensors report that they are on it.

Tensors are really on the meta device, which has sizes, strides and alignment but no memory, or on the CPU, for Triton's
interpreter. A wrapper takes its usual path up to the launch, forward and backward.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch.overrides import TorchFunctionMode

from kernellab.base.functions import AnyFunction
from kernellab.capture.standin_cuda import attributes, replace_attribute
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.capture.standin_smi import use_nvidia_smi

META = torch.device("meta")
_UNCHANGED: frozenset[object] = frozenset({torch.device})  # functions whose arguments are not changed

# All threads share torch and Triton: hold this lock while their functions are replaced.
torch_lock = threading.RLock()


@contextlib.contextmanager
def use_standin(gpu: StandinGpu, memory: torch.device = META) -> Iterator[None]:
    """In the body, torch sees one GPU of this kind, whose tensors are in `memory`.

    On meta, custom operators run their implementation for a GPU.
    """
    mode = functools.partial(_PretendedGpu, gpu, memory)
    run_backward: AnyFunction = vars(torch.autograd)["_engine_run_backward"]

    def run_backward_on_gpu(*args: object, **kwargs: object) -> object:
        with mode():  # torch.autograd.grad, being a function of torch, is called outside of the mode
            return run_backward(*args, **kwargs)

    with contextlib.ExitStack() as stack:
        for owner, name, value in attributes(gpu):
            stack.enter_context(replace_attribute(owner, name, value))
        stack.enter_context(replace_attribute(torch.autograd, "_engine_run_backward", run_backward_on_gpu))
        if memory == META:
            stack.enter_context(_use_real_custom_ops(mode))
        stack.enter_context(use_nvidia_smi(gpu))
        stack.enter_context(mode())
        yield


class _PretendedGpu(TorchFunctionMode):
    """Tensors in `memory` report that they are on the GPU; tensors created on the GPU are created there."""

    def __init__(self, gpu: StandinGpu, memory: torch.device) -> None:
        super().__init__()
        self._memory = memory
        self._reported: dict[object, object] = {
            torch.Tensor.device.__get__: torch.device("cuda", gpu.index),
            torch.Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
            torch.Tensor.is_cpu.__get__: False,  # type: ignore[attr-defined]
            torch.Tensor.is_meta.__get__: False,  # type: ignore[attr-defined]
            torch.Tensor.get_device: gpu.index,
        }

    def __torch_function__(
        self,
        func: AnyFunction,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if func in self._reported and tensor is not None and tensor.device.type == self._memory.type:
            return self._reported[func]
        if func in _UNCHANGED:
            return func(*args, **(kwargs or {}))
        if func is torch.Tensor.cuda and tensor is not None:
            return tensor.to(self._memory)
        if func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:  # the number of a GPU
            args = (args[0], self._memory, *args[2:])
        moved = {name: self._place(value) for name, value in (kwargs or {}).items()}
        if type(moved.get("device")) is int:
            moved["device"] = self._memory
        return func(*map(self._place, args), **moved)

    def _place(self, value: object) -> object:
        """The device of the memory in place of a GPU; anything else unchanged."""
        if isinstance(value, torch.device):
            return self._memory if value.type == "cuda" else value
        return self._memory if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value


@contextlib.contextmanager
def _use_real_custom_ops(mode: Callable[[], TorchFunctionMode]) -> Iterator[None]:
    """On meta tensors, a custom operator runs its fake function, which launches nothing. Run its real one instead.

    The dispatcher looks up the fake function at each call, so replacing it keeps the operator's registered gradients.
    """
    from torch._library.custom_ops import OPDEFS, CustomOpDef

    def is_torchs(op: CustomOpDef) -> bool:
        """Torch defines its own operators in the same way; on meta tensors they compute nothing."""
        module = str(op._init_fn.__module__)
        return module.startswith("torch.") and module != "torch._library.triton"  # has the authors' triton_op's

    with contextlib.ExitStack() as stack:
        for op in list(OPDEFS.values()):
            real = op._backend_fns.get("cuda") or op._backend_fns.get(None)
            if real is not None and not is_torchs(op):
                stack.enter_context(
                    replace_attribute(op, "_abstract_fn", functools.partial(_call_on_standin, mode, real))
                )
        yield


def _call_on_standin(
    mode: Callable[[], TorchFunctionMode], real: AnyFunction, *args: object, **kwargs: object
) -> object:
    with mode():  # the mode is not active inside the dispatcher
        return real(*args, **kwargs)
