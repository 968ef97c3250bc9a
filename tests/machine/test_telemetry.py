"""What is read while something is timed: the CPU for real, the GPU through a stand-in for NVML's Python package."""
# The stand-in has NVML's names.
# ruff: noqa: N802

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from kernellab.machine import telemetry
from kernellab.machine.telemetry import Family, own_pids, telemetry_for
from kernellab.stats import trust

pytestmark = pytest.mark.clocked

GPU_KEYS = {"sm_mhz", "mem_mhz", "power_w", "temp_c", "throttle", "notes", "util", "others"}


# GPU ---------------------------------------------------------------------------------------------------


class Refused(Exception):
    """As pynvml's NVMLError: the code is in `value`."""

    def __init__(self, value):
        self.value = value


NOT_FOUND, NOT_SUPPORTED = Refused(6), Refused(3)


class FakeNvml:
    """The functions and names of pynvml that are used, with answers that a test can change or take away."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self):
        self.clocks = {1: 1980, 2: 3201}
        self.reasons = 0
        self.processes = []
        self.stamp = 10**15

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != "GPU-1":
            raise NOT_FOUND
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, which):
        return self.clocks[which]

    def nvmlDeviceGetPowerUsage(self, handle):
        return 412_500

    def nvmlDeviceGetTemperatureV(self, handle, sensor):
        return 41

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=97, memory=60)

    def nvmlDeviceGetProcessUtilization(self, handle, since):
        if isinstance(self.processes, Exception):
            raise self.processes
        self.stamp += 200_000
        found = [SimpleNamespace(pid=pid, smUtil=share, timeStamp=self.stamp) for pid, share in self.processes]
        if not found:
            raise NOT_FOUND
        return found


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when the test says so."""
    hands = SimpleNamespace(now=100.0)
    fake = SimpleNamespace(monotonic=lambda: hands.now, process_time=time.process_time)
    monkeypatch.setattr(telemetry, "time", fake)
    return hands


def refusing(fake, name, error=NOT_SUPPORTED):
    def refuse(*_):
        raise error

    setattr(fake, name, refuse)


def test_a_gpu_sample_has_everything(nvml):
    nvml.reasons = 0x04 | 0x01
    sample = telemetry_for("GPU-1").sample()
    assert {k: v for k, v in sample.items() if k not in ("t", "took_us")} == {
        "sm_mhz": 1980.0,
        "mem_mhz": 3201.0,
        "power_w": 412.5,
        "temp_c": 41.0,
        "throttle": ["sw-power-cap"],
        "notes": ["gpu-idle"],
        "util": 97,
        "others": None,
    }


def test_every_throttle_reason_has_a_word_and_settings_are_no_throttling(nvml):
    nvml.reasons = 0x1FF
    sample = telemetry_for("GPU-1").sample()
    assert sample["throttle"] == ["sw-power-cap", "hw-slowdown", "sw-thermal", "hw-thermal", "power-brake"]
    assert sample["notes"] == ["gpu-idle", "applications-clock", "sync-boost", "display-clock"]


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        ("nvmlDeviceGetClockInfo", {"sm_mhz", "mem_mhz"}),
        ("nvmlDeviceGetPowerUsage", {"power_w"}),
        ("nvmlDeviceGetTemperatureV", {"temp_c"}),
        ("nvmlDeviceGetCurrentClocksEventReasons", {"throttle", "notes"}),
        ("nvmlDeviceGetUtilizationRates", {"util"}),
    ],
)
def test_one_refusal_costs_only_its_own_answer(nvml, function, keys):
    refusing(nvml, function)
    sample = telemetry_for("GPU-1").sample()
    assert {k for k in GPU_KEYS - {"others"} if sample[k] is None} == keys


def test_older_drivers_have_older_names(nvml):
    refusing(nvml, "nvmlDeviceGetTemperatureV")
    refusing(nvml, "nvmlDeviceGetCurrentClocksEventReasons")
    nvml.nvmlDeviceGetTemperature = lambda handle, sensor: 55
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x40
    sample = telemetry_for("GPU-1").sample()
    assert (sample["temp_c"], sample["throttle"]) == (55.0, ["hw-thermal"])


def test_without_the_package_or_the_gpu_all_is_none(monkeypatch, nvml):
    absent = telemetry_for("GPU-2").sample()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for sample in (absent, telemetry_for("GPU-1").sample()):
        assert all(sample[key] is None for key in GPU_KEYS)


def watch(nvml, clock, *seen):
    """The count of others after NVML reported each of these lists of processes, a second apart."""
    watched = telemetry_for("GPU-1")
    counts = []
    for processes in seen:
        nvml.processes = processes
        clock.now += 1.0
        counts.append(watched.sample()["others"])
    return counts


def test_others_are_those_beside_our_own_number(nvml, clock):
    me = (os.getpid(), 90)
    assert watch(nvml, clock, [me], [me], [me, (77, 5)], [me]) == [None, 0, 1, 1]


def test_in_a_container_one_of_those_seen_is_ourselves(nvml, clock):
    assert watch(nvml, clock, [(4_000_001, 90)], [(4_000_001, 90)], [(4_000_001, 50), (4_000_002, 50)]) == [None, 0, 1]


def test_idle_processes_and_unfilled_entries_are_nobody(nvml, clock):
    me = (os.getpid(), 90)
    assert watch(nvml, clock, [me], [me, (77, 0), (0, 50), (78, 4_000_000_000)]) == [None, 0]


def test_who_was_there_before_does_not_count(nvml, clock):
    me = (os.getpid(), 90)
    assert watch(nvml, clock, [me, (77, 90)], [me], [me]) == [None, 0, 0]


def test_an_idle_gpu_has_no_others_and_a_refusal_is_not_zero(nvml, clock):
    assert watch(nvml, clock, [], []) == [None, 0]
    assert watch(nvml, clock, NOT_SUPPORTED, NOT_SUPPORTED) == [None, None]


def test_our_own_numbers_include_this_one():
    assert os.getpid() in own_pids()


# The rate and the columns ------------------------------------------------------------------------------


def test_samples_keep_their_distance(nvml, clock):
    watched = telemetry_for("GPU-1")
    assert watched.sample() is not None
    assert watched.sample() is None
    clock.now += 0.04
    assert watched.sample() is None
    assert watched.sample(force=True) is not None
    clock.now += 0.051
    assert watched.sample()["t"] == pytest.approx(0.091)
    assert telemetry_for("GPU-1", every_s=0).sample() is not None


def test_columns_go_into_a_record(nvml, clock):
    watched = telemetry_for("GPU-1")
    assert watched.columns() == {}
    for _ in range(4):
        watched.sample()
        clock.now += 0.1
    columns = watched.columns()
    assert columns["t"] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert {len(values) for values in columns.values()} == {4}
    assert set(columns) == {"t", "took_us"} | GPU_KEYS
    assert json.loads(json.dumps(columns, allow_nan=False)) == columns
    assert watched.columns(since=0.15)["t"] == pytest.approx([0.2, 0.3])
    assert watched.now == pytest.approx(0.4)


def test_a_throttled_gpu_is_called_so(nvml, clock):
    nvml.reasons = 0x04
    watched = telemetry_for("GPU-1")
    for _ in range(5):
        watched.sample(force=True)
    found = trust.reasons(watched.columns(), [100.0] * 20, device="cuda", steady=True, interval=None)
    assert trust.word(found) == "throttled"


# CPU ---------------------------------------------------------------------------------------------------

SPIN = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


def cpu_columns(seconds, threads=None):
    watched = telemetry_for("cpu", threads=threads)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
        watched.sample()
    watched.sample(force=True)
    return watched.columns()


def others(columns):
    pairs = [p for p in zip(columns["others_cores"], columns["span_s"], strict=True) if p[0] is not None]
    return sum(value * span for value, span in pairs) / sum(span for _, span in pairs)


@contextlib.contextmanager
def strangers(count):
    """Busy processes that are nobody's children here; they end by themselves, and are killed before."""
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


needs_counts = pytest.mark.skipif(
    telemetry._core_seconds(frozenset(range(os.cpu_count() or 1)))[0] is None, reason="no /proc/stat"
)


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
    with strangers(len(os.sched_getaffinity(0))):
        time.sleep(0.3)
        columns = cpu_columns(2.0)
    assert others(columns) > 0.8
    found = trust.reasons(columns, [100.0] * 20, device="cpu", steady=True, interval=None)
    assert "contended" in trust.word(found)


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
def test_our_own_time_includes_threads_children_and_theirs(load):
    with load():
        family = Family()
        before = family.cpu_seconds()
        deadline = time.monotonic() + 20  # on a machine with much else to do, it takes longer to burn half a second
        while family.cpu_seconds() - before < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert family.cpu_seconds() - before >= 0.5


def test_our_own_time_includes_children_that_ended():
    family = Family()
    before = family.cpu_seconds()
    for _ in range(20):
        subprocess.run([sys.executable, "-c", SPIN.format(seconds=0.3)], check=True)
        if (spent := family.cpu_seconds() - before) >= 0.5:
            break
    assert spent >= 0.5


def test_others_are_what_is_busy_beyond_our_own(monkeypatch, clock):
    readings = iter([(50.0, 5.0), (53.0, 5.5), (58.0, 5.5)])
    owned = iter([10.0, 11.5, 11.0])
    monkeypatch.setattr(telemetry, "_core_seconds", lambda cores: next(readings))
    monkeypatch.setattr(telemetry, "_cores", lambda: frozenset({0, 1}))
    monkeypatch.setattr(Family, "cpu_seconds", lambda self: next(owned))
    watched = telemetry_for("cpu")
    clock.now += 2.0
    sample = watched.sample()
    assert (sample["others_cores"], sample["steal"], sample["span_s"]) == (0.75, 0.125, 2.0)
    clock.now += 2.0
    assert watched.sample()["others_cores"] is None  # our own time went back: a process ended uncollected


@needs_counts
def test_our_own_load_is_no_contention():
    for _ in range(6):
        quiet_before = others(cpu_columns(0.6)) < 0.2
        with busy_thread(), busy_child():
            columns = cpu_columns(1.5)
        if quiet_before and others(cpu_columns(0.6)) < 0.2:
            found = trust.reasons({**columns, "steal": []}, [1.0] * 20, device="cpu", steady=True, interval=None)
            assert trust.word(found) == "trusted", found
            return
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
        for core, seen in ((busy, 0.5), (free, 0.0)):
            spent, _ = telemetry._core_seconds(frozenset({core}))
            time.sleep(1.0)
            assert telemetry._core_seconds(frozenset({core}))[0] - spent >= seen
        os.sched_setaffinity(0, {free})
        assert telemetry_for("cpu").sample()["cores"] == 1
    finally:
        os.sched_setaffinity(0, allowed)
        child.kill()
        child.wait()
