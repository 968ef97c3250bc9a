"""`kl.ptx`: the PTX of a way or of a kernel as text, with no GPU needed. `klab inspect` shows more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernellab.base.errors import UserError
from kernellab.build.cuda import Kernel
from kernellab.capture.recorder import capture
from kernellab.capture.torch_device import alone
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import Impl, Op


def ptx(what: Any, *args: Any, arch: str | None = None, **options: Any) -> str:
    """The PTX of a way, of a `@triton.jit` kernel or of a kernel of `kl.cuda.kernel`.

    A way without arguments is taken at its op's first case. A Triton kernel is given what it would be launched
    with; a dtype stands for a pointer to it. What is given of an autotuned kernel's parameters holds instead of its
    configurations. Several kernels follow one another, each under a comment with its name.

    >>> ptx(kl.ops.gelu["triton"], arch="sm_90")                                 # doctest: +SKIP
    >>> ptx(add_kernel, torch.float32, torch.float32, 4096, BLOCK=1024)          # doctest: +SKIP
    """
    target = arch or _here()
    if isinstance(what, Kernel):
        return what.compile(target).ptx
    if isinstance(what, Op):
        raise UserError(f"op {what.name} has several ways: name one, {what.name}[{next(iter(what.impls))!r}]")
    if isinstance(what, Impl) and what.kind.name == "compile":  # inductor keeps to the first device it has seen
        name = what.op.name
        raise UserError(f"torch.compile needs a process of its own: klab inspect {name} --impl {what.name} --show ptx")
    if isinstance(what, Impl):
        launches = capture(what.fn, *_call(what, args, options), arch=target)
    else:
        given = [_meta(a) for a in args]
        calls = _configured(_kernel(what), options)
        launches = [one for kernel, meta in calls for one in capture(kernel[(1,)], given, meta, arch=target)]
    found = [(launch.kernel, str(launch.code["ptx"])) for launch in launches if "ptx" in launch.code]
    if not found:
        raise UserError(f"{what!r} launched no Triton kernel and none of kl.cuda.kernel: there is no PTX to show")
    if len(found) == 1:
        return found[0][1]
    return "\n".join(f"// {name}\n{text}" for name, text in found)


def _here() -> str:
    with alone:  # another thread may be pretending
        if not torch.cuda.is_available():
            return "sm_90"
        major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _call(impl: Impl, args: Sequence[Any], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments given, on meta; or those of the op's first case."""
    if args:
        return [_meta(a) for a in args], options
    op = impl.op
    case = op.expand(CaseRequest(quick=True), "cuda")[0]
    tensors: list[torch.Tensor | None] = []
    for name, arg in op.args.items():
        if arg.optional and not case.options.get(name, False):
            tensors.append(None)
            continue
        dtype = torch.int64 if arg.is_index else getattr(torch, case.dtype)
        tensors.append(torch.empty(op.sizes(arg, case), dtype=dtype, device="meta"))
    return tensors, {**op.call_options(case), **options}


def _meta(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.empty(1, dtype=value, device="meta")
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _configured(kernel: Any, options: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Kernels with what to launch each with. A tuner takes nothing that it chooses itself: its kernel does."""
    from triton.runtime.autotuner import Autotuner

    configs = [config.all_kwargs() for config in kernel.configs] if isinstance(kernel, Autotuner) else []
    if not any(name in config for config in configs for name in options):
        return [(kernel, options)]
    calls: list[tuple[Any, dict[str, Any]]] = []
    for config in configs:
        call = (kernel.fn, {**config, **options})
        if call not in calls:
            calls.append(call)
    return calls


def _kernel(what: Any) -> Any:
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    if isinstance(what, (JITFunction, Autotuner, Heuristics)):
        return what
    kind = type(what).__name__
    if kind == "InterpretedFunction":
        raise UserError("TRITON_INTERPRET is set: kernels are interpreted in this process, and none is compiled")
    raise UserError(f"a {kind} has no PTX: give a way, op['triton'], or a kernel of @triton.jit or kl.cuda.kernel")
