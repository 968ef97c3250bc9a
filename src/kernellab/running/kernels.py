"""Which GPU kernels one call launches, from the profiler, in a worker of its own: a profiler slows what follows."""

from __future__ import annotations

from typing import Any

import torch

from kernellab import inputs as make_inputs
from kernellab.case import Case
from kernellab.declare import Impl, Op


def kernels_of(op: Op, impl: Impl, case: Case, device: torch.device, seed: int) -> list[dict[str, Any]]:
    """Kernels, copies and fills of one warm call, in order."""
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    inputs = make_inputs.make(op, case, seed, device)
    with torch.no_grad():
        for _ in range(2):
            make_inputs.call(op, impl, inputs, case)
        torch.cuda.synchronize(device)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
            make_inputs.call(op, impl, inputs, case)
            torch.cuda.synchronize(device)
    events = profiler.events() or []
    on_gpu = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    on_gpu.sort(key=lambda e: e.time_range.start)
    return [{"name": e.name} for e in on_gpu]
