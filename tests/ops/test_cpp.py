"""The implementations in C++, run on the CPU."""

import math

import pytest
import torch

import kernellab as kl
from support.ops import DTYPES, LAYOUTS, SPECIALS, assert_agrees, ops_with, options_of, takes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ops_with("cpp"))
def test_cpp_takes_any_layout(name, layout, dtype):
    op = getattr(kl.ops, name)
    x = LAYOUTS[layout](torch.randn(20, 60, generator=torch.Generator().manual_seed(1)).to(dtype))
    if not takes(op, x):
        pytest.skip("not defined for a scalar")
    for options in options_of(op):
        assert_agrees(op, op["cpp"](x, **options), x, **options)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("name", ops_with("cpp", elementwise=True))
def test_cpp_treats_special_values_as_the_reference_does(name, dtype):
    op, x = getattr(kl.ops, name), torch.tensor(SPECIALS).to(dtype).repeat(50)
    for options in options_of(op):
        assert_agrees(op, op["cpp"](x, **options), x, **options)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_cpp_softmax_of_special_rows(name):
    x = torch.randn(6, 70)
    x[0, :-1], x[1], x[2, 3], x[3, 4], x[4] = -math.inf, -math.inf, math.nan, math.inf, torch.finfo(torch.float32).min
    op = getattr(kl.ops, name)
    assert_agrees(op, op["cpp"](x), x)


@pytest.mark.parametrize("name", ops_with("cpp"))
def test_cpp_gives_the_same_result_with_any_number_of_threads(name):
    x = torch.randn(700, 900)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(getattr(kl.ops, name)["cpp"](x))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("name", ops_with("cpp"))
def test_an_unknown_dtype_is_refused_by_name(name):
    with pytest.raises(TypeError, match=r"torch\.int32"):
        getattr(kl.ops, name)["cpp"](torch.zeros(4, dtype=torch.int32))
