"""Registers a shipped op and its backward with torch.library.

An operator's schema, fake functions and autograd come from the op's declaration and its contract
(`kernellab/ops/gradients.py`); its kernel is the implementation that the tables choose. Nothing here depends on what an
op computes. While `kernellab.launcher` records a call, it runs the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import torch
from torch.autograd.function import FunctionCtx

from kernellab.base.errors import UserError
from kernellab.base.operator_mode import AnyOverload
from kernellab.declaration.op import Op
from kernellab.launcher import recording
from kernellab.library.choice import Choice, Options, is_plain
from kernellab.ops.gradients import Given, Tensors

NAMESPACE = "kernellab"

_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
_DEVICES = ("CPU", "CUDA")
_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def register(
    op: Op, choice: Choice, autocast: Mapping[str, torch.dtype], function: str
) -> tuple[AnyOverload, AnyOverload]:
    """Define `kernellab::NAME` and `kernellab::NAME_backward`, and return both.

    Arguments are positional: the tensors, and then the options of the op in their declared order; then, where the
    contract says so, which gradients are wanted. `autocast` has the dtype to which inputs are cast under autocast, by
    device type; on others they are not cast. `function` of kernellab.functional calls the operator: errors name it.
    """
    functions = _Functions(op, choice, function)
    names = (op.name, f"{op.name}_backward")
    for name, schema in zip(names, _schemas(op, choice), strict=True):
        _LIBRARY.define(f"{name}{schema}")
        torch.library.register_vmap(f"{NAMESPACE}::{name}", functions.refuse_vmap, lib=_LIBRARY)
    forward, backward = (f"{NAMESPACE}::{name}" for name in names)
    for device in _DEVICES:
        _LIBRARY.impl(names[0], functions.forward, device)
        _LIBRARY.impl(names[1], functions.backward, device)
    torch.library.register_fake(forward, functions.fake_forward, lib=_LIBRARY)
    torch.library.register_fake(backward, functions.fake_backward, lib=_LIBRARY)
    torch.library.register_autograd(forward, functions.differentiate, setup_context=functions.save, lib=_LIBRARY)
    torch.library.register_autograd(backward, functions.refuse_second_derivative, lib=_LIBRARY)
    for device_type, dtype in autocast.items():
        torch.library.register_autocast(forward, device_type, dtype, lib=_LIBRARY)
    overload, functions.backward_overload = (getattr(torch.ops.kernellab, name).default for name in names)
    return overload, functions.backward_overload


def _schemas(op: Op, choice: Choice) -> tuple[str, str]:
    """The arguments and results of an op and of its backward."""
    contract = choice.contract
    options = [f"{_type_of(op, option)} {option}" for option in op.options]
    inputs = [_tensor(name, optional=op.args[name].optional) for name in contract.inputs]
    wanted = ["bool[] wanted"] if contract.forward_takes_wanted else []
    outputs = ", ".join("Tensor" for _ in contract.outputs)
    upstream = [
        _tensor(f"{name}_gradient", optional=contract.takes_missing_gradients)
        for name in contract.outputs[: contract.results]
    ]
    saved = [_tensor(name, optional=name in op.args and op.args[name].optional) for name in contract.saved]
    return (
        f"({', '.join(inputs + options + wanted)}) -> ({outputs})",
        f"({', '.join([*upstream, *saved, *options, 'bool[] wanted'])}) -> Tensor[]",
    )


def _tensor(name: str, *, optional: bool) -> str:
    return f"Tensor{'?' if optional else ''} {name}"


def _type_of(op: Op, option: str) -> str:
    """The type of an option's values; that of the others where one is None."""
    values = op.options[option]
    kind = next((type(value) for value in values if value is not None), type(None))
    if kind not in _TYPES:
        raise UserError(f"op {op.name} cannot be registered: its option {option} is a {kind.__name__}")
    return f"{_TYPES[kind]}{'?' if None in values else ''}"


class _Context(FunctionCtx):
    options: Options
    handed_over: Given
    saved_tensors: tuple[torch.Tensor | None, ...]
    needs_input_grad: tuple[bool, ...]


class _Functions:
    """What torch.library calls for an op and for its backward."""

    backward_overload: AnyOverload

    def __init__(self, op: Op, choice: Choice, function: str) -> None:
        self.name, self.option_names, self.function = op.name, tuple(op.options), function
        self.choice, self.contract = choice, choice.contract
        self.input_count = len(self.contract.inputs)
        self.option_end = self.input_count + len(self.option_names)
        self.taken_count = self.contract.results + len(self.contract.saved)  # tensors that backward takes

    def forward(self, *args: object) -> torch.Tensor | tuple[torch.Tensor, ...]:
        inputs, options = args[: self.input_count], args[self.input_count : self.option_end]
        run = self.choice.forward(inputs[0], options)  # type: ignore[arg-type]
        run = self.contract.inform(run, args[-1])  # type: ignore[arg-type]
        return _one_or_all(_run(self.name, run, inputs, options))  # type: ignore[arg-type]

    def backward(self, *args: object) -> Tensors:
        taken, options, wanted = self._split(args)
        results = self.contract.results
        # An operator does not return the memory of what it is given.
        return self._run_backward([*taken[:results], *self.contract.copy_handed_over(taken[results:])], options, wanted)

    def backward_that_owns(self, *args: object) -> Tensors:
        """Outside of the operator: it may overwrite what was handed over."""
        return self._run_backward(*self._split(args))

    def _run_backward(self, taken: Given, options: Options, wanted: Sequence[bool]) -> Tensors:
        run = self.choice.backward(taken[self.contract.sizing_place], options)  # type: ignore[arg-type]
        compute = lambda *tensors: _only(wanted, run(*tensors, wanted=wanted))  # noqa: E731
        return _run(f"{self.name}_backward", compute, taken, options)

    def fake_forward(self, *args: object) -> torch.Tensor | tuple[torch.Tensor, ...]:
        options = dict(zip(self.option_names, args[self.input_count : self.option_end], strict=True))
        if self.contract.forward_takes_wanted:
            options["wanted"] = args[-1]
        return _one_or_all(self.contract.new_outputs(*args[: self.input_count], **options))  # type: ignore[arg-type]

    def fake_backward(self, *args: object) -> Tensors:
        taken, options, wanted = self._split(args)
        named = dict(zip(self.option_names, options, strict=True))
        return _only(wanted, self.contract.new_gradients(*taken, **named))  # type: ignore[arg-type]

    def _split(self, args: tuple[object, ...]) -> tuple[Given, Options, Sequence[bool]]:
        *rest, wanted = args[self.taken_count :]
        return args[: self.taken_count], tuple(rest), wanted  # type: ignore[return-value]

    def save(self, ctx: _Context, inputs: tuple[object, ...], output: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        tensors: Given = inputs[: self.input_count]  # type: ignore[assignment]
        saved: Given = self.contract.pick_saved(tensors, outputs)
        ctx.handed_over = ()
        if self.contract.handed_over and all(map(is_plain, outputs)):  # in compiled code, every backward pass gets them
            saved, ctx.handed_over = self.contract.hand_over(saved)
        ctx.save_for_backward(*saved)  # type: ignore[arg-type]
        ctx.options = inputs[self.input_count : self.option_end]
        internal = outputs[self.contract.results :]
        if internal:
            ctx.mark_non_differentiable(*internal)
            ctx.set_materialize_grads(False)  # they would be given gradients of zeros

    def differentiate(self, ctx: _Context, *upstream: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        wanted = self.contract.wanted(ctx.needs_input_grad)
        given = upstream[: self.contract.results]
        gradients: list[torch.Tensor | None] = [None] * len(wanted)
        if any(wanted) and any(gradient is not None for gradient in given):
            saved: Given = ctx.saved_tensors
            run = self.backward_overload
            if ctx.handed_over:
                saved, ctx.handed_over = self.contract.replace_handed_over(saved, ctx.handed_over), ()
                if not torch.is_grad_enabled():
                    run = self.backward_that_owns  # type: ignore[assignment]
            computed = iter(run(*given, *saved, *ctx.options, wanted))  # type: ignore
            gradients = [next(computed) if is_wanted else None for is_wanted in wanted]
        rest = len(self.option_names) + self.contract.forward_takes_wanted
        return (*self.contract.spread(given, gradients), *[None] * rest)

    def refuse_second_derivative(self, ctx: _Context, *upstream: torch.Tensor) -> NoReturn:
        raise RuntimeError(
            f"the gradient of kernellab.functional.{self.function} cannot be differentiated again: "
            "use PyTorch's own function where second derivatives are needed"
        )

    def refuse_vmap(self, *args: object) -> NoReturn:
        raise RuntimeError(
            f"kernellab.functional.{self.function} cannot be used inside torch.vmap: "
            "call it on the whole batch, or use PyTorch's own function"
        )


def _run(name: str, run_pass: Callable[..., Tensors], tensors: Given, options: Options) -> Tensors:  # type: ignore[explicit-any]
    """A pass, recorded if it is asked for."""
    active = recording.active()
    return run_pass(*tensors) if active is None else active.run(name, run_pass, tensors, options)  # type: ignore[return-value]


def _one_or_all(tensors: Tensors) -> torch.Tensor | tuple[torch.Tensor, ...]:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _only(wanted: Sequence[bool], gradients: Given) -> Tensors:
    return [gradient for gradient, is_wanted in zip(gradients, wanted, strict=True) if is_wanted]  # type: ignore[misc]
