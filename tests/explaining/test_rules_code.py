"""Findings about machine code: spills, local arrays, doubles, atomics, bank conflicts, sheer number."""

import dataclasses

import pytest

from kernellab.explaining.rulebook import findings
from kernellab.gpumodel.time_model import prices
from support.described import COST, GOOD, ROOF_US, but, first, way


def test_spills():
    code = {**GOOD.instructions, "local_load": 100, "local_store": 100}
    spilling = but(spill_bytes=800, stack_bytes=400, instructions=code)
    alone = first(way(spilling))
    assert alone.rule == "spills"
    priced = prices(way(spilling), spilling)
    assert alone.gain == pytest.approx((priced.without(local=0.0) + priced.local) / ROOF_US, rel=0.05)
    assert first(way(spilling, time_us=5 * ROOF_US)).gain == pytest.approx(5.0)


def test_what_to_do_about_spills_is_for_who_shares_the_tile_out():
    code = {**GOOD.instructions, "local_load": 100, "local_store": 100}
    spilling = but(spill_bytes=800, stack_bytes=400, instructions=code)

    def do(**changed):
        return first(way(dataclasses.replace(spilling, **changed))).do

    assert do(kind="cuda").startswith("let it have more registers (looser __launch_bounds__")
    assert do(kind="cuda", registers=255).startswith("a thread cannot have more registers, so let it need fewer")
    assert do(kind="triton").startswith("take more warps (num_warps) or a smaller block")
    assert do(kind="triton", registers=255).startswith("take more warps (num_warps) or a smaller block")
    assert do(kind="triton", threads=1024).startswith("take a smaller block")  # no block has more warps
    assert do(kind="triton", config={"maxnreg": 20}).startswith("lift maxnreg=20, or take more warps")


def test_fp64_by_accident():
    doubles = but(instructions={**GOOD.instructions, "fp64": 400})
    found = first(way(doubles))
    assert (found.rule, found.sure) == ("fp64-by-accident", "computed")
    assert found.gain > 1.5
    assert all(f.rule != "fp64-by-accident" for f in findings(way(doubles, dtype="float64")))


def test_doubles_are_told_where_bytes_hide_them_and_promise_nothing_then():
    few = but(instructions={"global_load": 1, "global_store": 1, "fp64": 4})
    found = first(way(few))
    assert (found.rule, found.gain) == ("fp64-by-accident", None)
    # sin's slow path has a few of them in any kernel.
    assert findings(way(but(instructions={**GOOD.instructions, "fp64": 4}))) == []


def test_declared_operations_done_in_double_take_what_double_takes():
    busy = {**COST, "flops": {"fp32": 10**11}}
    code = {"global_load": 1, "global_store": 1, "fp64": 2}
    found = first(way(but(instructions=code, unknown_turns={"fp64": 2}), cost=busy))
    assert (found.rule, found.gain) == ("fp64-by-accident", pytest.approx(2.0))


def test_doubles_in_a_loop_of_unknown_turns_account_for_a_time_nothing_else_explains():
    looping = but(instructions={**GOOD.instructions, "fp64": 5}, unknown_turns={"fp64": 5})
    assert first(way(looping, time_us=8 * ROOF_US)).rule == "fp64-by-accident"
    assert first(way(looping, time_us=8 * ROOF_US)).gain == pytest.approx(2.0)  # H200: fp64 is half as fast
    assert findings(way(looping, time_us=1.5 * ROOF_US)) == []


def test_local_arrays():
    code = {**GOOD.instructions, "local_load": 64, "local_store": 64}
    array = but(stack_bytes=256, local_bytes=512, instructions=code)
    found = first(way(array))
    assert (found.rule, found.sure) == ("local-arrays", "likely")
    assert "256 bytes per thread lie in local memory, which is no register" in found.title
    assert found.gain > 1.5
    assert "constants" in found.do
    assert findings(way(dataclasses.replace(array, stack_bytes=32))) == []  # the slow path of sin
    assert first(way(dataclasses.replace(array, spill_bytes=512))).rule == "spills"
    assert "or spills" in first(way(dataclasses.replace(array, spill_bytes=None))).title


def test_a_loop_over_a_local_array_goes_over_all_of_it():
    code = {**GOOD.instructions, "local_load": 1, "local_store": 1}
    one = but(stack_bytes=1024, local_bytes=8, instructions=code, unknown_turns={"local_load": 1})
    assert first(way(one)).gain > 2 * (findings(way(dataclasses.replace(one, unknown_turns={})))[0].gain or 1)


def test_atomics_where_nothing_else_explains_the_time():
    adding = but(instructions={**GOOD.instructions, "global_atomic": 1})
    found = first(way(adding, time_us=6 * ROOF_US))
    assert (found.rule, found.sure, found.gain) == ("atomics", "possible", pytest.approx(6.0))
    assert findings(way(adding)) == []  # how many meet at an address is not in the code
    assert all(f.rule != "atomics" for f in findings(way(adding, time_us=1.5 * ROOF_US)))


def test_bank_conflicts():
    code = {**GOOD.instructions, "shared_load": 4, "shared_store": 4}
    column = but(instructions=code, conflicts=32.0)
    found = first(way(column))
    assert (found.rule, found.sure) == ("bank-conflicts", "likely")
    warps = 488_282 * 4
    assert found.gain == pytest.approx(8 * warps * 32 / 132 / 1980 / ROOF_US)
    assert findings(way(dataclasses.replace(column, conflicts=1.0))) == []
    assert findings(way(dataclasses.replace(column, conflicts=None))) == []
    assert findings(way(dataclasses.replace(column, conflicts=2.0))) == []  # hidden behind the bytes


def test_many_instructions():
    busy = but(instructions={**GOOD.instructions, "integer": 900})
    found = first(way(busy))
    assert (found.rule, found.sure) == ("many-instructions", "possible")
    priced = prices(way(busy), busy)
    assert found.gain == pytest.approx(priced.issue / ROOF_US)
    special = first(way(but(instructions={**GOOD.instructions, "special": 64})))
    assert "its special functions take" in special.title


def test_a_loop_with_constant_turns_is_priced_by_them():
    code = {"global_load": 1, "global_store": 1, "fp32": 10, "control": 2}
    once = prices(way(but(instructions=code)), but(instructions=code))
    often = prices(way(but(instructions=code)), but(instructions=code, executed={**code, "fp32": 10_000}))
    assert often.issue == pytest.approx(once.issue * sum({**code, "fp32": 10_000}.values()) / sum(code.values()))
