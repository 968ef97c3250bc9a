"""Kernels that take tensor maps, on a real GPU: the copy engine brings the block that was asked for."""

import pytest
import torch

import kernellab as kl

pytestmark = pytest.mark.gpu

# Copies the block at (row, column) of a matrix, as it comes to lie in shared memory, to `to`.
SOURCE = """
struct alignas(64) Map { char bytes[128]; };
__global__ void block(const __grid_constant__ Map map, unsigned short* to, int row, int column, int elements) {
  __shared__ alignas(1024) unsigned short tile[16 * 64];
  __shared__ unsigned long long barrier;
  const unsigned here = __cvta_generic_to_shared(tile), at = __cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(2 * elements) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(here), "l"(&map), "r"(column), "r"(row), "r"(at) : "memory");
  }
  __syncthreads();
  asm volatile("{\\n.reg .pred done;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\\n"
               "@!done bra again;\\n}" :: "r"(at) : "memory");
  for (int i = threadIdx.x; i < elements; i += blockDim.x) to[i] = tile[i];
}
"""


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    file = tmp_path_factory.mktemp("source") / "block.cu"
    file.write_text(SOURCE)
    return kl.cuda.kernel(file, "block")


def copied(block, x, row, column, swizzle_bytes, *, cluster=None):
    rows = torch.full((16, 64), torch.nan, dtype=x.dtype, device=x.device)
    block(1, 64, kl.cuda.TensorMap(x, (16, 64), swizzle_bytes), rows, row, column, rows.numel(), cluster=cluster)
    return rows


@pytest.mark.parametrize("cluster", [None, 2])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (24, 64), (90, 128)])
def test_a_block_is_copied_and_what_is_outside_the_tensor_is_0(block, row, column, cluster):
    x = torch.randn(100, 200, dtype=torch.bfloat16, device="cuda")[:, :184]
    expected = torch.zeros(16, 64, dtype=x.dtype, device="cuda")
    inside = x[row : row + 16, column : column + 64]
    expected[: inside.shape[0], : inside.shape[1]] = inside
    assert torch.equal(copied(block, x, row, column, 0, cluster=cluster), expected)


def test_swizzle_permutes_the_pieces_of_each_row(block):
    x = torch.randn(16, 64, device="cuda").half()
    pieces = copied(block, x, 0, 0, 128).view(16, 8, 8)
    for row in range(16):
        for piece in range(8):
            assert torch.equal(pieces[row, piece ^ row % 8], x[row, 8 * piece : 8 * piece + 8])


def test_a_tensor_smaller_than_a_block(block):
    x = torch.randn(3, 8, device="cuda").half()
    rows = copied(block, x, 0, 0, 0)
    assert torch.equal(rows[:3, :8], x)
    assert rows.sum() == rows[:3, :8].sum()
