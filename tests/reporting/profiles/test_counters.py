"""What Nsight Compute counted, in sentences and tables."""

import pytest

from kernellab.counters import ncu_pages as pages
from kernellab.counters import tables
from kernellab.reporting.profiles.counters import lines
from support.ncu_pages import COST, details, grids, launch, raw


def impl_lines(*launches, rules=(), cost=None, name="triton"):
    row = tables.impl_row(name, pages.launches(raw(*launches)), list(rules), cost, "float32")
    return lines({"impls": [row]}, name_width=80)


def test_a_sweep_says_how_throughput_changes_and_what_limits_it():
    text = "\n".join(lines({"sweep": tables.sweep_rows(pages.launches(raw(*grids())), [])}, name_width=80))
    assert (
        "from 1 block to 512 memory throughput rises from 0.4 % to 71.5 %, compute rises from 0.1 % to 17.9 %" in text
    )
    assert "from 1 block on, limited by its grid: 131 of 132 multiprocessors have no block" in text
    assert "from 512 blocks on, limited by memory" in text
    assert "Fastest: 512 blocks of 128, 156.2 µs, 512 times as fast as 1 block of 128" in text


def test_throughput_that_rises_and_falls_has_its_maximum():
    falling = [launch(id=i, blocks=n, memory=share) for i, (n, share) in enumerate({1: 9.0, 2: 20.0, 3: 8.0}.items())]
    text = lines({"sweep": tables.sweep_rows(pages.launches(raw(*falling)), [])}, name_width=80)
    assert "goes from 9 % to 8 %, at most 20 %" in text[0]


def test_a_sweep_without_times_has_no_fastest_grid():
    (read,) = pages.launches(raw(launch(time="n/a")))
    text = lines({"sweep": tables.sweep_rows([read, read], [])}, name_width=80)
    assert "memory throughput" in text[0]
    assert not any(line.startswith("Fastest") for line in text)


@pytest.mark.parametrize(
    ("memory", "compute", "dram", "limit"),
    [
        (95.0, 94.0, 21.0, "memory and compute alike"),
        (80.0, 40.0, 75.0, "memory ("),
        (80.0, 40.0, 21.0, "caches and shared memory"),
        (40.0, 80.0, 21.0, "compute ("),
        (40.0, 40.0, 21.0, "latency: neither memory nor compute reaches 60 %"),
    ],
)
def test_the_first_line_says_what_limits_the_longest_kernel(memory, compute, dram, limit):
    assert f"limited by {limit}" in impl_lines(launch(memory=memory, compute=compute, dram=dram))[0]


@pytest.mark.parametrize(
    ("moved", "judgement"),
    [
        (1980.0, "as many as necessary"),
        (3980.0, "1.99 times as many as necessary"),
        (980.0, "fewer: the caches served the rest"),
    ],
)
def test_counted_bytes_are_compared_with_declared_ones(moved, judgement):
    assert judgement in impl_lines(launch(read=moved, written=0.0), cost=COST)[1]
    assert "declares no bytes" in impl_lines(launch(read=moved))[1]


def test_estimates_for_the_whole_launch_come_before_those_for_one_unit():
    rules = pages.rules(
        details(
            (0, "S", "Unit", "OPT", "…", "local", "88"),
            (0, "S", "Whole", "OPT", "…", "global", "12"),
        )
    )
    text = impl_lines(launch(), rules=rules)
    assert [line.split()[0] for line in text if "could gain" in line] == ["Whole", "Unit"]
