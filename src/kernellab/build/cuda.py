"""CUDA C++: kernels built by NVRTC in about a second without a toolkit, or by nvcc together with host code.

Available as `kl.cuda`. The shipped ops use `kernel`. `inline` and `load` are for authors who write their own host code
and have nvcc.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from kernellab.base.errors import UserError
from kernellab.base.json import JsonValue
from kernellab.base.paths import cache_dir, replace_file
from kernellab.build.sources import fingerprint, locate, notify_observers
from kernellab.build.tensor_maps import Dim as Dim
from kernellab.build.tensor_maps import TensorMap as TensorMap
from kernellab.build.tensor_maps import launch as launch_with_tensor_maps
from kernellab.machine import tools

if TYPE_CHECKING:
    import torch
    from cuda.core import Kernel as LoadedKernel
    from cuda.core import LaunchConfig, Program, Stream

# Line information serves profilers, sanitizers and klab inspect; it does not change the code.
NVRTC_OPTIONS: dict[str, JsonValue] = {"std": "c++17", "lineinfo": True}
_DEFAULT_SHARED_BYTES = 48 * 1024  # static and dynamic: a kernel must request more than this explicitly


def kernel(file: str | Path, name: str, *, defines: Sequence[str] = (), arch_specific: bool = False) -> Kernel:
    """The `__global__` function `name` of a CUDA C++ file; a template is named with its arguments.

    `defines` are macros, `"N=4"` or `"FAST"`. `arch_specific` allows instructions that only this very architecture has,
    such as `wgmma` on Hopper: it is compiled for sm_90a instead of sm_90.

    >>> square = kernel("cuda.cu", "square<float>")      # doctest: +SKIP
    >>> square(blocks, 256, x, y, x.numel())             # doctest: +SKIP
    """
    return Kernel(locate(file), name, tuple(defines), arch_specific)


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, the PTX it was assembled from, and the kernel's mangled name."""

    code: bytes
    symbol: str
    ptx: str


class NotCapturable(UserError):
    """Code whose launches cannot be captured."""


class LaunchInterceptor(Protocol):
    def __call__(
        self, kernel: Kernel, grid: Dim, block: Dim, args: tuple[object, ...], shared: int, cluster: Dim | None
    ) -> None: ...


# Called instead of launching while launches are captured.
interceptor: LaunchInterceptor | None = None


class LaunchObserver(Protocol):
    def __call__(
        self, kernel: int, grid: Dim, block: Dim, args: tuple[object, ...], shared: int, cluster: Dim | None, /
    ) -> None: ...


# Called after each launch, with the driver's handle of the kernel, in the thread that launches.
launch_observers: list[LaunchObserver] = []


class Kernel:
    """A kernel launched as `kernel(grid, block, *args, shared=bytes, cluster=blocks)`.

    Tensors are passed as pointers, ints as 64-bit integers, floats as doubles; a numpy scalar keeps its type. A
    `TensorMap` is passed as the struct that the copy engine reads. The launch uses torch's current stream, on the
    device of the first tensor.
    """

    def __init__(self, path: Path, name: str, defines: tuple[str, ...], arch_specific: bool = False) -> None:
        self.path, self.name, self.defines, self.arch_specific = path, name, defines, arch_specific
        self._loaded: dict[int, LoadedKernel] = {}
        self._verified: set[int] = set()  # devices on which the arguments of the first launch fit the parameters
        self._clusters: dict[tuple[int, int, int, int], int] = {}
        self._shared_limits: dict[int, int] = {}  # by device, the dynamic shared memory that a launch may have

    def __call__(self, grid: Dim, block: Dim, *args: object, shared: int = 0, cluster: Dim | None = None) -> None:
        if interceptor is not None:
            interceptor(self, grid, block, args, shared, cluster)
            return
        loaded = self._launch(grid, block, args, shared, cluster)
        for observe in tuple(launch_observers):  # other threads add and remove theirs meanwhile
            observe(int(loaded.handle), grid, block, args, shared, cluster)

    def _launch(
        self, grid: Dim, block: Dim, args: tuple[object, ...], shared: int, cluster: Dim | None
    ) -> LoadedKernel:
        import torch
        from cuda.core import launch

        tensors = [a.base if isinstance(a, TensorMap) else a for a in args]
        device = next((a.device for a in tensors if isinstance(a, torch.Tensor)), None)
        if device is None or device.type != "cuda":
            raise UserError(f"CUDA kernel {self.name} needs its tensors on a GPU")
        with torch.cuda.device(device):
            loaded = self._load(device.index)
            if device.index not in self._verified:
                self._verify_first_launch(device.index, args)
            if shared > self._shared_limits[device.index]:
                self._request_shared(loaded, device.index, shared)
            values = [a.data_ptr() if isinstance(a, torch.Tensor) else a for a in args]
            stream = torch.cuda.current_stream().cuda_stream
            if any(isinstance(a, TensorMap) for a in args):
                launch_with_tensor_maps(int(loaded.handle), stream, grid, block, shared, cluster, values)
            else:
                launch(_stream(stream), _config(grid, block, shared, cluster), loaded, *values)
        return loaded

    def clusters_at_a_time(self, block: int, shared: int, cluster: int, device: torch.device) -> int | None:
        """How many clusters of such blocks run on the GPU at a time. None if that is not known: without a GPU."""
        if interceptor is not None or device.type != "cuda":
            return None
        import torch

        key = (device.index, block, shared, cluster)
        if key not in self._clusters:
            with torch.cuda.device(device):
                loaded = self._load(device.index)
                if shared > self._shared_limits[device.index]:
                    self._request_shared(loaded, device.index, shared)
                self._clusters[key] = loaded.occupancy.max_active_clusters(
                    _config(1, block, shared, cluster), stream=_stream(torch.cuda.current_stream().cuda_stream)
                )
        return self._clusters[key]

    def _request_shared(self, loaded: LoadedKernel, index: int, shared: int) -> None:
        """Raise the kernel's limit of dynamic shared memory. cuda-core has no function for it.

        It is never lowered: a launch that was recorded relies on it.
        """
        from cuda.bindings import driver

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        kernel, device = driver.CUkernel(int(loaded.handle)), driver.CUdevice(index)
        (status,) = driver.cuKernelSetAttribute(attribute, shared, kernel, device)
        if status != driver.CUresult.CUDA_SUCCESS:
            request = f"{shared} bytes of shared memory beside its {loaded.attributes.shared_size_bytes} static bytes"
            raise UserError(f"CUDA kernel {self.name} cannot have {request}: {status.name}")
        self._shared_limits[index] = shared

    def _load(self, index: int) -> LoadedKernel:
        _make_context_current(index)
        loaded = self._loaded.get(index)
        if loaded is None:
            from cuda.core import ObjectCode

            with notify_observers(self.name):
                built = self.compile(_arch(index))
                loaded = ObjectCode.from_cubin(built.code).get_kernel(built.symbol)
            _every_loaded_kernel.append(loaded)
            self._shared_limits.setdefault(index, _DEFAULT_SHARED_BYTES - loaded.attributes.shared_size_bytes)
            loaded = self._loaded.setdefault(index, loaded)
        return loaded

    def _verify_first_launch(self, index: int, args: tuple[object, ...]) -> None:
        self.verify_arguments(self.compile(_arch(index)), args)
        self._verified.add(index)

    def verify_arguments(self, built: Cubin, args: tuple[object, ...]) -> None:
        """Raise `UserError` for arguments that the kernel would misread: the driver knows no types."""
        from kernellab.build.parameters import verify_arguments

        verify_arguments(self.name, built.symbol, built.ptx, args)

    def compile(self, arch: str) -> Cubin:
        """The kernel's machine code for an architecture such as `sm_90`, cached on disk. Needs no GPU."""
        arch += "a" if self.arch_specific else ""
        stem = fingerprint(self.path, self.name, arch, *self.defines, _nvrtc_version())
        code, symbol, ptx = (cache_dir("nvrtc") / f"{stem}.{end}" for end in ("cubin", "symbol", "ptx"))
        if not (code.exists() and symbol.exists() and ptx.exists()):
            built = self._compile(arch)
            replace_file(code, built.code)
            replace_file(symbol, built.symbol.encode())
            replace_file(ptx, built.ptx.encode())
        return Cubin(code.read_bytes(), symbol.read_text(), ptx.read_text())

    def _compile(self, arch: str) -> Cubin:
        from cuda.core import Program, ProgramOptions

        settings = ProgramOptions(
            name=str(self.path),
            arch=arch,
            **NVRTC_OPTIONS,
            include_path=[str(self.path.parent), *include_folders()],
            define_macro=list(self.defines) or None,
        )
        try:
            program = Program(self.path.read_text(), "c++", settings)
            built = program.compile("cubin", name_expressions=(self.name,))
        except Exception as error:
            raise UserError(f"{self.path.name} does not compile for {arch}", _from_first_error(str(error))) from None
        symbol = built.symbol_mapping[self.name]
        name = symbol.decode() if isinstance(symbol, bytes) else symbol
        return Cubin(bytes(built.code), name, _read_ptx(program))


def _from_first_error(log: str) -> str:
    """NVRTC's log from its first error on, because many reports show only one line of it."""
    lines = log.strip().splitlines()
    first = next((i for i, line in enumerate(lines) if "error:" in line), 0)
    return "\n".join(lines[first:])


_this_thread = threading.local()
# Two threads may load a kernel at the same time. The driver unloads one that nothing refers to, and a launch that
# `kernellab.launcher` has recorded refers to it by its handle alone.
_every_loaded_kernel: list[LoadedKernel] = []


def _make_context_current(index: int) -> None:
    """Once for each thread. One that has made no CUDA call yet, such as autograd's, has no current context: a kernel
    that another thread has loaded could not be launched in it. Later torch keeps the context of its current device."""
    if getattr(_this_thread, "has_context", False):
        return
    import torch
    from cuda.core import Device

    Device(index).set_current()
    torch.cuda.current_stream()  # torch uses the primary context; this makes sure that it exists
    _this_thread.has_context = True


def _arch(index: int) -> str:
    """The architecture of a GPU, such as sm_90."""
    import torch

    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"


# Creating these takes longer than a cache lookup, and a program uses few of them.
@functools.lru_cache(maxsize=256)
def _config(grid: Dim, block: Dim, shared: int, cluster: Dim | None) -> LaunchConfig:
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=grid, block=block, shmem_size=shared, cluster=cluster)


@functools.lru_cache(maxsize=64)
def _stream(handle: int) -> Stream:
    from cuda.core import Stream

    return Stream.from_handle(handle)


def _read_ptx(program: Program) -> str:
    """The PTX that NVRTC assembled the machine code from. NVRTC keeps it, so nothing is compiled again."""
    from cuda.bindings import nvrtc

    _, size = nvrtc.nvrtcGetPTXSize(program.handle)
    text = bytearray(size)
    nvrtc.nvrtcGetPTX(program.handle, text)
    return text.rstrip(b"\0").decode()


def _nvrtc_version() -> str:
    from cuda.bindings import nvrtc

    return str(nvrtc.nvrtcVersion())


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Folders with CUDA's device headers: those of the pip packages, else of a toolkit."""
    from cuda.pathfinder import find_nvidia_header_directory

    folders = []
    for library in ("cudart", "cccl"):
        try:
            folder = find_nvidia_header_directory(library)
        except Exception:  # not installed: compiling a kernel that needs it names the missing header
            folder = None
        if folder:
            folders.append(folder)
    return tuple(folders)


# With nvcc ---------------------------------------------------------------------------------------------

_NVCC_FLAGS = ("-O3", "-lineinfo")  # line information serves profilers and sanitizers, and costs no run time


def nvcc_missing() -> str | None:
    """The reason why CUDA host code cannot be built here; None if it can."""
    if tools.nvcc() is not None:
        return None
    return "needs nvcc: install the CUDA toolkit, or write the kernel for kl.cuda.kernel, which does not need it"


def inline(
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str],
    functions: Sequence[str],
    extra_cuda_cflags: Sequence[str] = _NVCC_FLAGS,
    build_directory: str | Path | None = None,
) -> ModuleType:
    """Build host and device code, given as text, with torch's headers. The first build takes half a minute.

    Returns the module that contains `functions`. Unchanged source is not built again.
    """
    _require_nvcc()
    from torch.utils.cpp_extension import load_inline

    text = json.dumps([cpp_sources, cuda_sources, list(functions), list(extra_cuda_cflags)])
    name = "klab_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = _build_directory(build_directory, name)
    return _build_extension(
        folder,
        lambda: load_inline(
            name=name,
            cpp_sources=_list(cpp_sources),
            cuda_sources=_list(cuda_sources),
            functions=list(functions),
            extra_cuda_cflags=list(extra_cuda_cflags),
            build_directory=str(folder),
            with_cuda=True,
        ),
    )


def load(
    *files: str | Path,
    extra_cuda_cflags: Sequence[str] = _NVCC_FLAGS,
    build_directory: str | Path | None = None,
) -> ModuleType:
    """Build `.cu` and `.cpp` files with host code and a `PYBIND11_MODULE` as an extension module."""
    _require_nvcc()
    from torch.utils.cpp_extension import load as load_extension

    paths = [locate(file) for file in files]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(fingerprint(path, *extra_cuda_cflags).encode())
    name = "klab_" + digest.hexdigest()[:16]
    folder = _build_directory(build_directory, name)
    return _build_extension(
        folder,
        lambda: load_extension(
            name=name,
            sources=[str(path) for path in paths],
            extra_cuda_cflags=list(extra_cuda_cflags),
            build_directory=str(folder),
            with_cuda=True,
        ),
    )


def _require_nvcc() -> None:
    reason = nvcc_missing()
    if reason is not None:
        raise UserError(f"building CUDA host code {reason}")
    if interceptor is not None:
        raise NotCapturable(
            "its launches cannot be captured: host code built by nvcc launches its kernels itself. "
            "Its machine code is in the module it builds on a GPU; kernels of kl.cuda.kernel can be inspected here"
        )


def _list(sources: str | Sequence[str]) -> list[str]:
    return [sources] if isinstance(sources, str) else list(sources)


def _build_directory(requested: str | Path | None, name: str) -> Path:
    folder = Path(requested) if requested is not None else cache_dir("extensions", name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _build_extension(folder: Path, build: Callable[[], ModuleType]) -> ModuleType:
    """Run a build with this environment's own tools (ninja) on the PATH, for this GPU only, one at a time.

    torch guards a build with a file called `lock`, and waits for ever if a killed process left one behind. The
    operating system releases our own lock when a process dies, so while we hold it, such a file is a leftover.
    """
    with notify_observers(folder.name), (folder / ".kernellab-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "lock").unlink(missing_ok=True)
        return _build_with_tools(build)


def _build_with_tools(build: Callable[[], ModuleType]) -> ModuleType:
    import torch

    saved = {key: os.environ.get(key) for key in ("PATH", "TORCH_CUDA_ARCH_LIST")}
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    try:
        return build()
    finally:
        for key, value in saved.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def same_device(tensor: torch.Tensor) -> AbstractContextManager[object]:
    """A context in which launches go to the tensor's device. It does nothing for a CPU tensor."""
    import torch

    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
