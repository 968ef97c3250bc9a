"""What tensor cores multiply, read from PTX."""

import pytest

from kernellab.codeanalysis.matrix_products import Product, products
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
    ("line", "found"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2}", Product("bf16", 128)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2}", Product("tf32", 64)),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r1}, {%r2}, {%r2}", Product("fp16", 128)),
        (
            "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 1",
            Product("bf16", 4096),
        ),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f2}", Product("fp16")),
        ("tcgen05.mma.cta_group::1.kind::tf32 [%r1], %rd1, %rd2, %r2, %p1", Product("tf32")),
        ("wgmma.fence.sync.aligned", None),
        ("fma.rn.f32 %f1, %f2, %f3, %f4", None),
    ],
)
def test_every_form_tells_what_it_multiplies(line, found):
    (kernel,) = parse_ptx(PTX.format(line)).kernels
    assert products(kernel) == ([found] if found else [])
