"""Ranges: seen by whoever listens, all but free where nobody does, and no part of what is computed."""

import pickle
import time

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.profiler import ranges


def names_of(run):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    return [event.name for event in profiler.events()]


def test_a_range_is_a_context_a_decorator_and_a_pair_of_calls():
    @kl.range("decorated")
    def decorated(x):
        return x + 1

    def program():
        with kl.range("around"):
            decorated(torch.ones(2))
        kl.range_push("pushed")
        kl.range_pop()

    assert {"around", "decorated", "pushed"} <= set(names_of(program))


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


def test_a_range_closes_where_what_it_holds_raises():
    def program():
        with pytest.raises(ValueError), kl.range("failing"):
            raise ValueError
        with kl.range("after"):
            pass

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        program()
    first, second = (next(e for e in profiler.events() if e.name == name) for name in ("failing", "after"))
    assert first.time_range.end <= second.time_range.start


def test_a_pop_without_a_push_is_said():
    with pytest.raises(UserError, match="no range is open"):
        kl.range_pop()


def test_a_generator_is_refused_as_it_stops_in_the_middle():
    with pytest.raises(UserError, match="generator"):

        @kl.range("items")
        def items():
            yield 1


@pytest.mark.clocked
def test_unheard_ranges_cost_less_than_two_microseconds():
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


def test_ranges_leave_compiled_code_whole():
    @kl.range("outer")
    def function(x):
        with kl.range("inner"):
            return x.sin()

    x = torch.randn(4)
    assert torch.equal(torch.compile(function, fullgraph=True, backend="eager")(x), x.sin())


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return (x + self.inner(x)).relu()


def gradients(model, x):
    model.zero_grad()
    model(x).sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def test_every_module_is_marked_forward_and_backward_and_nothing_else_changes():
    model, x = torch.nn.Sequential(Residual(), torch.nn.GELU()), torch.randn(3, 4)
    before = gradients(model, x)
    marks = kl.auto_ranges(model)
    after: list[torch.Tensor] = []
    names = names_of(lambda: after.extend(gradients(model, x)))
    paths = ("Sequential", "0", "0.inner", "1")
    assert set(paths) <= set(names)
    # The residual's own addition and ReLU are of the module itself, the Linear's are of the Linear.
    assert {"0.backward", "0.inner.backward", "1.backward"} <= set(names)
    assert names.count("0.backward") == 2
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not set(paths) & set(names_of(lambda: marks.remove() or gradients(model, x)))


def test_marks_and_ddp_get_along():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        names, before, after = _replicated()
    finally:
        torch.distributed.destroy_process_group()
    assert {"module.inner", "module.inner.backward"} <= set(names)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def _replicated():
    """In a function of its own: the replica must be gone before the group is, or torch may wait for itself."""
    model, x = torch.nn.parallel.DistributedDataParallel(Residual()), torch.randn(3, 4)
    before = gradients(model, x)
    after: list[torch.Tensor] = []
    with kl.auto_ranges(model):
        names = names_of(lambda: after.extend(gradients(model, x)))
    return names, before, after


def test_a_marked_model_can_be_saved_and_compiled():
    model, x = torch.nn.Sequential(Residual(), torch.nn.GELU()), torch.randn(3, 4)
    expected = model(x)
    kl.auto_ranges(model)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)
    assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), expected)


def test_nvtx_ranges_are_made_when_a_tool_listens(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(ranges, "_nvtx", True)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", calls.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: calls.append("popped"))
    with kl.range("a"):
        kl.range_push("b")
        kl.range_pop()
    assert calls == ["a", "b", "popped", "popped"]
