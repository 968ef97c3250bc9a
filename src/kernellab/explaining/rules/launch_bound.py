"""Launch-bound: starting kernels takes longer than what they do.

On the GPU, many tiny kernels: each takes the floor f, what a kernel that does nothing takes, or little more. They are
tiny where all their bytes take less time than starting them, n·f.

    gain = time / max(fewest bytes / bandwidth, f)

On the host, where a call takes longer to launch (h) than to run (t): a CUDA graph, or several calls' work in one
kernel, makes it t.

    gain = h / t

The second shows only where the GPU waits for the host, so it needs the launch timer (`klab bench --panel`); a profiled
call, which is slower, only makes it possible.
"""

from __future__ import annotations

from kernellab.findings.finding import Evidence, Finding
from kernellab.gpumodel.regime import is_launch_bound
from kernellab.gpumodel.subject import Subject

_WORTH = 1.3
_TINY = 5.0  # floors that a tiny kernel takes at most


def look(subject: Subject) -> Finding | None:
    return _many(subject) or _host(subject)


def _many(subject: Subject) -> Finding | None:
    count = len(subject.launched) or sum(k.times for k in subject.kernels) + len(subject.traffic or ())
    if count < 2 or not subject.fewest_bytes or not subject.gbps or subject.device is None:
        return None
    floor = subject.row_floor_us
    least = max(subject.fewest_bytes / subject.gbps / 1e3, floor)
    starting = count * floor
    time = subject.time_us or max(starting, least)
    if _moved(subject) / subject.gbps / 1e3 > starting or time / least < _WORTH:
        return None
    # Few bytes are no proof: a kernel may compute for long. Tiny ones take hardly more than the floor, or the GPU
    # stands idle between them.
    waits = subject.gpu_us is not None and subject.gpu_us < 0.5 * time
    if time / count > _TINY * floor and not waits:
        return None
    return Finding(
        rule="launch-bound",
        title=f"{count} kernels of hardly any work: starting them takes longer than moving their bytes",
        gain=time / least,
        do="do it in one kernel, with a grid over what is now the loop; or replay the launches as a CUDA graph",
        sure="measured" if subject.measured and subject.launched else "likely",
        evidence=[
            Evidence("kernels per call", count, "", "profiler" if subject.launched else "launch"),
            Evidence("a kernel that does nothing, in a row", floor, "µs", "model"),
            Evidence("fewest bytes at the copy bandwidth", least, "µs", "model"),
        ],
    )


def _moved(subject: Subject) -> float:
    """Bytes of the operators and of the tensors its own kernels are given; where those are not known, the fewest."""
    operators = [
        one["read_bytes"] + one["write_bytes"] for one in subject.traffic or () if one["read_bytes"] is not None
    ]
    own = [k.pointer_bytes * k.times for k in subject.kernels if k.pointer_bytes is not None]
    return float(sum(operators) + sum(own)) or float(subject.fewest_bytes)


def _host(subject: Subject) -> Finding | None:
    host = subject.launch_us or subject.host_us
    gpu = subject.gpu_us or subject.time_us
    if subject.device is None or not subject.measured or not host or not gpu or not is_launch_bound(host, gpu):
        return None
    exact = subject.launch_us is not None
    return Finding(
        rule="launch-bound",
        title=f"the host takes {host:.3g} µs to launch what the GPU does in {gpu:.3g} µs",
        gain=host / gpu if exact else None,
        do="replay it as a CUDA graph, do more per call, or launch through something thinner than Triton's launcher",
        sure="measured" if exact else "possible",
        evidence=[
            Evidence("host, per call", host, "µs", "timing" if exact else "profiler, which slows it"),
            Evidence("GPU, per call", gpu, "µs", "profiler" if subject.gpu_us else "timing"),
        ],
    )
