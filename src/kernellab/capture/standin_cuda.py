"""What torch says about the stand-in GPU: the functions and classes of torch.cuda and torch.accelerator, from the
database. Nothing here launches or computes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from types import SimpleNamespace

import torch

from kernellab.base.functions import AnyFunction
from kernellab.capture.standin_gpu import StandinGpu

_CUDA_VERSION = "13.0"  # of a torch that was built without CUDA
# Functions of torch.cuda that have no effect, and classes that select a device or a stream.
_WITHOUT_EFFECT = (
    *("init", "_lazy_init", "set_device", "set_stream", "synchronize", "empty_cache", "ipc_collect"),
    *("reset_peak_memory_stats", "manual_seed", "manual_seed_all", "set_rng_state"),
)
_CONTEXTS = ("device", "device_of", "_DeviceGuard", "stream", "StreamContext")


def attributes(gpu: StandinGpu) -> Iterator[tuple[object, str, object]]:
    """What to replace in torch: owner, name and value."""
    for name, function in cuda_functions(gpu).items():
        yield torch.cuda, name, function
    yield torch.cuda, "default_generators", (torch.default_generator,) * (gpu.index + 1)
    yield torch.version, "cuda", torch.version.cuda or _CUDA_VERSION
    yield torch.backends.cuda, "is_built", lambda: True
    yield torch._C, "_cuda_getCurrentRawStream", lambda device: 0
    accelerator = {
        "is_available": "is_available",
        "device_count": "device_count",
        "current_device_index": "current_device",
        "current_stream": "current_stream",
        "synchronize": "synchronize",
        "set_device_index": "set_device",
    }
    own = cuda_functions(gpu)
    for name, cuda_name in accelerator.items():
        yield torch.accelerator, name, own[cuda_name]
    yield torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda")
    yield torch.Tensor, "record_stream", _do_nothing()
    # Libraries move the state of a GPU's generator on; the CPU's generator stands in for it.
    yield torch, "Generator", _Generator


def cuda_functions(gpu: StandinGpu) -> dict[str, AnyFunction]:
    """Replacements for functions and classes of torch.cuda, by name. The stand-in is the last GPU, and the current.

    Each is an object of its own: Dynamo, when it is imported, lists the functions of torch by their identity.
    """
    properties = _properties(gpu)
    return {
        **{name: _do_nothing() for name in _WITHOUT_EFFECT},
        **{name: type(name, (NullContext,), {}) for name in _CONTEXTS},
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: gpu.index + 1,
        "current_device": lambda: gpu.index,
        "get_device_capability": lambda device=None: gpu.chip.capability,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [gpu.arch],
        "is_bf16_supported": lambda including_emulation=True: gpu.chip.capability >= (8, 0),
        "is_tf32_supported": lambda: gpu.chip.capability >= (8, 0),
        "can_device_access_peer": lambda device, peer_device: False,
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda device=None: (gpu.memory_bytes, gpu.memory_bytes),
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "Stream": Stream,
        "Event": _Event,
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
    }


def _properties(gpu: StandinGpu) -> SimpleNamespace:
    return SimpleNamespace(
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


def _do_nothing() -> AnyFunction:
    return lambda *args, **kwargs: None


class Stream:
    """The default stream, on which nothing runs."""

    cuda_stream = 0
    stream_id = 0
    priority = 0

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.device_index = torch.cuda.current_device()
        self.device = torch.device("cuda", self.device_index)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def query(self) -> bool:
        return True

    def record_event(self, event: _Event | None = None) -> _Event:
        return event or _Event()

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def wait_stream(self, other: object) -> None:
        pass


class _Event:
    """An event of a stream on which nothing runs."""

    cuda_event = 0

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def record(self, stream: object = None) -> None:
        pass

    def wait(self, stream: object = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: object) -> float:
        return 0.0


class _Generator(torch.Generator):
    """A generator on the CPU, also where one for the GPU is asked for."""

    def __new__(cls, device: object = "cpu") -> _Generator:
        place = "cpu" if torch.device(str(device)).type == "cuda" else str(device)
        return super().__new__(cls, place)  # type: ignore[call-arg]


class NullContext:
    """Replaces contexts that select a device or a stream. It is a class because callers use isinstance on them."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


@contextlib.contextmanager
def replace_attribute(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute in the body of the context. One that is inherited or missing is added and removed again."""
    existed = name in vars(owner)
    before = inspect.getattr_static(owner, name, None)  # so that a static method is restored as one
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before) if existed else delattr(owner, name)
