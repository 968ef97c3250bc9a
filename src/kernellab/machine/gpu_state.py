"""Waits for a GPU, and tests whether this process can still use it."""

from __future__ import annotations

import torch


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has finished its work. Raises the error of a kernel that faulted."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def gpu_is_dead(device: torch.device) -> bool:
    """Whether a fault has made the GPU unusable for this process."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
        torch.zeros(1, device=device).item()
    except Exception:
        return True
    return False
