"""Counters of the energy that a device has used: NVML's for a GPU, the kernel's RAPL zones for a CPU. Only read."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Protocol

from kernellab.machine.nvml import Nvml

POWERCAP = Path("/sys/class/powercap")
_MIG_ENABLED = 1  # NVML_DEVICE_MIG_ENABLE


class EnergyUnknown(Exception):
    """The energy cannot be measured; the message is a sentence that says why."""


class EnergyCounter(Protocol):
    """`name`: as in the record."""

    name: str

    def joules(self) -> float:
        """The energy since an arbitrary moment; raises `EnergyUnknown` if the counter does not answer."""


def counter_of(device_id: str) -> EnergyCounter:
    """The counter of `cpu`, or of a GPU by its UUID; raises `EnergyUnknown` where there is none to read."""
    return RaplCounter() if device_id == "cpu" else NvmlCounter(Nvml(device_id))


class NvmlCounter:
    """The energy of a whole GPU board, with its memory, in millijoules."""

    name = "nvml"
    _QUERY = "nvmlDeviceGetTotalEnergyConsumption"

    def __init__(self, gpu: Nvml) -> None:
        self._gpu = gpu
        if not gpu.available:
            raise EnergyUnknown("NVML does not answer: klab doctor says what is missing")
        mode = gpu.ask("nvmlDeviceGetMigMode")
        if isinstance(mode, (list, tuple)) and mode and mode[0] == _MIG_ENABLED:
            raise EnergyUnknown("the GPU is divided by MIG, and its energy counter counts all of its parts")
        self.joules()

    def joules(self) -> float:
        millijoules = self._gpu.number(self._QUERY)
        if millijoules is None:
            raise EnergyUnknown(f"the driver gives no energy counter of this GPU ({self._gpu.refusal(self._QUERY)})")
        return millijoules / 1e3


class RaplCounter:
    """The energy of all CPU packages and of the memory where it is counted, in microjoules. Zones wrap around."""

    name = "rapl"

    def __init__(self, powercap: Path = POWERCAP) -> None:
        self._zones = [_Zone(folder) for folder in _zone_folders(powercap)]
        if not self._zones:
            raise EnergyUnknown(f"this machine has no counter of the CPU's energy: {powercap} has no RAPL zones")

    def joules(self) -> float:
        return sum(zone.joules() for zone in self._zones)


class _Zone:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "energy_uj"
        self._range_uj = _read(folder / "max_energy_range_uj")
        self._last_uj = _read(self._file)
        self._total_uj = 0

    def joules(self) -> float:
        now_uj = _read(self._file)
        step_uj = now_uj - self._last_uj
        self._total_uj += step_uj if step_uj >= 0 else step_uj + self._range_uj
        self._last_uj = now_uj
        return self._total_uj / 1e6


def _zone_folders(powercap: Path) -> list[Path]:
    """The zones of packages, and of the memory in them; not those of cores, which packages include."""
    folders = []
    for folder in sorted(powercap.glob("intel-rapl:*")):  # the name of AMD's too
        try:
            name = (folder / "name").read_text().strip()
        except OSError:
            continue
        if name.startswith("package") or name == "dram":
            folders.append(folder)
    return folders


def _read(file: Path) -> int:
    try:
        return int(file.read_text())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise EnergyUnknown(f"the CPU's energy counter may be read by root only: {file}") from None
        raise EnergyUnknown(f"the CPU's energy counter cannot be read: {file}: {error.strerror}") from None
    except ValueError:
        raise EnergyUnknown(f"the CPU's energy counter cannot be read: {file} holds no number") from None
