"""Predicts how long a kernel takes, from its machine code and the GPU: a coarse model, good to a factor of about two.

The model estimates the time of each resource by itself. A kernel overlaps its work, so the slowest resource is its
predicted time. With S SMs in use at a clock f:

- memory: the bytes that it must move over the copy bandwidth.
- flight: Little's law. An SM has (resident threads × bytes a thread requests before it waits) in flight and receives
  them once per `LOAD_LATENCY_US`. The bytes read take bytes / (S · bytes in flight / latency).
- issue: instructions of all warps over 4 per clock and SM.
- special, fp64: instructions of these classes over the rates of their units.
- local: bytes of local memory over the bandwidth of the cache that serves them. That is L1 (64 bytes per clock and SM)
  if the local memory of the resident threads fits there, L2 otherwise. A loop that loads nothing else is assumed to
  read the thread's array once.
- fp32: the operations that the op declares over the vendor's rate. If part of the code's arithmetic is in fp64, the
  same part of the operations has the rate of fp64.
- matmul: the operations that the op declares over the measured rate, or the vendor's, scaled to the units that the code
  uses: tensor cores by operand type, otherwise multiply-adds.

A loop of constant length without loads counts with its length, any other loop with one iteration per iteration of the
loop around it. The length of the loop that loads is not in the code. It follows from the bytes: if the op must read B
bytes and all threads together load b in one iteration (or in the whole kernel, if there is no loop), it has B / b
iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kernellab.declaration.documents import CostJson
from kernellab.gpumodel.device import TENSOR_NAMES, Device
from kernellab.gpumodel.fusion import L2_OVER_MEMORY
from kernellab.gpumodel.kernel import GLOBAL_LOADS, LOCAL_ACCESSES, TRIGONOMETRY_STACK_BYTES, Kernel, count
from kernellab.gpumodel.roofline import product_flops
from kernellab.gpumodel.subject import Subject

# A load from memory takes 0.3 to 0.4 µs on an idle GPU. On a busy GPU it waits in queues, and a block has to start and
# end as well. This number is assumed, not measured: it is the least certain one of this model.
LOAD_LATENCY_US = 0.8
_L1_BYTES_PER_CLOCK = 64
_ISSUED_PER_CLOCK = 4
_ARITHMETIC = ("fp32", "fp16", "fp64", "special", "integer")
# The model is good to a factor of 2: it does not explain a measured time that is longer by more than this factor.
UNEXPLAINED_FACTOR = 2.0


@dataclass(frozen=True)
class TimeEstimate:
    """The time of each resource in microseconds, for all launches of a kernel."""

    memory: float
    flight: float = 0.0
    issue: float = 0.0
    special: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    matmul: float = 0.0
    local: float = 0.0

    @property
    def time_us(self) -> float:
        return max(self._times_us.values())

    @property
    def bottleneck(self) -> str:
        """The resource that takes longest."""
        return max(self._times_us, key=lambda name: self._times_us[name])

    @property
    def bound(self) -> str:
        """`memory` or `compute`."""
        return "memory" if self.bottleneck in ("memory", "flight", "local") else "compute"

    @property
    def _times_us(self) -> dict[str, float]:
        return {f.name: float(getattr(self, f.name)) for f in fields(self)}

    def time_us_with(self, **changed_us: float) -> float:
        """The predicted time if these resources took these times instead."""
        return replace(self, **changed_us).time_us


def estimate_time(subject: Subject, kernel: Kernel) -> TimeEstimate | None:
    """The predicted time of a kernel; None on the CPU, and if the op's cost is not known."""
    device, cost = subject.device, subject.cost
    if device is None or not cost or not subject.fewest_bytes:
        return None
    share = _share_of_bytes(subject, kernel)
    moved_bytes, read_bytes = share * subject.fewest_bytes, share * cost["bytes_read"]
    iterations = loop_iterations(kernel, read_bytes)
    used_sms = min(device.sms, kernel.blocks)
    clocks_per_us = used_sms * device.clock_mhz  # of all SMs in use
    code = kernel.hot_code
    threads = float(kernel.all_threads * kernel.times)
    flops = share * cost["flops"].get("fp32", 0)
    in_fp64 = fp64_share(kernel)
    fp64_rate = device.chip.fp64_per_clock or device.chip.fp32_per_clock
    fp64_clocks = code.get("fp64", 0) * iterations * threads / (fp64_rate / 2)
    warps = kernel.warps(device.chip.warp_threads)
    return TimeEstimate(
        memory=moved_bytes / device.gbps / 1e3,
        flight=_in_flight_us(kernel, device, read_bytes),
        issue=sum(code.values()) * iterations * warps / _ISSUED_PER_CLOCK / clocks_per_us,
        special=code.get("special", 0) * iterations * threads / device.chip.special_per_clock / clocks_per_us,
        fp64=max(fp64_clocks, in_fp64 * flops / fp64_rate) / clocks_per_us,
        fp32=(1 - in_fp64) * flops / device.chip.fp32_per_clock / clocks_per_us,
        matmul=share * _matmul_us(subject, kernel, device, cost) * device.sms / used_sms,
        local=_local_us(kernel, device, iterations),
    )


def slowest_kernel(subject: Subject) -> tuple[Kernel, TimeEstimate] | None:
    """The kernel with the longest predicted time; None if nothing can be predicted."""
    estimates = [(kernel, time) for kernel in subject.kernels if (time := estimate_time(subject, kernel)) is not None]
    return max(estimates, key=lambda pair: pair[1].time_us, default=None)


def total_time_us(subject: Subject) -> float:
    """The predicted time of all its kernels, one after the other."""
    return sum(time.time_us for kernel in subject.kernels if (time := estimate_time(subject, kernel)) is not None)


def speedup_of_all(subject: Subject, estimate: TimeEstimate, speedup: float) -> float:
    """The speed-up of all kernels together if the one with this estimate becomes so many times as fast."""
    total_us = total_time_us(subject)
    return total_us / (total_us - estimate.time_us + estimate.time_us / speedup)


def fp64_share(kernel: Kernel) -> float:
    """The share of the code's floating-point instructions that are fp64."""
    fp64 = kernel.instructions.get("fp64", 0)
    return fp64 / count(kernel.instructions, ("fp64", "fp32", "fp16")) if fp64 else 0.0


def product_rate(device: Device, kernel: Kernel) -> int:
    """Operations per clock and SM of the units that this kernel multiplies with; 0 if they are not known."""
    if not kernel.on_tensor_cores:
        return device.chip.fp32_per_clock
    return min((device.chip.tensor_per_clock.get(kind, 0) for kind in kernel.products), default=0)


def is_compute_bound(subject: Subject, kernel: Kernel, estimate: TimeEstimate) -> bool:
    """Whether arithmetic bounds it: by the model, or because only loops of unknown length explain the measured time."""
    if estimate.bound == "compute":
        return True
    in_loops = count(kernel.unknown_turns, _ARITHMETIC) > 0
    return in_loops and subject.time_us is not None and subject.time_us > UNEXPLAINED_FACTOR * estimate.time_us


def loop_iterations(kernel: Kernel, read_bytes: float) -> float:
    """How often each thread executes the loop that loads, or the whole code, computed from the bytes to be read.

    Below 1 if the code has several paths of which a thread takes one.
    """
    per_thread = count(kernel.hot_code, GLOBAL_LOADS) * kernel.load_bytes
    per_iteration = per_thread * kernel.all_threads * kernel.times
    return read_bytes / per_iteration if per_iteration else 1.0


def bytes_in_flight(kernel: Kernel, device: Device) -> float:
    """Bytes that the threads on one SM have in flight; 0 if that is not known."""
    resident_blocks = min(kernel.blocks_per_sm or 0, max(1.0, kernel.blocks / device.sms))
    return resident_blocks * kernel.threads * kernel.flight_bytes


def needed_bytes_in_flight(device: Device) -> float:
    """Bytes that an SM must have in flight to get its share of the bandwidth, half of which is for reads."""
    return device.gbps * 1e3 * LOAD_LATENCY_US / device.sms / 2


def speedup_without_local_memory(kernel: Kernel, estimate: TimeEstimate) -> float:
    """The speed-up without local memory. Its bytes share L1 and L2 with the kernel's own, so the times add up."""
    code = kernel.hot_code
    local_share = count(code, LOCAL_ACCESSES) / max(1, sum(code.values()))
    without_us = estimate.time_us_with(local=0.0, issue=estimate.issue * (1 - local_share))
    return (max(estimate.time_us_with(local=0.0), without_us) + estimate.local) / without_us


def _in_flight_us(kernel: Kernel, device: Device, read_bytes: float) -> float:
    in_flight = bytes_in_flight(kernel, device)
    if not in_flight:
        return 0.0
    return read_bytes / (min(device.sms, kernel.blocks) * in_flight) * LOAD_LATENCY_US


def _local_us(kernel: Kernel, device: Device, iterations: float) -> float:
    accesses = count(kernel.instructions, LOCAL_ACCESSES)
    if not accesses or (kernel.spill_bytes == 0 and kernel.stack_bytes <= TRIGONOMETRY_STACK_BYTES):
        return 0.0
    hot_share = count(kernel.hot_code, LOCAL_ACCESSES) / accesses
    per_thread = (kernel.local_bytes or kernel.spill_bytes or 0) * hot_share * max(iterations, 1.0)
    per_thread += kernel.stack_bytes * sum(bool(kernel.unknown_turns.get(name)) for name in LOCAL_ACCESSES)
    moved = per_thread * kernel.all_threads * kernel.times
    resident_bytes = (kernel.blocks_per_sm or 1) * kernel.threads * kernel.stack_bytes
    l1_bytes_per_us = min(device.sms, kernel.blocks) * device.clock_mhz * _L1_BYTES_PER_CLOCK
    l2_bytes_per_us = L2_OVER_MEMORY * device.gbps * 1e3
    return moved / (l1_bytes_per_us if resident_bytes <= kernel.l1_bytes else l2_bytes_per_us)


def _share_of_bytes(subject: Subject, kernel: Kernel) -> float:
    """The share of the op's bytes that this kernel moves: by the sizes of its tensors, or else an equal part."""
    if len(subject.kernels) < 2:
        return 1.0
    sizes = [k.pointer_bytes for k in subject.kernels]
    if kernel.pointer_bytes and all(sizes):
        total = sum(size * k.times for size, k in zip(sizes, subject.kernels, strict=True) if size)
        return kernel.pointer_bytes * kernel.times / total
    return 1 / len(subject.kernels)


def _matmul_us(subject: Subject, kernel: Kernel, device: Device, cost: CostJson) -> float:
    """The time of the matmul with all SMs in use; 0 if another kernel does it."""
    limit = subject.limit
    if limit is None or not limit.ridge or not subject.computes_product(kernel):
        return 0.0
    fastest_us = product_flops(cost, subject.dtype)[0] / (limit.ridge * device.gbps) / 1e3
    best_rate = device.chip.tensor_per_clock.get(TENSOR_NAMES.get(subject.dtype, ""), device.chip.fp32_per_clock)
    return fastest_us * max(1.0, best_rate / (product_rate(device, kernel) or best_rate))
