"""Which CUDA calls block the host."""

import pytest

from kernellab.traces.blocking_calls import find_blocking_calls
from kernellab.traces.trace import Kind
from support.traced import Program


@pytest.mark.parametrize(
    "name",
    [
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "hipStreamSynchronize",
        "cuCtxSynchronize",
        "cudaMemcpy",
        "cuMemcpyDtoH_v2",
        "cudaFree",
        "cuMemFree_v2",
    ],
)
def test_a_call_blocks_by_its_name(name):
    run = Program()
    run.wait(name)
    assert find_blocking_calls(run.trace()).tolist() == [True]


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaFreeAsync", "cuMemFreeAsync"])
def test_other_calls_do_not_block(name):
    run = Program()
    run.wait(name)
    assert find_blocking_calls(run.trace()).tolist() == [False]


@pytest.mark.parametrize(
    ("copy", "blocks"),
    [("Memcpy HtoD (Pageable -> Device)", True), ("Memcpy DtoH (Device -> Pinned)", False)],
)
def test_an_asynchronous_copy_blocks_if_its_memory_is_pageable(copy, blocks):
    run = Program()
    run.kernel(copy, 5, kind=Kind.COPY)
    trace = run.trace()
    (call,) = trace.rows(Kind.CALL)
    assert find_blocking_calls(trace)[call] == blocks
