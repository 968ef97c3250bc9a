"""PTX in words: each line says what its own operands are, and what is not known is said to be unknown."""

import pytest

from kernellab.machinecode.kernel_names import short_name
from kernellab.machinecode.ptx import parse_ptx
from kernellab.ptxwords.explain import explain_ptx
from support.klab import HERE

TINY = (HERE / "samples" / "tiny.ptx").read_text()


@pytest.fixture(scope="module")
def tiny():
    return explain_ptx(parse_ptx(TINY))


def line(explained, text):
    return next(one for one in explained if one.text.startswith(text))


def words(text: str) -> str:
    """What one instruction is explained as."""
    (found,) = [one for one in explain_ptx(parse_ptx(f".entry k() {{ {text}; }}")) if one.text == f"{text};"]
    return found.words if found.known else "unknown"


def test_lines_come_in_the_order_of_the_text_with_their_numbers(tiny):
    lines = TINY.splitlines()
    assert [one.line for one in tiny] == sorted(one.line for one in tiny)
    for one in tiny:
        assert one.text.split()[0] in lines[one.line - 1]


def test_each_line_has_its_stage(tiny):
    stages = {
        "ld.param.u64 %rd1": "entry",
        ".maxntid": "entry",
        ".reg .f32": "registers",
        "mov.u32 %r2, %tid.x": "index",
        "mul.wide.s32": "addresses",
        "add.s64 %rd5": "addresses",
        "mov.f32 %f3": "loads",  # what is there where the load is masked
        "@%p1 ld.global": "loads",
        "fma.rn.f32": "arithmetic",
        "st.global": "stores",
        "setp.lt.s32": "control",
        "add.s32 %r8, %r8, 1": "control",  # the loop's counter
        "bar.sync": "control",
        "ret": "control",
    }
    assert {text: line(tiny, text).stage for text in stages} == stages


def test_source_lines_are_joined_on(tiny):
    assert line(tiny, "fma").source_line == "tiny.cu:13"
    assert line(tiny, ".maxntid").source_line is None


def test_blocks_are_told_in_warps(tiny):
    assert line(tiny, ".maxntid").words == "may be launched with at most 128 threads per block: 4 warps × 32"
    exactly = explain_ptx(parse_ptx(".entry k() .reqntid 96 { ret; }"))
    assert line(exactly, ".reqntid").words == "must be launched with exactly 96 threads per block: 3 warps × 32"
    for threads, warps in ((32, "1 warp × 32"), (48, "1.5 warps of 32, the last of them not full")):
        some = explain_ptx(parse_ptx(f".entry k() .reqntid {threads} {{ ret; }}"))
        assert line(some, ".reqntid").words.endswith(warps)


def test_registers_are_said_to_be_virtual(tiny):
    assert "12 names for fp32, %f0…%f11 (virtual" in line(tiny, ".reg .f32").words


def test_pointers_are_told_from_integers_even_where_undeclared(tiny):
    said = [one.words for one in tiny if one.words.startswith("parameter")]
    assert said == [
        "parameter 0: a pointer to global memory",
        "parameter 1: a pointer (it is used as an address)",
        "parameter 2: an integer of 32 bits",
        "parameter 3: a number (fp32)",
    ]


def test_what_a_scaled_index_is_added_to_is_a_pointer_and_the_index_is_not():
    loads = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [n]; ld.param.u32 %r1, [i];"
    adds = "mad.wide.u32 %rd3, %r1, 4, %rd1; mad.lo.s64 %rd4, %rd2, 4, %rd3; ld.global.f32 %f1, [%rd4];"
    entry = f".entry k(.param .u64 a, .param .u64 n, .param .u32 i) {{ {loads} {adds} }}"
    said = [one.words for one in explain_ptx(parse_ptx(entry)) if one.words.startswith("parameter")]
    assert said[0] == "parameter 0: a pointer (it is used as an address)"
    assert "pointer" not in said[1]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z13softmax_blockIfLi4ELi8ELb0EEvPKT_PS0_xxx", "softmax_block<…>"),
        ("_Z6squarePKfPfi", "square"),
        ("map_flat", "map_flat"),
        ("_ZN2at6native6squareEv", "_ZN2at6native6squareEv"),
        ("_Z99short", "_Z99short"),
    ],
)
def test_mangled_names_are_shortened_where_that_is_safe(symbol, name):
    assert short_name(symbol) == name


def test_a_masked_wide_load_says_what_it_moves_where_and_when(tiny):
    assert line(tiny, "@%p1 ld.global").words == (
        "only where %p1 is true: loads 16 bytes: 4 × fp32 from global memory at %rd5 into %f2…%f5"
    )
    assert line(tiny, "@!%p1 bra").words == "only where %p1 is false: goes on at $L_end"


def test_registers_are_named_with_what_they_hold(tiny):
    assert "%r3 (block index x) × 64 + %r2 (thread index x)" in line(tiny, "mad.lo.s32").words
    assert "%rd1 (pointer 0)" in line(tiny, "add.s64 %rd5").words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mov.f32 %f1, 0f3F800000", "1.0 (0f3F800000)"),
        ("mov.f32 %f1, 0fFF800000", "-infinity"),
        ("mov.f64 %fd1, 0d3FE0000000000000", "0.5"),
        ("mul.lo.s32 %r1, %r2, %r3", "the low 32 bits of the product (lo)"),
        ("mul.hi.u32 %r1, %r2, %r3", "the high 32 bits of the product (hi)"),
        ("mul.wide.s32 %rd1, %r2, 4", "the whole 64-bit product (wide)"),
        ("shl.b32 %r1, %r2, 3", "× 8"),
        ("and.b32 %r1, %r2, 31", "remainder of a division by 32"),
        ("cvt.rn.bf16x2.f32 %r1, %f1, %f2", "%f1 in the upper half, %f2 in the lower"),
        ("cvt.rn.f16.f32 %h1, %f1", "rounded to nearest even"),
        ("cvt.rzi.s32.f32 %r1, %f1", "towards zero"),
        ("cvt.f32.f16 %f1, %h1", "exactly"),
        ("cvt.s64.s32 %rd1, %r1", "repeating the sign"),
        ("cvt.u64.u32 %rd1, %r1", "filling with zeros"),
        ("setp.ltu.f32 %p1, %f1, %f2", "or either is NaN"),
        ("setp.lt.and.s32 %p1|%p2, %r1, %r2, %p3", "%p2 where not"),
        ("selp.f32 %f1, %f2, %f3, %p1", "%f2 into %f1 where %p1 is true, else %f3"),
        ("prmt.b32 %r1, %r2, %r3, 0x5410", "bytes 0, 1, 4, 5"),
        ("prmt.b32 %r1, %r2, %r3, 0x7632", "bytes 2, 3, 6, 7"),
        ("fma.rn.f32 %f1, %f2, %f3, %f4", "rounded once, to nearest even"),
        ("ex2.approx.ftz.f32 %f1, %f2", "2 to the power of %f2"),
        ("tanh.approx.f32 %f1, %f2", "hyperbolic tangent"),
        ("max.NaN.f32 %f1, %f2, %f3", "NaN if any is NaN"),
        ("ld.global.nc.L1::evict_last.u8 %r1, [%rd1+-4]", "read-only path"),
        ("ld.global.u32 %r1, [%rd1+-4]", "%rd1 - 4"),
        ("st.global.cs.v2.f32 [%rd1], {%f1, %f2}", "first to leave the caches"),
        ("atom.global.gpu.relaxed.add.f32 %f1, [%rd1], %f2", "what was there before goes into %f1"),
        ("red.shared.max.s32 [%r1], %r2", "takes the larger of %r2"),
        ("shfl.sync.bfly.b32 %r1, %r2, 16, 31, -1", "differs by exclusive or with 16"),
        ("bar.sync 0", "all threads of the block"),
        ("barrier.cluster.arrive.release.aligned", "all blocks of the cluster"),
        ("mbarrier.init.shared.b64 [%r1], 1", "for 1 arrival per phase"),
        ("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2", "sets %p1 to whether the phase"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2", "copying 16 bytes"),
        ("cp.async.wait_group 0", "all groups of copies are done"),
        ("cp.async.wait_group 2", "all groups but the last 2"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3]", "from shared memory"),
        ("griddepcontrol.wait", "launches this one depends on"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
         "{%f1,%f2,%f3,%f4}", "4096 operations"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0",
         "four warps"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1", "D in tensor memory at %r1"),
        ("vote.sync.ballot.b32 %r1, %p1, -1", "mask of the warp's threads"),
        ("add.sat.s32 %r1, %r2, %r3", "clamped to what signed 32-bit integers can hold"),
        ("add.sat.f32 %f1, %f2, %f3", "clamped to 0…1"),
        ("cvt.sat.u8.s32 %r1, %r2", "clamped to what unsigned 8-bit integers can hold"),
        ("cvt.u8.s32 %r1, %r2", "keeps the low 8 bits"),
        ("cvt.sat.f32.f32 %f1, %f2", "clamped to 0…1"),
        ("mad.hi.sat.s32 %r1, %r2, %r3, %r4", "clamped to what signed 32-bit integers can hold"),
        ("red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4}", "for each of four values in one step"),
        ("red.global.add.noftz.f16x2 [%rd1], %r1", "for each of two values in one step"),
        ("red.global.add.f32 [%rd1], %f1", "in one step that no other thread can come between: adds %f1 to the value "),
        ("max.xorsign.abs.f32 %f1, %f2, %f3", "larger of |%f2| and |%f3| into %f1, negative where one of the two is"),
        ("bfind.u32 %r1, %r2", "the position of the highest bit set in %r2"),
        ("bfind.s32 %r1, %r2", "the position of the highest bit of %r2 that differs from its sign"),
        ("bfind.shiftamt.u32 %r1, %r2", "by how much the highest bit set in %r2 must be shifted left"),
        ("mul24.lo.u32 %r1, %r2, %r3", "of both only the low 24 bits, the low 32 bits of the 48-bit product"),
        ("mad24.hi.s32 %r1, %r2, %r3, %r4", "the high 32 bits of the 48-bit product"),
        ("bar.red.popc.u32 %r1, 0, %p1", "the number of its threads where %p1 is true goes into %r1"),
        ("bar.red.and.pred %p2, 1, 64, !%p1", "barrier 1; whether not %p1 is true in all its threads goes into %p2"),
        ("createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0", "first to leave"),
    ],
)  # fmt: skip
def test_what_matters_about_an_instruction_is_said(text, said):
    assert said in words(text)


@pytest.mark.parametrize("text", ["frobnicate.b32 %r1, %r2", "mov.u32 %r1", "shfl.sync.sideways.b32 %r1, %r2, 1, 2, 3"])
def test_what_is_not_known_is_said_to_be_unknown(text):
    assert words(text) == "unknown"
    (found,) = [one for one in explain_ptx(parse_ptx(f".entry k() {{ {text}; }}")) if not one.known]
    assert found.words.startswith("unknown: ")


def test_every_register_of_a_line_is_declared_in_words():
    text = ".entry k() { .reg .pred %p; .reg .b32 %a, %b, %r<4>;\n.reg .f32 %f<2>; ret; }"
    said = [one.words for one in explain_ptx(parse_ptx(text)) if one.text.startswith(".reg")]
    assert said[0].startswith("a name for true-or-false values, %p (virtual: ")
    assert said[1] == "6 names for 32-bit values, %a, %b and %r0…%r3 (virtual)"
    assert said[2] == "2 names for fp32, %f0…%f1 (virtual)"


def test_a_register_set_twice_is_not_claimed_to_hold_anything():
    text = ".entry k(.param .u32 n) { ld.param.u32 %r1, [n]; @%p1 mov.u32 %r1, 5; add.s32 %r2, %r1, 1; ret; }"
    assert "(" not in line(explain_ptx(parse_ptx(text)), "add").words.partition(" into ")[0]
