"""Ranks side by side in the terminal."""

import pytest

from kernellab.reporting.profiles.ranks import lines
from support.terminal import set_terminal

LAYER = {"layer": "layer_0", "count": 1, "forward_us": 1234.5, "backward_us": 567.8}
RANK = {"all_reduces": 9, "all_reduce_us": 2e5, "wait_us": 5e4, "collective_us": 9e5, "collectives": 9, "came_last": 3}


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_leaves_out_ranks_and_cuts_no_figure(monkeypatch, columns):
    ranks = [{**RANK, "rank": number, "layers": [LAYER]} for number in range(4)]
    set_terminal(monkeypatch, columns)
    text = lines({"ranks": ranks, "matched": 9, "uneven": False})
    assert max(map(len, text)) <= columns
    layer = next(line for line in text if line.startswith("layer_0"))
    assert layer.count("1.234 ms + 567.8 µs") == layer.count("+") > 0
    assert "A wider terminal shows: " in "\n".join(text)


def test_ranks_without_communication_say_so():
    ranks = [{**RANK, "rank": number, "layers": []} for number in range(2)]
    assert lines({"ranks": ranks, "matched": 0, "uneven": False})[0].startswith("No communication")
