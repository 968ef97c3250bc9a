"""Recognizes what a module computes that is not one of torch.nn: a norm, an activation or a gated MLP.

A candidate is tried on small random inputs, a norm with random weights, and its results are compared with those of
`kernellab.functional`. Only a module that computes the same is replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from kernellab import functional
from kernellab.patching.classes import Forward, Maker

# How models name the constant of a norm, and the parts of an MLP.
_EPS_NAMES = ("variance_epsilon", "eps", "epsilon")
_GATED_PARTS = ("gate_proj", "up_proj", "down_proj", "act_fn")
_MOST_ROUNDINGS = 8  # by which results may differ, at the largest of them: models round in between


class Recognized(NamedTuple):
    function: str
    maker: Maker


class NotRecognized(NamedTuple):
    reason: str


def recognize(module: nn.Module) -> Recognized | NotRecognized | None:
    """What a module computes, or why it is not replaced though it looks like a candidate; None if it does not."""
    candidate = _candidate(module)
    if candidate is None:
        return None
    tensors = [*module.parameters(), *module.buffers()]
    if any(t.is_meta for t in tensors):
        return NotRecognized("its parameters have no values yet: patch the model when they are loaded")
    if any(type(t) not in (Tensor, nn.Parameter) for t in tensors):
        return NotRecognized("its parameters are not plain tensors: patch the model before it is sharded or quantized")
    devices = {t.device for t in tensors if t.is_cuda}
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=list(devices)):
            torch.manual_seed(0)
            return _try(candidate, module)
    except Exception as error:
        return NotRecognized(f"it could not be tried: {type(error).__name__}: {error}")


def _candidate(module: nn.Module) -> str | None:
    name, parameters = type(module).__name__.lower(), {name for name, _ in module.named_parameters()}
    if all(isinstance(getattr(module, part, None), nn.Module) for part in _GATED_PARTS):
        return "gated MLP"
    if "norm" in name and parameters in ({"weight"}, {"weight", "bias"}) and _eps_name(module) is not None:
        return "norm" if all(p.dim() == 1 for p in module.parameters()) else None
    if not parameters and any(word in name for word in ("gelu", "silu", "swish")):
        return "activation"
    return None


def _try(candidate: str, module: nn.Module) -> Recognized | NotRecognized:
    if candidate == "norm":
        eps = _eps_name(module)
        assert eps is not None
        twin = copy.deepcopy(module)
        for parameter in twin.parameters():
            parameter.normal_()
        function = "layer_norm" if "bias" in dict(module.named_parameters()) else "rms_norm"
        weight = module.get_parameter("weight")
        probe = torch.randn(3, len(weight), dtype=weight.dtype, device=weight.device)
        # The second is small enough for the constant to matter.
        return _first_equal({function: Norm(function, eps)}, twin, [probe, probe * 1e-3])
    if candidate == "activation":
        return _first_equal(_ACTIVATIONS, module, [torch.linspace(-12, 12, 97)])
    activation = _first_equal(_ACTIVATIONS, module.get_submodule("act_fn"), [torch.linspace(-12, 12, 97)])
    if isinstance(activation, NotRecognized):
        return activation
    assert isinstance(activation.maker, Activation)
    weight = module.get_submodule("gate_proj").get_parameter("weight")
    function = activation.function.replace("silu", "swiglu").replace("gelu", "geglu")
    probe = torch.randn(2, weight.shape[-1], dtype=weight.dtype, device=weight.device)
    return _first_equal({function: GatedMlp(activation.maker)}, module, [probe])


def _eps_name(module: nn.Module) -> str | None:
    return next((name for name in _EPS_NAMES if isinstance(getattr(module, name, None), float)), None)


def _first_equal(choices: Mapping[str, Maker], module: nn.Module, probes: list[Tensor]) -> Recognized | NotRecognized:
    """The first function that computes what the module does."""
    for function, maker in choices.items():
        forward = maker.forward_for(type(module))
        # Not module(probe), which would call its hooks.
        if all(_equal(module.forward(probe), forward(module, probe)) for probe in probes):
            return Recognized(function, maker)
    return NotRecognized(f"it computes something else than {' or '.join(choices)}")


def _equal(theirs: object, ours: object) -> bool:
    if not (isinstance(theirs, Tensor) and isinstance(ours, Tensor)):
        return False
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        return False
    limit = _MOST_ROUNDINGS * torch.finfo(theirs.dtype).eps * theirs.abs().max()
    return bool(((ours - theirs).abs() <= limit).all())


# The forwards ------------------------------------------------------------------------------------------


class _Norm(Protocol):
    weight: Tensor
    bias: Tensor


class _Gated(Protocol):
    gate_proj: nn.Module
    up_proj: nn.Module
    down_proj: nn.Module


@dataclass(frozen=True)
class Norm:
    """A norm over the last dim by the function of this name; the constant is an attribute of the module."""

    function: str
    eps: str

    def forward_for(self, original: type[nn.Module]) -> Forward:
        eps, with_bias = self.eps, self.function == "layer_norm"

        def forward(module: _Norm, x: Tensor) -> object:
            weight = module.weight
            if x.dtype is not weight.dtype:  # how it then rounds, and what it returns, is its own decision
                return original.forward(module, x)
            if with_bias:
                return functional.layer_norm(x, weight.shape, weight, module.bias, getattr(module, eps))
            return functional.rms_norm(x, weight.shape, weight, getattr(module, eps))

        return forward


@dataclass(frozen=True)
class Activation:
    """SiLU, or a form of GeLU."""

    approximate: str | None

    def forward_for(self, original: type[nn.Module]) -> Forward:
        approximate = self.approximate

        def forward(module: nn.Module, x: Tensor) -> Tensor:
            return functional.silu(x) if approximate is None else functional.gelu(x, approximate)

        return forward


@dataclass(frozen=True)
class GatedMlp:
    """down_proj(activation(gate_proj(x)) · up_proj(x)): activation and product in one kernel."""

    activation: Activation

    def forward_for(self, original: type[nn.Module]) -> Forward:
        approximate = self.activation.approximate

        def forward(module: _Gated, x: Tensor) -> object:
            gate, up = module.gate_proj(x), module.up_proj(x)
            if approximate is None:
                return module.down_proj(functional.swiglu(gate, up))
            return module.down_proj(functional.geglu(gate, up, approximate))

        return forward


_ACTIVATIONS: dict[str, Maker] = {
    "silu": Activation(None),
    "gelu": Activation("none"),
    "gelu(approximate='tanh')": Activation("tanh"),
}
