"""On a GPU: what a call does besides the op, and what Triton compiles, tunes and has pinned."""

import json
from pathlib import Path

import pytest
import torch

import kernellab as kl
from kernellab.activity import autotuning as tuning
from kernellab.activity.call import remarks_on
from kernellab.activity.compilation import CompilationLog
from kernellab.base.errors import UserError
from support.activity import call_activity

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

pytestmark = pytest.mark.gpu

N = 1 << 20


@pytest.fixture
def x():
    return torch.ones(N, device="cuda")


def count(call):
    """What the call does after a warm-up."""
    call()
    call()
    torch.cuda.synchronize()
    activity = call_activity(call, torch.device("cuda"))
    json.dumps(activity, allow_nan=False)
    return activity


def remark_names(activity):
    return [sentence.split(":")[0] for sentence in remarks_on(activity)]


# Inside a call -----------------------------------------------------------------------------------------


def test_an_ordinary_call_is_one_kernel_and_one_allocation(x):
    activity = count(lambda: torch.square(x))
    assert activity["device"] == "cuda"
    assert len(activity["kernels"]) == 1
    assert activity["kernels"][0]["us"] > 0
    assert activity["device_us"] == pytest.approx(activity["kernels"][0]["us"])
    assert activity["allocations"]["count"] >= 1
    assert activity["allocations"]["bytes"] >= 4 * N
    for absent in ("random", "raw_allocations", "host_to_device", "device_to_host", "synchronisations"):
        assert activity[absent]["count"] == 0, (absent, activity)
    assert remarks_on(activity) == []


def test_copies_from_and_to_the_host_are_counted(x):
    y = torch.ones(N)
    activity = count(lambda: y.to("cuda") + x)
    assert activity["host_to_device"]["count"] == 1
    assert activity["host_to_device"]["bytes"] == 4 * N
    assert activity["host_to_device"]["share"] > 0.3
    assert "copies to the GPU" in remark_names(activity)
    activity = count(lambda: (x + 1).cpu())
    assert activity["device_to_host"]["count"] == 1
    assert activity["device_to_host"]["bytes"] == 4 * N
    assert "copies to the GPU" not in remark_names(activity)


def test_an_asynchronous_copy_from_pinned_memory_does_not_wait(x):
    y = torch.ones(N).pin_memory()
    activity = count(lambda: y.to("cuda", non_blocking=True))
    assert activity["host_to_device"]["count"] == 1
    assert activity["synchronisations"]["count"] == 0


def test_memory_that_torch_requests_from_the_driver_is_counted():
    def hungry():
        torch.cuda.empty_cache()
        return torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    activity = count(hungry)
    assert activity["raw_allocations"]["count"] >= 1
    assert "allocates past torch's cache (cudaMalloc)" in remark_names(activity)


def test_random_numbers_are_counted(x):
    activity = count(lambda: torch.randn(N, device="cuda"))
    assert activity["random"]["count"] == 1
    assert activity["random"]["ops"] == ["aten::randn"]
    assert activity["random"]["share"] > 0.5
    assert remark_names(activity) == ["draws random numbers"]
    activity = count(lambda: torch.nn.functional.dropout(x) + x)
    assert activity["random"]["count"] == 1
    assert 0 < activity["random"]["share"] < 1


def test_random_numbers_of_a_compiled_function_are_counted(x):
    noisy = torch.compile(lambda x: torch.rand_like(x) * x)
    assert count(lambda: noisy(x))["random"]["count"] >= 1


def test_waits_for_the_gpu_are_counted(x):
    activity = count(lambda: x.sum().item())
    assert activity["synchronisations"]["count"] >= 1
    assert "waits for the GPU" in remark_names(activity)
    assert count(lambda: (x + 1, torch.cuda.synchronize()))["synchronisations"]["count"] >= 1


def test_benchmark_reports_remarks(x):
    y = torch.ones(N)
    assert "inside the timed region: copies to the GPU: 1 copy" in repr(kl.benchmark("copy", lambda: y.to("cuda") + x))
    result = kl.benchmark("square", lambda: torch.square(x), timer="events")
    assert result.remarks == []
    assert len(result.inside["kernels"]) == 1


# Triton ------------------------------------------------------------------------------------------------

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((128, 1), (1024, 4), (2048, 8))]


def declare():
    """A new autotuned kernel: nothing of it is compiled in this process."""

    @triton.jit
    def scale(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)

    return triton.autotune(configs=CONFIGS, key=["n"])(scale)


def launch(kernel, x):
    y = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    torch.cuda.synchronize()
    assert torch.equal(y, x * 3)


@pytest.fixture(autouse=True)
def _unpin_afterwards():
    yield
    tuning.pin([])


def test_compiling_and_tuning_are_logged_once(x):
    log = CompilationLog.installed()
    assert log.unhooked == []
    kernel = declare()
    mark = log.mark()
    launch(kernel, x)
    events = log.since(mark)
    assert [(e.name, e.count, e.nested) for e in events if e.kind == "autotune"] == [("scale", 3, False)]
    compiled = [e for e in events if e.kind == "triton"]
    assert [e.name for e in compiled] == ["scale"] * 3
    assert all(e.nested for e in compiled)  # each while its config was tried
    mark = log.mark()
    launch(kernel, x)
    assert log.since(mark) == []


def test_a_kernel_is_compiled_again_for_another_dtype(x):
    kernel = declare().fn
    log = CompilationLog.installed()

    def run(t):
        y = torch.empty_like(t)
        mark = log.mark()
        kernel[(triton.cdiv(N, 1024),)](t, y, N, BLOCK=1024)
        return [(e.kind, e.name, e.nested) for e in log.since(mark)]

    assert run(x) == [("triton", "scale", False)]
    assert run(x) == []
    assert run(x.half()) == [("triton", "scale", False)]


def test_the_choice_is_recorded_and_pinned(x):
    kernel = declare()
    with tuning.record_choices() as choices:
        launch(kernel, x)
    (choice,) = [c for c in choices if c["by"] == "triton"]
    assert choice["kernel"] == "scale"
    assert choice["file"] == Path(__file__).name
    assert choice["key"] == [N, "torch.float32", "torch.float32"]
    assert choice["config"] in [tuning._scalar_config(config) for config in CONFIGS]
    assert (choice["configs"], choice["tried"]) == (3, 3)
    assert choice["seconds"] > 0

    for config in CONFIGS:  # each pinned config is used, and nothing else is compiled
        pinned = json.loads(json.dumps({**choice, "config": tuning._scalar_config(config)}))
        again = declare()
        tuning.pin([pinned])
        with tuning.record_choices() as used:
            launch(again, x)
        assert [(c["config"], c["tried"]) for c in used if c["by"] == "triton"] == [(pinned["config"], 0)]
        assert again.best_config == config

    with pytest.raises(UserError, match=r"pinned for kernel scale.*BLOCK=333"):
        tuning.pin([{**choice, "config": {**choice["config"], "BLOCK": 333}}])
    with pytest.raises(UserError, match=r"pinned for kernel scale.*BLOCK=333"):
        launch(declare(), x)


def test_the_choice_of_inductor_is_recorded(x):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.sin(x) + 1, dynamic=False)
    log = CompilationLog.installed()
    mark = log.mark()
    with tuning.record_choices() as choices:
        compiled(x)
    assert log.compile_summary(mark)["graphs"] == 1
    (choice,) = [c for c in choices if c["by"] == "inductor"]
    assert choice["kernel"].startswith("triton_poi_fused")
    assert choice["config"]["XBLOCK"] > 0
    assert choice["config"]["num_warps"] > 0
    mark = log.mark()
    compiled(x)
    assert log.since(mark) == []


def test_recording_a_cuda_graph_is_logged(x):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.cos(x) + 1, mode="reduce-overhead", dynamic=False)
    log = CompilationLog.installed()
    mark = log.mark()
    for _ in range(4):
        compiled(x)
    assert any(event.name.startswith("CUDA graph") for event in log.since(mark))
    mark = log.mark()
    compiled(x)
    assert log.since(mark) == []


def test_a_cuda_kernel_is_built_once(x, tmp_path):
    source = tmp_path / "fill.cu"
    source.write_text(
        "template <typename T> __global__ void fill(T* y, long long n) {\n"
        "  long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
        "  if (at < n) y[at] = T(7);\n"
        "}\n"
    )
    fill = kl.cuda.kernel(source, "fill<float>")
    log = CompilationLog.installed()
    mark = log.mark()
    fill(triton.cdiv(N, 256), 256, x, N)
    assert [(event.kind, event.name) for event in log.since(mark)] == [("build", "fill<float>")]
    mark = log.mark()
    fill(triton.cdiv(N, 256), 256, x, N)
    assert log.since(mark) == []
    assert torch.equal(x, torch.full_like(x, 7))
