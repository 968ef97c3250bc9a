"""What is printed around a profile: its steps, its overhead and the ranks."""

from pathlib import Path

import pytest

from kernellab.reporting.profiles import recording
from support.terminal import set_terminal


@pytest.mark.parametrize("columns", [40, 60])
def test_ranks_and_steps_fit_a_narrow_terminal(monkeypatch, columns):
    layers = [{"layer": "layer_0", "forward_us": 1234.5, "backward_us": 567.8}]
    rank = {"all_reduces": 9, "all_reduce_us": 2e5, "wait_us": 5e4, "collective_us": 9e5, "collectives": 9}
    ranks = [{**rank, "rank": number, "came_last": 3, "layers": layers} for number in range(4)]
    stretches = [{"phase": phase, "cycle": 1, "first": 0, "last": 99} for phase in ("wait", "warm-up", "active")]
    session = {"steps": stretches, "step_us": 13760.0, "plain_step_us": 10580.0, "notes": ["a " * 60], "traces": []}
    set_terminal(monkeypatch, columns)
    together = recording.together({"ranks": ranks, "matched": 9, "uneven": False})
    assert max(map(len, [*together, *recording.about(session, Path())])) <= columns
    layer = next(line for line in together if line.startswith("layer_0"))
    assert layer.count("1.234 ms + 567.8 µs") == layer.count("+") > 0  # figures are not cut
    assert "A wider terminal shows: " in "\n".join(together)
