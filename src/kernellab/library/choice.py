"""Chooses the implementation of an op for a tensor: the tables say which, or that PyTorch's own op serves."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import torch
from torch.autograd import forward_ad

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.op import Op
from kernellab.launcher import repetition
from kernellab.library import tables
from kernellab.library.rules import PYTORCH, Rule, Rules
from kernellab.ops.gradients import Backward, Contract, Forward, Implementation, InformedForward, Passes

# Other classes of tensors have a behaviour of their own in PyTorch's functions.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Where an operator is called although no rule says so: directly, or by compiled code.
_DEFAULTS = {"cpu": Rule("cpp", "cpp"), "cuda": Rule("triton", "triton")}
# An option such as a seed has another value in every call: what is known for a value is forgotten again.
_MOST_KNOWN = 1024

Key = TypeVar("Key")
Value = TypeVar("Value")
Options: TypeAlias = tuple[object, ...]  # the values of the op's options, in their declared order


def is_plain(x: torch.Tensor) -> bool:
    """Whether a tensor is in memory as its strides say."""
    return type(x) in _PLAIN and x.layout is torch.strided


def _is_transformed() -> bool:
    """Whether torch.func differentiates, or forward-mode autograd does. Inside torch.vmap, our operators say that they
    cannot be used there."""
    if torch._C._are_functorch_transforms_active():
        innermost = torch._C._functorch.peek_interpreter_stack()
        return innermost is None or innermost.key() != torch._C._functorch.TransformType.Vmap
    return forward_ad._current_level >= 0


class Choice:
    """The implementations of an op whose passes can be called apart, and the rules that choose among them."""

    def __init__(self, op: Op) -> None:
        self._name, self._option_names = op.name, tuple(op.options)
        self.implementations: dict[str, Implementation] = {}
        for name, impl in op.impls.items():
            if isinstance(impl.fn, Implementation):
                self.implementations[name] = impl.fn
        self.contract: Contract = next(iter(self.implementations.values())).contract
        self._passes: dict[tuple[str, Options], Passes] = {}
        self.read_tables()

    def read_tables(self) -> None:
        """Read the tables again, because they have changed."""
        repetition.forget()
        self._tables: dict[tuple[torch.dtype, torch.device], Rules] = {}
        self._rules: dict[tuple[torch.dtype, torch.device, Options], Rules] = {}
        # While code is compiled, sizes may be unknown, and no file can be read.
        self._in_compiled_code = {("cuda", dtype) for dtype in _DTYPES if tables.serves_on_some_gpu(self._name, dtype)}
        for dtype in _DTYPES:
            if any(rule.always_applies for rule in tables.rules(self._name, dtype, torch.device("cpu"))):
                self._in_compiled_code.add(("cpu", dtype))

    def serves(self, x: torch.Tensor, options: Options = ()) -> bool:
        """Whether an implementation of ours serves for a first input x; otherwise PyTorch's own op does. Options that
        no table mentions may be left out.

        In compiled code ours serve on GPUs, if a table for GPUs names one. On the CPU they serve there by rules without
        limits alone, because the compiler fuses PyTorch's op with its neighbours.
        """
        if not is_plain(x):
            return False
        if torch.compiler.is_compiling():
            return (x.device.type, x.dtype) in self._in_compiled_code
        if x.is_nested or _is_transformed():
            return False
        rule = self._rule(x, options)
        if rule is None or rule.forward == PYTORCH:
            return False
        return rule.backward != PYTORCH or not (x.requires_grad and torch.is_grad_enabled())

    def forward(self, x: torch.Tensor, options: Options) -> Forward | InformedForward:
        """The forward pass for a first input x."""
        rule = self._rule(x, options)
        if rule is None or rule.forward == PYTORCH:
            rule = _DEFAULTS[x.device.type]
        return self._load(rule.forward, options).forward

    def backward(self, x: torch.Tensor, options: Options) -> Backward:
        """The backward pass for a tensor x with the sizes of the first input."""
        rule = self._rule(x, options)
        if rule is None or rule.backward == PYTORCH:
            rule = _DEFAULTS[x.device.type]
        return self._load(rule.backward, options).backward

    def _rule(self, x: torch.Tensor, options: Options) -> Rule | None:
        key = (x.dtype, x.device, options)
        rules = self._rules.get(key)
        if rules is None:
            given = set(zip(self._option_names, options, strict=False))
            rules = tuple(rule for rule in self._table(x.dtype, x.device) if given.issuperset(rule.options))
            _remember(self._rules, key, rules)
        if rules:
            columns, elements = x.size(-1) if x.dim() else 1, x.numel()
            for rule in rules:
                if rule.applies(columns, elements):
                    return rule
        return None

    def _table(self, dtype: torch.dtype, device: torch.device) -> Rules:
        """The rules for all options. Files are read once, though options such as a seed differ in every call."""
        rules = self._tables.get((dtype, device))
        if rules is None:
            rules = tables.rules(self._name, dtype, device)
            self._check(rules)
            self._tables[dtype, device] = rules
        return rules

    def _check(self, rules: Rules) -> None:
        """Raise an error for a rule that names no implementation."""
        for name in {name for rule in rules for name in (rule.forward, rule.backward)} - {PYTORCH}:
            if name not in self.implementations:
                known = nearest(name, self.implementations)
                raise UserError(f"a table of implementations names {name} for op {self._name}: {known}")

    def _load(self, name: str, options: Options) -> Passes:
        passes = self._passes.get((name, options))
        if passes is None:
            named = dict(zip(self._option_names, options, strict=True))
            passes = self.implementations[name].passes(**named)
            _remember(self._passes, (name, options), passes)
        return passes


def _remember(known: dict[Key, Value], key: Key, value: Value) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = value
