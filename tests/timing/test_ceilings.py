"""The matmul rate in two power states, and the clock of each."""

import pytest

from kernellab.timing import ceilings
from kernellab.timing.ceilings import measure_ceilings
from kernellab.timing.rates import matmul_tflops, sustained_matmul_tflops
from kernellab.timing.timer import Burst
from support.timing import FakeTimer


class SteppedTimer(FakeTimer):
    """Calls take a microsecond more with every burst."""

    def __init__(self):
        super().__init__({"rate": 1.0}, 0.0)

    def burst(self, impl, spec):
        spec.verify(None, 0)
        self.bursts.append(spec)
        return Burst([float(len(self.bursts))])


def test_the_clock_is_read_in_every_sample_that_counts():
    timer, read = SteppedTimer(), []
    tflops = matmul_tflops(timer, "float32", 8, 5, observe=lambda: read.append(len(timer.bursts)))
    assert read == [3, 4, 5, 6, 7]  # after three that warm up
    assert tflops == pytest.approx(2 * 8**3 / 6 / 1e6)  # the fourth to the eighth burst take 4 to 8 µs


def test_a_sustained_rate_is_that_of_the_second_half_without_a_pause(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr("kernellab.timing.rates.monotonic", lambda: next(now) / 10)
    timer, read = SteppedTimer(), []
    sustained_matmul_tflops(timer, "float32", 8, 2.0, observe=lambda: read.append(len(timer.bursts)))
    first = read[0]
    assert first == 10  # one to see how long a call takes, and nine in the first second
    assert read == list(range(first, len(timer.bursts)))
    assert {spec.calls for spec in timer.bursts[1:]} == {20_000}  # as many as fill 20 ms


def test_a_cpu_has_one_rate_and_no_clock():
    measured = measure_ceilings_quickly()
    assert measured["matmul_tflops"]["float32"] > 0
    assert "matmul_by_clock" not in measured


def measure_ceilings_quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ceilings, "_MATMULS", {"cpu": (8, ("float32",))})
        patch.setattr(ceilings, "buffer_bytes", lambda device, wanted: 1 << 12)
        return measure_ceilings(SteppedTimer(), lambda: {"sm_mhz": 1500.0})


def test_a_rate_has_the_median_clock_and_power_of_its_readings():
    values = iter([{"sm_mhz": 1980.0, "power_w": 400.0}, {"sm_mhz": 1500.0, "power_w": None}, None, {"sm_mhz": 1600.0}])
    readings = ceilings._Readings(lambda: next(values))
    assert readings.rate(800.0) is None
    for _ in range(4):
        readings()
    assert readings.rate(800.0) == {"tflops": 800.0, "clock_mhz": 1600.0, "power_w": 400.0}
