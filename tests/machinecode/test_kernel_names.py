"""Kernel names: mangled symbols are shortened, and matched by what a user types."""

import pytest

from kernellab.machinecode.kernel_names import is_from_cuda_headers, match_symbols, short_name

MANGLED = ("_Z13softmax_blockIfLi4EEvPT_", "_Z12softmax_loopIfEvPT_", "_ZN4mine5scaleEPf", "tiny")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z13softmax_blockIfLi4ELi8ELb0EEvPKT_PS0_xxx", "softmax_block<…>"),
        ("_Z6squarePKfPfi", "square"),
        ("map_flat", "map_flat"),
        ("_ZN2at6native6squareEv", "_ZN2at6native6squareEv"),
        ("_Z99short", "_Z99short"),
    ],
)
def test_mangled_names_are_shortened_where_that_is_safe(symbol, name):
    assert short_name(symbol) == name


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("_Z12softmax_loopIfEvPT_", [1]),
        ("softmax_loop", [1]),
        ("softmax_block<float, 4>", [0]),
        ("softmax", [0, 1]),
        ("scale", [2]),
        ("tiny", [3]),
        ("nothing", []),
    ],
)
def test_a_kernel_is_matched_by_its_symbol_its_name_or_a_part(name, matches):
    assert match_symbols(name, MANGLED) == [MANGLED[i] for i in matches]


@pytest.mark.parametrize(
    ("symbol", "from_headers"),
    [("__cudart_i2opi_f", True), ("_ZN4cuda3std3__45__cpo5beginE", True), ("my_table", False)],
)
def test_constants_of_cudas_headers_are_recognised(symbol, from_headers):
    assert is_from_cuda_headers(symbol) is from_headers
