"""Which configuration of an autotuned kernel is judged: of those in question, the one the model finds fastest.

Where the way was timed its tuner has chosen, and the record has left nothing in question. Among equals it is the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import prices


def judged(subject: Subject) -> Subject:
    """The subject with one configuration of each of its kernels."""
    offered: dict[str, set[int]] = {}
    for kernel in subject.kernels:
        if kernel.tuned:
            offered.setdefault(kernel.name, set()).add(kernel.tuned[0])
    chosen = {name: min(numbers) for name, numbers in offered.items()}
    for name, numbers in offered.items():
        times = {number: _time_us(_only(subject, {**chosen, name: number})) for number in sorted(numbers)}
        chosen[name] = min(times, key=lambda number: times[number])
    return _only(subject, chosen)


def _only(subject: Subject, chosen: Mapping[str, int]) -> Subject:
    kept = [k for k in subject.kernels if not k.tuned or k.tuned[0] == chosen[k.name]]
    return replace(subject, kernels=kept)


def _time_us(subject: Subject) -> float:
    """A tuner passes over what cannot launch; where nothing has a price every configuration is as good."""
    if any(kernel.refusal for kernel in subject.kernels):
        return float("inf")
    return sum(found.time_us for k in subject.kernels if (found := prices(subject, k)) is not None)
