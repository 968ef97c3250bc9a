"""One side of a comparison: the runs before or after, and what they say about their machine and versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernellab.base.errors import UserError
from kernellab.record.derived import DerivedRecord
from kernellab.record.schema import Record
from kernellab.record.verdict import derive

_CHECKS = ("check", "battery", "sanitize")


@dataclass(frozen=True)
class Side:
    """Runs of one version of the code, on one kind of machine. `name` is how the user calls them."""

    name: str
    records: Sequence[Record]

    @cached_property
    def derived(self) -> list[DerivedRecord]:
        return [derive(record) for record in self.records]

    @cached_property
    def devices(self) -> list[str]:
        """The kinds of device: a GPU's model, or the CPU with its threads. Usually one."""
        return _distinct([_device(record) for record in self.records])

    @cached_property
    def machine_classes(self) -> list[str]:
        """The classes under which a machine's variation from run to run is stored. Usually one."""
        return _distinct([record["machine"].get("class") or record["machine"]["name"] for record in self.records])

    @cached_property
    def boards(self) -> list[str]:
        """The devices with their serial numbers. Usually one."""
        return _distinct([record["machine"]["name"] for record in self.records])

    @cached_property
    def commits(self) -> list[str]:
        """The commits of the working directories. Usually one."""
        return _distinct([commit for record in self.records if (commit := record["environment"].get("commit"))])

    @cached_property
    def checks(self) -> list[str]:
        """The stages that every run of this side had and that can find a result wrong."""
        return [name for name in _CHECKS if all(name in record["stages"] for record in self.records)]

    @cached_property
    def versions(self) -> dict[str, str]:
        """Versions by name. If the runs differ, all of theirs."""
        versions: dict[str, list[str]] = {}
        for record in self.records:
            for name, version in _versions(record).items():
                versions.setdefault(name, []).append(version or "none")
        return {name: " and ".join(_distinct(found)) for name, found in versions.items()}


def refuse_empty(side: Side) -> None:
    """A UserError where a side has a run without anything in it."""
    if not side.records:
        raise UserError(f"no run to compare: {side.name} is empty")
    for record in side.records:
        if not record["machine"]:
            raise UserError(f"a run of {side.name} ended before anything was planned: name another run")


def _device(record: Record) -> str:
    """The model of the GPU without its driver, so that a change of driver is a change of version."""
    machine = record["machine"]
    boards = record["environment"].get("gpus") or ()
    model = next((board["name"] for board in boards if board["uuid"] and board["uuid"] in machine["name"]), None)
    return model or machine.get("class") or machine["name"]


def _versions(record: Record) -> dict[str, str | None]:
    environment, machine = record["environment"], record["machine"]
    drivers = [board["driver"] for board in environment.get("gpus") or () if board["uuid"] in machine["name"]]
    peers = {name: peer["version"] for name, peer in record["peers"].items()}
    return {
        **environment["packages"],
        **({"driver": drivers[0]} if drivers else {}),
        **({"CUDA of torch": machine["cuda"]} if machine.get("cuda") else {}),
        **peers,
        "python": environment["python"],
    }


def _distinct(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))
