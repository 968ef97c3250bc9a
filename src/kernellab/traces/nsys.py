"""Reads the SQLite export of Nsight Systems into a trace.

Tables and columns differ between versions, and a table exists only if it has rows: the reader checks what exists.
Texts are stored as numbers into a table of texts. A thread's number contains its process's number.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.json import JsonValue
from kernellab.base.text import printable
from kernellab.traces.builder import LATEST_NS, TraceBuilder
from kernellab.traces.row_details import valid_details
from kernellab.traces.trace import Kind, Lane, Trace

SQLITE_MAGIC = b"SQLite format 3\0"
REPORT_MAGIC = b"NVIDIA Tegra Pro"  # the first bytes of .nsys-rep

_RUNTIME, _KERNEL = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"
_COPY, _FILL = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_WAIT, _GRAPH = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
# Tables whose absence is worth a note, and what the note says is missing.
_EXPECTED = {
    _RUNTIME: "no CUDA calls (was it recorded with `--trace=cuda,nvtx`, on a machine with a GPU?)",
    _KERNEL: "no kernels",
    "NVTX_EVENTS": "no NVTX ranges",
}
# NVTX_EVENTS.eventType, for exports without the table that names the types.
_MARK, _PUSH_POP, _START_END, _DOMAIN = 34, 59, 60, 75
# The names that PyTorch's profiler uses. Values added by a newer version keep that version's names.
_SYNC_TYPES = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MEMORY_KINDS = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
}
_HOST_MEMORY = (0, 1)  # of _MEMORY_KINDS

_Value = int | float | str | bytes | None
_Described = tuple[str, dict[str, JsonValue]]  # a row's name and details
_Describe = Callable[[list[_Value]], _Described]

# SQLite's messages quote the file, and its bytes may not be text.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError)
_MAX_VALUE = 1 << 26  # bytes
_MAX_OPERATOR_TEXT = 10_000  # characters
_MAX_LABEL = 200  # characters
_MAX_ALLOCATION = 1 << 50  # bytes
_call_version = re.compile(r"_v\d+$")
# The name that torch.autograd.profiler.emit_nvtx gives a range: "aten::mm, seq = 7, op_id = 12, sizes = [[2, 3]]".
_operator = re.compile(
    r"(?P<name>.+?)(?:, seq = (?P<seq>\d{1,15}))?(?:, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = \[.*\])?"
)


def read(path: Path) -> Trace:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
            connection.execute("PRAGMA trusted_schema = OFF")
            return _ExportReader(connection).build()
    except _DAMAGE as error:
        raise UserError(f"{path} is an SQLite file that cannot be read: {error}.") from None
    except _NotAnExport:
        raise UserError(
            f"{path} is an SQLite file but not an Nsight Systems export: it has no table StringIds or NVTX_EVENTS."
        ) from None


class _NotAnExport(Exception):
    pass


class _ExportReader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.builder = TraceBuilder("nsys")
        self._connection = connection
        # Views are not read: a view can be written so that reading it never ends.
        tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        self._columns: dict[str, set[str]] = {
            name: {row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')}
            for name, sql in tables
            if isinstance(name, str) and name.replace("_", "").isalnum() and "VIRTUAL" not in str(sql).upper()[:20]
        }
        if not {"StringIds", "NVTX_EVENTS"} & set(self._columns):
            raise _NotAnExport
        self._texts = {number: str(text) for number, text in self._rows("StringIds", "id", "value")}
        self._processes = {pid: str(name) for pid, name in self._rows("PROCESSES", "globalPid", "name")}
        self._threads: dict[_Value, str] = {}
        for thread, name in self._rows("ThreadNames", "globalTid", "nameId"):
            self._threads.setdefault(thread, self._text(name))
        self._process_numbers: dict[int, int] = {}  # by process, in order of appearance
        self._lanes: dict[tuple[_Value, ...], int] = {}
        self._domains: dict[tuple[int, _Value], str] = {}

    def build(self) -> Trace:
        for table, message in _EXPECTED.items():
            if table not in self._columns:
                self.builder.notes.append(f"The export has {message}.")
        self._read_metadata()
        self._read_calls()
        self._read_kernels()
        self._read_copies()
        self._read_waits()
        self._read_ranges()
        self._read_system_calls()
        self._read_memory()
        return self.builder.build()

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[_Value, ...]]:
        """The rows of a table until the first damaged one; a column that does not exist is None."""
        existing = self._columns.get(table)
        if not existing:
            return
        selected = ", ".join(f'"{column}"' if column in existing else "NULL" for column in columns)
        try:
            for row in self._connection.execute(f'SELECT {selected} FROM "{table}"'):
                if self.builder.full:
                    self.builder.notes.append(f"Only the first {len(self.builder):,} events are read.")
                    return
                yield row
        except _DAMAGE as error:
            self.builder.notes.append(f"Table {table} is damaged ({error}): its remaining rows are missing.")

    def _text(self, number: _Value, text: _Value = None) -> str:
        """A text given directly, or by its number."""
        if text is not None:
            return str(text)
        return self._texts.get(number, f"(text {number!r})")

    def _thread_lane(self, thread: _Value, *, suffix: str = "") -> int:
        key = (thread, suffix)
        if (number := self._lanes.get(key)) is not None:
            return number
        if not isinstance(thread, int) or self.builder.lanes_full:
            raise ValueError
        name = f"thread {thread & 0xFFFFFF}"
        if label := self._threads.get(thread):
            name = f"{name} ({printable(label, _MAX_LABEL)})"
        lane = Lane(self._process_name(thread), name + suffix)
        number = self._lanes[key] = self.builder.lane(lane)
        return number

    def _process_name(self, global_id: int) -> str:
        """The name of the process that a thread's or process's number contains."""
        pid = global_id >> 24 & 0xFFFFFF
        program = self._processes.get(global_id & ~0xFFFFFF)
        return f"{printable(Path(program).name, _MAX_LABEL)} {pid}" if program else str(pid)

    def _stream_lane(self, device: _Value, stream: _Value, process: _Value) -> int:
        key = (device, stream, process)
        if (number := self._lanes.get(key)) is not None:
            return number
        if not (isinstance(device, int) and isinstance(stream, int)) or self.builder.lanes_full:
            raise ValueError
        # Each process numbers its streams, and only the GPUs that are visible to it.
        owner = f" of {self._process_name(process)}" if isinstance(process, int) and self._number(process) else ""
        number = self._lanes[key] = self.builder.lane(Lane(f"GPU {device}{owner}", f"stream {stream}", device, stream))
        return number

    def _number(self, global_id: _Value) -> int:
        """The number of a process, in order of appearance; 0 if the export has no process numbers."""
        if not isinstance(global_id, int):
            return 0
        return self._process_numbers.setdefault(global_id >> 24 & 0xFFFFFF, len(self._process_numbers))

    def _link(self, correlation: _Value, global_id: _Value) -> int:
        """Each process counts its calls from one. The links of the first process equal its correlation numbers."""
        if not correlation or not isinstance(correlation, int) or not 0 < correlation < 1 << 40:
            return 0
        return (self._number(global_id) % (1 << 22) << 40) + correlation

    def _add(
        self,
        kind: Kind,
        name: str,
        lane: int,
        start: _Value,
        end: _Value,
        *,
        link: int = 0,
        sequence: int = 0,
        details: Mapping[str, JsonValue] | None = None,
    ) -> None:
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end < LATEST_NS):
            self.builder.dropped["an event without a time, or at an impossible one"] += 1
            return
        given = {key: value for key, value in (details or {}).items() if value not in (None, "", [])}
        valid = valid_details(given) if given else {}
        detail = self.builder.detail(json.dumps(valid), valid) if valid else 0
        self.builder.add(
            kind, self.builder.name(name), lane, start, end - start, link=link, sequence=sequence, detail=detail
        )

    def _count_invalid(self) -> None:
        self.builder.dropped["an event with a missing or invalid field"] += 1

    def _read_calls(self) -> None:
        names: dict[_Value, str] = {}
        for start, end, thread, correlation, name in self._rows(
            _RUNTIME, "start", "end", "globalTid", "correlationId", "nameId"
        ):
            try:
                text = names.get(name)
                if text is None:  # cudaLaunchKernel_v7000: the version carries no information here
                    text = names[name] = _call_version.sub("", self._text(name))
                link = self._link(correlation, thread)
                self._add(Kind.CALL, text, self._thread_lane(thread), start, end, link=link)
            except (TypeError, ValueError):
                self._count_invalid()

    def _read_gpu_table(self, kind: Kind, table: str, columns: tuple[str, ...], describe: _Describe) -> None:
        """Read a table of GPU work; `describe` computes name and details from the values of `columns`."""
        place = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
        for start, end, device, stream, correlation, process, *values in self._rows(table, *place, *columns):
            try:
                name, details = describe(values)
                lane, link = self._stream_lane(device, stream, process), self._link(correlation, process)
                self._add(kind, name, lane, start, end, link=link, details=details)
            except (TypeError, ValueError):
                self._count_invalid()

    def _read_kernels(self) -> None:
        def kernel(values: list[_Value]) -> _Described:
            full, short, *numbers = values
            registers, static, dynamic, *size = map(_count, numbers)
            return self._text(short if full is None else full), {
                "grid": [*size[:3]],
                "block": [*size[3:]],
                "registers": registers,
                "shared_bytes": (static or 0) + (dynamic or 0),
            }

        names = ("demangledName", "shortName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
        sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        self._read_gpu_table(Kind.KERNEL, _KERNEL, names + sizes, kernel)
        # One row for a whole graph, if its kernels were not recorded one by one.
        self._read_gpu_table(Kind.KERNEL, _GRAPH, ("graphId",), lambda values: (f"CUDA graph {values[0]!r}", {}))

    def _read_copies(self) -> None:
        copies = self._labels("ENUM_CUDA_MEMCPY_OPER", _COPY_KINDS)
        memories = self._labels("ENUM_CUDA_MEM_KIND", _MEMORY_KINDS)

        def copy(values: list[_Value]) -> _Described:
            size, kind, source, target = values
            both = source is not None and target is not None
            between = f" ({memories[source]} -> {memories[target]})" if both else ""
            return f"Memcpy {copies[kind]}{between}", {"bytes": _count(size)}

        def fill(values: list[_Value]) -> _Described:
            size, memory = values
            return "Memset" if memory is None else f"Memset ({memories[memory]})", {"bytes": _count(size)}

        self._read_gpu_table(Kind.COPY, _COPY, ("bytes", "copyKind", "srcKind", "dstKind"), copy)
        self._read_gpu_table(Kind.FILL, _FILL, ("bytes", "memKind"), fill)

    def _read_waits(self) -> None:
        kinds = self._labels("ENUM_CUPTI_SYNC_TYPE", _SYNC_TYPES)
        self._read_gpu_table(Kind.WAIT, _WAIT, ("syncType",), lambda values: (kinds[values[0]], {}))

    def _labels(self, table: str, standard: Mapping[int, str]) -> dict[_Value, str]:
        """The names of an enumeration's values: the standard ones first, then those of the export's own table."""
        labels: dict[_Value, str] = defaultdict(lambda: "of an unknown kind")
        labels |= {number: str(label) for number, label in self._rows(table, "id", "label")}
        labels.update(standard.items())
        return labels

    def _read_ranges(self) -> None:
        types = {name: number for number, name in self._rows("ENUM_NSYS_EVENT_TYPE", "id", "name")}
        mark, domain = types.get("NvtxMark", _MARK), types.get("NvtxDomainCreate", _DOMAIN)
        push_pop, start_end = types.get("NvtxPushPopRange", _PUSH_POP), types.get("NvtxStartEndRange", _START_END)
        columns = ("eventType", "start", "end", "globalTid", "text", "textId", "domainId")
        for kind, _, _, thread, text, number, domain_id in self._rows("NVTX_EVENTS", *columns):
            if kind == domain and isinstance(thread, int) and isinstance(domain_id, int):
                self._domains[thread >> 24, domain_id] = printable(self._text(number, text), _MAX_LABEL)
        for kind, start, end, thread, text, number, domain_id in self._rows("NVTX_EVENTS", *columns):
            if kind not in (mark, push_pop, start_end):
                continue
            if end is None and kind != mark:
                self.builder.dropped["an NVTX range that never ends"] += 1
                continue
            try:
                # Ranges that are started and ended may overlap: they get a lane beside their thread's.
                lane = self._thread_lane(thread, suffix=", ranges started and ended" if kind == start_end else "")
                name, sequence, shapes = _parse_operator(self._text(number, text))
                row_kind = Kind.OTHER if kind == mark else Kind.RANGE if shapes is None else Kind.OPERATOR
                domain_name = self._domains.get((thread >> 24, domain_id)) if isinstance(thread, int) else None
                self._add(
                    row_kind,
                    name,
                    lane,
                    start,
                    start if kind == mark else end,
                    sequence=sequence,
                    details={"shapes": shapes, "domain": domain_name},
                )
            except (TypeError, ValueError):
                self._count_invalid()

    def _read_system_calls(self) -> None:
        for start, end, thread, name in self._rows("OSRT_API", "start", "end", "globalTid", "nameId"):
            try:
                self._add(Kind.OTHER, self._text(name), self._thread_lane(thread), start, end)
            except (TypeError, ValueError):
                self._count_invalid()

    def _read_memory(self) -> None:
        allocated: dict[int, int] = defaultdict(int)  # bytes by device
        columns = ("start", "globalPid", "deviceId", "bytes", "memKind", "memoryOperationType", "address")
        rows = [
            numbers
            for row in self._rows("CUDA_GPU_MEMORY_USAGE_EVENTS", *columns)
            if len(numbers := [value for value in row if isinstance(value, int)]) == len(columns)
        ]
        for start, process, device, size, memory, freed, address in sorted(rows, key=lambda row: row[0]):
            if not 0 <= start < LATEST_NS or not 0 <= size < _MAX_ALLOCATION or self.builder.lanes_full:
                self._count_invalid()
                continue
            where = -1 if memory in _HOST_MEMORY else device
            size = -size if freed else size
            allocated[where] += size
            self.builder.add_allocation(start, size, allocated[where], where, address, self._thread_lane(process))

    def _read_metadata(self) -> None:
        metadata = self.builder.metadata
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            for name, value in self._rows(table, "name", "value"):
                if name in ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"):
                    metadata[str(name)] = printable(str(value), _MAX_LABEL)
        metadata["gpus"] = [
            {
                "index": index if isinstance(index, int) else None,
                "name": printable(str(name), _MAX_LABEL),
                "sms": _count(sms),
                "memory_bytes": _count(memory),
            }
            for index, name, sms, memory in self._rows("TARGET_INFO_GPU", "id", "name", "smCount", "totalMemory")
        ]
        for (zero,) in self._rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
            if isinstance(zero, int) and 0 <= zero < LATEST_NS:
                self.builder.zero_ns = zero


def _parse_operator(text: str) -> tuple[str, int, list[JsonValue] | None]:
    """Name, sequence and shapes of an operator whose range emit_nvtx wrote; another text has no shapes."""
    by_torch = ", op_id = " in text or ", seq = " in text
    if not by_torch or len(text) > _MAX_OPERATOR_TEXT or not (match := _operator.fullmatch(text)):
        return text, 0, None
    try:
        shapes: list[JsonValue] = json.loads(match["sizes"] or "[]")
    except (ValueError, RecursionError):
        shapes = []
    return match["name"], int(match["seq"] or -1) + 1, shapes


def _count(value: _Value) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
