"""For which tensors the kernels serve, and which implementation each pass gets."""

import pytest
import torch

from kernellab.base.errors import UserError
from kernellab.library.operators import LAYER_NORM, SOFTMAX
from support.serving import own_table, rule


class Logged(torch.Tensor):
    """A subclass: PyTorch's functions do with it what it wants."""


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(2, 3).as_subclass(Logged),
        torch.ones(2, 3).to_sparse(),
        torch.ones(2, 3, dtype=torch.complex64),
        torch.ones(2, 3, dtype=torch.int32),
        torch.ones(2, 3, device="meta"),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
    ids=["subclass", "sparse", "complex", "integers", "another device", "nested"],
)
def test_a_tensor_that_kernels_do_not_cover_goes_to_pytorch(x):
    assert SOFTMAX.serves(torch.ones(2, 3))
    assert SOFTMAX.serves(torch.nn.Parameter(torch.ones(2, 3)))
    assert not SOFTMAX.serves(x)


def test_sizes_decide_between_the_kernels_and_pytorch():
    with own_table(rule("softmax", columns_up_to=8, elements_from=16)):
        assert SOFTMAX.serves(torch.ones(2, 8))
        assert not SOFTMAX.serves(torch.ones(2, 7))
        assert not SOFTMAX.serves(torch.ones(2, 9))


def test_where_backward_is_pytorchs_it_serves_both_passes_if_a_gradient_is_needed():
    with own_table(rule("softmax", backward="torch")):
        x = torch.ones(2, 3, requires_grad=True)
        assert SOFTMAX.serves(x.detach())
        assert not SOFTMAX.serves(x)
        with torch.no_grad():
            assert SOFTMAX.serves(x)


def test_a_rule_can_leave_sizes_to_pytorch_before_another_rule_applies():
    with own_table(rule("softmax", "torch", "torch", columns_up_to=8) + rule("softmax")):
        assert not SOFTMAX.serves(torch.ones(2, 8))
        assert SOFTMAX.serves(torch.ones(2, 9))
        x = torch.randn(2, 8)
        torch.testing.assert_close(torch.ops.kernellab.softmax(x), torch.softmax(x, -1))


def test_a_rule_that_names_no_implementation_is_an_error_that_says_which_there_are():
    with (
        own_table(rule("softmax", forward="tritn")),
        pytest.raises(UserError, match="names tritn for op softmax: did you mean triton"),
    ):
        SOFTMAX.serves(torch.ones(2, 3))


def test_each_pass_has_the_implementation_that_its_rule_names():
    with own_table(rule("layer_norm", forward="triton", backward="cuda")):
        x, options = torch.ones(2, 3), (1e-5,)
        loaded = LAYER_NORM.choice.implementations
        forward = LAYER_NORM.choice.forward(x, options)
        backward = LAYER_NORM.choice.backward(x, options)
    # The kernels that a pass launches are in its closure.
    assert [type(cell.cell_contents).__name__ for cell in forward.__closure__][-1] == "TritonNorm"
    assert [type(cell.cell_contents).__name__ for cell in backward.__closure__][-1] == "CudaNorm"
    assert {"triton", "cuda", "cpp"} <= set(loaded)


def test_an_operator_that_is_called_although_no_rule_applies_uses_the_kernels():
    with own_table(rule("softmax", elements_from=1 << 40)):
        x = torch.randn(2, 3)
        torch.testing.assert_close(torch.ops.kernellab.softmax(x), torch.softmax(x, -1))


def test_inside_derivatives_of_torch_func_pytorch_serves():
    seen = []

    def f(x):
        seen.append(SOFTMAX.serves(x))
        return x.sum()

    torch.func.grad(f)(torch.ones(2, 3))
    torch.func.jvp(f, (torch.ones(2, 3),), (torch.ones(2, 3),))
    f(torch.ones(2, 3))
    assert seen == [False, False, True]
