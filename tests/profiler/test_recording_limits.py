"""How long and how large a recording may become."""

import time
from types import SimpleNamespace

import psutil
import pytest

from kernellab.profiler import recording_limits
from kernellab.profiler.recording_limits import RecordingLimits, recordable_bytes


@pytest.fixture
def limits():
    observing = RecordingLimits(60, 1 << 40, lambda *_: None)
    yield observing
    observing.stop()


def test_a_program_of_many_small_operators_is_measured_in_full(monkeypatch):
    began = time.perf_counter()
    monkeypatch.setattr(recording_limits, "_small_blocks_bytes", lambda: int(150e6 * (time.perf_counter() - began)))
    limits = RecordingLimits(60, 1 << 40, lambda *_: None)
    time.sleep(0.1)
    limits.measure()
    assert limits._recorded_bytes >= 0.9 * 150e6 * limits.seconds
    limits.stop()


def test_tensors_in_small_blocks_are_not_counted_as_recorded(monkeypatch, limits):
    before = limits._began_bytes
    monkeypatch.setattr(recording_limits, "_small_blocks_bytes", lambda: before + (1 << 30))
    limits.measure()
    assert limits._recorded_bytes < recording_limits._FASTEST_BYTES_PER_S * limits.seconds
    monkeypatch.setattr(recording_limits, "_small_blocks_bytes", lambda: before + 1000)
    limits.measure()
    assert limits._recorded_bytes == 1000


def test_free_memory_limits_a_recording_whatever_was_requested(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1 << 40, available=64 << 20))
    assert recordable_bytes(1 << 40, stacks=True, growth=8) == 0.75 * (1 << 20)


def test_a_recording_that_grew_less_than_expected_may_be_larger():
    budget = 1 << 20
    assert recordable_bytes(budget, stacks=True, growth=16.0) == 4 * recordable_bytes(budget, stacks=True)
    assert recordable_bytes(budget, stacks=True, growth=1000.0) == recordable_bytes(budget, stacks=True)
