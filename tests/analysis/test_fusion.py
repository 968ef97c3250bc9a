"""Chains of kernels that could be fused are found by shapes."""

import pytest

from kernellab.analysis.document import analyse
from support.traced import GEMM, MUL, Program


def chains_of(*operators, us=10.0, size=4096):
    run = Program()
    for name, *inputs in operators:
        with run.operator(f"aten::{name}", *(inputs or [[size, size]])):
            run.kernel(GEMM if name == "mm" else MUL, us)
    return analyse(run.trace())["fusion"]


def test_a_chain_moves_each_result_twice_and_a_fused_kernel_only_its_ends():
    (chain,) = chains_of(("mul",), ("tanh",), ("add",))
    tensor = 4096 * 4096 * 4
    assert chain["operators"] == ["aten::mul", "aten::tanh", "aten::add"]
    assert (chain["moved_bytes"], chain["fewest_bytes"]) == (6 * tensor, 2 * tensor)
    assert chain["chain_us"] == 30
    assert chain["fused_us"] == pytest.approx(10)


def test_a_product_or_another_shape_ends_a_chain():
    assert chains_of(("mul",), ("mm",), ("tanh",)) == []
    assert chains_of(("mul", [64, 64]), ("tanh", [32, 32])) == []
    bias = chains_of(("mul",), ("add", [4096, 4096], [4096]))
    assert bias[0]["fewest_bytes"] == (2 * 4096 * 4096 + 4096) * 4
