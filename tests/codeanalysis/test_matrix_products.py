"""The types that tensor cores multiply, read from PTX."""

import pytest

from kernellab.codeanalysis.matrix_products import MatrixProduct, find_matrix_products
from kernellab.machinecode.ptx import parse_ptx

PTX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
{{
\t{};
\tret;
}}
"""


@pytest.mark.parametrize(
    ("line", "product"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2}", MatrixProduct("bf16", 128)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2}", MatrixProduct("tf32", 64)),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r1}, {%r2}, {%r2}", MatrixProduct("fp16", 128)),
        (
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 1",
            MatrixProduct("bf16", 4096),
        ),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f2}", MatrixProduct("fp16")),
        ("tcgen05.mma.cta_group::1.kind::tf32 [%r1], %rd1, %rd2, %r2, %p1", MatrixProduct("tf32")),
        ("wgmma.fence.sync.aligned", None),
        ("fma.rn.f32 %f1, %f2, %f3, %f4", None),
    ],
)
def test_every_tensor_core_instruction_has_its_type_and_operations(line, product):
    (kernel,) = parse_ptx(PTX.format(line)).kernels
    assert find_matrix_products(kernel) == ([product] if product else [])
