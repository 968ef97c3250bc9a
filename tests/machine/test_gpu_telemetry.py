"""Readings of a GPU through a fake NVML."""

import os
import sys

import pytest

from kernellab.machine.gpu_telemetry import OtherUsers, pids_of
from kernellab.machine.nvml import Nvml
from kernellab.machine.telemetry import telemetry_for
from support.nvml import GPU_KEYS, NOT_SUPPORTED, refuse


def test_a_gpu_sample_has_everything(nvml):
    nvml.reasons = 0x04 | 0x01
    sample = telemetry_for("GPU-1").sample()
    assert {k: v for k, v in sample.items() if k not in ("t", "took_us")} == {
        "sm_mhz": 1980.0,
        "mem_mhz": 3201.0,
        "power_w": 412.5,
        "limit_w": 700.0,
        "temp_c": 41.0,
        "throttle": ["sw-power-cap"],
        "notes": ["gpu-idle"],
        "util": 97,
        "others": None,
    }


def test_the_clock_alone_can_be_read_as_often_as_wanted(nvml):
    telemetry = telemetry_for("GPU-1")
    for mhz in (1980, 1500):
        nvml.clocks[nvml.NVML_CLOCK_SM] = mhz
        assert telemetry.clock_mhz() == mhz
    assert telemetry_for("cpu").clock_mhz() is None
    assert telemetry_for("GPU-2").clock_mhz() is None


def test_every_throttle_reason_has_a_name_and_settings_are_not_throttling(nvml):
    nvml.reasons = 0x1FF
    sample = telemetry_for("GPU-1").sample()
    assert sample["throttle"] == ["sw-power-cap", "hw-slowdown", "sw-thermal", "hw-thermal", "power-brake"]
    assert sample["notes"] == ["gpu-idle", "applications-clock", "sync-boost", "display-clock"]


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        ("nvmlDeviceGetClockInfo", {"sm_mhz", "mem_mhz"}),
        ("nvmlDeviceGetPowerUsage", {"power_w"}),
        ("nvmlDeviceGetEnforcedPowerLimit", {"limit_w"}),
        ("nvmlDeviceGetTemperatureV", {"temp_c"}),
        ("nvmlDeviceGetCurrentClocksEventReasons", {"throttle", "notes"}),
        ("nvmlDeviceGetUtilizationRates", {"util"}),
    ],
)
def test_a_refused_query_loses_only_its_own_answer(nvml, function, keys):
    refuse(nvml, function)
    sample = telemetry_for("GPU-1").sample()
    assert {k for k in GPU_KEYS - {"others"} if sample[k] is None} == keys


def test_functions_of_older_drivers_are_tried_too(nvml):
    refuse(nvml, "nvmlDeviceGetTemperatureV")
    refuse(nvml, "nvmlDeviceGetCurrentClocksEventReasons")
    nvml.nvmlDeviceGetTemperature = lambda handle, sensor: 55
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x40
    sample = telemetry_for("GPU-1").sample()
    assert (sample["temp_c"], sample["throttle"]) == (55.0, ["hw-thermal"])


def test_without_the_package_or_the_gpu_everything_is_none(monkeypatch, nvml):
    absent = telemetry_for("GPU-2").sample()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for sample in (absent, telemetry_for("GPU-1").sample()):
        assert all(sample[key] is None for key in GPU_KEYS)


def other_users(nvml, clock, *reports):
    """The count of others after NVML reported each of these lists of processes, a second apart."""
    readings = telemetry_for("GPU-1")
    counts = []
    for processes in reports:
        nvml.processes = processes
        clock.now += 1.0
        counts.append(readings.sample()["others"])
    return counts


def test_other_users_are_all_processes_but_ours(nvml, clock):
    me = (os.getpid(), 90)
    assert other_users(nvml, clock, [me], [me], [me, (77, 5)], [me]) == [None, 0, 1, 1]


def test_in_a_container_one_of_the_listed_processes_is_ours(nvml, clock):
    assert other_users(nvml, clock, [(4_000_001, 90)], [(4_000_001, 90)], [(4_000_001, 50), (4_000_002, 50)]) == [
        None,
        0,
        1,
    ]


def test_idle_processes_and_unfilled_entries_do_not_count(nvml, clock):
    me = (os.getpid(), 90)
    assert other_users(nvml, clock, [me], [me, (77, 0), (0, 50), (78, 4_000_000_000)]) == [None, 0]


def test_processes_from_before_the_start_do_not_count(nvml, clock):
    me = (os.getpid(), 90)
    assert other_users(nvml, clock, [me, (77, 90)], [me], [me]) == [None, 0, 0]


def test_an_idle_gpu_has_no_other_users_and_a_refusal_is_not_zero(nvml, clock):
    assert other_users(nvml, clock, [], []) == [None, 0]
    assert other_users(nvml, clock, NOT_SUPPORTED, NOT_SUPPORTED) == [None, None]


@pytest.mark.parametrize(("others", "count"), [([], 0), ([(77, 5)], 1)])
def test_the_users_of_a_gpu_beside_another_process_are_waited_for(nvml, clock, others, count):
    users = OtherUsers(Nvml("GPU-1"), pid=55)
    users.start()
    nvml.processes = [(55, 90), *others]
    assert users.wait_for_count() == count


def test_our_pids_include_this_one():
    assert os.getpid() in pids_of(os.getpid())
