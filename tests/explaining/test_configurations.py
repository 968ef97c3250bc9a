"""Which configuration of an autotuned kernel is explained."""

import dataclasses

from kernellab.explaining.configurations import choose_configurations
from support.subjects import kernel, subject


def tuned(*flights):
    """Configurations of one kernel that differ in their bytes in flight."""
    return [kernel(tuned=[index, len(flights)], flight_bytes=flight) for index, flight in enumerate(flights)]


def chosen(*kernels):
    return [k.tuned for k in choose_configurations(subject(*kernels)).kernels]


def test_the_fastest_by_the_model_is_chosen():
    assert chosen(*tuned(1, 16, 2)) == [[1, 3]]


def test_among_equals_the_first_is_chosen():
    assert chosen(*tuned(16, 16)) == [[0, 2]]


def test_a_configuration_that_cannot_launch_is_skipped():
    fast, slow = tuned(16, 1)
    assert chosen(dataclasses.replace(fast, refusal="too many threads"), slow) == [[1, 2]]


def test_each_kernel_has_its_own_choice_and_others_stay():
    other = [dataclasses.replace(k, name="other") for k in tuned(16, 1)]
    plain = kernel(name="plain")
    assert chosen(*tuned(1, 16), *other, plain) == [[1, 2], [0, 2], None]
