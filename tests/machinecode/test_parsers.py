"""PTX, SASS and cubins are read for what they say; what is damaged is listed."""

import re
import subprocess

import pytest

from kernellab.base.errors import UserError
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble, read_cubin
from kernellab.machinecode.instructions import Directive, Guard, Label, Source, instructions
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass
from support import shipped_code
from support.klab import HERE

TINY = (HERE / "samples" / "tiny.ptx").read_text()


def instruction(module, text):
    """The first instruction of a module that begins so."""
    return next(line for line in instructions(module.functions[0].body) if line.text.startswith(text))


@pytest.fixture(scope="module")
def tiny():
    return parse_ptx(TINY)


# PTX -------------------------------------------------------------------------------------------------------


def test_a_module_says_what_it_is_for(tiny):
    assert (tiny.version, tiny.target, tiny.address_size) == ("7.0", "sm_75", 64)
    assert tiny.problems == []
    assert [(v.name, v.space, v.count) for v in tiny.variables] == [("dynamic", "shared", 0)]


def test_a_kernel_has_parameters_registers_and_demands(tiny):
    (kernel,) = tiny.kernels
    assert [(p.name, p.type, p.pointer) for p in kernel.params] == [
        ("tiny_x", "u64", True),
        ("tiny_y", "u64", False),
        ("tiny_n", "u32", False),
        ("tiny_a", "f32", False),
    ]
    assert kernel.params[0].alignment == 16
    assert kernel.numbers(".maxntid") == (64, 2, 1)
    assert kernel.numbers(".reqntid") == ()
    assert ("f32", "%f", 12) in [(r.type, r.prefix, r.count) for r in kernel.registers]
    assert [(v.name, v.count) for v in kernel.variables] == [("kept", 256)]


def test_an_instruction_is_taken_apart(tiny):
    load = instruction(tiny, "@%p1 ld.global")
    assert (load.base, load.modifiers, load.guard) == ("ld", ("global", "v4", "f32"), Guard("%p1", False))
    assert [part.name for part in load.operands[0].parts] == ["%f2", "%f3", "%f4", "%f5"]
    assert (load.operands[1].kind, load.operands[1].name, load.operands[1].value) == ("address", "%rd5", 0)
    assert instruction(tiny, "@!%p1 bra").guard == Guard("%p1", True)
    assert instruction(tiny, "mov.f32 %f6").operands[1].value == 1.0
    assert instruction(tiny, "ld.shared").operands[1].name == "%r7"


def test_instructions_know_the_line_they_come_from_though_files_are_named_last(tiny):
    assert instruction(tiny, "fma").source == Source("/somewhere/tiny.cu", 13, 5)
    assert TINY.splitlines()[instruction(tiny, "fma").line - 1].strip().startswith("fma")


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
def test_operands_of_every_kind(text, kind, name, value):
    module = parse_ptx(f".visible .entry k() {{ op.b32 %r0, {text}; }}")
    operand = instructions(module.functions[0].body)[0].operands[1]
    assert (operand.kind, operand.name, operand.value) == (kind, name, value)
    assert module.problems == []


def test_calls_tables_and_hints_are_read():
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
    assert [(f.name, f.kernel) for f in module.functions] == [("helper", False), ("k", True)]
    assert module.kernels[0].params[0].count == 24
    call = next(line for line in instructions(module.kernels[0].body) if line.base == "call")
    assert [o.kind for o in call.operands] == ["group", "symbol", "group"]
    assert call.operands[1].name == "helper"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".visible .entry k() { mov.u32 %r1, ; ret; }", "missing"),
        (".visible .entry k() { mov.u32 %r1, %r2 }", "semicolon"),
        (".visible .entry k() { ld.global.u32 %r1, [%rd1; ret; }", "missing"),
        (".visible .entry k() { ret;", "no end"),
        (".visible .entry", "no name"),
        ("nonsense", "not expected"),
        (".visible .entry k() { @%p1; ret; }", "guarded"),
        (".visible .entry k() { x.y " + "[" * 50 + "; ret; }", "deep"),
    ],
)
def test_damaged_ptx_is_a_problem_with_its_line_not_a_crash(text, said):
    module = parse_ptx(f"\n{text}\n")
    assert any(said in problem.what for problem in module.problems), module.problems
    assert module.problems[0].line == 2


def test_what_follows_a_damaged_instruction_is_still_read():
    module = parse_ptx(".visible .entry k() { mov.u32 %r1, ; add.s32 %r1, %r2, %r3; ret; }")
    assert [line.base for line in instructions(module.kernels[0].body)] == ["add", "ret"]


@pytest.mark.parametrize(("build", "name"), [("triton_kernel", "softmax_tile"), ("cuda_kernel", "softmax_block")])
def test_what_compilers_write_is_read_without_a_problem(build, name):
    code = getattr(shipped_code, build)(name, "fp32", 90)
    module = parse_ptx(code.ptx)
    assert module.problems == []
    assert [k.name for k in module.kernels] == [k.name for k in read_cubin(code.cubin).kernels]
    files = {line.source.file.rpartition("/")[2] for line in instructions(module.kernels[0].body) if line.source}
    assert files & {"triton.py", "cuda.cu"}


# SASS ------------------------------------------------------------------------------------------------------

SASS = """
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"
	.section	.text.k,"ax",@progbits
k:
.text.k:
	//## File "/a/k.py", line 7
        /*0000*/                   MOV R1, c[0x0][0x28] ;    /* 0x00000a00ff017b82 */
                                                             /* 0x000e220000000800 */
.L_x_0:
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R6.64+0x10] ;
        /*0020*/                   FFMA R0, -R4, |R5|, -2.5e-3 ;
        /*0030*/               @P1 BRA `(.L_x_0) ;
        /*0040*/                   EXIT ;
"""


def test_sass_is_taken_apart():
    module = parse_sass(SASS)
    assert (module.arch, module.problems, [f.name for f in module.functions]) == ("sm_80", [], ["k"])
    move, load, fma, branch, end = instructions(module.functions[0].body)
    assert (load.base, load.guard, load.address) == ("LDG", Guard("P0", True), 0x10)
    assert "128" in load.modifiers
    assert (load.operands[1].name, load.operands[1].value) == ("R6", 16)
    assert [o.kind for o in fma.operands] == ["register", "register", "register", "immediate"]
    assert (fma.operands[1].negated, fma.operands[3].value) == (True, -2.5e-3)
    assert branch.operands[0].name == ".L_x_0"
    assert end.opcode == "EXIT"
    assert move.source == Source("/a/k.py", 7)


def test_scheduling_after_the_operands_is_passed_over():
    text = (
        "Function : k\n/*0250*/ @P0 BRA `(.L_x_1) &req={0,1} ?trans5;\n/*0260*/ LDC R1, c[0x0][0x37c] &wr=0x0 ?WAIT4;"
    )
    branch, load = instructions(parse_sass(text).functions[0].body)
    assert (branch.operands[0].name, branch.text) == (".L_x_1", "@P0 BRA `(.L_x_1)")
    assert (len(load.operands), load.operands[1].value) == (2, 0x37C)


def test_both_of_nvidias_disassemblers_tell_the_same_story(tmp_path):
    cubin = shipped_code.triton_kernel("tanh_flat", "fp32", 90).cubin
    by_nvdisasm = parse_sass(disassemble(cubin))
    (tmp_path / "k.cubin").write_bytes(cubin)
    command = [cuda_tools.require("cuobjdump"), "-sass", tmp_path / "k.cubin"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    by_cuobjdump = parse_sass(told.stdout)
    assert by_cuobjdump.problems == by_nvdisasm.problems == []
    assert by_cuobjdump.arch == by_nvdisasm.arch == "sm_90a"
    codes = [[i.opcode for i in instructions(m.functions[0].body)] for m in (by_nvdisasm, by_cuobjdump)]
    assert codes[0] == codes[1]


# Cubins ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120"])
def test_a_cubin_says_for_which_gpu_it_is(arch):
    built = assemble(TINY.replace("sm_75", arch).replace(".version 7.0", ".version 8.7"), arch)
    assert read_cubin(built.cubin).arch == arch
    assert parse_sass(disassemble(built.cubin)).arch == arch


@pytest.mark.parametrize("arch", shipped_code.ARCHS)
def test_nvrtcs_cubins_say_it_too(arch):
    assert read_cubin(shipped_code.cuda_kernel("Square_map_flat", "fp32", arch).cubin).arch == f"sm_{arch}"


def test_a_cubins_numbers_are_the_assemblers():
    built = assemble(TINY, "sm_75")
    (kernel,) = read_cubin(built.cubin).kernels
    said = re.search(r"Used (\d+) registers, used (\d+) barriers, (\d+) bytes smem", built.log)
    assert (kernel.registers, kernel.barriers, kernel.shared_bytes) == tuple(map(int, said.groups()))
    assert (kernel.threads, kernel.threads_required) == ((64, 2, 1), False)
    assert kernel.param_bytes == (8, 8, 4, 4)


def test_the_systems_kilobyte_is_not_the_kernels_shared_memory():
    built = assemble(TINY.replace("sm_75", "sm_90").replace("7.0", "8.0"), "sm_90")
    assert read_cubin(built.cubin).kernels[0].shared_bytes == 256


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no cubin"),
        (b"GIF89a", "no cubin"),
        (b"\x7fELF", "damaged"),
        (b"\x7fELF" + bytes(60), "no code for NVIDIA"),
    ],
)
def test_what_is_no_cubin_is_a_sentence(data, said):
    with pytest.raises(UserError, match=said):
        read_cubin(data)


def test_a_cut_off_cubin_is_a_sentence():
    cubin = assemble(TINY, "sm_75").cubin
    with pytest.raises(UserError, match="cut off"):
        disassemble(cubin[: len(cubin) // 2])
