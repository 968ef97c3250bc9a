"""What each thing a kernel does would take by itself, from its machine code and the GPU: a model, and a coarse one.

A kernel overlaps its work, so the dearest item is its predicted time. With S SMs in use at a clock f:

- memory: the bytes it must move over the copy bandwidth.
- flight: Little's law. An SM can have (resident threads × bytes a thread asks for before it waits) under way, and gets
  them once per `LOAD_US`, the time from a load to its data on a busy GPU, so that the bytes read take
  bytes / (S · in flight / LOAD_US).
- issue: instructions of all warps over 4 per clock and SM. special and fp64: theirs over the units' rates.
- local: bytes of local memory over what serves them: L1 (64 bytes a clock and SM) where what the resident threads
  keep there fits, L2 otherwise. A loop that loads nothing else is taken to go over the thread's array once.
- fp32: the operations the op declares over the vendor's rate; where part of the code's arithmetic is in fp64, that
  part of them over the rate of fp64.
- matmul: the operations the op declares over the measured rate, or the vendor's, scaled by the rate of the units the
  code has them done by: tensor cores by the type they multiply, multiply-adds where there are none.

A loop with a constant number of turns and no loads counts so often, any other once in a turn of what is around it. How
often that runs is not in the code. It is taken from the bytes: if the op must read B bytes and all threads
together load b in one turn of the loop (or of the whole kernel, where there is none), it turns B / b times.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kernellab.gpumodel.fusion import L2_OVER_MEMORY
from kernellab.gpumodel.subject import TRIGONOMETRY_BYTES, Device, Kernel, Subject

# A load to memory takes 0.3 to 0.4 µs on an idle GPU; on a busy one it waits in queues, and a block has to be started
# and to end besides. Not measured here: the weakest number of this model.
LOAD_US = 0.8
_L1_BYTES_PER_CLOCK = 64
_ISSUED_PER_CLOCK = 4
_ARITHMETIC = ("fp32", "fp16", "fp64", "special", "integer")
# From so many times the predicted time on the model does not explain a measured one: it is good to a factor of two.
UNEXPLAINED = 2.0
_LOCAL = ("local_load", "local_store")
# What tensor cores take operands of these dtypes as; float32 is rounded only by those who ask for it.
TENSOR_NAMES = {"bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class Prices:
    """Microseconds, for all launches of a kernel."""

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
        return max(float(getattr(self, f.name)) for f in fields(self))

    @property
    def dearest(self) -> str:
        return max((f.name for f in fields(self)), key=lambda name: float(getattr(self, name)))

    @property
    def bound(self) -> str:
        """What blocks of the kernel share: `memory` or `compute`."""
        return "memory" if self.dearest in ("memory", "flight", "local") else "compute"

    def without(self, **cheaper: float) -> float:
        """The time if these items cost so much instead."""
        return replace(self, **cheaper).time_us


def prices(subject: Subject, kernel: Kernel) -> Prices | None:
    """None on the CPU, and where the op's cost is not known."""
    device, cost = subject.device, subject.cost
    if device is None or not cost or not subject.fewest_bytes:
        return None
    share = _share(subject, kernel)
    moved, read = share * subject.fewest_bytes, share * cost["bytes_read"]
    once = turns(kernel, read)
    used = min(device.sms, kernel.blocks)
    per_us = used * device.clock_mhz  # SM-clocks in a microsecond
    code = kernel.code
    warps = kernel.blocks * -(-kernel.threads // device.chip.warp_threads) * kernel.times
    threads = float(kernel.all_threads * kernel.times)
    flops = share * cost["flops"].get("fp32", 0)
    in_double = double_share(kernel)
    fp64_rate = device.chip.fp64_per_clock or device.chip.fp32_per_clock
    counted = code.get("fp64", 0) * once * threads / (fp64_rate / 2)
    return Prices(
        memory=moved / device.gbps / 1e3,
        flight=_flight(kernel, device, read),
        issue=sum(code.values()) * once * warps / _ISSUED_PER_CLOCK / per_us,
        special=code.get("special", 0) * once * threads / device.chip.special_per_clock / per_us,
        fp64=max(counted, in_double * flops / fp64_rate) / per_us,
        fp32=(1 - in_double) * flops / device.chip.fp32_per_clock / per_us,
        matmul=share * _matmul_us(subject, kernel) * device.sms / used,
        local=_local(kernel, device, once),
    )


def main_kernel(subject: Subject) -> tuple[Kernel, Prices] | None:
    """The kernel of the way that is predicted to take longest."""
    priced = [(kernel, found) for kernel in subject.kernels if (found := prices(subject, kernel)) is not None]
    return max(priced, key=lambda pair: pair[1].time_us, default=None)


def double_share(kernel: Kernel) -> float:
    """The part of the code's arithmetic that is in fp64."""
    fp64, *others = (kernel.instructions.get(name, 0) for name in ("fp64", "fp32", "fp16"))
    return fp64 / (fp64 + sum(others)) if fp64 else 0.0


def product_rate(device: Device, kernel: Kernel) -> int:
    """Operations per clock and SM of what multiplies in this kernel; 0 where that is not known."""
    if not kernel.on_tensor_cores:
        return device.chip.fp32_per_clock
    return min((device.chip.tensor_per_clock.get(kind, 0) for kind in kernel.products), default=0)


def computes(subject: Subject, kernel: Kernel, priced: Prices) -> bool:
    """Whether arithmetic bounds it: by the model, or going by a time that only loops of unknown turns explain."""
    if priced.bound == "compute":
        return True
    looping = any(kernel.unknown_turns.get(name) for name in _ARITHMETIC)
    return looping and subject.time_us is not None and subject.time_us > UNEXPLAINED * priced.time_us


def turns(kernel: Kernel, read_bytes: float) -> float:
    """How often the loop, or the whole code, is gone through by each thread, going by the bytes to be read.

    Below 1 where the code has several paths of which a thread takes one.
    """
    code = kernel.code
    loads = code.get("global_load", 0) + code.get("async_copy", 0)
    once = loads * kernel.load_bytes * kernel.all_threads * kernel.times
    return read_bytes / once if once else 1.0


def flight_bytes(kernel: Kernel, device: Device) -> float:
    """Bytes the threads on one SM have under way at once; 0 where that is not known."""
    held = min(kernel.blocks_per_sm or 0, max(1.0, kernel.blocks / device.sms))
    return held * kernel.threads * kernel.flight_bytes


def needed_bytes(device: Device) -> float:
    """Bytes an SM must have under way to get its share of the bandwidth, half of which is reading."""
    return device.gbps * 1e3 * LOAD_US / device.sms / 2


def _flight(kernel: Kernel, device: Device, read_bytes: float) -> float:
    under_way = flight_bytes(kernel, device)
    if not under_way:
        return 0.0
    return read_bytes / (min(device.sms, kernel.blocks) * under_way) * LOAD_US


def _local(kernel: Kernel, device: Device, once: float) -> float:
    """The code of the loop, or all of it, moves so much of local memory a turn."""
    whole = sum(kernel.instructions.get(c, 0) for c in _LOCAL)
    if not whole or (kernel.spill_bytes == 0 and kernel.stack_bytes <= TRIGONOMETRY_BYTES):
        return 0.0
    code = kernel.code
    inside = sum(code.get(c, 0) for c in _LOCAL)
    per_thread = (kernel.local_bytes or kernel.spill_bytes or 0) * inside / whole * max(once, 1.0)
    per_thread += kernel.stack_bytes * sum(bool(kernel.unknown_turns.get(c)) for c in _LOCAL)
    moved = per_thread * kernel.all_threads * kernel.times
    kept = (kernel.blocks_per_sm or 1) * kernel.threads * kernel.stack_bytes
    l1 = min(device.sms, kernel.blocks) * device.clock_mhz * _L1_BYTES_PER_CLOCK
    return moved / (l1 if kept <= kernel.l1_bytes else L2_OVER_MEMORY * device.gbps * 1e3)


def without_local(kernel: Kernel, priced: Prices) -> float:
    """How many times as fast it would be without its local memory, whose bytes take the same way as its own."""
    code = kernel.code
    moves = sum(code.get(c, 0) for c in _LOCAL)
    without = priced.without(local=0.0, issue=priced.issue * (1 - moves / max(1, sum(code.values()))))
    return (max(priced.without(local=0.0), without) + priced.local) / without


def _share(subject: Subject, kernel: Kernel) -> float:
    """The part of the op's bytes that is this kernel's: by the tensors they are given, or the same for each."""
    given = [k.pointer_bytes for k in subject.kernels]
    if len(subject.kernels) < 2:
        return 1.0
    if kernel.pointer_bytes and all(given):
        total = sum(b * k.times for b, k in zip(given, subject.kernels, strict=True) if b)
        return kernel.pointer_bytes * kernel.times / total
    return 1 / len(subject.kernels)


def _matmul_us(subject: Subject, kernel: Kernel) -> float:
    """With all SMs in use; nothing where the code has no products: they are somebody else's kernel."""
    limit, device, cost = subject.limit, subject.device, subject.cost
    if limit is None or device is None or not cost or not limit.ridge or not subject.multiplies(kernel):
        return 0.0
    at_best = float(cost["flops"].get("matmul", 0)) / (limit.ridge * device.gbps) / 1e3
    best = device.chip.tensor_per_clock.get(TENSOR_NAMES.get(subject.dtype, ""), device.chip.fp32_per_clock)
    return at_best * max(1.0, best / (product_rate(device, kernel) or best))
