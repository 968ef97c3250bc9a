"""Sentences for arithmetic, comparisons, conversions, bit operations and moves."""

import pytest

from support.machine_code import explain_instruction


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("mov.f32 %f1, 0f3F800000", "1.0 (0f3F800000)"),
        ("mov.f32 %f1, 0fFF800000", "-infinity"),
        ("mov.f64 %fd1, 0d3FE0000000000000", "0.5"),
        ("mul.lo.s32 %r1, %r2, %r3", "the low 32 bits of the product (lo)"),
        ("mul.hi.u32 %r1, %r2, %r3", "the high 32 bits of the product (hi)"),
        ("mul.wide.s32 %rd1, %r2, 4", "the whole 64-bit product (wide)"),
        ("shl.b32 %r1, %r2, 3", "× 8"),
        ("and.b32 %r1, %r2, 31", "remainder of a division by 32"),
        ("cvt.rn.bf16x2.f32 %r1, %f1, %f2", "%f1 in the upper half, %f2 in the lower"),
        ("cvt.rn.f16.f32 %h1, %f1", "rounded to nearest even"),
        ("cvt.rzi.s32.f32 %r1, %f1", "towards zero"),
        ("cvt.f32.f16 %f1, %h1", "exactly"),
        ("cvt.s64.s32 %rd1, %r1", "sign-extended"),
        ("cvt.u64.u32 %rd1, %r1", "zero-extended"),
        ("setp.ltu.f32 %p1, %f1, %f2", "or either is NaN"),
        ("setp.lt.and.s32 %p1|%p2, %r1, %r2, %p3", "%p2 to whether the comparison fails, and %p3"),
        ("selp.f32 %f1, %f2, %f3, %p1", "%f2 into %f1 where %p1 is true, else %f3"),
        ("prmt.b32 %r1, %r2, %r3, 0x5410", "bytes 0, 1, 4, 5"),
        ("prmt.b32 %r1, %r2, %r3, 0x7632", "bytes 2, 3, 6, 7"),
        ("fma.rn.f32 %f1, %f2, %f3, %f4", "rounded once, to nearest even"),
        ("ex2.approx.ftz.f32 %f1, %f2", "2 to the power of %f2"),
        ("tanh.approx.f32 %f1, %f2", "hyperbolic tangent"),
        ("max.NaN.f32 %f1, %f2, %f3", "NaN if any operand is NaN"),
        ("add.sat.s32 %r1, %r2, %r3", "clamped to the range of signed 32-bit integers"),
        ("add.sat.f32 %f1, %f2, %f3", "clamped to 0…1"),
        ("cvt.sat.u8.s32 %r1, %r2", "clamped to the range of unsigned 8-bit integers"),
        ("cvt.u8.s32 %r1, %r2", "keeps the low 8 bits"),
        ("cvt.sat.f32.f32 %f1, %f2", "clamped to 0…1"),
        ("mad.hi.sat.s32 %r1, %r2, %r3, %r4", "clamped to the range of signed 32-bit integers"),
        (
            "max.xorsign.abs.f32 %f1, %f2, %f3",
            "larger of |%f2| and |%f3| into %f1, negative if exactly one of the two is",
        ),
        ("bfind.u32 %r1, %r2", "the position of the highest bit set in %r2"),
        ("bfind.s32 %r1, %r2", "the position of the highest bit of %r2 that differs from its sign"),
        ("bfind.shiftamt.u32 %r1, %r2", "the left shift that makes the highest bit set in %r2 the first bit"),
        ("mul24.lo.u32 %r1, %r2, %r3", "the low 24 bits of both, the low 32 bits of the 48-bit product"),
        ("mad24.hi.s32 %r1, %r2, %r3, %r4", "the high 32 bits of the 48-bit product"),
        ("and.b32 %r1, %r2, %r3", "computes the bitwise and of %r2 and %r3 into %r1"),
        ("shr.s32 %r1, %r2, 3", "copying the sign bit"),
        ("shr.u32 %r1, %r2, 3", "filling with zeros: / 8"),
        ("abs.f32 %f1, %f2", "the absolute value of %f2"),
        ("add.ftz.f32 %f1, %f2, %f3", "subnormals flushed to 0"),
        ("setp.lt.s32 %p1|%p2, %r1, %r2", "and %p2 to the opposite"),
    ],
)
def test_the_sentence_contains_what_matters(text, phrase):
    assert phrase in explain_instruction(text)
