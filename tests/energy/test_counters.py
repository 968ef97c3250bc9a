"""Counters of energy: NVML's through a fake, RAPL's through files, and why there is none."""

import os
import sys

import pytest

from kernellab.energy.counters import EnergyUnknown, NvmlCounter, RaplCounter, counter_of
from kernellab.machine.nvml import Nvml
from support.nvml import NOT_SUPPORTED, Refused, refuse


def test_a_gpus_counter_is_in_joules(nvml):
    counter = counter_of("GPU-1")
    before = counter.joules()
    nvml.millijoules += 1500
    assert counter.joules() - before == pytest.approx(1.5)
    assert counter.name == "nvml"


@pytest.mark.parametrize(("error", "words"), [(NOT_SUPPORTED, "3"), (Refused("Insufficient Permissions"), "Insuff")])
def test_a_gpu_without_a_counter_says_why(nvml, error, words):
    refuse(nvml, "nvmlDeviceGetTotalEnergyConsumption", error)
    with pytest.raises(EnergyUnknown, match=f"the driver gives no energy counter of this GPU .*{words}"):
        counter_of("GPU-1")


def test_a_part_of_a_gpu_has_no_counter_of_its_own(nvml):
    nvml.mig = [1, 1]
    with pytest.raises(EnergyUnknown, match="divided by MIG"):
        counter_of("GPU-1")
    nvml.mig = [0, 1]  # it will be after a restart
    assert counter_of("GPU-1").joules() > 0


def test_without_nvml_there_is_no_counter(monkeypatch, nvml):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(EnergyUnknown, match="NVML does not answer"):
        NvmlCounter(Nvml("GPU-1"))


def zone(powercap, name, microjoules, kind, most=10**6):
    folder = powercap / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")
    return folder / "energy_uj"


def test_a_cpus_counter_sums_packages_and_memory_and_wraps_around(tmp_path):
    files = [
        zone(tmp_path, "intel-rapl:0", 900_000, "package-0"),
        zone(tmp_path, "intel-rapl:1", 100, "package-1"),
        zone(tmp_path, "intel-rapl:0:2", 500, "dram"),
    ]
    zone(tmp_path, "intel-rapl:0:0", 10, "core")
    zone(tmp_path, "intel-rapl:2", 10, "psys")
    (tmp_path / "intel-rapl").mkdir()
    counter = RaplCounter(tmp_path)
    assert counter.joules() == 0.0
    files[0].write_text("50000")  # it was 900,000 of 1,000,000
    files[1].write_text("1100")
    files[2].write_text("2500")
    assert counter.joules() == pytest.approx((150_000 + 1000 + 2000) / 1e6)
    assert counter.name == "rapl"


def test_a_machine_without_rapl_says_so(tmp_path):
    with pytest.raises(EnergyUnknown, match="this machine has no counter of the CPU's energy"):
        RaplCounter(tmp_path / "absent")


def test_a_counter_that_only_root_may_read_says_so(tmp_path, monkeypatch):
    file = zone(tmp_path, "intel-rapl:0", 5, "package-0")
    file.chmod(0)
    if os.access(file, os.R_OK):  # root may read everything
        read_text = type(file).read_text

        def refused(self, *args, **kwargs):
            if self == file:
                raise PermissionError(13, "Permission denied")
            return read_text(self, *args, **kwargs)

        monkeypatch.setattr(type(file), "read_text", refused)
    with pytest.raises(EnergyUnknown, match=r"may be read by root only: .*energy_uj"):
        RaplCounter(tmp_path)


def test_a_damaged_counter_says_so(tmp_path):
    zone(tmp_path, "intel-rapl:0", "many", "package-0")
    with pytest.raises(EnergyUnknown, match="holds no number"):
        RaplCounter(tmp_path)
