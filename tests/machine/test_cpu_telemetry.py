"""Readings of the real CPU."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kernellab.machine import cpu_telemetry
from kernellab.machine.cpu_telemetry import CoreTime, OwnProcesses, core_time
from kernellab.machine.telemetry import telemetry_for
from kernellab.stats import trust

pytestmark = pytest.mark.clocked

SPIN = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


def cpu_columns(seconds, threads=None):
    readings = telemetry_for("cpu", threads=threads)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
        readings.sample()
    readings.sample(force=True)
    return readings.columns()


def others(columns):
    pairs = [p for p in zip(columns["others_cores"], columns["span_s"], strict=True) if p[0] is not None]
    return sum(value * span for value, span in pairs) / sum(span for _, span in pairs)


@contextlib.contextmanager
def foreign_processes(count):
    """Busy processes that are not our children. They are killed at the end, and would end by themselves."""
    spin = SPIN.format(seconds=8)
    start = (
        "import subprocess, sys\n"
        f"for _ in range({count}):\n"
        f"    print(subprocess.Popen([sys.executable, '-c', {spin!r}], start_new_session=True,\n"
        "        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    )
    pids = subprocess.run([sys.executable, "-c", start], check=True, capture_output=True, text=True).stdout.split()
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


needs_counts = pytest.mark.skipif(core_time(frozenset(range(os.cpu_count() or 1))) is None, reason="no /proc/stat")


@needs_counts
def test_a_cpu_sample_has_everything():
    sample = telemetry_for("cpu", threads=2).sample()
    assert sample["threads"] == 2
    assert sample["cores"] == len(os.sched_getaffinity(0))
    assert sample["load1"] >= 0
    assert 0 <= sample["steal"] <= 1
    assert sample["mhz"] is None or 100 < sample["mhz"] < 10_000
    json.dumps(sample, allow_nan=False)


@needs_counts
def test_load_by_others_is_contention():
    with foreign_processes(len(os.sched_getaffinity(0))):
        time.sleep(0.3)
        columns = cpu_columns(2.0)
    assert others(columns) > 0.8
    reasons = trust.find_reasons(columns, [100.0] * 20, device="cpu", steady=True, interval=None)
    assert "contended" in trust.summarise(reasons)


@contextlib.contextmanager
def busy_thread():
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def busy_child(code=None):
    child = subprocess.Popen([sys.executable, "-c", code or SPIN.format(seconds=60)], start_new_session=True)
    try:
        time.sleep(0.5)
        yield
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def busy_grandchild():
    return busy_child(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN.format(seconds=60)!r}])")


@pytest.mark.parametrize("load", [busy_thread, busy_child, busy_grandchild])
def test_our_own_time_includes_threads_and_descendants(load):
    with load():
        processes = OwnProcesses()
        before = processes.cpu_seconds()
        deadline = time.monotonic() + 20  # on a busy machine, using half a second takes longer
        while processes.cpu_seconds() - before < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes.cpu_seconds() - before >= 0.5


def test_our_own_time_includes_children_that_ended():
    processes = OwnProcesses()
    before = processes.cpu_seconds()
    for _ in range(20):
        subprocess.run([sys.executable, "-c", SPIN.format(seconds=0.3)], check=True)
        if (spent := processes.cpu_seconds() - before) >= 0.5:
            break
    assert spent >= 0.5


def test_the_load_of_others_is_busy_time_minus_our_own(monkeypatch, clock):
    core_times = iter([CoreTime(50.0, 5.0), CoreTime(53.0, 5.5), CoreTime(58.0, 5.5)])
    owned = iter([10.0, 11.5, 11.0])
    monkeypatch.setattr(cpu_telemetry, "core_time", lambda cores: next(core_times))
    monkeypatch.setattr(cpu_telemetry, "_our_cores", lambda: frozenset({0, 1}))
    monkeypatch.setattr(OwnProcesses, "cpu_seconds", lambda self: next(owned))
    readings = telemetry_for("cpu")
    clock.now += 2.0
    sample = readings.sample()
    assert (sample["others_cores"], sample["steal"], sample["span_s"]) == (0.75, 0.125, 2.0)
    clock.now += 2.0
    assert readings.sample()["others_cores"] is None  # our own time went back: a process ended uncollected


@needs_counts
def test_our_own_load_is_not_contention():
    """Other programs may run for a moment, so one quiet try of several is enough.

    If our own load were counted as theirs, no try would be quiet.
    """
    quiet_without_load = False
    for _ in range(8):
        quiet_without_load |= others(cpu_columns(0.5)) < 0.2
        with busy_thread(), busy_child():
            columns = cpu_columns(1.5)
        reasons = trust.find_reasons({**columns, "steal": []}, [1.0] * 20, device="cpu", steady=True, interval=None)
        if trust.summarise(reasons) == "trusted":
            return
    if quiet_without_load:
        pytest.fail(f"our own load is taken for that of others: {reasons}")
    pytest.skip("something else keeps this machine busy")


@needs_counts
def test_only_the_cores_we_may_use_are_counted():
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("one core")
    busy, free = sorted(allowed)[:2]
    pinned = f"import os; os.sched_setaffinity(0, {{{busy}}})\n" + SPIN.format(seconds=3)
    child = subprocess.Popen([sys.executable, "-c", pinned])
    time.sleep(0.3)
    try:
        for core, expected in ((busy, 0.5), (free, 0.0)):
            before = core_time(frozenset({core}))
            time.sleep(1.0)
            assert core_time(frozenset({core})).busy - before.busy >= expected
        os.sched_setaffinity(0, {free})
        assert telemetry_for("cpu").sample()["cores"] == 1
    finally:
        os.sched_setaffinity(0, allowed)
        child.kill()
        child.wait()
