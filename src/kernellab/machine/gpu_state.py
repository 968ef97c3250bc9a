"""Waiting for a GPU, and whether it still works for this process."""

from __future__ import annotations

import torch


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has finished its work. A fault in a kernel is raised here."""
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
