"""Traces that make no sense, or mean harm, are analysed all the same."""

import json
import random
import sys
import time

import pytest

from kernellab.analysis.comparison import compare
from kernellab.analysis.document import analyse
from kernellab.reporting.profiles.summary import lines
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane
from support.traced import AUTOGRAD, MAIN, MUL, Program


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_make_no_sense_together_are_analysed_all_the_same(seed):
    draw = random.Random(seed)
    builder = TraceBuilder("kineto")
    lanes = [builder.lane(lane) for lane in (MAIN, AUTOGRAD, Lane("GPU 0", "s", 0, 7), Lane("GPU 1", "s", 1, 7))]
    names = ["step_1", "step_2", "aten::mm", "aten::item", "cudaLaunchKernel", "cudaStreamSynchronize", MUL, "",
             "own.py(3): f", "<built-in function print>", "autograd::engine::evaluate_function: X"]  # fmt: skip
    details = [{}, {"shapes": [[4, 4], []], "types": ["float", "Scalar"]}, {"shapes": "x", "types": 3},
               {"shapes": [None, 5, [[2], [3]], [-4]], "types": ["float"] * 4}, {"bytes": 77}]  # fmt: skip
    for _ in range(draw.choice([1, 30, 200])):
        detail = draw.randrange(len(details))
        builder.add(
            draw.choice(list(Kind)), builder.name(draw.choice(names)), draw.choice(lanes),
            draw.choice([-50, draw.randrange(1000), draw.randrange(10**6)]), draw.choice([-7, 0, 500, 10**6, 10**12]),
            link=draw.randrange(6), sequence=draw.randrange(4), detail=builder.detail(str(detail), details[detail]),
        )  # fmt: skip
        builder.add_allocation(draw.randrange(10**6), draw.choice([100, -100]), draw.randrange(500), 0, draw.randrange(3), 0)
    trace = builder.build()
    document = analyse(trace, plain_step_us=draw.choice([None, 1.0, 1e5]))
    json.dumps(document, allow_nan=False)
    assert lines(document)
    step_us = compare(trace, trace)["step_us"]
    assert step_us["ratio"] == (1 if document["summary"]["step_us"] else None)
    assert 0 <= (document["idle"]["busy_fraction"] or 0) <= 1


@pytest.mark.parametrize("file", ["x" * 3000 + ".py", "nul\0.py", "antigravity.a.b/x.py", "../" * 50 + "x.py", "/.py"])
def test_files_no_one_can_have_are_no_ones_and_nothing_is_imported_to_find_out(file, tmp_path):
    run = Program(script=tmp_path / "own.py")
    with run.python(f"{file}(3): f"), run.python("<built-in method item of Tensor object at 0x1>"):
        run.item()
    assert len(analyse(run.trace())["sync_points"]) == 1
    assert "antigravity" not in sys.modules


def test_a_name_of_megabytes_costs_no_time():
    run = Program()
    with run.operator("sm1_" * 2_000_000):
        run.kernel("sm1_" * 2_000_000, 5)
    began = time.perf_counter()
    told = lines(analyse(run.trace()))
    assert time.perf_counter() - began < 2
    assert max(map(len, told)) < 500
