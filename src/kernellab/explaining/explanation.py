"""The explanation of one implementation at one case: its predicted time, what its operators became, its findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernellab.explaining.configurations import choose_configurations
from kernellab.explaining.rulebook import find
from kernellab.findings.finding import Finding
from kernellab.gpumodel.subject import Subject
from kernellab.gpumodel.time_model import TimeEstimate, slowest_kernel, total_time_us
from kernellab.machinecode.kernel_origin import KernelFamily, count_families


@dataclass(frozen=True)
class Prediction:
    """The time that the model predicts for an implementation's own kernels."""

    time_us: float  # of all kernels, one after the other
    kernel: str  # the slowest
    estimate: TimeEstimate  # of the slowest
    loops_counted_once: int  # their length is not in the code


@dataclass(frozen=True)
class Explanation:
    """Without a time (`subject.measured`), everything here rests on the model of a GPU."""

    subject: Subject  # with one configuration of each autotuned kernel
    findings: Sequence[Finding]  # ranked
    families: Sequence[tuple[KernelFamily, int]]  # what its operators ran as, with the number of kernels
    prediction: Prediction | None


def explain(subject: Subject) -> Explanation:
    subject = choose_configurations(subject)
    return Explanation(
        subject=subject,
        findings=find(subject),
        families=count_families(subject.profiled_kernels, [kernel.name for kernel in subject.kernels]),
        prediction=_predict(subject),
    )


def _predict(subject: Subject) -> Prediction | None:
    slowest = slowest_kernel(subject)
    if slowest is None:
        return None
    kernel, estimate = slowest
    loops_counted_once = sum(k.once_loops for k in subject.kernels)
    return Prediction(total_time_us(subject), kernel.name, estimate, loops_counted_once)
