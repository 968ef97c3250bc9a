"""How a grid fills a GPU, in a sentence."""

from __future__ import annotations

from kernellab.gpumodel.waves import Waves
from kernellab.reporting.text import numbers as words


def describe_fill(w: Waves) -> str:
    """`300 blocks over 132 SMs: 3 waves, the last with 36 blocks; 76 % efficient if compute-bound`."""
    some = f"{w.usable_sms} of " if w.usable_sms < w.sms else ""
    over = f"{words.count(w.blocks, 'block')} over {some}{w.sms} SMs"
    rounds = words.count(w.rounds, "wave")
    last = f", the last with {words.count(w.tail_blocks, 'block')}" if w.tail_blocks else ", all full"
    if w.rounds == 1 and w.tail_blocks:
        last = f", {words.count(w.usable_sms - w.blocks, 'SM')} idle"
    return f"{over}: {rounds}{last}; {words.percent(w.efficiency)} efficient if compute-bound"
