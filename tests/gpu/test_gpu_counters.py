"""Nsight Compute on a GPU: skipped if it is not installed or counters are not permitted."""

import pytest

from kernellab.running.parent import nsight_compute as ncu

pytestmark = [pytest.mark.gpu, pytest.mark.clocked, pytest.mark.skipif(ncu.tool_path() is None, reason="needs ncu")]


def count(klab, *line):
    seen = klab("profile", "--with", "ncu", *line, "--out", "run", "--json")
    if "ERR_NVGPUCTRPERM" in seen.err:
        pytest.skip("counters are not permitted here")
    assert seen.code == 0, seen.err
    return seen.record


def test_exactly_the_launches_of_one_call_are_counted(klab):
    document = count(klab, "gelu", "--impl", "manual,triton", "--shape", "4096x4096", "--dtype", "float32")
    kernels = {row["impl"]: row["kernels"] for row in document["impls"]}
    assert len(kernels["triton"]) == 1  # no copy, no fill, no warm-up call
    assert len(kernels["manual"]) > 4  # the unfused chain
    (kernel,) = kernels["triton"]
    wanted = ("duration_us", "compute_percent", "memory_percent", "registers", "dram_read_bytes", "dram_written_bytes")
    assert all(kernel[key] is not None for key in (*wanted, "achieved_occupancy_percent", "waves", "sms"))
    assert kernel["rules"]  # there is always at least one
    assert kernel["dram_read_bytes"] == pytest.approx(4096 * 4096 * 4, rel=0.1)


def test_memory_throughput_rises_with_the_grid(klab):
    rows = count(klab, "square", "--grids", "1,8,64", "--shape", "1024x1024")["sweep"]
    assert [(row["blocks"], row["threads"]) for row in rows] == [(1, 128), (8, 128), (64, 128)]
    memory = [row["memory_percent"] for row in rows]
    assert memory == sorted(set(memory))
    assert rows[0]["limit"] == "blocks"
