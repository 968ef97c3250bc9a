"""Cubins are read without NVIDIA's tools; a file that is not one, or is damaged, is an error."""

import re

import pytest

from kernellab.base.errors import UserError
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble, read_cubin
from kernellab.machinecode.sass import parse_sass
from support import shipped_code
from support.machine_code import TINY_PTX


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120"])
def test_the_architecture_is_read_from_cubins_of_ptxas(arch):
    built = assemble(TINY_PTX.replace("sm_75", arch).replace(".version 7.0", ".version 8.7"), arch)
    assert read_cubin(built.cubin).arch == arch
    assert parse_sass(disassemble(built.cubin)).arch == arch


@pytest.mark.parametrize("arch", shipped_code.ARCHS)
def test_the_architecture_is_read_from_cubins_of_nvrtc(arch):
    assert read_cubin(shipped_code.compiled("square", "cuda", arch=arch)[0].cubin).arch == f"sm_{arch}"


def test_resources_equal_those_that_ptxas_prints():
    built = assemble(TINY_PTX, "sm_75")
    (kernel,) = read_cubin(built.cubin).kernels
    printed = re.search(r"Used (\d+) registers, used (\d+) barriers, (\d+) bytes smem", built.log)
    assert (kernel.registers, kernel.barriers, kernel.shared_bytes) == tuple(map(int, printed.groups()))
    assert (kernel.threads, kernel.threads_required) == ((64, 2, 1), False)
    assert kernel.param_bytes == (8, 8, 4, 4)


def test_the_kilobyte_that_the_system_reserves_is_not_the_kernels_shared_memory():
    built = assemble(TINY_PTX.replace("sm_75", "sm_90").replace("7.0", "8.0"), "sm_90")
    assert read_cubin(built.cubin).kernels[0].shared_bytes == 256


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a cubin"),
        (b"GIF89a", "not a cubin"),
        (b"\x7fELF", "damaged"),
        (b"\x7fELF" + bytes(60), "no code for NVIDIA"),
    ],
)
def test_a_file_that_is_not_a_cubin_is_an_error(data, message):
    with pytest.raises(UserError, match=message):
        read_cubin(data)


def test_a_truncated_cubin_is_an_error():
    cubin = assemble(TINY_PTX, "sm_75").cubin
    with pytest.raises(UserError, match="truncated"):
        disassemble(cubin[: len(cubin) // 2])
