"""Cases: how a person writes them and what they bind."""

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.case import Case, parse_dtype
from kernellab.declaration.case_request import parse_option, parse_shapes, parse_sizes
from kernellab.declaration.expansion import bind_shape


def test_shapes_are_sizes_joined_by_x():
    assert parse_shapes("4096x1024, 8×2") == [(4096, 1024), (8, 2)]


@pytest.mark.parametrize("text", ["", "4096x", "axb", "4096x-1", "4096 4096", "1.5x2"])
def test_an_unreadable_shape_is_refused(text):
    with pytest.raises(UserError, match="cannot read the shape"):
        parse_shapes(text)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("256,512", [256, 512]),
        ("256:640:128", [256, 384, 512, 640]),
        ("1024:8192:x2", [1024, 2048, 4096, 8192]),
        ("3:5", [3, 4, 5]),
    ],
)
def test_sizes_are_lists_ranges_and_powers(text, sizes):
    assert parse_sizes("N", text) == sizes


@pytest.mark.parametrize("text", ["x", "1:2:3:4", "8:4", "1:8:x1", "0:8:x2", "1:8:0", "-3"])
def test_unreadable_sizes_are_refused(text):
    with pytest.raises(UserError, match="cannot read --N"):
        parse_sizes("N", text)


def test_dtypes_have_short_names_and_typos_get_a_hint():
    assert parse_dtype("bf16") == "bfloat16"
    with pytest.raises(UserError, match="did you mean float32"):
        parse_dtype("flot32")


def test_options_are_matched_by_what_they_read_like():
    assert parse_option("causal", "none", [None, "top_left"]) is None
    assert parse_option("scale", "0.5", [None]) == 0.5
    with pytest.raises(UserError, match="did you mean tanh"):
        parse_option("approximate", "tahn", ["tanh", "none"])


def test_the_ellipsis_takes_the_leading_sizes():
    assert bind_shape((2, 3, 4), ["...", "N"], 2) == {"...": (2, 3), "N": 4}
    assert bind_shape((4,), ["...", "N"], 2) == {"...": (), "N": 4}
    with pytest.raises(UserError, match="too short"):
        bind_shape((), ["...", "N"], 2)


def test_named_dims_bind_in_order_and_defaults_may_be_left_out():
    assert bind_shape((8, 9), ["M", "V", "K"], 2) == {"M": 8, "V": 9}
    with pytest.raises(UserError, match="has 1 sizes"):
        bind_shape((8,), ["M", "V", "K"], 2)


def test_a_case_survives_json_and_reads_as_attributes():
    case = Case({"...": (2, 3), "N": 4}, "float32", {"approximate": "tanh"}, device="cuda")
    again = Case.from_json(case.to_json())
    assert again == case
    assert again.key == case.key
    assert (case.N, case.approximate, case.shape) == (4, "tanh", (2, 3, 4))
    assert case.label == "2×3×4 · float32 · approximate=tanh"
    with pytest.raises(AttributeError, match="no dim or option"):
        _ = case.nothing
