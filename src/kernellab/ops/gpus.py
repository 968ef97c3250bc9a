"""What launches depend on besides the tensors: properties of the GPU they are on."""

from __future__ import annotations

import functools

import torch

# Assumed for a tensor that is on no GPU, as while a kernel is only compiled.
_SMS, _SHARED_BYTES = 132, 48 * 1024


@functools.cache
def capability(device: torch.device) -> tuple[int, int]:
    """The GPU's architecture, such as (9, 0)."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)


def has_clusters(device: torch.device) -> bool:
    """Whether blocks can be launched as clusters, which share their shared memory."""
    return capability(device) >= (9, 0)


@functools.cache
def sm_count(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else _SMS


@functools.cache
def shared_bytes(device: torch.device) -> int:
    """The most shared memory that a block may have."""
    if device.type != "cuda":
        return _SHARED_BYTES
    # torch's type stubs do not have it.
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)  # type: ignore[attr-defined]


def arrivals(device: torch.device) -> torch.Tensor:
    """A counter of blocks, which is 0 before and after every kernel that counts with it.

    Kernels of one stream, which run one after the other, share one. A CUDA graph may be replayed on any stream, and
    gets its own.
    """
    if device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return torch.zeros(1, dtype=torch.int32, device=device)
    return _arrivals(device, torch.cuda.current_stream(device).cuda_stream)


def is_arrival_counter(x: torch.Tensor) -> bool:
    """Whether a tensor is the counter of a stream, which stays at its address."""
    return any(x is counter for counter in list(_counters.values()))


_counters: dict[tuple[torch.device, int], torch.Tensor] = {}


def _arrivals(device: torch.device, stream: int) -> torch.Tensor:
    counter = _counters.get((device, stream))
    if counter is None:
        # Of two threads that come here at the same time, both get the counter of one.
        counter = _counters.setdefault((device, stream), torch.zeros(1, dtype=torch.int32, device=device))
    return counter
