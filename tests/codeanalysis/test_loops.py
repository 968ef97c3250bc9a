"""The loops of a kernel: found in PTX and SASS, nested, waiting, and counted by their trip counts."""

from kernellab.codeanalysis.facts import facts_from_cubin, facts_from_ptx
from kernellab.codeanalysis.loops import find_hottest, find_loops
from kernellab.machinecode.ptx import parse_ptx
from support import shipped_code
from support.machine_code import TINY_PTX, kernel_ptx, sass_body


def loops_of(ptx):
    return find_loops(parse_ptx(ptx).kernels[0].body)


def test_a_loop_in_ptx_has_a_label_instructions_and_source_lines():
    (loop,) = loops_of(TINY_PTX)
    assert (loop.label, loop.depth, loop.waits) == ("$L_loop", 1, False)
    assert (loop.instructions["special"], loop.instructions["fp32"]) == (1, 2)
    assert loop.sources == ("tiny.cu:13",)
    assert loop.statement == "tiny.cu:13"


def test_loops_of_a_compiled_kernel_are_the_same_in_ptx_and_sass():
    code, _ = shipped_code.compiled("softmax", "triton", cols=50_000)
    (in_sass,) = facts_from_cubin(code.cubin, code.ptx)
    (in_ptx,) = facts_from_ptx(parse_ptx(code.ptx))
    assert [loop.depth for loop in in_sass.loops] == [loop.depth for loop in in_ptx.loops] == [1, 1]
    hottest = [next(loop for loop in facts.loops if loop.hottest) for facts in (in_sass, in_ptx)]
    assert hottest[0].instructions["special"] == hottest[1].instructions["special"] > 0
    assert hottest[0].instructions["global_load"] == hottest[1].instructions["global_load"]


NESTED = """
outer: mov.u32 %r2, 0;
inner: add.s32 %r2, %r2, 1;
setp.lt.s32 %p1, %r2, 9;
@%p1 bra inner;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p2, %r1, 9;
@%p2 bra outer;
{ wait: mbarrier.try_wait.parity.shared.b64 %p3, [%r9], 0; @!%p3 bra wait; }
{ wait: mbarrier.try_wait.parity.shared.b64 %p3, [%r9], 1; @!%p3 bra wait; }
bra end;
never: bra never;
end:"""


def test_nested_and_waiting_loops_are_found_and_unreachable_ones_are_not():
    loops = loops_of(kernel_ptx(NESTED))
    assert [(loop.label, loop.depth, loop.waits) for loop in loops] == [
        ("outer", 1, False),
        ("inner", 2, False),
        ("wait", 1, True),
        ("wait", 1, True),
    ]
    assert find_hottest(loops).label == "inner"


def test_a_branch_with_its_condition_as_an_operand_may_fall_through():
    (loop,) = find_loops(sass_body("BRA.U UP0, 0x20", "FADD R0, R0, R1", "BRA.U !UP1, 0x0", "EXIT"))
    assert loop.instructions["fp32"] == 1


INNER = """mov.u32 %r1, 0;
loop: fma.rn.f32 %f1, %f1, %f1, %f2;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p1, %r1, 10;
@%p1 bra loop;"""
OUTER = f"""ld.global.f32 %f1, [%rd0];
mov.u32 %r3, 0;
outer: {INNER}
fma.rn.f32 %f1, %f1, %f1, %f2;
add.s32 %r3, %r3, 1;
setp.lt.s32 %p2, %r3, 10;
@%p2 bra outer;"""


def test_instructions_of_a_loop_are_multiplied_by_its_trip_count():
    (facts,) = facts_from_ptx(parse_ptx(kernel_ptx(OUTER)))
    assert (facts.instructions["fp32"], facts.executed["fp32"]) == (2, 110)
    assert facts.executed["global_load"] == 1
    assert [(loop.label, loop.turns, loop.executed["fp32"]) for loop in facts.loops] == [
        ("outer", 10, 11),
        ("loop", 10, 1),
    ]


def test_a_loop_without_a_known_trip_count_counts_once():
    (facts,) = facts_from_ptx(parse_ptx(kernel_ptx(OUTER.replace("%r3, 10", "%r3, %r9"))))
    assert facts.executed["fp32"] == 11
