"""What a recording sees of a pass, and what makes a pass not repeatable."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import kernellab as kl
from kernellab.build import cuda
from kernellab.launcher.recording import Recording


@pytest.fixture
def kernel(monkeypatch):
    """A kernel of a real file that is not launched."""
    monkeypatch.setattr(cuda.Kernel, "_launch", lambda *_: SimpleNamespace(handle=42))
    return cuda.kernel(kl.build.cuda.__file__, "some")


def record(run_pass, *tensors):
    recording = Recording("op", tensors)
    recording.run("op", run_pass, tensors, ())
    return recording


def test_arguments_are_told_apart_by_where_they_come_from(kernel):
    def run_pass(x, y):
        scratch, result = x.new_empty(5), torch.empty_like(y)
        kernel((3, 2), 64, x, y[1:], scratch, result, 7, -1, 0.5, np.float32(1.0), True, shared=128, cluster=2)
        return [result]

    x = torch.ones(4)
    (launch,) = record(run_pass, x, x).description.launches
    assert (launch.kernel, launch.grid, launch.block, launch.shared_bytes, launch.cluster) == (
        42,
        (3, 2),
        (64,),
        128,
        (2,),
    )
    assert launch.arguments == [
        ("input", 0, 0),
        ("input", 1, 4),
        ("allocation", 0, 0),
        ("allocation", 1, 0),
        ("value", 7, 0),
        ("value", (1 << 64) - 1, 0),
        ("value", 0x3FE0000000000000, 0),
        ("value", 0x3F800000, 0),
        ("value", 1, 0),
    ]


OTHER = torch.ones(4)


@pytest.mark.parametrize(
    ("run_pass", "reason"),
    [
        (lambda kernel, x: [torch.empty_like(x)], "it launches no kernel of CUDA C\\+\\+"),
        (lambda kernel, x: [torch.empty_like(x).zero_()], "it calls aten.zero_"),
        (lambda kernel, x: (kernel(1, 1, x.t().contiguous()), [torch.empty_like(x)])[1], "it calls aten"),
        (lambda kernel, x: (kernel(1, 1, OTHER), [torch.empty_like(x)])[1], "a tensor of unknown origin"),
        (lambda kernel, x: (kernel(1, 1, x.data_ptr()), [torch.empty_like(x)])[1], "a pointer as a number"),
        (lambda kernel, x: (kernel(1, 1, x), [torch.empty(3)[1:]])[1], "returns something else than new tensors"),
        (lambda kernel, x: (kernel(1, 1, x), [x + 1])[1], "it calls aten.add"),
        (lambda kernel, x: (kernel(1, 1, x), [torch.empty_like(x)] * (1 + int(x.sum() > 0)))[1], "it calls aten"),
        (lambda kernel, x: (kernel(1, 1, x), [x, x])[1], "it returns a tensor twice"),
    ],
)
def test_a_pass_that_does_anything_else_is_not_repeatable(run_pass, reason, kernel):
    recording = record(lambda x: run_pass(kernel, x), torch.ones(2, 3))
    assert recording.description is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(recording.reason)


def test_another_op_or_other_tensors_are_not_what_was_asked_for(kernel):
    x = torch.ones(3)
    for name, tensors in (("other", [x]), ("op", [x.clone()])):
        recording = Recording("op", [x])
        recording.run(name, lambda x: (kernel(1, 1, x), [torch.empty_like(x)])[1], tensors, ())
        assert recording.description is None


def test_an_observer_that_leaves_hides_no_launch_from_the_others(kernel):
    """As when another thread ends its recording."""
    seen = []

    def leave(*launch):
        cuda.launch_observers.remove(leave)

    def stay(*launch):
        seen.append(launch)

    cuda.launch_observers.extend([leave, stay])
    try:
        kernel(1, 1, torch.ones(3))
    finally:
        cuda.launch_observers.remove(stay)
    assert len(seen) == 1
