"""Gaps in the GPU's work have a cause, and the queue shows how far the CPU runs ahead."""

import pytest

from kernellab.analysis.document import analyse
from support.traced import GEMM, Program, Training


@pytest.mark.parametrize(
    ("slowed", "gpu_us", "cause"),
    [(["loader"], 30, "loader"), (["host"], 30, "host"), (["print"], 30, "wait"), ([], 2, "launch")],
)
def test_the_longest_gap_is_explained_by_what_the_cpu_was_doing(tmp_path, slowed, gpu_us, cause):
    idle = analyse(Training(tmp_path, *slowed, gpu_us=gpu_us).trace)["idle"]
    assert idle["gaps"][0]["cause"] == cause
    assert 0 < idle["busy_fraction"] < 1


def test_a_gap_names_the_line_the_cpu_was_in(tmp_path):
    idle = analyse(Training(tmp_path, "loader").trace)["idle"]
    assert "for data in loader" in idle["gaps"][0]["cpu"]


def test_the_queue_is_deep_if_the_cpu_runs_ahead_and_empty_otherwise(tmp_path):
    ahead, behind = (analyse(Training(tmp_path, gpu_us=us).trace)["idle"] for us in (60, 1))
    assert ahead["ahead_us"] > 1000
    assert max(point["kernels"] for point in ahead["queue"]) > 50
    assert behind["ahead_us"] < 5
    assert max(point["kernels"] for point in behind["queue"]) <= 2
    assert behind["launch_bound"]
    assert not ahead["launch_bound"]


def test_time_on_two_streams_at_once_counts_once_as_busy():
    run = Program()
    with run.operator("aten::mm"):
        run.kernel(GEMM, 100, stream=7)
        run.kernel(GEMM, 100, stream=8)
    document = analyse(run.trace())
    assert document["summary"]["gpu_us"] == 200
    assert 100 < document["summary"]["gpu_busy_us"] < 110
