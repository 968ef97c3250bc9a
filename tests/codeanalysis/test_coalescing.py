"""What machine code tells of memory: bytes under way before a wait, and how a warp's addresses lie."""

import random

import pytest

from kernellab.codeanalysis.coalescing import spread
from kernellab.codeanalysis.loads_in_flight import flight_bytes
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass

PTX = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 1 x, .param .u32 stride)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.b64 %rd1, [x];
	ld.param.b32 %r1, [stride];
	mov.u32 %r2, %tid.x;
BODY
	ret;
}
"""
STRIDED = """	mul.lo.s32 %r3, %r2, %r1;
	mul.wide.s32 %rd2, %r3, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.b32 %r4, [%rd3];"""
PAIRS = """	shl.b32 %r3, %r2, 3;
	cvt.u64.u32 %rd2, %r3;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.b32 %r4, [%rd3];
	ld.global.b32 %r5, [%rd3+4];"""
SHARED = """	ld.global.b32 %r4, [%rd1];"""
INDIRECT = """	ld.global.b32 %r4, [%rd1];
	mul.wide.s32 %rd2, %r4, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.b32 %r5, [%rd3];"""


def entry(body):
    (found,) = parse_ptx(PTX.replace("BODY", body)).kernels
    return found


@pytest.mark.parametrize(("stride", "times"), [(1, 1.0), (2, 2.0), (8, 8.0), (4096, 8.0)])
def test_the_further_apart_a_warps_addresses_the_more_sectors_it_touches(stride, times):
    assert spread(entry(STRIDED), [None, stride], (128, 1, 1)) == times


def test_what_one_load_leaves_of_a_sector_another_may_take():
    assert spread(entry(PAIRS), [None, 1], (128, 1, 1)) == 1.0


def test_what_is_more_than_a_warps_share_of_l1_is_fetched_by_each_load_anew():
    assert spread(entry(PAIRS), [None, 1], (128, 1, 1), 256) == 1.0  # the 256 bytes it touches
    assert spread(entry(PAIRS), [None, 1], (128, 1, 1), 255) == 2.0
    stores = PAIRS.replace("ld.global.b32 %r4, [%rd3]", "st.global.b32 [%rd3], %r4").replace(
        "ld.global.b32 %r5, [%rd3+4]", "st.global.b32 [%rd3+4], %r5"
    )
    assert spread(entry(stores), [None, 1], (128, 1, 1), 1) == 1.0  # L2 gathers them


# A 64-bit division as compilers write it: with 32 bits where that will do.
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


def test_a_division_takes_the_side_its_numbers_lead_to():
    # The side that is not taken would make every address the same.
    body = DIVIDED.replace("SLOW", "mov.u64 %rd4, 0;")
    assert spread(entry(body), [None, 1024], (128, 1, 1)) == 8.0
    assert spread(entry(body), [None, -1], (128, 1, 1)) is None
    body = DIVIDED.replace("SLOW", "rem.s64 %rd4, %rd2, %rd5;")
    assert spread(entry(body), [None, -1024], (128, 1, 1)) == 8.0


def test_both_sides_of_a_branch_nobody_knows_are_gone_through():
    body = "\tld.global.b32 %r6, [%rd1];\n\tsetp.ne.s32 %p1, %r6, 0;\n\t@%p1 bra $other;\n"
    body += STRIDED + "\n\tbra.uni $end;\n$other:\n" + STRIDED.replace("%rd3]", "%rd3+1048576]") + "\n$end:"
    both = entry(body)
    assert spread(both, [None, 2], (128, 1, 1)) == 2.0
    one_side = body.replace("mul.lo.s32 %r3, %r2, %r1", "mov.u32 %r3, 0", 1)
    assert spread(entry(one_side), [None, 2], (128, 1, 1)) == 2.0


def test_a_loop_entered_in_its_middle_is_gone_through_once():
    body = "\tbra.uni $test;\n$body:\n" + STRIDED + "\n$test:\n\tsetp.lt.s32 %p1, %r7, %r1;\n\t@%p1 bra $body;"
    assert spread(entry(body), [None, 4], (128, 1, 1)) == 4.0


@pytest.mark.parametrize(
    ("way", "stride"),
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
def test_predicates_selections_and_pieces_of_values_are_followed(way, stride):
    body = STRIDED.replace("mul.lo.s32 %r3, %r2, %r1;", way)
    assert spread(entry(body), [None, 4], (128, 1, 1)) == stride


def test_a_wide_multiply_add_keeps_its_pointer():
    text = PTX.replace("stride)", "stride, .param .u64 y)").replace("BODY", """	ld.param.b64 %rd2, [y];
	mad.wide.u32 %rd3, %r2, 4, %rd1;
	ld.global.b32 %r4, [%rd3];
	mad.wide.u32 %rd4, %r2, 4, %rd2;
	ld.global.b32 %r5, [%rd4+16];""")  # fmt: skip
    (two,) = parse_ptx(text).kernels
    assert spread(two, [None, 1, None], (128, 1, 1)) == 9 / 8  # 4 sectors and 5; five of one tensor would be 10 / 9


def test_lanes_a_predicate_leaves_out_move_nothing():
    body = "\tsetp.lt.u32 %p1, %r2, 16;\n" + STRIDED.replace("ld.global", "@%p1 ld.global")
    assert spread(entry(body), [None, 2], (128, 1, 1)) == 2.0
    assert spread(entry(body.replace(", 16;", ", 8;")), [None, 2], (128, 1, 1)) is None


def test_a_value_all_lanes_share_and_an_address_from_memory_tell_nothing():
    assert spread(entry(SHARED), [None, 1], (128, 1, 1)) is None
    assert spread(entry(INDIRECT), [None, 1], (128, 1, 1)) is None


def test_lanes_are_counted_along_x_first():
    down = STRIDED.replace("%r2, %r1", "%r8, %r1").replace("	mul.lo", "	mov.u32 %r8, %tid.y;\n	mul.lo")
    assert spread(entry(down), [None, 64], (1, 128, 1)) == 8.0
    assert spread(entry(down), [None, 64], (32, 4, 1)) is None  # all 32 lanes have the same y


def sass(*lines):
    body = "\n".join(f"        /*{at * 16:04x}*/                   {line} ;" for at, line in enumerate(lines))
    return parse_sass(f"\t.target\tsm_90\n\t\tFunction : k\n{body}\n").functions[0].body


WIDE = ("LDG.E.128 R4, desc[UR4][R2.64]", "LDG.E.128 R8, desc[UR4][R2.64+0x10]")
USE = "FADD R5, R5, R6"


def test_loads_nobody_waits_for_are_under_way_together():
    assert flight_bytes(sass(*WIDE, USE)) == 32
    assert flight_bytes(sass(WIDE[0], USE, WIDE[1], "FADD R9, R9, R9")) == 16


def test_a_use_of_any_register_a_wide_load_fills_is_a_wait():
    assert flight_bytes(sass(WIDE[0], "FADD R0, R7, R1", WIDE[1])) == 16
    assert flight_bytes(sass(WIDE[0], "FADD R0, R20, R1", WIDE[1])) == 32


def test_storing_what_was_loaded_is_a_wait_too():
    assert flight_bytes(sass(WIDE[0], "STG.E.128 desc[UR4][R12.64], R4", WIDE[1])) == 16


def test_code_without_loads_has_nothing_under_way():
    assert flight_bytes(sass(USE)) == 0


def test_damaged_code_is_unknown_and_no_crash():
    rng = random.Random(5)
    text = PTX.replace("BODY", STRIDED + "\n" + PAIRS + "\n" + INDIRECT)
    words = text.split(" ")
    for _ in range(400):
        broken = list(words)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.choice([*words, "", "-1", "{%r1, %r2}", "%rd3,", "[%rd9+8];"])
        for found in parse_ptx(" ".join(broken)).kernels:
            told = spread(found, [None, 3], (128, 1, 1))
            assert told is None or told > 0
            assert flight_bytes(found.body) >= 0
