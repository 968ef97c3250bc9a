"""PTX explained line by line: a sentence for every line, or "unknown"."""

import pytest

from kernellab.machinecode.ptx import parse_ptx
from kernellab.ptxwords.explain import explain_ptx
from support.machine_code import TINY_PTX, explain_instruction


@pytest.fixture(scope="module")
def tiny():
    return explain_ptx(parse_ptx(TINY_PTX))


def line_with(lines, text):
    return next(line for line in lines if line.text.startswith(text))


def test_lines_are_in_the_order_of_the_text_with_their_numbers(tiny):
    text = TINY_PTX.splitlines()
    assert [line.line for line in tiny] == sorted(line.line for line in tiny)
    for line in tiny:
        assert line.text.split()[0] in text[line.line - 1]


def test_lines_have_the_source_line_they_come_from(tiny):
    assert line_with(tiny, "fma").source_line == "tiny.cu:13"
    assert line_with(tiny, ".maxntid").source_line is None


@pytest.mark.parametrize(
    ("directive", "sentence"),
    [
        (".maxntid 64, 2, 1", "may be launched with at most 128 threads per block: 4 warps × 32"),
        (".reqntid 96", "must be launched with exactly 96 threads per block: 3 warps × 32"),
        (".reqntid 32", "must be launched with exactly 32 threads per block: 1 warp × 32"),
        (".reqntid 48", "must be launched with exactly 48 threads per block: 1.5 warps of 32, the last one not full"),
        (".minnctapersm 2", "registers are limited so that 2 blocks fit on an SM at once"),
        (".maxnreg 1", "at most 1 register per thread"),
        (".reqnctapercluster 2, 2", "blocks are launched in clusters of 2 × 2"),
        (".frobnicate 2", "unknown: kernellab has no explanation of .frobnicate"),
    ],
)
def test_launch_limits_are_explained(directive, sentence):
    lines = explain_ptx(parse_ptx(f".entry k() {directive} {{ ret; }}"))
    assert line_with(lines, directive.split()[0]).words == sentence


def test_registers_are_said_to_be_virtual():
    text = ".entry k() { .reg .pred %p; .reg .b32 %a, %b, %r<4>;\n.reg .f32 %f<2>; ret; }"
    sentences = [line.words for line in explain_ptx(parse_ptx(text)) if line.text.startswith(".reg")]
    assert sentences == [
        "a virtual register for predicates (true or false): %p. "
        "How many physical registers the GPU needs is only in the cubin",
        "6 virtual registers for 32-bit values: %a, %b and %r0…%r3",
        "2 virtual registers for fp32: %f0…%f1",
    ]


def test_a_target_says_which_gpus_can_run_it():
    for target, compatibility in (
        ("sm_90a", "sm_90a only"),
        ("sm_100f", "sm_100f and its family"),
        ("sm_80", "and later"),
    ):
        (line,) = explain_ptx(parse_ptx(f".target {target}\n"))
        assert compatibility in line.words


def test_a_guarded_wide_load_says_what_it_moves_where_and_when(tiny):
    assert line_with(tiny, "@%p1 ld.global").words == (
        "only where %p1 is true: loads 16 bytes: 4 × fp32 from global memory at %rd5 into %f2…%f5"
    )
    assert line_with(tiny, "@!%p1 bra").words == "only where %p1 is false: jumps to $L_end"


@pytest.mark.parametrize("text", ["frobnicate.b32 %r1, %r2", "mov.u32 %r1", "shfl.sync.sideways.b32 %r1, %r2, 1, 2, 3"])
def test_an_instruction_that_is_not_understood_is_unknown(text):
    assert explain_instruction(text) == "unknown"
    (line,) = [line for line in explain_ptx(parse_ptx(f".entry k() {{ {text}; }}")) if not line.known]
    assert line.words.startswith("unknown: ")
