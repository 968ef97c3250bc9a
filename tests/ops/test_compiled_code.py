"""The code of the shipped kernels at their main sizes: nothing is spilled, and tensors are moved 16 bytes at a time."""

import pytest

import kernellab as kl
from kernellab.codeanalysis.facts import facts_from_cubin
from support.ops import all_ops_with
from support.shipped_code import compiled

ARCHS = (80, 90, 100)
# Columns and dtypes.
ELEMENTWISE = [(4096, "bfloat16"), (4096, "float32")]
WIDTHS = [(1024, "float32"), (4096, "bfloat16"), (16384, "float32"), (131072, "bfloat16")]
ANYWHERE = (50257, "bfloat16")  # rows of 50257 elements of 2 bytes start anywhere
OWN_SIZES = {
    "attention": [(64, "bfloat16"), (128, "bfloat16"), (64, "float32")],
    "rope": [(128, "bfloat16"), (128, "float32")],
    "cross_entropy": [(4096, "float32"), ANYWHERE, (131072, "bfloat16")],
    "linear_gelu": [(1024, "bfloat16"), (4096, "bfloat16"), (4096, "float32")],
    "linear_cross_entropy": [(1024, "bfloat16"), (4096, "bfloat16"), (4096, "float32")],
}
APART = ("matmul",)  # test_matmul_code.py
# Kernels that move a few numbers per row or column.
SMALL = ("norm_shift", "norm_add_up", "cross_entropy_reduce", "cross_entropy_join", "add_up", "reduce_losses", "join")


def main_sizes():
    """Each size for one architecture, in turn: all for all would take minutes."""
    turn = 0
    for impl in ("triton", "cuda"):
        for name in (name for name in all_ops_with(impl) if name not in APART):
            sizes = OWN_SIZES.get(name) or (WIDTHS if getattr(kl.ops, name).reduces else ELEMENTWISE)
            if impl == "cuda" and sizes is WIDTHS:
                sizes = [*WIDTHS, ANYWHERE]
            for cols, dtype in sizes:
                yield name, impl, cols, dtype, ARCHS[turn % 3]
                turn += 1


@pytest.mark.parametrize(("name", "impl", "cols", "dtype", "arch"), list(main_sizes()))
def test_nothing_is_spilled_and_rows_are_moved_in_16_bytes(name, impl, cols, dtype, arch):
    rows = 64 if name in ("attention", "rope") else 4096
    # The last combination of options has all optional tensors, such as the weight of a norm.
    options = -1 if name.endswith("norm") else 0
    kernels = compiled(name, impl, cols=cols, rows=rows, dtype=dtype, arch=arch, options=options)
    assert len(kernels) >= 2  # forward and backward
    for kernel in kernels:
        (facts,) = facts_from_cubin(kernel.cubin, kernel.ptx)
        assert (facts.spill_bytes, facts.stack_bytes) == (0, 0), kernel.kernel
        if not kernel.kernel.startswith(SMALL):
            wide = {access.kind for access in facts.accesses if access.bytes == 16}
            # Unless the copy engine brings whole rows, or tiles, to shared memory.
            copied = "bulk_copy" in facts.instructions or "TMA" in facts.uses
            assert wide & {"global_load", "async_copy"} or copied, (kernel.kernel, facts.accesses)
            stores = [access.bytes for access in facts.accesses if access.kind == "global_store"]
            assert "global_store" in wide or max(stores, default=0) <= 8, (kernel.kernel, facts.accesses)
