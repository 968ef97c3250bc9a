"""Estimates of what the reference allocates, against what it allocates."""

import pytest
import torch

import kernellab as kl
from kernellab.checking import examiner as examiner_module
from kernellab.checking.examiner import Examiner
from kernellab.checking.reference_memory import LiveTensors, ReferenceMemoryEstimator
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import make_inputs, upcast
from kernellab.trials.trial import Trial
from support.trying import CPU

GIB = 1 << 30


def attention(score=lambda q, k: q @ k.mT, **declaration):
    """Attention that computes the matrix of all pairs."""

    @kl.op(args=dict(q=kl.tensor("H S D"), k=kl.tensor("H S D"), v=kl.tensor("H S D")), **declaration)
    def attend(q, k, v):
        return torch.softmax(score(q, k), dim=-1) @ v

    return attend


def depends_on_values(q, k):
    return q @ k.mT if float(q.detach().sum()) < 1e9 else k


def in_rows(q, k):
    return torch.cat([row[..., None, :] @ k.mT for row in q.unbind(-2)], dim=-2)


def estimate(op, fits=True, pass_name="forward", **sizes):
    trial = Trial("sizes", Case(sizes, "float32"), pass_name=pass_name)
    return ReferenceMemoryEstimator(op, seed=0, device=CPU).estimate(trial, lambda memory: fits)


@pytest.mark.parametrize("pass_name", ["forward", "backward"])
@pytest.mark.parametrize("score", [lambda q, k: q @ k.mT, depends_on_values], ids=["plain", "depends on values"])
def test_the_estimate_equals_what_the_reference_allocates(score, pass_name):
    op = attention(score)
    case = Case(dict(H=2, S=600, D=24), "float32")
    inputs = upcast(make_inputs(op, case, 0, CPU))
    with LiveTensors(list(inputs.values())) as tensors:
        leaves = [t.requires_grad_(pass_name == "backward") for t in inputs.values()]
        result = op.reference(*leaves)
        if pass_name == "backward":
            torch.autograd.grad(result, leaves, torch.empty_like(result))
    assert estimate(op, pass_name=pass_name, H=2, S=600, D=24).peak == max(tensors.timeline)


def test_a_matrix_of_all_pairs_is_counted_at_any_size():
    matrix = 2 * 32769**2 * 8
    assert 2 * matrix < estimate(attention(), H=2, S=32769, D=64).peak < 2.1 * matrix


def test_a_loop_over_a_dim_is_estimated_by_its_peak():
    matrix = 32769**2 * 8
    assert estimate(attention(in_rows), H=1, S=32769, D=16).peak > matrix


def test_where_small_sizes_are_outside_meta_tensors_tell():
    op = attention(where=lambda case: case.S >= 2048)
    assert estimate(op, H=2, S=32768, D=64).peak > 2 * 2 * 32768**2 * 8


def test_code_that_does_something_else_for_large_sizes_gets_the_smaller_estimate_where_the_other_does_not_fit():
    @kl.op(args=dict(x=kl.tensor("S")))
    def weigh(x):
        return (x[:, None] * x).sum(1) if len(x) < 1000 else x * x.sum()

    assert estimate(weigh, fits=True, S=32769).peak > 32769**2 * 8
    assert estimate(weigh, fits=False, S=32769).peak < 4 * 32769 * 8


def test_a_reference_that_needs_more_memory_than_there_is_is_not_run(monkeypatch):
    calls = []

    @kl.op(args=dict(q=kl.tensor("H S D"), k=kl.tensor("H S D"), v=kl.tensor("H S D")))
    def attend(q, k, v):
        calls.append(q.shape[1])
        return torch.softmax(q @ k.mT, dim=-1) @ v

    attend.impl("mine")(attend.reference)
    monkeypatch.setattr(examiner_module, "free_bytes", lambda device: 8 * GIB)
    examiner = Examiner(attend, seed=0, device=CPU)
    case = Case(dict(H=2, S=32769, D=8), "float32")
    outcome = examiner.examine(attend["mine"], Trial("sizes", case))
    assert (outcome.status, outcome.reason) == ("outside", "the reference needs about 32 GiB of memory, 8 are free")
    declared = examiner.examine(attend["mine"], Trial("declared", case))
    assert (declared.status, declared.reason.startswith("cannot check: the reference needs about")) == ("unknown", True)
    assert examiner.examine(attend["mine"], Trial("sizes", case.with_(dims=dict(H=2, S=300, D=8)))).status == "ok"
    assert [size for size in calls if size > 300] == [32769]  # on meta tensors
