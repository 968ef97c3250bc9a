"""Telemetry of a real GPU, and its vendor's peaks."""

import statistics
import subprocess
import sys
import time

import pytest
import torch

from kernellab.machine.peaks import peaks
from kernellab.machine.telemetry import telemetry_for
from kernellab.running.worker.channel import device_id

pytestmark = [pytest.mark.gpu, pytest.mark.clocked]

KEEP_BUSY = """
import sys, time, torch
x = torch.randn(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    for _ in range(20):
        x @ x
    torch.cuda.synchronize()
"""


@pytest.fixture
def uuid():
    return device_id(torch.device("cuda", torch.cuda.current_device()))


def busy_samples(uuid, seconds):
    """Keep the GPU busy, as timing does, and read its telemetry."""
    x = torch.randn(4096, 4096, device="cuda")
    telemetry = telemetry_for(uuid)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()
        telemetry.sample()
    telemetry.sample(force=True)
    return telemetry.columns()


def without_none(values):
    return [value for value in values if value is not None]


def test_clocks_power_and_temperature_are_read(uuid):
    columns = busy_samples(uuid, 1.5)
    assert len(columns["t"]) >= 5
    for key in ("sm_mhz", "mem_mhz", "power_w", "temp_c"):
        assert without_none(columns[key]), key
        assert min(without_none(columns[key])) > 0, key
    assert all(isinstance(words, list) for words in columns["throttle"])
    assert max(without_none(columns["util"])) > 0


def test_a_reading_is_cheap(uuid):
    columns = busy_samples(uuid, 1.5)
    print("time of a reading, µs:", sorted(columns["took_us"]))
    assert statistics.median(columns["took_us"]) < 5000


def test_other_processes_are_counted_only_if_there_are_some(uuid):
    alone = without_none(busy_samples(uuid, 3.0)["others"])
    if not alone:
        pytest.skip("NVML does not report which processes use this GPU")
    assert max(alone) == 0
    second = subprocess.Popen([sys.executable, "-c", KEEP_BUSY], stdout=subprocess.PIPE, text=True)
    try:
        assert second.stdout.readline().strip() == "ready"
        together = without_none(busy_samples(uuid, 3.0)["others"])
    finally:
        second.kill()
        second.wait()
    assert max(together) >= 1


def test_measured_rates_stay_below_the_vendors(uuid):
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    most = peaks(uuid, facts.multi_processor_count, (facts.major, facts.minor), facts.L2_cache_size)
    print(most)
    assert most is not None
    if most["pin_gbps"] is None:
        pytest.skip("NVML does not report the memory's clock and width")
    x = torch.empty(1 << 28, device="cuda")
    y = torch.empty_like(x)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    y.copy_(x)
    start.record()
    for _ in range(10):
        y.copy_(x)
    end.record()
    torch.cuda.synchronize()
    gbps = 10 * 2 * x.nbytes / start.elapsed_time(end) / 1e6
    assert 0.5 * most["pin_gbps"] < gbps < most["pin_gbps"]
