"""How many sectors a warp's accesses touch, relative to the minimum."""

import pytest

from kernellab.codeanalysis.coalescing import sector_ratio
from support.machine_code import STRIDED_LOAD, strided_kernel

BLOCK = (128, 1, 1)
PAIRS = """	shl.b32 %r3, %r2, 3;
	cvt.u64.u32 %rd2, %r3;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.b32 %r4, [%rd3];
	ld.global.b32 %r5, [%rd3+4];"""
SHARED = """	ld.global.b32 %r4, [%rd1];"""
INDIRECT = """	ld.global.b32 %r4, [%rd1];
	mul.wide.s32 %rd2, %r4, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.b32 %r5, [%rd3];"""


@pytest.mark.parametrize(("stride", "ratio"), [(1, 1.0), (2, 2.0), (8, 8.0), (4096, 8.0)])
def test_a_larger_stride_touches_more_sectors(stride, ratio):
    assert sector_ratio(strided_kernel(STRIDED_LOAD), [None, stride], BLOCK) == ratio


def test_two_loads_may_share_a_sector():
    assert sector_ratio(strided_kernel(PAIRS), [None, 1], BLOCK) == 1.0


def test_data_beyond_a_warps_share_of_l1_is_fetched_by_each_load():
    assert sector_ratio(strided_kernel(PAIRS), [None, 1], BLOCK, 256) == 1.0  # the 256 bytes that the warp touches
    assert sector_ratio(strided_kernel(PAIRS), [None, 1], BLOCK, 255) == 2.0


def test_stores_to_one_sector_are_merged_in_l2():
    stores = PAIRS.replace("ld.global.b32 %r4, [%rd3]", "st.global.b32 [%rd3], %r4").replace(
        "ld.global.b32 %r5, [%rd3+4]", "st.global.b32 [%rd3+4], %r5"
    )
    assert sector_ratio(strided_kernel(stores), [None, 1], BLOCK, 1) == 1.0


def test_lanes_that_a_predicate_excludes_move_nothing():
    body = "\tsetp.lt.u32 %p1, %r2, 16;\n" + STRIDED_LOAD.replace("ld.global", "@%p1 ld.global")
    assert sector_ratio(strided_kernel(body), [None, 2], BLOCK) == 2.0
    assert sector_ratio(strided_kernel(body.replace(", 16;", ", 8;")), [None, 2], BLOCK) is None


@pytest.mark.parametrize("body", [SHARED, INDIRECT])
def test_a_value_that_all_lanes_share_and_an_address_from_memory_are_ignored(body):
    assert sector_ratio(strided_kernel(body), [None, 1], BLOCK) is None
