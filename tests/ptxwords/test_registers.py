"""What registers and parameters hold: pointers, parameters and indices."""

import pytest

from kernellab.machinecode.ptx import parse_ptx
from kernellab.ptxwords.explain import explain_ptx
from support.machine_code import TINY_PTX


@pytest.fixture(scope="module")
def tiny():
    return explain_ptx(parse_ptx(TINY_PTX))


def sentence(lines, text):
    return next(line.words for line in lines if line.text.startswith(text))


def parameters(lines):
    return [line.words for line in lines if line.words.startswith("parameter")]


def test_pointers_are_distinguished_from_integers_even_if_undeclared(tiny):
    assert parameters(tiny) == [
        "parameter 0: a pointer to global memory",
        "parameter 1: a pointer (it is used as an address)",
        "parameter 2: an integer of 32 bits",
        "parameter 3: a number (fp32)",
    ]


def test_a_scaled_index_is_added_to_a_pointer_and_is_not_one():
    loads = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [n]; ld.param.u32 %r1, [i];"
    adds = "mad.wide.u32 %rd3, %r1, 4, %rd1; mad.lo.s64 %rd4, %rd2, 4, %rd3; ld.global.f32 %f1, [%rd4];"
    kernel = f".entry k(.param .u64 a, .param .u64 n, .param .u32 i) {{ {loads} {adds} }}"
    first, second, _ = parameters(explain_ptx(parse_ptx(kernel)))
    assert first == "parameter 0: a pointer (it is used as an address)"
    assert second == "parameter 1: an integer of 64 bits"


def test_pointers_that_a_condition_chooses_from_are_pointers():
    loads = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [n];"
    chosen = "selp.b64 %rd4, %rd1, %rd2, %p1; shl.b64 %rd5, %rd3, 2; add.s64 %rd6, %rd4, %rd5;"
    kernel = f".entry k(.param .u64 a, .param .u64 b, .param .u64 n) {{ {loads} {chosen} ld.global.f32 %f1, [%rd6]; }}"
    *pointers, last = parameters(explain_ptx(parse_ptx(kernel)))
    assert pointers == [f"parameter {i}: a pointer (it is used as an address)" for i in (0, 1)]
    assert last == "parameter 2: an integer of 64 bits"


def test_a_parameter_that_is_not_read_is_marked():
    assert parameters(explain_ptx(parse_ptx(".entry k(.param .u32 n) { ret; }"))) == [
        "parameter 0: an integer of 32 bits, not read by this kernel"
    ]


def test_registers_are_named_with_what_they_hold(tiny):
    assert "%r3 (block index x) × 64 + %r2 (thread index x)" in sentence(tiny, "mad.lo.s32")
    assert "%rd1 (pointer 0)" in sentence(tiny, "add.s64 %rd5")


def test_nothing_is_said_about_a_register_that_is_set_twice():
    text = ".entry k(.param .u32 n) { ld.param.u32 %r1, [n]; @%p1 mov.u32 %r1, 5; add.s32 %r2, %r1, 1; ret; }"
    assert sentence(explain_ptx(parse_ptx(text)), "add").startswith("computes %r1 + 1 into %r2 ")
