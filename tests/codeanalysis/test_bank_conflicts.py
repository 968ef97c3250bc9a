"""Bank conflicts in shared memory: the transactions of a warp's accesses, relative to the minimum."""

import pytest

from kernellab.codeanalysis.bank_conflicts import transaction_ratio
from kernellab.machinecode.ptx import parse_ptx

PTX = """
.version 8.7
.target sm_90
.address_size 64
.visible .entry k()
{{
\t.reg .b32 %r<9>;
\t.shared .align 16 .b8 tile[16384];
\tmov.u32 %r1, %tid.x;
\tmov.u32 %r2, tile;
\tmad.lo.s32 %r3, %r1, {stride}, %r2;
\t{access}
\tret;
}}
"""


def ratio(stride, access="ld.shared.f32 %f1, [%r3];", block=(128, 1, 1)):
    (kernel,) = parse_ptx(PTX.format(stride=stride, access=access)).kernels
    return transaction_ratio(kernel, [], block)


@pytest.mark.parametrize(
    ("stride", "transactions"),
    [(4, 1), (8, 2), (128, 32), (132, 1), (0, 1), (64, 16), (2, 1)],
    ids=["adjacent", "every second", "a column", "a padded column", "all the same", "half a row", "halves"],
)
def test_different_words_of_one_bank_need_a_transaction_each(stride, transactions):
    assert ratio(stride) == transactions


def test_wide_accesses_are_split_into_parts_of_all_banks():
    assert ratio(16, "st.shared.v4.f32 [%r3], {%f1, %f2, %f3, %f4};") == 1
    assert ratio(8, "ld.shared.v2.f32 {%f1, %f2}, [%r3];") == 1
    assert ratio(128, "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3];") == 8


def test_accesses_with_unknown_addresses_are_ignored():
    assert ratio(4, "ld.global.f32 %f1, [%rd1];") is None
    assert ratio(4, "ld.shared.f32 %f1, [%r8];") is None


def test_code_after_a_loop_is_reached_though_its_first_iteration_jumps_back():
    loop = "\n".join(["mov.u32 %r5, 0;", "$L:", "add.s32 %r5, %r5, 64;", "setp.lt.u32 %p1, %r5, 128;", "@%p1 bra $L;"])
    assert ratio(128, f"{loop}\nld.shared.f32 %f1, [%r3];") == 32
