"""Every line that waits for the GPU is listed with the time it waits."""

from kernellab.analysis.document import analyse
from kernellab.traces import kineto
from support.klab import HERE
from support.traced import GEMM, Program, Training


def test_each_line_that_waits_is_listed_once_with_the_idle_time_that_followed(tmp_path):
    training = Training(tmp_path, "print", gpu_us=20, steps=6)
    (point,) = analyse(training.trace)["sync_points"]
    assert (point["file"], point["line"], point["call"], point["count"]) == ("train.py", 18, "print", 6)
    assert point["cuda"] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]
    assert point["pageable_copies"] == 12
    assert point["wait_us"] > 0
    assert 5 * 10 < point["idle_us"] < 6 * 60


def test_waits_without_python_are_named_by_operator():
    run = Program()
    for step in range(3):
        with run.range(f"step_{step}"):
            with run.operator("aten::mm"):
                run.kernel(GEMM, 50)
            run.item()
    document = analyse(run.trace())
    (point,) = document["sync_points"]
    assert (point["file"], point["call"]) == (None, "aten::item")
    assert document["findings"][0]["title"].startswith("aten::item makes the CPU wait")


def test_waits_recorded_by_nsight_systems_are_named_by_the_range_around_them():
    run = Program("nsys")
    for step in range(3):
        with run.range(f"step_{step}"):
            run.kernel(GEMM, 50)
            with run.range("loss"):
                run.wait()
            run.wait("cudaDeviceSynchronize")
    calls = {point["call"] for point in analyse(run.trace())["sync_points"]}
    assert calls == {"cudaStreamSynchronize in loss", "cudaDeviceSynchronize in a step"}


def test_the_wait_of_the_profiler_itself_is_not_listed():
    run = Program()
    with run.python("own.py(1): <module>"):
        with run.operator("aten::mm"):
            run.kernel(GEMM, 500)
        with run.python("torch/profiler/profiler.py(900): stop"):
            run.wait("cudaDeviceSynchronize")
    assert analyse(run.trace())["sync_points"] == []


def test_the_wait_of_a_training_on_an_h200_is_found_in_the_users_function():
    training = analyse(kineto.read(HERE / "samples" / "training_h200.json.gz"))
    (point,) = training["sync_points"]
    assert (point["file"], point["function"], point["call"], point["count"]) == ("mlp_trace.py", "step", "item", 3)
    assert training["summary"]["steps"] == 3
    assert training["summary"]["devices"] == ["NVIDIA H200"]
