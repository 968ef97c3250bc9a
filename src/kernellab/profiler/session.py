"""The one profiler of a process: what it records, from which step to which, and the traces it leaves.

A session follows a schedule of steps, or has none and records until it is told to stop. Each cycle is a Chrome trace of
its own. Steps that only `kl.step` knows are written into it afterwards, as they begin and end in the middle of calls.
"""

from __future__ import annotations

import functools
import json
import os
import re
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the profiler announces itself on standard error

import torch
from torch.autograd import profiler as torch_profiler

from kernellab.base.errors import UserError
from kernellab.profiler.recording_limits import LONG, Watch, allowed, room
from kernellab.profiler.schedule import ACTIVE, OVER, WAIT, WARMUP, Schedule
from kernellab.profiler.signals import held
from kernellab.profiler.step_times import Pace, unburden

_HEAD, _TAIL = 1 << 20, 4096  # bytes of a trace before its events, and after them
_END_OF_EVENTS = re.compile(rb'\]\s*,\s*"traceName"')
_LITTLE = 0.1  # of the time and memory there is: what a program may do before it calls its model
_ANEW = "recorded from a model's first call on: what came before took much of the room there is"
_LATE_S = 0.5  # beyond its limit, a recording's length is said

Span = tuple[int, int, int]  # a recorded step's number, begin and end

# Profilers that recorded Python's calls, kept for good: when one is freed after another has begun, torch drops
# references to Python's objects that it does not own, and the process dies at its end.
_kept: list[torch.profiler.profile] = []
_current: Session | None = None


def current() -> Session | None:
    """The session of this process, while there is one. A forked process has none: its parent records."""
    return _current if _current is not None and _current.process == os.getpid() else None


@dataclass(frozen=True)
class How:
    """What is recorded besides operators and kernels."""

    shapes: bool = True
    memory: bool = True
    stacks: bool = True

    def profiler(self) -> torch.profiler.profile:
        """Of the thread that starts it. Torch can record all threads (`profile_all_threads`), but then knows nothing of
        memory, mixes up shapes, and breaks where a thread is at work while recording ends: seen with torch 2.13."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        return torch.profiler.profile(
            activities=activities,
            record_shapes=self.shapes,
            profile_memory=self.memory,
            with_stack=self.stacks,
            with_modules=self.stacks,
        )


@dataclass
class _PutBy:
    """A recording of everything, ended: it is shown if nothing better comes. `steps` is its last entry of the steps."""

    path: Path
    steps: dict[str, Any]
    notes: list[str]


@dataclass
class Session:
    """`schedule` None: everything is recorded. If then the program turns out to have steps, `once_stepping` is followed
    from the end of its waiting on; what was recorded before is kept only where nothing comes after.

    `numbered`: whether a trace's name ends in the number of its cycle. `yields`: whether it ends for `kl.profile`.
    `marked`: whether the trace shows steps by itself, by ranges of the program or of its optimizer. `limit_s`: of a
    recording; where there is one, its memory has a limit too, `memory_bytes`. `script`: the program's file, to find
    its lines again.
    """

    folder: Path
    name: str
    schedule: Schedule | None = None
    once_stepping: Schedule | None = None
    limit_s: float | None = None
    memory_bytes: int | None = None
    how: How = field(default_factory=How)
    marked: bool = False
    numbered: bool = True
    yields: bool = False
    script: str | None = None
    traces: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    profiled: Pace = field(default_factory=Pace)
    plain: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self.process = os.getpid()
        self.step_number = 0
        self.cycle = 1
        self.phase = OVER
        self.steps: list[dict[str, Any]] = []
        self._profiler: torch.profiler.profile | None = None
        self._recording = self._limited = self._making = False
        self._thread = threading.get_ident()
        self._watch: Watch | None = None
        self._growth: float | None = None  # of a recording's memory once it is taken apart, as seen so far
        self._began_step = 0
        self._spans: list[Span] = []
        self._first: _PutBy | None = None
        self._anew = False  # whether what is recorded without a schedule is more to the point than what was put by
        self._outer: Session | None = None  # which has given way to this one
        self._timed_before = False  # steps, before the recording
        self._over = 0  # from which step on nothing is recorded

    def start(self) -> None:
        global _current
        outer = current()
        if outer is not None and outer.yields:
            outer.give_way()
            self._outer, outer = outer, None
        if outer is not None or torch_profiler._is_profiler_enabled:
            raise UserError("a profiler is running in this process already: one at a time")
        _watch_for_others()
        _current = self
        self._enter(self.schedule.phase(0) if self.schedule else ACTIVE)
        self._began_step = time.time_ns()

    def step(self) -> None:
        """A step of the program has ended."""
        if threading.get_ident() != self._thread:  # recording ends on the thread it began on
            self._note_once("steps that end in other threads than the main one are not followed")
            return
        now = time.time_ns()
        self._label()
        if self.phase == ACTIVE:
            self._spans.append((self.step_number, self._began_step, now))
        self.step_number += 1
        if self._watch is not None:
            self._watch.see()
        if self.schedule is not None:
            self._follow(self.schedule)
        elif self.once_stepping and self.step_number == self.once_stepping.wait and not self._limited:
            with held():
                if self._recording:  # since the beginning, or since a model's first call
                    self._put_by()
                if self._first is not None:
                    self._first.steps["phase"] = WARMUP
                self.schedule = self.once_stepping
                self._enter(self.schedule.phase(self.step_number))
        self._began_step = time.time_ns()

    def model_called(self) -> None:
        """A model is called for the first time. Where getting there took much of the room, recording begins anew."""
        if self.schedule is not None or self.once_stepping is None or threading.get_ident() != self._thread:
            return
        waiting = self.phase == WAIT and self._first is not None
        if waiting or (self._watch is not None and self._watch.share > _LITTLE):
            with held():
                if not waiting:
                    self._put_by()
                self._anew = True
                self._enter(ACTIVE)

    def _label(self) -> None:
        """Steps of one phase, from the first to the last, are one entry."""
        last = self.steps[-1] if self.steps else {}
        if (last.get("phase"), last.get("cycle")) == (self.phase, self.cycle):
            last["last"] = self.step_number
        else:
            number = self.step_number
            self.steps.append({"phase": self.phase, "cycle": self.cycle, "first": number, "last": number})

    def _follow(self, schedule: Schedule) -> None:
        phase, cycle = schedule.phase(self.step_number), schedule.number(self.step_number)
        if (phase, cycle) != (self.phase, self.cycle) and not self._limited:
            with held():
                if phase == OVER:
                    unburden()
                self._leave(phase)
                self.cycle = cycle
                self._enter(phase)
        elif phase == WAIT and not self.plain.steps and not self.plain.begun:
            self.plain.begin(self.step_number)  # the first step after a pause is like no other: it is not timed
        elif self.phase == OVER and not self._timed_before:
            self.plain.follow(self.step_number, self._over)

    def stop(self) -> None:
        """End here, in whatever phase; what was recorded is kept."""
        global _current
        first, self._first = self._first, None
        if first is not None and not self.traces and not self._spans and not (self._anew and self._recording):
            self._drop()
            first.steps["phase"] = ACTIVE
            self.notes += first.notes
            self.traces.append(first.path.rename(self._path()).name)
        else:
            self.notes += [_ANEW] if self._anew else []
            self._leave(OVER)
            if first is not None:
                first.path.unlink()
        self.phase = OVER
        _current, self._outer = self._outer, None

    def give_way(self) -> None:
        """To a profiler of the program's own: there is one at a time."""
        if not self._making:
            self._end("the program has a profiler of its own: recording ended where that began")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "traces": self.traces,
            "schedule": self.schedule.to_json() if self.schedule else None,
            "steps": self.steps,
            "step_us": self.profiled.us,
            "plain_step_us": self.plain.us,
            "notes": self.notes,
        }

    # Phases ------------------------------------------------------------------------------------------------

    def _enter(self, phase: str) -> None:
        """The beginning of a phase."""
        self.phase = phase
        if phase in (WARMUP, ACTIVE) and self._profiler is None:
            self._profiler, self._making = self.how.profiler(), True
            with warnings.catch_warnings():  # PyTorch 2.11 warns that cycles would be lost, of which there is one here
                warnings.filterwarnings("ignore", "Warning: Profiler clears events")
                self._profiler.prepare_trace()
            self._making = False
        if phase == ACTIVE:
            assert self._profiler is not None
            self._profiler.start_trace()
            self._recording = True
            self.profiled.begin(self.step_number)
            if self.limit_s is not None:
                most = room(self.memory_bytes, stacks=self.how.stacks, growth=self._growth)
                self._watch = Watch(self.limit_s, most, self._limit)
        elif phase == OVER:
            self._over, self._timed_before = self.step_number, bool(self.plain.steps)

    def _leave(self, phase: str) -> None:
        """The end of a phase, another one being next."""
        if self.phase == ACTIVE and not self._spans and (self.traces or self._first) and not self._anew:
            self._drop()  # a cycle without a whole step, where there is something better to show
        elif self.phase == ACTIVE and self._profiler is not None:
            self.profiled.end(self.step_number)
            path = self._export(self._path())
            self.traces += [path.name] if path else []
        elif self.phase == WAIT:
            self.plain.end(self.step_number)
        elif self.phase == WARMUP and phase != ACTIVE:
            self._drop()

    def _limit(self, watch: Watch, why: str) -> None:
        """A recording has become long or big enough. The program goes on without."""
        if self.phase != ACTIVE or current() is not self or watch is not self._watch:
            return
        said = self._too_long(watch.seconds) if why == LONG else self._too_big(watch.seconds)
        with held():
            if self.schedule is None and self.once_stepping is not None:  # there may be steps yet, which say more
                self._put_by(said)
                self.phase = WAIT
            else:
                unburden()
                self._end(said)

    def _too_long(self, seconds: float) -> str:
        limit_s = self.limit_s or 0.0
        late = f" instead of {limit_s:g} s, as nothing interrupted the main thread"
        taken = f"{seconds:.2g} s{late}" if seconds > limit_s + _LATE_S else f"{limit_s:g} s"
        return f"recorded for {taken}, then no more: --seconds changes that"

    def _too_big(self, seconds: float) -> str:
        gib = allowed(self.memory_bytes) / (1 << 30)
        less = ", --no-stacks needs less" if self.how.stacks else ""
        return (
            f"recorded for {seconds:.2g} s: more takes more memory than the {gib:.3g} GiB a recording may. "
            f"--memory {2 * gib:.3g} allows for twice as much{less}"
        )

    def _put_by(self, *notes: str) -> None:
        """End the recording of everything.

        It is written now: of what a GPU did nothing is left once another recording has begun.
        """
        self.profiled.forget()
        notes = (_ANEW, *notes) if self._anew else notes
        self._anew = False
        path = self._export(self.folder / f".{self.name}.json")
        self._first = _PutBy(path, self.steps[-1] if self.steps else {}, [*notes]) if path else None

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _end(self, why: str) -> None:
        """No more is recorded, whatever the schedule says; steps are counted on."""
        if not self._limited and self.phase != OVER:
            self._limited = True
            self.notes.append(why)
            self._leave(OVER)
            self._enter(OVER)

    def _stopped(self) -> torch.profiler.profile:
        profiler, self._profiler, self._recording = self._profiler, None, False
        assert profiler is not None
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
            busiest = watch.busiest()
            if busiest is not None:
                self._note_once(
                    f"thread {busiest} worked meanwhile: only the main one's operators are recorded. "
                    "To see its own, have the main thread do its work"
                )
        about = {"name": self.name, "script": self.script, "steps": self.steps, "plain_step_us": self.plain.us}
        profiler.add_metadata_json("kernellab", json.dumps(about))
        profiler.stop_trace()
        if watch is not None:
            self._growth = watch.growth or self._growth
        _kept.append(profiler)
        return profiler

    def _drop(self) -> None:
        """End a recording without keeping it."""
        if self._profiler is not None:
            if not self._recording:  # only what is recording can be ended
                self._profiler.start_trace()
            self._stopped()
        self.profiled.forget()
        self.plain.forget()
        self._spans = []

    def _path(self) -> Path:
        number = f"-{len(self.traces) + 1}" if self.numbered else ""
        return self.folder / f"{self.name}{number}.json"

    def _export(self, path: Path) -> Path | None:
        """End the recording and write it, if that can be done."""
        profiler, spans, self._spans = self._stopped(), self._spans, []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            profiler.export_chrome_trace(str(path))
            if spans and not self.marked:
                _add_steps(path, spans, self.cycle)
        except (OSError, RuntimeError) as error:  # a full disk: the program in the middle of a step cannot help it
            self._note_once(f"{path} could not be written: {error}")
            return None
        return path


@functools.cache
def _watch_for_others() -> None:
    """Have a session told when somebody else makes a profiler ready: torch would crash with two."""
    ready = torch_profiler.profile._prepare_trace

    @functools.wraps(ready)
    def told(profiler: Any) -> None:
        now = current()
        if now is not None:
            now.give_way()
        ready(profiler)

    torch_profiler.profile._prepare_trace = told  # type: ignore[method-assign]


def _add_steps(path: Path, spans: list[Span], cycle: int) -> None:
    """Steps as ranges of the thread that made them, put at the end of the trace's list of events."""
    with path.open("r+b") as file:
        head = file.read(_HEAD)
        zero = re.search(rb'"baseTimeNanoseconds":\s*(\d+)', head)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        ends = list(_END_OF_EVENTS.finditer(tail))
        if zero is None or not ends:
            return
        end = ends[-1]
        events = [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{number}",
                "pid": os.getpid(),
                "tid": threading.get_native_id(),
                "ts": (begin - int(zero[1])) / 1000,
                "dur": (finish - begin) / 1000,
                "args": {"phase": ACTIVE, "cycle": cycle},
            }
            for number, begin, finish in spans
        ]
        file.seek(max(0, size - _TAIL) + end.start())
        file.truncate()
        file.write(b"".join(b",\n  " + json.dumps(event).encode() for event in events) + b"\n  " + tail[end.start() :])
