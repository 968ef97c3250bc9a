"""Slices of rows: which ops are sliced, and that an oracle computed in slices is the whole one."""

import pytest
import torch

import kernellab as kl
from kernellab.accuracy import oracle as oracle_module
from kernellab.accuracy.oracle import Oracle
from kernellab.checking import examiner as examiner_module
from kernellab.checking.examiner import Examiner
from kernellab.checking.trial_memory import memory_needed
from kernellab.declaration.case import Case
from kernellab.declaration.passes import pass_of
from kernellab.trials.trial import Trial
from support.trying import CPU

ROWS = {"...": (40,), "N": 8}
LOGITS = dict(reduction="sum", label_smoothing=0.1, ignore_index=1)
HEADS = {"B": 40, "H": 2, "G": 1, "S": 3, "D": 4}


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(oracle_module, "chunk_elements", lambda device: 24)


def trial_of(dims, options, pass_name="backward"):
    return Trial("declared", Case(dims, "float32", options), pass_name=pass_name)


@pytest.mark.parametrize("pass_name", ["forward", "backward", "double backward"])
@pytest.mark.parametrize(
    ("op", "dims", "options"),
    [
        (kl.ops.swiglu, ROWS, {}),
        (kl.ops.softmax, {"...": (40, 2), "N": 8}, {}),
        (kl.ops.layer_norm, ROWS, dict(eps=1e-5, weight=True, bias=True)),
        (kl.ops.add_rms_norm, ROWS, dict(eps=1e-6, weight=False)),
        (kl.ops.rope, HEADS, dict(interleaved=True)),
        (kl.ops.cross_entropy, {"M": 41, "V": 8}, LOGITS),
        (kl.ops.cross_entropy, {"M": 41, "V": 8}, {**LOGITS, "reduction": "none"}),
        (kl.ops.matmul, {"M": 40, "K": 8, "N": 3}, {}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_an_oracle_in_slices_is_the_whole_one(op, dims, options, pass_name):
    trial = trial_of(dims, options, pass_name)
    oracle = Oracle(op, seed=0, device=CPU)
    inputs = pass_of(pass_name).inputs(op, trial.case, 0, CPU)
    assert oracle.slices(trial) is not None
    assert 0 < oracle.share_of_a_slice(trial) < 0.1
    for sliced, whole in zip(oracle.compute(trial, inputs), oracle.reference64(trial, inputs), strict=True):
        assert torch.allclose(sliced, whole, rtol=1e-12, atol=1e-14)


@kl.op(args=dict(x=kl.tensor("M N")))
def centred_columns(x):
    return x - x.mean(dim=0)


@kl.op(args=dict(x=kl.tensor("M N"), y=kl.tensor("N M")))
def plus_transposed(x, y):
    return x + y.t()


@pytest.mark.parametrize(
    ("op", "dims", "options"),
    [
        (kl.ops.cross_entropy, {"M": 40, "V": 8}, {**LOGITS, "reduction": "mean"}),
        (centred_columns, {"M": 40, "N": 8}, {}),
        (plus_transposed, {"M": 40, "N": 8}, {}),
        (kl.ops.softmax, {"...": (), "N": 400}, {}),
    ],
    ids=["a mean over rows", "rows depend on each other", "the dim has two places", "one row"],
)
def test_an_op_whose_rows_are_not_independent_is_not_sliced(op, dims, options):
    trial = trial_of(dims, options)
    oracle = Oracle(op, seed=0, device=CPU)
    assert oracle.slices(trial) is None
    assert oracle.share_of_a_slice(trial) == 1.0


def test_small_inputs_are_not_sliced():
    trial = trial_of({"...": (3,), "N": 8}, {})
    assert Oracle(kl.ops.softmax, seed=0, device=CPU).slices(trial) is None


@pytest.mark.parametrize(("reduction", "status"), [("sum", "ok"), ("mean", "unknown")])
def test_an_oracle_that_does_not_fit_at_once_is_computed_in_slices(monkeypatch, reduction, status):
    op = kl.ops.cross_entropy
    trial = trial_of({"M": 400, "V": 8}, {**LOGITS, "reduction": reduction}, "forward")
    monkeypatch.setattr(examiner_module, "_NO_MEMORY_QUESTION", 0)
    free = memory_needed(op, trial) - 1
    monkeypatch.setattr(examiner_module, "free_bytes", lambda device: free)
    outcome = Examiner(op, seed=0, device=CPU).examine(op["torch"], trial)
    assert outcome.status == status, outcome.reason
