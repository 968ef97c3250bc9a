"""The attributes read from a cubin agree with the driver's after loading it."""

import pytest

from kernellab.machinecode.cubin import read_cubin
from support import shipped_code

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("build", "name"),
    [("triton_kernel", "tanh_flat"), ("triton_kernel", "softmax_wide"), ("cuda_kernel", "softmax_block")],
)
def test_the_driver_agrees_about_registers_shared_memory_and_stack(build, name):
    import torch
    from cuda.core import Device, ObjectCode

    major, minor = torch.cuda.get_device_capability()
    Device().set_current()
    cubin = getattr(shipped_code, build)(name, "bf16", 10 * major + minor).cubin
    (kernel,) = read_cubin(cubin).kernels
    attributes = ObjectCode.from_cubin(cubin).get_kernel(kernel.name).attributes
    loaded = (attributes.num_regs, attributes.shared_size_bytes, attributes.local_size_bytes)
    assert loaded == (kernel.registers, kernel.shared_bytes, kernel.stack_bytes)
