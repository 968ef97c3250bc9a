"""What was found on this machine, what each missing thing costs, and how to get it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernellab.machine import tools
from kernellab.machine.environment import cpu, gpus, version


@dataclass(frozen=True)
class Finding:
    """One thing looked for. `found` is empty when it is missing; then `cost` and `remedy` say what that means."""

    name: str
    found: str
    cost: str = ""
    remedy: str = ""


def examine() -> list[Finding]:
    """Every probe in turn; each answers from what is really there, not from a version number alone."""
    return [probe() for probe in _PROBES]


def _cpu() -> Finding:
    facts = cpu()
    memory = facts["memory_bytes"] / 2**30
    return Finding("CPU", f"{facts['name']}, {facts['cores']} cores, {memory:.0f} GiB")


def _gpu() -> Finding:
    found = "; ".join(f"{g['name']}, {(g['memory_bytes'] or 0) / 2**30:.0f} GiB" for g in gpus())
    return Finding("GPU", found, "Triton ways are checked in the interpreter and not timed; CUDA ways are skipped")


def _driver() -> Finding:
    found = {g["driver"] for g in gpus()}
    return Finding("driver", ", ".join(sorted(found)), "no GPU can be used", "install NVIDIA's driver")


def _torch() -> Finding:
    try:
        import torch
    except Exception as error:
        return Finding("torch", "", f"nothing runs ({error})", "pip install torch")
    if torch.cuda.is_available():
        return Finding("torch", f"{torch.__version__}, sees the GPU")
    if gpus():
        return Finding("torch", "", f"torch {torch.__version__} does not see the GPU", "install a CUDA build of torch")
    return Finding("torch", f"{torch.__version__}, CPU")


def _compiler() -> Finding:
    path = tools.cxx()
    found = _first_line([path, "--version"]) if path else ""
    return Finding("C++ compiler", found, "no cpp ways; torch.compile cannot build for the CPU", "apt-get install g++")


def _headers() -> Finding:
    found = "found" if tools.python_headers() else ""
    return Finding("Python headers", found, "torch.compile and Triton cannot build", "apt-get install python3-dev")


def _triton() -> Finding:
    missing = Finding("Triton", "", "Triton ways cannot run", "pip install triton")
    try:
        import triton
    except Exception:
        return missing
    bin_folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    carried = [n for n in ("ptxas", "cuobjdump", "nvdisasm") if (bin_folder / n).exists()]
    return Finding("Triton", f"{triton.__version__}" + (f" with {', '.join(carried)}" if carried else ""))


_PROBE_KERNEL = '#include <cuda_bf16.h>\nextern "C" __global__ void probe(__nv_bfloat16* x) { *x = *x; }\n'


def _nvrtc() -> Finding:
    """Compiles a kernel that needs CUDA's headers: the packages can be there and still not work together."""
    cost, remedy = (
        "CUDA C++ cannot be built",
        "pip install cuda-core nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt",
    )
    try:
        from cuda.core import Program, ProgramOptions

        from kernellab.build.cuda import include_folders

        options = ProgramOptions(arch="sm_90", include_path=list(include_folders()))
        Program(_PROBE_KERNEL, "c++", options).compile("cubin")
    except Exception as error:
        return Finding("NVRTC", "", f"{cost} ({str(error).strip().splitlines()[0]})", remedy)
    return Finding("NVRTC", f"{version('nvidia-cuda-nvrtc') or 'found'}, builds CUDA C++")


def _nvcc() -> Finding:
    path = tools.nvcc()
    found = _first_line([path, "--version"], at=-2) if path else ""
    return Finding(
        "nvcc", found, "kl.cuda.inline and kl.cuda.load cannot build; kl.cuda.kernel can", "install the CUDA toolkit"
    )


def _sanitizer() -> Finding:
    path = tools.compute_sanitizer()
    # The last line is the version: above it stand the name and the copyright.
    found = f"{path}, {_first_line([path, '--version'], at=-1)}".rstrip(", ") if path else ""
    remedy = "install the CUDA toolkit (from conda, cuda-sanitizer-api)"
    return Finding("compute-sanitizer", found, "klab check --sanitize cannot run", remedy)


def _tool(name: str, title: str, cost: str, remedy: str) -> Callable[[], Finding]:
    def probe() -> Finding:
        return Finding(title, shutil.which(name) or "", cost, remedy)

    return probe


def _first_line(command: list[str], at: int = 0) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return done.stdout.strip().splitlines()[at]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return ""


_PROBES: list[Callable[[], Finding]] = [
    _cpu,
    _gpu,
    _driver,
    _torch,
    _compiler,
    _headers,
    _triton,
    _nvrtc,
    _nvcc,
    _sanitizer,
    _tool("ncu", "Nsight Compute", "no hardware counters per kernel", "install Nsight Compute"),
    _tool("nsys", "Nsight Systems", "no system-wide timelines", "install Nsight Systems"),
]
