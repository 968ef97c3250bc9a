"""A warp emulated on its PTX: branches, predicates and arithmetic, tested by the distances of its addresses."""

import random

import pytest

from kernellab.codeanalysis.coalescing import sector_ratio
from kernellab.codeanalysis.loads_in_flight import bytes_in_flight
from kernellab.machinecode.ptx import parse_ptx
from support.machine_code import STRIDED_LOAD, strided_kernel, strided_ptx

# A 64-bit division as compilers emit it: with 32 bits if the operands allow it.
DIVIDED = """	cvt.u64.u32 %rd2, %r2;
	cvt.s64.s32 %rd5, %r1;
	or.b64 %rd6, %rd2, %rd5;
	and.b64 %rd6, %rd6, -4294967296;
	setp.ne.s64 %p1, %rd6, 0;
	@%p1 bra $slow;
	cvt.u32.u64 %r5, %rd5;
	rem.u32 %r3, %r2, %r5;
	cvt.u64.u32 %rd4, %r3;
	bra.uni $done;
$slow:
	SLOW
$done:
	shl.b64 %rd4, %rd4, 7;
	add.s64 %rd3, %rd1, %rd4;
	ld.global.b32 %r4, [%rd3];"""


def ratio(body, stride, block=(128, 1, 1)):
    return sector_ratio(strided_kernel(body), [None, stride], block)


def test_a_branch_with_a_known_condition_takes_one_side():
    # The other side would make every address the same.
    body = DIVIDED.replace("SLOW", "mov.u64 %rd4, 0;")
    assert ratio(body, 1024) == 8.0
    assert ratio(body, -1) is None
    assert ratio(DIVIDED.replace("SLOW", "rem.s64 %rd4, %rd2, %rd5;"), -1024) == 8.0


def test_both_sides_of_a_branch_with_an_unknown_condition_are_executed():
    body = "\tld.global.b32 %r6, [%rd1];\n\tsetp.ne.s32 %p1, %r6, 0;\n\t@%p1 bra $other;\n"
    body += STRIDED_LOAD + "\n\tbra.uni $end;\n$other:\n" + STRIDED_LOAD.replace("%rd3]", "%rd3+1048576]") + "\n$end:"
    assert ratio(body, 2) == 2.0
    assert ratio(body.replace("mul.lo.s32 %r3, %r2, %r1", "mov.u32 %r3, 0", 1), 2) == 2.0


def test_a_loop_that_is_entered_in_its_middle_is_executed_once():
    body = "\tbra.uni $test;\n$body:\n" + STRIDED_LOAD + "\n$test:\n\tsetp.lt.s32 %p1, %r7, %r1;\n\t@%p1 bra $body;"
    assert ratio(body, 4) == 4.0


@pytest.mark.parametrize(
    ("code", "stride"),
    [("setp.lt.u32 %p1, %r2, 64; selp.b32 %r3, %r1, 1, %p1; mul.lo.s32 %r3, %r3, %r2;", 4),
     ("setp.ge.s32 %p1, %r2, 64; mul.lo.s32 %r3, %r2, 1; @!%p1 mul.lo.s32 %r3, %r2, %r1;", 4),
     ("setp.lt.or.s32 %p1|%p2, %r2, 0, !%p1; mov.u32 %r3, 0;", None),
     ("mul.wide.u32 %rd4, %r2, %r1; mov.b64 {%r3, %r6}, %rd4;", 4),
     ("mul.lo.s32 %r3, %r2, %r1; mov.b64 %rd4, {%r3, %r3}; cvt.u32.u64 %r3, %rd4;", 4),
     ("mov.u32 %r6, 0; bfi.b32 %r3, %r2, %r6, 2, 8;", 4),
     ("shf.l.wrap.b32 %r3, %r6, %r2, 1;", None),
     ("mov.u32 %r6, 0; shf.l.wrap.b32 %r3, %r6, %r2, 2;", 4),
     ("neg.s32 %r3, %r2; abs.s32 %r3, %r3;", 1)],
)  # fmt: skip
def test_predicates_selections_and_parts_of_values_are_followed(code, stride):
    assert ratio(STRIDED_LOAD.replace("mul.lo.s32 %r3, %r2, %r1;", code), 4) == stride


def test_a_wide_multiply_add_keeps_its_pointer():
    body = """	ld.param.b64 %rd2, [y];
	mad.wide.u32 %rd3, %r2, 4, %rd1;
	ld.global.b32 %r4, [%rd3];
	mad.wide.u32 %rd4, %r2, 4, %rd2;
	ld.global.b32 %r5, [%rd4+16];"""
    (kernel,) = parse_ptx(strided_ptx(body).replace("stride)", "stride, .param .u64 y)")).kernels
    # 4 sectors and 5; five of one tensor would be 10 / 9.
    assert sector_ratio(kernel, [None, 1, None], (128, 1, 1)) == 9 / 8


def test_lanes_are_numbered_along_x_first():
    down = STRIDED_LOAD.replace("%r2, %r1", "%r8, %r1").replace("	mul.lo", "	mov.u32 %r8, %tid.y;\n	mul.lo")
    assert ratio(down, 64, (1, 128, 1)) == 8.0
    assert ratio(down, 64, (32, 4, 1)) is None  # all 32 lanes have the same y


def test_damaged_code_gives_no_exception():
    rng = random.Random(5)
    words = strided_ptx(STRIDED_LOAD + "\n" + DIVIDED).split(" ")
    for _ in range(400):
        broken = list(words)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.choice([*words, "", "-1", "{%r1, %r2}", "%rd3,", "[%rd9+8];"])
        for kernel in parse_ptx(" ".join(broken)).kernels:
            result = sector_ratio(kernel, [None, 3], (128, 1, 1))
            assert result is None or result > 0
            assert bytes_in_flight(kernel.body) >= 0
