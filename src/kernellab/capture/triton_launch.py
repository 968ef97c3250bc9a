"""What a Triton launch says of itself: its name, what was chosen, its arguments, its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from triton.runtime.jit import JITFunction

from kernellab.capture.launch import Dims, Launch, Parameter, Source
from kernellab.capture.pointers import pointer, size_bytes

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_cooperative_grid", "launch_pdl")
LEVELS = ("ttir", "ttgir", "llir", "ptx", "cubin")
_WORDS = {"tt.divisibility": "divisible by"}


def launch_of(
    src: Any, metadata: Any, grid: Dims, arguments: tuple[Any, ...], code: Mapping[str, Any], *, arch: str
) -> Launch:
    """`src` is what was compiled: a jitted function with its types and constants, or a file. `grid` counts programs."""
    x, y, z = grid
    across, down, deep = getattr(metadata, "cluster_dims", None) or (metadata.num_ctas, 1, 1)
    return Launch(
        kind="triton",
        kernel=str(src.fn.__name__ if hasattr(src, "fn") else src.name),
        symbol=metadata.name,
        arch=arch,
        gpu="",
        grid=(x * metadata.num_ctas, y, z),
        block=(32 * metadata.num_warps, 1, 1),
        cluster=(across, down, deep),
        shared_bytes=metadata.shared,
        config=_config_of(src, metadata),
        parameters=_parameters_of(src, arguments),
        sources=sources_of(src),
        code={level: code[level] for level in LEVELS if level in code},
        build_s=0.0,
    )


def _config_of(src: Any, metadata: Any) -> dict[str, Any]:
    """Options that are set, and the constants the author declared as such."""
    chosen = {name: getattr(metadata, name, None) for name in OPTIONS}
    options = {name: value for name, value in chosen.items() if value not in (None, False)}
    constants = {}
    for path, value in getattr(src, "constants", {}).items():
        parameter = src.fn.params[path[0]]
        if parameter.is_constexpr:
            constants[parameter.name] = plain(value)
    return {**options, "constexprs": constants}


def _parameters_of(src: Any, arguments: tuple[Any, ...]) -> tuple[Parameter, ...]:
    """The arguments that are not declared constants, and what Triton made of each."""
    if not hasattr(src, "fn"):
        return ()
    found = []
    for at, (parameter, value) in enumerate(zip(src.fn.params, arguments, strict=True)):
        if parameter.is_constexpr:
            continue
        kind = str(src.signature[parameter.name])
        special = ", ".join(f"{_WORDS.get(name, name)} {of}" for name, of in src.attrs.get((at,), ()))
        if kind == "constexpr":  # not the author's doing
            kind, special = type(value).__name__, f"equal to {value}: compiled in as a constant"
        found.append(Parameter(parameter.name, kind, told(value), special, size_bytes(value)))
    return tuple(found)


def told(value: Any) -> str:
    """An argument in a few words: a number as it is, a tensor by what its pointer points to."""
    if isinstance(value, torch.Tensor):
        return pointer(value)
    base = getattr(value, "base", None)
    if isinstance(base, torch.Tensor) and hasattr(value, "block_shape"):  # a TMA descriptor made on the host
        return f"descriptor of a {pointer(base)}, in blocks of {'×'.join(map(str, value.block_shape))}"
    return str(plain(value))


def plain(value: Any) -> Any:
    if isinstance(value, JITFunction):
        return value.__name__
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def sources_of(src: Any) -> tuple[Source, ...]:
    """The kernel's text, then the jitted functions it calls or is given, each once."""
    if not hasattr(src, "fn"):
        return ()
    fn = src
    while not isinstance(fn, JITFunction):  # an autotuner, heuristics
        fn = fn.fn
    given = [v for v in getattr(src, "constants", {}).values() if isinstance(v, JITFunction)]
    waiting, found = [fn, *given], {}
    while waiting:
        one = waiting.pop(0)
        if one.__name__ in found:
            continue
        text, file = "".join(one.raw_src), one.fn.__code__.co_filename
        found[one.__name__] = Source(one.__name__, file, one.starting_line_number, text)
        waiting += _called(one)
    return tuple(found.values())


def _called(fn: Any) -> Iterator[Any]:
    """Jitted functions whose names stand in the text of one; not those of Triton's own library."""
    for node in ast.walk(fn.parse()):
        if isinstance(node, ast.Name):
            named = fn.fn.__globals__.get(node.id)
            if isinstance(named, JITFunction) and not named.fn.__module__.startswith("triton."):
                yield named
