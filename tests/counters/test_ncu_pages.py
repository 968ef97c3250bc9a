"""CSV pages of Nsight Compute become launches and rules."""

import csv
import io

import pytest

from kernellab.base.errors import UserError
from kernellab.counters import ncu_pages as ncu
from support.klab import HERE
from support.ncu_pages import HEADER, details, launch, raw, table

GENUINE = HERE / "samples" / "ncu-raw-softmax.csv"


ELEMENTWISE = (
    "void at::native::<unnamed>::vectorized_elementwise_kernel<4, at::native::GeluFunctor<float>, "
    "std::array<char *, 2>>(int, T2, T3)"
)


def test_a_genuine_page_is_read_without_its_log():
    (parsed,) = ncu.launches(GENUINE.read_text())
    assert (parsed.function, parsed.grid, parsed.block, parsed.device) == (
        "softmax_warp",
        (1024, 1, 1),
        (128, 1, 1),
        "NVIDIA H200",
    )
    assert parsed.name.startswith("void softmax_warp<float, 4, 8, 32>(const T1 *")
    assert parsed.numbers["device__attribute_l2_cache_size"] == 62_914_560  # a number with commas


def test_units_are_converted_to_nanoseconds_and_bytes():
    (parsed,) = ncu.launches(raw(launch(time=1234.5, read=1.5)))
    assert parsed.numbers["gpu__time_duration.sum"] == 1_234_500
    assert parsed.numbers["dram__bytes_read.sum"] == 1_500_000
    (older,) = ncu.launches(raw(launch(time=2.0)).replace('"us"', '"usecond"'))
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
def test_the_function_is_taken_from_the_demangled_name(name, function):
    (parsed,) = ncu.launches(raw(launch(name=name)))
    assert (parsed.name, parsed.function) == (name, function)


def test_control_characters_are_removed_from_names():
    (parsed,) = ncu.launches(raw(launch(name="a\x1b[31mb")))
    assert "\x1b" not in parsed.name


def test_rules_are_read_with_their_estimates_and_metrics_are_skipped():
    text = details((0, "Occupancy", "AchievedOccupancy", "OPT", 'Text with "quotes", and\na line', "global", "12.5"))
    (rule,) = ncu.rules(text)
    assert (rule.id, rule.name, rule.kind, rule.scope, rule.percent) == (
        "0",
        "AchievedOccupancy",
        "OPT",
        "global",
        12.5,
    )
    assert rule.words == 'Text with "quotes", and a line'
    with pytest.raises(UserError, match="page raw"):
        ncu.launches(text)
    before_2023 = table([HEADER[:-2], *([*row[:-2]] for row in csv.reader(io.StringIO(text)) if len(row) == 20)][:3])
    assert [rule.percent for rule in ncu.rules(before_2023) if rule.name == "AchievedOccupancy"] == [None]


def test_a_value_that_is_not_a_finite_number_is_dropped():
    (parsed,) = ncu.launches(raw(launch(time="1e999", read="nan", written="(!) n/a")))
    assert not {"gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"} & set(parsed.numbers)


def test_a_prefix_makes_the_ids_of_several_reports_unique():
    (first,) = ncu.launches(raw(launch()))
    assert ncu.prefix_id(first, "b").id == "b0"
    assert ncu.prefix_id(first, "") is first
