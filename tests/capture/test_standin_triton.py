"""Triton without a GPU: every configuration of an autotuned kernel is captured, and failures have their reason."""

import importlib.util
import re

import pytest
import triton

from kernellab.capture.recorder import capture
from support.meta import meta


def test_every_configuration_of_an_autotuned_kernel_is_captured(double):
    """None is the fastest. One that does not compile has the reason; a tuner would skip it."""
    for arch in ("sm_80", "sm_90"):
        launches = capture(double["triton-tuned"], [meta(64, 256)], arch=arch)
        assert [launch.tuned for launch in launches] == [(0, 3), (1, 3), (2, 3)]
        assert [launch.block[0] for launch in launches] == [64, 128, 128]
        assert [bool(launch.refusal) for launch in launches] == [False, False, True]
        refusal = launches[2].refusal
        assert refusal.startswith("does not compile: CompileTimeAssertionFailure: too wide (line 2 of tuned")
        assert not launches[2].code


def test_a_configuration_that_is_too_large_for_the_gpu_has_the_reason(double):
    kernel = double["triton"].fn.__globals__["staged"]
    x = meta(128, 128)
    tuned = triton.autotune([triton.Config({"N": n}, num_warps=8) for n in (64, 128)], key=[])(kernel)
    fits, large = capture(tuned[(1,)], [x, x], arch="sm_86")
    assert not fits.refusal
    assert large.refusal.startswith("does not fit: out of resource: shared memory, Required: 131072")


def test_a_configuration_that_ptxas_rejects_has_the_reason_and_if_all_fail_the_kernel_fails(double):
    from triton.runtime.errors import PTXASError

    kernel = double["triton"].fn.__globals__["misspelled"]
    x = meta(128, 128)
    tuned = triton.autotune([triton.Config({"BLOCK": n}) for n in (128, 256)], key=[])(kernel)
    good, bad = capture(tuned[(1,)], [x, x], {"LARGEST": 128}, arch="sm_86")
    assert not good.refusal
    assert re.match(r"does not compile: PTXASError: ptxas, line \d+; error +: Not a name .* 'frobnicate'", bad.refusal)
    with pytest.raises(PTXASError):
        capture(tuned[(1,)], [x, x], {"LARGEST": 64}, arch="sm_86")


def test_a_kernel_that_exceeds_the_gpu_fails_as_on_the_gpu(double):
    from triton.runtime.errors import OutOfResources

    with pytest.raises(OutOfResources, match="shared memory"):
        capture(double["triton-too-much"], [meta(128, 128)], arch="sm_86")
    (launch,) = capture(double["triton-too-much"], [meta(128, 128)], arch="sm_90")
    assert launch.shared_bytes == 2 * 128 * 128 * 4


def test_code_names_its_own_file_even_if_a_copy_was_compiled_before(tmp_path):
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(
            "import triton\n\n\n@triton.jit\ndef nothing(x_ptr, n):\n    x_ptr + n\n    return\n"
        )
        spec = importlib.util.spec_from_file_location(name[:-3], tmp_path / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        (launch,) = capture(module.nothing[(1,)], [meta(4), 2], arch="sm_90")
        assert re.findall(r'\.file\s+1 ".*?(\w+\.py)"', launch.code["ptx"]) == [name]
