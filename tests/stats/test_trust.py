"""Whether a time can be trusted, from its rounds and the telemetry read beside them."""

import random
import subprocess
import sys

import pytest

from kernellab.stats.intervals import median_interval
from kernellab.stats.trust import PowerState, find_reasons, is_steady, power_state, summarise
from support.klab import klab_env


def gpu(n=40, **columns):
    calm = {
        "t": [0.05 * i for i in range(n)],
        "sm_mhz": [1980.0] * n,
        "mem_mhz": [3201.0] * n,
        "throttle": [[]] * n,
        "others": [None] * 5 + [0] * (n - 5),
    }
    return {**calm, **columns}


def cpu(n=10, **columns):
    calm = {
        "t": [0.25 * (i + 1) for i in range(n)],
        "span_s": [0.25] * n,
        "others_cores": [0.05] * n,
        "steal": [0.01] * n,
        "mhz": [2800.0] * n,
        "threads": [2] * n,
        "cores": [2] * n,
    }
    return {**calm, **columns}


def rounds(n=60, *, scatter=0.01, drift=0.0, seed=1):
    rng = random.Random(seed)
    return [100.0 * (1 + drift * i / n) * rng.lognormvariate(0, scatter) for i in range(n)]


def verdict(telemetry, times=None, device="cuda", steady=True):
    times = rounds() if times is None else times
    return summarise(find_reasons(telemetry, times, device=device, steady=steady, interval=median_interval(times)))


def test_a_calm_machine_is_trusted():
    assert verdict(gpu()) == "trusted"
    assert verdict(cpu(), device="cpu") == "trusted"
    assert verdict(None) == "trusted"


def test_each_reason_is_one_sentence_with_numbers():
    columns = gpu(throttle=[["sw-power-cap"]] * 40, sm_mhz=[1980.0, 1700.0] * 20, others=[2] * 40)
    reasons = find_reasons(columns, rounds(), device="cuda", steady=True, interval=None)
    assert summarise(reasons) == "throttled, clock-moved, contended"
    assert reasons[0]["detail"] == "the clock was throttled (sw-power-cap) in 40 of 40 readings"
    assert reasons[1]["detail"] == "the SM clock moved between 1700 and 1980 MHz, 15 % of 1840"
    assert reasons[2]["detail"] == "2 other processes used the GPU"


@pytest.mark.parametrize(
    ("throttled_readings", "expected"), [(0, "trusted"), (1, "trusted"), (3, "trusted"), (4, "throttled")]
)
def test_throttling_counts_from_a_tenth_of_the_readings(throttled_readings, expected):
    assert verdict(gpu(throttle=[["hw-thermal"]] * throttled_readings + [[]] * (40 - throttled_readings))) == expected


def test_the_power_state_is_at_its_limit_where_the_limit_throttles():
    capped = gpu(power_w=[690.0] * 40, limit_w=[700.0] * 40, throttle=[["sw-power-cap"]] * 20 + [[]] * 20)
    assert power_state(capped) == PowerState(True, 700.0, 690.0, 1980.0)
    hot = gpu(throttle=[["sw-thermal"]] * 40)
    assert power_state(hot) == PowerState(False, None, None, 1980.0)
    assert power_state(None) is power_state({}) is power_state(gpu(sm_mhz=[None] * 40)) is None


def test_one_reading_alone_is_not_throttling():
    assert verdict(gpu(2, throttle=[["sw-power-cap"], []])) == "trusted"


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        ([1980.0] * 39 + [1200.0], "trusted"),  # one blip
        ([1980.0, 1965.0] * 20, "trusted"),  # a step of the clock
        ([1980.0, 1890.0] * 20, "clock-moved"),
        ([345.0] + [1980.0] * 39, "trusted"),  # still on its way up at the first reading
        ([345.0, 1980.0, 1980.0], "trusted"),
        ([1980.0], "trusted"),
        ([None] * 40, "trusted"),
        ([0.0] * 40, "trusted"),
    ],
)
def test_the_sm_clock_moved_if_it_changed_by_more_than_noise(clocks, expected):
    assert verdict(gpu(sm_mhz=clocks)) == expected


def test_any_change_of_the_memory_clock_counts():
    assert verdict(gpu(mem_mhz=[3201.0] * 20 + [2619.0] * 20)) == "clock-moved"
    assert verdict(gpu(mem_mhz=[405.0] + [3201.0] * 39)) == "trusted"


def test_a_cpus_clock_counts_only_when_the_change_lasts():
    jumping = [2800.0, 3400.0] * 6
    assert verdict(cpu(12, mhz=jumping), device="cpu") == "trusted"
    assert verdict(cpu(12, mhz=[3400.0] * 5 + [2800.0] * 7), device="cpu") == "clock-moved"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"others_cores": [0.1] * 10}, "trusted"),
        ({"others_cores": [-0.02] * 10}, "trusted"),
        ({"others_cores": [1.0] + [0.0] * 9}, "trusted"),  # for a moment
        ({"others_cores": [0.9] * 10}, "contended"),
        ({"others_cores": [0.6] * 10, "cores": [16] * 10, "threads": [8] * 10}, "trusted"),  # there is room
        ({"others_cores": [0.6] * 10, "cores": [16] * 10, "threads": [16] * 10}, "contended"),
        ({"others_cores": [6.0] * 10, "cores": [16] * 10, "threads": [8] * 10}, "contended"),  # room, but too many
        ({"others_cores": [0.6] * 10, "threads": [None] * 10}, "contended"),
        ({"steal": [0.02] * 10}, "trusted"),
        ({"steal": [0.2] * 10}, "contended"),
        ({"others_cores": [None] * 10, "steal": [None] * 10, "mhz": [None] * 10}, "trusted"),
    ],
)
def test_other_processes_contend_once_they_take_cores_from_the_implementation(columns, expected):
    assert verdict(cpu(**columns), device="cpu") == expected


def test_long_spans_weigh_more():
    quiet_then_loud = {"others_cores": [0.0, 1.0], "span_s": [0.1, 2.0], "t": [0.1, 2.1]}
    assert verdict(cpu(2, **quiet_then_loud), device="cpu") == "contended"


def test_a_wide_interval_or_a_wide_spread_is_noise():
    assert verdict(gpu(), rounds(scatter=0.02)) == "trusted"
    assert verdict(gpu(), rounds(scatter=0.3)) == "noisy"
    assert verdict(gpu(), [100.0, 130.0] * 50) == "noisy"
    spread = rounds(400, scatter=0.2)  # the median is known well, the rounds are far apart
    assert verdict(gpu(), spread) == "noisy"
    assert verdict(cpu(), rounds(scatter=0.08), device="cpu") == "trusted"


def test_drift_needs_to_be_more_than_scatter():
    assert verdict(gpu(), rounds(drift=0.2)) == "unsteady"
    assert verdict(gpu(), rounds(120, drift=0.05), steady=False) == "unsteady"
    assert verdict(gpu(), rounds(drift=0.05), steady=True) == "trusted"
    assert verdict(gpu(), rounds(drift=0.05), steady=None) == "trusted"
    assert verdict(gpu(), rounds(drift=0.0), steady=False) == "trusted"


def test_scatter_alone_is_hardly_ever_called_drift():
    false = sum("unsteady" in verdict(None, rounds(n, scatter=0.1, seed=s)) for n in (12, 30, 100) for s in range(300))
    assert false <= 18  # 2 % of 900


@pytest.mark.parametrize("times", [[], [0.0], [5.0], [0.0] * 20, [5.0] * 7, [1.0, 2.0]])
def test_with_few_or_empty_rounds_there_is_no_reason_to_distrust(times):
    for device in ("cuda", "cpu"):
        for telemetry in (None, {}, gpu(0), gpu(1), cpu(0), cpu(1)):
            assert find_reasons(telemetry, times, device=device, steady=False, interval=None) == []


def test_steady_after_the_times_and_the_clock_have_settled():
    settled = [100.0, 101, 99, 100, 100, 101]
    assert is_steady(settled, [1980.0] * 6, 0.02)
    assert is_steady(settled, [None] * 6, 0.02)
    assert is_steady(settled, [], 0.02)
    assert is_steady([500.0, 300.0, *settled], [345.0, 900.0, *[1980.0] * 6], 0.02)
    assert not is_steady(settled, [1700.0, 1980, 1980, 1980, 1980, 1980], 0.02)
    assert not is_steady([130.0, 128, 120, 110, 105, 100], [None] * 6, 0.02)
    assert not is_steady(settled[:5], [1980.0] * 5, 0.02)
    assert is_steady([100.0, 100, 100, 100, 150, 100], [None] * 6, 0.02)  # one hiccup


def test_trust_needs_no_torch():
    code = "import sys, kernellab.stats.trust; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())
