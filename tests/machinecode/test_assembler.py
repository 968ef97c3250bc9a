"""Assembling PTX with ptxas, and reading its log."""

import pytest

from kernellab.base.errors import UserError
from kernellab.machinecode.assembler import Spills, assemble, parse_spills
from support.machine_code import TINY_PTX

LOG = """ptxas info    : Compiling entry function 'first' for 'sm_75'
ptxas info    : Function properties for first
    48 bytes stack frame, 40 bytes spill stores, 36 bytes spill loads
ptxas info    : Compiling entry function 'second' for 'sm_75'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def test_the_output_names_the_tool_that_assembled_it():
    assembled = assemble(TINY_PTX, "sm_75")
    assert assembled.cubin.startswith(b"\x7fELF")
    assert assembled.tool.startswith("ptxas")


def test_spills_of_each_function_are_read_from_the_log():
    assert parse_spills(LOG) == {"first": Spills(40, 36), "second": Spills(0, 0)}
    assert parse_spills(LOG)["first"].total_bytes == 76


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sm_999", "no ptxas on this machine can assemble this PTX for sm_999"),
        ("sm_x; rm", "'sm_x; rm' is not a GPU target"),
        ("", "the PTX names no GPU target"),
    ],
)
def test_a_target_that_no_assembler_supports_is_an_error(target, message):
    with pytest.raises(UserError, match=message):
        assemble(TINY_PTX.replace("sm_75", "sm_999"), target)
