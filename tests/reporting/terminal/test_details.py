"""How each time was measured, for --verbose."""

from kernellab.reporting.terminal.details import detail_lines
from support.records import timed


def lines(**more):
    result = {**timed("triton", 100), "memory": {}, "built": None, "inside": None, **more}
    return detail_lines(result)


def test_a_series_is_described_by_its_rounds_windows_looks_and_clocks():
    result = timed("triton", 100)
    result["times"][0] |= {
        "calls": 8,
        "warmups": 3,
        "looks": [64, 128],
        "decided": True,
        "telemetry": {"sm_mhz": [1980.0, None, 1965.0], "temp_c": [50.0, 50.0]},
    }
    (line,) = lines(times=result["times"])
    assert line.startswith("forward, clock, cold: 100.1 µs (")
    assert line.endswith(
        "20 rounds, 20 samples; 8 calls a window; 3 warm-ups, decided after 2 looks; 1965–1980 MHz; 50 °C"
    )
    result["times"][0]["decided"] = False
    assert "out of time after 2 looks" in lines(times=result["times"])[0]


def test_a_series_that_was_skipped_says_why():
    entry = {**timed("triton", 100)["times"][0], "samples_us": [], "status": "skipped", "reason": "needs a GPU"}
    assert lines(times=[entry]) == ["clock: skipped: needs a GPU"]


def test_memory_allocations_and_builds_are_listed():
    compiled = {"seconds": 4.94, "graphs": 1, "recompiles": 2, "graph_breaks": 0}
    choice = {"by": "triton.autotune", "kernel": "k", "config": {"BLOCK": 256, "num_warps": 4}, "tried": 6}
    assert lines(
        times=[],
        memory={"forward": {"peak_bytes": 1 << 20}},
        built={"compile": compiled, "tuned": [choice]},
        inside={"allocations": {"count": 1, "bytes": 2048}},
    ) == [
        "memory, forward: peak 1 MiB",
        "torch.compile: 4.9 s, 1 graph, 2 recompiles, 0 graph breaks",
        "triton.autotune chose for k: BLOCK=256, num_warps=4 (6 tried)",
        "inside a call: 1 allocation, 2 KiB",
    ]
