import pytest

from kernellab.explaining.rules.excess_bytes import examine
from kernellab.gpumodel.fusion import DispatchedOperator
from support.subjects import GB, GOOD_KERNEL, MATMUL_COST, MATMUL_KERNEL, first_finding, kernel, matmul, subject


def test_two_kernels_that_get_three_tensors_each_move_three_times_the_fewest_bytes():
    twice = (kernel(pointer_bytes=3 * GB), kernel(pointer_bytes=3 * GB))
    finding = first_finding(subject(*twice))
    assert (finding.name, finding.gain) == ("excess-bytes", pytest.approx(3.0))
    assert finding.title == "2 kernels move 6000 MB where 2000 MB suffice"


def test_a_copy_beside_a_kernel_counts():
    copy = [DispatchedOperator("aten::_to_copy", GB, 2 * GB)]
    finding = first_finding(subject(GOOD_KERNEL, operators=copy))
    assert (finding.name, finding.gain) == ("excess-bytes", pytest.approx(2.5))


def test_operators_beside_a_matmul_add_their_time_to_its_limit():
    copies = [DispatchedOperator("aten::_to_copy", 2**25, 2**26)] * 2
    finding = examine(matmul(MATMUL_KERNEL, operators=copies))
    limit_us = MATMUL_COST["flops"]["matmul"] / 800e6
    assert finding.gain == pytest.approx(1 + 6 * 2**25 / 4e6 / limit_us)
    assert finding.title.startswith("1 kernel and 2 operators move")


def test_the_operands_of_a_matmul_operator_are_not_excess():
    product = [DispatchedOperator("aten::mm", 2**26, 2**25)]
    adding = kernel(instructions={"global_load": 1, "global_store": 1, "fp32": 4}, pointer_bytes=2**26)
    assert examine(matmul(adding, operators=product)) is None
