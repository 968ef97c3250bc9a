"""The attributes read from a cubin agree with the driver's after loading it."""

import pytest

from kernellab.machinecode.cubin import read_cubin
from support import shipped_code

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("op", "impl", "cols"), [("gelu", "triton", 1024), ("softmax", "triton", 50_000), ("softmax", "cuda", 4096)]
)
def test_the_driver_agrees_about_registers_shared_memory_and_stack(op, impl, cols):
    import torch
    from cuda.core import Device, ObjectCode

    major, minor = torch.cuda.get_device_capability()
    Device().set_current()
    for code in shipped_code.compiled(op, impl, cols=cols, dtype="bfloat16", arch=10 * major + minor):
        (kernel,) = read_cubin(code.cubin).kernels
        attributes = ObjectCode.from_cubin(code.cubin).get_kernel(kernel.name).attributes
        loaded = (attributes.num_regs, attributes.shared_size_bytes, attributes.local_size_bytes)
        assert loaded == (kernel.registers, kernel.shared_bytes, kernel.stack_bytes)
