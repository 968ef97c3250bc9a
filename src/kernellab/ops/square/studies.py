"""Square in Triton with one program per row: how the block and the warps change its speed.

`klab bench square --impl 'triton*'` compares them with the implementation to use, triton.py, which ignores rows if the
memory is contiguous.
"""

from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.square import square

NO_LOOP = "a block of 1024 columns for every row, and no loop: further columns are never written"


def fits_a_block(case):
    if case.N > 1 << 20:
        return "Triton cannot hold a row of more than 2^20 columns as one block"
    return has_gpu_kernel(case)


@square.impl("triton-pow2", supports=fits_a_block, study=True)
def _(x):
    from kernellab.ops.square.studies_triton import square_whole_row

    return square_whole_row(x)


@square.impl("triton-w4", supports=fits_a_block, study=True)
def _(x):
    from kernellab.ops.square.studies_triton import square_whole_row

    return square_whole_row(x, warps=4)


@square.impl("triton-w8", supports=fits_a_block, study=True)
def _(x):
    from kernellab.ops.square.studies_triton import square_whole_row

    return square_whole_row(x, warps=8)


@square.impl("triton-w16", supports=fits_a_block, study=True)
def _(x):
    from kernellab.ops.square.studies_triton import square_whole_row

    return square_whole_row(x, warps=16)


@square.impl("triton-1024", supports=has_gpu_kernel, study=True)
def _(x):
    from kernellab.ops.square.studies_triton import square_in_pieces

    return square_in_pieces(x)


@square.impl("triton-1024-once", supports=has_gpu_kernel, study=True, flaw=NO_LOOP)
def _(x):
    from kernellab.ops.square.studies_triton import square_first_piece

    return square_first_piece(x)
