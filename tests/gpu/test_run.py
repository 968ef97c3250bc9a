"""`klab` on a real GPU: faults, counts, timers."""

import pytest
import torch

import kernellab as kl
from support.klab import OPFILES

pytestmark = pytest.mark.gpu


def test_gpu_faults_affect_no_other_implementation(klab):
    impls = "manual,torch,good,out-of-bounds,tebibyte,zeros"  # without `compile`, which takes seconds in each worker
    seen = klab("run", OPFILES / "gpu_bad.py", "--impl", impls, "--seconds", "0.3", "--json")
    assert seen.code == 1, seen.err
    results = {r["impl"]: r["derived"] for r in seen.record["results"]}
    assert {k: v["status"] for k, v in results.items()} == {
        "manual": "ok",
        "torch": "ok",
        "good": "ok",
        "out-of-bounds": "crashed",
        "tebibyte": "oom",
        "zeros": "wrong",
    }
    assert "illegal memory access" in results["out-of-bounds"]["reason"]
    for name in ("torch", "good"):
        assert results[name]["time"]["timer"] == "events"
        assert results[name]["time"]["rounds"] >= 10


def test_implementations_that_fail_on_the_cpu_fail_on_the_gpu(klab):
    impls = "good-a,good-b,manual,segfault,exits,hangs,raises"
    seen = klab("run", OPFILES / "good_and_bad.py", "--impl", impls, "--timeout", "10", "--seconds", "0.3", "--json")
    assert seen.code == 1, seen.err
    statuses = {r["impl"]: r["derived"]["status"] for r in seen.record["results"]}
    assert [statuses[n] for n in ("good-a", "good-b", "manual")] == ["ok"] * 3
    assert [statuses[n] for n in ("segfault", "exits", "hangs", "raises")] == ["crashed", "crashed", "timeout", "error"]


def test_the_manual_chain_launches_nine_kernels_and_the_fused_implementations_one(klab):
    seen = klab("run", "gelu", "--shape", "2048x2048", "--dtype", "float32", "--quick", "--json")
    assert seen.code == 0, seen.out + seen.err
    counts = {r["impl"]: len(r["kernels"]) for r in seen.record["results"] if r["kernels"] is not None}
    assert counts == {"manual": 9, "torch": 1, "compile": 1, "triton": 1, "cuda": 1}
    assert seen.result("cpp")["derived"]["status"] == "skipped"


@pytest.mark.clocked
def test_the_benchmark_helper_has_two_timers():
    # A call long enough that the launch overhead, of which the host timer includes more, does not matter.
    x = torch.randn(16384, 16384, device="cuda")
    host, events = (kl.benchmark("square", lambda: x * x, 3, 10, timer=t) for t in ("host", "events"))
    assert float(events) == pytest.approx(float(host), rel=0.05)
    assert "cache-warm" in repr(host)


def test_cuda_load_builds_an_authors_own_file(tmp_path):
    if kl.cuda.nvcc_missing():
        pytest.skip("no nvcc")
    source = tmp_path / "twice.cu"
    source.write_text(
        "#include <pybind11/pybind11.h>\n"  # torch's own header would take nvcc a minute
        "__global__ void twice_kernel(const float* x, float* y, long n) {\n"
        "  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = 2 * x[i];\n"
        "}\n"
        "void twice(size_t x, size_t y, long n) {\n"
        "  twice_kernel<<<(n + 255) / 256, 256>>>((const float*)x, (float*)y, n);\n"
        "}\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }\n'
    )
    module = kl.cuda.load(source, build_directory=tmp_path / "build")
    x = torch.randn(1000, device="cuda")
    y = torch.empty_like(x)
    module.twice(x.data_ptr(), y.data_ptr(), x.numel())
    assert torch.equal(y, 2 * x)
    assert (tmp_path / "build" / "build.ninja").exists()


def test_studies_of_launch_parameters_are_timed_and_the_exhibit_is_not(klab):
    seen = klab("bench", "square", "--impl", "triton*", "--shape", "512x1536,512x5000", "--seconds", "0.1", "--json")
    assert seen.code == 1, seen.err
    for result in seen.record["results"]:
        exhibit = result["impl"] == "triton-1024-once"
        assert result["derived"]["status"] == ("wrong" if exhibit else "ok"), result["derived"]["reason"]
        assert (result["derived"]["time"] is None) is exhibit


def test_an_output_that_was_never_written_is_wrong_whatever_its_memory_held():
    from kernellab.checking.declared_case import CaseChecker
    from kernellab.declaration.case import Case

    @kl.op
    def double(x):
        return x + x

    double.impl("good")(lambda x: x * 2)
    double.impl("lazy")(torch.empty_like)
    for elements in (10_000, 1 << 20, 1 << 26):
        case = Case({"...": (elements,)}, "float32", device="cuda")
        checker = CaseChecker(double, case, seed=0, device=torch.device("cuda", 0))
        assert [checker.check(double[n]).status for n in ("good", "lazy") * 3] == ["ok", "wrong"] * 3
