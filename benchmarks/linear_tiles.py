"""The shipped kernels of linear layers with other sizes of tiles and chunks: for benchmarks/linear.py --tune.

`linear_gelu` and `linear_cross_entropy` get an implementation for each candidate. `slope` and `converted` are the
kernels beside the products, as ops of their own: the gradients of GeLU's input and of the bias, and the gradient of
logits, which overwrites them.
"""

import importlib

import torch

import kernellab as kl
from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.linear import as_matrix
from kernellab.ops.linear_cross_entropy import linear_cross_entropy
from kernellab.ops.linear_gelu import linear_gelu
from kernellab.ops.linear_triton import Tiles

CHUNKS = (4, 5, 6, 8, 12)
# Rows at a time, columns and warps of a program, and programs per SM.
SLOPES = ((16, 256, 4, 4), (8, 256, 4, 4), (8, 256, 4, 8), (16, 256, 8, 4), (8, 512, 4, 4), (32, 128, 4, 4))
# Elements in the registers of a program, and elements of a thread.
HELD = ((32768, 32), (16384, 32), (8192, 32), (16384, 16), (32768, 64))


def gelu_launcher():
    return importlib.import_module("kernellab.ops.linear_gelu.triton")


def loss_launcher():
    return importlib.import_module("kernellab.ops.linear_cross_entropy.triton")


def name_of(tiles: Tiles) -> str:
    kind = f"persistent{tiles.per_sm}" if tiles.per_sm else "grid"
    sizes = f"{tiles.rows}x{tiles.cols}x{tiles.depth}-{tiles.warps}w-{tiles.stages}s-{tiles.group}g"
    return f"triton-{sizes}-{kind}{'-halves' if tiles.halves else ''}"


def declare_gelu(tiles: Tiles) -> None:
    def run(x, weight, bias=None, *, approximate="tanh"):
        y, _ = gelu_launcher().forward_in(tiles, as_matrix(x), weight, bias, approximate, keep=False)
        return y.view(*x.shape[:-1], weight.shape[0])

    linear_gelu.impl(name_of(tiles))(run)


def declare_losses(tiles: Tiles) -> None:
    def run(x, weight, target, **options):
        losses = loss_launcher().losses_in(tiles, x, weight, target, Settings(**options))
        return (losses.sum() / (target != options["ignore_index"]).sum()).to(x.dtype)

    linear_cross_entropy.impl(name_of(tiles), supports=lambda case: case.reduction == "mean" or "means only")(run)


def declare_chunks(count: int) -> None:
    def run(*tensors, **options):
        importlib.import_module("kernellab.ops.linear_cross_entropy.passes").MOST_CHUNKS = count
        return linear_cross_entropy["triton"](*tensors, **options)

    linear_cross_entropy.impl(f"triton-{count}-chunks", grad_in_forward=True)(run)


for candidate in gelu_launcher().CANDIDATES:
    declare_gelu(candidate)
for candidate in loss_launcher().CANDIDATES:
    declare_losses(candidate)
for chunks in CHUNKS:
    declare_chunks(chunks)


# The kernels beside the products ------------------------------------------------------------------------


@kl.op(
    args=dict(dy=kl.tensor("M N"), z=kl.tensor("M N")),
    reduces="M",
    cost=lambda dy, z: kl.Cost(read=[dy, z], write=[z, z.shape[1] * z.element_size()]),
    cases=kl.cases(shape=[(8192, 16384)], dtype=["bfloat16"]),
)
def slope(dy, z):
    """dy·gelu'(z), and its sum over the rows."""
    with torch.enable_grad():
        leaf = z.detach().requires_grad_()
        (dz,) = torch.autograd.grad(torch.nn.functional.gelu(leaf, approximate="tanh"), leaf, dy)
    return dz, dz.sum(0)


@slope.impl("torch")
def _(dy, z):
    dz = torch.ops.aten.gelu_backward(dy, z, approximate="tanh")
    return dz, dz.sum(0)


def declare_slope(rows: int, cols: int, warps: int, per_sm: int) -> None:
    def run(dy, z):
        launcher = gelu_launcher()
        launcher.SLOPE_ROWS, launcher.SLOPE_COLS, launcher.SLOPE_WARPS, launcher.SLOPES_PER_SM = (
            rows,
            cols,
            warps,
            per_sm,
        )
        return tuple(launcher.slope(dy, z, "tanh", with_bias=True))

    slope.impl(f"triton-{rows}x{cols}-{warps}w-{per_sm}")(run)


for sizes in SLOPES:
    declare_slope(*sizes)


@kl.op(
    args=dict(logits=kl.tensor("M V"), target=kl.index("M", below="V")),
    reduces="V",
    cost=lambda logits, target: kl.Cost(read=[logits, target], write=[logits]),
    cases=kl.cases(shape=[(1408, 128256)], dtype=["bfloat16"]),
)
def converted(logits, target):
    """softmax(logits), and one less at the target."""
    gradient = torch.softmax(logits, -1)
    return gradient.scatter_add(1, target[:, None], -torch.ones_like(gradient[:, :1]))


def declare_converted(held: int, per_thread: int) -> None:
    def run(logits, target):
        launcher = loss_launcher()
        launcher.MOST_IN_REGISTERS, launcher.PER_THREAD = held, per_thread
        ones = torch.ones((), device=logits.device)
        launcher.TritonKernels().convert(logits, target, ones, None, Settings("sum", 0.0, -100))
        return logits

    converted.impl(f"triton-{held}-{per_thread}", clone=True, supports=lambda case: case.V % 8 == 0 or "rows apart")(
        run
    )


for sizes in HELD:
    declare_converted(*sizes)
