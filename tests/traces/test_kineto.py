"""Chrome JSON of PyTorch's profiler becomes a trace."""

import re

import numpy as np
import pytest

from kernellab import traces
from kernellab.traces import kineto
from kernellab.traces.trace import NONE, Kind, Lane
from support.chrome_traces import ON_STREAM, a_step, event, fuzz, many, named, read_text, text_of, written
from support.klab import HERE


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_a_step_becomes_a_table(tmp_path, compressed):
    trace = traces.read(written(tmp_path / "t.json", a_step(), compressed=compressed, baseTimeNanoseconds=10**18))
    assert not trace.notes
    assert trace.source == "kineto"
    step, mm, kernel = named(trace, "ProfilerStep#3"), named(trace, "aten::mm"), named(trace, "void gemm<float>")
    assert trace.kind[step] == Kind.RANGE
    assert trace.begin[step] == 0
    assert trace.zero_ns == 10**18 + 1_000_500
    assert (trace.begin[mm], trace.duration[mm]) == (9_501, 40_000)
    assert trace.kind[named(trace, "Linear_0")] == Kind.MODULE
    assert trace.parent[mm] == named(trace, "Linear_0")
    assert trace.parent[named(trace, "Linear_0")] == step
    assert trace.parent[kernel] == NONE
    assert trace.launched_by[kernel] == named(trace, "cudaLaunchKernel")
    assert trace.sequence[mm] == trace.sequence[named(trace, "MmBackward0")] != 0
    assert trace.details_of(mm) == {"shapes": [[2, 3], [3, 4]], "types": ["float", "float"]}
    assert trace.details_of(kernel)["grid"] == [4, 1, 1]
    assert trace.details_of(named(trace, "Memcpy HtoD (Pageable -> Device)")) == {"bytes": 4096}
    assert (trace.memory.at.tolist(), trace.memory.device.tolist()) == ([14_500], [0])


def test_lanes_have_the_names_the_file_gives(tmp_path):
    trace = traces.read(written(tmp_path / "t.json", a_step()))
    lane = trace.lanes[trace.lane[named(trace, "aten::mm")]]
    assert lane == Lane("python 10", "thread 11 (loop)")
    assert trace.lanes[trace.lane[named(trace, "MmBackward0")]] == Lane("python 10", "12")
    assert trace.lanes[trace.lane[named(trace, "void gemm<float>")]] == Lane("GPU 0", "stream 7", 0, 7)


def test_threads_of_the_same_name_stay_distinct(tmp_path):
    threads = [{"pid": 1, "tid": 2}, {"pid": 1, "tid": 3}]
    names = [{"ph": "M", "name": "thread_name", **where, "args": {"name": "worker"}} for where in threads]
    trace = traces.read(written(tmp_path / "t.json", [event("a", 1, 2, where=where) for where in threads] + names))
    assert [lane.name for lane in trace.lanes] == ["worker 2", "worker 3"]


def test_the_metadata_names_gpus_and_ranks(tmp_path):
    gpu = {"id": 0, "name": "NVIDIA H200", "numSms": 132, "totalGlobalMem": 150_000_000_000, "warpSize": 32}
    ranks = {"backend": "nccl", "rank": 1, "world_size": 2}
    path = written(tmp_path / "t.json", a_step(), deviceProperties=[gpu], distributedInfo=ranks)
    metadata = traces.read(path).metadata
    assert metadata["gpus"] == [{"index": 0, "name": "NVIDIA H200", "sms": 132, "memory_bytes": 150_000_000_000}]
    assert (metadata["rank"], metadata["world_size"], metadata["backend"]) == (1, 2, "nccl")


def test_a_trace_of_the_installed_profiler_is_read(tmp_path):
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    layer, rows = torch.nn.Linear(8, 8), torch.randn(4, 8)
    options = dict(record_shapes=True, profile_memory=True, with_stack=True)
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler, record_function("mine"):
        layer(rows).sum().backward()
    path = tmp_path / "t.json.gz"
    profiler.export_chrome_trace(str(path))
    trace = traces.read(path)
    assert not trace.notes
    assert trace.details_of(named(trace, "aten::addmm"))["shapes"][:3] == [[8], [4, 8], [8, 8]]
    mine, forward = named(trace, "mine"), named(trace, "Linear_0")
    assert trace.kind[forward] == Kind.MODULE
    row, around = forward, []
    while (row := trace.parent[row]) != NONE:
        around.append(row)
    assert mine in around
    forward, backward = named(trace, "aten::addmm"), named(trace, "AddmmBackward0")
    assert trace.sequence[forward] == trace.sequence[backward] != 0
    assert np.all(np.diff(trace.memory.at) >= 0)
    assert len(trace.memory.at) > 4


def test_a_trace_from_a_gpu_is_read():
    trace = traces.read(HERE / "samples" / "kineto-h200.json.gz")
    assert not trace.notes
    assert [gpu["name"] for gpu in trace.metadata["gpus"]] == ["NVIDIA H200"]
    assert Lane("profiler", "overhead") in trace.lanes
    kernels = trace.rows(Kind.KERNEL)
    assert len(kernels) == 12
    operators = []
    for kernel in kernels:
        row = trace.launched_by[kernel]
        assert trace.kind[row] == Kind.CALL
        while trace.kind[row] != Kind.OPERATOR:
            row = trace.parent[row]
        operators.append(trace.name_of(row))
        assert trace.begin[trace.launched_by[kernel]] < trace.begin[kernel]
        assert trace.details_of(kernel)["registers"] > 0
    assert operators.count("aten::mm") == 4
    assert max(len(trace.name_of(row)) for row in kernels) == 5050  # not shortened


def test_events_with_invalid_fields_are_dropped_and_counted(tmp_path):
    nan, huge = float("nan"), 1e300
    invalid = [
        7, None, "X", [], {}, {"ph": "X"},
        event(["a"], 1, 1), event("a", "soon", 1), event("a", None, 1), event("a", nan, 1), event("a", huge, 1),
        event("a", -5, 1), event("a", 1, nan), event("a", 1, huge), event("a", 10**30, 1), event("a", 1, 1, cat={}),
        event("a", 1, 1, where={"pid": {}, "tid": []}), event("k", 1, 1, "kernel", {"pid": "x", "tid": "y"}),
        {**event("a", 1, 1), "args": [1]}, event("a", 1, 1, correlation="x"),
        {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": "many", "Device Type": 0}},
        {"ph": "i", "name": "[memory]", "ts": nan, "args": {"Bytes": 1, "Device Type": 0}},
        {"ph": "M", "name": "thread_name", "args": 5},
    ]  # fmt: skip
    trace = read_text(tmp_path, text_of([*invalid, *many(3)]))
    assert [trace.name_of(row) for row in range(len(trace))] == ["op 0", "op 1", "op 2"]
    dropped = [re.search(r"\(([\d,]+) ×\)", note) for note in trace.notes]
    assert sum(int(match[1]) for match in dropped) == len(invalid)


def test_invalid_details_do_not_reach_the_table(tmp_path):
    trace = read_text(
        tmp_path,
        text_of(
            [
                event("k", 1, 1, "kernel", ON_STREAM, grid="4", block=[1, 2], **{"registers per thread": -1}),
                event("m", 3, 1, "gpu_memcpy", ON_STREAM, bytes=float("nan")),
                event("o", 1, 1, **{"Input Dims": {"a": 1}, "Input type": ["float"]}),
            ]
        ),
    )
    assert trace.details_of(named(trace, "k")) == {}
    assert trace.details_of(named(trace, "m")) == {}
    assert trace.details_of(named(trace, "o")) == {"types": ["float"]}
    assert any("a detail of the wrong type or range (3 ×)" in note for note in trace.notes)


def test_an_event_that_ends_before_it_begins_has_no_duration(tmp_path):
    trace = read_text(tmp_path, text_of([event("a", 10, -3), event("b", 11, 1)]))
    assert trace.duration.tolist() == [0, 1000]
    assert "ends before it begins" in trace.notes[0]


def test_absurd_thread_names_and_endless_keys_are_not_kept(tmp_path):
    long = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": "y" * 5000, "args": {"name": "n"}}]
    long += [event("a", 1, 1, where={"pid": 1, "tid": "y" * 5000})]
    trace = read_text(tmp_path, text_of([*long, *many(2)], **{f"key {number}": 1 for number in range(5000)}))
    assert len(trace) == 2
    assert len(trace.metadata) <= 1001
    assert "y" * 300 not in repr(trace)


def test_randomly_damaged_traces_are_read_or_refused(tmp_path):
    assert fuzz(1, 400, tmp_path) > 200


def test_a_document_parsed_at_once_gives_the_same_trace(tmp_path):
    by_event = kineto.read(written(tmp_path / "t.json", a_step()))
    at_once = kineto.from_document({"traceEvents": a_step()})
    assert by_event.notes == at_once.notes == []
    assert at_once.names == by_event.names
    assert at_once.begin.tolist() == by_event.begin.tolist()
