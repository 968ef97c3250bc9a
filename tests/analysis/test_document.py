"""Every trace gets a complete document, however strange it is."""

import json
import random
import time

import pytest

from kernellab.analysis.comparison import compare
from kernellab.analysis.document import ProfileDocument, SummaryDocument, analyse
from kernellab.analysis.idle import IdleDocument
from kernellab.analysis.tables import ModuleDocument, OperatorDocument
from kernellab.analysis.waits import WaitDocument
from kernellab.reporting.profiles.summary import lines
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane
from support.traced import AUTOGRAD, MAIN, MUL, Program, Training


def test_the_document_has_the_parts_it_declares(tmp_path):
    document = analyse(Training(tmp_path, "print").trace)
    assert document.keys() == ProfileDocument.__annotations__.keys()
    assert document["summary"].keys() == SummaryDocument.__annotations__.keys()
    assert document["idle"].keys() == IdleDocument.__annotations__.keys()
    assert document["operators"][0].keys() == OperatorDocument.__annotations__.keys()
    assert document["modules"][0].keys() == ModuleDocument.__annotations__.keys()
    assert document["sync_points"][0].keys() == WaitDocument.__annotations__.keys()


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_contradict_each_other_are_analysed(seed):
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
        builder.add_allocation(
            draw.randrange(10**6), draw.choice([100, -100]), draw.randrange(500), 0, draw.randrange(3), 0
        )
    trace = builder.build()
    document = analyse(trace, plain_step_us=draw.choice([None, 1.0, 1e5]))
    json.dumps(document, allow_nan=False)
    assert lines(document)
    step_us = compare(trace, trace)["step_us"]
    assert step_us["ratio"] == (1 if document["summary"]["step_us"] else None)
    assert 0 <= (document["idle"]["busy_fraction"] or 0) <= 1


def test_a_name_of_megabytes_is_analysed_in_bounded_time():
    run = Program()
    with run.operator("sm1_" * 2_000_000):
        run.kernel("sm1_" * 2_000_000, 5)
    began = time.perf_counter()
    printed = lines(analyse(run.trace()))
    assert time.perf_counter() - began < 2
    assert max(map(len, printed)) < 500
