"""Matmul from the textbook to the implementations `cuda` and `triton`: docs/matmul.md says what each step gains."""

from kernellab.ops.gpus import capability, shared_bytes
from kernellab.ops.matmul import matmul
from kernellab.ops.matmul.matrices import Matrix, new_product
from kernellab.ops.matmul.precision import is_ieee
from kernellab.ops.studies import MOST_BLOCKS, current_gpu, is_contiguous, kernel

# Of a block, as in studies.cu.
TENSOR_TILE = (128, 256)
STAGE_BYTES = sum(TENSOR_TILE) * 128
MOST_STAGES = 4


def is_plain(case):
    """Contiguous, and computed as it is."""
    contiguous = is_contiguous(case)
    if contiguous is not True:
        return contiguous
    if -(-case.M // 8) * -(-case.N // 8) > MOST_BLOCKS:
        return f"takes at most {MOST_BLOCKS} blocks: a grid has no more"
    return is_ieee(case)


def is_for_tensor_cores(case):
    if capability(current_gpu()) < (8, 0):
        return "needs tensor cores of compute capability 8.0"
    contiguous = is_contiguous(case)
    if contiguous is not True:
        return contiguous
    if case.dtype == "float32" and case.fp32_precision == "ieee":
        return "tensor cores have no float32: --opt fp32_precision=tf32"
    return True


def is_tf32(case):
    contiguous = is_contiguous(case)
    if contiguous is not True:
        return contiguous
    return case.fp32_precision == "tf32" or "computes in tf32 only: --opt fp32_precision=tf32"


@matmul.impl("cuda-naive", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return launch("matmul_naive", a, b, tile=(32, 8), threads=256)


@matmul.impl("cuda-coalesced", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return launch("matmul_coalesced", a, b, tile=(8, 32), threads=256)


@matmul.impl("cuda-shared", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return launch("matmul_shared", a, b, tile=(32, 32), threads=1024)


@matmul.impl("cuda-registers", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return launch("matmul_registers", a, b, tile=(128, 128), threads=256)


@matmul.impl("cuda-vector", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return launch("matmul_vector", a, b, *alignment(a, b), tile=(128, 128), threads=256)


@matmul.impl("cuda-pipeline", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return launch("matmul_pipeline", a, b, *alignment(a, b), tile=(128, 128), threads=256)


@matmul.impl("cuda-tensor", supports=is_for_tensor_cores, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return tensor_step(a, b, stages=1, swizzled=False)


@matmul.impl("cuda-stages", supports=is_for_tensor_cores, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return tensor_step(a, b, stages=stages_of(a, swizzled=False), swizzled=False)


@matmul.impl("cuda-swizzle", supports=is_for_tensor_cores, study=True)
def _(a, b, *, fp32_precision="ieee"):
    return tensor_step(a, b, stages=stages_of(a, swizzled=True), swizzled=True)


@matmul.impl("triton-simple", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    from kernellab.ops.matmul.studies_triton import one_tile_each

    return one_tile_each(a, b, group=1)


@matmul.impl("triton-grouped", supports=is_plain, study=True)
def _(a, b, *, fp32_precision="ieee"):
    from kernellab.ops.matmul.studies_triton import one_tile_each

    return one_tile_each(a, b, group=8)


@matmul.impl("triton-tf32", supports=is_tf32, study=True)
def _(a, b, *, fp32_precision="ieee"):
    """It has not run on a GPU yet, and the interpreter does not cut operands."""
    from kernellab.ops.matmul.studies_triton import in_tf32

    return in_tf32(a, b)


def launch(name, a, b, *arguments, tile, threads, shared=0):
    """A kernel of studies.cu, with a block for each tile of the result."""
    c = new_product(a, b)
    if c.numel():
        blocks = -(-c.shape[0] // tile[0]) * -(-c.shape[1] // tile[1])
        sizes = (*c.shape, a.shape[1])
        kernel("matmul", name, a, *arguments)(blocks, threads, a, b, c, *sizes, shared=shared)
    return c


def alignment(*matrices):
    """Of each, whether all its rows begin at a multiple of 16 bytes."""
    return [Matrix(x, True, x.shape[1]).aligned for x in matrices]


def tensor_step(a, b, *, stages, swizzled):
    arguments = (stages, swizzled, *alignment(a, b))
    shared = stages * stage_bytes(a, swizzled=swizzled)
    return launch("matmul_tensor_step", a, b, *arguments, tile=TENSOR_TILE, threads=256, shared=shared)


def stage_bytes(a, *, swizzled):
    """Of a tile of each operand. One that is not swizzled has 16 bytes more in a row."""
    rows = 0 if swizzled else TENSOR_TILE[0] + 128 // a.element_size()
    return STAGE_BYTES + 16 * rows


def stages_of(a, *, swizzled):
    return min(MOST_STAGES, shared_bytes(a.device) // stage_bytes(a, swizzled=swizzled))
