"""Rotary position embedding in CUDA C++: launches `rotate` of cuda.cu."""

import functools
from collections.abc import Sequence

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.rope.heads import Rotation

THREADS = 128
HEADS = 2  # that a thread turns by the same angles; fewer of them keep more threads resident


def rotate_cuda(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], rotation: Rotation) -> None:
    q, k = inputs
    require_float(q, "rope")
    batches, _, positions, columns = q.shape
    tensors = [*inputs, *outputs]
    strides = [x.stride()[:3] for x in tensors]
    width = vector_width([*tensors, rotation.cos, rotation.sin], columns // 2, *(n for three in strides for n in three))
    places = [arg for x, three in zip(tensors, strides, strict=True) for arg in (x, *(n // width for n in three))]
    tokens, accesses = batches * positions, columns // 2 // width
    token_blocks = -(-tokens * accesses // THREADS)
    groups = sum(-(-x.shape[1] // HEADS) for x in inputs)
    # Blocks go through memory in its order.
    heads_first = int(q.stride(1) < q.stride(2))
    kind = f"{CUDA_NAMES[q.dtype]}, {width}, {'true' if rotation.interleaved else 'false'}, {HEADS}"
    kernel(f"rotate<{kind}>")(
        token_blocks * groups, THREADS, *places, rotation.cos, rotation.sin, tokens, positions, q.shape[1], k.shape[1],
        accesses, float(rotation.sign), token_blocks, heads_first,
    )  # fmt: skip


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)
