"""The gain from fusing a chain of operators, by the bytes it moves against the fewest."""

import pytest

from kernellab.gpumodel.fusion import L2_OVER_MEMORY, DispatchedOperator, fusion

MB = 1 << 20
GBPS = 1000.0


def chain(*operators, size=1024 * MB):
    """Operators that read and write these numbers of tensors of a size."""
    return [DispatchedOperator("aten::op", int(read * size), int(written * size)) for read, written in operators]


GELU = [(1, 1), (1, 1), (2, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 1), (2, 1)]


def test_the_gelu_chain_moves_21_tensors_instead_of_2():
    fused = fusion(chain(*GELU), 2048 * MB, GBPS)
    assert (fused.kernels, fused.moved_bytes) == (9, 21 * 1024 * MB)
    assert fused.gain == pytest.approx(10.5)
    assert fused.chain_us == pytest.approx(21 * 1024 * MB / 1e6)


def test_a_reduction_counts_mostly_by_what_it_reads():
    softmax = [(1, 1 / 4096), (1 + 1 / 4096, 1), (1, 1), (1, 1 / 4096), (1 + 1 / 4096, 1)]
    assert fusion(chain(*softmax), 2048 * MB, GBPS).gain == pytest.approx(4.0, rel=0.01)


def test_one_operator_that_moves_the_fewest_bytes_gains_nothing():
    assert fusion(chain((1, 1)), 2048 * MB, GBPS).gain == pytest.approx(1.0)


def test_a_tiny_operator_takes_the_launch_floor():
    tiny = fusion(chain(*[(1, 1)] * 10, size=1024), 2048, GBPS, floor_us=2.0)
    assert tiny.chain_us == 20.0
    assert tiny.gain == 10.0  # the fused kernel has to be launched too


def test_intermediates_that_fit_into_l2_are_cheaper_and_mark_the_prediction():
    operators, l2 = chain((1, 1), (1, 1), size=10 * MB), 50 * MB
    large, small = fusion(operators, 20 * MB, GBPS), fusion(operators, 20 * MB, GBPS, l2_bytes=l2)
    assert not large.resident
    assert small.resident
    assert large.gain == pytest.approx(2.0)
    # Of four tensors the middle two come from and go to L2.
    assert small.gain == pytest.approx((2 + 2 / L2_OVER_MEMORY) / 2)


def test_an_operator_of_unknown_traffic_leaves_the_chain_unknown():
    unknown = [*chain((1, 1)), DispatchedOperator("None", None, None)]
    assert fusion(unknown, 2048, GBPS) is None
    assert fusion(None, 2048, GBPS) is None
    assert fusion([], 2048, GBPS) is None


def test_a_matmul_is_recognised_by_the_name_of_its_operator():
    names = {"aten::mm": True, "aten::addmm.out": True, "aten::_scaled_mm": True, "aten::mul": False, "mm_like": False}
    assert {name: DispatchedOperator(name, 1, 1).is_product for name in names} == names
