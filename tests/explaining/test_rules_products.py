"""Findings about matrix products: on which units, in which type, by which tiles."""

import pytest

from kernellab.explaining.rulebook import findings
from kernellab.gpumodel.time_model import prices
from support.described import PRODUCT, but, first, way


def test_a_product_done_by_an_operator_is_not_its_neighbours():
    beside = [{"op": "aten::mm", "read_bytes": 2**26, "write_bytes": 2**25}]
    adds = but(instructions={"global_load": 1, "global_store": 1, "fp32": 4}, pointer_bytes=2**26)
    found = findings(way(adds, cost=PRODUCT, dtype="bfloat16", traffic=beside))
    assert all(f.rule not in ("no-tensor-cores", "excess-bytes") for f in found)


def test_no_tensor_cores():
    plain = but(instructions={"global_load": 8, "fp32": 2000})
    found = first(way(plain, cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.gain) == ("no-tensor-cores", pytest.approx(0.75 * 16))
    fast = but(instructions={"global_load": 8, "fp32": 20, "tensor_wgmma": 16})
    assert all(f.rule != "no-tensor-cores" for f in findings(way(fast, cost=PRODUCT, dtype="bfloat16")))
    assert all(f.rule != "no-tensor-cores" for f in findings(way(plain, cost=PRODUCT, dtype="float32")))


WGMMA = {"global_load": 0, "async_copy": 12, "tensor_wgmma": 4}
# A tile of 128 × 256 × 64 by 256 threads: 12 copies of 16 bytes and 4 products of 64 × 256 × 16 per warp group a turn.
TILED = dict(instructions=WGMMA, loop=WGMMA, load_bytes=16.0, threads=256, blocks=512, blocks_per_sm=1)
LARGE = dict(**TILED, products=["bf16"], product_flops=2 * 64 * 256 * 16 // 128)


def test_products_are_priced_at_the_rate_of_what_multiplies_them():
    assert findings(way(but(**LARGE), cost=PRODUCT, dtype="bfloat16")) == []
    wide = but(**{**LARGE, "products": ["tf32"]})
    found = first(way(wide, cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.gain) == ("wide-products", pytest.approx(2.0))
    assert "a bfloat16 product computed in tf32" in found.title
    assert all(f.rule != "wide-products" for f in findings(way(wide, cost=PRODUCT, dtype="float32")))
    plain = but(instructions={"global_load": 8, "fp32": 2000})
    with_them, without = (prices(way(k, cost=PRODUCT, dtype="bfloat16"), k) for k in (but(**LARGE), plain))
    assert without.matmul == pytest.approx(16 * with_them.matmul)


def test_small_tiles():
    """32 × 32 × 32 by four warps: two copies, and four products of 16 × 8 × 16 per warp, a turn."""
    code = {"async_copy": 2, "tensor_mma": 4}
    small = dict(instructions=code, loop=code, load_bytes=16.0, threads=128, blocks=16384, products=["bf16"])
    found = first(way(but(**small, product_flops=2 * 16 * 8 * 16 // 32), cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.sure) == ("small-tiles", "likely")
    assert found.title.startswith("5.33 times the bytes")
    assert all(f.rule != "small-tiles" for f in findings(way(but(**small), cost=PRODUCT, dtype="bfloat16")))
    # 16 rows times a large matrix: every byte is fetched once, and no tile makes that fewer.
    narrow = {"bytes_read": 2 * 8192 * 8192, "bytes_written": 2**18, "flops": {"matmul": 2 * 16 * 8192 * 8192}}
    few = dict(small, loop={"async_copy": 18, "tensor_mma": 16})
    assert findings(way(but(**few, product_flops=128), cost=narrow, dtype="bfloat16")) == []


def test_a_product_on_few_sms_gains_the_others():
    few = but(**{**LARGE, "blocks": 33})
    found = first(way(few, cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.gain) == ("too-few-blocks", pytest.approx(4.0))


def test_operators_beside_a_product_move_what_it_does_not_need():
    copy = [{"op": "aten::_to_copy", "read_bytes": 2**25, "write_bytes": 2**26}] * 2
    found = {f.rule: f for f in findings(way(but(**LARGE), cost=PRODUCT, dtype="bfloat16", traffic=copy))}
    roof = PRODUCT["flops"]["matmul"] / 800e6
    assert found["excess-bytes"].gain == pytest.approx(1 + 6 * 2**25 / 4e6 / roof)
    assert "1 kernel and 2 operators move" in found["excess-bytes"].title
