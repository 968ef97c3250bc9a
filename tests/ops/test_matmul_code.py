"""What the kernels of matmul compile to: nothing is spilled, 16 bytes move at a time, and tensor cores multiply."""

import importlib

import pytest
import torch

import kernellab as kl
from kernellab.capture.recorder import record_launches
from kernellab.codeanalysis.facts import facts_from_cubin
from kernellab.codeanalysis.matrix_products import find_matrix_products
from kernellab.machinecode.ptx import parse_ptx
from kernellab.ops.matmul.matrices import as_matrix, new_product

# (implementation, architecture, dtype, fp32_precision, whether a and b are transposed, size)
MAIN = [
    ("cuda", "sm_80", "bfloat16", "ieee", (False, False), 4096),
    ("cuda", "sm_90", "float16", "ieee", (True, True), 4096),
    ("cuda", "sm_100", "bfloat16", "ieee", (False, True), 2048),
    ("cuda", "sm_90", "float32", "tf32", (True, False), 4096),
    ("cuda", "sm_90", "float32", "ieee", (False, False), 4096),
    ("triton", "sm_90", "bfloat16", "ieee", (False, False), 8192),
    ("triton", "sm_80", "bfloat16", "ieee", (False, False), 4096),
    ("triton", "sm_90", "float32", "ieee", (False, False), 4096),
]
MORE = [
    ("cuda", "sm_90", "bfloat16", "ieee", (True, False), 256),
    ("cuda", "sm_80", "float32", "tf32", (False, True), 4096),
    ("cuda", "sm_75", "float32", "ieee", (True, True), 4096),
    ("cuda", "sm_75", "float16", "ieee", (False, True), 256),
    ("triton", "sm_90", "float16", "ieee", (True, True), 4096),
    ("triton", "sm_100", "bfloat16", "ieee", (False, True), 4096),
]
CASES = [*MAIN, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in MORE)]
# The bytes of the widest access to the operands.
STEPS = {"naive": 2, "coalesced": 2, "shared": 2, "registers": 2, "vector": 16, "pipeline": 16}
STEPS |= {"tensor": 16, "stages": 16, "swizzle": 16}
SAMPLE = ("coalesced", "pipeline", "swizzle")


def launched(call, arch):
    """The launch of a call, and the facts of its kernel."""
    with record_launches(arch) as launches:
        call()
    (launch,) = launches
    (facts,) = facts_from_cubin(launch.cubin, launch.code["ptx"])
    assert (facts.spill_bytes, facts.stack_bytes) == (0, 0), launch.kernel
    return launch, facts


def meta(size, dtype, transposed=False):
    x = torch.empty(size, size, dtype=getattr(torch, dtype), device="meta")
    return x.t() if transposed else x


def products_of(launch):
    (kernel,) = parse_ptx(launch.code["ptx"]).kernels
    return {product.kind for product in find_matrix_products(kernel)}


@pytest.mark.parametrize(("impl", "arch", "dtype", "precision", "transposed", "size"), CASES)
def test_nothing_is_spilled_and_16_bytes_are_moved_at_a_time(impl, arch, dtype, precision, transposed, size):
    a, b = (meta(size, dtype, each) for each in transposed)
    launch, facts = launched(lambda: kl.ops.matmul[impl](a, b, fp32_precision=precision), arch)
    wide = {access.kind for access in facts.accesses if access.bytes == 16}
    on_tensor_cores = arch != "sm_75" and (dtype != "float32" or precision == "tf32")
    kinds = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}
    if (impl, arch) != ("triton", "sm_100"):  # tcgen05 has one name for both 16-bit types
        assert products_of(launch) == ({kinds[dtype]} if on_tensor_cores else set())
    if launch.kernel == "multiply_described":
        # Two operands in, and half of the results twice out, by the copy engine.
        assert facts.instructions["bulk_copy"] >= 3
        assert not {"global_load", "global_store"} & {access.kind for access in facts.accesses}
        assert arch != "sm_90" or facts.instructions["tensor_wgmma"]
        return
    assert {"async_copy", "global_load"} & wide
    assert "global_store" in wide or (dtype, on_tensor_cores) == ("float16", False)  # where 4 columns have 8 bytes


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step in SAMPLE else pytest.mark.exhaustive) for step in STEPS]
)
def test_a_step_loads_by_the_bytes_that_it_is_about(step):
    x = meta(4096, "bfloat16")
    _, facts = launched(lambda: kl.ops.matmul[f"cuda-{step}"](x, x), "sm_90")
    loads = [access.bytes for access in facts.accesses if access.kind in ("global_load", "async_copy")]
    assert max(loads) == STEPS[step]


def test_every_step_in_cuda_is_listed_here():
    studies = [i.name for i in kl.ops.matmul.impls.values() if i.study and i.kind.name == "cuda"]
    assert studies == [f"cuda-{step}" for step in STEPS]


TRITON = importlib.import_module("kernellab.ops.matmul.triton")  # its name is also the op's attribute


@pytest.mark.exhaustive
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_no_entry_of_tritons_tables_spills(arch, transposed):
    tables = [(TRITON.launch_pointed, TRITON.POINTED)]
    if arch != "sm_80":
        tables.append((TRITON.launch_described, TRITON.DESCRIBED))
    for launch, table in tables:
        for size, entries in table.items():
            for tiles in entries:
                a, b = (meta(8192, "float32" if size == 4 else "bfloat16", each) for each in transposed)
                operands = as_matrix(a), as_matrix(b), new_product(a, b)
                launched(lambda launch=launch, operands=operands, tiles=tiles: launch(*operands, tiles), arch)


def test_smaller_tiles_are_taken_where_sms_would_be_idle_and_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(TRITON, "sm_count", lambda device: 132)
    monkeypatch.setattr(TRITON, "shared_bytes", lambda device: 227 * 1024)
    choose = lambda rows, cols: TRITON.choose(TRITON.DESCRIBED, meta(1, "bfloat16").expand(rows, cols))  # noqa: E731
    assert choose(4096, 4096)[:2] == (128, 256)
    assert choose(2048, 2048)[:2] == (128, 128)
    assert choose(256, 256)[:2] == (64, 64)
    monkeypatch.setattr(TRITON, "shared_bytes", lambda device: 99 * 1024)
    assert choose(4096, 4096)[:2] == (64, 128)
