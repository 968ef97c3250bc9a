"""Nsight Systems: its SQLite export, read into a trace.

Tables and columns differ from version to version, and a table is only there when it has rows: what is there is asked,
not assumed. Texts are numbers into a table of texts; threads are numbers that hold a process's and a thread's.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.base.text import shown
from kernellab.traces.row_details import sound
from kernellab.traces.trace import Builder, Kind, Lane, Trace

MAGIC = b"SQLite format 3\0"
REPORT = b"NVIDIA Tegra Pro"  # how .nsys-rep begins

_RUNTIME, _KERNEL = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"
_COPY, _FILL = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_WAIT, _GRAPH = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
# What its absence means, where that is worth a word.
_EXPECTED = {
    _RUNTIME: "no calls of CUDA (was it recorded with `--trace=cuda,nvtx`, on a machine with a GPU?)",
    _KERNEL: "no kernels",
    "NVTX_EVENTS": "no NVTX ranges",
}
# NVTX_EVENTS.eventType, where the table of its meanings is missing.
_MARK, _PUSH_POP, _START_END, _DOMAIN = 34, 59, 60, 75
# As PyTorch's profiler names them; what a version adds is named as that version does.
_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_COPIES = {
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
_PLACES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}

_Described = tuple[str, dict[str, Any]]
_Describe = Callable[..., _Described]

# SQLite's own messages quote the file, and need not be text.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError)
_LATEST_NS = 4 * 10**18
_LONGEST_VALUE = 1 << 26  # bytes
_version_of_call = re.compile(r"_v\d+$")
# What torch.autograd.profiler.emit_nvtx calls a range: "aten::mm, seq = 7, op_id = 12, sizes = [[2, 3], [3, 4]]".
_operator = re.compile(
    r"(?P<name>.+?)(?:, seq = (?P<seq>\d{1,15}))?(?:, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = \[.*\])?"
)


def read(path: Path) -> Trace:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            connection.execute("PRAGMA trusted_schema = OFF")
            return _Export(connection).trace()
    except _DAMAGE as error:
        raise UserError(f"{path} is an SQLite file that cannot be read: {error}.") from None
    except _NotAnExport:
        raise UserError(
            f"{path} is an SQLite file, but no export of Nsight Systems: it has no table StringIds or NVTX_EVENTS."
        ) from None


class _NotAnExport(Exception):
    pass


class _Export:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.builder = Builder("nsys")
        self._connection = connection
        # Views are left alone: one can be written so that reading it never ends.
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        self._columns = {
            name: {row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')}
            for name, sql in found
            if isinstance(name, str) and name.replace("_", "").isalnum() and "VIRTUAL" not in str(sql).upper()[:20]
        }
        if not {"StringIds", "NVTX_EVENTS"} & set(self._columns):
            raise _NotAnExport
        self._texts: dict[Any, str] = dict(self._rows("StringIds", "id", "value"))
        self._processes: dict[Any, str] = {pid: str(name) for pid, name in self._rows("PROCESSES", "globalPid", "name")}
        self._threads: dict[Any, str] = {}
        for thread, name in self._rows("ThreadNames", "globalTid", "nameId"):
            self._threads.setdefault(thread, self._text(name))
        self._numbers: dict[int, int] = {}  # of processes, in the order they are met
        self._lanes: dict[Any, int] = {}
        self._domains: dict[Any, str] = {}

    def trace(self) -> Trace:
        builder = self.builder
        for table, what in _EXPECTED.items():
            if table not in self._columns:
                builder.notes.append(f"The export has {what}.")
        self._about()
        self._calls()
        self._kernels()
        self._copies()
        self._waits()
        self._ranges()
        self._system()
        self._memory()
        return builder.trace()

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a table, as far as they can be read; a column that is not there is None."""
        there = self._columns.get(table)
        if not there:
            return
        wanted = ", ".join(f'"{column}"' if column in there else "NULL" for column in columns)
        try:
            for row in self._connection.execute(f'SELECT {wanted} FROM "{table}"'):
                if self.builder.full:
                    self.builder.notes.append(f"Only the first {len(self.builder):,} events are read.")
                    return
                yield row
        except _DAMAGE as error:
            self.builder.notes.append(f"{table} is damaged ({error}): what comes after is missing.")

    def _text(self, number: Any, text: Any = None) -> str:
        if text is not None:
            return str(text)
        return str(self._texts.get(number, f"(text {number})"))

    def _thread(self, thread: Any, *, apart: str = "") -> int:
        key = (thread, apart)
        if (number := self._lanes.get(key)) is not None:
            return number
        if not isinstance(thread, int) or self.builder.lanes_full:
            raise ValueError
        own = thread & 0xFFFFFF
        name = f"thread {own}"
        if named := self._threads.get(thread):
            name = f"{name} ({shown(named, 200)})"
        lane = Lane(self._process(thread), name + apart)
        number = self._lanes[key] = self.builder.lane(lane)
        return number

    def _process(self, within: int) -> str:
        """The name of the process a thread's number tells."""
        own = within >> 24 & 0xFFFFFF
        program = self._processes.get(within & ~0xFFFFFF)
        return f"{shown(Path(program).name, 200)} {own}" if program else str(own)

    def _stream(self, device: Any, stream: Any, process: Any) -> int:
        key = (device, stream, process)
        if (number := self._lanes.get(key)) is not None:
            return number
        if not (isinstance(device, int) and isinstance(stream, int)) or self.builder.lanes_full:
            raise ValueError
        # Each process counts its streams, and only the GPUs it may see.
        whose = f" of {self._process(process)}" if self._number(process) else ""
        number = self._lanes[key] = self.builder.lane(Lane(f"GPU {device}{whose}", f"stream {stream}", device, stream))
        return number

    def _number(self, within: Any) -> int:
        """Processes, numbered as they are met. Where none is told, there is one."""
        if not isinstance(within, int):
            return 0
        return self._numbers.setdefault(within >> 24 & 0xFFFFFF, len(self._numbers))

    def _link(self, correlation: Any, within: Any) -> int:
        """Each process counts its calls from one: the first one's numbers stay as they are."""
        if not correlation or not isinstance(correlation, int) or not 0 < correlation < 1 << 40:
            return 0
        return (self._number(within) % (1 << 22) << 40) + correlation

    def _add(
        self, kind: Kind, name: str, lane: int, start: Any, end: Any, *, link: int = 0, sequence: int = 0, **more: Any
    ) -> None:
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end < _LATEST_NS):
            self.builder.missed["an event without a time, or at one that cannot be"] += 1
            return
        kept = sound({key: value for key, value in more.items() if value not in (None, "", [])})
        detail = self.builder.detail(json.dumps(kept), kept) if kept else 0
        self.builder.add(
            kind, self.builder.name(name), lane, start, end - start, link=link, sequence=sequence, detail=detail
        )

    def _odd(self) -> None:
        self.builder.missed["an event whose fields are not what they should be"] += 1

    def _calls(self) -> None:
        names: dict[Any, str] = {}
        for start, end, thread, correlation, name in self._rows(
            _RUNTIME, "start", "end", "globalTid", "correlationId", "nameId"
        ):
            try:
                text = names.get(name)
                if text is None:  # cudaLaunchKernel_v7000: the version says nothing here
                    text = names[name] = _version_of_call.sub("", self._text(name))
                self._add(Kind.CALL, text, self._thread(thread), start, end, link=self._link(correlation, thread))
            except (TypeError, ValueError):
                self._odd()

    def _on_gpu(self, kind: Kind, table: str, columns: tuple[str, ...], describe: _Describe) -> None:
        """The rows of a table of what ran on GPUs; `describe` gives name and details from `columns`."""
        place = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
        for start, end, device, stream, correlation, process, *rest in self._rows(table, *place, *columns):
            try:
                name, more = describe(*rest)
                lane, link = self._stream(device, stream, process), self._link(correlation, process)
                self._add(kind, name, lane, start, end, link=link, **more)
            except (TypeError, ValueError):
                self._odd()

    def _kernels(self) -> None:
        def kernel(full: Any, short: Any, registers: Any, static: Any, dynamic: Any, *size: Any) -> _Described:
            return self._text(short if full is None else full), {
                "grid": list(size[:3]),
                "block": list(size[3:]),
                "registers": registers,
                "shared_bytes": (static or 0) + (dynamic or 0),
            }

        names = ("demangledName", "shortName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
        sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        self._on_gpu(Kind.KERNEL, _KERNEL, names + sizes, kernel)
        # One row for a whole graph, where its kernels were not recorded one by one.
        self._on_gpu(Kind.KERNEL, _GRAPH, ("graphId",), lambda graph: (f"CUDA graph {graph}", {}))

    def _copies(self) -> None:
        ways = self._meanings("ENUM_CUDA_MEMCPY_OPER", _COPIES)
        places = self._meanings("ENUM_CUDA_MEM_KIND", _PLACES)

        def copy(size: Any, way: Any, source: Any, target: Any) -> _Described:
            known = source is not None and target is not None
            between = f" ({places[source]} -> {places[target]})" if known else ""
            return f"Memcpy {ways[way]}{between}", {"bytes": size}

        def fill(size: Any, place: Any) -> _Described:
            return "Memset" if place is None else f"Memset ({places[place]})", {"bytes": size}

        self._on_gpu(Kind.COPY, _COPY, ("bytes", "copyKind", "srcKind", "dstKind"), copy)
        self._on_gpu(Kind.FILL, _FILL, ("bytes", "memKind"), fill)

    def _waits(self) -> None:
        kinds = self._meanings("ENUM_CUPTI_SYNC_TYPE", _WAITS)
        self._on_gpu(Kind.WAIT, _WAIT, ("syncType",), lambda kind: (kinds[kind], {}))

    def _meanings(self, table: str, known: dict[int, str]) -> dict[Any, str]:
        """What numbers mean: as they are called here, else as the file says, else the numbers."""
        found: dict[Any, str] = defaultdict(lambda: "of an unknown kind")
        found |= {number: str(label) for number, label in self._rows(table, "id", "label")}
        found |= known
        return found

    def _ranges(self) -> None:
        kinds = {name: number for number, name in self._rows("ENUM_NSYS_EVENT_TYPE", "id", "name")}
        mark, domain = kinds.get("NvtxMark", _MARK), kinds.get("NvtxDomainCreate", _DOMAIN)
        push_pop, start_end = kinds.get("NvtxPushPopRange", _PUSH_POP), kinds.get("NvtxStartEndRange", _START_END)
        columns = ("eventType", "start", "end", "globalTid", "text", "textId", "domainId")
        for kind, _, _, thread, text, number, which in self._rows("NVTX_EVENTS", *columns):
            if kind == domain and isinstance(thread, int) and isinstance(which, int):
                self._domains[thread >> 24, which] = shown(self._text(number, text), 200)
        for kind, start, end, thread, text, number, which in self._rows("NVTX_EVENTS", *columns):
            try:
                if kind not in (mark, push_pop, start_end):
                    continue
                if end is None and kind != mark:
                    self.builder.missed["an NVTX range that never ends"] += 1
                    continue
                # Ranges that are started and ended may overlap: they have a lane beside their thread's.
                lane = self._thread(thread, apart=", ranges started and ended" if kind == start_end else "")
                name, sequence, shapes = _operator_of(self._text(number, text))
                row = Kind.OTHER if kind == mark else Kind.RANGE if shapes is None else Kind.OPERATOR
                named = self._domains.get((thread >> 24, which))
                self._add(
                    row,
                    name,
                    lane,
                    start,
                    start if kind == mark else end,
                    sequence=sequence,
                    shapes=shapes,
                    domain=named,
                )
            except (TypeError, ValueError):
                self._odd()

    def _system(self) -> None:
        for start, end, thread, name in self._rows("OSRT_API", "start", "end", "globalTid", "nameId"):
            try:
                self._add(Kind.OTHER, self._text(name), self._thread(thread), start, end)
            except (TypeError, ValueError):
                self._odd()

    def _memory(self) -> None:
        held: dict[Any, int] = defaultdict(int)
        columns = ("start", "globalPid", "deviceId", "bytes", "memKind", "memoryOperationType", "address")
        found = self._rows("CUDA_GPU_MEMORY_USAGE_EVENTS", *columns)
        for start, process, device, size, place, freed, address in sorted(
            (row for row in found if all(isinstance(value, int) for value in row)), key=lambda row: int(row[0])
        ):
            if not 0 <= start < _LATEST_NS or not 0 <= size < 1 << 50 or self.builder.lanes_full:
                self._odd()
                continue
            where = -1 if place in (0, 1) else device
            size = -size if freed else size
            held[where] += size
            self.builder.allocate(start, size, held[where], where, address, self._thread(process))

    def _about(self) -> None:
        about = self.builder.about
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            for name, value in self._rows(table, "name", "value"):
                if name in ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"):
                    about[name] = shown(str(value), 200)
        about["gpus"] = [
            {"index": index, "name": shown(str(name), 200), "sms": _count(sms), "memory_bytes": _count(memory)}
            for index, name, sms, memory in self._rows("TARGET_INFO_GPU", "id", "name", "smCount", "totalMemory")
        ]
        for (zero,) in self._rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
            if isinstance(zero, int) and 0 <= zero < _LATEST_NS:
                self.builder.zero_ns = zero


def _operator_of(text: str) -> tuple[str, int, list[Any] | None]:
    """An operator's name, sequence and shapes from a range that emit_nvtx made; other texts as they are."""
    made = ", op_id = " in text or ", seq = " in text
    if not made or len(text) > 10_000 or not (match := _operator.fullmatch(text)):
        return text, 0, None
    try:
        shapes = json.loads(match["sizes"] or "[]")
    except (ValueError, RecursionError):
        shapes = []
    return match["name"], int(match["seq"] or -1) + 1, shapes


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
