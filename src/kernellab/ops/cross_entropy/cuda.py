"""Cross-entropy in CUDA C++: chooses the kernels of cuda.cu and their launches by the width of a row."""

from __future__ import annotations

import functools

import torch

from kernellab.build.cuda import Kernel
from kernellab.build.cuda import kernel as cuda_kernel
from kernellab.ops.cross_entropy.loss import Settings, new_saved
from kernellab.ops.floats import CUDA_NAMES, require_float, vector_width
from kernellab.ops.gpus import arrivals, sm_count
from kernellab.ops.rows_cuda import cpp_bool, power_of_2, same_alignment

NARROW_BLOCK = 128  # threads per block if a team is a warp or less; as in cuda.cu
NARROW_BLOCKS_PER_SM = 8  # at most so many, which go through the rows together
# (accesses in a row up to, threads that share it). An access is 16 bytes, or one element of a row with gaps.
FORWARD_TEAMS = ((512, 32), (2048, 128), (8192, 256), (None, 512))
PER_LANE = 4  # accesses per lane below a warp
# Few wide rows are split among blocks, so that every SM has this many of them.
BLOCKS_PER_SM, MOST_PARTS, LEAST_PER_PART = 4, 32, 2048
# Backward has no reduction: a block takes a piece of a row, (threads, accesses per thread).
BACKWARD_BLOCK = (128, 2)
MOST_PER_LANE = 8  # up to so many accesses per lane, a warp takes a row


def forward(logits: torch.Tensor, target: torch.Tensor, settings: Settings) -> tuple[torch.Tensor, torch.Tensor]:
    require_float(logits, "cross_entropy")
    rows, cols = logits.shape
    x_row, x_col = logits.stride()
    name = CUDA_NAMES[logits.dtype]
    reduced = settings.reduction != "none"
    saved = new_saved(logits, settings.reduction)
    result = logits.new_empty(() if reduced else rows)
    smooth = cpp_bool(settings.label_smoothing > 0)
    labels, mean = (target.stride(0), settings.ignore_index), int(settings.reduction == "mean")
    width = 16 // logits.element_size() if x_col == 1 else 1
    accesses = cols // width
    team = next(threads for limit, threads in FORWARD_TEAMS if limit is None or accesses <= limit)
    parts = _parts(rows, accesses, logits.device) if rows and team == FORWARD_TEAMS[-1][1] else 1
    # Wide rows have a kernel of its own for it: each of their many blocks would have to wait until it is counted.
    apart = reduced and (team > 32 or not rows)
    losses = logits.new_empty(rows, dtype=torch.float32) if apart else result
    loss_name, fused = CUDA_NAMES[losses.dtype], cpp_bool(reduced and not apart)

    def launch(kernel_name: str, blocks: int, threads: int, *more: torch.Tensor | int) -> None:
        tallies, counter = (saved, saved)
        if reduced and not apart:
            tallies, counter = logits.new_empty(2 * blocks, dtype=torch.float32), arrivals(logits.device)
        kernel(kernel_name)(
            *(blocks, threads, logits, target, losses, saved, rows, cols, x_row, x_col, *labels),
            *(float(settings.label_smoothing), result, tallies, counter, mean, *more),
        )

    if rows and team == 32:
        lanes = min(team, power_of_2(-(-accesses // PER_LANE)))
        aligned = cpp_bool(width == 1 or vector_width([logits], cols, x_row) > 1)
        blocks = min(-(-rows * lanes // NARROW_BLOCK), NARROW_BLOCKS_PER_SM * sm_count(logits.device))
        kind = f"{name}, {width}, {aligned}, {lanes}, {smooth}, {fused}, {loss_name}"
        launch(f"cross_entropy_narrow<{kind}>", blocks, NARROW_BLOCK)
    elif rows:
        partial = logits.new_empty(rows * parts * 3, dtype=torch.float32) if parts > 1 else saved
        kind = f"{name}, {width}, {team}, {smooth}, {cpp_bool(parts > 1)}, {loss_name}"
        launch(f"cross_entropy_wide<{kind}>", rows * parts, team, partial, parts)
        if parts > 1:
            launch(f"cross_entropy_join<{name}, {smooth}, {loss_name}>", rows, 32, partial, parts)
    if apart:
        kernel(f"cross_entropy_reduce<{name}>")(1, 1024, losses, target, result, saved, rows, *labels, mean)
    return result, saved


def backward(
    upstream: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, saved: torch.Tensor, settings: Settings
) -> torch.Tensor:
    dx = torch.empty_like(logits, memory_format=torch.contiguous_format)
    rows, cols = logits.shape
    x_row, x_col = logits.stride()
    if not rows:
        return dx
    width = 16 // logits.element_size() if same_alignment(logits, dx) else 1
    aligned = cpp_bool(width == 1 or vector_width([logits, dx], cols, x_row) > 1)
    accesses = cols // width
    if accesses <= 32 * MOST_PER_LANE:
        lanes, parts = min(32, power_of_2(-(-accesses // PER_LANE))), 1
        vecs = power_of_2(-(-accesses // lanes))
    else:
        lanes, vecs = BACKWARD_BLOCK
        parts = -(-accesses // (lanes * vecs))
    smoothing = float(settings.label_smoothing)
    kernel(f"cross_entropy_backward<{CUDA_NAMES[logits.dtype]}, {width}, {aligned}, {lanes}, {vecs}>")(
        *_launch(rows, lanes, parts),
        *(logits, target, saved, upstream, dx, rows, cols, x_row, x_col),
        *(target.stride(0), settings.upstream_step(upstream), settings.ignore_index),
        *(smoothing, smoothing / cols, int(settings.reduction == "mean"), parts),
    )
    return dx


def _launch(rows: int, lanes: int, parts: int) -> tuple[int, int]:
    """Blocks and threads per block for teams of `lanes` threads, `parts` of them per row."""
    threads = max(lanes, NARROW_BLOCK)
    return -(-rows * parts * lanes // threads), threads


def _parts(rows: int, accesses: int, device: torch.device) -> int:
    """Blocks per row: more than one only where rows are few and wide."""
    return max(1, min(BLOCKS_PER_SM * sm_count(device) // rows, MOST_PARTS, accesses // LEAST_PER_PART))


@functools.cache
def kernel(name: str) -> Kernel:
    return cuda_kernel("cuda.cu", name)
