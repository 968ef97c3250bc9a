"""A kernel's values as text."""

import numpy as np
import torch

from kernellab.interpreter.block_values import format_value


class Fake:
    """A value of the form that the interpreter makes."""

    def __init__(self, data, name, block=True, pointee_bits=None):
        bits = type("element", (), {"primitive_bitwidth": pointee_bits})
        methods = {"__str__": lambda _: name, "is_ptr": lambda _: pointee_bits is not None, "element_ty": bits}
        self.dtype = type("dtype", (), methods)()
        self.type = type("type", (), {"is_block": lambda _: block})()
        self.handle = type("handle", (), {"data": np.asarray(data), "dtype": self.dtype})()


def test_blocks_are_shown_as_numbers_and_pointers_as_positions():
    tensors = {"x_ptr": torch.zeros(4), "y_ptr": torch.zeros(2, 8)[:, ::2]}
    y = tensors["y_ptr"].data_ptr()
    bf16 = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert format_value(Fake(bf16, "bf16"), tensors) == "bf16[2] [ 1.5 -2. ]"
    assert format_value(Fake([3], "int32", block=False), tensors) == "int32 3"
    assert format_value(Fake(np.arange(100), "int32"), tensors) == "int32[100] [ 0  1  2  3 ... 96 97 98 99]"
    assert "..." not in format_value(Fake(np.arange(100), "int32"), tensors, 1000)
    pointers = np.array([y + 4, y + 56, y + 60], dtype=np.uint64)
    text = format_value(Fake(pointers, "pointer<fp32>", pointee_bits=32), tensors)
    assert text == "pointer<fp32>[3] y_ptr + [ 1 14 15], 1 of 3 outside y_ptr"
    nowhere = Fake(np.array([8], dtype=np.uint64), "pointer<fp32>", block=False, pointee_bits=32)
    assert format_value(nowhere, tensors) == "pointer<fp32> outside every tensor the kernel was given"
    assert format_value(tensors["y_ptr"], tensors) == "float32 2×4 strides (8, 2)"
    assert format_value((1, "a"), tensors) == "(1, 'a')"
