"""The sizes at which an op is tuned."""

import math

import pytest

from kernellab import ops
from kernellab.declaration.case_request import CaseRequest
from kernellab.library.rules import served_ops
from kernellab.tuning.ladder import first_input_size, shapes_to_measure
from support.serving import OPERATORS


@pytest.fixture(scope="module")
def loaded():
    """An op as a worker describes it."""
    import torch

    from kernellab.running.worker.describe import describe

    def load(name, device="cpu"):
        return describe(getattr(ops, name), CaseRequest(), torch.device(device), [])

    return load


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_op_is_measured_at_its_declared_cases_and_at_sizes_that_it_is_defined_for(name, device, loaded):
    op = loaded(name, device)
    shapes = shapes_to_measure(op, device)
    assert len({tuple(shape) for shape in shapes}) == len(shapes)
    cases = getattr(ops, name).expand(CaseRequest(shapes=shapes, dtypes=["float32"]), device)
    assert len(cases) == len(shapes)
    counts = {first_input_size(op, case.to_json())[1] for case in cases}
    assert max(counts) / min(counts) >= 16
    widths = {first_input_size(op, case.to_json())[0] for case in cases}
    assert (len(widths) >= 3) == op.reduces


def test_the_candidates_are_the_implementations_that_models_can_use(loaded):
    for name, operator in OPERATORS.items():
        apart = {impl["name"] for impl in loaded(name).impls if impl["apart"]}
        assert apart == {n for n in operator.choice.implementations if not getattr(ops, name)[n].study}


def test_the_size_is_that_of_the_first_input(loaded):
    op = loaded("rope")
    dims = {"B": 2, "H": 8, "S": 16, "D": 64, "G": 2}
    case = {"dims": dims, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
    assert first_input_size(op, case) == (64, math.prod((2, 8, 16, 64)))


def test_the_ops_that_can_be_tuned_are_those_of_kernellab_functional():
    assert served_ops() == sorted(OPERATORS)
