"""Fixtures of the tests of the machine: NVML by a stand-in, and a clock that the test moves."""

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
    """Time that passes when the test says so."""
    hands = SimpleNamespace(now=100.0)
    fake = SimpleNamespace(monotonic=lambda: hands.now, process_time=time.process_time)
    for module in (telemetry, gpu_telemetry, cpu_telemetry):
        monkeypatch.setattr(module, "time", fake)
    return hands
