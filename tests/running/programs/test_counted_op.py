"""The process whose launches Nsight Compute counts."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.running.programs import counted_op
from kernellab.running.programs.op_calls import ImplCalls
from support.op_requests import op_request


def test_ncu_counts_one_call_and_nothing_that_prepares_it(monkeypatch):
    events = []
    prepare = ImplCalls.prepare

    def prepare_and_note(calls):
        prepared = prepare(calls)
        events.append("prepared")
        return lambda: (events.append("called"), prepared())

    class Capture:
        def __init__(self, **_):
            pass

        def begin(self):
            events.append("begin")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            events.append("end")

    monkeypatch.setattr(ImplCalls, "prepare", prepare_and_note)
    monkeypatch.setattr(counted_op, "ToolCapture", Capture)
    (answer,) = counted_op.count_calls(op_request("gelu"))
    assert events[-4:] == ["prepared", "begin", "called", "end"]
    assert events.count("begin") == 1
    assert answer["status"] == "ok"
    assert answer["cost"] == {
        "bytes_read": 128,
        "bytes_written": 128,
        "flops": kl.ops.gelu.cost(torch.empty(4, 8)).flops,
    }


@pytest.mark.parametrize("action", [counted_op.list_impls, counted_op.sweep_grids])
def test_without_a_gpu_nothing_is_counted(action):
    with pytest.raises(UserError, match="this machine has no GPU"):
        action(op_request("square", grids=[1], blocks=[128]))
