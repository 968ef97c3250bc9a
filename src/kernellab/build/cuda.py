"""CUDA C++: kernels built by NVRTC in about a second with no toolkit, or by nvcc with host code.

Offered as `kl.cuda`. `kernel` is what the shipped ops use; `inline` and `load` are for authors who
bring their own host code and have nvcc.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir, replace_file
from kernellab.build.sources import building, fingerprint, locate
from kernellab.machine import tools

if TYPE_CHECKING:
    import torch

Dim = int | tuple[int, ...]
# Source lines, for profilers, sanitizers and readers of machine code, change nothing about the code.
NVRTC_OPTIONS = {"std": "c++17", "lineinfo": True}
_SHARED_UNASKED = 48 * 1024  # bytes that any kernel may be launched with


def kernel(file: str | Path, name: str, *, defines: Sequence[str] = ()) -> Kernel:
    """The `__global__` function `name` of a CUDA C++ file; a template is named with its arguments.

    `defines` are macros, `"N=4"` or `"FAST"`.

    >>> square = kernel("cuda.cu", "square<float>")      # doctest: +SKIP
    >>> square(blocks, 256, x, y, x.numel())             # doctest: +SKIP
    """
    return Kernel(locate(file), name, tuple(defines))


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, the PTX it was made from, and the kernel's name as the linker knows it."""

    code: bytes
    symbol: str
    ptx: str


class OutOfSight(UserError):
    """Launches that cannot be heard of while capturing."""


# Hears of each launch in place of the GPU while somebody is capturing: (kernel, grid, block, args, shared, cluster).
interceptor: Callable[..., None] | None = None


class Kernel:
    """A kernel launched as `kernel(grid, block, *args, shared=bytes, cluster=blocks)`.

    Tensors are passed as pointers, ints as 64-bit integers, floats as doubles; a numpy scalar keeps
    its own type. The launch goes to torch's current stream on the device of the first tensor.
    """

    def __init__(self, path: Path, name: str, defines: tuple[str, ...]) -> None:
        self.path, self.name, self.defines = path, name, defines
        self._loaded: dict[int, Any] = {}

    def __call__(self, grid: Dim, block: Dim, *args: Any, shared: int = 0, cluster: Dim | None = None) -> None:
        if interceptor is not None:
            interceptor(self, grid, block, args, shared, cluster)
            return
        import torch
        from cuda.core import launch

        device = next((a.device for a in args if isinstance(a, torch.Tensor)), None)
        if device is None or device.type != "cuda":
            raise UserError(f"CUDA kernel {self.name} needs its tensors on a GPU")
        with torch.cuda.device(device):
            loaded = self._load(device.index)
            if shared > _SHARED_UNASKED:
                self._allow_shared(loaded, device.index, shared)
            values = [a.data_ptr() if isinstance(a, torch.Tensor) else a for a in args]
            stream = _stream(torch.cuda.current_stream().cuda_stream)
            launch(stream, _config(grid, block, shared, cluster), loaded, *values)

    def _allow_shared(self, loaded: Any, index: int, shared: int) -> None:
        """A kernel must ask before it may be launched with more; cuda-core has no way to."""
        from cuda.bindings import driver

        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        kernel, device = driver.CUkernel(int(loaded.handle)), driver.CUdevice(index)
        (status,) = driver.cuKernelSetAttribute(attribute, shared, kernel, device)
        if status != driver.CUresult.CUDA_SUCCESS:
            asked = f"{shared} bytes of shared memory beside its {loaded.attributes.shared_size_bytes} static ones"
            raise UserError(f"CUDA kernel {self.name} asks for {asked}: {status.name}")

    def _load(self, index: int) -> Any:
        found = self._loaded.get(index)
        if found is None:
            import torch
            from cuda.core import Device, ObjectCode

            Device(index).set_current()
            torch.cuda.current_stream()  # torch's context is the primary one; make sure it exists
            major, minor = torch.cuda.get_device_capability(index)
            with building(self.name):
                built = self.compile(f"sm_{major}{minor}")
                found = ObjectCode.from_cubin(built.code).get_kernel(built.symbol)
            self._loaded[index] = found
        return found

    def compile(self, arch: str) -> Cubin:
        """The kernel's machine code for an architecture such as `sm_90`, from disk if built before. No GPU needed."""
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
        return Cubin(bytes(built.code), name, _ptx_of(program))


def _from_first_error(log: str) -> str:
    """NVRTC's log without what stands before its first error: many readers see one line of it."""
    lines = log.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if "error:" in line), 0)
    return "\n".join(lines[first:])


# Both take longer to make than to look up, and a program uses few of them.
@functools.lru_cache(maxsize=256)
def _config(grid: Dim, block: Dim, shared: int, cluster: Dim | None) -> Any:
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=grid, block=block, shmem_size=shared, cluster=cluster)


@functools.lru_cache(maxsize=64)
def _stream(handle: int) -> Any:
    from cuda.core import Stream

    return Stream.from_handle(handle)


def _ptx_of(program: Any) -> str:
    """NVRTC keeps the PTX it made the machine code from: no second compilation."""
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
    """Folders with CUDA's device headers: the pip packages', else a toolkit's."""
    from cuda.pathfinder import find_nvidia_header_directory

    folders = []
    for library in ("cudart", "cccl"):
        try:
            folder = find_nvidia_header_directory(library)
        except Exception:  # not installed: a kernel that needs it will say which header is missing
            folder = None
        if folder:
            folders.append(folder)
    return tuple(folders)


# With nvcc ---------------------------------------------------------------------------------------------

_NVCC_FLAGS = ("-O3", "-lineinfo")  # source lines, for profilers and sanitizers, cost nothing at run time


def nvcc_missing() -> str | None:
    """Why host-and-device code cannot be built here, or None when it can."""
    if tools.nvcc() is not None:
        return None
    return "needs nvcc: install the CUDA toolkit, or write the kernel for kl.cuda.kernel, which needs none"


def inline(
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str],
    functions: Sequence[str],
    extra_cuda_cflags: Sequence[str] = _NVCC_FLAGS,
    build_directory: str | Path | None = None,
) -> Any:
    """Host and device code given as text, built with torch's headers (half a minute the first time).

    Returns the module with `functions` in it. An unchanged source is not built again.
    """
    _require_nvcc()
    from torch.utils.cpp_extension import load_inline

    text = json.dumps([cpp_sources, cuda_sources, list(functions), list(extra_cuda_cflags)])
    name = "klab_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = _build_directory(build_directory, name)
    return _built(
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
) -> Any:
    """An author's own `.cu` and `.cpp` files with host code and a `PYBIND11_MODULE`, built as an extension."""
    _require_nvcc()
    from torch.utils.cpp_extension import load as load_extension

    paths = [locate(file) for file in files]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(fingerprint(path, *extra_cuda_cflags).encode())
    name = "klab_" + digest.hexdigest()[:16]
    folder = _build_directory(build_directory, name)
    return _built(
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
        raise OutOfSight(
            "host code built by nvcc launches its kernels itself, out of sight: it needs nvcc and a GPU, and its "
            "machine code is in the module it builds there (kl.cuda.kernel would show it here)"
        )


def _list(sources: str | Sequence[str]) -> list[str]:
    return [sources] if isinstance(sources, str) else list(sources)


def _build_directory(given: str | Path | None, name: str) -> Path:
    folder = Path(given) if given is not None else cache_dir("extensions", name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _built(folder: Path, build: Callable[[], Any]) -> Any:
    """Run a build with this environment's own tools (ninja) on the PATH, for this GPU only, one at a time.

    torch keeps others out of a build with a file called `lock`, and waits for ever for one that a killed
    process left. Under a lock the kernel releases, such a file can only be a leftover.
    """
    import torch

    with building(folder.name), (folder / ".kernellab-lock").open("w") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        (folder / "lock").unlink(missing_ok=True)
        return _with_tools(build, torch)


def _with_tools(build: Callable[[], Any], torch: Any) -> Any:
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


def same_device(tensor: torch.Tensor) -> Any:
    """A context in which launches go to the tensor's device; nothing for CPU tensors."""
    import contextlib

    import torch

    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()
