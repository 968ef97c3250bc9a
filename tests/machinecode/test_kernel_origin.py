"""Which library or compiler a kernel comes from, by its name."""

import pytest

from kernellab.machinecode.kernel_origin import count_families, describe_row, find_family


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
def test_the_family_of_a_kernel_follows_from_its_name(kernel, name):
    assert find_family(kernel).name == name


def test_common_rows_of_a_profile_are_described():
    assert "queue" in describe_row("cudaLaunchKernel")
    assert "waits" in describe_row("cudaDeviceSynchronize")
    assert "first launch" in describe_row("cudaFuncGetAttributes")
    assert "operator mm" in describe_row("aten::mm")
    assert describe_row("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT") == "NVIDIA's library for matrix products"


def test_an_implementations_own_kernels_are_hand_written_whatever_their_names():
    assert find_family("softmax_tile", own=["softmax_tile"]).name == "hand-written"
    instance = find_family("void map_flat<Gelu, float, 4>(float const*)", own=["map_flat<Gelu, float, 4>"])
    assert instance.name == "hand-written"
    ((family, count),) = count_families(["a_kernel"] * 3, own=["a_kernel"])
    assert (family.name, count) == ("hand-written", 3)
