"""What capturing reports without running anything agrees with what the GPU's driver reports for the same kernels."""

import json
import sys

import pytest
import torch

import kernellab as kl
from kernellab.capture.recorder import capture
from kernellab.machinecode.cubin import read_cubin
from kernellab.ops.elementwise_cuda import kernel as kernel_of

pytestmark = pytest.mark.gpu


def here():
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


@pytest.mark.parametrize("op", ["gelu", "softmax", "square"])
def test_a_captured_cuda_kernel_is_the_one_that_runs(op):
    x = torch.randn(256, 1024, device="cuda")
    (launch,) = capture(getattr(kl.ops, op)["cuda"], [x.to("meta")], arch=here())
    getattr(kl.ops, op)["cuda"](x)
    attributes = kernel_of(op, launch.kernel)._load(0).attributes
    (kernel,) = (k for k in read_cubin(launch.code["cubin"]).kernels if k.name == launch.symbol)
    assert kernel.registers == attributes.num_regs
    assert kernel.shared_bytes == attributes.shared_size_bytes


@pytest.mark.parametrize("op", ["gelu", "softmax", "square"])
def test_a_captured_triton_kernel_is_the_one_that_runs(op):
    from triton import knobs
    from triton.runtime.jit import JITFunction

    loaded = []
    for module in [module for name, module in sys.modules.items() if name.startswith("kernellab.ops")]:
        for kernel in vars(module).values():
            if isinstance(kernel, JITFunction):
                kernel.device_caches.clear()  # other tests may have loaded it
    x = torch.randn(256, 1024, device="cuda")
    (launch,) = capture(getattr(kl.ops, op)["triton"], [x.to("meta")], arch=here())
    before = knobs.runtime.kernel_load_end_hook
    knobs.runtime.kernel_load_end_hook = lambda module, function, name, group, key: loaded.append((name, group))
    try:
        getattr(kl.ops, op)["triton"](x)
    finally:
        knobs.runtime.kernel_load_end_hook = before
    ((name, group),) = loaded
    (file,) = (path for ending, path in group.items() if ending.endswith(".cubin"))
    with open(file, "rb") as code:  # noqa: PTH123
        assert (name, code.read()) == (launch.symbol, launch.code["cubin"])


def test_the_kernel_of_torch_compile_is_read_and_exported_as_an_op_file(klab, tmp_path):
    seen = klab("inspect", "square", "--impl", "compile", "--shape", "512x512", "--dtype", "float32", "--json",
                "--export", "mine.py", "--out", "run")  # fmt: skip
    assert seen.code == 0, seen.err
    (kernel,) = json.loads(seen.out)["kernels"]  # the configuration that ran, not all of them
    assert kernel["arch"] == here()
    assert kernel["registers"] > 0
    assert {"ptx", "cubin", "sass", "generated"} <= set(kernel["files"])
    assert "the configuration that ran" in (tmp_path / "mine.py").read_text()
    checked = klab("check", "mine.py", "--declared", "--impl", "manual,triton-generated")
    assert checked.code == 0, checked.out + checked.err
    assert "2 results right" in checked.out
