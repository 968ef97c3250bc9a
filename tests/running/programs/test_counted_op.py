"""The process that ncu counts: it lets ncu listen to one call and nothing else."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.running.programs import counted_op
from support.profile_requests import profile_request


def test_ncu_counts_one_call_and_not_its_preparation(monkeypatch):
    calls = []
    original = counted_op.Way.prepared

    def prepared(way):
        ready = original(way)
        calls.append("prepared")
        return lambda: (calls.append("called"), ready())

    class Heard:
        def __enter__(self):
            calls.append("listens")

        def __exit__(self, *_):
            calls.append("done")

    monkeypatch.setattr(counted_op.Way, "prepared", prepared)
    monkeypatch.setattr(counted_op, "heard", lambda device: Heard())
    (answer,) = counted_op.counted(profile_request("gelu"))
    assert calls[-4:] == ["prepared", "listens", "called", "done"]
    assert calls.count("listens") == 1
    assert answer["status"] == "ok"
    assert answer["cost"] == {
        "bytes_read": 128,
        "bytes_written": 128,
        "flops": kl.ops.gelu.cost(torch.empty(4, 8)).flops,
    }


def test_without_a_gpu_the_request_is_refused():
    for do in (counted_op.listed, counted_op.swept):
        with pytest.raises(UserError, match="there is none here"):
            do(profile_request("square", grids=[1], blocks=[128]))
