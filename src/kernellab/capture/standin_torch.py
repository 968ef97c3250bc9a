"""A GPU that is not there: torch's questions about one answered from the database, tensors on the device meta.

Meta tensors have sizes, strides and alignment, and no memory. While pretending they say they are on a GPU, so that
an ordinary wrapper takes its ordinary path up to the launch. Nothing here launches or computes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernellab.capture.standin_gpu import StandinGpu

_META = torch.device("meta")

# Torch and Triton are one for all threads: whoever puts something in their place has them alone until it is back.
alone = threading.RLock()


@contextlib.contextmanager
def pretending(gpu: StandinGpu) -> Iterator[None]:
    """In the body torch sees one GPU of this kind, and custom operators run what they would run on it."""
    with contextlib.ExitStack() as stack:
        for name, answer in answers(gpu).items():
            stack.enter_context(replaced(torch.cuda, name, answer))
        stack.enter_context(_real_custom_ops(gpu))
        stack.enter_context(_OnGpu(gpu))
        yield


class _OnGpu(TorchFunctionMode):
    """Meta tensors claim to be on the GPU, and what is made there is made on meta."""

    def __init__(self, gpu: StandinGpu) -> None:
        super().__init__()
        device = torch.device("cuda", gpu.index)
        self._claims: dict[Any, Any] = {
            torch.Tensor.device.__get__: device,
            torch.Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
            torch.Tensor.is_meta.__get__: False,  # type: ignore[attr-defined]
            torch.Tensor.get_device: gpu.index,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._claims and args[0].is_meta:
            return self._claims[func]
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        if func is torch.Tensor.cuda:
            return args[0].to(_META)
        moved = {k: _to_meta(v) for k, v in (kwargs or {}).items()}
        return func(*(_to_meta(a) for a in args), **moved)


def _to_meta(value: Any) -> Any:
    """The device meta where a GPU is meant."""
    if isinstance(value, torch.device):
        return _META if value.type == "cuda" else value
    return _META if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value


@contextlib.contextmanager
def _real_custom_ops(gpu: StandinGpu) -> Iterator[None]:
    """On meta tensors a custom operator runs its fake function, which launches nothing; here its real one instead.

    The dispatcher looks the fake function up at each call, so that gradients registered for the operator still work.
    """
    from torch._library.custom_ops import OPDEFS

    with contextlib.ExitStack() as stack:
        for op in list(OPDEFS.values()):
            real = op._backend_fns.get("cuda") or op._backend_fns.get(None)
            if real is not None and not _of_torch(op):
                stack.enter_context(replaced(op, "_abstract_fn", functools.partial(_on_gpu, gpu, real)))
        yield


def _of_torch(op: Any) -> bool:
    """Torch defines operators of its own in the same way, which compute nothing on meta tensors."""
    home = str(op._init_fn.__module__)
    return home.startswith("torch.") and home != "torch._library.triton"  # where everybody's triton_op is wrapped


def _on_gpu(gpu: StandinGpu, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _OnGpu(gpu):  # the dispatcher has left it
        return real(*args, **kwargs)


def answers(gpu: StandinGpu) -> dict[str, Any]:
    """What stands in for functions of torch.cuda, by name."""
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
        "device": Nothing,
        "device_of": Nothing,
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
        "stream": Nothing,
    }


class _Stream:
    """The default stream, on which nothing runs."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, other: Any) -> None:
        pass


class Nothing:
    """Stands in for contexts that choose a device or a stream; a class, as people ask for instances of them."""

    def __init__(self, *args: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute with another value in the body, one that is not there made for it."""
    there = hasattr(owner, name)
    before = inspect.getattr_static(owner, name, None)  # a static method stays one
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before) if there else delattr(owner, name)
