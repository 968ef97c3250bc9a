"""The code of the shipped GPU kernels for any architecture, captured without a GPU as `klab inspect` does.

`make exhaustive` compiles all of them for all architectures and lists what kernellab cannot parse.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from triton import knobs

import kernellab as kl
from kernellab.build import cuda
from kernellab.capture.meta_inputs import meta_inputs
from kernellab.capture.recorder import record_launches
from kernellab.capture.standin_cuda import replace_attribute
from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.declaration.passes import gradients, pass_of
from support.ops import all_ops_with, options_of

ARCHS = (75, 80, 86, 89, 90, 100, 120)
DTYPES = ("float32", "bfloat16", "float16")
IMPLS = ("triton", "cuda")
ROWS = 64
COLS = 1024
# Of ops along the last dim: for a warp, for a block or a cluster of blocks, and too many to stay on an SM.
WIDTHS = (100, COLS, 50_000, 1_000_000)
FIRST_WITH_CLUSTERS = 90
# Of attention, whose kernels have thousands of lines: one width, without options and with all of them.
OWN_WIDTHS = {"attention": (128,)}
OLDEST_ARCH = {"attention": 80}
# What distinguishes instantiations of one template with the same switches.
TYPE_OR_NUMBER = re.compile(r"(const )?(float|__half|__nv_bfloat16)\*?|\d+")


@dataclass(frozen=True)
class Compiled:
    kernel: str
    ptx: str
    cubin: bytes


@functools.cache
def compiled(op: str, impl: str, **choices: object) -> tuple[Compiled, ...]:
    """The kernels of one call, forward and then backward. For the choices see `_compile`."""
    return _compile(op, impl, **choices)


def _compile(
    op: str,
    impl: str,
    *,
    cols: int = COLS,
    rows: int = ROWS,
    dtype: str = "float32",
    arch: int = 90,
    options: int = 0,
    strided: bool = False,
    skipping: contextlib.AbstractContextManager[None] | None = None,
) -> tuple[Compiled, ...]:
    """`options`: the number of a combination of options. `skipping`: leaves launches out."""
    declared: Op = getattr(kl.ops, op)
    last_dim = next(iter(declared.args.values())).dims[-1]
    sizes = {dim: (rows,) if dim == "..." else rows for dim in declared.dims} | {last_dim: cols}
    case = Case(sizes, dtype, options_of(declared)[options])
    inputs = meta_inputs(declared, case)
    if strided:  # every second column
        inputs = {n: t if t is None or t.dim() < 2 else torch.cat((t, t), -1)[..., ::2] for n, t in inputs.items()}
    implementation = declared[impl]
    with record_launches(f"sm_{arch}") as launches, skipping or contextlib.nullcontext():
        results, leaves, _ = pass_of("both").graph(declared, implementation, inputs, case, mutates=frozenset())
        gradients(results, leaves, [torch.empty_like(result) for result in results])
    return tuple(Compiled(launch.kernel, launch.code["ptx"], launch.cubin) for launch in launches)


def sample_kernels() -> Iterator[tuple[str, Compiled]]:
    """Every kernel template, and every function that one is given, at least once; types and architectures in rotation:
    quick enough for a test."""
    turns = itertools.cycle(itertools.product(DTYPES, ARCHS))
    dtype, arch = next(turns)
    known: set[object] = set()
    for impl in IMPLS:
        for op, choices in _variants(impl):
            for sm in dict.fromkeys((arch, FIRST_WITH_CLUSTERS)):  # also templates that older GPUs do not launch
                added = list(_named(op, impl, dtype, sm, choices, _skip_known(known)))
                yield from added
                if added:
                    dtype, arch = next(turns)


@contextlib.contextmanager
def _skip_known(known: set[object]) -> Iterator[None]:
    """In the body, a kernel is compiled and launched only if its template, or a function that it is given, is not in
    `known`. These are added."""

    def is_known(template: object, given: Iterable[object]) -> bool:
        parts = {template, *given}
        was_known = parts <= known
        known.update(parts)
        return was_known

    def skip_triton(*, fn: object, compile: dict[str, dict], **_: object) -> bool:
        # None marks a tensor that is left out.
        values = compile["constants"].values()
        switches = [value for value in values if isinstance(value, bool)]
        return is_known((fn.name, *switches), (value.__name__ for value in values if callable(value)))

    def skip_cuda(kernel: cuda.Kernel, *launch: object) -> None:
        template, _, arguments = kernel.name.rstrip(">").partition("<")
        words = [word for word in arguments.split(", ") if not TYPE_OR_NUMBER.fullmatch(word)]
        switches = [word for word in words if word in ("true", "false")]
        if not is_known((template, *switches), set(words) - set(switches)):
            record(kernel, *launch)

    record = cuda.interceptor
    with (
        replace_attribute(cuda, "interceptor", skip_cuda),
        replace_attribute(knobs.runtime, "jit_cache_hook", skip_triton),
    ):
        yield


def all_kernels() -> Iterator[tuple[str, Compiled]]:
    for arch, dtype, impl in itertools.product(ARCHS, DTYPES, IMPLS):
        for op, choices in _variants(impl):
            yield from _named(op, impl, dtype, arch, choices)


def _variants(impl: str) -> Iterator[tuple[str, dict[str, int | bool]]]:
    """(op, choices) that lead to every kernel of an implementation."""
    for op in all_ops_with(impl):
        declared: Op = getattr(kl.ops, op)
        count = len(options_of(declared))
        for options in (0, count - 1) if op in OWN_WIDTHS else range(count):
            widths = OWN_WIDTHS.get(op, WIDTHS if declared.reduces else (COLS,))
            for cols in widths:
                yield op, {"cols": cols, "options": options}
            yield op, {"cols": COLS if COLS in widths else widths[0], "options": options, "strided": True}


def _named(
    op: str,
    impl: str,
    dtype: str,
    arch: int,
    choices: dict,
    skipping: contextlib.AbstractContextManager[None] | None = None,
) -> Iterator[tuple[str, Compiled]]:
    if int(arch) < OLDEST_ARCH.get(op, 0):
        return
    said = " ".join(f"{name}={value}" for name, value in choices.items())
    for number, kernel in enumerate(_compile(op, impl, dtype=dtype, arch=arch, **choices, skipping=skipping)):
        yield f"{op} {impl} {number} {kernel.kernel} {said} {dtype} sm_{arch}", kernel


def _main() -> int:
    from kernellab.codeanalysis.facts import facts_from_cubin
    from kernellab.machinecode.ptx import parse_ptx
    from kernellab.ptxwords.explain import explain_ptx

    kernels = lines = 0
    failures: list[str] = []
    for name, code in all_kernels():
        module = parse_ptx(code.ptx)
        explained = explain_ptx(module)
        kernels, lines = kernels + 1, lines + len(explained)
        failures += [f"{name}, line {problem.line}: {problem.message}" for problem in module.problems]
        failures += [f"{name}, line {line.line}: {line.text}" for line in explained if not line.known]
        for facts in facts_from_cubin(code.cubin, code.ptx):
            if "unknown" in facts.instructions:
                failures.append(f"{name}: {facts.instructions['unknown']} instructions of unknown class")
            if facts.arch.rstrip("a") != f"sm_{name.rpartition('_')[2]}":
                failures.append(f"{name}: compiled for {facts.arch}")
    print(f"{kernels} kernels, {lines} lines of PTX explained, {len(failures)} not known", *failures[:20], sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(_main())
