"""`kl.ptx`: the PTX of an implementation or of a kernel, without a GPU."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
import triton

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.capture.recorder import capture
from support.captured_op import captured_op


@pytest.fixture(scope="module")
def twice():
    return captured_op()["triton"].fn.__globals__["twice"]


def test_an_implementation_is_compiled_for_its_ops_first_case_or_for_arguments():
    assert ".target sm_80" in kl.ptx(kl.ops.square["triton"], arch="sm_80")
    assert "st.global" in kl.ptx(kl.ops.gelu["cuda"], torch.empty(64, 64), approximate="none")


def test_a_kernel_is_compiled_for_arguments_and_a_dtype_stands_for_a_pointer(twice):
    text = kl.ptx(twice, torch.float16, torch.float16, 4096, BLOCK=1024, num_warps=8)
    assert ".reqntid 256" in text
    assert "f16" in text


def test_a_parameter_replaces_those_of_an_autotuned_kernels_configurations(twice):
    configs = [triton.Config({"BLOCK": 256}, num_warps=2), triton.Config({"BLOCK": 1024}, num_warps=4)]
    tuned = triton.autotune(configs=configs, key=[])(twice)
    pointers = (torch.float32, torch.float32, 4096)
    assert kl.ptx(tuned, *pointers).count(".visible .entry") == 2
    assert kl.ptx(tuned, *pointers, BLOCK=512).count(".visible .entry") == 2  # with two warps, and with four
    text = kl.ptx(tuned, *pointers, BLOCK=512, num_warps=8)
    assert text.count(".visible .entry") == 1
    assert ".reqntid 256" in text


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (kl.ops.square, "has several implementations"),
        (kl.ops.square["torch"], "launched no kernel of Triton or of kl.cuda.kernel"),
        (kl.ops.square["cpp"], "launched no kernel of Triton or of kl.cuda.kernel"),
        (kl.ops.square["compile"], "klab inspect square --impl compile --show ptx"),
        (len, "has no PTX"),
    ],
    ids=["an op", "torch", "cpp", "compile", "a function"],
)
def test_code_without_ptx_is_an_error_that_says_why(code, message):
    with pytest.raises(UserError, match=message):
        kl.ptx(code)


def test_threads_do_not_see_each_others_stand_in_gpu():
    """The second thread begins while the first has a stand-in GPU, and the first ends before it."""
    inside, goes_on = threading.Event(), threading.Event()
    square = kl.ops.square["triton"]

    def wait_inside(x):
        inside.set()
        goes_on.wait(10)
        return square.fn(x)

    available = torch.cuda.is_available()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(capture, wait_inside, [torch.empty(64, 64, device="meta")], arch="sm_80")
        inside.wait()
        second = pool.submit(kl.ptx, square)
        done, _ = wait([second], timeout=0.5)
        goes_on.set()
        assert not done
        assert ".target sm_80" in first.result()[0].code["ptx"]
        assert available or ".target sm_90" in second.result()
    assert torch.cuda.is_available() == available
