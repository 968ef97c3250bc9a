"""Guard bands: poisoned memory around tensors. Reading it brings NaN into the result; writing to it is detected.

`GuardedMemory` allocates memory for inputs. `GuardedAllocations` is active during a call and does the same for what
the implementation allocates through torch. Fresh memory is poisoned too, so that an output that is not fully written
keeps some poison. Allocations inside torch's own C++ ops are not guarded. While the mode is active, torch.compile
does not compile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch.utils.dlpack import from_dlpack

from kernellab.base.operator_mode import AnyOverload, OperatorMode

BAND_BYTES = 1 << 14  # a multiple of every alignment torch uses, and of a block of 4096 floats
_POISON = 0x7FFF  # repeated, it is NaN in every float type; as an integer it is far out of range
# Repeated, it is float16's largest number, and in wider types a number whose square overflows; and its negative.
LARGE, MINUS_LARGE = 0x7BFF, 0x7BFF - 0x8000


class GuardedMemory:
    """Allocates memory with a guard band on either side."""

    def __init__(self, *, bands: bool = True, poison: bool = True, filling: int = _POISON) -> None:
        """`bands`: whether there are guard bands. `poison`: whether fresh memory is poisoned rather than 0.
        `filling`: the 16-bit pattern that fills the bands and poisons the memory."""
        self._bands, self._poison, self._filling = bands, poison, filling
        self._blocks: list[tuple[torch.Tensor, int]] = []  # the memory with its bands, and the bytes between them
        self._parts: dict[str, GuardedMemory] = {}

    def part(self, name: str) -> GuardedMemory:
        """Memory of the same kind for one of several tensors; `overwritten_parts` names those that were overwritten."""
        return self._parts.setdefault(
            name, GuardedMemory(bands=self._bands, poison=self._poison, filling=self._filling)
        )

    def allocate(
        self, numel: int, dtype: torch.dtype, device: torch.device, *, untouched: bool = False, reach: int = 0
    ) -> torch.Tensor:
        """A flat tensor. `untouched` leaves the memory between the bands unwritten, so that its pages stay unmapped.

        `reach`: the elements that code expects here which ignores strides of 0. The band behind covers them all, so
        that such code overwrites nothing else.
        """
        payload = numel * dtype.itemsize
        padded = -(-payload // 8) * 8
        band = BAND_BYTES if self._bands else 0
        farther = -(-max(0, reach - numel) * dtype.itemsize // 8) * 8 if band else 0
        block = torch.empty((2 * band + padded + farther) // 2, dtype=torch.int16, device=device)
        if not untouched:
            block.fill_(self._filling if self._poison else 0)
        block[: band // 2].fill_(self._filling)
        block[(band + payload + 1) // 2 :].fill_(self._filling)
        if band:
            self._blocks.append((block, payload))
        inside = block.view(torch.uint8)[band : band + payload].view(dtype)
        # DLPack gives it a storage of its own that begins here: fresh tensors begin where their storage does, and code
        # that calls `as_strided` on one relies on that.
        return from_dlpack(inside) if payload else inside

    def overwritten_parts(self) -> list[str]:
        """The names of the parts with a guard band that has been written to. Waits for the device."""
        return [name for name, memory in self._parts.items() if memory.overwritten()]

    def overwritten(self) -> bool:
        """Whether a guard band has been written to, of a part or of other memory. Waits for the device."""
        if self.overwritten_parts():
            return True
        before = BAND_BYTES // 2
        for block, payload in self._blocks:
            behind = before - (-payload // 2)
            if bool((block[:before] != self._filling).any()) or bool((block[behind:] != self._filling).any()):
                return True
        return False


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The number of elements from the first to the last element of a strided tensor, both included."""
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0


_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
# What fills each of the others; None: the argument `fill_value`, the last that has no name.
_FILLED = {
    f"{prefix}{name}{suffix}": value
    for name, value in (("zeros", 0), ("ones", 1), ("full", None))
    for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))
}


class GuardedAllocations(OperatorMode):
    """While active, what is allocated through torch lies between guard bands."""

    def __init__(self, memory: GuardedMemory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        options = dict(kwargs or {})
        name = func.overloadpacket.__name__
        device = _device_of_allocation(args, options) if name in _EMPTY or name in _FILLED else None
        if device is None:
            return func(*args, **options)
        form = func(*args, **{**options, "device": "meta"})
        assert isinstance(form, torch.Tensor)
        elements = span(form.shape, form.stride())
        flat = self._memory.allocate(elements, form.dtype, device, untouched=name in _FILLED)
        tensor = flat.as_strided(form.shape, form.stride(), flat.storage_offset())
        if name in _FILLED:
            value = _FILLED[name]
            tensor.fill_(cast(float, options.get("fill_value", args[-1])) if value is None else value)
        return tensor


def _device_of_allocation(args: Sequence[object], options: Mapping[str, object]) -> torch.device | None:
    """Where an allocation goes, or None for one that is not guarded: pinned memory, sparse tensors, other devices.

    With `out=` nothing is allocated.
    """
    if "out" in options or options.get("pin_memory") or options.get("layout") not in (None, torch.strided):
        return None
    like = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if like is not None and like.layout is not torch.strided:
        return None
    requested = options.get("device")
    if isinstance(requested, (str, int, torch.device)):
        device = torch.device(requested)
    else:
        device = like.device if like is not None else torch.get_default_device()
    return device if device.type in ("cpu", "cuda") else None
