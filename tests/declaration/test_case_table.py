"""`kl.cases`."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(shape=[(4, -4)]), "shape: -4 is not a size"),
        (dict(shape=[(4, 2.5)]), "shape: 2.5 is not a size"),
        (dict(shape=64), "shape=64: write a list of shapes"),
        (dict(shape=[4, 4]), "shape=4: write a list of shapes"),
        (dict(M=["four"]), "M: 'four' is not a size"),
        (dict(shape=[(4, 4)], cpu=dict(shape=[(4, None)])), "shape: None is not a size"),
        (dict(shape=[(4, 4)], dtype=[torch.float32]), "no dtype torch.float32: did you mean float32"),
        (dict(cpu=[(4, 4)]), r"cpu=.*: write cpu=dict\(shape=…\)"),
    ],
)
def test_a_value_that_is_not_a_case_is_refused(values, message):
    with pytest.raises(UserError, match=message):
        kl.cases(**values)


def test_a_shape_for_a_device_replaces_named_dims():
    table = kl.cases(M=[8], N=[1, 2], dtype=["fp32"], cuda=dict(shape=[(3, 4)]), cpu=dict(N=[5]))
    assert (table.on("cuda").shapes, table.on("cuda").dims, table.on("cuda").dtypes) == ([(3, 4)], {}, ["float32"])
    assert (table.on("cpu").shapes, table.on("cpu").dims) == (None, {"M": [8], "N": [5]})
