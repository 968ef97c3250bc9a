"""Kernels that were never compiled: a good one by its numbers, which a test spoils in the way a rule looks for."""

import dataclasses

from kernellab.explaining.rulebook import findings
from kernellab.gpumodel.roofline import roofline
from kernellab.gpumodel.subject import Device, Kernel, Subject
from kernellab.machine.chips import chip

GB = 10**9
H200 = Device("H200", chip("sm_90"), 132, 50 << 20, 1980.0, 4000.0)
CEILINGS = {"copy_gbps": 4000.0, "matmul_tflops": {"bfloat16": 800.0, "float32": 50.0}}
COST = {"bytes_read": GB, "bytes_written": GB, "flops": {}}
ROOF_US = 500.0
CASE = {"dims": {"...": [1]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cuda"}
CHAIN = [
    {"op": "aten::mul", "read_bytes": r * GB, "write_bytes": GB, "kernels": [n]} for n, r in enumerate((1, 2, 1, 1))
]
TINY = {"bytes_read": 8_000_000, "bytes_written": 8_000_000, "flops": {}}
PRODUCT = {"bytes_read": 2**26, "bytes_written": 2**25, "flops": {"matmul": 2 * 4096**3}}

# One 16-byte load and store per thread, every SM full: 1 GB are read by 62.5 M threads.
GOOD = Kernel(
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
    remedy="nothing to lift",
    l1_bytes=200_000,
    pointer_bytes=2 * GB,
)


def way(*kernels, time_us=None, cost=COST, dtype="float32", device=H200, **more):
    return Subject(
        op="f",
        impl="way",
        kind="triton",
        case={**CASE, "dtype": dtype},
        cost=cost,
        device=device,
        gbps=4000.0,
        limit=roofline(cost, dtype, time_us, CEILINGS),
        time_us=time_us,
        cache=more.pop("cache", "cold" if time_us else None),
        kernels=kernels,
        **more,
    )


def but(**changed):
    return dataclasses.replace(GOOD, **changed)


def first(subject):
    found = findings(subject)
    assert found, "nothing was found"
    return found[0]
