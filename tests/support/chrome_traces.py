"""Chrome traces written by hand, event by event."""

import contextlib
import gzip
import json
import random
import time

import numpy as np

from kernellab import traces
from kernellab.base.errors import UserError
from kernellab.traces.trace import Kind

ON_THREAD = {"pid": 10, "tid": 11}
ON_STREAM = {"pid": 0, "tid": 7}


def written(path, events, *, compressed=False, **top):
    text = json.dumps({"schemaVersion": 1, **top, "traceEvents": events, "traceName": "t"}, indent=2).encode()
    path.write_bytes(gzip.compress(text) if compressed else text)
    return path


def event(name, ts, dur, cat="cpu_op", where=ON_THREAD, **args):
    return {"ph": "X", "cat": cat, "name": name, **where, "ts": ts, "dur": dur, "args": args}


def a_step():
    """A range around an operator whose call launches a kernel, and its backward on another thread."""
    return [
        {"ph": "M", "name": "process_name", **ON_THREAD, "ts": 5, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", **ON_THREAD, "ts": 5, "args": {"name": "thread 11 (loop)"}},
        event("ProfilerStep#3", 1000.5, 100, "user_annotation"),
        event("nn.Module: Linear_0", 1002, 60, "python_function"),
        event(
            "aten::mm", 1010.001, 40, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]},
            **{"Sequence number": 0},
        ),
        event("cudaLaunchKernel", 1020, 5, "cuda_runtime", correlation=77, cbid=211),
        event(
            "void gemm<float>", 1040, 30.25, "kernel", ON_STREAM, device=0, stream=7, correlation=77, grid=[4, 1, 1],
            block=[128, 1, 1], **{"registers per thread": 32, "shared memory": 1024, "External id": 3},
        ),
        event("Memcpy HtoD (Pageable -> Device)", 1080, 2, "gpu_memcpy", ON_STREAM, device=0, stream=7, bytes=4096),
        event("MmBackward0", 1090, 3, where={"pid": 10, "tid": 12}, **{"Sequence number": 0}),
        {"ph": "s", "id": 77, **ON_THREAD, "ts": 1020, "cat": "ac2g", "name": "ac2g"},
        {
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", **ON_THREAD, "ts": 1015,
            "args": {"Total Allocated": 512, "Bytes": 512, "Device Id": 0, "Device Type": 1, "Addr": 99},
        },
    ]  # fmt: skip


def named(trace, text):
    (row,) = [row for row in range(len(trace)) if trace.name_of(row) == text]
    return row


def assert_usable(trace):
    """Assert what every analysis relies on."""
    count = len(trace)
    assert all(len(column) == count for column in (trace.kind, trace.begin, trace.duration, trace.lane, trace.parent))
    assert np.all(trace.begin >= 0)
    assert np.all(trace.duration >= 0)
    assert np.all(trace.parent < np.arange(count))
    assert set(trace.kind.tolist()) <= set(map(int, Kind))
    for row in range(count):
        assert isinstance(trace.name_of(row), str)
        json.dumps(trace.details_of(row), allow_nan=False)
        assert trace.lanes[trace.lane[row]].name
    assert trace.launched_by.max(initial=-1) < count


SECONDS = 20.0  # the limit for one of these files, which takes a tenth of a second


def text_of(events, **top):
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": events}, indent=2)


def read_text(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return traces.read(path)


def many(count=50):
    return [event(f"op {number}", 10 * number, 5, **{"Input Dims": [[number, 2]]}) for number in range(count)]


ODD = (b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\x00", b"\xff", b"NaN", b"-1e999", b"null", b"true", b'"ph"')


def mutate(draw, content):
    """The content with a few cuts, insertions and replacements."""
    content = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at, size = draw.randrange(len(content)), draw.randint(1, 80)
        kind = draw.randrange(5)
        if kind == 0:
            del content[at : at + size]
        elif kind == 1:
            content[at:at] = draw.choice(ODD) * draw.choice((1, 1, 1, 50))
        elif kind == 2:
            content[at : at + 1] = bytes([draw.randrange(256)])
        elif kind == 3:
            content[at:at] = content[draw.randrange(len(content)) :][:size]
        else:
            content[at : at + size] = draw.choice(ODD)
        content = content or bytearray(b" ")
    return bytes(content)


def fuzz(seed, count, tmp_path):
    """Read `count` damaged traces; returns how many could be read."""
    draw, read = random.Random(seed), 0
    original = text_of([*a_step(), *many(6)], distributedInfo={"rank": 0}, deviceProperties=[{"name": "x"}]).encode()
    path = tmp_path / "t.json"
    for number in range(count):
        damaged = mutate(draw, original)
        if number % 5 == 0:
            damaged = mutate(draw, gzip.compress(original))
        path.write_bytes(damaged)
        began = time.monotonic()
        with contextlib.suppress(UserError):
            assert_usable(traces.read(path))
            read += 1
        assert time.monotonic() - began < SECONDS
    return read
