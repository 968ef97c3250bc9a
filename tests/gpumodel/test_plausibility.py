"""Times that a GPU cannot reach."""

from kernellab.gpumodel.plausibility import why_implausible

H200 = {
    "pin_gbps": 4917.0,
    "l2_bytes": 60 << 20,
    "tflops": {"fp32": 66.9, "matmul": {"bfloat16": 1070.0, "float16": 1070.0, "float32": 535.0}},
}


def cost(read=0, written=0, **flops):
    return {"bytes_read": read, "bytes_written": written, "flops": flops}


def test_bytes_cannot_move_faster_than_the_pins():
    gigabyte = cost(1 << 30, 1 << 30)  # 424 µs for the bytes beyond the cache
    assert why_implausible(gigabyte, "float32", 440.0, "cold", H200) is None
    assert why_implausible(gigabyte, "float32", 418.0, "cold", H200) is None  # the timer's own slack
    reason = why_implausible(gigabyte, "float32", 300.0, "cold", H200)
    assert reason == (
        "300 µs is not possible: 2085 MB beyond the L2 cache at the 4917 GB/s of the memory's pins take at least 424 µs"
    )


def test_work_that_fits_in_the_cache_has_no_lower_bound():
    assert why_implausible(cost(30 << 20, 30 << 20), "float32", 0.1, "cold", H200) is None
    both_ends = cost(60 << 20, 60 << 20)
    assert why_implausible(both_ends, "float32", 3.0, "cold", H200)
    assert why_implausible(both_ends, "float32", 3.0, "warm", H200) is None


def test_flops_cannot_be_done_faster_than_the_units_peak():
    flops = 2 * 8192**3  # 1028 µs in bfloat16, 2055 µs in float32
    assert why_implausible(cost(matmul=flops), "bfloat16", 1100.0, "cold", H200) is None
    assert "matmul, bfloat16" in why_implausible(cost(matmul=flops), "bfloat16", 900.0, "cold", H200)
    assert why_implausible(cost(matmul=flops), "float32", 1100.0, "cold", H200)
    assert why_implausible(cost(matmul=flops), "float8_e4m3fn", 1.0, "cold", H200) is None
    assert why_implausible(cost(fp32=flops), "float32", 9000.0, "cold", H200)
    assert why_implausible(cost(fp32=flops), "bfloat16", 9000.0, "cold", H200) is None
    assert why_implausible(cost(special=flops), "float32", 1.0, "cold", H200) is None


def test_without_numbers_no_time_is_implausible():
    much = cost(1 << 40, matmul=10**18, fp32=10**18)
    assert why_implausible(much, "float32", 1.0, "cold", None) is None
    assert why_implausible(None, "float32", 1.0, "cold", H200) is None
    unknown = {"pin_gbps": None, "l2_bytes": 0, "tflops": None}
    assert why_implausible(much, "float32", 1.0, "cold", unknown) is None
