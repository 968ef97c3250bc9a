"""Exports of Nsight Systems become a trace: genuine ones, and CUDA tables written by hand from NVIDIA's schema."""

import contextlib
import gzip
import random
import sqlite3

import pytest

from kernellab import traces
from kernellab.base.errors import UserError
from kernellab.traces.trace import NONE, Kind
from support.chrome_traces import assert_usable, named
from support.klab import HERE

SAMPLES = ("nsys-2022.4", "nsys-2023.4")
PROCESS = 5 << 24
THREAD = PROCESS | 6
NAMES = ["cudaLaunchKernel_v7000", "void gemm<float>(float*)", "gemm", "cudaStreamSynchronize_v3020", "loop"]


@pytest.fixture(params=SAMPLES)
def genuine(request, tmp_path):
    path = tmp_path / "report.sqlite"
    path.write_bytes(gzip.decompress((HERE / "samples" / f"{request.param}.sqlite.gz").read_bytes()))
    return path


def export(path, *, without=(), drop=(), **rows):
    """An export with one launch, `without` some columns, with some tables dropped, and with more `rows` by table."""
    times = {"start": 100, "end": 110}
    gpu = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": PROCESS}
    grid = {"gridX": 4, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    shared = {"registersPerThread": 32, "staticSharedMemory": 1000, "dynamicSharedMemory": 24}
    call = {"eventClass": 0, "globalTid": THREAD}
    tables = {
        "StringIds": [{"id": number, "value": name} for number, name in enumerate(NAMES)],
        "ThreadNames": [{"nameId": 4, "priority": 1, "globalTid": THREAD}],
        "PROCESSES": [{"globalPid": PROCESS, "pid": 5, "name": "/usr/bin/python3"}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {**times, **call, "correlationId": 9, "nameId": 0},
            {"start": 120, "end": 190, **call, "correlationId": 10, "nameId": 3},
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {
                "start": 130, "end": 150, **gpu, "correlationId": 9, "demangledName": 1, "shortName": 2, **grid,
                **shared,
            }
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {
                "start": 151, "end": 160, **gpu, "correlationId": 11, "bytes": 4096, "copyKind": 1, "srcKind": 0,
                "dstKind": 2,
            }
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [
            {"start": 161, "end": 162, **gpu, "correlationId": 12, "bytes": 64, "value": 0, "memKind": 2}
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            {"start": 121, "end": 189, **gpu, "correlationId": 10, "syncType": 3, "eventId": 0}
        ],
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {"start": at, **gpu, "address": 1, "bytes": 512, "memKind": 2, "memoryOperationType": freed}
            for at, freed in ((105, 0), (170, 1))
        ],
        "NVTX_EVENTS": [
            {
                "start": 90, "end": 200, "eventType": 59, "globalTid": THREAD, "text": "step", "textId": None,
                "domainId": 0,
            }
        ],
        "TARGET_INFO_GPU": [{"vmId": 0, "id": 0, "name": "NVIDIA H200", "smCount": 132, "totalMemory": 150}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 10**18}],
    }  # fmt: skip
    for table, more in rows.items():
        columns = tables.get(table, [{}])[0]
        tables[table] = tables.get(table, []) + [{**dict.fromkeys(columns), **row} for row in more]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table, content in tables.items():
            if table in drop:
                continue
            columns = [column for column in content[0] if column not in without]
            quoted = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f"CREATE TABLE {table} ({quoted})")
            for row in content:
                marks = ", ".join("?" * len(columns))
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", [row[column] for column in columns])
        connection.commit()
    return path


def test_a_genuine_export_gives_its_ranges(genuine):
    trace = traces.read(genuine)
    assert trace.source == "nsys"
    assert sorted(trace.metadata) == ["EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "gpus"]
    assert [note for note in trace.notes if "no kernels" in note]
    ranges = [row for row in trace.rows(Kind.RANGE) if "started" not in trace.lanes[trace.lane[row]].name]
    tree = [
        (trace.name_of(row), trace.name_of(trace.parent[row]) if trace.parent[row] != NONE else "") for row in ranges
    ]
    main = [pair for pair in tree if pair[0] != "load"]
    step_ranges = [("forward", "step"), ("layer 0", "forward"), ("layer 1", "forward"), ("backward", "step")]
    assert main == [
        pair
        for step in range(3)
        for pair in [(f"step {step}", ""), *((n, f"step {step}" if p == "step" else p) for n, p in step_ranges)]
    ]
    loads = [row for row in ranges if trace.name_of(row) == "load"]
    assert len(loads) == 3
    assert all(trace.details_of(row) == {"domain": "data"} for row in loads)
    assert all(trace.duration[row] >= 2_000_000 for row in loads)  # the program sleeps for two milliseconds
    assert len({trace.lane[row] for row in loads} & {trace.lane[row] for row in ranges[:5]}) == 0


def test_overlapping_ranges_of_a_genuine_export_get_a_lane_beside_their_thread(genuine):
    trace = traces.read(genuine)
    rows = [named(trace, "request a"), named(trace, "request b")]
    assert all(trace.parent[row] == NONE for row in rows)
    assert trace.lanes[trace.lane[rows[0]]].name.endswith("(python3), ranges started and ended")
    assert trace.lanes[trace.lane[rows[0]]].process.startswith("python3 ")


def test_system_calls_of_a_genuine_export_lie_inside_the_ranges(genuine):
    trace = traces.read(genuine)
    sleeps = [row for row in range(len(trace)) if trace.name_of(row) == "clock_nanosleep"]
    assert {trace.name_of(trace.parent[row]) for row in sleeps} >= {"layer 0", "layer 1", "backward", "load"}
    assert set(trace.kind[sleeps].tolist()) == {Kind.OTHER}


def test_a_launch_becomes_rows_of_the_table(tmp_path):
    trace = traces.read(export(tmp_path / "r.sqlite"))
    assert not trace.notes
    kernel, call = named(trace, "void gemm<float>(float*)"), named(trace, "cudaLaunchKernel")
    assert trace.launched_by[kernel] == call
    assert trace.name_of(trace.parent[call]) == "step"
    assert trace.details_of(kernel) == {"grid": [4, 1, 1], "block": [128, 1, 1], "registers": 32, "shared_bytes": 1024}
    assert (trace.begin[kernel], trace.duration[kernel], trace.zero_ns) == (40, 20, 10**18 + 90)
    assert trace.lanes[trace.lane[kernel]].stream == 7
    assert trace.lanes[trace.lane[call]].name == "thread 6 (loop)"
    assert trace.details_of(named(trace, "Memcpy HtoD (Pageable -> Device)")) == {"bytes": 4096}
    assert trace.kind[named(trace, "Memset (Device)")] == Kind.FILL
    wait = named(trace, "Stream Sync")
    assert trace.kind[wait] == Kind.WAIT
    assert trace.link[wait] == trace.link[named(trace, "cudaStreamSynchronize")]
    assert trace.memory.bytes.tolist() == [512, -512]
    assert trace.memory.total.tolist() == [512, 0]
    assert trace.metadata["gpus"] == [{"index": 0, "name": "NVIDIA H200", "sms": 132, "memory_bytes": 150}]


def test_missing_tables_and_columns_are_tolerated(tmp_path):
    missing = ("demangledName", "srcKind", "dstKind", "memKind", "domainId", "globalPid", "contextId", "smCount")
    absent = ("ThreadNames", "PROCESSES", "TARGET_INFO_SESSION_START_TIME")
    trace = traces.read(export(tmp_path / "r.sqlite", without=missing, drop=absent))
    assert trace.name_of(trace.rows(Kind.KERNEL)[0]) == "gemm"
    assert trace.launched_by[trace.rows(Kind.KERNEL)[0]] != NONE
    assert trace.kind[named(trace, "Memcpy HtoD")] == Kind.COPY
    assert trace.zero_ns == 90
    incomplete = traces.read(
        export(tmp_path / "s.sqlite", drop=("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"))
    )
    assert len(incomplete) == 4
    assert [note[:25] for note in incomplete.notes] == ["The export has no CUDA ca", "The export has no kernels"]


def test_ranges_that_torch_wrote_for_operators_become_operators(tmp_path):
    texts = ["aten::mm, seq = 7, op_id = 3, sizes = [[2, 3], [3, 4]], input_op_ids = [(1, 0)]", "MmBackward0, seq = 7"]
    rows = [
        {"start": 91 + n, "end": 92 + n, "eventType": 59, "globalTid": THREAD, "text": text}
        for n, text in enumerate([*texts, "a, b, c"])
    ]
    trace = traces.read(export(tmp_path / "r.sqlite", NVTX_EVENTS=rows))
    mm, backward = named(trace, "aten::mm"), named(trace, "MmBackward0")
    assert trace.kind[mm] == trace.kind[backward] == Kind.OPERATOR
    assert trace.sequence[mm] == trace.sequence[backward] == 8
    assert trace.details_of(mm) == {"shapes": [[2, 3], [3, 4]]}
    assert trace.kind[named(trace, "a, b, c")] == Kind.RANGE


def test_processes_with_equal_correlation_numbers_are_kept_apart(tmp_path):
    other = 8 << 24
    call = {"start": 100, "end": 101, "globalTid": other | 1, "correlationId": 9, "nameId": 0}
    kernel = {"start": 300, "end": 310, "deviceId": 0, "streamId": 7, "correlationId": 9, "globalPid": other}
    trace = traces.read(
        export(
            tmp_path / "r.sqlite",
            CUPTI_ACTIVITY_KIND_RUNTIME=[call],
            CUPTI_ACTIVITY_KIND_KERNEL=[{**kernel, "demangledName": 2}],
        )
    )
    for row in trace.rows(Kind.KERNEL):
        assert (trace.lanes[trace.lane[row]].process == "GPU 0") == (trace.name_of(row) != "gemm")
        assert ("8" in trace.lanes[trace.lane[trace.launched_by[row]]].process) == (trace.name_of(row) == "gemm")


def test_rows_with_invalid_fields_are_dropped_and_counted(tmp_path):
    invalid = [
        {"start": "soon", "end": 5, "globalTid": THREAD, "nameId": 0},
        {"start": 7, "end": 5, "globalTid": THREAD, "nameId": 0},
        {"start": -7, "end": 5, "globalTid": THREAD, "nameId": 0},
        {"start": 7, "end": 9, "globalTid": "x", "nameId": 0},
        {"start": 7, "end": 9, "globalTid": None, "nameId": 0},
    ]
    ranges = [{"start": 95, "end": None, "eventType": 59, "globalTid": THREAD, "text": "open"}]
    trace = traces.read(export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=invalid, NVTX_EVENTS=ranges))
    assert len(trace) == 7
    assert sorted(note.split("(")[1] for note in trace.notes) == ["1 ×).", "2 ×).", "3 ×)."]


def test_a_view_that_never_ends_is_not_read(tmp_path):
    path = export(tmp_path / "r.sqlite", drop=("OSRT_API",))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW OSRT_API AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL SELECT start FROM c) "
            "SELECT start, start AS end, 1 AS globalTid, 1 AS nameId FROM c"
        )
        connection.commit()
    assert len(traces.read(path)) == 7


def test_another_sqlite_file_is_refused(tmp_path):
    path = tmp_path / "r.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.commit()
    with pytest.raises(UserError, match="not an Nsight Systems export"):
        traces.read(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"cannot be read|not an Nsight Systems export"):
        traces.read(path)


def test_an_export_with_a_damaged_schema_is_refused(tmp_path):
    path = export(tmp_path / "r.sqlite")
    damaged = path.read_bytes().replace(b"tableNVTX_EVENTS", b"tableNVT\xf2_EVENTS")
    path.write_bytes(damaged.replace(b"CREATE TABLE NVTX_EVENTS", b"CREATE ?ABLE NVTX_EVENTS"))
    with pytest.raises(UserError, match="cannot be read"):
        traces.read(path)


def test_damaged_exports_are_read_or_refused(genuine):
    original, draw, read = genuine.read_bytes(), random.Random(3), 0
    for _ in range(40):
        damaged = bytearray(original)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(damaged))
            damaged[at : at + draw.choice((1, 30, 3000))] = bytes([draw.randrange(256)]) * draw.choice((1, 30, 3000))
        end = draw.choice((len(damaged), draw.randrange(20, len(damaged))))
        genuine.write_bytes(bytes(damaged[:end]))
        with contextlib.suppress(UserError):
            assert_usable(traces.read(genuine))
            read += 1
    assert read
