from kernellab.explaining.rules.small_tiles import examine
from support.subjects import first_finding, found_rules, kernel, matmul, subject

# 32 × 32 × 32 by four warps: two copies, and four products of 16 × 8 × 16 per warp, in each iteration.
CODE = {"async_copy": 2, "tensor_mma": 4}
SMALL = dict(instructions=CODE, loop=CODE, load_bytes=16.0, threads=128, blocks=16384, products=["bf16"])
FLOPS_PER_THREAD = 2 * 16 * 8 * 16 // 32


def test_small_tiles_fetch_more_than_large_ones():
    finding = first_finding(matmul(kernel(**SMALL, product_flops=FLOPS_PER_THREAD)))
    assert (finding.name, finding.confidence) == ("small-tiles", "likely")
    assert finding.title.startswith("small tiles: 5.33 times the bytes")


def test_products_of_unknown_size_are_not_reported():
    assert examine(matmul(kernel(**SMALL))) is None


def test_narrow_operands_allow_no_larger_tiles():
    """16 rows times a large matrix: every byte is fetched once, and no tile makes that fewer."""
    cost = {"bytes_read": 2 * 8192 * 8192, "bytes_written": 2**18, "flops": {"matmul": 2 * 16 * 8192 * 8192}}
    narrow = kernel(**{**SMALL, "loop": {"async_copy": 18, "tensor_mma": 16}}, product_flops=FLOPS_PER_THREAD)
    assert found_rules(subject(narrow, cost=cost, dtype="bfloat16")) == []
