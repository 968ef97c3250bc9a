"""Remarks on machine code: local memory, accidental double precision, narrow accesses, unknown opcodes."""

import pytest

from kernellab.build import cuda
from kernellab.codeanalysis.facts import facts_from_cubin, facts_from_ptx
from kernellab.machinecode.ptx import parse_ptx
from support.machine_code import assembled_facts, crowded_ptx, kernel_ptx, local_array_ptx


def remarks_with(facts, word):
    return [remark for remark in facts.remarks if word in remark]


# Local memory ----------------------------------------------------------------------------------------------


def test_spilled_registers_are_counted_and_named_as_the_cause():
    facts = assembled_facts(crowded_ptx(60))
    (remark,) = remarks_with(facts, "local memory")
    assert f"in {facts.instructions['local_store']} instructions" in remark
    assert remark.endswith("registers are spilled")


def test_a_kernel_with_all_255_registers_gets_advice_that_needs_no_more():
    facts = assembled_facts(crowded_ptx(300, limit=""))
    assert facts.registers == 255
    (remark,) = remarks_with(facts, "local memory")
    assert "needs more than 255 registers, the most a thread can have: smaller tiles" in remark


def test_an_array_indexed_at_run_time_is_named_as_the_cause():
    (remark,) = remarks_with(assembled_facts(local_array_ptx()), "local memory")
    assert "an array is indexed at run time, which registers do not support: an index known at compile time" in remark


# Double precision ------------------------------------------------------------------------------------------

DOUBLE = """ld.global.f32 %f1, [%rd0]; cvt.f64.f32 %fd1, %f1; mul.f64 %fd2, %fd1, 0d3FE6A09E667F3BCD;
cvt.rn.f32.f64 %f2, %fd2; add.f32 %f3, %f2, %f1; st.global.f32 [%rd0], %f3;"""
SINE = """
extern "C" __global__ void sine(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]); }
extern "C" __global__ void both(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]) + cosf(2 * x[threadIdx.x]); }
extern "C" __global__ void scaled(float* x) { x[threadIdx.x] = sinf(x[threadIdx.x]) * 0.7; }
"""


def test_the_slow_path_of_sines_is_distinguished_from_the_authors_own_code(tmp_path):
    """For large arguments sinf and cosf use doubles and a local array."""
    (tmp_path / "sine.cu").write_text(SINE)
    slow_path = "the slow path of sinf or cosf for large arguments"
    built = cuda.kernel(tmp_path / "sine.cu", "sine").compile("sm_90")
    kernels = {facts.name: facts for facts in facts_from_cubin(built.code, built.ptx)}
    for name in ("sine", "both"):
        (remark,) = remarks_with(kernels[name], "fp64")
        assert remark.endswith(f": from {slow_path}")
    (remark,) = remarks_with(kernels["both"], "local memory")
    assert remark.endswith(f": an array of {slow_path}")
    (remark,) = remarks_with(kernels["scaled"], "fp64")
    assert "a double constant or a cast?" in remark
    (without_ptx,) = facts_from_cubin(built.code, kernel="both")
    (remark,) = remarks_with(without_ptx, "fp64")
    assert f"a double constant, a cast, or {slow_path}?" in remark


def test_doubles_in_a_float_kernel_are_reported_with_their_cost():
    facts = assembled_facts(kernel_ptx(DOUBLE))
    (remark,) = remarks_with(facts, "fp64")
    assert (facts.instructions["fp64"], remark.partition(":")[0]) == (1, "1 fp64 instruction beside 1 in fp32 or fp16")
    assert remark.endswith("sm_75 computes 32 fp32 results in the time of one fp64 result")


ALL_DOUBLE = """ld.global.f32 %f1, [%rd0]; cvt.f64.f32 %fd1, %f1; fma.rn.f64 %fd2, %fd1, %fd1, %fd1;
cvt.rn.f32.f64 %f2, %fd2; st.global.f32 [%rd0], %f2;"""
HALF = ALL_DOUBLE.replace("ld.global.f32 %f1, [%rd0]; cvt.f64.f32", "ld.global.b16 %h1, [%rd0]; cvt.f64.f16").replace(
    "cvt.f64.f16 %fd1, %f1", "cvt.f64.f16 %fd1, %h1"
)
SUMMED = """ld.global.f32 %f1, [%rd0]; cvt.f64.f32 %fd1, %f1; mov.b64 {%r1, %r2}, %fd1;
shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; mov.b64 %fd2, {%r3, %r4};
add.f64 %fd3, %fd1, %fd2; cvt.rn.f32.f64 %f2, %fd3; st.global.f32 [%rd0], %f2;"""


@pytest.mark.parametrize("body", [ALL_DOUBLE, HALF, SUMMED])
def test_floats_that_are_computed_only_in_double_are_reported(body):
    ptx = kernel_ptx(body, before=".reg .b16 %h<4>;")
    for facts in (assembled_facts(ptx), facts_from_ptx(parse_ptx(ptx))[0]):
        assert "fp32" not in facts.instructions
        (remark,) = remarks_with(facts, "fp64")
        assert "though the data are floats" in remark


GENUINE = "ld.global.f64 %fd1, [%rd0]; mul.f64 %fd2, %fd1, %fd1; st.global.f64 [%rd0], %fd2;"
DIVIDED = GENUINE.replace("mul.f64 %fd2, %fd1, %fd1", "div.rn.f64 %fd2, 0d3FF0000000000000, %fd1")
SCALED = GENUINE.replace("mul", "ld.param.f32 %f1, [a]; cvt.f64.f32 %fd3, %f1; mul").replace(
    "%fd1, %fd1;", "%fd1, %fd3;"
)
INTEGERS = """ld.global.u32 %r1, [%rd0]; cvt.rn.f64.s32 %fd1, %r1; mul.f64 %fd2, %fd1, 0d3FE6A09E667F3BCD;
cvt.rzi.s32.f64 %r2, %fd2; st.global.u32 [%rd0], %r2;"""


@pytest.mark.parametrize("body", [GENUINE, DIVIDED, SCALED, INTEGERS])
def test_doubles_and_integers_as_data_are_not_reported(body):
    facts = assembled_facts(kernel_ptx(body, params=".param .u64 p, .param .f32 a"))
    assert facts.instructions["fp64"]
    assert ("fp32" in facts.instructions) == (body is DIVIDED)  # the division compares high halves
    assert remarks_with(facts, "fp64") == []


# Accesses and opcodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("access", "narrow"),
    [("ld.global.u32 %r1, [%rd0]; st.global.u32 [%rd0+4], %r1;", True),
     ("ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd0]; st.global.u32 [%rd0+16], %r1;", False)],
)  # fmt: skip
def test_a_kernel_with_only_four_byte_accesses_is_reported(access, narrow):
    facts = assembled_facts(kernel_ptx(access))
    assert len(remarks_with(facts, "wider than 4 bytes")) == narrow


def test_unknown_opcodes_are_named():
    (facts,) = facts_from_ptx(parse_ptx(".entry k() { frobnicate.b32 %r1; ret; }"))
    assert facts.instructions["unknown"] == 1
    assert remarks_with(facts, "unknown") == ["1 instruction with unknown opcodes: frobnicate"]
