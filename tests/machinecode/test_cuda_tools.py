"""NVIDIA's tools: found in the triton package or a toolkit, or an error that says what to install."""

import pytest

from kernellab.base.errors import UserError
from kernellab.machinecode import cuda_tools


def test_a_missing_tool_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cuda_tools, "find", lambda name: ())
    with pytest.raises(UserError, match=r"nvdisasm was found neither .* pip install triton"):
        cuda_tools.require("nvdisasm")


@pytest.mark.bare
def test_the_triton_package_brings_every_tool():
    for name in ("ptxas", "nvdisasm", "cuobjdump"):
        assert "triton" in cuda_tools.require(name)


def test_blackwell_gets_its_own_assembler_first():
    assert cuda_tools.find_assemblers(100)[0].endswith("ptxas-blackwell")
    assert cuda_tools.find_assemblers(90)[0].endswith("ptxas")
