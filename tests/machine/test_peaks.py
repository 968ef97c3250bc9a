"""Upper bounds computed from a fake NVML's answers agree with data sheets."""

import sys
from types import SimpleNamespace

import pytest

from kernellab.machine.peaks import peaks


@pytest.fixture
def gpu_with(monkeypatch):
    def install(mem_mhz=None, bus=None, sm_mhz=None, now=None):
        def clock(_, which):
            return {"sm": sm_mhz, "mem": mem_mhz}[which]

        fake = SimpleNamespace(
            NVML_CLOCK_SM="sm",
            NVML_CLOCK_MEM="mem",
            nvmlInit=lambda: None,
            nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
            nvmlDeviceGetMaxClockInfo=clock,
        )
        if bus is not None:
            fake.nvmlDeviceGetMemoryBusWidth = lambda _: bus
        if now is not None:
            fake.nvmlDeviceGetClockInfo = lambda _, which: now
        monkeypatch.setitem(sys.modules, "pynvml", fake)

    return install


@pytest.mark.parametrize(
    ("name", "mhz", "bus", "data_sheet"),
    [
        ("V100", 877, 4096, 900),
        ("T4", 5001, 256, 320),
        ("A100 80 GB", 1593, 5120, 2039),
        ("RTX 3090", 9751, 384, 936),
        ("RTX 4090", 10501, 384, 1008),
        ("H100 SXM", 2619, 5120, 3350),
        ("H200", 3201, 6144, 4800),
        ("RTX 5090", 14001, 512, 1792),
    ],
)
def test_pin_bandwidth_is_what_the_data_sheet_says(gpu_with, name, mhz, bus, data_sheet):
    gpu_with(mem_mhz=mhz, bus=bus, sm_mhz=1500)
    assert peaks("GPU-1", 100, (9, 0), 1 << 20)["pin_gbps"] == pytest.approx(data_sheet, rel=0.03)


@pytest.mark.parametrize(
    ("name", "capability", "sms", "boost_mhz", "fp32", "half", "tf32"),
    [
        ("V100", (7, 0), 80, 1530, 15.7, 125, None),
        ("T4", (7, 5), 40, 1590, 8.1, 65, None),
        ("A100", (8, 0), 108, 1410, 19.5, 312, 156),
        ("A40", (8, 6), 84, 1740, 37.4, 149.7, 74.8),
        ("L40S", (8, 9), 142, 2520, 91.6, 362, 183),
        ("H100", (9, 0), 132, 1830, 61.8, 989, 494),
        ("B200", (10, 0), 148, 1860, None, 2250, 1125),
        ("RTX PRO 6000", (12, 0), 188, 2617, 126, 503.8, 251.9),
    ],
)
def test_rates_are_what_the_data_sheet_says(gpu_with, name, capability, sms, boost_mhz, fp32, half, tf32):
    gpu_with(mem_mhz=1000, bus=1024, sm_mhz=boost_mhz)
    tflops = peaks("GPU-1", sms, capability, 1 << 20)["tflops"]
    assert tflops["matmul"]["bfloat16"] == tflops["matmul"]["float16"] == pytest.approx(half, rel=0.03)
    if fp32:
        assert tflops["fp32"] == pytest.approx(fp32, rel=0.03)
    if tf32:
        assert tflops["matmul"]["float32"] == pytest.approx(tf32, rel=0.03)


def test_an_unknown_capability_or_bus_gives_no_bound(gpu_with):
    gpu_with(mem_mhz=3000, sm_mhz=2000)
    assert peaks("GPU-1", 100, (99, 0), 7) == {"pin_gbps": None, "l2_bytes": 7, "tflops": None}


def test_the_bound_of_an_overclocked_gpu_uses_its_present_clock(gpu_with):
    gpu_with(mem_mhz=1000, bus=8000, sm_mhz=1000, now=1100)
    assert peaks("GPU-1", 100, (9, 0), 7)["pin_gbps"] == pytest.approx(2200)


def test_there_are_no_peaks_for_the_cpu_or_without_the_driver(monkeypatch):
    assert peaks("cpu", 0, (0, 0), 0) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert peaks("GPU-1", 132, (9, 0), 0) is None
