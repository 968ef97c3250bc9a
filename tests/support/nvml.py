"""A fake of NVML's Python package, with answers that a test can change or refuse."""
# Its functions have NVML's names.
# ruff: noqa: N802

from __future__ import annotations

from types import SimpleNamespace

GPU_KEYS = {"sm_mhz", "mem_mhz", "power_w", "limit_w", "temp_c", "throttle", "notes", "util", "others"}


class Refused(Exception):
    """Like pynvml's NVMLError: the code is in `value`."""

    def __init__(self, value):
        self.value = value


NOT_FOUND, NOT_SUPPORTED = Refused(6), Refused(3)


class FakeNvml:
    """The functions and constants of pynvml that kernellab uses."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self):
        self.clocks = {1: 1980, 2: 3201}
        self.reasons = 0
        self.processes = []
        self.stamp = 10**15
        self.millijoules = 123_456
        self.mig = NOT_SUPPORTED  # or whether it is divided now, and after a restart

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != "GPU-1":
            raise NOT_FOUND
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, which):
        return self.clocks[which]

    def nvmlDeviceGetPowerUsage(self, handle):
        return 412_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def nvmlDeviceGetTemperatureV(self, handle, sensor):
        return 41

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return self.millijoules

    def nvmlDeviceGetMigMode(self, handle):
        if isinstance(self.mig, Exception):
            raise self.mig
        return self.mig

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=97, memory=60)

    def nvmlDeviceGetProcessUtilization(self, handle, since):
        if isinstance(self.processes, Exception):
            raise self.processes
        self.stamp += 200_000
        entries = [SimpleNamespace(pid=pid, smUtil=share, timeStamp=self.stamp) for pid, share in self.processes]
        if not entries:
            raise NOT_FOUND
        return entries


def refuse(fake, name, error=NOT_SUPPORTED):
    """Make one of the fake's functions raise."""

    def raise_error(*_):
        raise error

    setattr(fake, name, raise_error)
