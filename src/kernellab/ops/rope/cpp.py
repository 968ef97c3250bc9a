"""Rotary position embedding in C++ for the CPU."""

from collections.abc import Sequence

import torch

from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.maps_cpp import entry
from kernellab.ops.rope.heads import Rotation


def rotate_cpp(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], rotation: Rotation) -> None:
    for x, y in zip(inputs, outputs, strict=True):
        require_float(x, "rope", CPP_NAMES)
        batches, heads, positions, columns = x.shape
        if x.numel():
            entry("rope", "rope", x.dtype)(
                x, *x.stride()[:3], y, *y.stride()[:3], rotation.cos, rotation.sin, batches, heads, positions,
                columns // 2, rotation.sign, int(rotation.interleaved), torch.get_num_threads(),
            )  # fmt: skip
