"""A simulated GPU under its power limit, in virtual time: its clock follows the load, its energy counter has steps.

The dynamic power of a load grows with the cube of the clock. A controller compares the power with the limit at
intervals, and moves the clock in steps of 15 MHz.
"""

from __future__ import annotations

import math
import random
from contextlib import nullcontext
from dataclasses import dataclass

from kernellab.energy.blocks import Poller, Progress
from kernellab.energy.rounds import BLOCKS, measure_energy, to_json
from kernellab.record.event import Event
from kernellab.record.journal import empty_record
from kernellab.timing.rounds import Plan, Rounds
from kernellab.timing.timer import Burst, BurstTimer
from support.records import result
from support.timing import CPU, timed_impl, two_content_sets

TOP_MHZ, STEP_MHZ, LEAST_MHZ = 1980, 15, 600
IDLE_W = 120.0


@dataclass(frozen=True)
class Load:
    """A call: its time at the highest clock, split into a part that scales with the clock and one that does not, and
    its power beyond that of an idle GPU at the highest clock."""

    us: float
    watts: float
    fixed_us: float = 0.0

    def us_at(self, mhz):
        return self.us * TOP_MHZ / mhz + self.fixed_us


FLUSH = Load(0.0, 250.0, fixed_us=120.0)
IDLE = Load(0.0, 0.0, fixed_us=1.0)


class SimulatedGpu:
    """`control_s`: how often the controller acts; it sees the mean power since it acted last. `drift`: by which share
    the power of a load grows per second, as that of a chip that warms up does."""

    def __init__(self, *, limit_w=700.0, control_s=0.02, drift=0.0, seed=0):
        self.limit_w, self.control_s, self.drift = limit_w, control_s, drift
        self.now, self.mhz, self.joules, self.watts = 0.0, TOP_MHZ, 0.0, IDLE_W
        self.is_throttled = False
        self.active = None  # calls that go on while the host pauses
        self.random = random.Random(seed)
        self._next_control, self._joules_then = control_s, 0.0

    def run(self, load, us):
        """Run a load for this long."""
        end = self.now + us / 1e6
        while self.now < end:
            until = min(end, self._next_control)
            share = (self.mhz / TOP_MHZ) ** 3
            self.watts = IDLE_W + load.watts * share * (1 + self.drift * self.now)
            self.joules += self.watts * (until - self.now)
            self.now = until
            if self.now >= self._next_control:
                self._control()

    def call(self, load, calls=1):
        """Make calls; the microseconds that they took."""
        began, remaining = self.now, float(calls)
        while remaining > 1e-9:  # the clock may move in between
            call_us = load.us_at(self.mhz)
            us = min(remaining * call_us, max(1.0, (self._next_control - self.now) * 1e6))
            self.run(load, us)
            remaining -= us / call_us
        return (self.now - began) * 1e6

    def _control(self):
        watts = (self.joules - self._joules_then) / self.control_s
        wanted = self.mhz * (self.limit_w / watts) ** (1 / 3)
        if watts > self.limit_w or wanted > self.mhz + STEP_MHZ:
            self.mhz = min(TOP_MHZ, max(LEAST_MHZ, STEP_MHZ * int(wanted / STEP_MHZ)))
        self.is_throttled = self.mhz < TOP_MHZ
        self._joules_then = self.joules
        self._next_control += self.control_s

    def telemetry(self):
        return {
            "t": self.now,
            "sm_mhz": float(self.mhz),
            "mem_mhz": 3201.0,
            "power_w": self.watts,
            "limit_w": self.limit_w,
            "throttle": ["sw-power-cap"] if self.is_throttled else [],
            "others": 0,
        }


class SimulatedTimer(BurstTimer):
    """Runs the loads of implementations by name. `noise`: the scatter of a window's time."""

    name = "events"

    def __init__(self, gpu, loads, noise=0.003):
        super().__init__(CPU, "cold")
        self.gpu, self.loads, self.noise = gpu, loads, noise

    def burst(self, impl, spec):
        load, samples_us = self.loads[impl.name], []
        for _ in range(spec.windows):
            self.gpu.call(FLUSH)
            us = self.gpu.call(load, spec.calls) / spec.calls
            samples_us.append(us * math.exp(self.gpu.random.gauss(0, self.noise)))
        self.clock_mhz = float(self.gpu.mhz)
        self.gpu.run(IDLE, 300.0)  # the result is verified
        return Burst(samples_us)


class SimulatedGuard:
    def __init__(self, timer, clock_is_readable=True):
        self.timer, self.clock_is_readable, self.readings = timer, clock_is_readable, []

    def verifier(self, impl):
        return lambda result, number: None

    def judge(self, impl, burst, *, timed):
        now = self.timer.gpu.now
        if not self.readings or now - self.readings[-1]["t"] > 0.05:
            self.readings.append(self.timer.gpu.telemetry())

    def clock_mhz(self):
        return float(self.timer.gpu.mhz)

    def burst_clock_mhz(self):
        return self.timer.clock_mhz if self.clock_is_readable else None


def timed_record(monkeypatch, gpu, loads, *, rounds=128, noise=0.003, clock_is_readable=True, order_is_recorded=True):
    """The record of implementations that were timed in rounds on a simulated GPU, as a worker's events make it."""
    timer = SimulatedTimer(gpu, loads, noise)
    guard = SimulatedGuard(timer, clock_is_readable)
    monkeypatch.setattr("kernellab.timing.rounds.monotonic", lambda: gpu.now)
    sets = two_content_sets(2)
    impls = {name: timed_impl(lambda x: lambda: None, sets, name) for name in loads}
    plan = Plan(seconds=1.0, least_rounds=rounds, most_rounds=rounds)
    series = Rounds(impls, timer, plan, guard, lambda name: nullcontext(), seed=gpu.random.randrange(1 << 30))
    record = {**empty_record(), "complete": True}
    record["machine"] = {"device": "cuda:0", "name": "a machine", "ceilings": None}
    record["results"] = [result(name) for name in loads]
    for entry in record["results"]:
        entry["case"]["device"] = "cuda"
    where = {"op": "f", "case": record["results"][0]["case"], "pass": "forward", "timer": "events", "cache": "cold"}
    began = None
    for number, samples_us in enumerate(series):
        began = gpu.now if began is None else began
        fields = {"round": number, "samples_us": samples_us, "calls": series.calls, "clocks_mhz": series.clocks_mhz}
        if order_is_recorded:
            fields["before"] = series.before
        Event.parse({"event": "round", **where, **fields}).fold(record)
    readings = [reading for reading in guard.readings if reading["t"] >= began]
    ended = {
        "impls": list(loads),
        "looks": series.looks,
        "decided": series.decided,
        "precision": plan.precision,
        "warmups": series.warmup_rounds,
        "warmup_s": series.warmup_s,
        "steady": series.steady,
        "floor_us": {},
        "telemetry": {key: [reading[key] for reading in readings] for key in readings[0]},
    }
    Event.parse({"event": "timed", **where, **ended}).fold(record)
    return record


# Energy ------------------------------------------------------------------------------------------------


class SimulatedCounter:
    """Counts the energy of a simulated GPU in steps. `noise`: the scatter of a step; `lag_s`: the time constant of the
    filter through which it sees the power."""

    name = "nvml"

    def __init__(self, gpu, *, step_s=0.1, noise=0.01, lag_s=0.0):
        self.gpu, self.step_s, self.noise, self.lag_s = gpu, step_s, noise, lag_s
        self.reads = 0
        self._seen = gpu.now, gpu.joules
        self._watts, self._pending, self._total = IDLE_W, 0.0, 5000.0
        self._next = gpu.now + step_s * gpu.random.random()

    def joules(self):
        self.reads += 1
        (then, joules_then), now = self._seen, self.gpu.now
        if now > then:
            watts = (self.gpu.joules - joules_then) / (now - then)
            self._watts += (watts - self._watts) * (1 - math.exp(-(now - then) / self.lag_s) if self.lag_s else 1.0)
            before = max(0.0, min(now, self._next) - then)
            self._pending += self._watts * before
            while now >= self._next:
                self._total += self._pending * math.exp(self.gpu.random.gauss(0, self.noise))
                until = min(now, self._next + self.step_s)
                self._pending = self._watts * (until - self._next)
                self._next += self.step_s
            self._seen = now, self.gpu.joules
        return round(self._total, 3)  # the counter counts millijoules


class SimulatedLoad:
    """Calls in a row on a simulated GPU, which go on while the host pauses."""

    def __init__(self, gpu, load):
        self.gpu, self.load = gpu, load
        self._times, self._calls = [gpu.now], [0.0]

    def feed(self):
        self.gpu.active = self

    def go_on(self, seconds):
        us = self.load.us_at(self.gpu.mhz)
        self.gpu.run(self.load, seconds * 1e6)
        self._times.append(self.gpu.now)
        self._calls.append(self._calls[-1] + seconds * 1e6 / us)

    def finish(self):
        self.go_on(0.01)  # what is queued still runs
        self.gpu.active = None
        return Progress(self._times, self._calls)


def poller_of(gpu, counter, poll_s=0.001):
    """Polls in virtual time, which goes on only while the host pauses."""

    def pause(seconds):
        if gpu.active is None:
            gpu.run(IDLE, poll_s * 1e6)
        else:
            gpu.active.go_on(poll_s)

    return Poller(counter, lambda: gpu.now, pause)


def measured_energies(gpu, loads, counter, *, rounds=BLOCKS, seed=0):
    """The energy of implementations on a simulated GPU, as a record has it."""
    poller = poller_of(gpu, counter)
    names = list(loads)
    measured = measure_energy(
        names,
        poller,
        lambda name, use: use(SimulatedLoad(gpu, loads[name])),
        lambda: float(gpu.mhz),
        rounds=rounds,
        seed=seed,
    )
    return {name: to_json(measured, name, counter.name, 1 << 28, None) for name in names}
