"""The calls of one implementation over the input sets."""

import pytest
import torch

from support.timing import timed_impl, two_content_sets


@pytest.mark.parametrize("numbers", [[0, 1, 2], [1, 1, 1]])
def test_an_implementation_that_overwrites_its_inputs_gets_copies_when_calls_are_prepared(numbers):
    sets, prepared = two_content_sets(), []

    def prepare(inputs):
        prepared.append(inputs)
        return lambda: inputs["x"].mul_(2)

    contents = [sets[number]["x"].clone() for number in numbers]
    results = [call() for call in timed_impl(prepare, sets, copies_inputs=True).prepare_calls(numbers)]
    assert len({inputs["x"].data_ptr() for inputs in prepared}) == 3
    assert all(torch.equal(result, 2 * content) for result, content in zip(results, contents, strict=True))
    assert bool(sets.all_intact())
