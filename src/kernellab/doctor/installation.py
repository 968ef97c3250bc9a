"""Looks for the tools and packages that kernellab can use: which are here, what does not work without the others, and
how to get them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernellab.launcher import build as launcher_build
from kernellab.library.sources import table_sources
from kernellab.library.tuned import REMEDY
from kernellab.machine import tools
from kernellab.machine.environment import cpu, gpus, version
from kernellab.machine.nvml import gpu_architecture


@dataclass(frozen=True)
class Component:
    """Something that was looked for. Where it is missing, `found` is empty, and `cost` says what does not work."""

    name: str
    found: str
    cost: str = ""
    remedy: str = ""


def examine() -> list[Component]:
    """Runs every probe. Where a version number does not show that a component works, its probe tries it."""
    return [*(probe() for probe in _PROBES), *_tables()]


def _cpu() -> Component:
    facts = cpu()
    memory = facts["memory_bytes"] / 2**30
    return Component("CPU", f"{facts['name']}, {facts['cores']} cores, {memory:.0f} GiB")


def _gpu() -> Component:
    names = "; ".join(f"{gpu['name']}, {(gpu['memory_bytes'] or 0) / 2**30:.0f} GiB" for gpu in gpus())
    return Component(
        "GPU",
        names,
        "Triton implementations are checked in the interpreter and not timed; CUDA implementations are skipped",
    )


def _driver() -> Component:
    versions = {gpu["driver"] for gpu in gpus()}
    return Component("driver", ", ".join(sorted(versions)), "no GPU can be used", "install NVIDIA's driver")


def _torch() -> Component:
    try:
        import torch
    except Exception as error:
        return Component("torch", "", f"nothing runs ({error})", "pip install torch")
    if torch.cuda.is_available():
        return Component("torch", f"{torch.__version__}, sees the GPU")
    if gpus():
        return Component(
            "torch", "", f"torch {torch.__version__} does not see the GPU", "install a CUDA build of torch"
        )
    return Component("torch", f"{torch.__version__}, CPU")


def _compiler() -> Component:
    path = tools.cxx()
    release = _output_line([path, "--version"]) if path else ""
    cost = (
        "no C++ implementations: on the CPU, PyTorch serves all of kernellab.functional; "
        "torch.compile cannot build for the CPU"
    )
    return Component("C++ compiler", release, cost, "apt-get install g++")


def _launcher() -> Component:
    """The extension that repeats calls of kernellab.functional."""
    name, switch = "launcher", launcher_build.SWITCH
    cost = "eager calls of kernellab.functional on a GPU take 70 to 240 µs of host time, instead of about 10 (H200)"
    if launcher_build.is_switched_off():
        return Component(name, "", f"{switch} is 0: {cost}", f"unset {switch}")
    try:
        import torch

        goal = launcher_build.target()
    except Exception as error:
        return Component(name, "", f"{cost} ({error})", "pip install torch")
    if goal.library.exists():
        return Component(name, f"built for torch {torch.__version__}")
    if goal.failed.exists():
        return Component(name, "", f"its build failed: {cost}", f"read {goal.failed}, and remove it to build again")
    missing = launcher_build.why_not_possible()
    if missing:
        return Component(name, "", f"{missing}: {cost}", "apt-get install g++ python3-dev")
    return Component(name, "not built yet: the first call on a GPU builds it in the background, in half a minute")


def _headers() -> Component:
    headers = "found" if tools.python_headers() else ""
    return Component("Python headers", headers, "torch.compile and Triton cannot build", "apt-get install python3-dev")


def _triton() -> Component:
    missing = Component("Triton", "", "Triton implementations cannot run", "pip install triton")
    try:
        import triton
    except Exception:
        return missing
    bin_folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    bundled = [name for name in ("ptxas", "cuobjdump", "nvdisasm") if (bin_folder / name).exists()]
    return Component("Triton", f"{triton.__version__}" + (f" with {', '.join(bundled)}" if bundled else ""))


def _tables() -> list[Component]:
    """Which tables choose the implementations in models, on the CPU and on the GPU."""
    components = []
    for architecture in dict.fromkeys(filter(None, ("cpu", gpu_architecture()))):
        sources = table_sources(architecture)
        used = [
            source.title if source.title == "shipped" else f"{source.title} ({source.path})"
            for source in sources
            if source.is_used
        ]
        unused = [f"; not used: {source.path}: {source.problem}. {REMEDY}" for source in sources if not source.is_used]
        components.append(Component(f"table for {architecture}", "".join([", then ".join(used), *unused])))
    return components


_PROBE_KERNEL = '#include <cuda_bf16.h>\nextern "C" __global__ void probe(__nv_bfloat16* x) { *x = *x; }\n'


def _nvrtc() -> Component:
    """Compiles a kernel that needs CUDA's headers: the packages can be installed and still not work together."""
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
        return Component("NVRTC", "", f"{cost} ({str(error).strip().splitlines()[0]})", remedy)
    return Component("NVRTC", f"{version('nvidia-cuda-nvrtc') or 'found'}, builds CUDA C++")


def _nvcc() -> Component:
    path = tools.nvcc()
    release = _output_line([path, "--version"], at=-2) if path else ""
    return Component(
        "nvcc", release, "kl.cuda.inline and kl.cuda.load cannot build; kl.cuda.kernel can", "install the CUDA toolkit"
    )


def _sanitizer() -> Component:
    path = tools.compute_sanitizer()
    # The version is on the last line, below the name and the copyright.
    place = f"{path}, {_output_line([path, '--version'], at=-1)}".rstrip(", ") if path else ""
    remedy = "install the CUDA toolkit (from conda, cuda-sanitizer-api)"
    return Component("compute-sanitizer", place, "klab check --sanitize cannot run", remedy)


def _tool(name: str, title: str, cost: str, remedy: str) -> Callable[[], Component]:
    def probe() -> Component:
        return Component(title, shutil.which(name) or "", cost, remedy)

    return probe


def _output_line(command: list[str], at: int = 0) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return done.stdout.strip().splitlines()[at]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return ""


_PROBES: list[Callable[[], Component]] = [
    _cpu,
    _gpu,
    _driver,
    _torch,
    _compiler,
    _headers,
    _launcher,
    _triton,
    _nvrtc,
    _nvcc,
    _sanitizer,
    _tool("ncu", "Nsight Compute", "no hardware counters per kernel", "install Nsight Compute"),
    _tool("nsys", "Nsight Systems", "no system-wide timelines", "install Nsight Systems"),
]
