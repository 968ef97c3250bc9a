"""How pipeline.cuh divides rows: among groups of warps, blocks of a cluster, and stages in shared memory."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.build.cuda import Kernel
from kernellab.ops.gpus import has_clusters, shared_bytes, sm_count

WARPS = 16  # of a block; as MOST_WARPS in pipeline.cuh
PER_SM = 1
VECS = 4  # accesses of a row that a thread takes
MOST_STAGES, LEAST_STAGES = 8, 3  # of which one is read, one is finished, and the others are fetched
MOST_BLOCKS = 8  # of a cluster, that every GPU with clusters supports
_STATIC_BYTES = 3072  # of shared memory, beside the stages: barriers, and what threads exchange
_ACCESS_BYTES = 16


class Division(NamedTuple):
    """How rows are divided. `teams` clusters of `blocks` are as many as run at a time."""

    warps: int  # of a group
    threads: int  # of a block
    blocks: int
    teams: int
    stages: int
    shared: int  # bytes

    @property
    def cluster(self) -> int | None:
        return self.blocks if self.blocks > 1 else None


def divide(
    rows: int, accesses: int, inputs: int, device: torch.device, *, vecs: int = VECS, one_more: bool = False
) -> Division | None:
    """For rows of 16-byte accesses; None where the GPU has no copy engine, or the rows are too narrow or too wide."""
    per_sm = PER_SM
    if not has_clusters(device) or accesses < 32 * vecs:
        return None
    blocks = 1
    while blocks * WARPS * 32 * vecs < accesses:
        blocks *= 2
    if blocks > MOST_BLOCKS:
        return None
    warps = -(-accesses // (blocks * 32 * vecs))
    groups = WARPS // warps
    stage = inputs * groups * warps * 32 * vecs * _ACCESS_BYTES
    more = stage // inputs if one_more else 0
    stages = min(MOST_STAGES, (shared_bytes(device) // per_sm - _STATIC_BYTES - more) // stage)
    if stages < LEAST_STAGES:
        return None
    sms = sm_count(device)
    at_a_time = PER_SM * (sms if blocks == 1 else max(1, sms // (2 * blocks) * 2))
    return Division(warps, groups * warps * 32, blocks, min(at_a_time, -(-rows // groups)), stages, stages * stage + more)


def teams_at_a_time(run: Kernel, division: Division, device: torch.device) -> int:
    """How many clusters to launch. Some groups of SMs have no room for one more cluster of four blocks or more."""
    if division.blocks == 1:
        return division.teams
    most = run.clusters_at_a_time(division.threads, division.shared, division.blocks, device)
    return division.teams if most is None else min(division.teams, most)
