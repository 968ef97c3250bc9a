"""`kl.ptx`: the PTX of an implementation or of a kernel as text. It needs no GPU. `klab inspect` shows more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from kernellab.base.errors import UserError
from kernellab.build.cuda import Kernel
from kernellab.capture.meta_inputs import meta_inputs
from kernellab.capture.recorder import capture
from kernellab.capture.standin_torch import torch_lock
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import Impl, Op

if TYPE_CHECKING:
    from triton.runtime.jit import JITFunction

Options = dict[str, object]


def ptx(code: object, *args: object, arch: str | None = None, **options: object) -> str:
    """The PTX of an implementation, of a `@triton.jit` kernel or of a kernel of `kl.cuda.kernel`.

    An implementation without arguments is compiled for its op's first case. A Triton kernel needs the arguments of a
    launch; a dtype stands for a pointer to it. For an autotuned kernel, a parameter that is passed replaces the one of
    its configurations. The PTX of several kernels is concatenated, each below a comment with its name.

    >>> ptx(kl.ops.gelu["triton"], arch="sm_90")                                 # doctest: +SKIP
    >>> ptx(add_kernel, torch.float32, torch.float32, 4096, BLOCK=1024)          # doctest: +SKIP
    """
    arch = arch or _default_arch()
    if isinstance(code, Kernel):
        return code.compile(arch).ptx
    if isinstance(code, Op):
        first = next(iter(code.impls))
        raise UserError(f"op {code.name} has several implementations: name one, {code.name}[{first!r}]")
    if isinstance(code, Impl) and code.kind.name == "compile":  # inductor keeps the first device it sees
        name = code.op.name
        raise UserError(f"torch.compile needs a process of its own: klab inspect {name} --impl {code.name} --show ptx")
    if isinstance(code, Impl):
        launches = capture(code.fn, *_impl_call(code, args, options), arch=arch)
    else:
        meta_args = [_to_meta(arg) for arg in args]
        calls = _kernel_calls(code, options)
        launches = [launch for fn, keywords in calls for launch in capture(fn[(1,)], meta_args, keywords, arch=arch)]
    texts = [(launch.kernel, str(launch.code["ptx"])) for launch in launches if "ptx" in launch.code]
    if not texts:
        raise UserError(f"{code!r} launched no kernel of Triton or of kl.cuda.kernel: there is no PTX to show")
    if len(texts) == 1:
        return texts[0][1]
    return "\n".join(f"// {name}\n{text}" for name, text in texts)


def _default_arch() -> str:
    """The architecture of the GPU present, else sm_90."""
    with torch_lock:  # another thread may have replaced torch.cuda with a stand-in
        if not torch.cuda.is_available():
            return "sm_90"
        major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _impl_call(impl: Impl, args: Sequence[object], options: Options) -> tuple[list[object], Options]:
    """The arguments on meta, or those of the op's first case where none are given."""
    if args:
        return [_to_meta(arg) for arg in args], options
    op = impl.op
    case = op.expand(CaseRequest(quick=True), "cuda")[0]
    return list(meta_inputs(op, case).values()), {**op.call_options(case), **options}


def _to_meta(value: object) -> object:
    if isinstance(value, torch.dtype):
        return torch.empty(1, dtype=value, device="meta")
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _kernel_calls(code: object, options: Options) -> list[tuple[JITFunction, Options]]:
    """Kernels with the keywords of each launch.

    A tuner rejects parameters that it chooses itself. Where one of them is given, its kernel is launched directly, once
    for each configuration.
    """
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    if type(code).__name__ == "InterpretedFunction":
        raise UserError("TRITON_INTERPRET is set: kernels are interpreted in this process, and none is compiled")
    if not isinstance(code, (JITFunction, Autotuner, Heuristics)):
        kind = type(code).__name__
        raise UserError(
            f"a {kind} has no PTX: pass an implementation, op['triton'], or a kernel of @triton.jit or kl.cuda.kernel"
        )
    configs = [config.all_kwargs() for config in code.configs] if isinstance(code, Autotuner) else []
    if not any(name in config for config in configs for name in options):
        return [(code, options)]
    calls: list[tuple[JITFunction, Options]] = []
    for config in configs:
        call = (code.fn, {**config, **options})
        if call not in calls:
            calls.append(call)
    return calls
