"""The class of work of an instruction, and how many bytes it moves."""

import pytest

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass


@pytest.mark.parametrize(
    ("text", "name", "width"),
    [
        ("LDG.E.128.CONSTANT R4, [R2.64]", "global_load", 16),
        ("LDG.E.U8 R4, [R2.64]", "global_load", 1),
        ("LDG.E.ENL2.256 R4, R8, desc[UR4][R2.64]", "global_load", 32),
        ("LDGSTS.E.BYPASS.128 [R1], [R2.64]", "async_copy", 16),
        ("LDSM.16.MT88.4 R4, [R2]", "shared_load", 16),
        ("STL.64 [R1+0x8], R2", "local_store", 8),
        ("ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU PT, R1, [R2.64], R3", "global_atomic", 4),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "tensor_wgmma", 0),
        ("UTCHMMA gdesc[UR6], gdesc[UR4], tmem[UR8], tmem[UR10], idesc[UR11], UPT", "tensor_tcgen05", 0),
        ("HADD2.F32 R1, -RZ, R2.H0_H0", "conversion", 0),
        ("HFMA2 R1, -RZ, RZ, 1.5, -63.25", "movement", 0),
        ("IMAD.MOV.U32 R1, RZ, RZ, R2", "movement", 0),
        ("MUFU.EX2 R1, R2", "special", 0),
        ("DFMA R2, R4, R6, R8", "fp64", 0),
        ("FROBNICATE.X R1", "unknown", 0),
    ],
)
def test_each_sass_opcode_has_its_class_and_width(text, name, width):
    (line,) = instructions(parse_sass(f"Function : k\n/*0000*/ {text} ;").functions[0].body)
    assert (classify(line).name, classify(line).bytes) == (name, width)


@pytest.mark.parametrize(
    ("text", "name", "width"),
    [
        ("ld.global.nc.L1::evict_last.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1]", "global_load", 16),
        ("ld.shared.u8 %r1, [%r2]", "shared_load", 1),
        ("ld.param.u64 %rd1, [p]", "constant_load", 8),
        ("st.v2.f16x2 [%rd1], {%r1,%r2}", "generic_store", 8),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16", "async_copy", 16),
        ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2,%r3}], [%r4]",
         "bulk_copy", 0),
        ("sub.rn.f32.f16 %f1, %rs1, %f2", "fp32", 0),
        ("fma.rn.bf16x2 %r1, %r2, %r3, %r4", "fp16", 0),
        ("div.full.f32 %f1, %f2, %f3", "special", 0),
        ("div.s32 %r1, %r2, %r3", "integer", 0),
        ("mul.f64 %fd1, %fd2, %fd3", "fp64", 0),
        ("wgmma.fence.sync.aligned", "synchronisation", 0),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1", "tensor_tcgen05", 0),
        ("red.global.add.f32 [%rd1], %f1", "global_atomic", 4),
        ("atom.param.add.u32 %r1, [%rd1], %r2", "unknown", 0),
        ("frobnicate.b32 %r1", "unknown", 0),
    ],
)  # fmt: skip
def test_each_ptx_opcode_has_its_class_and_width(text, name, width):
    (line,) = instructions(parse_ptx(f".entry k() {{ {text}; }}").functions[0].body)
    assert (classify(line).name, classify(line).bytes) == (name, width)
