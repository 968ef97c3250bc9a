"""Fixtures: a fake NVML, and a clock that the test moves."""

import sys
import time
from types import SimpleNamespace

import pytest

from kernellab.machine import cpu_telemetry, gpu_telemetry, telemetry
from support.nvml import FakeNvml


@pytest.fixture
def nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def clock(monkeypatch):
    """A monotonic clock that the test moves by setting `now`."""
    state = SimpleNamespace(now=100.0)
    fake = SimpleNamespace(
        monotonic=lambda: state.now,
        process_time=time.process_time,
        sleep=lambda seconds: setattr(state, "now", state.now + seconds),
    )
    for module in (telemetry, gpu_telemetry, cpu_telemetry):
        monkeypatch.setattr(module, "time", fake)
    return state
