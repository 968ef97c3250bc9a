"""Facts about kernels: counted in the binary, equal to what NVIDIA's own tools say, with what stands out named."""

import json
from dataclasses import asdict

import pytest

from kernellab.base.errors import UserError
from kernellab.build import cuda
from kernellab.codeanalysis.control_flow import find_loops, hottest
from kernellab.codeanalysis.facts import facts, facts_of_ptx
from kernellab.machinecode import cuda_tools
from kernellab.machinecode.assembler import assemble, parse_spills
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass
from support import shipped_code
from support.klab import HERE

TINY = (HERE / "samples" / "tiny.ptx").read_text()


def of(ptx: str, arch: str = "sm_75"):
    built = assemble(ptx, arch)
    (found,) = facts(built.cubin, ptx, spill_log=built.log)
    return found


def kernel(body: str, params: str = ".param .u64 p", before: str = "") -> str:
    head = ".version 7.0\n.target sm_75\n.address_size 64\n"
    registers = ".reg .pred %p<9>; .reg .b32 %r<400>; .reg .b64 %rd<99>; .reg .f32 %f<99>; .reg .f64 %fd<99>;"
    return f"{head}.visible .entry k({params}) {{ {registers} {before}\n ld.param.u64 %rd0, [p];\n{body}\n ret; }}\n"


@pytest.fixture(scope="module")
def tiny():
    return of(TINY)


@pytest.mark.bare  # Triton's package brings the tools
def test_what_a_kernel_takes_and_is_made_of(tiny):
    assert (tiny.name, tiny.arch, tiny.shared_bytes, tiny.barriers) == ("tiny", "sm_75", 256, 1)
    assert tiny.registers > 8
    assert (tiny.threads, tiny.threads_required) == ((64, 2, 1), False)
    assert (tiny.spill_bytes, tiny.stack_bytes, tiny.counted_in) == (0, 0, "SASS")
    assert (tiny.widest_global_bytes, tiny.narrowest_global_bytes) == (16, 16)
    assert tiny.instructions["global_load"] == tiny.instructions["global_store"] == 1
    assert tiny.instructions["special"] >= 1
    assert tiny.predicated >= 2
    assert tiny.remarks == []
    assert "unknown" not in tiny.instructions


def test_facts_go_into_json_and_back(tiny):
    again = json.loads(json.dumps(asdict(tiny)))
    assert again["instructions"] == tiny.instructions
    assert {"kind": "global_load", "bytes": 16, "count": 1} in again["accesses"]


def test_ptx_alone_tells_what_it_can():
    (found,) = facts_of_ptx(parse_ptx(TINY))
    assert (found.registers, found.spill_bytes, found.stack_bytes) == (None, None, None)
    assert (found.counted_in, found.shared_bytes, found.threads) == ("PTX", 256, (64, 2, 1))
    assert (found.instructions["fp32"], found.instructions["special"]) == (2, 1)


def test_a_kernel_asked_for_by_a_wrong_name_is_refused():
    with pytest.raises(UserError, match="did you mean tiny"):
        facts(assemble(TINY, "sm_75").cubin, kernel="tinny")


# Loops -----------------------------------------------------------------------------------------------------


def test_loops_are_found_in_ptx_with_what_is_inside():
    (loop,) = find_loops(parse_ptx(TINY).kernels[0].body)
    assert (loop.label, loop.depth, loop.waits) == ("$L_loop", 1, False)
    assert (loop.instructions["special"], loop.instructions["fp32"]) == (1, 2)
    assert loop.sources == ("tiny.cu:13",)


def test_loops_of_a_compiled_kernel_are_the_same_in_ptx_and_sass():
    code = shipped_code.triton_kernel("softmax_wide", "fp32", 90)
    (found,) = facts(code.cubin, code.ptx)
    (in_ptx,) = facts_of_ptx(parse_ptx(code.ptx))
    assert [loop.depth for loop in found.loops] == [loop.depth for loop in in_ptx.loops] == [1, 1]
    hot = [next(loop for loop in one.loops if loop.hottest) for one in (found, in_ptx)]
    assert hot[0].instructions["special"] == hot[1].instructions["special"] > 0
    assert hot[0].instructions["global_load"] == hot[1].instructions["global_load"]


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


def test_nesting_waiting_and_unreachable_code():
    found = find_loops(parse_ptx(kernel(NESTED)).kernels[0].body)
    assert [(loop.label, loop.depth, loop.waits) for loop in found] == [
        ("outer", 1, False),
        ("inner", 2, False),
        ("wait", 1, True),
        ("wait", 1, True),
    ]
    assert hottest(found).label == "inner"


def test_a_branch_with_its_condition_as_an_operand_may_fall_through():
    code = ("BRA.U UP0, 0x20", "FADD R0, R0, R1", "BRA.U !UP1, 0x0", "EXIT")
    text = "\n".join(f"/*{16 * i:04x}*/ {line} ;" for i, line in enumerate(code))
    (loop,) = find_loops(parse_sass(text).functions[0].body)
    assert loop.instructions["fp32"] == 1


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
def test_turns_of_a_loop_with_constant_bounds_are_counted(start, step, test, bound, turns):
    body = COUNTED.replace("START", str(start)).replace("STEP", str(step)).replace("TEST", test)
    (loop,) = find_loops(parse_ptx(kernel(body.replace("BOUND", str(bound)))).kernels[0].body)
    assert loop.turns == turns


@pytest.mark.parametrize(
    ("old", "new"),
    [("add.s32", "@%p2 add.s32"), ("fma", "@%p2 bra out; fma"), ("fma", "@%p2 ret; fma"),
     ("fma", "add.s32 %r1, %r1, %r2; fma"), ("mov.u32 %r1", "@%p2 bra other; mov.u32 %r1, 7; other: @%p2 mov.u32 %r1"),
     ("loop:", "bra loop; before: mov.u32 %r1, 1; loop:")],
)  # fmt: skip
def test_turns_that_depend_on_anything_else_are_not_known(old, new):
    body = COUNTED.replace("START", "0").replace("STEP", "1").replace("TEST", "lt.s32").replace("BOUND", "9")
    (loop,) = find_loops(parse_ptx(kernel(body.replace(old, new) + "out:")).kernels[0].body)
    assert loop.turns is None


# As ptxas writes them: a break joined to the branch, a counter compared as another register, uniform registers.
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
def test_turns_are_read_from_sass_too(turns):
    text = "\n".join(f"/*{16 * i:04x}*/ {line} ;" for i, line in enumerate((*IN_SASS[turns], "EXIT")))
    (loop,) = find_loops(parse_sass(text).functions[0].body)
    assert loop.turns == turns


def test_a_counter_in_the_second_half_of_a_wide_result_is_not_taken_for_an_older_value():
    code = ("MOV R1, RZ", "LDG.E.64 R0, desc[UR4][R2.64]", "IADD3 R1, R1, 0x1, RZ",
            "ISETP.NE.AND P0, PT, R1, 0x9, PT", "@P0 BRA 0x20", "EXIT")  # fmt: skip
    text = "\n".join(f"/*{16 * i:04x}*/ {line} ;" for i, line in enumerate(code))
    (loop,) = find_loops(parse_sass(text).functions[0].body)
    assert loop.turns is None


def test_loops_count_as_often_as_they_turn_and_once_where_that_is_not_known():
    inner = COUNTED.replace("START", "0").replace("STEP", "1").replace("TEST", "lt.s32").replace("BOUND", "10")
    outer = (
        inner.replace("%r1", "%r3")
        .replace("loop", "outer")
        .replace("%p1", "%p2")
        .replace("fma.rn.f32", inner + "fma.rn.f32")
    )
    (found,) = facts_of_ptx(parse_ptx(kernel(f"ld.global.f32 %f1, [%rd0]; {outer}")))
    assert (found.instructions["fp32"], found.executed["fp32"]) == (2, 110)
    assert found.executed["global_load"] == 1
    assert [(loop.label, loop.turns, loop.executed["fp32"]) for loop in found.loops] == [
        ("outer", 10, 11),
        ("loop", 10, 1),
    ]
    (found,) = facts_of_ptx(parse_ptx(kernel(f"ld.global.f32 %f1, [%rd0]; {outer.replace('%r3, 10', '%r3, %r9')}")))
    assert found.executed["fp32"] == 11


# Spills and local memory -----------------------------------------------------------------------------------


def crowded(count: int) -> str:
    """A kernel that keeps many values alive at once, with few registers allowed."""
    loads = "\n".join(f"ld.volatile.global.u32 %r{i}, [%rd0+{4 * i}];" for i in range(count))
    stores = "\n".join(f"st.volatile.global.u32 [%rd0+{4 * i}], %r{count - 1 - i};" for i in range(count))
    return kernel(f"{loads}\nbar.sync 0;\n{stores}").replace("k(.param .u64 p) {", "k(.param .u64 p) .maxnreg 24 {")


def test_spills_are_told_by_the_assembler_and_from_the_sass_alike():
    ptx = crowded(60)
    built = assemble(ptx, "sm_75")
    said = parse_spills(built.log)["k"]
    (by_log,) = facts(built.cubin, ptx, spill_log=built.log)
    (by_sass,) = facts(built.cubin, ptx)
    (without_ptx,) = facts(built.cubin)
    assert by_log.spill_bytes == said.stored_bytes + said.loaded_bytes > 0
    assert by_sass.spill_bytes == by_log.spill_bytes
    assert "ptxas -v" in by_log.spill_known_by
    assert "declares no local array" in by_sass.spill_known_by
    assert without_ptx.spill_bytes is None
    assert "local array" in without_ptx.spill_known_by
    assert by_log.stack_bytes > 0
    (remark,) = [r for r in by_log.remarks if r.startswith("local memory")]
    assert f"by {by_log.instructions['local_store']} instructions" in remark
    assert "registers did not suffice" in remark


def test_where_all_255_registers_are_taken_no_more_are_advised():
    ptx = crowded(300).replace(" .maxnreg 24", "")
    found = of(ptx)
    assert found.registers == 255
    (remark,) = [r for r in found.remarks if r.startswith("local memory")]
    assert "255 registers did not suffice, and no thread can have more: smaller tiles" in remark
    (remark,) = [r for r in of(crowded(60)).remarks if r.startswith("local memory")]
    assert "no thread can have more" not in remark


ARRAY = """ld.global.u32 %r1, [%rd0]; mov.u64 %rd1, array; cvta.local.u64 %rd2, %rd1;
st.local.u32 [array], %r1; st.local.u32 [array+4], %r1; and.b32 %r2, %r1, 7; mul.wide.u32 %rd3, %r2, 4;
add.s64 %rd4, %rd1, %rd3; ld.local.u32 %r3, [%rd4]; st.global.u32 [%rd0], %r3;"""


def test_an_array_in_local_memory_is_no_spill(monkeypatch):
    ptx = kernel(ARRAY, before=".local .align 4 .b8 array[64];")
    built = assemble(ptx, "sm_75")
    (found,) = facts(built.cubin, ptx)
    assert (found.spill_bytes, found.spill_known_by) == (0, "ptxas -v, run again on the PTX")
    assert found.instructions["local_load"] == 1
    assert found.stack_bytes > 0
    (remark,) = [r for r in found.remarks if r.startswith("local memory")]
    assert "an array the registers cannot index: an index known when compiling" in remark
    there = cuda_tools.find
    monkeypatch.setattr(cuda_tools, "find", lambda name: () if name == "ptxas" else there(name))
    (found,) = facts(built.cubin, ptx)
    assert found.spill_bytes is None


# What stands out -------------------------------------------------------------------------------------------

DOUBLE = """ld.global.f32 %f1, [%rd0]; cvt.f64.f32 %fd1, %f1; mul.f64 %fd2, %fd1, 0d3FE6A09E667F3BCD;
cvt.rn.f32.f64 %f2, %fd2; add.f32 %f3, %f2, %f1; st.global.f32 [%rd0], %f3;"""


SINE = """
extern "C" __global__ void sine(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]); }
extern "C" __global__ void both(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]) + cosf(2 * x[threadIdx.x]); }
extern "C" __global__ void scaled(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]) * 0.7; }
"""


def test_what_comes_with_sines_is_told_from_the_authors_own(tmp_path):
    """For large arguments they use doubles and a local array."""
    (tmp_path / "sine.cu").write_text(SINE)
    slow = "the slow path of sinf or cosf, which large arguments take"
    built = cuda.kernel(tmp_path / "sine.cu", "sine").compile("sm_90")
    told = {one.name: one.remarks for one in facts(built.code, built.ptx)}
    for name in ("sine", "both"):
        assert [r.rpartition(": ")[2] for r in told[name] if "fp64" in r] == [f"from {slow}"]
    assert [r.rpartition(": ")[2] for r in told["both"] if r.startswith("local")] == [f"an array of {slow}"]
    assert any("a double constant or a cast?" in r for r in told["scaled"])
    (unknown,) = [r for r in facts(built.code, kernel="both")[0].remarks if "fp64" in r]
    assert f"a double constant, a cast, or {slow}?" in unknown


def test_doubles_in_a_float_kernel_are_pointed_out():
    found = of(kernel(DOUBLE))
    (remark,) = [r for r in found.remarks if "fp64" in r]
    assert f"{found.instructions['fp64']} fp64" in remark
    assert "32 in fp32" in remark  # on sm_75


ALL_DOUBLE = """ld.global.f32 %f1, [%rd0]; cvt.f64.f32 %fd1, %f1; fma.rn.f64 %fd2, %fd1, %fd1, %fd1;
cvt.rn.f32.f64 %f2, %fd2; st.global.f32 [%rd0], %f2;"""
HALF = ALL_DOUBLE.replace("ld.global.f32 %f1, [%rd0]; cvt.f64.f32", "ld.global.b16 %h1, [%rd0]; cvt.f64.f16").replace(
    "cvt.f64.f16 %fd1, %f1", "cvt.f64.f16 %fd1, %h1"
)
SUMMED = """ld.global.f32 %f1, [%rd0]; cvt.f64.f32 %fd1, %f1; mov.b64 {%r1, %r2}, %fd1;
shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; mov.b64 %fd2, {%r3, %r4};
add.f64 %fd3, %fd1, %fd2; cvt.rn.f32.f64 %f2, %fd3; st.global.f32 [%rd0], %f2;"""


@pytest.mark.parametrize("body", [ALL_DOUBLE, HALF, SUMMED])
def test_floats_computed_with_in_nothing_but_doubles_are_pointed_out(body):
    ptx = kernel(body, before=".reg .b16 %h<4>;")
    for found in (of(ptx), facts_of_ptx(parse_ptx(ptx))[0]):
        assert "fp32" not in found.instructions
        (remark,) = [r for r in found.remarks if "fp64" in r]
        assert "though the data are floats" in remark


GENUINE = "ld.global.f64 %fd1, [%rd0]; mul.f64 %fd2, %fd1, %fd1; st.global.f64 [%rd0], %fd2;"
DIVIDED = GENUINE.replace("mul.f64 %fd2, %fd1, %fd1", "div.rn.f64 %fd2, 0d3FF0000000000000, %fd1")
SCALED = GENUINE.replace("mul", "ld.param.f32 %f1, [a]; cvt.f64.f32 %fd3, %f1; mul").replace(
    "%fd1, %fd1;", "%fd1, %fd3;"
)
INTEGERS = """ld.global.u32 %r1, [%rd0]; cvt.rn.f64.s32 %fd1, %r1; mul.f64 %fd2, %fd1, 0d3FE6A09E667F3BCD;
cvt.rzi.s32.f64 %r2, %fd2; st.global.u32 [%rd0], %r2;"""


@pytest.mark.parametrize("body", [GENUINE, DIVIDED, SCALED, INTEGERS])
def test_a_kernel_whose_data_are_doubles_or_integers_is_left_in_peace(body):
    found = of(kernel(body, params=".param .u64 p, .param .f32 a"))
    assert found.instructions["fp64"]
    assert ("fp32" in found.instructions) == (body is DIVIDED)  # the division compares high halves
    assert not any("fp64" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("access", "narrow"),
    [("ld.global.u32 %r1, [%rd0]; st.global.u32 [%rd0+4], %r1;", True),
     ("ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0]; st.global.u32 [%rd0+16], %r1;", False)],
)  # fmt: skip
def test_access_of_four_bytes_only_is_pointed_out(access, narrow):
    found = of(kernel(access))
    assert any("wider than 4 bytes" in remark for remark in found.remarks) == narrow


@pytest.mark.parametrize(
    ("text", "name", "width"),
    [
        ("LDG.E.128.CONSTANT R4, [R2.64]", "global_load", 16),
        ("LDG.E.U8 R4, [R2.64]", "global_load", 1),
        ("LDG.E.ENL2.256 R4, R8, desc[UR4][R2.64]", "global_load", 32),
        ("LDGSTS.E.BYPASS.128 [R1], [R2.64]", "async_copy", 16),
        ("LDSM.16.MT88.4 R4, [R2]", "shared_load", 16),
        ("STL.64 [R1+0x8], R2", "local_store", 8),
        ("ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU PT, R1, [R2.64], R3", "global_atomic", 4),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "tensor_wgmma", 0),
        ("UTCHMMA gdesc[UR6], gdesc[UR4], tmem[UR8], tmem[UR10], idesc[UR11], UPT", "tensor_tcgen05", 0),
        ("HADD2.F32 R1, -RZ, R2.H0_H0", "conversion", 0),
        ("HFMA2 R1, -RZ, RZ, 1.5, -63.25", "movement", 0),
        ("IMAD.MOV.U32 R1, RZ, RZ, R2", "movement", 0),
        ("MUFU.EX2 R1, R2", "special", 0),
        ("DFMA R2, R4, R6, R8", "fp64", 0),
        ("FROBNICATE.X R1", "unknown", 0),
    ],
)
def test_classes_of_sass(text, name, width):
    (line,) = instructions(parse_sass(f"Function : k\n/*0000*/ {text} ;").functions[0].body)
    assert (classify(line).name, classify(line).bytes) == (name, width)


@pytest.mark.parametrize(
    ("text", "name", "width"),
    [
        ("ld.global.nc.L1::evict_last.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1]", "global_load", 16),
        ("ld.shared.u8 %r1, [%r2]", "shared_load", 1),
        ("ld.param.u64 %rd1, [p]", "constant_load", 8),
        ("st.v2.f16x2 [%rd1], {%r1,%r2}", "generic_store", 8),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16", "async_copy", 16),
        ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2,%r3}], [%r4]",
         "bulk_copy", 0),
        ("sub.rn.f32.f16 %f1, %rs1, %f2", "fp32", 0),
        ("fma.rn.bf16x2 %r1, %r2, %r3, %r4", "fp16", 0),
        ("div.full.f32 %f1, %f2, %f3", "special", 0),
        ("div.s32 %r1, %r2, %r3", "integer", 0),
        ("mul.f64 %fd1, %fd2, %fd3", "fp64", 0),
        ("wgmma.fence.sync.aligned", "synchronisation", 0),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1", "tensor_tcgen05", 0),
        ("red.global.add.f32 [%rd1], %f1", "global_atomic", 4),
        ("atom.param.add.u32 %r1, [%rd1], %r2", "unknown", 0),
        ("frobnicate.b32 %r1", "unknown", 0),
    ],
)  # fmt: skip
def test_classes_of_ptx(text, name, width):
    (line,) = instructions(parse_ptx(f".entry k() {{ {text}; }}").functions[0].body)
    assert (classify(line).name, classify(line).bytes) == (name, width)


def test_opcodes_of_no_known_class_are_named():
    (found,) = facts_of_ptx(parse_ptx(".entry k() { frobnicate.b32 %r1; ret; }"))
    assert found.instructions["unknown"] == 1
    assert any("frobnicate" in remark for remark in found.remarks)


# Tools -----------------------------------------------------------------------------------------------------


def test_a_target_no_assembler_knows_is_a_sentence():
    with pytest.raises(UserError, match="no ptxas here assembles this for sm_999"):
        assemble(TINY.replace("sm_75", "sm_999"), "sm_999")
    with pytest.raises(UserError, match="is no target"):
        assemble(TINY, "sm_x; rm")


def test_missing_tools_are_a_sentence(monkeypatch):
    monkeypatch.setattr(cuda_tools, "find", lambda name: ())
    with pytest.raises(UserError, match="nvdisasm was found neither"):
        cuda_tools.require("nvdisasm")
