"""The pages of Nsight Compute, read."""

import csv
import io

import pytest

from kernellab.base.errors import UserError
from kernellab.traces import ncu as pages
from support.ncu_pages import ELEMENTWISE, HEADER, SOFTMAX_PAGE, details, launch, raw, table


def test_a_genuine_page_is_read_without_its_log():
    (read,) = pages.launches(SOFTMAX_PAGE.read_text())
    assert (read.function, read.grid, read.block, read.device) == (
        "softmax_warp",
        (1024, 1, 1),
        (128, 1, 1),
        "NVIDIA H200",
    )
    assert read.name.startswith("void softmax_warp<float, 4, 8, 32>(const T1 *")
    assert read.numbers["device__attribute_l2_cache_size"] == 62_914_560  # a number with commas


def test_units_are_converted_to_nanoseconds_and_bytes():
    (read,) = pages.launches(raw(launch(time=1234.5, read=1.5)))
    assert read.numbers["gpu__time_duration.sum"] == 1_234_500
    assert read.numbers["dram__bytes_read.sum"] == 1_500_000
    (older,) = pages.launches(raw(launch(time=2.0)).replace('"us"', '"usecond"'))
    assert older.numbers["gpu__time_duration.sum"] == 2000


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("map_flat", "map_flat"),
        (ELEMENTWISE, "vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::f<int (*)(float)>(T1)", "f"),
        ("", ""),
    ],
)
def test_the_functions_name_is_taken_from_the_demangled_one(name, function):
    (read,) = pages.launches(raw(launch(name=name)))
    assert (read.name, read.function) == (name, function)


def test_names_cannot_control_a_terminal():
    (read,) = pages.launches(raw(launch(name="a\x1b[31mb")))
    assert "\x1b" not in read.name


def test_rules_are_read_with_their_estimates_and_metrics_are_skipped():
    text = details((0, "Occupancy", "AchievedOccupancy", "OPT", 'Said with "quotes", and\na line', "global", "12.5"))
    (rule,) = pages.rules(text)
    assert (rule.id, rule.name, rule.kind, rule.scope, rule.percent) == (
        "0",
        "AchievedOccupancy",
        "OPT",
        "global",
        12.5,
    )
    assert rule.words == 'Said with "quotes", and a line'
    with pytest.raises(UserError, match="page raw"):
        pages.launches(text)
    before_2023 = table([HEADER[:-2], *([*row[:-2]] for row in csv.reader(io.StringIO(text)) if len(row) == 20)][:3])
    assert [rule.percent for rule in pages.rules(before_2023) if rule.name == "AchievedOccupancy"] == [None]


def test_what_is_no_number_is_left_out():
    (read,) = pages.launches(raw(launch(time="1e999", read="nan", written="(!) n/a")))
    assert not {"gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"} & set(read.numbers)
