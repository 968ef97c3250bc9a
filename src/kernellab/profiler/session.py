"""A profiling session: which steps of a program are recorded, and the traces and the report it leaves.

The states of a session, the phase that its report gives a step in each, and what PyTorch's profiler does meanwhile:

    state        phase     the profiler
    WAITING      wait      does not exist; steps are timed without it
    WARMING_UP   warm-up   is prepared, records nothing
    EVERYTHING   active    records; there is no schedule yet
    SCHEDULED    active    records the steps of a cycle, which become a trace of their own
    OVER         over      does not exist; steps are timed without it

A session with a schedule follows it from step to step. A session without one records everything. `once_stepping` is
the schedule to use if the program turns out to have steps. Then the recording of everything is a fallback: it is kept
only if nothing better follows.

    schedule given:  WAITING → WARMING_UP → SCHEDULED → WAITING → … → OVER

    none given:      EVERYTHING ──── steps seen ─────► SCHEDULED → … → OVER
                      │      ▲                             ▲
                limit │      │ first call of a model       │ steps seen
                      ▼      │                             │
                      WAITING ─────────────────────────────┘

From any state to OVER: `stop`, the program's own profiler, and a limit that leaves nothing to wait for.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.profiler.cupti import request_teardown
from kernellab.profiler.protocol import PhaseSteps, SessionReport
from kernellab.profiler.recording import Recording, RecordingOptions, before_other_profilers, profiler_is_running
from kernellab.profiler.recording_limits import Limit, RecordingLimits, memory_budget, recordable_bytes
from kernellab.profiler.schedule import Phase, Schedule
from kernellab.profiler.signals import defer_signals
from kernellab.profiler.step_times import StepTimes
from kernellab.profiler.trace_steps import StepSpan, add_steps

_SMALL_SHARE = 0.1  # of time and memory: a program that has used less before it calls its model is not recorded again
_FROM_MODEL = (
    "recording began again at the first call of a model: the preparation had used much of the time or memory allowed"
)
_LATE_S = 0.5  # if a recording exceeds its limit by more, its note says so


class State(Enum):
    """What a session is doing: see the module's documentation."""

    WAITING = "waiting"
    WARMING_UP = "warming up"
    EVERYTHING = "everything"
    SCHEDULED = "scheduled"
    OVER = "over"

    @property
    def phase(self) -> Phase:
        return _PHASES[self]

    @property
    def records(self) -> bool:
        return self.phase is Phase.ACTIVE


_PHASES = {
    State.WAITING: Phase.WAIT,
    State.WARMING_UP: Phase.WARMUP,
    State.EVERYTHING: Phase.ACTIVE,
    State.SCHEDULED: Phase.ACTIVE,
    State.OVER: Phase.OVER,
}
_SCHEDULED_STATES = {phase: state for state, phase in _PHASES.items() if state is not State.EVERYTHING}

_current: Session | None = None


def current() -> Session | None:
    """The session of this process, if there is one. A forked process has none: its parent records."""
    return _current if _current is not None and _current.process == os.getpid() else None


@dataclass
class _Fallback:
    """A finished recording of everything, shown only if nothing better follows."""

    path: Path
    steps: PhaseSteps | None  # the last entry of the report's steps
    notes: list[str]


@dataclass
class Session:
    """`schedule`: None records everything. `once_stepping`: the schedule for a program without one that turns out to
    have steps; it is followed from the end of its wait on.

    `limit_s`: the longest recording; if it is given, `memory_bytes` limits the memory too. `steps_in_trace`: whether
    ranges of the program or of its optimizer show the steps in the trace. `numbered`: whether the name of a trace ends
    in the number of its cycle. `interruptible`: whether another session of this process, by `kl.profile`, may end it.
    `script`: the program's file, for its source lines.
    """

    folder: Path
    name: str
    schedule: Schedule | None = None
    once_stepping: Schedule | None = None
    limit_s: float | None = None
    memory_bytes: int | None = None
    options: RecordingOptions = field(default_factory=RecordingOptions)
    steps_in_trace: bool = False
    numbered: bool = True
    interruptible: bool = False
    script: str | None = None
    traces: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    recorded_times: StepTimes = field(default_factory=StepTimes)
    plain_times: StepTimes = field(default_factory=StepTimes)

    def __post_init__(self) -> None:
        self.process = os.getpid()
        self.step_number = 0
        self.cycle = 1
        self.state = State.OVER
        self.steps: list[PhaseSteps] = []
        self._thread = threading.get_ident()
        self._recording: Recording | None = None
        self._limits: RecordingLimits | None = None
        self._growth: float | None = None  # of a recording's memory when it is processed, as measured so far
        self._ended_early = False
        self._step_begin_ns = 0
        self._recorded_steps: list[StepSpan] = []
        self._fallback: _Fallback | None = None
        self._from_model = False  # whether EVERYTHING began again at a model's first call: better than the fallback
        self._interrupted: Session | None = None  # the session that ended early for this one
        self._timed_before = False  # whether steps were timed before the recording
        self._over_since = 0  # the first step after the last recording

    # What the program does ---------------------------------------------------------------------------------

    def start(self) -> None:
        global _current
        outer = current()
        if outer is not None and outer.interruptible:
            outer.give_way()
            self._interrupted, outer = outer, None
        if outer is not None or profiler_is_running():
            raise UserError("a profiler is already running in this process: there can be only one at a time")
        before_other_profilers(_give_way)
        _current = self
        self._enter(_SCHEDULED_STATES[self.schedule.phase(0)] if self.schedule else State.EVERYTHING)
        self._step_begin_ns = time.time_ns()

    def step(self) -> None:
        """A step of the program has ended."""
        if threading.get_ident() != self._thread:  # a recording ends on the thread it began on
            self._note_once("steps that end outside the main thread are not counted")
            return
        now_ns = time.time_ns()
        self._label_step()
        if self.state.records:
            self._recorded_steps.append(StepSpan(self.step_number, self._step_begin_ns, now_ns))
        self.step_number += 1
        if self._limits is not None:
            self._limits.measure()
        if self.schedule is not None:
            self._follow(self.schedule)
        elif self.once_stepping and self.step_number == self.once_stepping.wait and not self._ended_early:
            self._begin_schedule(self.once_stepping)
        self._step_begin_ns = time.time_ns()

    def model_called(self) -> None:
        """A model is called for the first time. If preparing took much time or memory, recording begins again."""
        if self.schedule is not None or self.once_stepping is None or threading.get_ident() != self._thread:
            return
        waiting = self.state is State.WAITING and self._fallback is not None
        if waiting or (self._limits is not None and self._limits.used_share > _SMALL_SHARE):
            with defer_signals():
                if not waiting:
                    self._keep_as_fallback()
                self._from_model = True
                self._enter(State.EVERYTHING)

    def give_way(self) -> None:
        """End for a profiler of the program's own."""
        self._end_early("the program started a profiler of its own: recording ended there")

    def stop(self) -> None:
        """End in any state; what was recorded is kept."""
        global _current
        fallback, self._fallback = self._fallback, None
        better = self.traces or self._recorded_steps or (self._from_model and self._recording is not None)
        if fallback is not None and not better:
            self._drop()
            if fallback.steps is not None:
                fallback.steps["phase"] = Phase.ACTIVE
            self.notes += fallback.notes
            self.traces.append(fallback.path.rename(self._next_path()).name)
        else:
            self.notes += [_FROM_MODEL] if self._from_model else []
            self._leave(State.OVER)
            if fallback is not None:
                fallback.path.unlink()
        self.state = State.OVER
        _current, self._interrupted = self._interrupted, None

    def report(self) -> SessionReport:
        return {
            "name": self.name,
            "traces": self.traces,
            "schedule": self.schedule.to_json() if self.schedule else None,
            "steps": self.steps,
            "step_us": self.recorded_times.step_us,
            "plain_step_us": self.plain_times.step_us,
            "notes": self.notes,
        }

    # From state to state -----------------------------------------------------------------------------------

    def _follow(self, schedule: Schedule) -> None:
        phase, cycle = schedule.phase(self.step_number), schedule.cycle(self.step_number)
        if (phase, cycle) != (self.state.phase, self.cycle) and not self._ended_early:
            with defer_signals():
                if phase is Phase.OVER:
                    request_teardown()
                state = _SCHEDULED_STATES[phase]
                self._leave(state)
                self.cycle = cycle
                self._enter(state)
        elif phase is Phase.WAIT and not self.plain_times.steps and not self.plain_times.timing:
            self.plain_times.begin(self.step_number)  # from the second step of the wait: the first is not typical
        elif self.state is State.OVER and not self._timed_before:
            self.plain_times.continue_after(self._over_since, self.step_number)

    def _begin_schedule(self, schedule: Schedule) -> None:
        """The program has turned out to have steps."""
        with defer_signals():
            if self._recording is not None:  # since the beginning, or since a model's first call
                self._keep_as_fallback()
            if self._fallback is not None and self._fallback.steps is not None:
                self._fallback.steps["phase"] = Phase.WARMUP
            self.schedule = schedule
            self._enter(_SCHEDULED_STATES[schedule.phase(self.step_number)])

    def _enter(self, state: State) -> None:
        self.state = state
        if (state is State.WARMING_UP or state.records) and self._recording is None:
            self._recording = Recording(self.options)
        if state.records:
            assert self._recording is not None
            self._recording.start()
            self.recorded_times.begin(self.step_number)
            if self.limit_s is not None:
                limit_bytes = recordable_bytes(self.memory_bytes, stacks=self.options.stacks, growth=self._growth)
                self._limits = RecordingLimits(self.limit_s, limit_bytes, self._reach_limit)
        elif state is State.OVER:
            self._over_since, self._timed_before = self.step_number, bool(self.plain_times.steps)

    def _leave(self, next_state: State) -> None:
        """Finish what the current state began."""
        if self.state.records and not self._recorded_steps and self._has_better() and not self._from_model:
            self._drop()  # a cycle without a whole step
        elif self.state.records and self._recording is not None:
            self.recorded_times.end(self.step_number)
            path = self._write(self._next_path())
            self.traces += [path.name] if path else []
        elif self.state is State.WAITING:
            self.plain_times.end(self.step_number)
        elif self.state is State.WARMING_UP and not next_state.records:
            self._drop()

    def _has_better(self) -> bool:
        return bool(self.traces) or self._fallback is not None

    def _reach_limit(self, limits: RecordingLimits, limit: Limit) -> None:
        """A recording has become too long or too large. The program continues without it."""
        if not self.state.records or current() is not self or limits is not self._limits:
            return
        note = self._time_note(limits.seconds) if limit is Limit.TIME else self._memory_note(limits.seconds)
        with defer_signals():
            if self.state is State.EVERYTHING and self.once_stepping is not None:  # steps may still come
                self._keep_as_fallback(note)
                self.state = State.WAITING
            else:
                request_teardown()
                self._end_early(note)

    def _time_note(self, seconds: float) -> str:
        limit_s = self.limit_s or 0.0
        late = f" instead of {limit_s:g} s, because the main thread could not be interrupted"
        duration = f"{seconds:.2g} s{late}" if seconds > limit_s + _LATE_S else f"{limit_s:g} s"
        return f"recording stopped after {duration}: --seconds changes the limit"

    def _memory_note(self, seconds: float) -> str:
        gib = memory_budget(self.memory_bytes) / (1 << 30)
        less = ", --no-stacks needs less memory" if self.options.stacks else ""
        return (
            f"recording stopped after {seconds:.2g} s: processing it takes the {gib:.3g} GiB of memory allowed. "
            f"--memory {2 * gib:.3g} allows twice as much{less}"
        )

    def _end_early(self, note: str) -> None:
        """Stop recording, regardless of the schedule; steps are still counted."""
        if not self._ended_early and self.state is not State.OVER:
            self._ended_early = True
            self.notes.append(note)
            self._leave(State.OVER)
            self._enter(State.OVER)

    # The recording -----------------------------------------------------------------------------------------

    def _keep_as_fallback(self, *notes: str) -> None:
        """End the recording of everything and write it: its GPU events are lost once another recording begins."""
        self.recorded_times.discard()
        notes = (_FROM_MODEL, *notes) if self._from_model else notes
        self._from_model = False
        path = self._write(self.folder / f".{self.name}.json")
        self._fallback = _Fallback(path, self.steps[-1] if self.steps else None, [*notes]) if path else None

    def _write(self, path: Path) -> Path | None:
        """End the recording and write it; None, and a note, if that fails."""
        recording, steps, self._recorded_steps = self._stop_recording(), self._recorded_steps, []
        try:
            recording.write(path)
            if steps and not self.steps_in_trace:
                add_steps(path, steps, self.cycle)
        except (OSError, RuntimeError) as error:  # a full disk must not break the program in the middle of a step
            self._note_once(f"{path} could not be written: {error}")
            return None
        return path

    def _drop(self) -> None:
        """End the recording without keeping it."""
        if self._recording is not None:
            self._stop_recording()
        self.recorded_times.discard()
        self.plain_times.discard()
        self._recorded_steps = []

    def _stop_recording(self) -> Recording:
        recording, self._recording = self._recording, None
        limits, self._limits = self._limits, None
        assert recording is not None
        if limits is not None:
            limits.stop()
            thread = limits.busiest_thread()
            if thread is not None:
                self._note_once(
                    f"thread {thread} was busy meanwhile, but only operators of the main thread are recorded. "
                    "To see its work, run it in the main thread"
                )
        recording.stop(
            {"name": self.name, "script": self.script, "steps": self.steps, "plain_step_us": self.plain_times.step_us}
        )
        if limits is not None:
            self._growth = limits.growth or self._growth
        return recording

    def _label_step(self) -> None:
        """Extend the report's last entry if it is of this phase and cycle, or add one."""
        last = self.steps[-1] if self.steps else None
        if last is not None and (last["phase"], last["cycle"]) == (self.state.phase, self.cycle):
            last["last"] = self.step_number
        else:
            entry: PhaseSteps = {
                "phase": self.state.phase,
                "cycle": self.cycle,
                "first": self.step_number,
                "last": self.step_number,
            }
            self.steps.append(entry)

    def _next_path(self) -> Path:
        number = f"-{len(self.traces) + 1}" if self.numbered else ""
        return self.folder / f"{self.name}{number}.json"

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _give_way() -> None:
    """Called when other code in this process prepares a profiler."""
    session = current()
    if session is not None:
        session.give_way()
