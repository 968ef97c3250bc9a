"""What governs a time: the thresholds that verdicts and rules share."""

from __future__ import annotations

_LAUNCH_BOUND = 2.0  # launching a call takes the host at least this many times as long as the GPU needs to run it
_CACHE_RESIDENT = 0.8  # warm calls take less than this share of the time of cold calls
NEAR_LIMIT = 0.5  # from this share of the roof on, the limit governs the time
AT_LIMIT = 0.9  # from this share of the roof on, the rest is not worth the work: good kernels differ by as much


def is_launch_bound(host_us: float, gpu_us: float) -> bool:
    return host_us >= _LAUNCH_BOUND * gpu_us


def is_cache_resident(warm_us: float, cold_us: float) -> bool:
    return warm_us < _CACHE_RESIDENT * cold_us
