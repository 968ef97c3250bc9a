"""Energy, power states and the clock of a real GPU."""

import statistics
import time
from pathlib import Path

import pytest
import torch

from kernellab.build.cuda import kernel
from kernellab.energy.blocks import Poller, measure_response
from kernellab.energy.counters import EnergyUnknown, counter_of
from kernellab.energy.loads import load_of
from kernellab.machine.telemetry import telemetry_for
from kernellab.running.worker.channel import device_id
from support.timing import timed_impl, two_content_sets

pytestmark = [pytest.mark.gpu, pytest.mark.clocked]

GPU = torch.device("cuda:0")
OP = Path(__file__).resolve().parents[2] / "benchmarks" / "energy_op.py"


@pytest.fixture(scope="module")
def counter():
    try:
        return counter_of(device_id(GPU))
    except EnergyUnknown as problem:
        pytest.skip(str(problem))


def product_load(size=8192):
    a, b = (torch.randn(size, size, device=GPU, dtype=torch.bfloat16) for _ in range(2))
    sets = two_content_sets(4)
    impl = timed_impl(lambda inputs: lambda: torch.mm(a, b), sets, "product")
    return load_of(impl, GPU, 1500.0, lambda result, number: None)


def test_the_counter_moves_in_steps_and_follows_the_power(counter):
    response = measure_response(Poller(counter), product_load())
    print(response)
    assert 0.002 < response.step_s < 0.25
    assert response.lead_s < 4
    assert 20 < response.idle_w < 300


def test_a_read_of_the_counter_is_cheap(counter):
    took = []
    for _ in range(200):
        began = time.perf_counter()
        counter.joules()
        took.append(time.perf_counter() - began)
    print("time of a read, µs:", 1e6 * statistics.median(took))
    assert statistics.median(took) < 1e-3


def test_the_counter_agrees_with_the_power_that_nvml_reads(counter):
    telemetry, load = telemetry_for(device_id(GPU), every_s=0.02), product_load()
    powers = []
    began = time.monotonic()
    before = None
    while (elapsed := time.monotonic() - began) < 4:
        load.feed()
        reading = telemetry.sample()
        if elapsed > 2:
            before = before or (time.monotonic(), counter.joules())
            powers += [reading["power_w"]] if reading else []
    now, joules = time.monotonic(), counter.joules()
    load.finish()
    watts = (joules - before[1]) / (now - before[0])
    print(f"by the counter {watts:.0f} W, by readings {statistics.fmean(powers):.0f} W")
    assert watts == pytest.approx(statistics.fmean(powers), rel=0.1)


def test_nvmls_clock_is_the_clock_of_the_sms():
    """In rounds it is read once a burst, and says whether two implementations ran at one clock."""
    telemetry = telemetry_for(device_id(GPU))
    spin = kernel(str(Path(__file__).parent / "clock.cu"), "clock_rate")
    a, b = (torch.randn(8192, 8192, device=GPU, dtype=torch.bfloat16) for _ in range(2))
    out = torch.zeros(2, dtype=torch.int64, device=GPU)
    read, true = [], []
    for _ in range(60):
        for _ in range(20):
            torch.mm(a, b)
        spin(1, 1, out)
        time.sleep(0.01)  # in the middle of the products
        read.append(telemetry.clock_mhz())
        cycles, nanoseconds = out.tolist()
        true.append(1e3 * cycles / nanoseconds)
    pairs = list(zip(read, true, strict=True))[20:]
    print("NVML's clock and the true one, MHz:", [(round(r), round(t)) for r, t in pairs])
    assert statistics.median(r / t for r, t in pairs) == pytest.approx(1.0, abs=0.03)


def test_energy_is_measured_by_klab_and_stays_below_the_power_limit(klab):
    args = ("--M", "4096", "--dtype", "bfloat16", "--impl", "torch", "--energy", "--seconds", "0.3", "--only-times")
    seen = klab("bench", "matmul", *args, "--json")
    assert seen.code == 0, seen.err
    series = seen.result("torch")["times"][0]
    energy, verdict = series["energy"], seen.result("torch")["derived"]["energy"]
    print(energy, verdict)
    assert (energy["status"], energy["counter"], len(energy["joules"])) == ("ok", "nvml", 12)
    assert max(energy["resolution"]) <= 0.005
    limit_w = series["telemetry"]["limit_w"][0]
    assert 100 < verdict["watts"] < 1.1 * (limit_w or 1000)
    assert verdict["median_j"] == pytest.approx(verdict["watts"] * verdict["us"] / 1e6, rel=0.05)
    assert (verdict["high_j"] - verdict["low_j"]) / verdict["median_j"] < 0.1


def test_a_product_of_zeros_takes_less_energy(klab):
    args = ("--impl", "random,random-again,zeros", "--energy", "--seconds", "0.3", "--only-times")
    seen = klab("bench", str(OP), *args, "--json", timeout=600)
    assert seen.code == 0, seen.err
    zeros = seen.result("zeros")["derived"]["energy_ratio"]["fastest_other"]
    print(zeros)
    assert zeros["verdict"] == "less"


def test_rounds_have_the_clock_of_each_burst_and_what_ran_before(klab):
    args = ("--M", "4096", "--dtype", "bfloat16", "--impl", "torch,compile", "--seconds", "0.3", "--only-times")
    seen = klab("bench", "matmul", *args, "--json")
    assert seen.code == 0, seen.err
    for impl in ("torch", "compile"):
        series = seen.result(impl)["times"][0]
        rounds = len(set(series["rounds"]))
        assert len(series["before"]) == len(series["clocks_mhz"]) == rounds
        assert set(series["before"]) == {"torch", "compile"}
        assert all(clock and 300 < clock < 3000 for clock in series["clocks_mhz"])
        trust = seen.result(impl)["derived"]["speedup"]["fastest_other"]["trust"]
        print(impl, seen.result(impl)["derived"]["trust"]["verdict"], trust, series["clocks_mhz"][:20])


def test_the_matmul_rate_is_measured_in_two_power_states(klab):
    args = ("--M", "2048", "--dtype", "bfloat16", "--impl", "torch", "--seconds", "0.2", "--refresh-ceilings")
    seen = klab("bench", "matmul", *args, "--json")
    assert seen.code == 0, seen.err
    by_clock = seen.record["machine"]["ceilings"]["matmul_by_clock"]
    print(by_clock)
    for rates in by_clock.values():
        at_once, sustained = rates
        assert sustained["tflops"] <= 1.03 * at_once["tflops"]
        assert at_once["tflops"] / at_once["clock_mhz"] == pytest.approx(
            sustained["tflops"] / sustained["clock_mhz"], rel=0.1
        )
    limit = seen.result("torch")["derived"]["limit"]
    assert limit["clock_mhz"]
    assert 0.5 < limit["fraction"] < 1.1
