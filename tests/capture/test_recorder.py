"""Launches captured without a GPU: every manner of launching is seen, for the architecture asked for."""

import importlib.util
import json
import re
import subprocess
import sys

import pytest
import torch
import triton

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build import cuda
from kernellab.capture.recorder import capture, capturing
from kernellab.declaration.targets import load, resolve
from kernellab.machinecode.cubin import read_cubin
from support.klab import OPFILES, klab_env


@pytest.fixture(scope="module")
def double():
    return load(resolve(str(OPFILES / "captured.py")))["double"]


def meta(*shape, **more):
    return torch.empty(*shape, device="meta", **more)


@pytest.mark.bare
@pytest.mark.parametrize("impl", ["triton", "cuda"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_shipped_kernels_compile_for_any_architecture(impl, arch):
    (launch,) = capture(kl.ops.softmax[impl], [meta(512, 1024)], arch=arch)
    assert read_cubin(launch.code["cubin"]).arch.rstrip("af") == launch.arch == arch
    assert f".target {arch}" in launch.code["ptx"]
    assert launch.blocks * launch.threads >= 512 * 8  # 128 elements per thread at most


def test_a_launch_knows_its_grid_its_arguments_and_its_source(double):
    (launch,) = capture(double["triton"], [meta(64, 256)], arch="sm_90")
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes) == ("twice", (64, 1, 1), (128, 1, 1), 0)
    assert launch.config["constexprs"] == {"BLOCK": 256}
    x, _, n = launch.parameters
    assert (x.name, x.type, x.special) == ("x_ptr", "*fp32", "divisible by 16")
    assert x.value == "pointer to float32, 64×256, aligned to 16"
    assert (n.type, n.value) == ("i32", "16384")
    assert [source.name for source in launch.sources] == ["twice", "add"]  # and what it calls
    lines = (OPFILES / "captured.py").read_text().splitlines()
    assert launch.sources[0].text.startswith(lines[launch.sources[0].first_line - 1])
    assert {"ttir", "ttgir", "llir", "ptx", "cubin"} == set(launch.code)


def test_what_the_compiler_may_assume_follows_the_tensor(double):
    x = meta(64 * 256 + 1)[1:]  # a view that begins 4 bytes into its memory
    (launch,) = capture(double["triton"], [x], arch="sm_90")
    assert launch.parameters[0].special == ""
    assert launch.parameters[0].value.endswith("aligned to 4")
    (one,) = capture(double["triton"], [meta(1)], arch="sm_90")
    assert one.parameters[2].special == "equal to 1: compiled in as a constant"


def test_an_architecture_never_gets_the_code_of_another(double):
    """Triton caches by device, and so may authors: the device's number is the architecture's."""
    x = meta(4096, 65536)
    seen = {arch: capture(kl.ops.softmax["cuda"], [x], arch=arch)[0] for arch in ("sm_80", "sm_90", "sm_80")}
    assert seen["sm_80"].cluster == (1, 1, 1)
    assert seen["sm_90"].cluster != (1, 1, 1)  # only Hopper and later have clusters
    assert seen["sm_90"].grid[0] == 4096 * seen["sm_90"].cluster[0]  # blocks, not clusters


def test_gradients_of_an_autograd_function_are_seen(double):
    x = meta(64, 256, requires_grad=True)
    with capturing("sm_90") as launches:
        y = double["triton-autograd"](x)
        torch.autograd.grad(y, x, torch.empty_like(y))
    assert [launch.config["constexprs"]["BLOCK"] for launch in launches] == [256, 512]


def test_every_configuration_of_an_autotuned_kernel_is_there(double):
    """None has won; one that cannot be compiled says so, as a tuner would pass over it."""
    for arch in ("sm_80", "sm_90"):
        launches = capture(double["triton-tuned"], [meta(64, 256)], arch=arch)
        assert [launch.tuned for launch in launches] == [(0, 3), (1, 3), (2, 3)]
        assert [launch.block[0] for launch in launches] == [64, 128, 128]
        assert [bool(launch.refusal) for launch in launches] == [False, False, True]
        assert launches[2].refusal == "does not compile: CompileTimeAssertionFailure: too wide"
        assert not launches[2].code


def test_a_configuration_that_fails_says_how(double):
    """Too large for the GPU, or not compiled; where none is left the kernel fails as one that is not tuned."""
    from triton.runtime.errors import PTXASError

    ways = double["triton"].fn.__globals__
    x = meta(128, 128)
    sizes = triton.autotune([triton.Config({"N": n}, num_warps=8) for n in (64, 128)], key=[])(ways["staged"])
    fits, large = capture(sizes[(1,)], [x, x], arch="sm_86")
    assert not fits.refusal
    assert large.refusal.startswith("does not fit: out of resource: shared memory, Required: 131072")
    written = triton.autotune([triton.Config({"BLOCK": n}) for n in (128, 256)], key=[])(ways["misspelled"])
    good, bad = capture(written[(1,)], [x, x], {"LARGEST": 128}, arch="sm_86")
    assert not good.refusal
    assert re.match(r"does not compile: PTXASError: ptxas, line \d+; error +: Not a name .* 'frobnicate'", bad.refusal)
    with pytest.raises(PTXASError):
        capture(written[(1,)], [x, x], {"LARGEST": 64}, arch="sm_86")


def test_code_names_the_file_it_was_captured_from(tmp_path):
    """Though a copy was compiled before."""
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(
            "import triton\n\n\n@triton.jit\ndef nothing(x_ptr, n):\n    x_ptr + n\n    return\n"
        )
        spec = importlib.util.spec_from_file_location(name[:-3], tmp_path / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        (launch,) = capture(module.nothing[(1,)], [meta(4), 2], arch="sm_90")
        assert re.findall(r'\.file\s+1 ".*?(\w+\.py)"', launch.code["ptx"]) == [name]


def test_capturing_leaves_no_choice_behind(double):
    # The op's own: importing the file again would register its operators anew, and leave the first ones dangling.
    tuned = double["triton-tuned"].fn.__globals__["tuned"]
    capture(double["triton-tuned"], [meta(64, 256)], arch="sm_90")
    assert not tuned.cache
    assert cuda.interceptor is None
    assert not torch.cuda.is_available() or torch.cuda.get_device_capability() is not None
    assert meta(1).device.type == "meta"


def test_tma_descriptors_are_seen(double):
    (launch,) = capture(double["triton-tma"], [meta(64, 256)], arch="sm_90")
    assert launch.grid == (4, 4, 1)
    assert launch.parameters[0].value.startswith("descriptor of a pointer to float32, 64×256")
    assert "cp.async.bulk.tensor" in launch.code["ptx"]


@pytest.mark.parametrize("impl", ["triton-custom", "triton-op"])
def test_custom_operators_run_what_they_would_on_a_gpu(double, impl):
    """On meta tensors they run their fake function, which launches nothing."""
    (launch,) = capture(double[impl], [meta(64, 256)], arch="sm_90")
    assert launch.kernel == "twice"


def test_gradients_registered_for_a_custom_operator_are_seen(double):
    x = meta(64, 256, requires_grad=True)
    with capturing("sm_90") as launches:
        y = double["triton-custom"](x)
        torch.autograd.grad(y, x, torch.empty_like(y))
    assert sum(launch.times for launch in launches) == 2


def test_launches_alike_are_counted(double):
    (launch,) = capture(double["triton-persistent"], [meta(64, 256)], arch="sm_90")
    assert (launch.times, launch.grid, launch.gpu) == (3, (132, 1, 1), "H100 SXM5 80GB")


def test_a_kernel_that_exceeds_the_gpu_is_refused_as_there(double):
    from triton.runtime.errors import OutOfResources

    with pytest.raises(OutOfResources, match="shared memory"):
        capture(double["triton-too-much"], [meta(128, 128)], arch="sm_86")
    (launch,) = capture(double["triton-too-much"], [meta(128, 128)], arch="sm_90")
    assert launch.shared_bytes == 2 * 128 * 128 * 4


def test_values_are_not_there_to_be_looked_at(double):
    with pytest.raises(RuntimeError, match="meta tensors"):
        capture(double["triton-looks"], [meta(64, 256)], arch="sm_90")


def test_other_code_for_a_kernel_than_was_asked_for_is_refused(monkeypatch):
    """Should a cache ever hand out another architecture's code, nobody is shown it."""
    right = cuda.Kernel.compile
    monkeypatch.setattr(cuda.Kernel, "compile", lambda kernel, arch: right(kernel, "sm_80"))
    with pytest.raises(UserError, match="asked for sm_90 and came as sm_80"):
        capture(kl.ops.square["cuda"], [meta(64, 256)], arch="sm_90")


def test_an_unknown_architecture_is_a_sentence():
    with pytest.raises(UserError, match="no architecture 'sm_42'"):
        capture(kl.ops.square["triton"], [meta(64)], arch="sm_42")


GENERATED = """
import json, sys, torch
from pathlib import Path
import kernellab as kl
from kernellab.capture.recorder import capture
from kernellab.capture.op_file import exported
from kernellab.capture.inductor import generated, written
from kernellab.capture.standin_gpu import standin_gpu
from kernellab.declaration.targets import load, resolve

square = kl.ops.square
case = square.case({"dims": {"...": [64], "N": 256}, "dtype": "float32", "options": {}, "layout": "contiguous",
                    "device": "cuda"})
x = torch.empty(64, 256, device="meta")
there = generated(square["compile"].fn, [x], {}, standin_gpu("sm_80"), lambda launch: None)
file = Path(sys.argv[1])
file.write_text(exported(square, case, there, ran=False, interpreted=64 * 256))
large = exported(square, case, there, ran=False, interpreted=64 * 256 - 1)
again = capture(load(resolve(str(file)))["square"]["triton-generated"], [x], arch="sm_80")
here = written(square["compile"].fn, [torch.randn(8, 8)], {})
print(json.dumps({"source": there.source, "cpu": here, "archs": [one.arch for one in there.launches],
                  "ptx": there.launches[0].code["ptx"], "launches": [[one.kernel, one.grid] for one in there.launches],
                  "told": [file.read_text().partition("import")[0], large.partition("import")[0]],
                  "again": [[one.kernel, one.grid] for one in again]}))
"""


def test_what_torch_compile_writes_for_a_gpu_that_is_not_there(tmp_path):
    """Its Triton, compiled; as an op file that launches the same; and the process is as it was: it writes C++ after."""
    command = [sys.executable, "-c", GENERATED, str(tmp_path / "mine.py")]
    done = subprocess.run(command, env=klab_env(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "@triton.jit" in found["source"]
    assert ["on a GPU alone" in text for text in found["told"]] == [False, True]  # too large for the interpreter
    assert set(found["archs"]) == {"sm_80"}
    assert ".target sm_80" in found["ptx"]
    assert all(kernel.startswith("triton_poi_fused") for kernel, _ in found["launches"])
    assert found["again"] == found["launches"][:1]
    text = (tmp_path / "mine.py").read_text()
    assert "# XBLOCK = " in text
    assert "configurations inductor would time" in text
    assert 'extern "C"' in found["cpu"]
