"""Small kernels in PTX and SASS for the tests of parsers and analyses."""

from __future__ import annotations

from kernellab.codeanalysis.facts import KernelFacts, facts_from_cubin
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.instructions import Line
from kernellab.machinecode.ptx import PtxFunction, parse_ptx
from kernellab.machinecode.sass import parse_sass
from kernellab.ptxwords.explain import explain_ptx
from support.klab import HERE

TINY_PTX = (HERE / "samples" / "tiny.ptx").read_text()

# Loads through x at a distance of `stride` elements between lanes; BODY is replaced.
_STRIDED_KERNEL = """.version 8.7
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
# %r2 is the thread's index, %r1 the stride and %rd1 the pointer x.
STRIDED_LOAD = """	mul.lo.s32 %r3, %r2, %r1;
	mul.wide.s32 %rd2, %r3, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.b32 %r4, [%rd3];"""


def strided_ptx(body: str) -> str:
    return _STRIDED_KERNEL.replace("BODY", body)


def strided_kernel(body: str) -> PtxFunction:
    (kernel,) = parse_ptx(strided_ptx(body)).kernels
    return kernel


def kernel_ptx(body: str, params: str = ".param .u64 p", before: str = "") -> str:
    """A module with one kernel `k` around a body that may use any register; %rd0 holds the pointer p."""
    head = ".version 7.0\n.target sm_75\n.address_size 64\n"
    registers = ".reg .pred %p<9>; .reg .b32 %r<400>; .reg .b64 %rd<99>; .reg .f32 %f<99>; .reg .f64 %fd<99>;"
    return f"{head}.visible .entry k({params}) {{ {registers} {before}\n ld.param.u64 %rd0, [p];\n{body}\n ret; }}\n"


def crowded_ptx(count: int, limit: str = " .maxnreg 24") -> str:
    """A kernel that keeps `count` values live at once, with 24 registers allowed."""
    loads = "\n".join(f"ld.volatile.global.u32 %r{i}, [%rd0+{4 * i}];" for i in range(count))
    stores = "\n".join(f"st.volatile.global.u32 [%rd0+{4 * i}], %r{count - 1 - i};" for i in range(count))
    return kernel_ptx(f"{loads}\nbar.sync 0;\n{stores}").replace("k(.param .u64 p) {", f"k(.param .u64 p){limit} {{")


def local_array_ptx() -> str:
    """A kernel with an array in local memory, indexed at run time."""
    body = """ld.global.u32 %r1, [%rd0]; mov.u64 %rd1, array; cvta.local.u64 %rd2, %rd1;
    st.local.u32 [array], %r1; st.local.u32 [array+4], %r1; and.b32 %r2, %r1, 7; mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3; ld.local.u32 %r3, [%rd4]; st.global.u32 [%rd0], %r3;"""
    return kernel_ptx(body, before=".local .align 4 .b8 array[64];")


def assembled_facts(ptx: str, arch: str = "sm_75") -> KernelFacts:
    """The facts of the only kernel of a module, as the assembler compiles it."""
    assembled = assemble(ptx, arch)
    (facts,) = facts_from_cubin(assembled.cubin, ptx, ptxas_log=assembled.log)
    return facts


def sass_body(*lines: str) -> list[Line]:
    """Instructions of SASS at the addresses 0x0, 0x10, …"""
    text = "\n".join(f"/*{16 * i:04x}*/ {line} ;" for i, line in enumerate(lines))
    return parse_sass(f"Function : k\n{text}\n").functions[0].body


def explain_instruction(text: str) -> str:
    """The sentence for one instruction; "unknown" if there is none."""
    (line,) = [line for line in explain_ptx(parse_ptx(f".entry k() {{ {text}; }}")) if line.text == f"{text};"]
    return line.words if line.known else "unknown"
