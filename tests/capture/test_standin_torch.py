"""Torch with a stand-in GPU: meta tensors report that they are on it, and custom operators run for real."""

import pytest
import torch

from kernellab.capture.recorder import capture, record_launches
from kernellab.capture.standin_cuda import cuda_functions, replace_attribute
from kernellab.capture.standin_gpu import standin_gpu
from kernellab.capture.standin_torch import use_standin
from support.meta import meta


def test_torch_sees_the_stand_in_gpu():
    with use_standin(standin_gpu("sm_90")):
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_properties().multi_processor_count == standin_gpu("sm_90").sms
        assert meta(1).device.type == "cuda"
        assert meta(1).is_cuda
        assert torch.empty(4, device="cuda").is_cuda
        assert not torch.empty(4).is_cuda
    assert not meta(1).is_cuda


@pytest.mark.parametrize("impl", ["triton-custom", "triton-op"])
def test_custom_operators_run_their_implementation_for_a_gpu(double, impl):
    """On meta tensors they would run their fake function, which launches nothing."""
    (launch,) = capture(double[impl], [meta(64, 256)], arch="sm_90")
    assert launch.kernel == "twice"


def test_the_gradient_of_a_custom_operator_is_captured(double):
    x = meta(64, 256, requires_grad=True)
    with record_launches("sm_90") as launches:
        y = double["triton-custom"](x)
        torch.autograd.grad(y, x, torch.empty_like(y))
    assert sum(launch.times for launch in launches) == 2


def test_a_replaced_attribute_is_restored_and_an_added_one_removed():
    class Owner:
        kept = staticmethod(lambda: "before")

    with replace_attribute(Owner, "kept", None), replace_attribute(Owner, "added", 1):
        assert (Owner.kept, Owner.added) == (None, 1)
    assert Owner.kept() == "before"
    assert not hasattr(Owner, "added")


def test_a_replaced_attribute_that_is_inherited_leaves_nothing_behind():
    class Parent:
        inherited = 1

    class Child(Parent):
        pass

    with replace_attribute(Child, "inherited", 2):
        assert Child.inherited == 2
    assert "inherited" not in vars(Child)


def test_tensors_are_on_the_gpu_in_backward_too():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            Doubled.seen = grad.device, torch.empty(2, device=grad.device).is_cuda
            return grad * 2

    with use_standin(standin_gpu("sm_90")):
        x = meta(4, requires_grad=True)
        torch.autograd.grad(Doubled.apply(x), x, torch.empty(4, device="cuda"))
        assert Doubled.seen == (torch.device("cuda", torch.cuda.current_device()), True)
        Doubled.seen = None
        Doubled.apply(x).backward(torch.empty(4, device="cuda"))
        assert Doubled.seen[1]


def test_what_torch_says_about_the_gpu_agrees():
    for arch in ("sm_80", "sm_90"):
        with use_standin(standin_gpu(arch)):
            index = torch.cuda.current_device()
            assert meta(1).device == torch.device("cuda", index) == torch.cuda.current_stream().device
            assert meta(1).get_device() == index == torch.accelerator.current_device_index()
            assert torch.cuda.device_count() == torch.accelerator.device_count() == index + 1
            assert torch.accelerator.current_accelerator().type == "cuda"
            assert torch.cuda.get_device_properties(index).major == torch.cuda.get_device_capability(index)[0]
            assert torch.version.cuda
            assert meta(1).to(index).is_cuda
            assert torch.empty(1, device=index).is_cuda
            assert not meta(1).is_cpu
            meta(1).record_stream(torch.cuda.Stream())
            assert torch.Generator(device="cuda").manual_seed(3).initial_seed() == 3


def test_every_replacement_is_an_object_of_its_own():
    """Dynamo, where a library imports it, lists the functions of torch.cuda by their identity."""
    functions = list(cuda_functions(standin_gpu("sm_90")).values())
    assert len({id(function) for function in functions}) == len(functions)
