"""How norms_pipeline.cuh divides rows: among groups of warps, blocks of a cluster, and stages in shared memory."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.build.cuda import Kernel
from kernellab.ops.gpus import has_clusters, shared_bytes, sm_count

STAGES = 3  # as in norms_pipeline.cuh
MOST_BLOCKS = 8  # of a cluster, that every GPU with clusters supports
_BLOCK_ACCESSES = 2048  # of a row, that all threads of a block take together
_STATIC_BYTES = 3072  # of shared memory, beside the stages: barriers, and messages
_ACCESS_BYTES = 16


class Division(NamedTuple):
    """How rows are divided among `groups` of `warps` each in a block, and among `blocks` of a cluster. A thread takes
    `vecs` accesses of a row."""

    device: torch.device
    rows: int
    vecs: int
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
        run(self.teams(run), self._threads, *args, self.warps, shared=self.shared, cluster=cluster)

    @property
    def _threads(self) -> int:
        return self.groups * self.warps * 32


def divide(rows: int, accesses: int, device: torch.device, *, centred: bool) -> Division | None:
    """For rows of 16-byte accesses; None where the GPU has no copy engine, or the rows are too narrow or too wide.

    The weights of a norm that is centred are in shared memory, and its threads take twice as many accesses: the sums
    that they keep need twice the registers, and half as many threads have room for them.
    """
    vecs = 8 if centred else 4
    if not has_clusters(device) or accesses < 32 * vecs:
        return None
    blocks = 1
    while blocks * _BLOCK_ACCESSES < accesses:
        blocks *= 2
    warps = -(-accesses // (blocks * 32 * vecs))
    groups = _BLOCK_ACCESSES // (32 * vecs) // warps
    shared = (STAGES * 2 + int(centred)) * groups * warps * 32 * vecs * _ACCESS_BYTES
    if blocks > MOST_BLOCKS or shared > shared_bytes(device) - _STATIC_BYTES:
        return None
    return Division(device, rows, vecs, warps, groups, blocks, shared)
