"""How often samples are taken, and what goes into a record."""

import json

import pytest

from kernellab.machine.telemetry import telemetry_for
from kernellab.stats import trust
from support.nvml import GPU_KEYS


def test_samples_are_not_taken_more_often_than_the_interval_allows(nvml, clock):
    readings = telemetry_for("GPU-1")
    assert readings.sample() is not None
    assert readings.sample() is None
    clock.now += 0.04
    assert readings.sample() is None
    assert readings.sample(force=True) is not None
    clock.now += 0.051
    assert readings.sample()["t"] == pytest.approx(0.091)
    assert telemetry_for("GPU-1", every_s=0).sample() is not None


def test_columns_go_into_a_record(nvml, clock):
    readings = telemetry_for("GPU-1")
    assert readings.columns() == {}
    for _ in range(4):
        readings.sample()
        clock.now += 0.1
    columns = readings.columns()
    assert columns["t"] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert {len(values) for values in columns.values()} == {4}
    assert set(columns) == {"t", "took_us"} | GPU_KEYS
    assert json.loads(json.dumps(columns, allow_nan=False)) == columns
    assert readings.columns(since=0.15)["t"] == pytest.approx([0.2, 0.3])
    assert readings.now == pytest.approx(0.4)


def test_a_throttled_gpu_is_not_trusted(nvml, clock):
    nvml.reasons = 0x04
    readings = telemetry_for("GPU-1")
    for _ in range(5):
        readings.sample(force=True)
    reasons = trust.find_reasons(readings.columns(), [100.0] * 20, device="cuda", steady=True, interval=None)
    assert trust.summarise(reasons) == "throttled"
