"""Of several optimizers, one ends the program's steps."""

import numpy as np
import pytest

from kernellab.traceview.view import View
from support.traced import Program


def optimizer_steps(names, shapes=(), *, ending=True, **steps):
    """Optimizers take turns, 100 µs each; `ending`: the recording ends with the last one's step."""
    run = Program()
    if steps:
        run.builder.metadata["kernellab"] = {"steps": [{"phase": "active", "cycle": 1, **steps}]}
    with run.python("own.py(1): main"):
        for at, name in enumerate(names):
            with run.operator("aten::addmm", us=90):
                pass
            with run.range(f"Optimizer.step#{name}.step"), run.operator("aten::add_", list(shapes[at : at + 1]), us=10):
                pass
        if not ending:
            run.host(50)
    return View(run.trace()).steps


def test_as_many_steps_are_found_as_the_recorder_counted():
    steps = optimizer_steps(["SGD"] * 4, first=3, last=6)
    assert (steps.count, steps.begin_ns) == (4, 0)
    assert np.diff(steps.begin) == pytest.approx(100_000, rel=0.01)
    assert optimizer_steps(["SGD"], first=0, last=0).marked
    assert optimizer_steps(["SGD"] * 4).count == 3  # without the count, the first is left out: its begin is unknown


def test_one_of_several_optimizers_ends_the_steps():
    by_name = optimizer_steps(["SGD", "Adam"] * 4, first=5, last=8)
    assert by_name.count == 4
    assert by_name.cpu_end_ns == pytest.approx(800_000, rel=0.01)
    alike = optimizer_steps(["Adam"] * 8, first=5, last=8)
    assert alike.count == 4
    assert np.diff(alike.begin) == pytest.approx(200_000, rel=0.01)
    uneven = optimizer_steps(["Adam", *["Adam", "SGD"] * 3], first=5, last=7)
    assert uneven.count == 3
    assert uneven.cpu_end_ns == pytest.approx(700_000, rel=0.01)
    from_the_start = optimizer_steps(["Adam"] * 8, ending=False, first=0, last=3)
    assert from_the_start.count == 4
    assert from_the_start.cpu_end_ns == pytest.approx(700_000, rel=0.01)


def test_without_a_count_optimizers_are_distinguished_by_name_or_shapes():
    assert optimizer_steps(["SGD", "Adam"] * 4).count == 3
    assert optimizer_steps(["Adam"] * 8, [8, 1] * 4).count == 3
    assert optimizer_steps(["Adam"] * 8, [8] * 8).count == 7


def test_time_before_the_first_step_of_a_program_is_not_a_step():
    run = Program()
    run.builder.metadata["kernellab"] = {"steps": [{"phase": "active", "cycle": 1, "first": 0, "last": 2}]}
    with run.python("own.py(1): main"):
        run.host(5000)
        for _ in range(3):
            run.host(100)
            with run.range("Optimizer.step#SGD.step"):
                run.host(10)
    steps = View(run.trace()).steps
    assert steps.count == 3
    assert steps.span_ns == pytest.approx(330_000, rel=0.01)


@pytest.mark.parametrize("value", [None, [], "x", [1], [{"phase": "active", "first": "0", "last": None}]])
def test_invalid_counts_in_a_file_are_ignored(value):
    run = Program()
    run.builder.metadata["kernellab"] = {"steps": value}
    with run.range("Optimizer.step#SGD.step"):
        pass
    assert not View(run.trace()).steps.marked
