"""Shapes that depend on values: they are found, and other references are evaluated once."""

import pytest
import torch

from kernellab.running.worker.guards.result_shapes import shapes_depend_on_values


@pytest.mark.parametrize(
    ("reference", "depends", "evaluations"),
    [
        (lambda x: x[x > 0], True, 2),
        (lambda x: torch.nonzero(x > 0), True, 2),
        (lambda x: x * 2, False, 1),
        (lambda x: x[:3].sum(-1), False, 1),
        (lambda x: x[torch.tensor([2, 0])], False, 5),
    ],
)
def test_shapes_depend_on_values(reference, depends, evaluations):
    contents = []

    def evaluate(content):
        contents.append(content)
        return (reference(torch.randn(64, 8, generator=torch.Generator().manual_seed(content))),)

    assert shapes_depend_on_values(evaluate) == depends
    assert len(contents) == evaluations


def test_two_contents_whose_shapes_agree_by_chance_are_not_enough():
    def evaluate(content):
        x = torch.tensor([1.0, -1.0, -1.0]) if content < 2 else torch.tensor([1.0, 1.0, -1.0])
        return (x[x > 0],)

    assert shapes_depend_on_values(evaluate)
