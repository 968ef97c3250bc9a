"""Sentences for loads, stores, atomics and copies."""

import pytest

from support.machine_code import explain_instruction


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("ld.global.nc.L1::evict_last.u8 %r1, [%rd1+-4]", "read-only path"),
        ("ld.global.u32 %r1, [%rd1+-4]", "%rd1 - 4"),
        ("st.global.cs.v2.f32 [%rd1], {%f1, %f2}", "evicted first from the caches"),
        ("atom.global.gpu.relaxed.add.f32 %f1, [%rd1], %f2", "the old value goes into %f1"),
        ("red.shared.max.s32 [%r1], %r2", "takes the larger of %r2"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2", "copying 16 bytes"),
        ("cp.async.wait_group 0", "all groups of copies are done"),
        ("cp.async.wait_group 2", "all groups but the last 2"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3]", "from shared memory"),
        ("red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4}", "atomically for each of four values"),
        ("red.global.add.noftz.f16x2 [%rd1], %r1", "atomically for each of two values"),
        (
            "red.global.add.f32 [%rd1], %f1",
            "atomically, so that no other thread can interfere: adds %f1 to the value ",
        ),
        ("createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0", "evicted first"),
        ("ld.global.s8 %r1, [%rd1]", "sign-extended"),
        ("atom.global.cas.b32 %r1, [%rd1], 5, 6", "if it equals 5, writes 6 over the value in global memory"),
        ("ld.u32 %r1, [%rd1]", "memory (generic address: any kind)"),
    ],
)
def test_the_sentence_contains_what_matters(text, phrase):
    assert phrase in explain_instruction(text)
