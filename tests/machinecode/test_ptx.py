"""PTX is parsed into modules, kernels and instructions; damaged text is listed as problems."""

import pytest

from kernellab.machinecode.cubin import read_cubin
from kernellab.machinecode.instructions import Directive, Guard, Label, Source, instructions
from kernellab.machinecode.ptx import parse_ptx
from support import shipped_code
from support.machine_code import TINY_PTX


def instruction(module, text):
    """The first instruction of a module that begins with this text."""
    return next(line for line in instructions(module.functions[0].body) if line.text.startswith(text))


@pytest.fixture(scope="module")
def tiny():
    return parse_ptx(TINY_PTX)


def test_a_module_has_a_version_a_target_and_variables(tiny):
    assert (tiny.version, tiny.target, tiny.address_size) == ("7.0", "sm_75", 64)
    assert tiny.problems == []
    assert [(v.name, v.space, v.count) for v in tiny.variables] == [("dynamic", "shared", 0)]


def test_a_kernel_has_parameters_registers_and_launch_limits(tiny):
    (kernel,) = tiny.kernels
    assert [(p.name, p.type, p.pointer) for p in kernel.params] == [
        ("tiny_x", "u64", True),
        ("tiny_y", "u64", False),
        ("tiny_n", "u32", False),
        ("tiny_a", "f32", False),
    ]
    assert kernel.params[0].alignment == 16
    assert kernel.directive_numbers(".maxntid") == (64, 2, 1)
    assert kernel.directive_numbers(".reqntid") == ()
    assert ("f32", "%f", 12) in [(r.type, r.prefix, r.count) for r in kernel.registers]
    assert [(v.name, v.count) for v in kernel.variables] == [("kept", 256)]


def test_an_instruction_has_opcode_guard_and_operands(tiny):
    load = instruction(tiny, "@%p1 ld.global")
    assert (load.base, load.modifiers, load.guard) == ("ld", ("global", "v4", "f32"), Guard("%p1", False))
    assert [part.name for part in load.operands[0].parts] == ["%f2", "%f3", "%f4", "%f5"]
    assert (load.operands[1].kind, load.operands[1].name, load.operands[1].value) == ("address", "%rd5", 0)
    assert instruction(tiny, "@!%p1 bra").guard == Guard("%p1", True)
    assert instruction(tiny, "mov.f32 %f6").operands[1].value == 1.0
    assert instruction(tiny, "ld.shared").operands[1].name == "%r7"


def test_instructions_have_their_source_line_even_though_files_are_declared_last(tiny):
    assert instruction(tiny, "fma").source == Source("/somewhere/tiny.cu", 13, 5)
    assert TINY_PTX.splitlines()[instruction(tiny, "fma").line - 1].strip().startswith("fma")


def test_labels_are_local_to_their_block(tiny):
    body = tiny.kernels[0].body
    scopes = {line.name: line.scope for line in body if isinstance(line, Label)}
    assert scopes["$L_loop"] == ()
    assert len(scopes["skip"]) == 1
    assert [line.name for line in body if isinstance(line, Directive) and line.name in "{}"] == ["{", "}"]


@pytest.mark.parametrize(
    ("text", "kind", "name", "value"),
    [
        ("[%rd4+16]", "address", "%rd4", 16),
        ("[%rd4+-8]", "address", "%rd4", -8),
        ("[ %rd4 + 0 ]", "address", "%rd4", 0),
        ("[table+4]", "address", "table", 4),
        ("[%rd1, {%r1, %r2}]", "address", "%rd1", 0),
        ("0fBF000000", "immediate", "", -0.5),
        ("0d3FF0000000000000", "immediate", "", 1.0),
        ("-7", "immediate", "", -7),
        ("0x10", "immediate", "", 16),
        ("%tid.x", "register", "%tid.x", None),
        ("%r1|%p1", "pair", "", None),
        ("(%r1, %r2)", "group", "", None),
    ],
)
def test_every_kind_of_operand_is_parsed(text, kind, name, value):
    module = parse_ptx(f".visible .entry k() {{ op.b32 %r0, {text}; }}")
    operand = instructions(module.functions[0].body)[0].operands[1]
    assert (operand.kind, operand.name, operand.value) == (kind, name, value)
    assert module.problems == []


def test_calls_branch_tables_and_pragmas_are_parsed():
    text = """.func (.param .b32 out) helper(.param .b32 in) { ret; }
    .visible .entry k(.param .align 8 .b8 struct[24]) .reqntid 32 {
      .pragma "nounroll";
      { .param .b32 p; call.uni (p), helper, (p); }
      targets: .branchtargets a, b;
      brx.idx %r1, targets;
      a: b: /* nothing
      here */ exit; }"""
    module = parse_ptx(text)
    assert module.problems == []
    assert [(f.name, f.is_kernel) for f in module.functions] == [("helper", False), ("k", True)]
    assert module.kernels[0].params[0].count == 24
    call = next(line for line in instructions(module.kernels[0].body) if line.base == "call")
    assert [o.kind for o in call.operands] == ["group", "symbol", "group"]
    assert call.operands[1].name == "helper"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".visible .entry k() { mov.u32 %r1, ; ret; }", "missing"),
        (".visible .entry k() { mov.u32 %r1, %r2 }", "semicolon"),
        (".visible .entry k() { ld.global.u32 %r1, [%rd1; ret; }", "missing"),
        (".visible .entry k() { ret;", "no end"),
        (".visible .entry", "no name"),
        ("nonsense", "not expected"),
        (".visible .entry k() { @%p1; ret; }", "guarded"),
        (".visible .entry k() { x.y " + "[" * 50 + "; ret; }", "too deeply"),
    ],
)
def test_damaged_ptx_is_a_problem_with_its_line_not_an_exception(text, message):
    module = parse_ptx(f"\n{text}\n")
    assert any(message in problem.message for problem in module.problems), module.problems
    assert module.problems[0].line == 2


def test_instructions_after_a_damaged_one_are_still_parsed():
    module = parse_ptx(".visible .entry k() { mov.u32 %r1, ; add.s32 %r1, %r2, %r3; ret; }")
    assert [line.base for line in instructions(module.kernels[0].body)] == ["add", "ret"]


@pytest.mark.parametrize("impl", shipped_code.IMPLS)
def test_the_output_of_compilers_is_parsed_without_problems(impl):
    for code in shipped_code.compiled("softmax", impl):
        module = parse_ptx(code.ptx)
        assert module.problems == []
        assert [k.name for k in module.kernels] == [k.name for k in read_cubin(code.cubin).kernels]
        files = {line.source.file.rpartition("/")[2] for line in instructions(module.kernels[0].body) if line.source}
        assert files & {"triton.py", "cuda.cu"}
