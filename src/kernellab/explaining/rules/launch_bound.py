"""Launching kernels takes longer than their work.

On the GPU, many tiny kernels: each takes the launch floor f, the time of an empty kernel, or little more. They are tiny
where moving all their bytes takes less time than launching them, n·f.

    gain = time / max(fewest bytes / bandwidth, f)

On the host, a call takes longer to launch (h) than to run (t). A CUDA graph, or the work of several calls in one
kernel, makes it t.

    gain = h / t

The second shows only where the GPU waits for the host, so it needs the launch timer (`klab bench --panel`). A profiled
call is slower than others: it makes the finding possible, without a gain.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.regime import is_launch_bound
from kernellab.gpumodel.subject import Subject

NEEDS = "kernels per call and the time of an empty kernel; host time against GPU time"
GAIN = "time over one launch, or over the GPU's part"

_THRESHOLD = 1.3
_TINY = 5.0  # launch floors that a tiny kernel takes at most


def examine(subject: Subject) -> Finding | None:
    return _tiny_kernels(subject) or _slow_host(subject)


def _tiny_kernels(subject: Subject) -> Finding | None:
    launches = len(subject.profiled_kernels) or sum(k.times for k in subject.kernels) + len(subject.operators or ())
    if launches < 2 or not subject.fewest_bytes or not subject.gbps or subject.device is None:
        return None
    floor_us = subject.launch_floor_us
    fused_us = max(subject.fewest_bytes / subject.gbps / 1e3, floor_us)
    launching_us = launches * floor_us
    time_us = subject.time_us or max(launching_us, fused_us)
    if _moved_bytes(subject) / subject.gbps / 1e3 > launching_us or time_us / fused_us < _THRESHOLD:
        return None
    # A kernel of few bytes may compute for long. Tiny ones take little more than the floor, or the GPU idles between
    # them.
    gpu_idles = subject.profiled_gpu_us is not None and subject.profiled_gpu_us < 0.5 * time_us
    if time_us / launches > _TINY * floor_us and not gpu_idles:
        return None
    return Finding(
        title=f"{launches} tiny kernels: launching them takes longer than moving their bytes",
        gain=time_us / fused_us,
        do="use one kernel, with a grid over what is now the loop; or replay the launches as a CUDA graph",
        confidence="measured" if subject.measured and subject.profiled_kernels else "likely",
        evidence=[
            Evidence("kernels per call", launches, "", "profiler" if subject.profiled_kernels else "launch"),
            Evidence("empty kernel in a sequence", floor_us, "µs", "model"),
            Evidence("fewest bytes at the copy bandwidth", fused_us, "µs", "model"),
        ],
    )


def _moved_bytes(subject: Subject) -> float:
    """Bytes of its operators and of the tensors its own kernels get; the fewest bytes where those are not known."""
    sizes = [operator.moved_bytes for operator in subject.operators or ()]
    sizes += [k.pointer_bytes * k.times for k in subject.kernels if k.pointer_bytes is not None]
    return float(sum(size for size in sizes if size is not None)) or float(subject.fewest_bytes)


def _slow_host(subject: Subject) -> Finding | None:
    host_us = subject.launch_us or subject.profiled_host_us
    gpu_us = subject.profiled_gpu_us or subject.time_us
    if subject.device is None or not subject.measured or not host_us or not gpu_us:
        return None
    if not is_launch_bound(host_us, gpu_us):
        return None
    timed = subject.launch_us is not None
    return Finding(
        title=f"the host takes {host_us:.3g} µs to launch what the GPU does in {gpu_us:.3g} µs",
        gain=host_us / gpu_us if timed else None,
        do="replay it as a CUDA graph, do more per call, or use a launcher with less overhead than Triton's",
        confidence="measured" if timed else "possible",
        evidence=[
            Evidence("host, per call", host_us, "µs", "timing" if timed else "profiler, which slows it"),
            Evidence("GPU, per call", gpu_us, "µs", "profiler" if subject.profiled_gpu_us else "timing"),
        ],
    )
