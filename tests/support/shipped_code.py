"""Compiles the shipped GPU kernels to PTX and cubin for any architecture, without a GPU.

`python tests/support/shipped_code.py` compiles all of them for all architectures and lists what kernellab cannot parse.
Tests compile each kernel once.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import kernellab as kl

ARCHS = (75, 80, 86, 89, 90, 100, 120)
DTYPES = ("fp32", "bf16", "fp16")
TRITON = (
    *(f"{op}_{kind}" for op in ("tanh", "erf", "square") for kind in ("flat", "rows")),
    "softmax_tile",
    "softmax_wide",
)
CUDA = (
    *(f"{op}_map_{kind}" for op in ("GeluTanh", "GeluErf", "Square") for kind in ("flat", "rows")),
    "softmax_warp",
    "softmax_block",
    "softmax_loop",
    "softmax_cluster",
)
_C_NAMES = {"fp32": "float", "bf16": "__nv_bfloat16", "fp16": "__half"}


@dataclass(frozen=True)
class Compiled:
    ptx: str
    cubin: bytes


@functools.cache
def triton_kernel(name: str, dtype: str, arch: int) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    fn, signature, constants, warps = _triton_call(name, f"*{dtype}")
    names = list(signature)
    source = ASTSource(
        fn=fn,
        signature=signature,
        constexprs={(names.index(key),): value for key, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(2)},
    )
    built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps})
    return Compiled(built.asm["ptx"], built.asm["cubin"])


def _triton_call(name: str, pointer: str):
    from kernellab.ops import elementwise_triton
    from kernellab.ops.gelu.triton import gelu_erf, gelu_tanh
    from kernellab.ops.softmax import triton as softmax
    from kernellab.ops.square.triton import square_of

    ends = {"x_ptr": pointer, "y_ptr": pointer}
    if name == "softmax_tile":
        constants = {"x_col": 1, "VEC": 4, "TILE_ROWS": 1, "TILE_COLS": 2048}
        sizes = {"rows": "i32", "cols": "i32", "x_row": "i32"}
        return softmax.softmax_tile, ends | sizes | dict.fromkeys(constants, "constexpr"), constants, 4
    if name == "softmax_wide":
        constants = {"x_col": 1, "VEC": 4, "WIDTH": 4, "CHUNK": 4096}
        sizes = {"cols": "i32", "x_row": "i32"}
        return softmax.softmax_wide, ends | sizes | dict.fromkeys(constants, "constexpr"), constants, 8
    op, _, kind = name.partition("_")
    f = {"tanh": gelu_tanh, "erf": gelu_erf, "square": square_of}[op]
    if kind == "flat":
        constants = {"f": f, "BLOCK": 512}
        return elementwise_triton.map_flat, ends | {"n": "i32", "f": "constexpr", "BLOCK": "constexpr"}, constants, 4
    constants = {"f": f, "VEC": 4, "TILE_ROWS": 4, "TILE_COLS": 256}
    sizes = {"rows": "i32", "cols": "i32", "x_row": "i64", "x_col": "i32", "y_row": "i64", "y_col": "i32"}
    return elementwise_triton.map_rows, ends | sizes | dict.fromkeys(constants, "constexpr"), constants, 4


@functools.cache
def cuda_kernel(name: str, dtype: str, arch: int) -> Compiled:
    """Compiled by NVRTC: the cubin as the op builds it, the PTX for the same architecture."""
    from kernellab.build.cuda import kernel

    op = {"G": kl.ops.gelu, "S": kl.ops.square, "s": kl.ops.softmax}[name[0]]
    width, c_name = (4 if dtype == "fp32" else 8), _C_NAMES[dtype]
    if name.startswith("softmax"):
        arguments = {"warp": f"{width}, 2, 32", "block": f"{width}, 8, false", "loop": f"{width}, false"}
        kind = name.partition("_")[2]
        call = f"softmax_{kind}<{c_name}, {arguments[kind]}>" if kind in arguments else ""
        call = call or f"softmax_block<{c_name}, {width}, 8, true>"
    else:
        functor, _, kind = name.partition("_")
        call = f"{kind}<{functor}, {c_name}, {width}>"
    built = kernel(op.file.parent / "cuda.cu", call)
    return Compiled(_nvrtc_ptx(built.path, call, arch), built.compile(f"sm_{arch}").code)


def _nvrtc_ptx(path, name: str, arch: int) -> str:
    from cuda.bindings import nvrtc

    from kernellab.build.cuda import include_folders

    _, program = nvrtc.nvrtcCreateProgram(path.read_bytes(), str(path).encode(), 0, [], [])
    nvrtc.nvrtcAddNameExpression(program, name.encode())
    folders = [f"-I{folder}" for folder in (path.parent, *include_folders())]
    options = [f"--gpu-architecture=compute_{arch}", "--std=c++17", "-lineinfo", *folders]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    assert not error, f"{name} for sm_{arch}: {error}"
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    return text.rstrip(b"\0 ").decode()


def sample_kernels() -> Iterator[tuple[str, Compiled]]:
    """Every kernel once, with types and architectures in rotation: quick enough for a test."""
    turns = itertools.cycle(zip(DTYPES * 7, (90, 75, 100) * 3 + (80, 120, 89) * 4, strict=True))
    for build, names in ((triton_kernel, TRITON), (cuda_kernel, CUDA)):
        for name, (dtype, arch) in zip(names, turns, strict=False):
            at = 90 if name == "softmax_cluster" else arch
            yield f"{name} {dtype} sm_{at}", build(name, dtype, at)


def all_kernels() -> Iterator[tuple[str, Compiled]]:
    for arch, dtype in itertools.product(ARCHS, DTYPES):
        for name in TRITON:
            yield f"triton {name} {dtype} sm_{arch}", triton_kernel(name, dtype, arch)
        for name in CUDA:
            if name != "softmax_cluster" or arch >= 90:
                yield f"cuda {name} {dtype} sm_{arch}", cuda_kernel(name, dtype, arch)


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
