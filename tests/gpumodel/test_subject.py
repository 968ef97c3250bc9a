"""One implementation at one case."""

import dataclasses

import pytest

from kernellab.gpumodel.fusion import DispatchedOperator
from support.subjects import CHAIN, GOOD_KERNEL, LIMIT_US, MATMUL_KERNEL, kernel, matmul, subject


def test_the_headroom_is_the_factor_between_the_time_and_the_limit():
    assert subject(time_us=3 * LIMIT_US).headroom == pytest.approx(3.0)
    assert subject().headroom is None
    assert dataclasses.replace(subject(time_us=1.0), limit=None).headroom is None


@pytest.mark.parametrize(("empty_kernel_us", "floor_us"), [(None, 1.6), (2.4, 1.6), (1.1, 1.1)])
def test_in_a_sequence_an_empty_kernel_takes_no_longer_than_alone(empty_kernel_us, floor_us):
    assert subject(empty_kernel_us=empty_kernel_us).launch_floor_us == floor_us
    assert subject(device=None, empty_kernel_us=empty_kernel_us).launch_floor_us == 0.0


def test_its_operators_are_a_chain_if_their_bytes_are_known():
    assert subject(operators=CHAIN).chain.gain == pytest.approx(4.5)
    assert subject(operators=[*CHAIN, DispatchedOperator("aten::sort", None, None)]).chain is None
    assert subject().chain is None


def test_the_matmul_is_done_by_the_kernel_on_tensor_cores():
    adding = kernel(instructions={"fp32": 4})
    both = matmul(adding, MATMUL_KERNEL)
    assert both.computes_product(MATMUL_KERNEL)
    assert not both.computes_product(adding)
    assert matmul(adding).computes_product(adding)


def test_the_matmul_is_not_done_by_a_kernel_beside_an_operator_that_does_it():
    product = [DispatchedOperator("aten::mm", 2**26, 2**25)]
    assert not matmul(GOOD_KERNEL, operators=product).computes_product(GOOD_KERNEL)
