"""The trip count of a loop, from the constants in its code."""

import pytest

from kernellab.codeanalysis.loops import find_loops
from kernellab.machinecode.ptx import parse_ptx
from support.machine_code import kernel_ptx, sass_body


def turns_of(body):
    (loop,) = find_loops(body)
    return loop.turns


def turns_in_ptx(text):
    return turns_of(parse_ptx(kernel_ptx(text)).kernels[0].body)


COUNTED = """mov.u32 %r1, START;
loop: fma.rn.f32 %f1, %f1, %f1, %f2;
add.s32 %r1, %r1, STEP;
setp.TEST %p1, %r1, BOUND;
@%p1 bra loop;"""


@pytest.mark.parametrize(
    ("start", "step", "test", "bound", "turns"),
    [(0, 1, "ne.s32", 1000, 1000), (0, 4, "lt.s32", 1000, 250), (0, 3, "lt.s32", 10, 4), (0, 3, "le.s32", 9, 4),
     (20, -2, "gt.s32", 0, 10), (20, -2, "ge.s32", 0, 11), (-4, 4, "lt.u32", 96, 25), (5, 1, "lt.s32", 0, 1),
     (0, 3, "ne.s32", 10, None), (0, -1, "lt.s32", 10, None), (-9, 1, "lt.u32", 10, None), (0, 1, "eq.s32", 1, 2),
     (0, "%r2", "lt.s32", 10, None), (0, 1, "lt.s32", "%r2", None), ("%r2", 1, "lt.s32", 10, None)],
)  # fmt: skip
def test_the_trip_count_follows_from_constant_start_step_and_bound(start, step, test, bound, turns):
    body = COUNTED.replace("START", str(start)).replace("STEP", str(step)).replace("TEST", test)
    assert turns_in_ptx(body.replace("BOUND", str(bound))) == turns


@pytest.mark.parametrize(
    ("old", "new"),
    [("add.s32", "@%p2 add.s32"), ("fma", "@%p2 bra out; fma"), ("fma", "@%p2 ret; fma"),
     ("fma", "add.s32 %r1, %r1, %r2; fma"), ("mov.u32 %r1", "@%p2 bra other; mov.u32 %r1, 7; other: @%p2 mov.u32 %r1"),
     ("loop:", "bra loop; before: mov.u32 %r1, 1; loop:")],
)  # fmt: skip
def test_a_trip_count_that_depends_on_anything_else_is_not_known(old, new):
    body = COUNTED.replace("START", "0").replace("STEP", "1").replace("TEST", "lt.s32").replace("BOUND", "9")
    assert turns_in_ptx(body) == 9
    assert turns_in_ptx(body.replace(old, new) + "out:") is None


# As ptxas emits them: a break merged with the branch, a counter compared as another register, uniform registers.
IN_SASS = {
    50: ("UMOV UR4, URZ", "FADD R7, R7, 1.5", "UIADD3 UR4, UPT, UPT, UR4, 0x1, URZ",
         "UISETP.NE.AND UP0, UPT, UR4, 0x32, UPT", "BRA.U UP0, 0x10"),
    10: ("UMOV UR5, URZ", "UIADD3 UR6, UPT, UPT, UR5, 0x14, URZ", "UIADD3 UR5, UPT, UPT, UR5, -0x2, URZ",
         "UISETP.GT.U32.AND UP0, UPT, UR6, 0x2, UPT", "BRA.U UP0, 0x10"),
    100: ("HFMA2.MMA R0, -RZ, RZ, 0, 0", "ISETP.GE.U32.AND P0, PT, R0.reuse, 0x63, PT", "IADD3 R0, R0, 0x1, RZ",
          "@!P0 BRA 0x10"),
    None: ("IMAD.MOV.U32 R0, RZ, RZ, RZ", "ISETP.GE.U32.AND P0, PT, R0.reuse, 0x63, PT", "IADD3 R0, R0, 0x1, RZ",
           "FSETP.LEU.AND P1, PT, R7, 9, PT", "@!P0 BRA P1, 0x10"),
}  # fmt: skip


@pytest.mark.parametrize("turns", IN_SASS)
def test_trip_counts_are_found_in_sass_too(turns):
    assert turns_of(sass_body(*IN_SASS[turns], "EXIT")) == turns


def test_a_counter_in_the_second_register_of_a_wide_load_has_no_known_start():
    code = ("MOV R1, RZ", "LDG.E.64 R0, desc[UR4][R2.64]", "IADD3 R1, R1, 0x1, RZ",
            "ISETP.NE.AND P0, PT, R1, 0x9, PT", "@P0 BRA 0x20", "EXIT")  # fmt: skip
    assert turns_of(sass_body(*code)) is None
