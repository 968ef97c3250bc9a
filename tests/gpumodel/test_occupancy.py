"""Occupancy by CUDA's rules: compared with NVIDIA's own calculator and documented values."""

import itertools
import json
import random
import re
import subprocess
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.base.errors import UserError
from kernellab.build.cuda import include_folders
from kernellab.gpumodel.occupancy import describe_limiters, grid_refusal, occupancy, shared_bytes_for
from kernellab.machine import tools
from kernellab.machine.chips import chip, chips

# Reads one kernel per line and prints the number of blocks that fit, by NVIDIA's header.
CALCULATOR = r"""
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
  int major, minor, threads_sm, threads, registers, barriers;
  size_t shared_sm, optin, reserved, shared;
  while (scanf("%d %d %d %zu %zu %zu %d %d %zu %d", &major, &minor, &threads_sm, &shared_sm, &optin, &reserved,
               &threads, &registers, &shared, &barriers) == 10) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = threads_sm;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 << 10;
    device.sharedMemPerMultiprocessor = shared_sm;
    device.numSms = 1;
    device.sharedMemPerBlockOptin = optin;
    device.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared;
    kernel.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    cudaOccResult result;
    cudaOccError error =
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared);
    printf("%d\n", error ? -error : result.activeBlocksPerMultiprocessor);
  }
}
"""


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory):
    """NVIDIA's calculator, built from the header that comes with the CUDA runtime's package."""
    compiler, folder = tools.cxx(), tmp_path_factory.mktemp("calculator")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (folder / "main.cpp").write_text(CALCULATOR)
    flags = [f"-I{path}" for path in include_folders()]
    subprocess.run([compiler, "-w", "-O1", "main.cpp", "-o", "calculator", *flags], cwd=folder, check=True)

    def blocks_per_sm(kernels):
        lines = "\n".join(" ".join(map(str, line)) for line in kernels)
        process = subprocess.run([folder / "calculator"], input=lines, capture_output=True, text=True, check=True)
        return [int(line) for line in process.stdout.split()]

    return blocks_per_sm


def test_it_agrees_with_nvidias_own_calculator(nvidia):
    """1000 kernels for every architecture; sizes on, beside and between the allocation units."""
    draw = random.Random(5)
    kernels = []
    for arch in chips():
        for _ in range(1000):
            threads = draw.choice([draw.randint(1, 1024), 32 * draw.randint(1, 32), 2 ** draw.randint(5, 10)])
            registers = draw.choice([draw.randint(1, 255), 8 * draw.randint(1, 31)])
            most = arch.shared_per_block_bytes
            shared = draw.choice([0, draw.randint(0, most), 1024 * draw.randint(0, most // 1024), most])
            kernels.append((arch, threads, registers, shared, draw.choice([1, 1, 1, draw.randint(1, 16)])))
    theirs = nvidia(
        (
            *arch.capability,
            arch.threads_per_sm,
            arch.shared_per_sm_bytes,
            arch.shared_per_block_bytes,
            arch.shared_reserved_bytes,
            *kernel,
        )
        for arch, *kernel in kernels
    )
    assert len(theirs) == len(kernels)
    for (arch, threads, registers, shared, barriers), blocks in zip(kernels, theirs, strict=True):
        ours = occupancy(arch, threads, registers, shared, barriers=barriers)
        assert ours.blocks_per_sm == blocks, (arch.arch, threads, registers, shared, barriers, ours)


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limiter"),
    [
        ("sm_80", 256, 64, 0, 4, "registers"),  # 64 × 256 × 4 is all 65536 registers
        ("sm_90", 256, 40, 0, 6, "registers"),
        ("sm_90", 1024, 32, 0, 2, "threads"),
        ("sm_75", 1024, 32, 0, 1, "threads"),  # Turing holds 1024 threads
        ("sm_86", 1024, 32, 0, 1, "threads"),  # 1536: a second block does not fit
        ("sm_90", 32, 32, 0, 32, "blocks"),
        ("sm_89", 32, 32, 0, 24, "blocks"),
        ("sm_80", 128, 32, 163 * 1024, 1, "shared"),
        ("sm_90", 128, 32, 113 * 1024, 2, "shared"),  # with the driver's kilobyte, exactly half of 228 KB
        ("sm_90", 128, 32, 113 * 1024 + 1, 1, "shared"),
    ],
)
def test_occupancy_has_known_values(arch, threads, registers, shared, blocks, limiter):
    result = occupancy(chip(arch), threads, registers, shared)
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)


def test_a_block_that_cannot_launch_fits_0_times_and_says_why():
    hopper = chip("sm_90")
    wide = occupancy(hopper, 2048, 16)
    assert (wide.blocks_per_sm, wide.refusal) == (0, "a block of sm_90 has at most 1024 threads, not 2048")
    assert wide.remedy == "launch blocks of 1024 threads or fewer"
    full = occupancy(hopper, 1024, 65)
    assert full.refusal == "1024 threads of 65 registers each need more than the 65536 registers of a block"
    assert full.remedy.startswith("limit a thread to 64 registers")
    assert "blocks of 896 threads or fewer" in full.remedy
    assert occupancy(hopper, 896, 65).blocks_per_sm == occupancy(hopper, 1024, 64).blocks_per_sm == 1
    shared = occupancy(hopper, 128, 32, 300 * 1024)
    assert shared.blocks_per_sm == 0
    assert "307200 bytes of shared memory exceed the 232448 that a block" in shared.refusal
    assert "request 232448 bytes of shared memory per block or less" in shared.remedy
    both = occupancy(hopper, 2048, 16, 300 * 1024)
    assert "at most 1024 threads" in both.refusal
    assert "shared memory" in both.refusal
    assert "and request 232448" in both.remedy


def test_more_threads_than_the_kernel_was_compiled_for_cannot_be_launched():
    hopper = chip("sm_90")
    bound = occupancy(hopper, 512, 32, max_threads=256)
    assert (bound.blocks_per_sm, bound.limiter) == (0, "threads")
    assert bound.refusal == "the kernel is compiled for blocks of at most 256 threads, not 512"
    assert occupancy(hopper, 128, 32, max_threads=256).refusal == ""
    assert "exactly 256 threads, not 128" in occupancy(hopper, 128, 32, max_threads=256, exact=True).refusal


def test_grids_and_blocks_are_limited_along_each_dim():
    assert grid_refusal((2**31 - 1, 65535, 65535), (16, 16, 4)) == ("", "")
    assert grid_refusal((1, 65536, 1), (256, 1, 1))[0] == "a grid has at most 65535 blocks along y, not 65536"
    assert "at most 64 threads along z, not 128" in grid_refusal((1, 1, 1), (1, 1, 128))[0]


def test_all_limiters_at_the_same_number_of_blocks_are_named():
    # A block has at least one barrier: if as many blocks fit as there are barriers, the number of blocks limits.
    assert occupancy(chip("sm_121"), 32, 16).limiters == ["blocks"]
    assert occupancy(chip("sm_121"), 32, 16, barriers=2).limiters == ["barriers"]
    tied = occupancy(chip("sm_90"), 768, 40)
    assert tied.limiters == ["registers", "threads"]
    assert describe_limiters(["registers", "shared"]) == "registers and shared memory"
    assert occupancy(chip("sm_90"), 1024, 32).limiters == ["threads"]  # full: nothing else limits
    few = occupancy(chip("sm_90"), 32, 64)
    assert few.limiters == ["registers", "blocks"]
    # Larger blocks alone would gain nothing: they need fewer registers as well.
    assert few.remedy.endswith("64 threads with at most 32 registers per thread leave none")


def test_impossible_numbers_are_refused():
    hopper = chip("sm_90")
    with pytest.raises(UserError, match="256 registers per thread: sm_90 has up to 255"):
        occupancy(hopper, 128, 256)
    with pytest.raises(UserError, match="sm_80 has no clusters"):
        occupancy(chip("sm_80"), 128, 32, cluster=2)


KERNELS = {
    "arch": st.sampled_from(chips()),
    "threads": st.integers(1, 1024),
    "registers": st.integers(1, 255),
    "shared": st.integers(0, 64 * 1024),
}


@settings(max_examples=300, deadline=None)
@given(**KERNELS, more=st.integers(1, 64))
def test_more_of_anything_never_fits_more_blocks(arch, threads, registers, shared, more):
    blocks = occupancy(arch, threads, registers, shared).blocks_per_sm
    assert occupancy(arch, threads, min(registers + more, 255), shared).blocks_per_sm <= blocks
    assert occupancy(arch, threads, registers, shared + 64 * more).blocks_per_sm <= blocks
    assert occupancy(arch, threads + more, registers, shared).blocks_per_sm <= blocks


@settings(max_examples=300, deadline=None)
@given(**KERNELS)
def test_allocations_fit_the_sm(arch, threads, registers, shared):
    result = occupancy(arch, threads, registers, shared)
    assert 0 <= result.fraction <= 1
    assert result.warps_per_sm <= arch.warps_per_sm
    assert result.shared_split_bytes + result.l1_bytes == arch.l1_and_shared_bytes
    assert result.shared_split_bytes >= result.blocks_per_sm * (shared + arch.shared_reserved_bytes)
    assert result.limits[result.limiter] == result.blocks_per_sm


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared"),
    list(
        itertools.product(
            ["sm_80", "sm_89", "sm_90"], [64, 128, 256, 384, 768], [24, 40, 64, 128, 200], [0, 20000, 60000]
        )
    ),
)
def test_the_remedy_gives_what_it_promises(arch, threads, registers, shared):
    """Each step of the remedy gives the number of warps it promises, and more than before."""
    sm = chip(arch)
    before = occupancy(sm, threads, registers, shared)
    if before.fraction == 1:
        assert before.remedy.startswith("none needed")
        return
    if not before.blocks_per_sm:
        assert before.refusal
        return

    def follow(step, size=threads):
        sizes = {unit: int(number) for number, unit in re.findall(r"(\d+) (registers|bytes|threads)", step)}
        return occupancy(sm, sizes.get("threads", size), sizes.get("registers", registers), sizes.get("bytes", shared))

    steps = before.remedy.split(":", 1)[-1].split("; ")
    warps = [follow(step).warps_per_sm for step in steps]
    assert warps == sorted(warps)
    assert before.warps_per_sm < warps[0]
    for step, count in zip(steps, warps, strict=True):
        unused = re.search(r"leave (\w+)$", step)
        if unused:
            assert sm.warps_per_sm - count == (0 if unused[1] == "none" else int(unused[1])), before.remedy
        else:
            blocks = int(re.search(r"(\d+) blocks", step)[1])
            assert count == blocks * before.warps_per_block, before.remedy
            share = int(re.search(r"(\d+) %(?: of the warps)?\)$", step)[1])
            assert share == pytest.approx(100 * count / sm.warps_per_sm, abs=0.5)
    # The last step gives the maximum: a full SM, or as many blocks of this size as there are slots for.
    assert warps[-1] == sm.warps_per_sm or sm.warps_per_sm - warps[-1] < before.warps_per_block


def test_an_occupancy_is_plain_data():
    assert json.loads(json.dumps(asdict(occupancy(chip("sm_90"), 256, 64))))["limits"]["registers"] == 4


@pytest.mark.parametrize("arch", chips(), ids=lambda c: c.arch)
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_shared_memory_can_limit_an_sm_to_any_number_of_blocks(arch, blocks):
    assert occupancy(arch, 256, 32, shared_bytes_for(arch, 256, 32, blocks)).blocks_per_sm == blocks


def test_more_blocks_than_fit_are_refused():
    with pytest.raises(UserError, match="an SM of sm_90 cannot hold 9 blocks of 256 threads: 8 fit"):
        shared_bytes_for(chip("sm_90"), 256, 32, 9)


def test_one_barrier_never_limits_and_two_do():
    assert occupancy(chip("sm_120"), 32, 20, barriers=1).limiter == "blocks"
    assert occupancy(chip("sm_120"), 32, 20, barriers=2).limiter == "barriers"
