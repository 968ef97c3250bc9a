"""A kernel's names, arguments, loops and comparisons mean in the interpreter what they mean on a GPU."""

import subprocess
import sys

from support.klab import klab_env


def test_kernels_run_in_the_interpreter_as_they_are_written(tmp_path):
    """One process for all: importing torch and triton takes longer than the kernels."""
    program = tmp_path / "language.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, env=klab_env())
    assert done.returncode == 0, done.stderr[-3000:]
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == {
        "float argument and loop variable": "[7.5, 6.5]",
        "bits of loop variables": "[32, 64]",
        "libdevice and builtins by other names": "True",
        "constant of the module": "True",
        "masks joined by and": "[[1, 1, 0, 0], [1, 1, 0, 0]]",
        "masks joined by or": "[[1, 1, 1, 1], [1, 1, 0, 0]]",
        "not a mask": "[[0, 0, 1, 1], [0, 0, 1, 1]]",
        "and, or, not of scalars": "[1, 2, 0]",
        "maximum and clamp of nan": "[0.0, 0.0, nan]",
        "scan and reduction along the last axis": "True",
        "atomics in bfloat16": "[42.0, 49.0]",
        "descriptor": "True",
        "grid function sees integers": "int",
        "an object with a pointer": "[0.0, 1.0, 1.0, 0.0]",
        "compiled kernel": "[1.0, 1.0]",
        "jit function": "True ['out', 'N']",
        "tuned": "True True",
        "note": "scale is autotuned: each trial ran one of its 3 configurations, other trials ran others",
        "static assert": "tl.static_assert: N is 'too' \"large\": 16 at language.py | None",
        "inline ptx": "Triton's interpreter cannot run it: it has no inline PTX (tl.inline_asm_elementwise)",
        "undefined name": "None",
        "incompatible shapes": "None",
        "gpu": "True 1 0 (9, 0) cuda cuda:0 True cuda",
        "no gpu": "False cpu",
    }


PROGRAM = """
from kernellab.interpreter.emulation import enable_interpreter

enable_interpreter()
import torch
import triton
import triton.language as tl
from triton.language import load
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh
from triton.language.math import exp2
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from kernellab.base.user_code import explain
from kernellab.interpreter.fault import missing_gpu
from kernellab.activity.untuned import take_untuned
from kernellab.interpreter.pretended_gpu import pretended_gpu


@triton.jit
def combine_masks(both, either, neither, cols, first: tl.constexpr, N: tl.constexpr):
    row, col = tl.arange(0, 2)[:, None], tl.arange(0, N)[None, :]
    columns = col < cols
    at = row * N + col
    tl.store(both + at, (row >= 0 and columns).to(tl.int32))
    if first:
        tl.store(either + at, (row == 0 or columns).to(tl.int32))
    mask = not columns
    tl.store(neither + at, mask.to(tl.int32))


def zeros():
    return torch.zeros(2, 4, dtype=torch.int32)


both, either, neither = zeros(), zeros(), zeros()
combine_masks[(1,)](both, either, neither, 2, True, 4)
print("masks joined by and:", both.tolist())
print("masks joined by or:", either.tolist())
print("not a mask:", neither.tolist())


@triton.jit
def combine_scalars(out, n, flag: tl.constexpr):
    if flag and n > 2:
        tl.store(out, 1)
    if not flag or n == 3:
        tl.store(out + 1, 2)
    if not (n > 2 and flag):
        tl.store(out + 2, 3)


out = torch.zeros(3, dtype=torch.int32)
combine_scalars[(1,)](out, 3, True)
print("and, or, not of scalars:", out.tolist())


@triton.jit
def sum_blocks(x, out, n, eps, more, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for start in range(0, n, N):
        at = start.to(tl.int64) + i
        total += tl.load(x + at, mask=at < n, other=0.0)
    if more:
        total += eps.to(tl.float32)
    tl.store(out + i, total)


out = torch.zeros(16)
sum_blocks[(1,)](torch.ones(100), out, 100, 0.5, True, 16)
print("float argument and loop variable:", [out[0].item(), out[15].item()])


@triton.jit
def loop(out, n):
    for i in range(n):
        tl.static_assert(i.dtype == n.dtype, "another dtype")
        tl.store(out, i.dtype.primitive_bitwidth)


bits = torch.zeros(1, dtype=torch.int64)
loop[(1,)](bits, 3)


@triton.jit
def long_loop(out, n):
    for i in tl.range(n.to(tl.int64)):
        tl.store(out + 1, i.dtype.primitive_bitwidth)


bits = torch.cat([bits, bits])
long_loop[(1,)](bits, 3)
print("bits of loop variables:", bits.tolist())


@triton.jit
def functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = load(x + i)
    tl.store(out + i, libdevice.erf(v) + tanh(v) + exp2(v) + libdevice.pow(tl.abs(v), 2.0))


torch.manual_seed(0)
x = torch.randn(16)
functions[(1,)](x, out, 16)
print("libdevice and builtins by other names:", torch.allclose(out, x.erf() + x.tanh() + x.exp2() + x * x))


HALF = tl.constexpr(0.5)


@triton.jit
def use_constant(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.exp2(-HALF * tl.load(x + i)) + (HALF - (HALF + 1.0)))


use_constant[(1,)](x, out, 16)
print("constant of the module:", torch.allclose(out, (-0.5 * x).exp2() - 1))


@triton.jit
def limit(x, out):
    v = tl.load(x)
    tl.store(out, tl.maximum(v, 0.0))
    tl.store(out + 1, tl.clamp(v, 0.0, 1.0))
    tl.store(out + 2, tl.maximum(v, 0.0, propagate_nan=tl.PropagateNan.ALL))


limit[(1,)](torch.tensor([float("nan")]), out)
print("maximum and clamp of nan:", out[:3].tolist())


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def scan(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None]
    v = tl.load(x + at)
    tl.store(out + at, tl.associative_scan(v, -1, multiply) + tl.reduce(v, -1, multiply)[:, None])


x, result = torch.randn(4, 8), torch.zeros(4, 8)
scan[(1,)](x, result, 4, 8)
print("scan and reduction along the last axis:", torch.allclose(result, x.cumprod(1) + x.prod(1, keepdim=True)))


@triton.jit
def add_atomically(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out + i % 2, tl.load(x + i), mask=i < 14)


sums = torch.zeros(2, dtype=torch.bfloat16)
add_atomically[(1,)](torch.arange(16.0).bfloat16(), sums, 16)
print("atomics in bfloat16:", sums.tolist())


@triton.jit
def copy(source, target, n, N: tl.constexpr):
    for at in tl.range(0, n, N, num_stages=2):
        target.atomic_add([0, at], source.load([0, at]))


x, result = torch.randn(8, 32), torch.zeros(8, 32)
copy[(1,)](TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(result, [8, 16]), 32, 16)
print("descriptor:", torch.equal(x, result))


@triton.jit
def fill(out, N: tl.constexpr):
    tl.store(out + tl.program_id(0), 1.0)


def grid(meta):
    print("grid function sees integers:", type(meta["n"]).__name__)
    return (1,)


@triton.jit
def nothing(n):
    pass


class Buffer:
    # Triton launches with any object that has a pointer and a dtype.

    def __init__(self, base, offset):
        self.base, self.offset, self.dtype = base, offset, base.dtype

    def data_ptr(self):
        return self.base.data_ptr() + self.offset * self.base.element_size()


out = torch.zeros(4)
fill[(2,)](Buffer(out, 1), N=2)
print("an object with a pointer:", out.tolist())
nothing[grid](3)
out = torch.zeros(2)
kernel = fill.warmup(out, 2, grid=(1,))
kernel._init_handles()
assert kernel.n_regs > 0 and kernel.metadata.shared > 0
kernel[(2, 1, 1)](out, 2)
print("compiled kernel:", out.tolist())
print("jit function:", isinstance(fill, JITFunction), fill.arg_names)


@triton.autotune([triton.Config({"N": n}) for n in (8, 16, 32)], key=["n"])
@triton.jit
def scale(x, out, n, N: tl.constexpr):
    tl.static_assert(N < 32, "too large")
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


used, right = set(), True
for n in range(1, 40):
    x = torch.randn(n)
    out = torch.zeros(n)
    scale[lambda meta: (triton.cdiv(meta["n"], meta["N"]),)](x, out, n)
    used.add(scale.best_config.kwargs["N"])
    right &= torch.equal(out, 2 * x)
print("tuned:", right, used == {8, 16})
print("note:", *(run.note for run in take_untuned()))


@triton.jit
def check(N: tl.constexpr):
    tl.static_assert(N < 16, "N is 'too' \\"large\\": " + str(N))


@triton.jit
def checked(out, N: tl.constexpr):
    check(N)


@triton.jit
def inline(out):
    tl.store(out, tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [1.0], dtype=tl.float32, is_pure=True, pack=1))


@triton.jit
def undefined(out):
    tl.store(out, no_such_name)


@triton.jit
def incompatible(out):
    tl.store(out, tl.sum(tl.arange(0, 8) + tl.arange(0, 16)))


def error(kernel, *args):
    try:
        kernel[(1,)](out, *args)
    except Exception as raised:
        return raised


raised = error(checked, 16)
place = explain(raised).rpartition("(")[2].partition(":")[0]
print("static assert:", str(raised), "at", place, "|", missing_gpu(raised))
print("inline ptx:", missing_gpu(error(inline)))
print("undefined name:", missing_gpu(error(undefined)))
print("incompatible shapes:", missing_gpu(error(incompatible)))


class Devices(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        Devices.seen = grad.device.type
        return grad


with pretended_gpu():
    made = torch.empty(2, device="cuda")
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(Devices.apply(x), x, made)
    target = triton.runtime.driver.active.get_current_target()
    print("gpu:", torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device(),
          torch.cuda.get_device_capability(), target.backend, x.device, made.is_cuda, Devices.seen)
print("no gpu:", torch.cuda.is_available(), made.device)
"""
