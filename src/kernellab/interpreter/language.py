"""Triton's language in the interpreter: what a kernel's names, arguments, loops and comparisons mean on a GPU.

Triton replaces functions of its language at each launch, in the modules that a kernel's file imports as a whole. Here
they are replaced once, wherever a kernel takes them from: the process compiles nothing. Float arguments and loop
variables are Python numbers in Triton's interpreter; here they are scalars of a kernel with a dtype and methods.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Protocol

import numpy as np

from kernellab.base.functions import AnyFunction
from kernellab.interpreter.fault import CannotInterpret, StaticAssertFailed

_RANGE = "kernellab_range"  # a name in the interpreter's module, which kernels see


def complete_language(interpreter: ModuleType, tl: ModuleType, no_nan: object) -> None:
    """`no_nan` is Triton's setting of a maximum or a clamp that does not propagate NaN."""
    _provide_builtins(interpreter, tl.core)
    _patch_once(interpreter, tl)
    _use_scalars(interpreter, tl)
    _compute_with_constants(tl)
    _use_scalar_loops(interpreter, tl)
    _accept_foreign_tensors(interpreter)
    _replace_launch(interpreter)
    _accept_negative_axes(interpreter)
    _ignore_nan(interpreter, no_nan)
    # Without its debug option Triton computes the checks for overflow, and discards the result.
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


# Functions of the language -----------------------------------------------------------------------------


def _without_semantic(fn: AnyFunction) -> AnyFunction:
    def wrapper(*args: object, _semantic: object = None, _default: object = None, **kwargs: object) -> object:
        return fn(*args, _semantic=_default if _semantic is None else _semantic, **kwargs)

    return wrapper


def _provide_builtins(interpreter: ModuleType, core: ModuleType) -> None:
    """A builtin may be called without its hidden argument, under any name that a file has imported it as."""
    semantic = interpreter.interpreter_semantic
    original = core.builtin
    # All builtins are copies of one wrapper: exchanging its code reaches those that were imported already.
    old: CodeType = original(lambda: None).__code__
    new: CodeType = _without_semantic(lambda: None).__code__

    def complete(function: object) -> None:
        if isinstance(function, FunctionType) and function.__code__ is old:
            function.__code__ = new
            function.__kwdefaults__ = {"_semantic": None, "_default": semantic}

    def builtin(fn: AnyFunction) -> AnyFunction:
        function: AnyFunction = original(fn)
        complete(function)
        return function

    for module in [m for name, m in sys.modules.items() if name.startswith("triton.language")]:
        for member in list(vars(module).values()):
            complete(member)
            if isinstance(member, type):
                for attribute in list(vars(member).values()):
                    complete(attribute)
                    complete(getattr(attribute, "fget", None) or getattr(attribute, "__func__", None))
    replace_function(core, "builtin", builtin)


def _patch_once(interpreter: ModuleType, tl: ModuleType) -> None:
    scope = interpreter._LangPatchScope()  # never restored
    for language in (tl, tl.core):
        interpreter._patch_lang_tensor(language.tensor, scope)
        interpreter._patch_lang_core(language, scope)
        replace_function(language, "static_assert", _static_assert)
        # Triton 3.6 converts an array of one dim, which NumPy 2.4 refuses.
        replace_function(language.tensor, "__index__", lambda self: int(self.handle.data.item()))

    def patch(fn: object) -> object:
        return interpreter._LangPatchScope()

    replace_function(interpreter, "_patch_lang", patch)


def _static_assert(cond: object, msg: object = "", _semantic: object = None) -> None:
    if not cond:
        raise StaticAssertFailed(str(getattr(msg, "value", msg)) or "static_assert failed")


# Scalars -----------------------------------------------------------------------------------------------


def _use_scalars(interpreter: ModuleType, tl: ModuleType) -> None:
    """Floats and bools among a kernel's arguments become scalars, as integers do in Triton's interpreter."""
    original = interpreter._implicit_cvt

    def convert(argument: object) -> object:
        if isinstance(argument, (bool, np.bool_)):
            return _scalar(interpreter, tl, np.bool_(argument), tl.int1)
        if isinstance(argument, float):
            return _scalar(interpreter, tl, np.float32(argument), tl.float32)
        return original(argument)

    replace_function(interpreter, "_implicit_cvt", convert)


def _scalar(interpreter: ModuleType, tl: ModuleType, number: object, dtype: object) -> object:
    return tl.tensor(interpreter.TensorHandle(np.array([number]), dtype), dtype)


def _compute_with_constants(tl: ModuleType) -> None:
    """A constant of the module times a tensor is a tensor. Triton's interpreter makes a constant of it, which functions
    of the language refuse."""

    def new(cls: type, value: object = None) -> object:
        return value if isinstance(value, tl.tensor) else object.__new__(cls)

    tl.constexpr.__new__ = new


def _use_scalar_loops(interpreter: ModuleType, tl: ModuleType) -> None:
    """The variable of a loop over `range` or `tl.range` is a scalar; that of `tl.static_range` is a constant."""

    def scalars(*bounds: object, **hints: object) -> Iterator[object]:
        """Of 32 bits, or of 64 where a bound has 64. `hints` are for the compiler, except for `step`."""
        if hints.get("step") is not None:
            bounds = (*(bounds if len(bounds) > 1 else (0, *bounds)), hints["step"])
        long = any(isinstance(bound, tl.tensor) and bound.dtype.primitive_bitwidth == 64 for bound in bounds)
        integer, dtype = (np.int64, tl.int64) if long else (np.int32, tl.int32)
        for number in builtins.range(*map(_index, bounds)):
            small = integer is np.int64 or -(2**31) <= number < 2**31
            yield _scalar(interpreter, tl, *((integer(number), dtype) if small else (np.int64(number), tl.int64)))

    def constants(start: object, stop: object = None, step: object = None) -> builtins.range:
        first, end = (0, start) if stop is None else (start, stop)
        return builtins.range(_index(first), _index(end), _index(step or 1))

    replace_function(interpreter, _RANGE, scalars)
    for language in (tl, tl.core):
        replace_function(language, "range", scalars)
        replace_function(language, "static_range", constants)

    class Transformer(interpreter.ASTTransformer):  # type: ignore[misc, name-defined]
        """Calls our function where a kernel loops over Python's `range`."""

        def visit_For(self, node: ast.For) -> ast.For:  # noqa: N802
            called = node.iter.func if isinstance(node.iter, ast.Call) else None
            if isinstance(called, ast.Name) and called.id == "range":
                called.id = _RANGE
            self.generic_visit(node)
            return node

    interpreter.FunctionRewriter.ast_transformer = Transformer()


def _index(bound: object) -> int:
    return int(getattr(bound, "value", bound).__index__())  # type: ignore[attr-defined]


# Launches ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Hidden:
    """An argument that Triton's interpreter must not take for a tensor while it copies tensors to the host."""

    argument: object


def _accept_foreign_tensors(interpreter: ModuleType) -> None:
    """Triton launches with any object that has `data_ptr` and `dtype`; its interpreter needs a tensor's storage.

    Here all memory is the host's, so that such an object needs no copy.
    """
    import torch
    from triton.runtime.jit import TensorWrapper

    executor = interpreter.GridExecutor
    copy_to_host, copy_back = executor._init_args_hst, executor._restore_args_dev

    def hide(argument: object) -> object:
        is_foreign = hasattr(argument, "data_ptr") and not isinstance(argument, (torch.Tensor, TensorWrapper))
        return _Hidden(argument) if is_foreign else argument

    def show(argument: object) -> object:
        return argument.argument if isinstance(argument, _Hidden) else argument

    def to_host(self: object, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[object, object]:
        host_args, host_kwargs = copy_to_host(self, list(map(hide, args)), {k: hide(v) for k, v in kwargs.items()})
        return list(map(show, host_args)), {name: show(value) for name, value in host_kwargs.items()}

    def from_host(
        self: object,
        args: Sequence[object],
        host_args: Sequence[object],
        kwargs: Mapping[str, object],
        host_kwargs: Mapping[str, object],
    ) -> None:
        names = list(kwargs)
        positional = list(map(hide, args)), list(map(hide, host_args))
        named = {k: hide(kwargs[k]) for k in names}, {k: hide(host_kwargs[k]) for k in names}
        copy_back(self, *positional, *named)

    replace_function(executor, "_init_args_hst", to_host)
    replace_function(executor, "_restore_args_dev", from_host)


def _replace_launch(interpreter: ModuleType) -> None:
    """A grid function gets the arguments as they were passed; an error keeps its message and the kernel's lines."""
    executor, errors = interpreter.GridExecutor, interpreter.InterpreterError
    interpreted = interpreter.InterpretedFunction

    def launch(self: object, *args: object, **kwargs: object) -> None:
        assert isinstance(self, executor)
        kwargs = {name: value for name, value in kwargs.items() if name in self.arg_names}
        host_args, host_kwargs = self._init_args_hst(args, kwargs)
        for hook in self.pre_run_hooks:
            hook(*host_args, **host_kwargs)
        given = inspect.getcallargs(self.fn, *host_args, **host_kwargs)
        grid = tuple(map(int, self.grid(given) if callable(self.grid) else self.grid))
        x_size, y_size, z_size = (*grid, 1, 1)[: max(3, len(grid))]
        arguments = {
            name: value if name in self.constexprs else interpreter._implicit_cvt(value)
            for name, value in given.items()
        }
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(x_size, y_size, z_size)
        try:
            for x in builtins.range(x_size):
                for y in builtins.range(y_size):
                    for z in builtins.range(z_size):
                        builder.set_grid_idx(x, y, z)
                        self.fn(**arguments)
        except Exception as error:
            kind = "tl.static_assert" if isinstance(error, StaticAssertFailed) else type(error).__name__
            message = f"{kind}: {error}"
            raise errors(message).with_traceback(error.__traceback__) from error
        self._restore_args_dev(args, host_args, kwargs, host_kwargs)

    def call(self: object, *args: object, **kwargs: object) -> object:
        """A function under @triton.jit that a kernel calls."""
        assert isinstance(self, interpreted)
        return self.rewrite()(*args, **kwargs)

    def run(self: object, *args: object, grid: object, warmup: bool, **kwargs: object) -> _CompiledKernel:
        assert isinstance(self, interpreted)
        if not warmup:
            executor(self.rewrite(), self.arg_names, grid, self.pre_run_hooks)(*args, **kwargs)
        return _CompiledKernel(self, kwargs)

    replace_function(executor, "__call__", launch)
    replace_function(interpreted, "__call__", call)
    replace_function(interpreted, "run", run)


class _CompiledKernel:
    """What a launch and `warmup` return on a GPU: some authors compute their grid from a kernel's resources.

    Nothing was compiled: the resources are those of a small kernel.
    """

    n_regs, n_spills = 32, 0

    def __init__(self, kernel: _Kernel, options: Mapping[str, object]) -> None:
        self._kernel = kernel
        self.metadata = SimpleNamespace(
            shared=1024, num_warps=options.get("num_warps", 4), num_stages=options.get("num_stages", 3), num_ctas=1
        )

    def _init_handles(self) -> None:
        pass

    def __getitem__(self, grid: object) -> AnyFunction:
        def launch(*args: object, stream: object = None) -> None:
            expected = len(self._kernel.arg_names)
            if len(args) != expected:
                raise CannotInterpret(f"a compiled kernel of {expected} arguments is launched with {len(args)}")
            self._kernel.run(*args, grid=grid, warmup=False)

        return launch


class _Kernel(Protocol):
    arg_names: Sequence[str]
    run: AnyFunction


# Reductions and comparisons ----------------------------------------------------------------------------


def _accept_negative_axes(interpreter: ModuleType) -> None:
    """Triton's interpreter counts an axis from the end only where numpy reduces; its own loops would be wrong."""
    base = interpreter.ReduceScanOpInterface
    original = base.apply

    def apply(self: object, values: object) -> object:
        assert isinstance(self, base)
        axis = getattr(self.axis, "value", self.axis)
        if axis is not None and axis < 0:
            first = values[0] if isinstance(values, tuple) else values
            axis += len(getattr(first, "shape", ()))
        self.axis = axis
        return original(self, values)

    replace_function(base, "apply", apply)


def _ignore_nan(interpreter: ModuleType, no_nan: object) -> None:
    """A maximum, minimum or clamp on a GPU returns the other operand for NaN, unless it is asked to propagate NaN."""
    builder = interpreter.InterpreterBuilder
    clamp: AnyFunction = builder.create_clampf

    def clamp_number(self: object, value: object, low: object, high: object, propagate_nan: object) -> object:
        if propagate_nan != no_nan:
            return clamp(self, value, low, high, propagate_nan)
        return smaller_of(self, larger_of(self, value, low), high)

    def larger_of(self: object, a: object, b: object) -> object:
        assert isinstance(self, builder)
        return self.binary_op(a, b, np.fmax)

    def smaller_of(self: object, a: object, b: object) -> object:
        assert isinstance(self, builder)
        return self.binary_op(a, b, np.fmin)

    for name, function in (
        ("create_maxnumf", larger_of),
        ("create_minnumf", smaller_of),
        ("create_clampf", clamp_number),
    ):
        replace_function(builder, name, function)


def replace_function(owner: object, name: str, function: AnyFunction) -> None:
    setattr(owner, name, function)
