"""GPUs of the database as the model sees them."""

import pytest

from kernellab.base.errors import UserError
from kernellab.gpumodel.device import SUSTAINED_SHARE, Device
from kernellab.machine.gpus import gpu


def test_a_gpu_of_the_database_sustains_a_share_of_its_pin_bandwidth():
    h200 = Device.from_database("h200")
    assert (h200.name, h200.sms, h200.chip.arch) == ("H200 SXM 141GB", 132, "sm_90")
    assert h200.gbps == pytest.approx(SUSTAINED_SHARE * gpu("h200").pin_gbps)


def test_an_unknown_gpu_is_refused():
    with pytest.raises(UserError, match="voodoo2"):
        Device.from_database("voodoo2")


def test_peak_matmul_rates_are_those_of_tensor_cores_and_of_multiply_adds_for_float32():
    rates = Device.from_database("h200").peak_matmul_tflops
    assert set(rates) == {"bfloat16", "float16", "float32", "tf32"}
    assert rates["tf32"] == rates["bfloat16"] / 2
    assert rates["bfloat16"] == rates["float16"] == pytest.approx(16 * rates["float32"])
    assert rates["float32"] == pytest.approx(gpu("h200").fp32_tflops)
