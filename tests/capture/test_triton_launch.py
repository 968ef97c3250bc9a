"""The description of a Triton launch: grid, arguments with the compiler's assumptions, constants and source."""

import json

import pytest

from kernellab.capture.recorder import capture
from kernellab.capture.triton_launch import to_plain_value
from support.klab import OPFILES
from support.meta import meta


def test_a_launch_has_its_grid_its_arguments_and_its_source(double):
    (launch,) = capture(double["triton"], [meta(64, 256)], arch="sm_90")
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes) == ("twice", (64, 1, 1), (128, 1, 1), 0)
    assert launch.constants == {"BLOCK": 256}
    x, _, n = launch.parameters
    assert (x.name, x.type, x.special) == ("x_ptr", "*fp32", "divisible by 16")
    assert x.value == "pointer to float32, 64×256, aligned to 16"
    assert (n.type, n.value) == ("i32", "16384")
    assert [source.name for source in launch.sources] == ["twice", "add"]  # with the function it calls
    lines = (OPFILES / "captured.py").read_text().splitlines()
    assert launch.sources[0].text.startswith(lines[launch.sources[0].first_line - 1])
    assert {"ttir", "ttgir", "llir", "ptx", "cubin"} == set(launch.code)


def test_the_compilers_assumptions_follow_the_alignment_of_the_tensor(double):
    x = meta(64 * 256 + 1)[1:]  # a view that begins 4 bytes into its memory
    (launch,) = capture(double["triton"], [x], arch="sm_90")
    assert launch.parameters[0].special == ""
    assert launch.parameters[0].value.endswith("aligned to 4")


def test_an_argument_that_equals_1_is_compiled_in(double):
    (launch,) = capture(double["triton"], [meta(1)], arch="sm_90")
    assert launch.parameters[2].special == "equal to 1: compiled in as a constant"


def test_a_tma_descriptor_is_described_by_its_tensor(double):
    (launch,) = capture(double["triton-tma"], [meta(64, 256)], arch="sm_90")
    assert launch.grid == (4, 4, 1)
    assert launch.parameters[0].value.startswith("descriptor of a pointer to float32, 64×256")
    assert "cp.async.bulk.tensor" in launch.code["ptx"]


@pytest.mark.parametrize("value", [float("-inf"), float("nan")])
def test_a_constant_that_json_has_no_number_for_is_text(value):
    json.dumps(to_plain_value(value), allow_nan=False)
    assert to_plain_value(value) == str(value)
