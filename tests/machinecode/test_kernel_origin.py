"""Kernels and rows of a profile by their names."""

import pytest

from kernellab.machinecode.kernel_origin import became, family, in_words


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda", "elementwise"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float", "reduction"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", "cuBLAS"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3", "cuBLAS"),
        ("void sgemm_largek_lds64<true, false, 5, 5, 4, 4, 4, 34>(float*, float const*)", "cuBLAS"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", "CUTLASS"),
        ("triton_poi_fused_add_mul_tanh_0", "inductor"),
        ("triton_red_fused__softmax_0", "inductor"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float", "softmax"),
        ("Memcpy DtoD (Device -> Device)", "copy"),
        ("something_of_mine", "not known"),
    ],
)
def test_kernels_are_told_by_their_names(kernel, name):
    assert family(kernel).name == name


def test_the_usual_rows_of_a_profile_have_words():
    assert "queue" in in_words("cudaLaunchKernel")
    assert "waits" in in_words("cudaDeviceSynchronize")
    assert "first launch" in in_words("cudaFuncGetAttributes")
    assert "operator mm" in in_words("aten::mm")
    assert in_words("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT") == "NVIDIA's library for products"


def test_a_ways_own_kernels_are_hand_written_whatever_they_are_called():
    assert family("softmax_tile", own=["softmax_tile"]).name == "hand-written"
    assert (
        family("void map_flat<Gelu, float, 4>(float const*)", own=["map_flat<Gelu, float, 4>"]).name == "hand-written"
    )
    ((one, count),) = became(["a_kernel"] * 3, own=["a_kernel"])
    assert (one.name, count) == ("hand-written", 3)
