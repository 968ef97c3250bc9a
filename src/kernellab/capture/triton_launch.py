"""Describes a launch of a Triton kernel: its name, its configuration, its arguments and its source."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from typing import Protocol

import torch
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import JITFunction

from kernellab.base.json import JsonObject, JsonValue
from kernellab.capture.launch import Dims, Launch, Parameter, Source
from kernellab.capture.pointers import describe_descriptor, describe_pointer, tensor_bytes

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl")
LEVELS = ("ttir", "ttgir", "llir", "ptx", "cubin")
_WORDS = {"tt.divisibility": "divisible by"}


class KernelMetadata(Protocol):
    """The part of Triton's metadata of a compiled kernel that is read here."""

    name: str
    num_warps: int
    num_ctas: int
    shared: int


def describe_launch(
    src: ASTSource,
    metadata: KernelMetadata,
    grid: Dims,
    arguments: tuple[object, ...],
    code: Mapping[str, str | bytes],
    *,
    arch: str,
) -> Launch:
    """The launch of `src`, which Triton compiled: a jitted function with types and constants, or a file. `grid` counts
    programs."""
    x, y, z = grid
    cluster_x, cluster_y, cluster_z = getattr(metadata, "cluster_dims", None) or (metadata.num_ctas, 1, 1)
    return Launch(
        kind="triton",
        kernel=str(src.fn.__name__ if hasattr(src, "fn") else src.name),
        symbol=metadata.name,
        arch=arch,
        gpu="",
        grid=(x * metadata.num_ctas, y, z),
        block=(32 * metadata.num_warps, 1, 1),
        cluster=(cluster_x, cluster_y, cluster_z),
        shared_bytes=metadata.shared,
        config=_describe_config(src, metadata),
        parameters=_describe_parameters(src, arguments),
        sources=find_sources(src),
        code={level: code[level] for level in LEVELS if level in code},
        build_s=0.0,
    )


def _describe_config(src: ASTSource, metadata: KernelMetadata) -> JsonObject:
    """The options that are set, and the constants that the author declared."""
    values = {name: getattr(metadata, name, None) for name in OPTIONS}
    options: JsonObject = {name: value for name, value in values.items() if value not in (None, False)}
    constants: JsonObject = {}
    for path, value in getattr(src, "constants", {}).items():
        parameter = src.fn.params[path[0]]
        if parameter.is_constexpr:
            constants[parameter.name] = to_plain_value(value)
    return {**options, "constexprs": constants}


def _describe_parameters(src: ASTSource, arguments: tuple[object, ...]) -> tuple[Parameter, ...]:
    """The arguments that are not declared constants, and what Triton assumed about each."""
    if not hasattr(src, "fn"):
        return ()
    parameters = []
    sizes = tensor_bytes(arguments)
    for at, (parameter, value, size) in enumerate(zip(src.fn.params, arguments, sizes, strict=True)):
        if parameter.is_constexpr:
            continue
        kind = str(src.signature[parameter.name])
        special = ", ".join(f"{_WORDS.get(name, name)} {amount}" for name, amount in src.attrs.get((at,), ()))
        if kind == "constexpr":  # chosen by Triton, not declared by the author
            kind, special = type(value).__name__, f"equal to {value}: compiled in as a constant"
        parameters.append(Parameter(parameter.name, kind, _describe_value(value), special, size))
    return tuple(parameters)


def _describe_value(value: object) -> str:
    """The text of a number, or the description of a tensor's pointer."""
    if isinstance(value, torch.Tensor):
        return describe_pointer(value)
    base = getattr(value, "base", None)
    block_shape = getattr(value, "block_shape", None)
    if isinstance(base, torch.Tensor) and block_shape is not None:  # a TMA descriptor made on the host
        return describe_descriptor(base, block_shape)
    return str(to_plain_value(value))


def to_plain_value(value: object) -> JsonValue:
    if isinstance(value, JITFunction):
        return str(value.__name__)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no inf
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def find_sources(src: ASTSource) -> tuple[Source, ...]:
    """The kernel's source text, then that of the jitted functions it calls or is passed, each once."""
    if not hasattr(src, "fn"):
        return ()
    fn = src
    while not isinstance(fn, JITFunction):  # an autotuner or heuristics
        fn = fn.fn
    passed = [value for value in getattr(src, "constants", {}).values() if isinstance(value, JITFunction)]
    waiting = [fn, *passed]
    sources: dict[str, Source] = {}
    while waiting:
        function = waiting.pop(0)
        if function.__name__ in sources:
            continue
        text, file = "".join(function.raw_src), function.fn.__code__.co_filename
        sources[function.__name__] = Source(function.__name__, file, function.starting_line_number, text)
        waiting += _find_callees(function)
    return tuple(sources.values())


def _find_callees(fn: JITFunction) -> Iterator[JITFunction]:
    """Jitted functions that a function's text names, without those of Triton's own library."""
    for node in ast.walk(fn.parse()):
        if isinstance(node, ast.Name):
            callee = fn.fn.__globals__.get(node.id)
            if isinstance(callee, JITFunction) and not callee.fn.__module__.startswith("triton."):
                yield callee
