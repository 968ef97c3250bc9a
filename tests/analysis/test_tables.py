"""Time is attributed to operators, kernels, modules and CUDA calls."""

import pytest

from kernellab.analysis.document import analyse
from kernellab.traces import kineto
from support.klab import HERE
from support.traced import GEMM, LAYERS, MUL, Program, Training, named


def test_operators_own_the_kernels_they_launched_directly_and_through_others():
    run = Program()
    with run.operator("aten::square", [64, 64]), run.operator("aten::pow", [64, 64], []):
        run.kernel(MUL, 30)
    with run.operator("aten::pow", [64, 64], []):
        run.kernel(MUL, 12)
    document = analyse(run.trace())
    square, power = (named(document["operators"], name) for name in ("aten::square", "aten::pow"))
    assert (square["self_gpu_us"], square["total_gpu_us"]) == (0, 30)
    assert (power["self_gpu_us"], power["total_gpu_us"], power["count"]) == (42, 42, 2)
    assert [(k["name"], k["through"], k["count"]) for k in square["kernels"]] == [(MUL, "aten::pow", 1)]
    (kernel,) = document["kernels"]
    assert (kernel["count"], kernel["gpu_us"], kernel["share"], kernel["family"]) == (2, 42, 1, "elementwise")
    assert kernel["operators"] == [{"name": "aten::pow", "count": 2, "gpu_us": 42}]


def test_an_operator_inside_one_of_its_own_name_is_counted_once():
    run = Program()
    with run.operator("aten::mean", us=10), run.operator("aten::mean", us=20):
        run.kernel(MUL, 30)
    mean = named(analyse(run.trace())["operators"], "aten::mean")
    assert mean["total_gpu_us"] == 30
    assert mean["total_cpu_us"] == pytest.approx(35, abs=0.1)


def test_products_of_different_sizes_show_different_kernels():
    run = Program()
    for size, kernel in ((128, "gemv2T"), (1024, GEMM), (1024, GEMM)):
        with run.operator("aten::mm", [size, size], [size, size]):
            run.kernel(kernel, size / 10)
    shapes = named(analyse(run.trace())["operators"], "aten::mm")["shapes"]
    assert [(s["shapes"][0], s["count"], s["kernels"]) for s in shapes] == [
        ([1024, 1024], 2, {GEMM: 2}),
        ([128, 128], 1, {"gemv2T": 1}),
    ]


def test_modules_own_their_backward_on_another_thread(tmp_path):
    training = Training(tmp_path, steps=3, gpu_us=20)
    modules = analyse(training.trace)["modules"]
    assert len(modules) == 1 + LAYERS
    model = modules[0]
    assert model["path"] == ["MLP_0"]
    assert model["total_gpu_us"] == 3 * LAYERS * (20 + 2 * 20 + 3 + 3)
    assert model["self_gpu_us"] == 3 * LAYERS * (3 + 3)
    for module in modules[1:]:
        assert module["path"][0] == "MLP_0"
        assert (module["total_gpu_us"], module["backward_gpu_us"]) == (180, 120)


SAMPLES = HERE / "samples"


@pytest.fixture(scope="module")
def training():
    return analyse(kineto.read(SAMPLES / "training_h200.json.gz"))


def test_in_a_training_on_an_h200_every_kernel_has_operator_module_and_range(training):
    assert not any("launching call was not recorded" in note for note in training["notes"])
    on_gpu = sum(kernel["gpu_us"] for kernel in training["kernels"])
    assert sum(row["self_gpu_us"] for row in training["operators"]) == pytest.approx(on_gpu, rel=0.001)
    step = training["ranges"][0]
    assert (step["name"], step["gpu_us"]) == ("step", pytest.approx(on_gpu / 3, rel=0.001))
    model, *layers = training["modules"]
    assert (model["name"], len(layers)) == ("MLP_0", 8)
    assert all(0 < layer["backward_gpu_us"] < layer["total_gpu_us"] < model["total_gpu_us"] for layer in layers)
    backward = named(training["ranges"], "backward")
    # The backward of the mean belongs to no module.
    assert model["backward_gpu_us"] == pytest.approx(3 * backward["gpu_us"], rel=0.05)


def test_copying_the_model_to_the_gpu_is_not_part_of_the_steps():
    document = analyse(kineto.read(SAMPLES / "slowed_tiny_batch_h200.json.gz"))
    assert document["summary"]["tables_of"] == "steps"
    assert not any("Memcpy" in kernel["name"] for kernel in document["kernels"])
    assert "aten::copy_" not in {row["name"] for row in document["operators"]}
    assert "cudaMemcpyAsync" not in {row["name"] for row in document["calls"]}
    assert sum(kernel["share"] for kernel in document["kernels"]) == pytest.approx(1, abs=0.01)
    assert named(document["operators"], "aten::addmm")["count"] == 6 * 8
    assert any(note.startswith("Tables cover the steps; 58% of the GPU's time") for note in document["notes"])


def test_on_an_h200_operators_list_the_kernels_they_launched():
    operators = analyse(kineto.read(SAMPLES / "matmuls_h200.json.gz"))["operators"]
    (kernel,) = named(operators, "aten::square")["kernels"]
    assert kernel["through"] == "aten::pow"
    assert "pow_tensor_scalar_kernel" in kernel["name"]
    shapes = named(operators, "aten::mm")["shapes"]
    assert [row["shapes"][0][0] for row in shapes] == [8192, 2048, 1024, 128]
    assert len({next(iter(row["kernels"])) for row in shapes}) == 4
