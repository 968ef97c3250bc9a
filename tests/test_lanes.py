"""What machine code tells of memory: bytes under way before a wait, and how a warp's addresses lie."""

import random

import pytest

from kernellab.machinecode.flight import flight_bytes
from kernellab.machinecode.lanes import spread
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass

PTX = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 1 x, .param .u32 stride)
{
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<5>;
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
