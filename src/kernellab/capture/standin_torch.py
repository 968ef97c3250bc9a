"""Makes torch see the stand-in GPU: torch.cuda answers from the database, and tensors are on the meta device.

Meta tensors have sizes, strides and alignment, but no memory. While the stand-in is active they report that they are on
a GPU, so that a wrapper takes its usual path up to the launch. Nothing here launches or computes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode

from kernellab.base.functions import AnyFunction
from kernellab.capture.standin_gpu import StandinGpu

_META = torch.device("meta")
_UNCHANGED: frozenset[object] = frozenset({torch.device})  # functions whose arguments are not changed

# All threads share torch and Triton: hold this lock while their functions are replaced.
torch_lock = threading.RLock()


@contextlib.contextmanager
def use_standin(gpu: StandinGpu) -> Iterator[None]:
    """In the body, torch sees one GPU of this kind, and custom operators run their implementation for it."""
    with contextlib.ExitStack() as stack:
        for name, function in cuda_functions(gpu).items():
            stack.enter_context(replace_attribute(torch.cuda, name, function))
        stack.enter_context(_use_real_custom_ops(gpu))
        stack.enter_context(_MetaAsGpu(gpu))
        yield


class _MetaAsGpu(TorchFunctionMode):
    """Meta tensors report that they are on the GPU; tensors created on the GPU are created on meta."""

    def __init__(self, gpu: StandinGpu) -> None:
        super().__init__()
        device = torch.device("cuda", gpu.index)
        self._reported: dict[object, object] = {
            torch.Tensor.device.__get__: device,
            torch.Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
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
        if func in self._reported and tensor is not None and tensor.is_meta:
            return self._reported[func]
        if func in _UNCHANGED:
            return func(*args, **(kwargs or {}))
        if func is torch.Tensor.cuda and tensor is not None:
            return tensor.to(_META)
        moved = {name: _to_meta(value) for name, value in (kwargs or {}).items()}
        return func(*map(_to_meta, args), **moved)


def _to_meta(value: object) -> object:
    """The meta device in place of a GPU; anything else unchanged."""
    if isinstance(value, torch.device):
        return _META if value.type == "cuda" else value
    return _META if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value


@contextlib.contextmanager
def _use_real_custom_ops(gpu: StandinGpu) -> Iterator[None]:
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
                    replace_attribute(op, "_abstract_fn", functools.partial(_call_on_standin, gpu, real))
                )
        yield


def _call_on_standin(gpu: StandinGpu, real: AnyFunction, *args: object, **kwargs: object) -> object:
    with _MetaAsGpu(gpu):  # the mode is not active inside the dispatcher
        return real(*args, **kwargs)


def cuda_functions(gpu: StandinGpu) -> dict[str, AnyFunction]:
    """Replacements for functions and classes of torch.cuda, by name."""
    properties = SimpleNamespace(
        name=gpu.name,
        major=gpu.chip.capability[0],
        minor=gpu.chip.capability[1],
        multi_processor_count=gpu.sms,
        total_memory=gpu.memory_bytes,
        L2_cache_size=gpu.l2_bytes,
        warp_size=32,
        regs_per_multiprocessor=gpu.chip.registers_per_sm,
        max_threads_per_multi_processor=gpu.chip.threads_per_sm,
        max_threads_per_block=gpu.chip.threads_per_block,
        shared_memory_per_block=gpu.chip.shared_static_bytes,
        shared_memory_per_block_optin=gpu.chip.shared_per_block_bytes,
        shared_memory_per_multiprocessor=gpu.chip.shared_per_sm_bytes,
        is_integrated=False,
        is_multi_gpu_board=False,
    )
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: gpu.index,
        "set_device": lambda device: None,
        "device": NullContext,
        "device_of": NullContext,
        "synchronize": lambda device=None: None,
        "get_device_capability": lambda device=None: gpu.chip.capability,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_properties": lambda device=None: properties,
        "is_bf16_supported": lambda including_emulation=True: gpu.chip.capability >= (8, 0),
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda device=None: (gpu.memory_bytes, gpu.memory_bytes),
        "Stream": _Stream,
        "current_stream": _Stream,
        "default_stream": _Stream,
        "stream": NullContext,
    }


class _Stream:
    """The default stream, on which nothing runs."""

    cuda_stream = 0

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, other: object) -> None:
        pass


class NullContext:
    """Replaces contexts that select a device or a stream. It is a class because callers use isinstance on them."""

    def __init__(self, *args: object) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


@contextlib.contextmanager
def replace_attribute(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute in the body of the context. One that does not exist is added and removed again."""
    existed = hasattr(owner, name)
    before = inspect.getattr_static(owner, name, None)  # so that a static method is restored as one
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before) if existed else delattr(owner, name)
