"""Counters are printed in words, with ncu's own advice."""

import pytest

from kernellab.analysis import counters
from kernellab.reporting.profiles.counters import lines
from kernellab.traces import ncu
from support.ncu_pages import grid_launches, launch, raw


def test_a_sweep_without_counters_says_that_it_cannot_tell():
    (broken,) = ncu.launches(raw(launch(time="1e999", read="nan", written="(!) n/a")))
    printed = lines({"sweep": counters.sweep([broken, broken], [])}, name_width=80)
    assert "memory throughput" in printed[0]


def test_a_sweep_is_summarised_in_words():
    printed = "\n".join(lines({"sweep": counters.sweep(ncu.launches(raw(*grid_launches())), [])}, name_width=80))
    assert (
        "from 1 block to 512 memory throughput rises from 0.4 % to 71.5 %, compute rises from 0.1 % to 17.9 %"
        in printed
    )
    assert "from 1 block on, held by its grid: 131 of 132 multiprocessors have nothing to do" in printed
    assert "from 512 blocks on, held by memory" in printed
    assert "Fastest: 512 blocks of 128, 156.2 µs, 512 times as fast as 1 block of 128" in printed
    falling = [launch(id=i, blocks=n, memory=share) for i, (n, share) in enumerate({1: 9.0, 2: 20.0, 3: 8.0}.items())]
    printed = lines({"sweep": counters.sweep(ncu.launches(raw(*falling)), [])}, name_width=80)
    assert "goes from 9 % to 8 %, at most 20 %" in printed[0]


@pytest.mark.parametrize(
    ("memory", "compute", "dram", "limit"),
    [
        (95, 94, 21, "memory and arithmetic alike"),
        (80, 40, 75, "memory ("),
        (80, 40, 21, "its caches and shared memory"),
    ],
)
def test_the_limiting_part_of_the_memory_system_is_named(memory, compute, dram, limit):
    shares = {
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": memory,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": compute,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": dram,
    }
    launch = ncu.Launch("0", "k", (512, 1, 1), (128, 1, 1), "", {key: float(value) for key, value in shares.items()})
    document = counters.impl_counters("triton", [launch], [], None, "float32")
    assert f"held by {limit}" in lines({"ways": [document]}, name_width=80)[0]


def test_estimates_for_the_whole_launch_come_before_estimates_for_one_unit():
    launch = ncu.Launch("0", "k", (512, 1, 1), (128, 1, 1), "", {})
    rules = [
        ncu.Rule("0", "S", name, "OPT", "", scope, percent)
        for name, scope, percent in [("Unit", "local", 88.0), ("Whole", "global", 12.0)]
    ]
    printed = lines({"ways": [counters.impl_counters("", [launch], rules, None, "")]}, name_width=80)
    assert [line.split()[0] for line in printed if "could gain" in line] == ["Whole", "Unit"]
