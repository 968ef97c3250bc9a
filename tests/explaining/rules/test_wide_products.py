import dataclasses

import pytest

from kernellab.explaining.rules.wide_products import examine
from support.subjects import MATMUL_KERNEL, first_finding, found_rules, matmul

IN_TF32 = dataclasses.replace(MATMUL_KERNEL, products=["tf32"])


def test_a_bfloat16_matmul_in_tf32_gains_the_rate_of_its_own_dtype():
    finding = first_finding(matmul(IN_TF32))
    assert (finding.name, finding.gain) == ("wide-products", pytest.approx(2.0))
    assert finding.title.startswith("a bfloat16 matmul computed in tf32")


def test_a_matmul_in_its_own_dtype_is_not_reported():
    assert found_rules(matmul(MATMUL_KERNEL)) == []
    assert examine(matmul(IN_TF32, dtype="float32")) is None
