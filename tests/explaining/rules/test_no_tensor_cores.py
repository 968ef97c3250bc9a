import pytest

from kernellab.explaining.rules.no_tensor_cores import examine
from kernellab.gpumodel.fusion import DispatchedOperator
from support.subjects import first_finding, kernel, matmul

MULTIPLY_ADDS = kernel(instructions={"global_load": 8, "fp32": 2000})


def test_a_16_bit_matmul_by_multiply_adds_gains_the_rate_of_tensor_cores():
    finding = first_finding(matmul(MULTIPLY_ADDS))
    assert (finding.name, finding.gain) == ("no-tensor-cores", pytest.approx(0.75 * 16))


def test_a_matmul_on_tensor_cores_or_in_float32_is_not_reported():
    on_tensor_cores = kernel(instructions={"global_load": 8, "fp32": 20, "tensor_wgmma": 16})
    assert examine(matmul(on_tensor_cores)) is None
    assert examine(matmul(MULTIPLY_ADDS, dtype="float32")) is None


def test_a_kernel_beside_a_matmul_operator_does_not_do_the_matmul():
    product = [DispatchedOperator("aten::mm", 2**26, 2**25)]
    assert examine(matmul(MULTIPLY_ADDS, operators=product)) is None
