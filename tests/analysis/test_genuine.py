"""Traces of an H200, whose answers are known from the programs that made them."""

import pytest

from kernellab.analysis.summary import analyse
from kernellab.reporting.profiles.summary import lines
from kernellab.traces import kineto
from support.klab import HERE
from support.traced import named

SAMPLES = HERE / "samples"


@pytest.fixture(scope="module")
def training():
    return analyse(kineto.read(SAMPLES / "training_h200.json.gz"))


def test_a_real_trainings_wait_is_found_in_the_users_function(training):
    (point,) = training["sync_points"]
    assert (point["file"], point["function"], point["call"], point["count"]) == ("mlp_trace.py", "step", "item", 3)
    assert training["summary"]["steps"] == 3
    assert training["summary"]["devices"] == ["NVIDIA H200"]


def test_a_real_trainings_kernels_all_find_their_operator_module_and_range(training):
    assert not any("no call that started" in note for note in training["notes"])
    on_gpu = sum(kernel["gpu_us"] for kernel in training["kernels"])
    assert sum(one["self_gpu_us"] for one in training["operators"]) == pytest.approx(on_gpu, rel=0.001)
    step = training["ranges"][0]
    assert (step["name"], step["gpu_us"]) == ("step", pytest.approx(on_gpu / 3, rel=0.001))
    model, *layers = training["modules"]
    assert (model["name"], len(layers)) == ("MLP_0", 8)
    assert all(0 < layer["backward_gpu_us"] < layer["total_gpu_us"] < model["total_gpu_us"] for layer in layers)
    backward = named(training["ranges"], "backward")
    # The mean's own backward is of no module.
    assert model["backward_gpu_us"] == pytest.approx(3 * backward["gpu_us"], rel=0.05)


def test_a_real_replay_takes_as_long_as_the_steps_did(training):
    summary = training["summary"]
    assert summary["replayed_profiled_us"] == pytest.approx(summary["step_us"], rel=0.02)


@pytest.fixture(scope="module")
def tiny_batches():
    return analyse(kineto.read(SAMPLES / "slowed_tiny_batch_h200.json.gz"))


def test_the_model_on_its_way_to_the_gpu_is_no_part_of_the_steps(tiny_batches):
    assert tiny_batches["summary"]["tables_of"] == "steps"
    assert not any("Memcpy" in kernel["name"] for kernel in tiny_batches["kernels"])
    assert "aten::copy_" not in {one["name"] for one in tiny_batches["operators"]}
    assert "cudaMemcpyAsync" not in {one["name"] for one in tiny_batches["calls"]}
    assert sum(kernel["share"] for kernel in tiny_batches["kernels"]) == pytest.approx(1, abs=0.01)
    assert named(tiny_batches["operators"], "aten::addmm")["count"] == 6 * 8
    assert any(line.startswith("Most GPU time: aten::addmm, 18 %") for line in lines(tiny_batches))
    assert any(note.startswith("Tables are of the steps; 58% of the GPU's time") for note in tiny_batches["notes"])


def test_work_asked_for_is_the_kernels_own_time(tiny_batches):
    found = tiny_batches["findings"][0]
    # 3489.86 µs of kernels in six steps; with the pauses between them a step still takes longer than that.
    assert found["evidence"]["gpu_us"] == pytest.approx(3489.86 / 6, rel=0.005)
    assert "to ask for 582 µs of GPU work" in found["title"]
    assert found["step_without_us"] > 700


@pytest.fixture(scope="module")
def products():
    return analyse(kineto.read(SAMPLES / "matmuls_h200.json.gz"))


def test_loading_a_kernel_for_the_first_time_is_not_launch_bound(products):
    (found,) = products["findings"]
    assert (found["kind"], found["evidence"]["operator"]) == ("setup", "aten::pow")
    # Of `aten::pow`, 43.08 ms in its first call against some 0.06 ms, and of `aten::normal_`, 2.87 ms against 0.04 ms.
    assert found["evidence"]["setup_us"] == pytest.approx(43_080 + 2_870, rel=0.01)
    assert lines(products)[0].startswith("First-call set-up: 45.85 ms go to first calls, most of it to aten::pow.")
    assert "Warm up before recording" in lines(products)[1]


def test_what_operators_really_became(products):
    (kernel,) = named(products["operators"], "aten::square")["kernels"]
    assert kernel["through"] == "aten::pow"
    assert "pow_tensor_scalar_kernel" in kernel["name"]
    shapes = named(products["operators"], "aten::mm")["shapes"]
    assert [one["shapes"][0][0] for one in shapes] == [8192, 2048, 1024, 128]
    assert len({next(iter(one["kernels"])) for one in shapes}) == 4


def test_what_operators_became_is_told_by_shape_with_the_library_of_each_kernel(training):
    told = lines(analyse(kineto.read(SAMPLES / "matmuls_h200.json.gz")), rows=12)
    became = told[told.index("Kernels of the operators") + 2 :][:12]
    products = [line.split("  ") for line in became if line.startswith("aten::matmul → aten::mm")]
    assert [row[-1].strip() for row in products] == ["21.44 ms", "343.4 µs", "56.64 µs", "4.768 µs"]
    libraries = [next(word.strip() for word in row if word.strip() in ("cuBLAS", "CUTLASS")) for row in products]
    assert libraries == ["cuBLAS", "CUTLASS", "cuBLAS", "cuBLAS"]
    sizes = (8192, 2048, 1024, 128)
    assert all(f"{size}×{size}, {size}×{size}" in line for line, size in zip(became, sizes, strict=False))
    assert any(line.startswith("aten::square → aten::pow") and "elementwise" in line for line in became)
    step = lines(training)
    (linear,) = [line for line in step if line.startswith("aten::linear → aten::addmm")]
    assert "Memset" not in linear  # the kernel that takes most of its time
