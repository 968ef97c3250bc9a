"""Ops along the last dim in CUDA C++: what the launches of kernels that use teams.cuh are chosen by."""

from __future__ import annotations

import torch

from kernellab.ops.gpus import has_clusters

TEAM_BLOCK = (
    512  # threads of a block in a cluster: two such blocks share an SM, so that one loads while the other stores
)
MOST_THREADS = 1024  # of a block, which very wide rows take
CLUSTER_BLOCKS = 8  # the most that every GPU with clusters supports


def same_alignment(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether the columns of both are neighbours, and every row of x starts at the same offset from a multiple of 16
    bytes as that of y: then `Peeled` of teams.cuh fits both.

    >>> x = torch.empty(4, 9)
    >>> same_alignment(x, torch.empty(4, 9)), same_alignment(x[:, 1:], torch.empty(4, 8)), same_alignment(x, x.t())
    (True, False, False)
    """
    shift = (x.data_ptr() - y.data_ptr()) % 16
    row_shift = (x.stride(0) - y.stride(0)) * x.element_size() % 16 if x.shape[0] > 1 else 0
    return x.stride(1) == y.stride(1) == 1 and not shift and not row_shift


def team_of(cols: int, vecs: int, device: torch.device) -> tuple[int, int]:
    """Blocks for a row of `cols` accesses, of which a thread holds `vecs`, and threads per block: where these are more
    than MOST_THREADS, the row does not fit."""
    team = 1
    if has_clusters(device):
        team = min(power_of_2(-(-cols // (TEAM_BLOCK * vecs))), CLUSTER_BLOCKS)
    return team, -(-cols // (team * vecs * 32)) * 32  # no warp without work


def power_of_2(n: int) -> int:
    """The lowest power of 2 that is not below n; 1 for 0."""
    return 1 << max(n - 1, 0).bit_length()
