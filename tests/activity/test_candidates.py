"""What torch.compile tries for an operator is recorded: each candidate with its time, the fastest first."""

import math

import pytest
import torch

from kernellab.activity.autotuning import record_choices

select_algorithm = pytest.importorskip("torch._inductor.select_algorithm")


class Choice:
    """As Inductor's candidates are, as far as they are used."""

    def __init__(self, name, **info):
        self.name, self._info = name, info

    def info_dict(self):
        return self._info


class Node:
    def get_size(self):
        return [64, 32]

    def get_stride(self):
        return [32, 1]

    def get_dtype(self):
        return torch.bfloat16


def give_feedback(times_ms):
    """As Inductor does after it has timed the candidates. Later versions pass more arguments."""
    for function in select_algorithm._ALGORITHM_SELECTOR_CACHE.feedback_saver_fns:
        function(times_ms, "mm", [Node(), Node()], list(times_ms), lambda: times_ms, {})


def test_candidates_are_recorded_with_their_times_the_fastest_first():
    extern, triton, failed = (
        Choice("mm", backend="extern"),
        Choice("triton_mm_4", backend="Triton", tile_shape="(128, 64, 128)", num_warps=8),
        Choice("triton_mm_9", backend="Triton"),
    )
    with record_choices() as choices:
        give_feedback({extern: 0.2, failed: math.inf, triton: 0.1})
        give_feedback({})
    (choice,) = choices
    assert (choice["kernel"], choice["by"], choice["tried"]) == ("mm", "inductor", 3)
    assert choice["key"] == ["bfloat16 64×32, strides 32 1"] * 2
    assert choice["config"] == {
        **{"name": "triton_mm_4", "backend": "Triton", "tile_shape": "(128, 64, 128)", "num_warps": 8},
    }
    assert choice["candidates"] == [
        {"name": "triton_mm_4", "us": 100.0},
        {"name": "mm", "us": 200.0},
        {"name": "triton_mm_9", "us": None},
    ]


def test_nothing_is_recorded_afterwards():
    with record_choices():
        pass
    assert not select_algorithm._ALGORITHM_SELECTOR_CACHE.feedback_saver_fns
