"""Everything a profiled call did as one dictionary, which a test can compare."""

from __future__ import annotations

from kernellab.activity.call import profile_call


def call_activity(call, device, calls=3):
    profiled = profile_call(call, device, calls)
    gpu = {"kernels": profiled.kernels, "enclosing": profiled.enclosing}
    return {**profiled.activity, **{key: value for key, value in gpu.items() if value is not None}}
