"""Named ranges: recorded by PyTorch's profiler and NVTX, with almost no overhead if neither records."""

import time

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.profiler import ranges
from support.recordings import profiled_names


def test_a_range_is_a_context_a_decorator_and_a_pair_of_calls():
    @kl.range("decorated")
    def decorated(x):
        return x + 1

    def program():
        with kl.range("around"):
            decorated(torch.ones(2))
        kl.range_push("pushed")
        kl.range_pop()

    assert {"around", "decorated", "pushed"} <= set(profiled_names(program))


def test_one_range_entered_within_itself_ends_as_often_as_it_begins():
    same = kl.range("same")

    def program():
        with same:
            with same:
                pass
            torch.ones(2).sin()

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        program()
    ends = sorted(event.time_range.end for event in profiler.events() if event.name == "same")
    (sin,) = (event for event in profiler.events() if event.name == "aten::sin")
    assert len(ends) == 2
    assert ends[0] <= sin.time_range.start < ends[1]


def test_a_range_closes_when_its_body_raises():
    def program():
        with pytest.raises(ValueError), kl.range("failing"):
            raise ValueError
        with kl.range("after"):
            pass

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        program()
    first, second = (next(e for e in profiler.events() if e.name == name) for name in ("failing", "after"))
    assert first.time_range.end <= second.time_range.start


def test_a_pop_without_a_push_is_an_error():
    with pytest.raises(UserError, match="no range is open"):
        kl.range_pop()


def test_a_generator_is_refused():
    with pytest.raises(UserError, match="generator"):

        @kl.range("items")
        def items():
            yield 1


@pytest.mark.clocked
def test_ranges_that_are_not_recorded_take_less_than_two_microseconds():
    def context():
        with kl.range("x"):
            pass

    def pair():
        kl.range_push("x")
        kl.range_pop()

    decorated = kl.range("x")(lambda: None)
    for use in (context, pair, decorated):
        best = min(_seconds(use, 2000) for _ in range(20)) / 2000
        assert best < 2e-6, f"{best * 1e6:.2f} µs"


def _seconds(call, times):
    began = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - began


def test_ranges_do_not_break_compiled_code():
    @kl.range("outer")
    def function(x):
        with kl.range("inner"):
            return x.sin()

    x = torch.randn(4)
    assert torch.equal(torch.compile(function, fullgraph=True, backend="eager")(x), x.sin())


def test_nvtx_ranges_are_made_when_a_tool_is_attached(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(ranges, "_nvtx", True)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", calls.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: calls.append("popped"))
    with kl.range("a"):
        kl.range_push("b")
        kl.range_pop()
    assert calls == ["a", "b", "popped", "popped"]
