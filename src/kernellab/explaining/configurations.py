"""Which configuration of an autotuned kernel is explained: the fastest by the time model.

For an implementation that was timed, its tuner has chosen, and only that configuration is left. Among equal predictions
it is the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import total_time_us


def choose_configurations(subject: Subject) -> Subject:
    """The subject with one configuration of each of its kernels."""
    offered: dict[str, set[int]] = {}
    for kernel in subject.kernels:
        if kernel.tuned:
            offered.setdefault(kernel.name, set()).add(kernel.tuned[0])
    chosen = {name: min(indices) for name, indices in offered.items()}
    for name, indices in offered.items():
        times_us = {index: _time_us(_with_only(subject, {**chosen, name: index})) for index in sorted(indices)}
        chosen[name] = min(times_us, key=lambda index: times_us[index])
    return _with_only(subject, chosen)


def _with_only(subject: Subject, chosen: Mapping[str, int]) -> Subject:
    kernels = [k for k in subject.kernels if not k.tuned or k.tuned[0] == chosen[k.name]]
    return replace(subject, kernels=kernels)


def _time_us(subject: Subject) -> float:
    """Infinite for a configuration that cannot launch: a tuner skips it. 0 for all where nothing can be predicted."""
    return float("inf") if any(kernel.refusal for kernel in subject.kernels) else total_time_us(subject)
