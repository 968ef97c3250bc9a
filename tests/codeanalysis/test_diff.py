"""Comparing two kernels: another register is no difference, another value or instruction is one."""

import re

from kernellab.codeanalysis.diff import align, compare_kernels
from kernellab.codeanalysis.facts import facts_from_ptx
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import parse_ptx
from support.machine_code import TINY_PTX as TINY


def code(text):
    return instructions(parse_ptx(text).kernels[0].body)


def kernel(*lines):
    return code(f".entry k() {{ {' '.join(f'{line};' for line in lines)} }}")


def kinds(left, right):
    return [row.kind for row in align(left, right)]


def test_a_kernel_is_identical_to_itself():
    (facts,) = facts_from_ptx(parse_ptx(TINY))
    diff = compare_kernels(facts, facts, code(TINY), code(TINY))
    assert diff.identical
    assert [row.kind for row in diff.rows] == ["same"] * len(code(TINY))
    assert not any(pair.differs for pair in diff.facts)
    assert diff.opcodes == []


def test_renumbered_registers_and_renamed_labels_are_no_difference():
    renamed = re.sub(r"%(rd|r|f|p)(\d+)\b", lambda m: f"%{m[1]}{int(m[2]) + 100}", TINY).replace("$L_loop", "$L__BB0_1")
    assert set(kinds(code(TINY), code(renamed))) == {"same"}


def test_the_same_instruction_on_another_value_is_marked():
    left = kernel("ld.global.f32 %f1, [%rd1]", "ld.global.f32 %f2, [%rd1+4]", "add.f32 %f3, %f1, %f2")
    right = kernel("ld.global.f32 %f1, [%rd1]", "ld.global.f32 %f2, [%rd1+4]", "add.f32 %f3, %f2, %f2")
    assert kinds(left, right) == ["same", "same", "values"]


def test_instructions_after_an_insertion_stay_aligned():
    lines = ["ld.global.f32 %f1, [%rd1]", "mul.f32 %f2, %f1, %f1", "st.global.f32 [%rd2], %f2"]
    more = [lines[0], lines[1], "mul.f32 %f3, %f2, 0f40000000", "st.global.f32 [%rd2], %f3"]
    rows = align(kernel(*lines), kernel(*more))
    assert [row.kind for row in rows] == ["same", "same", "right", "values"]
    assert rows[2].left is None


def test_constants_widths_and_guards_are_differences():
    left = kernel("mul.wide.s32 %rd1, %r1, 4", "ld.global.f32 %f1, [%rd1]")
    assert kinds(left, kernel("mul.wide.s32 %rd1, %r1, 2", "ld.global.f32 %f1, [%rd1]")) == ["changed", "same"]
    assert kinds(left, kernel("mul.wide.s32 %rd1, %r1, 4", "ld.global.f32 %f1, [%rd1+8]")) == ["same", "changed"]
    assert kinds(left, kernel("mul.wide.s32 %rd1, %r1, 4", "@%p1 ld.global.f32 %f1, [%rd1]")) == ["same", "changed"]


def test_facts_are_paired_and_opcodes_sorted_by_the_size_of_their_change():
    other = TINY.replace("add.f32 %f4, %f4, %f7;", "add.f32 %f4, %f4, %f7;" + "sin.approx.f32 %f9, %f4;" * 3)
    other = other.replace(".maxntid 64, 2, 1", ".maxntid 64, 1, 1").replace("ret;", "exit;")
    (left,), (right,) = (facts_from_ptx(parse_ptx(text)) for text in (TINY, other))
    diff = compare_kernels(left, right, code(TINY), code(other))
    threads = next(pair for pair in diff.facts if pair.name == "threads")
    assert (threads.left, threads.right, threads.differs) == ((64, 2, 1), (64, 1, 1), True)
    first = diff.opcodes[0]
    assert (first.name, first.left, first.right) == ("sin.approx.f32", 0, 3)
    assert {pair.name for pair in diff.opcodes} == {"sin.approx.f32", "ret", "exit"}
    special = next(pair for pair in diff.classes if pair.name == "special")
    assert (special.left, special.right) == (1, 4)
    assert not diff.identical
