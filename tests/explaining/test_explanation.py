"""The explanation of one subject."""

import pytest

from kernellab.explaining.explanation import explain
from support.subjects import CHAIN, GOOD_KERNEL, LIMIT_US, kernel, subject


def test_the_prediction_is_that_of_all_kernels_and_names_the_slowest():
    double = kernel(name="double", pointer_bytes=2 * GOOD_KERNEL.pointer_bytes)
    prediction = explain(subject(GOOD_KERNEL, double)).prediction
    assert prediction.time_us == pytest.approx(LIMIT_US)  # they share the op's bytes
    assert (prediction.kernel, prediction.estimate.bottleneck) == ("double", "memory")


def test_loops_that_the_model_counts_once_are_counted():
    assert explain(subject(kernel(once_loops=1), kernel(once_loops=2))).prediction.loops_counted_once == 3


def test_a_chain_of_operators_has_no_prediction_but_findings():
    explanation = explain(subject(operators=CHAIN))
    assert explanation.prediction is None
    assert [finding.name for finding in explanation.findings] == ["unfused-chain"]


def test_profiled_kernels_are_counted_by_their_origin():
    profiled = ["good", "good", "void at::native::vectorized_elementwise_kernel<4>"]
    families = explain(subject(GOOD_KERNEL, profiled_kernels=profiled)).families
    assert [(family.name, number) for family, number in families] == [("hand-written", 2), ("elementwise", 1)]
