"""Streams of random words for calls in models, taken from PyTorch's generators.

A stream follows from the state of the device's default generator and moves it on, as PyTorch's own random ops do: seeds
make programs repeatable, and activation checkpointing, which restores that state, draws the same words again.
"""

from __future__ import annotations

import torch

from kernellab.ops.philox import Stream

# PyTorch's kernels draw from Philox by the same seed. With a key of our own, no words are the same as theirs.
_OUR_KEY = 0x9E3779B97F4A7C15
_OFFSET_STEP = 4  # PyTorch's offsets are multiples of 4


def available(device: torch.device) -> bool:
    """Whether a stream can be drawn: a CUDA graph would repeat the one that was drawn while it was captured."""
    return device.type != "cuda" or not torch.cuda.is_current_stream_capturing()


def draw(device: torch.device) -> Stream:
    """A stream that no earlier call had."""
    if device.type != "cuda":
        return Stream(int(torch.empty((), dtype=torch.int64).random_(-(1 << 63), None)), 0)
    generator = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    offset = generator.get_offset()
    generator.set_offset(offset + _OFFSET_STEP)
    return Stream(generator.initial_seed() ^ _OUR_KEY, offset)
