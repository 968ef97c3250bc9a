"""How sizes, shapes and options are written on a command line."""

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import parse_option, parse_shapes, parse_sizes


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


def test_a_range_of_too_many_sizes_is_refused():
    with pytest.raises(UserError, match="--N 1:1000000: more than 100000 sizes"):
        parse_sizes("N", "1:1000000")


def test_an_option_is_the_declared_value_that_reads_like_the_text():
    assert parse_option("causal", "none", [None, "top_left"]) is None
    assert parse_option("scale", "0.5", [None]) == 0.5
    with pytest.raises(UserError, match="did you mean tanh"):
        parse_option("approximate", "tahn", ["tanh", "none"])
