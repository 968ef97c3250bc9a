"""Requests to processes that profile an op."""

from kernellab.declaration.targets import resolve


def profile_request(target, **more):
    """What a profiled process is asked to do with an op's `manual`, on the CPU."""
    return {
        "target": vars(resolve(target)),
        "request": {"shapes": [[4, 8]], "dtypes": ["float32"], "dims": {}, "options": {}, "quick": False},
        "impls": ["manual"],
        "pass": "forward",
        "device": "cpu",
        "schedule": {"wait": 0, "warmup": 0, "active": 1, "repeat": 1},
        "how": {"stacks": False},
        "tool": "ncu",
        **more,
    }
