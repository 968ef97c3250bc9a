"""Which way to choose: lines counted, kernels told by their names, advice from measurements."""

import pytest

from kernellab.capture.line_count import c_lines, functions_called, lines_of_functions, python_lines
from kernellab.explaining.advice import Choice, advice
from kernellab.machinecode.kernel_origin import became, family, in_words


def test_lines_are_those_somebody_had_to_write():
    text = '''
@decorated(
    with_=1,
)
def f(x):
    """Two lines
    of words."""
    # why
    y = (
        x + 1  # what
    )

    return y
'''
    assert python_lines(text) == 5
    assert c_lines("// a\n/* b\n c */\nint f() {\n\n  return 1;  // one\n}\n") == 3


def inner(x):
    return x


def outer(x):
    return sorted([inner(x)])[0]


def test_functions_a_call_goes_through_are_its_authors_alone():
    with functions_called() as codes:
        outer(1)
    assert {code.co_name for code in codes} == {"inner", "outer"}
    assert lines_of_functions(codes) == 4


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


def row(impl, time_us, kind=None):
    return Choice(impl, kind or impl, 20, 5, None, time_us, None, "")


def test_compiling_is_enough_where_it_is_nearly_as_fast():
    said = advice([row("triton", 100.0), row("compile", 105.0), row("torch", 130.0), row("manual", 900.0)])
    assert said.startswith("torch.compile is enough here: within 5 % of the fastest, triton")


def test_pytorchs_own_op_is_enough_where_there_is_one_as_fast():
    assert advice([row("triton", 100.0), row("torch", 101.0), row("compile", 100.5)]).startswith("PyTorch's own op")


def test_a_hand_written_kernel_pays_where_it_is_much_faster():
    said = advice([row("triton", 100.0), row("compile", 150.0), row("torch", 200.0)])
    assert said == "A hand-written kernel pays here: triton is 1.5× as fast as compile, for 25 lines of code."


def test_without_times_it_says_what_usually_holds_and_that_it_is_that():
    assert advice([row("triton", None), row("manual", None)]).startswith("Without times")


def test_a_way_timed_alone_is_no_ground_for_advice():
    assert advice([row("triton", None), row("manual", 10.0)]).startswith("Nothing but manual was timed")
