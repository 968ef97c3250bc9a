"""The classes of autotuners: libraries derive their own from Triton's, with a `run` of their own."""

from __future__ import annotations


def tuner_classes(autotuner: type) -> list[type]:
    """Triton's class, and those derived from it that replace `run`."""
    classes: list[type] = [autotuner]
    waiting: list[type] = autotuner.__subclasses__()
    while waiting:
        derived = waiting.pop()
        waiting += derived.__subclasses__()
        if "run" in vars(derived):
            classes.append(derived)
    return classes
