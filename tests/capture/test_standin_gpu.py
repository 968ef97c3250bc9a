"""The stand-in GPU: the largest product of an architecture."""

import pytest

from kernellab.base.errors import UserError
from kernellab.capture.standin_gpu import standin_gpu, standin_product
from kernellab.machine.gpus import gpus


@pytest.mark.parametrize("arch", sorted({product.arch for product in gpus()}))
def test_the_product_with_the_most_sms_is_the_stand_in(arch):
    gpu = standin_gpu(arch)
    assert gpu.arch == arch
    assert gpu.sms == max(product.sms for product in gpus() if product.arch == arch)
    assert f"sm_{gpu.capability_number}" == arch


def test_a_product_can_be_named_as_the_stand_in():
    assert standin_product("H200").arch == "sm_90"


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(UserError, match="no architecture 'sm_42'"):
        standin_gpu("sm_42")
