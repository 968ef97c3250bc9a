"""The bytes of operators as they are dispatched, and the kernels that belong to them."""

import pytest
import torch

from kernellab.activity.traffic import traffic, with_kernels

X = torch.empty(64, 128, device="meta")


def tensors_moved(call, x=X):
    """Each operator with how many tensors of x's size it reads and writes."""
    return [
        (m["op"].removeprefix("aten::"), m["read_bytes"] / x.nbytes, m["write_bytes"] / x.nbytes) for m in traffic(call)
    ]


def test_a_chain_is_counted_operator_by_operator_without_computing_it():
    assert tensors_moved(lambda: torch.exp(X) + X) == [("exp", 1, 1), ("add", 2, 1)]


def test_a_tensor_passed_twice_is_read_once():
    assert tensors_moved(lambda: X * X) == [("mul", 1, 1)]
    assert tensors_moved(lambda: X * X.clone()) == [("clone", 1, 1), ("mul", 2, 1)]


def test_views_and_fresh_memory_move_nothing():
    assert tensors_moved(lambda: torch.empty_like(X.t().reshape(128, 64)[::2].unsqueeze(0).detach())) == []
    assert tensors_moved(lambda: X.t().contiguous()) == [("clone", 1, 1)]


def test_a_reduction_reads_all_and_writes_little():
    ((op, read, written),) = tensors_moved(lambda: X.amax(dim=-1, keepdim=True))
    assert (op, read, written) == ("amax", 1, pytest.approx(1 / 128))


def test_a_broadcast_tensor_is_read_at_its_own_size():
    row = torch.empty(128, device="meta")
    assert tensors_moved(lambda: X + row.expand(64, 128)) == [("add", 1 + 1 / 64, 1)]


def test_a_wider_result_writes_more():
    half = torch.empty(64, 128, device="meta", dtype=torch.bfloat16)
    assert tensors_moved(lambda: half.float(), half) == [("_to_copy", 1, 2)]


def test_in_place_is_read_and_written_and_a_copy_only_written():
    x = torch.ones(4, 4)
    assert tensors_moved(lambda: x.add_(1), x) == [("add_", 1, 1)]
    assert tensors_moved(lambda: torch.empty(4, 4).copy_(x), x) == [("copy_", 1, 1)]
    assert tensors_moved(lambda: torch.exp(x, out=torch.empty(4, 4)), x) == [("exp", 1, 1)]


MUL, SUM = ({"op": f"aten::{name}", "read_bytes": 8, "write_bytes": 4} for name in ("mul", "sum"))


def test_kernels_are_attributed_to_the_operators_that_launched_them():
    enclosing = [[("aten::mul", 0)], [("aten::sum", 3)], [("aten::sum", 3), ("aten::fill_", 5)]]
    assert with_kernels([MUL, SUM], enclosing) == [{**MUL, "kernels": [0]}, {**SUM, "kernels": [1, 2]}]


def test_an_operator_called_twice_has_two_entries():
    enclosing = [[("aten::mul", 0)], [("aten::mul", 1)]]
    assert [m["kernels"] for m in with_kernels([MUL, MUL], enclosing)] == [[0], [1]]


def test_an_operator_that_launched_nothing_is_left_out():
    assert with_kernels([MUL, SUM], [[("aten::sum", 7)]]) == [{**SUM, "kernels": [0]}]


def test_the_bytes_of_a_kernel_launched_past_torch_are_not_known():
    joined = with_kernels([SUM], [[], [("aten::sum", 1)]])
    assert joined[0] == {"op": None, "read_bytes": None, "write_bytes": None, "kernels": [0]}
    assert joined[1] == {**SUM, "kernels": [1]}
