"""Triton's interpreter, made to compute as a GPU does. It needs a process of its own: kernels do not compile there.

Each function below that takes the module `interpreter` replaces some of its functions; `enable_interpreter` calls them
all. The interpreter stores bfloat16 as the integers of its bits and computes with these integers. The replacements
widen bfloat16 to float32, compute and round, as GPUs do.
"""

from __future__ import annotations

import os
from types import ModuleType

import numpy as np

from kernellab.activity.untuned import run_without_tuning
from kernellab.base.functions import AnyFunction
from kernellab.interpreter.atomics import complete_atomics
from kernellab.interpreter.bfloat16 import from_bits, to_bits
from kernellab.interpreter.fault import CannotInterpret, is_static_assert
from kernellab.interpreter.jit_functions import provide_jit_functions
from kernellab.interpreter.language import complete_language, replace_function
from kernellab.interpreter.logic import provide_logic

# The methods of the interpreter's builder that compute, with the number of the argument whose dtype the result has.
_ARITHMETIC = {"binary_op": 0, "unary_op": 0, "ternary_op": 2, "create_fma": 2, "create_dot": 2}
_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


class _State:
    enabled = False


def is_interpreting() -> bool:
    """Whether kernels run in the interpreter in this process, corrected as below."""
    return _State.enabled


def enable_interpreter() -> None:
    """Switch Triton's interpreter on and correct it. Must be called before anything imports triton."""
    if _State.enabled:
        return
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import triton.language as tl
        from triton._C.libtriton import ir
        from triton.runtime import interpreter
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
    except ImportError:  # the check reports that triton is missing
        return
    from kernellab.interpreter.libdevice import provide_libdevice

    complete_language(interpreter, tl, ir.PROPAGATE_NAN.NONE)
    provide_logic(interpreter, tl)
    provide_libdevice(interpreter)
    provide_jit_functions(interpreter, JITFunction)
    run_without_tuning(Autotuner, is_static_assert)
    _name_missing_functions(interpreter.InterpreterBuilder)
    _round_conversions(interpreter, tl, ir.ROUNDING_MODE.RTZ)
    bfloat16 = _Bfloat16(interpreter, tl)
    _compute_in_float32(interpreter, tl, bfloat16)
    _reduce_in_float32(interpreter, tl, bfloat16)
    complete_atomics(interpreter, tl, ir.ATOMIC_OP.FADD)
    _State.enabled = True


def _round_conversions(interpreter: ModuleType, tl: ModuleType, toward_zero: object) -> None:
    """Triton's conversion truncates float32 to bfloat16, where GPUs round to nearest even; it gets denormals wrong."""
    original = interpreter._convert_float

    def convert(values: object, source: object, target: object, rounding: object) -> object:
        if source == tl.float32 and target == tl.bfloat16 and rounding != toward_zero:
            return to_bits(np.asarray(values, dtype=np.float32))
        if source == tl.bfloat16 and target == tl.float32:
            return from_bits(np.asarray(values).view(np.uint16))
        return original(values, source, target, rounding)

    replace_function(interpreter, "_convert_float", convert)


class _Bfloat16:
    """Widens and narrows the interpreter's values, which are handles around numpy arrays."""

    def __init__(self, interpreter: ModuleType, tl: ModuleType) -> None:
        self._handle, self._tl = interpreter.TensorHandle, tl

    def includes(self, value: object) -> bool:
        return isinstance(value, self._handle) and value.dtype.scalar == self._tl.bfloat16

    def widen(self, value: object) -> object:
        """bfloat16 as float32; other values unchanged."""
        if isinstance(value, self._handle) and self.includes(value):
            return self._handle(from_bits(value.data), self._tl.float32)
        return value

    def narrow(self, value: object) -> object:
        """A value of numbers as bfloat16."""
        assert isinstance(value, self._handle)
        return self._handle(to_bits(value.data.astype(np.float32)), self._tl.bfloat16)

    def constant(self, value: float) -> object:
        return self.narrow(self._handle(np.array([value], dtype=np.float32), self._tl.float32))


def _compute_in_float32(interpreter: ModuleType, tl: ModuleType, bfloat16: _Bfloat16) -> None:
    builder = interpreter.InterpreterBuilder

    def widened(original: AnyFunction, typed_as: int) -> AnyFunction:
        def compute(self: object, *args: object) -> object:
            # np.where selects: it leaves the bits unchanged.
            if not any(map(bfloat16.includes, args)) or any(arg is np.where for arg in args):
                return original(self, *args)
            result = original(self, *map(bfloat16.widen, args))
            compares = any(arg is comparison for arg in args for comparison in _COMPARISONS)
            return bfloat16.narrow(result) if bfloat16.includes(args[typed_as]) and not compares else result

        return compute

    for name, typed_as in _ARITHMETIC.items():
        replace_function(builder, name, widened(getattr(builder, name), typed_as))
    original_cast = builder.cast_impl

    def cast(self: object, source: object, target: object) -> object:
        if getattr(target, "scalar", None) == tl.bfloat16:
            return source if bfloat16.includes(source) else bfloat16.narrow(original_cast(self, source, tl.float32))
        return original_cast(self, bfloat16.widen(source), target)

    replace_function(builder, "cast_impl", cast)
    if not hasattr(builder, "get_bf16"):
        replace_function(builder, "get_bf16", lambda self, value: bfloat16.constant(value))


def _reduce_in_float32(interpreter: ModuleType, tl: ModuleType, bfloat16: _Bfloat16) -> None:
    """The reductions and scans that the interpreter leaves to numpy; others use the arithmetic above step by step."""

    def retype(tensor: object, handle: object, dtype: object) -> object:
        assert isinstance(tensor, tl.core.tensor)
        type_ = tl.block_type(dtype, list(tensor.shape)) if tensor.type.is_block() else dtype
        return tl.core.tensor(handle, type_)

    def narrow(result: object) -> object:
        assert isinstance(result, tl.core.tensor)
        return retype(result, bfloat16.narrow(result.handle), tl.bfloat16) if result.dtype == tl.float32 else result

    def widened(original: AnyFunction) -> AnyFunction:
        def reduce(self: object, tensor: object, *args: object, **kwargs: object) -> object:
            assert isinstance(tensor, tl.core.tensor)
            if tensor.dtype != tl.bfloat16:
                return original(self, tensor, *args, **kwargs)
            result = original(self, retype(tensor, bfloat16.widen(tensor.handle), tl.float32), *args, **kwargs)
            return list(map(narrow, result)) if isinstance(result, list | tuple) else narrow(result)

        return reduce

    for owner, names in ((interpreter.ReduceOps, ("sum", "min_max")), (interpreter.ScanOps, ("cumsum", "cumprod"))):
        for name in names:
            replace_function(owner, name, widened(getattr(owner, name)))


def _name_missing_functions(builder: type) -> None:
    """A kernel that needs what the interpreter's builder does not have cannot be judged, and the message says why."""

    def missing(self: object, name: str) -> object:
        if name.startswith(("create_", "get_")):
            raise CannotInterpret(f"it has no {name.removeprefix('create_').removeprefix('get_')}")
        raise AttributeError(name)

    def inline_asm(self: object, *args: object) -> object:
        raise CannotInterpret("it has no inline PTX (tl.inline_asm_elementwise)")

    replace_function(builder, "__getattr__", missing)
    replace_function(builder, "create_inline_asm", inline_asm)
