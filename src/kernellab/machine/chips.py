"""The limits of one multiprocessor (SM) of each NVIDIA architecture, and its rates per clock.

One row per compute capability; what differs between products (SMs, clocks, memory) is in `gpus`.

Sources of the limits: the technical specifications in NVIDIA's CUDA C++ Programming Guide
(docs.nvidia.com/cuda/cuda-c-programming-guide, "Compute Capabilities"); for allocation units, splits of the SRAM and
barriers `cuda_occupancy.h` of CUDA 13.0; for the total size of an SM's SRAM the tuning guide of each architecture.
Sources of the rates: the same guide's table of arithmetic throughput, with a multiply-add counted as two; for tensor
cores the architecture's whitepaper, each rate checked against a product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernellab.base.errors import UserError

_KB = 1024

DEFAULT_ARCH = "sm_90"  # of the GPU that implementations see where there is none


@dataclass(frozen=True)
class Chip:
    """One compute capability. Rates are dense operations per SM and clock; an uncertain rate is None."""

    arch: str
    generation: str
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm_bytes: int
    shared_per_block_bytes: int  # if a kernel opts in, otherwise `shared_static_bytes`
    l1_and_shared_bytes: int  # one SRAM, split between the two
    shared_splits: tuple[int, ...]  # bytes of it that may be shared memory
    fp32_per_clock: int
    fp64_per_clock: int | None
    tensor_per_clock: Mapping[str, int] = field(hash=False)  # by dtype; a missing dtype has no rate, or an unknown one
    shared_reserved_bytes: int = 1 * _KB  # per block, for the driver
    shared_unit_bytes: int = 128
    special_per_clock: int = 16  # results of exp2, log2, rsqrt, sin, tanh
    max_cluster: int = 1
    barriers_per_sm: int | None = None  # None: barriers are no limit
    threads_per_block: int = 1024
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256  # registers are allocated per warp in multiples of this
    warp_unit: int = 4  # an SM has four parts, each with a scheduler and a quarter of the registers
    shared_static_bytes: int = 48 * _KB
    warp_threads: int = 32

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // self.warp_threads

    @property
    def capability(self) -> tuple[int, int]:
        number = int(self.arch.removeprefix("sm_"))
        return number // 10, number % 10


def chip(arch: str) -> Chip:
    """The architecture written `sm_90`, `sm_90a`, `90` or `9.0`."""
    match = re.fullmatch(r"(?:sm_?|compute_)?(\d+)\.?(\d)[af]?", arch.strip().lower())
    row = _CHIPS.get(f"sm_{match[1]}{match[2]}") if match else None
    if row is None:
        raise UserError(f"no architecture {arch!r}: known are {', '.join(_CHIPS)}")
    return row


def chips() -> list[Chip]:
    """Every architecture in the table, oldest first."""
    return list(_CHIPS.values())


def _kilobytes(*sizes: int) -> tuple[int, ...]:
    return tuple(size * _KB for size in sizes)


_VOLTA = _kilobytes(0, 8, 16, 32, 64, 96)
_SMALL = _kilobytes(0, 8, 16, 32, 64, 100)
_AMPERE = _kilobytes(0, 8, 16, 32, 64, 100, 132, 164)
_HOPPER = _kilobytes(0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

_CHIPS = {
    c.arch: c
    for c in (
        Chip(
            arch="sm_70",
            generation="Volta",
            threads_per_sm=2048,
            blocks_per_sm=32,
            shared_per_sm_bytes=96 * _KB,
            shared_per_block_bytes=96 * _KB,
            shared_reserved_bytes=0,
            shared_unit_bytes=256,
            l1_and_shared_bytes=128 * _KB,
            shared_splits=_VOLTA,
            fp32_per_clock=128,
            fp64_per_clock=64,
            tensor_per_clock={"fp16": 1024},  # V100: 80 × 1.53 GHz, 125 TFLOPS
        ),
        Chip(
            arch="sm_75",
            generation="Turing",
            threads_per_sm=1024,
            blocks_per_sm=16,
            shared_per_sm_bytes=64 * _KB,
            shared_per_block_bytes=64 * _KB,
            shared_reserved_bytes=0,
            shared_unit_bytes=256,
            l1_and_shared_bytes=96 * _KB,
            shared_splits=_kilobytes(32, 64),
            fp32_per_clock=128,
            fp64_per_clock=4,
            tensor_per_clock={"fp16": 1024, "int8": 2048},  # T4: 40 × 1.59 GHz, 65 TFLOPS and 130 TOPS
        ),
        Chip(
            arch="sm_80",
            generation="Ampere",
            threads_per_sm=2048,
            blocks_per_sm=32,
            shared_per_sm_bytes=164 * _KB,
            shared_per_block_bytes=163 * _KB,
            l1_and_shared_bytes=192 * _KB,
            shared_splits=_AMPERE,
            fp32_per_clock=128,
            fp64_per_clock=64,
            # A100: 108 × 1.41 GHz; 312 TFLOPS, 156, 624 TOPS, 19.5 TFLOPS
            tensor_per_clock={"fp16": 2048, "bf16": 2048, "tf32": 1024, "int8": 4096, "fp64": 128},
        ),
        Chip(
            arch="sm_86",
            generation="Ampere",
            threads_per_sm=1536,
            blocks_per_sm=16,
            shared_per_sm_bytes=100 * _KB,
            shared_per_block_bytes=99 * _KB,
            l1_and_shared_bytes=128 * _KB,
            shared_splits=_SMALL,
            fp32_per_clock=256,
            fp64_per_clock=4,
            # A40: 84 × 1.74 GHz; 149.7 TFLOPS, 74.8, 299 TOPS.
            tensor_per_clock={"fp16": 1024, "bf16": 1024, "tf32": 512, "int8": 2048},
        ),
        Chip(
            arch="sm_87",
            generation="Ampere",
            threads_per_sm=1536,
            blocks_per_sm=16,
            shared_per_sm_bytes=164 * _KB,
            shared_per_block_bytes=163 * _KB,
            l1_and_shared_bytes=192 * _KB,
            shared_splits=_AMPERE,
            fp32_per_clock=256,
            fp64_per_clock=4,
            tensor_per_clock={"fp16": 2048, "bf16": 2048, "tf32": 1024, "int8": 4096},  # Orin: 16 × 1.3 GHz, 85 TOPS
        ),
        Chip(
            arch="sm_89",
            generation="Ada",
            threads_per_sm=1536,
            blocks_per_sm=24,
            shared_per_sm_bytes=100 * _KB,
            shared_per_block_bytes=99 * _KB,
            l1_and_shared_bytes=128 * _KB,
            shared_splits=_SMALL,
            fp32_per_clock=256,
            fp64_per_clock=4,
            # L40S: 142 × 2.52 GHz; 362 TFLOPS, 183, 733.
            tensor_per_clock={"fp16": 1024, "bf16": 1024, "tf32": 512, "int8": 2048, "fp8": 2048},
        ),
        Chip(
            arch="sm_90",
            generation="Hopper",
            threads_per_sm=2048,
            blocks_per_sm=32,
            shared_per_sm_bytes=228 * _KB,
            shared_per_block_bytes=227 * _KB,
            l1_and_shared_bytes=256 * _KB,
            shared_splits=_HOPPER,
            fp32_per_clock=256,
            fp64_per_clock=128,
            # H100 SXM, whose stated tensor rates are at 1.83 GHz: 132 SMs, 989 TFLOPS, 495, 1979 TOPS, 67 TFLOPS
            tensor_per_clock={"fp16": 4096, "bf16": 4096, "tf32": 2048, "int8": 8192, "fp8": 8192, "fp64": 256},
            max_cluster=16,
            barriers_per_sm=64,
        ),
        Chip(
            arch="sm_100",
            generation="Blackwell",
            threads_per_sm=2048,
            blocks_per_sm=32,
            shared_per_sm_bytes=228 * _KB,
            shared_per_block_bytes=227 * _KB,
            l1_and_shared_bytes=256 * _KB,
            shared_splits=_HOPPER,
            fp32_per_clock=256,
            fp64_per_clock=128,
            # B200: 148 × 1.86 GHz; 2250 TFLOPS, 1125, 4500
            tensor_per_clock={"fp16": 8192, "bf16": 8192, "tf32": 4096, "int8": 16384, "fp8": 16384},
            max_cluster=16,
            barriers_per_sm=64,
        ),
        Chip(
            arch="sm_103",
            generation="Blackwell",
            threads_per_sm=2048,
            blocks_per_sm=32,
            shared_per_sm_bytes=228 * _KB,
            shared_per_block_bytes=227 * _KB,
            l1_and_shared_bytes=256 * _KB,
            shared_splits=_HOPPER,
            fp32_per_clock=256,
            fp64_per_clock=None,  # fp64 and int8 are reduced; NVIDIA does not state by how much
            tensor_per_clock={"fp16": 8192, "bf16": 8192, "tf32": 4096, "fp8": 16384},  # B300: as B200, more in fp4
            special_per_clock=32,  # NVIDIA on Blackwell Ultra: 10.7 T exponentials/s, twice Blackwell's
            max_cluster=16,
            barriers_per_sm=64,
        ),
        Chip(
            arch="sm_110",  # sm_101 before CUDA 13
            generation="Blackwell",
            threads_per_sm=1536,  # ptxas of CUDA 13.1 allows no more for it
            blocks_per_sm=24,
            shared_per_sm_bytes=228 * _KB,
            shared_per_block_bytes=227 * _KB,
            l1_and_shared_bytes=256 * _KB,
            shared_splits=_HOPPER,
            fp32_per_clock=256,
            fp64_per_clock=None,
            # Jetson AGX Thor: 20 × 1.575 GHz; 517 TFLOPS in fp8, half of that in fp16
            tensor_per_clock={"fp16": 8192, "bf16": 8192, "int8": 16384, "fp8": 16384},
            max_cluster=8,  # every architecture with clusters has at least this
            barriers_per_sm=24,
        ),
        *(
            Chip(
                arch=arch,
                generation="Blackwell",
                threads_per_sm=1536,
                blocks_per_sm=24,
                shared_per_sm_bytes=100 * _KB,
                shared_per_block_bytes=99 * _KB,
                l1_and_shared_bytes=128 * _KB,
                shared_splits=_SMALL,
                fp32_per_clock=256,
                fp64_per_clock=4,
                # RTX PRO 6000: 188 × 2.62 GHz; 504 TFLOPS, 252, 1007.
                tensor_per_clock={"fp16": 1024, "bf16": 1024, "tf32": 512, "int8": 2048, "fp8": 2048},
                max_cluster=8,
                barriers_per_sm=24,
            )
            for arch in ("sm_120", "sm_121")
        ),
    )
}
