"""The subject of an explanation: one implementation at one case with all that is known of it. Plain data.

Fields that were not measured or compiled are None or empty. An implementation that was compiled but not timed is a
subject without a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.declaration.documents import CaseJson, CostJson
from kernellab.gpumodel.device import Device
from kernellab.gpumodel.fusion import DispatchedOperator, Fusion, fusion
from kernellab.gpumodel.kernel import MULTIPLY_ADDS, Kernel, count
from kernellab.gpumodel.roofline import Roofline, product_flops

# An empty kernel between others, on an H200 (docs/results/timing-h200.md).
_EMPTY_KERNEL_IN_SEQUENCE_US = 1.6


@dataclass(frozen=True)
class Subject:
    op: str
    impl: str
    kind: str
    case: CaseJson
    cost: CostJson | None
    device: Device | None  # None: the CPU
    gbps: float | None  # copy bandwidth of the device
    limit: Roofline | None
    time_us: float | None = None
    cache: str | None = None  # cold or warm, while timed
    warm_us: float | None = None  # if it was timed cold and warm
    empty_kernel_us: float | None = None  # a kernel that does nothing, alone in a timed window
    launch_us: float | None = None  # host overhead per call, by the launch timer
    profiled_host_us: float | None = None  # the same in a profiled call, which is slower
    profiled_gpu_us: float | None = None  # all kernels of a profiled call
    kernels: Sequence[Kernel] = ()  # its own: Triton, CUDA C++, inductor's
    profiled_kernels: Sequence[str] = ()  # all kernels of a profiled call, in order
    operators: Sequence[DispatchedOperator] | None = None  # as torch dispatched them
    other_times_us: Mapping[str, float] = field(default_factory=dict)  # the other correct implementations at this case
    fused_impls: Sequence[str] = ()  # those of them that are not a chain of operators

    @property
    def dtype(self) -> str:
        return self.case["dtype"]

    @property
    def measured(self) -> bool:
        return self.time_us is not None

    @property
    def fewest_bytes(self) -> int:
        return self.limit.bytes if self.limit else 0

    @property
    def matmul_flops(self) -> float:
        return product_flops(self.cost, self.dtype)[0] if self.cost else 0

    @property
    def launch_floor_us(self) -> float:
        """The time of a kernel that does nothing in a sequence of kernels: less than alone in a timed window."""
        if self.device is None:
            return 0.0
        return min(self.empty_kernel_us or _EMPTY_KERNEL_IN_SEQUENCE_US, _EMPTY_KERNEL_IN_SEQUENCE_US)

    @property
    def headroom(self) -> float | None:
        """The factor between its time and the roofline's limit; None without a time or a limit."""
        return 1 / self.limit.fraction if self.limit and self.limit.fraction else None

    @property
    def chain(self) -> Fusion | None:
        """Its operators as a chain that could be fused; None if there are none or their bytes are not known."""
        if not self.gbps:
            return None
        l2_bytes = self.device.l2_bytes if self.device else None
        return fusion(self.operators, self.fewest_bytes, self.gbps, floor_us=self.launch_floor_us, l2_bytes=l2_bytes)

    def computes_product(self, kernel: Kernel) -> bool:
        """Whether this kernel does the op's matmul, rather than an operator or another kernel."""
        if any(operator.is_product for operator in self.operators or ()):
            return False
        if any(k.on_tensor_cores for k in self.kernels):
            return kernel.on_tensor_cores
        return count(kernel.instructions, MULTIPLY_ADDS) > 0
