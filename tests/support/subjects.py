"""Subjects of explanations without compiled code: the numbers of a good kernel, which a test makes worse."""

import dataclasses

from kernellab.explaining.rulebook import find
from kernellab.gpumodel.device import Device
from kernellab.gpumodel.fusion import DispatchedOperator
from kernellab.gpumodel.kernel import Kernel
from kernellab.gpumodel.roofline import roofline
from kernellab.gpumodel.subject import Subject
from kernellab.machine.chips import chip

GB = 10**9
H200 = Device("H200", chip("sm_90"), 132, 50 << 20, 1980.0, 4000.0)
CEILINGS = {"copy_gbps": 4000.0, "matmul_tflops": {"bfloat16": 800.0, "float32": 50.0}}
COST = {"bytes_read": GB, "bytes_written": GB, "flops": {}}
SMALL_COST = {"bytes_read": 8_000_000, "bytes_written": 8_000_000, "flops": {}}
MATMUL_COST = {"bytes_read": 2**26, "bytes_written": 2**25, "flops": {"matmul": 2 * 4096**3}}
LIMIT_US = 500.0  # of COST
CASE = {"dims": {"...": [1]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cuda"}
CHAIN = [DispatchedOperator("aten::mul", tensors * GB, GB) for tensors in (1, 2, 1, 1)]

# One 16-byte load and store per thread, every SM full: 62.5 M threads read 1 GB.
GOOD_KERNEL = Kernel(
    name="good",
    times=1,
    blocks=488_282,
    threads=128,
    registers=20,
    shared_bytes=0,
    spill_bytes=0,
    flight_bytes=16,
    sectors=1.0,
    instructions={"global_load": 1, "global_store": 1, "fp32": 16, "integer": 8, "control": 2},
    load_bytes=16.0,
    widest_bytes=16,
    blocks_per_sm=16,
    occupancy=1.0,
    limiter="threads",
    remedy="none needed",
    l1_bytes=200_000,
    pointer_bytes=2 * GB,
)

_WGMMA_LOOP = {"global_load": 0, "async_copy": 12, "tensor_wgmma": 4}


def kernel(**changes):
    """The good kernel with these changes."""
    return dataclasses.replace(GOOD_KERNEL, **changes)


# A tile of 128 × 256 × 64 by 256 threads: 12 copies of 16 bytes and 4 products of 64 × 256 × 16 per warp group in each
# iteration.
MATMUL_KERNEL = kernel(
    instructions=_WGMMA_LOOP,
    loop=_WGMMA_LOOP,
    load_bytes=16.0,
    threads=256,
    blocks=512,
    blocks_per_sm=1,
    products=["bf16"],
    product_flops=2 * 64 * 256 * 16 // 128,
)


def subject(*kernels, time_us=None, cost=COST, dtype="float32", device=H200, **fields):
    return Subject(
        op="f",
        impl="mine",
        kind="triton",
        case={**CASE, "dtype": dtype},
        cost=cost,
        device=device,
        gbps=4000.0,
        limit=roofline(cost, dtype, time_us, CEILINGS),
        time_us=time_us,
        cache=fields.pop("cache", "cold" if time_us else None),
        kernels=kernels,
        **fields,
    )


def matmul(*kernels, **fields):
    return subject(*kernels, cost=MATMUL_COST, **{"dtype": "bfloat16", **fields})


def first_finding(of_subject):
    findings = find(of_subject)
    assert findings, "no rule found anything"
    return findings[0]


def found_rules(of_subject):
    """The names of the rules that find something, in their order."""
    return [finding.name for finding in find(of_subject)]
