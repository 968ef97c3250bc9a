"""The panel of all timers."""

import io

from rich.console import Console

from kernellab.record.verdict import derive
from kernellab.reporting.terminal import panel
from support.records import timed


def series(timer, cache, us, **more):
    samples = {"samples_us": [us] * 20, "rounds": list(range(20)), "status": "ok", "reason": None}
    return {"pass": "forward", "timer": timer, "cache": cache, **samples, **more}


def printed(*entries, device="cuda", width=200, first_call_s=0.5):
    result = timed("triton", 100)
    result["case"]["device"] = device
    result["times"] = list(entries)
    result["check"]["first_call_s"] = first_call_s
    record = derive({"results": [result], "machine": {}})
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    panel.show(record["results"], out)
    return out.file.getvalue()


GPU = [series("events", "cold", 10.0, floor_us=2.0), series("graph", "cold", 8.0), series("launch", "warm", 30.0)]


def test_timers_are_ordered_from_the_least_overhead_to_the_most():
    lines = printed(*GPU).splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:6]] == [
        *("timer", "graph, cold", "events, cold", "launch, warm", "events, empty kernel", "first call")
    ]
    assert "10 µs  time on the GPU's stream, launches queued ahead, data in memory" in lines[2]
    assert "2 µs  a kernel that does nothing" in lines[4]
    assert "500 ms  includes compiling" in lines[5]


def test_the_regime_follows_with_its_evidence():
    assert "triton is launch-bound: the host takes 30 µs to launch what the GPU does in 8 µs" in printed(*GPU)
    balanced = [series("events", "cold", 10.0), series("graph", "cold", 9.0), series("kernel", "cold", 8.0)]
    assert "triton is not close to any limit these timers can detect" in printed(*balanced)


def test_a_time_that_is_not_known_is_a_dash():
    assert "first call" in printed(*GPU, first_call_s=None)
    assert "–  includes compiling" in printed(*GPU, first_call_s=None)


def test_too_few_series_make_no_panel():
    assert printed(*GPU[:2]) == ""
    assert printed(series("clock", "cold", 5.0), device="cpu") == ""
    assert "clock, warm" in printed(series("clock", "cold", 5.0), series("clock", "warm", 4.0), device="cpu")


def test_a_narrow_terminal_wraps_what_is_measured():
    text = printed(*GPU, width=60)
    assert max(map(len, text.splitlines()[:-1])) <= 60
    assert "launches queued ahead" in " ".join(text.split())
