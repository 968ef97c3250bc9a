"""Keeps what a trial must come to unreadable while foreign code runs.

An implementation can find every object of its process: with the garbage collector, or in the frames that called it. So
the oracle and the peer's results are encrypted whenever an implementation is about to run, and the key leaves the
process. It comes back once. An implementation that asks for it is found, because kernellab then asks in vain.
"""

from __future__ import annotations

import copy
import dataclasses
import secrets
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar, cast

import numpy as np
import torch

from kernellab.accuracy.prepared_trial import PreparedTrial

_OPEN_FIELDS = ("inputs", "memory", "pristine")  # what an implementation is given anyway
_CHUNK_WORDS = 1 << 22  # encrypted at once
_KEY_BITS = 62
_PLAIN = {int, float, bool, str, type(None), torch.dtype}  # most values, and none holds a tensor
_PACKAGE = "kernellab.accuracy."  # objects of these modules are walked through
_Value = TypeVar("_Value")


class OracleDisturbed(Exception):
    """Somebody asked for the key before kernellab did, or changed what is locked."""


class KeyKeeper(Protocol):
    """Keeps keys outside this process."""

    def keep(self, key: int, checksum: int) -> int:
        """Take a key and a checksum away; returns a ticket for them."""

    def release(self, ticket: int) -> tuple[int, int] | None:
        """The key and the checksum of a ticket, once. None: they were released before."""


@dataclasses.dataclass(frozen=True)
class LockedTrial:
    """A prepared trial. With a ticket, everything but its inputs is encrypted; shapes, dtypes and strides are not."""

    prepared: PreparedTrial
    ticket: int | None


class Vault:
    """Locks and unlocks prepared trials. Without a keeper they stay readable: the process trusts its own code."""

    def __init__(self, keeper: KeyKeeper | None = None) -> None:
        self._keeper = keeper

    def lock(self, prepared: PreparedTrial) -> LockedTrial:
        if self._keeper is None:
            return LockedTrial(prepared, None)
        key = secrets.randbits(_KEY_BITS)
        keystream, checksum = _Keystream(key), _Checksum()
        locked = _copy(prepared, lambda t: checksum.add(keystream.apply(t)))
        return LockedTrial(locked, self._keeper.keep(key, checksum.total))

    def unlock(self, locked: LockedTrial) -> PreparedTrial:
        """Raises OracleDisturbed."""
        if self._keeper is None or locked.ticket is None:
            return locked.prepared
        kept = self._keeper.release(locked.ticket)
        if kept is None:
            raise OracleDisturbed("asked for the oracle while it ran")
        key, kept_checksum = kept
        keystream, checksum = _Keystream(key), _Checksum()
        prepared = _copy(locked.prepared, lambda t: keystream.apply(checksum.add(t)))
        if checksum.total != kept_checksum:
            raise OracleDisturbed("changed what its result is compared with")
        return prepared


class _Checksum:
    """Of all tensors that are locked, in the order in which they are walked."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, t: torch.Tensor) -> torch.Tensor:
        words, rest = _memory(t)
        self.total = (self.total * 31 + int(words.sum()) + int(rest.sum())) % (1 << 62)
        return t


def _copy(prepared: PreparedTrial, change: Callable[[torch.Tensor], torch.Tensor]) -> PreparedTrial:
    given = (t for inputs in (prepared.inputs, prepared.pristine) for t in inputs.values() if t is not None)
    walk = _Walk(given, change)
    fields = {field.name: getattr(prepared, field.name) for field in dataclasses.fields(prepared)}
    return dataclasses.replace(prepared, **{k: walk.copy(v) for k, v in fields.items() if k not in _OPEN_FIELDS})


def _memory(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The memory that a tensor lies in: whole words, and the bytes that are left."""
    data = torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.detach().untyped_storage())
    whole = data.numel() // 8 * 8
    return data[:whole].view(torch.int64), data[whole:]


class _Walk:
    """Copies values with the tensors inside them replaced by `change(tensor)`; tensors in `given` are kept.

    Copies, because a tensor may belong to somebody else: a reference may return a table that implementations read too.
    """

    def __init__(self, given: Iterable[torch.Tensor], change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._given = {_address(t) for t in given}
        self._change = change
        self._copies: dict[int, object] = {}  # by the original's id, so that what was shared is shared again
        self._originals: list[object] = []  # kept alive, so that no id is used twice

    def copy(self, value: _Value) -> _Value:
        if type(value) in _PLAIN:
            return value
        if id(value) not in self._copies:
            self._originals.append(value)
            self._copies[id(value)] = self._copy(value)
        return cast(_Value, self._copies[id(value)])

    def _copy(self, value: object) -> object:
        match value:
            case torch.Tensor():
                return value if value._is_zerotensor() or _address(value) in self._given else self._change(value)
            case tuple() if type(value) is tuple:
                return tuple(self.copy(item) for item in value)
            case list():
                return [self.copy(item) for item in value]
            case dict():
                return {key: self.copy(item) for key, item in value.items()}
            case _ if type(value).__module__.startswith(_PACKAGE) and hasattr(value, "__dict__"):
                changed = copy.copy(value)
                for name, item in vars(value).items():
                    object.__setattr__(changed, name, self.copy(item))  # also where the class is frozen
                return changed
            case _:
                return value


class _Keystream:
    """The pseudorandom words of a key. Each tensor gets the next of them, in the order in which they are walked.

    Applied twice with one key, it gives the original.
    """

    def __init__(self, key: int) -> None:
        self._key = key
        self._on_cpu = np.random.SFC64(key)
        self._on_gpu: dict[torch.device, torch.Generator] = {}

    def apply(self, t: torch.Tensor) -> torch.Tensor:
        """The tensor with the bits of its memory changed: same shape, same strides, memory of its own."""
        changed = torch.empty(0, dtype=t.dtype, device=t.device)
        changed.set_(t.detach().untyped_storage().clone(), t.storage_offset(), t.shape, t.stride())
        words, rest = _memory(changed)
        for chunk in words.split(_CHUNK_WORDS):
            chunk.bitwise_xor_(self._words(chunk.numel(), t.device))
        if rest.numel():
            rest.bitwise_xor_(self._words(1, t.device).view(torch.uint8)[: rest.numel()])
        return changed

    def _words(self, count: int, device: torch.device) -> torch.Tensor:
        if device.type != "cuda":
            return torch.from_numpy(self._on_cpu.random_raw(count).view(np.int64))
        if device not in self._on_gpu:
            self._on_gpu[device] = torch.Generator(device).manual_seed(self._key)
        words = torch.empty(count, dtype=torch.int64, device=device)
        return words.random_(-(1 << 63), None, generator=self._on_gpu[device])


def _address(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr() if not t._is_zerotensor() else 0
