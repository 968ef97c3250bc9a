"""How pipeline.cuh divides rows: among groups of warps, blocks of a cluster, and stages in shared memory."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.build.cuda import Kernel
from kernellab.ops.gpus import has_clusters, shared_bytes, sm_count

VECS = 4  # accesses of a row that a thread takes
WARPS = 16  # of a block: one on each SM, with 128 registers for a thread
# One is read, one may still be needed for results, and one is fetched. More did not help on an H200 (2026-11-16).
STAGES = 3
MOST_BLOCKS = 8  # of a cluster, that every GPU with clusters supports
_STATIC_BYTES = 3072  # of shared memory, beside the stages: barriers, and what threads exchange
_ACCESS_BYTES = 16


class Division(NamedTuple):
    """How rows are divided among `groups` of `warps` each in a block, and among `blocks` of a cluster."""

    device: torch.device
    rows: int
    warps: int
    groups: int
    blocks: int
    shared: int  # bytes

    def teams(self, run: Kernel) -> int:
        """How many clusters to launch: as many as run at a time. Some SMs may be too few for another cluster."""
        most = max(1, sm_count(self.device) // self.blocks)
        if self.blocks > 1:
            most = run.clusters_at_a_time(self._threads, self.shared, self.blocks, self.device) or most
        return min(most, -(-self.rows // self.groups))

    def launch(self, run: Kernel, *args: object) -> None:
        cluster = self.blocks if self.blocks > 1 else None
        run(self.teams(run), self._threads, *args, self.warps, STAGES, shared=self.shared, cluster=cluster)

    @property
    def _threads(self) -> int:
        return self.groups * self.warps * 32


def divide(rows: int, accesses: int, inputs: int, device: torch.device, *, parameters: int = 0) -> Division | None:
    """For rows of 16-byte accesses, and so many parameters of a column in shared memory; None where the GPU has no
    copy engine, or the rows are too narrow or too wide."""
    if not has_clusters(device) or accesses < 32 * VECS:
        return None
    blocks = 1
    while blocks * WARPS * 32 * VECS < accesses:
        blocks *= 2
    warps = -(-accesses // (blocks * 32 * VECS))
    groups = WARPS // warps
    shared = (STAGES * inputs + parameters) * groups * warps * 32 * VECS * _ACCESS_BYTES
    if blocks > MOST_BLOCKS or shared > shared_bytes(device) - _STATIC_BYTES:
        return None
    return Division(device, rows, warps, groups, blocks, shared)
