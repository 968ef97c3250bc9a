"""Waits for a GPU, and tests whether this process can still use it."""

from __future__ import annotations

import torch


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has finished its work. Raises the error of a kernel that faulted."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def raise_pending_error(device: torch.device) -> None:
    """Wait for a GPU, and raise an error that a launch has left behind.

    A launch that CUDA refuses (a grid of 0 blocks) only sets an error that the next checked launch raises. Without
    this check, that launch belongs to somebody else.
    """
    synchronise(device)
    if device.type == "cuda":
        torch.zeros(1, device=device)


def gpu_is_dead(device: torch.device) -> bool:
    """Whether a fault has made the GPU unusable for this process.

    A fault raises at every attempt; an error that a refused launch has left behind raises at the first one only.
    """
    if device.type != "cuda":
        return False
    for _ in range(2):
        try:
            raise_pending_error(device)
            torch.zeros(1, device=device).item()
        except Exception:
            continue
        return False
    return True
