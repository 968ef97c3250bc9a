import pytest

from kernellab.gpumodel.time_model import estimate_time
from support.subjects import GOOD_KERNEL, LIMIT_US, first_finding, kernel, subject


def test_instructions_that_take_longer_than_the_bytes_are_a_possible_gain():
    busy = kernel(instructions={**GOOD_KERNEL.instructions, "integer": 900})
    finding = first_finding(subject(busy))
    assert (finding.name, finding.confidence) == ("many-instructions", "possible")
    assert finding.gain == pytest.approx(estimate_time(subject(busy), busy).issue / LIMIT_US)


def test_special_functions_are_named_where_they_are_the_bottleneck():
    finding = first_finding(subject(kernel(instructions={**GOOD_KERNEL.instructions, "special": 64})))
    assert finding.title.startswith("its special functions take")
