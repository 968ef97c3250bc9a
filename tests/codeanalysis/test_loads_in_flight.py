"""How many bytes a thread requests from memory before it waits for any of them."""

from kernellab.codeanalysis.loads_in_flight import bytes_in_flight
from support.machine_code import sass_body

WIDE = ("LDG.E.128 R4, desc[UR4][R2.64]", "LDG.E.128 R8, desc[UR4][R2.64+0x10]")
USE = "FADD R5, R5, R6"


def test_loads_are_in_flight_together_until_a_result_is_used():
    assert bytes_in_flight(sass_body(*WIDE, USE)) == 32
    assert bytes_in_flight(sass_body(WIDE[0], USE, WIDE[1], "FADD R9, R9, R9")) == 16


def test_a_use_of_any_register_that_a_wide_load_fills_is_a_wait():
    assert bytes_in_flight(sass_body(WIDE[0], "FADD R0, R7, R1", WIDE[1])) == 16
    assert bytes_in_flight(sass_body(WIDE[0], "FADD R0, R20, R1", WIDE[1])) == 32


def test_storing_a_loaded_value_is_a_wait():
    assert bytes_in_flight(sass_body(WIDE[0], "STG.E.128 desc[UR4][R12.64], R4", WIDE[1])) == 16


def test_code_without_loads_has_nothing_in_flight():
    assert bytes_in_flight(sass_body(USE)) == 0
