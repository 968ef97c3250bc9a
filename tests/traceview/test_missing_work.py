"""If the rows of the GPU are missing, its time is not reported."""

import gzip

import pytest

from kernellab.analysis.document import analyse
from kernellab.reporting.profiles.summary import lines
from kernellab.traces import kineto
from kernellab.traces.trace import Kind
from support.klab import HERE
from support.traced import GEMM, Program

SAMPLE = HERE / "samples" / "training_h200.json.gz"


@pytest.mark.parametrize(
    ("kept", "reason"),
    [(812_000, "256 of 270 launches have no row"), (400_000, "the file ends before them")],
    ids=["after the first kernels", "before the first launch"],
)
def test_for_a_trace_truncated_before_the_gpus_rows_only_that_is_reported(tmp_path, kept, reason):
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(SAMPLE.read_bytes())[:kept])
    document = analyse(kineto.read(path))
    (finding,) = document["findings"]
    assert (finding["kind"], finding["gain_us"]) == ("missing", 0)
    printed = lines(document)
    assert printed[0].startswith("The GPU's rows are missing")
    assert reason in printed[0]
    assert "3 steps of 5.901 ms; the rows of the GPU NVIDIA H200 are missing from the trace." in printed
    assert not any("no GPU was used" in line or "Most GPU time" in line or "busy" in line for line in printed)
    assert document["summary"]["replayed_step_us"] is None
    assert document["idle"]["busy_fraction"] is None
    assert document["idle"]["gaps"] == []


def test_a_program_that_does_not_use_its_gpu_is_reported_as_such():
    run = Program()
    run.builder.metadata["deviceProperties"] = [{"name": "NVIDIA H200"}]
    with run.operator("aten::mm"):
        pass
    document = analyse(run.trace())
    assert document["findings"][0]["title"].startswith("CPU only")
    assert any("no activity of the GPU NVIDIA H200 was recorded" in line for line in lines(document))


def _launch(run: Program, times: int) -> None:
    """Launches without a row on the GPU."""
    for _ in range(times):
        run.link += 1
        lane = run.builder.lane(run.thread)
        run.builder.add(Kind.CALL, run.builder.name("cudaLaunchKernel"), lane, run.now, 5_000, link=run.link)
        run.host(5)


def test_a_few_launches_without_a_row_are_a_note():
    run = Program()
    for _ in range(30):
        run.kernel(GEMM, 20)
    _launch(run, 2)
    document = analyse(run.trace())
    assert document["findings"][0]["kind"] != "missing"
    assert "2 of 32 launches have no row on the GPU." in document["notes"]


def test_launches_captured_into_a_graph_are_not_missing():
    run = Program()
    run.wait("cudaStreamBeginCapture")
    _launch(run, 20)
    run.wait("cudaStreamEndCapture")
    for _ in range(10):
        run.kernel(GEMM, 20)
    document = analyse(run.trace())
    assert document["findings"][0]["kind"] != "missing"
    assert not any("launches have no row" in note for note in document["notes"])
