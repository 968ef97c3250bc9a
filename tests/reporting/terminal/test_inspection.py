"""The table of `klab inspect OP`, and the lines below it."""

import io

import pytest
from rich.console import Console

from kernellab.reporting.terminal.inspection import FailedImpl, build_table, describe_failures, describe_parameters
from kernellab.reporting.text.table import print_table

KERNEL = {
    "impl": "triton",
    "name": "map_flat<GeluTanh, float, 4>",
    "arch": "sm_90",
    "tuned": None,
    "grid": [2048, 1, 1],
    "block": [128, 1, 1],
    "cluster": [1, 1, 1],
    "registers": 18,
    "spill_bytes": 0,
    "shared_bytes": 0,
    "occupancy": {"blocks_per_sm": 16, "fraction": 0.5, "limiter": "registers"},
    "instructions": {"fp32": 118},
    "widest_global_bytes": 16,
    "narrowest_global_bytes": 4,
    "refusal": "",
}
EVERY_COLUMN = 200  # characters


def printed(kernels, width=EVERY_COLUMN):
    out = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_table(build_table(kernels), out)
    return out.file.getvalue()


@pytest.mark.parametrize("width", [50, 60, 80, EVERY_COLUMN])
def test_a_narrow_terminal_omits_columns_and_names_them(width):
    text = printed([{**KERNEL, "arch": arch} for arch in ("sm_80", "sm_90")], width)
    for word in ("impl", "triton", "sm_80", "sm_90", "registers", "50 %, registers"):
        assert word in text
    assert max(map(len, text.splitlines())) <= width
    assert ("A wider terminal shows" in text) == (width < EVERY_COLUMN)


def test_equal_launches_are_one_row_with_their_number():
    text = printed([KERNEL, {**KERNEL, "times": 2}])
    assert text.count("triton") == 1
    assert "× 3" in text


def test_resources_have_their_names_in_words():
    occupancy = {"blocks_per_sm": 4, "fraction": 0.5, "limiter": "shared", "limiters": ["shared"]}
    assert "50 %, shared memory" in printed([{**KERNEL, "occupancy": occupancy}])


@pytest.mark.parametrize(
    ("change", "cell"),
    [
        ({"cluster": [4, 1, 1]}, "2048 by 4"),
        ({"grid": [16, 8, 1]}, "16×8"),
        ({"refusal": "the grid is too large"}, "cannot launch"),
        ({"narrowest_global_bytes": 16}, "16 B"),
        ({}, "4–16 B"),
        ({"spill_bytes": 24}, "24 B"),
        (
            {"tuned": [0, 2], "config": {"constexprs": {"BLOCK": 256}, "num_warps": 4, "num_ctas": 1}},
            "BLOCK=256 num_warps=4",
        ),
    ],
)
def test_a_cell_shows_the_fact(change, cell):
    assert cell in printed([{**KERNEL, **change}])


def test_parameters_have_the_numbers_of_the_ptx_and_constants_have_none():
    parameters = [
        {"name": "x_ptr", "type": "*fp32", "value": "pointer to float32, 64", "special": "divisible by 16"},
        {"name": "x_col", "type": "int", "value": "1", "special": "equal to 1: compiled in as a constant"},
        {"name": "n", "type": "i32", "value": "64", "special": ""},
        {"name": "argument 3", "type": "double", "value": "0.5", "special": ""},
    ]
    assert list(describe_parameters({"parameters": parameters})) == [
        "parameter 0 is x_ptr: pointer to float32, 64; divisible by 16",
        "x_col is not a parameter: equal to 1: compiled in as a constant",
        "parameter 1 is n: i32, 64",
        "parameter 2: double, 0.5",
    ]


def test_a_failure_is_one_line_for_all_its_architectures():
    failures = [FailedImpl("triton", arch, "error", "too large") for arch in ("sm_80", "sm_90")]
    skipped = FailedImpl("compile", "sm_80", "skipped", "takes long")
    assert [text for text, _ in describe_failures([*failures, skipped])] == [
        "triton (sm_80, sm_90)  error: too large",
        "compile  skipped: takes long",
    ]
