"""PyTorch's profiler's file becomes one table."""

import gzip
import json
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest

from kernellab import traces
from kernellab.base.errors import UserError
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import NONE, Kind, Lane
from support.chrome_traces import a_step, event, named, written
from support.klab import HERE


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_step_as_a_table(tmp_path, packed):
    trace = traces.read(written(tmp_path / "t.json", a_step(), packed=packed, baseTimeNanoseconds=10**18))
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


def test_lanes_go_by_the_names_the_file_gives(tmp_path):
    trace = traces.read(written(tmp_path / "t.json", a_step()))
    lane = trace.lanes[trace.lane[named(trace, "aten::mm")]]
    assert lane == Lane("python 10", "thread 11 (loop)")
    assert trace.lanes[trace.lane[named(trace, "MmBackward0")]] == Lane("python 10", "12")
    assert trace.lanes[trace.lane[named(trace, "void gemm<float>")]] == Lane("GPU 0", "stream 7", 0, 7)


def test_threads_of_one_name_stay_two(tmp_path):
    threads = [{"pid": 1, "tid": 2}, {"pid": 1, "tid": 3}]
    names = [{"ph": "M", "name": "thread_name", **where, "args": {"name": "worker"}} for where in threads]
    trace = traces.read(written(tmp_path / "t.json", [event("a", 1, 2, where=where) for where in threads] + names))
    assert [lane.name for lane in trace.lanes] == ["worker 2", "worker 3"]


def test_the_bare_list_is_read_too_with_or_without_its_end(tmp_path):
    for end in ("]", "", ","):
        path = tmp_path / "t.json"
        path.write_text(json.dumps([event("a", 1, 2), event("b", 2, 1)])[:-1] + end)
        trace = traces.read(path)
        assert len(trace) == 2
        assert not trace.notes


def test_what_a_file_says_of_itself(tmp_path):
    gpu = {"id": 0, "name": "NVIDIA H200", "numSms": 132, "totalGlobalMem": 150_000_000_000, "warpSize": 32}
    ranks = {"backend": "nccl", "rank": 1, "world_size": 2}
    path = written(tmp_path / "t.json", a_step(), deviceProperties=[gpu], distributedInfo=ranks)
    about = traces.read(path).about
    assert about["gpus"] == [{"index": 0, "name": "NVIDIA H200", "sms": 132, "memory_bytes": 150_000_000_000}]
    assert (about["rank"], about["world_size"], about["backend"]) == (1, 2, "nccl")
    other = written(tmp_path / "o.json", a_step(), distributedInfo={**ranks, "rank": 0})
    assert [trace.metadata["rank"] for trace in traces.read_all([path, other])] == [0, 1]


def test_more_text_than_a_piece_is_read_whole(tmp_path):
    names = [f"op {number} " + "x" * (number % 700) for number in range(3000)]
    events = [event(name, number, 0.5) for number, name in enumerate(names)]
    trace = traces.read(written(tmp_path / "t.json", events))
    assert [trace.name_of(row) for row in range(len(trace))] == names
    assert not trace.notes


def test_a_row_ends_with_the_one_around_it():
    builder = TraceBuilder("made")
    lane = builder.lane(Lane("p", "t"))
    for name, begin, duration in (("outer", 0, 100), ("inner", 50, 51), ("next", 100, 10)):
        builder.add(Kind.OPERATOR, builder.name(name), lane, begin, duration)
    assert builder.build().parent.tolist() == [NONE, 0, NONE]


def test_a_range_outlasts_the_call_that_opens_it():
    builder = TraceBuilder("made")
    lane = builder.lane(Lane("p", "t"))
    for kind, name, begin, end in (
        (Kind.PYTHON, "main", 0, 100),
        (Kind.PYTHON, "__enter__", 10, 20),
        (Kind.RANGE, "mine", 15, 85),
        (Kind.OPERATOR, "inside", 30, 40),
        (Kind.PYTHON, "__exit__", 80, 90),
        (Kind.PYTHON, "of __exit__", 86, 88),
        (Kind.OPERATOR, "after", 95, 96),
    ):
        builder.add(kind, builder.name(name), lane, begin, end - begin)
    trace = builder.build()
    around = {trace.name_of(row): trace.name_of(p) if p != NONE else "" for row, p in enumerate(trace.parent)}
    assert around == {
        "main": "",
        "__enter__": "main",
        "mine": "main",
        "inside": "mine",
        "__exit__": "mine",
        "of __exit__": "__exit__",
        "after": "main",
    }


def test_of_rows_at_the_same_time_the_caller_is_outside():
    builder = TraceBuilder("made")
    lane = builder.lane(Lane("p", "t"))
    for kind in (Kind.CALL, Kind.OPERATOR, Kind.MODULE, Kind.PYTHON, Kind.RANGE):
        builder.add(kind, builder.name(kind.name), lane, 5, 10)
    trace = builder.build()
    assert [trace.name_of(row) for row in range(5)] == ["PYTHON", "MODULE", "RANGE", "OPERATOR", "CALL"]
    assert trace.parent.tolist() == [NONE, 0, 1, 2, 3]


def test_what_the_profiler_writes_is_read(tmp_path):
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    layer, rows = torch.nn.Linear(8, 8), torch.randn(4, 8)
    watched = dict(record_shapes=True, profile_memory=True, with_stack=True)
    with profile(activities=[ProfilerActivity.CPU], **watched) as profiler, record_function("mine"):
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


def test_what_the_profiler_writes_on_a_gpu_is_read():
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
    assert max(len(trace.name_of(row)) for row in kernels) == 5050  # as long as that, and whole


def test_a_million_of_events_is_grown_from_a_few_with_links_of_their_own(tmp_path):
    spec = spec_from_file_location("grow_trace", HERE.parent / "benchmarks" / "grow_trace.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    small, grown = written(tmp_path / "t.json", a_step()), tmp_path / "grown.json"
    count = module.grow(small, grown, 100, 3)
    trace = traces.read(grown)
    assert count >= 100
    assert not trace.notes
    kernels = trace.rows(Kind.KERNEL)
    assert len(kernels) == 11
    calls = trace.launched_by[kernels]
    assert len(set(calls.tolist())) == 11
    assert np.all(trace.begin[calls] < trace.begin[kernels])
    assert np.all(trace.begin[kernels] - trace.begin[calls] < 100_000)
    assert len({trace.name_of(row) for row in kernels}) == 3


def test_a_file_that_is_no_trace_is_refused_in_words(tmp_path):
    cases = {
        b"": "is empty",
        b"  \n ": "is empty",
        b"<html></html>": "is not JSON",
        b"\x7fELF\0\0": "is not JSON",
        b'{"a": 1}': "has no list `traceEvents`",
        b'{"traceEvents": 7}': "has no list `traceEvents`",
        b"{nothing that is any JSON}": "cannot be read as JSON from character 1 on",
        b'{"a": {"b": [1, 2, "c': "breaks off before its first event",
        b'{"traceEv': "breaks off before its first event",
        gzip.compress(b""): "is empty",
        gzip.compress(b"no")[:10]: "is empty. The gzip packing breaks off",
        b"\x1f\x8b": "is empty",
        b"NVIDIA Tegra Profiler Report 2023": "nsys export --type sqlite",
        gzip.compress(b"NVIDIA Tegra Profiler Report 2023"): "nsys export --type sqlite",
        gzip.compress(b"SQLite format 3\0and more"): "packed by gzip. Unpack it: gunzip --keep",
    }
    for content, words in cases.items():
        path = tmp_path / "t.json"
        path.write_bytes(content)
        with pytest.raises(UserError, match=words):
            traces.read(path)
    with pytest.raises(UserError, match="is a folder"):
        traces.read(tmp_path)
    with pytest.raises(UserError, match="There is no file"):
        traces.read(tmp_path / "none.json")
    with pytest.raises(UserError, match="not a file on disk"):
        traces.read("/dev/zero")
    with pytest.raises(UserError, match="cannot be read: File name too long"):
        traces.read("x" * 5000)
