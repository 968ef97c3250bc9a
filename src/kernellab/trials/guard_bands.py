"""Memory with poison around it: reading beyond it brings NaN into the result, writing beyond it shows.

`Fence` makes room for inputs. `Fenced` is in force during a call and fences what the way allocates through
torch, filled with poison too: an output that is not wholly written keeps some. Allocations inside torch's own
C++ ops are out of its sight. While it is in force torch.compile does not compile.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.dlpack import from_dlpack

_BAND_BYTES = 1 << 14  # a multiple of every alignment torch gives, and of a block of 4096 floats
_POISON = 0x7FFF  # repeated, it is NaN in every float type; as an integer it is far out of range
# Repeated, it is float16's largest number, and in wider types one whose square overflows; and its negative.
LARGE, MINUS_LARGE = 0x7BFF, 0x7BFF - 0x8000


class Fence:
    """Rooms with a band of poison on either side."""

    def __init__(self, *, bands: bool = True, poison: bool = True, filling: int = _POISON) -> None:
        self._bands, self._poison, self._filling = bands, poison, filling
        self._rooms: list[tuple[torch.Tensor, int]] = []

    def room(self, numel: int, dtype: torch.dtype, device: torch.device, *, vast: bool = False) -> torch.Tensor:
        """A flat tensor of so many elements. Poison fills it too, unless it is so vast that it had better be lazy."""
        payload = numel * dtype.itemsize
        padded = -(-payload // 8) * 8
        band = _BAND_BYTES if self._bands else 0
        whole = torch.empty((2 * band + padded) // 2, dtype=torch.int16, device=device)
        if not vast:
            whole.fill_(self._filling if self._poison else 0)
        whole[: band // 2].fill_(self._filling)
        whole[(band + payload + 1) // 2 :].fill_(self._filling)
        if band:
            self._rooms.append((whole, payload))
        inside = whole.view(torch.uint8)[band : band + payload].view(dtype)
        # Through DLPack it gets a storage of its own that begins here: fresh tensors begin where their storage does,
        # and code that takes `as_strided` of one relies on it.
        return from_dlpack(inside) if payload else inside

    def broken(self) -> bool:
        """Whether a band has been written to. Waits for the device."""
        before = _BAND_BYTES // 2
        for whole, payload in self._rooms:
            behind = before - (-payload // 2)
            if bool((whole[:before] != self._filling).any()) or bool((whole[behind:] != self._filling).any()):
                return True
        return False


_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_FILLED = frozenset(
    f"{prefix}{what}{suffix}"
    for what in ("zeros", "ones", "full")
    for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))
)


class Fenced(TorchDispatchMode):
    """What is allocated while this is in force lies between bands."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: saying yes imports torch's compiler at the first allocation, which takes seconds."""
        return False

    def __init__(self, fence: Fence) -> None:
        super().__init__()
        self._fence = fence

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name not in _EMPTY and name not in _FILLED:
            return func(*args, **kwargs)
        if kwargs.get("pin_memory") or kwargs.get("layout") not in (None, torch.strided):
            return func(*args, **kwargs)
        like = args[0] if args and isinstance(args[0], torch.Tensor) else None
        device = torch.device(kwargs.get("device") or (like.device if like is not None else torch.get_default_device()))
        if device.type not in ("cpu", "cuda") or (like is not None and like.layout is not torch.strided):
            return func(*args, **kwargs)
        form = func(*args, **{**kwargs, "device": "meta"})
        reach = 1 + sum((n - 1) * s for n, s in zip(form.shape, form.stride(), strict=True)) if form.numel() else 0
        room = self._fence.room(reach, form.dtype, device)
        made = room.as_strided(form.shape, form.stride(), room.storage_offset())
        if name in _FILLED:
            made.copy_(func(*args, **kwargs))
        return made
