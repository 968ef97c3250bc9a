"""Findings: each rule finds its flaw, from numbers alone, and leaves a good kernel in peace."""

import dataclasses
import importlib

import pytest

from kernellab.errors import UserError
from kernellab.explaining.explained import of
from kernellab.explaining.finding import SURE, settled
from kernellab.explaining.findings import all_rules, findings
from kernellab.explaining.prices import needed_bytes, prices
from kernellab.explaining.roofline import roofline
from kernellab.explaining.subject import Device, Kernel, Subject, _loading_loops, _once_loops, subjects
from kernellab.machine.chips import chip
from kernellab.reporting.explain import headline

GB = 10**9
H200 = Device("H200", chip("sm_90"), 132, 50 << 20, 1980.0, 4000.0)
CEILINGS = {"copy_gbps": 4000.0, "matmul_tflops": {"bfloat16": 800.0, "float32": 50.0}}
COST = {"bytes_read": GB, "bytes_written": GB, "flops": {}}
ROOF_US = 500.0
CASE = {"dims": {"...": [1]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cuda"}

# One 16-byte load and store per thread, every SM full: 1 GB are read by 62.5 M threads.
GOOD = Kernel(
    name="good",
    times=1,
    blocks=488_282,
    threads=128,
    registers=20,
    shared_bytes=0,
    spill_bytes=0,
    flight_bytes=16,
    sectors=1.0,
    instructions={"global_load": 1, "global_store": 1, "fp32": 16, "integer": 8, "control": 2},
    load_bytes=16.0,
    widest_bytes=16,
    blocks_per_sm=16,
    occupancy=1.0,
    limiter="threads",
    remedy="nothing to lift",
    l1_bytes=200_000,
    pointer_bytes=2 * GB,
)


def way(*kernels, time_us=None, cost=COST, dtype="float32", device=H200, **more):
    return Subject(
        op="f",
        impl="way",
        kind="triton",
        case={**CASE, "dtype": dtype},
        cost=cost,
        device=device,
        gbps=4000.0,
        limit=roofline(cost, dtype, time_us, CEILINGS),
        time_us=time_us,
        cache=more.pop("cache", "cold" if time_us else None),
        kernels=kernels,
        **more,
    )


def but(**changed):
    return dataclasses.replace(GOOD, **changed)


def first(subject):
    found = findings(subject)
    assert found, "nothing was found"
    return found[0]


def test_every_rule_is_collected_by_being_a_file_and_states_its_formula_or_its_threshold():
    assert len(all_rules()) >= 13
    for name in all_rules():
        module = importlib.import_module(f"kernellab.explaining.rules.{name}")
        assert module.__doc__ is not None
        assert "=" in module.__doc__ or "warning" in module.__doc__, name


def test_a_good_kernel_is_at_the_limit_when_timed_and_nothing_is_found_when_not():
    timed = first(way(GOOD, time_us=ROOF_US / 0.97))
    assert timed.rule == "at-the-limit"
    assert "97 % of measured bandwidth" in timed.title
    assert findings(way(GOOD)) == []


def test_at_the_limit_silences_what_cannot_gain():
    spilling = but(spill_bytes=400, stack_bytes=200, instructions={**GOOD.instructions, "local_load": 50})
    assert [f.rule for f in findings(way(spilling, time_us=ROOF_US / 0.95))] == ["at-the-limit"]
    assert first(way(spilling, time_us=3 * ROOF_US)).rule == "spills"


def test_a_warm_time_is_no_limit():
    assert all(f.rule != "at-the-limit" for f in findings(way(GOOD, time_us=ROOF_US / 0.97, cache="warm")))


CHAIN = [
    {"op": "aten::mul", "read_bytes": r * GB, "write_bytes": GB, "kernels": [n]} for n, r in enumerate((1, 2, 1, 1))
]


def test_unfused_chain():
    found = first(way(traffic=CHAIN, time_us=9 * GB / 4e6))
    assert (found.rule, found.sure) == ("unfused-chain", "computed")
    assert found.gain == pytest.approx(4.5)
    assert "4 kernels move 9 tensors where 2 would do" in found.title


def test_a_single_operator_is_no_chain():
    assert findings(way(traffic=CHAIN[:1])) == []


def test_an_unfused_chain_promises_no_more_than_there_is_to_gain():
    assert first(way(traffic=CHAIN, time_us=3 * ROOF_US)).gain == pytest.approx(3.0)


TINY = {"bytes_read": 8_000_000, "bytes_written": 8_000_000, "flops": {}}


SLICE = dict(times=64, blocks=64, pointer_bytes=250_000)


def test_launch_bound_by_many_tiny_kernels():
    found = first(way(but(**SLICE), cost=TINY, time_us=280.0, gpu_us=180.0, launched=[{"name": "k"}] * 64))
    assert (found.rule, found.sure) == ("launch-bound", "measured")
    assert found.gain == pytest.approx(280 / 4)


def test_launch_bound_where_the_gpu_waits_for_the_host():
    many = way(but(**SLICE), cost=TINY, time_us=1500.0, gpu_us=128.0, launched=[{"name": "k"}] * 64)
    assert first(many).rule == "launch-bound"
    busy = dataclasses.replace(many, gpu_us=1500.0)  # they compute, whatever it is
    assert all(f.rule != "launch-bound" for f in findings(busy))


def test_kernels_whose_bytes_take_longer_than_starting_them_are_not_launch_bound():
    large = way(but(times=64, blocks=64, pointer_bytes=50_000_000), cost=TINY, time_us=1000.0, gpu_us=900.0)
    assert all(f.rule != "launch-bound" for f in findings(large))


def test_launch_bound_on_the_host():
    found = first(way(GOOD, cost=TINY, time_us=5.0, launch_us=25.0))
    assert (found.rule, found.gain) == ("launch-bound", 5.0)
    # A profiled call is slower than others: it says that it may be so, and promises nothing.
    vague = findings(way(GOOD, cost=TINY, time_us=5.0, host_us=25.0, gpu_us=5.0))
    assert [(f.sure, f.gain) for f in vague if f.rule == "launch-bound"] == [("possible", None)]


def test_too_few_blocks():
    few = but(blocks=16, threads=256, blocks_per_sm=8, loop={"global_load": 1, "integer": 10})
    found = first(way(few))
    assert found.rule == "too-few-blocks"
    # 16 SMs have one block under way each, where 132 could have eight.
    priced = prices(way(few), few)
    assert priced.dearest == "flight"
    assert found.gain == pytest.approx(priced.flight / ROOF_US)
    assert first(way(few, time_us=20 * ROOF_US)).gain == pytest.approx(20.0)


def test_too_few_blocks_that_compute_gain_the_sms_they_do_not_use():
    busy = {**COST, "flops": {"fp32": 10**13}}
    few = but(blocks=33, threads=1024, blocks_per_sm=1, loop={"global_load": 1})
    assert first(way(few, cost=busy)).gain == pytest.approx(132 / 33)


BUSY = {"bytes_read": 32_000_000, "bytes_written": 32_000_000, "flops": {"fp32": 10**10}}


def test_tail_wave():
    lone = but(
        threads=1024,
        blocks=133,
        shared_bytes=120 * 1024,
        blocks_per_sm=1,
        loop={"global_load": 1},
        pointer_bytes=64_000_000,
    )
    found = first(way(lone, cost=BUSY))
    assert (found.rule, found.gain) == ("tail-wave", pytest.approx(2 * 132 / 133))
    assert findings(way(dataclasses.replace(lone, blocks=4 * 132), cost=BUSY)) == []


def test_loops_of_unknown_turns_may_be_what_a_long_time_is_spent_in():
    """Nothing is declared and nothing says how often the loop turns: the time does."""
    lone = but(threads=1024, blocks=133, blocks_per_sm=1, registers=64, unknown_turns={"fp32": 2})
    assert all(f.rule != "tail-wave" for f in findings(way(lone)))
    found = first(way(lone, time_us=20 * ROOF_US))
    assert (found.rule, found.gain) == ("tail-wave", pytest.approx(2 * 132 / 133))
    few = dataclasses.replace(lone, blocks=33, flight_bytes=0)
    assert first(way(few, time_us=20 * ROOF_US)).rule == "too-few-blocks"
    assert first(way(few, time_us=20 * ROOF_US)).gain == pytest.approx(4.0)


def test_a_product_done_by_an_operator_is_not_its_neighbours():
    beside = [{"op": "aten::mm", "read_bytes": 2**26, "write_bytes": 2**25}]
    adds = but(instructions={"global_load": 1, "global_store": 1, "fp32": 4}, pointer_bytes=2**26)
    found = findings(way(adds, cost=PRODUCT, dtype="bfloat16", traffic=beside))
    assert all(f.rule not in ("no-tensor-cores", "excess-bytes") for f in found)


def test_a_tail_costs_a_memory_bound_kernel_nothing():
    assert all(f.rule != "tail-wave" for f in findings(way(but(blocks=16 * 132 + 1))))


def test_low_occupancy():
    lonely = but(blocks_per_sm=1, occupancy=4 / 64, limiter="shared", shared_bytes=200_000, remedy="less shared memory")
    found = first(way(lonely))
    assert found.rule == "low-occupancy"
    assert "limited by shared" in found.title
    assert found.gain == pytest.approx(needed_bytes(H200) / (128 * 16), rel=0.05)


def test_few_warps_that_have_enough_under_way_are_left_in_peace():
    assert findings(way(but(blocks_per_sm=1, occupancy=4 / 64, flight_bytes=256))) == []


def test_spills():
    code = {**GOOD.instructions, "local_load": 100, "local_store": 100}
    spilling = but(spill_bytes=800, stack_bytes=400, instructions=code)
    alone = first(way(spilling))
    assert alone.rule == "spills"
    priced = prices(way(spilling), spilling)
    assert alone.gain == pytest.approx((priced.without(local=0.0) + priced.local) / ROOF_US, rel=0.05)
    assert first(way(spilling, time_us=5 * ROOF_US)).gain == pytest.approx(5.0)
    assert alone.do.startswith("let it have more registers")
    assert "cannot have more registers" in first(way(dataclasses.replace(spilling, registers=255))).do


def test_narrow_access():
    halves = but(flight_bytes=2, load_bytes=2.0, widest_bytes=2, threads=256, blocks=2 * 10**6, blocks_per_sm=8)
    found = first(way(halves, dtype="bfloat16"))
    assert (found.rule, found.sure) == ("narrow-access", "likely")
    assert 2 < found.gain < 5
    assert findings(way(dataclasses.replace(halves, flight_bytes=32, widest_bytes=16, load_bytes=16.0))) == []


def test_uncoalesced_from_the_addresses():
    strided = but(sectors=8.0, widest_bytes=4, load_bytes=4.0)
    assert (first(way(strided)).rule, first(way(strided)).gain) == ("uncoalesced", 8.0)
    assert first(way(strided, time_us=5 * ROOF_US)).gain == pytest.approx(5.0)


def test_uncoalesced_where_nothing_else_explains_the_time():
    found = first(way(but(sectors=None), time_us=6 * ROOF_US))
    assert (found.rule, found.sure) == ("uncoalesced", "possible")
    assert findings(way(but(sectors=None), time_us=2 * ROOF_US)) == []


def test_fp64_by_accident():
    doubles = but(instructions={**GOOD.instructions, "fp64": 400})
    found = first(way(doubles))
    assert (found.rule, found.sure) == ("fp64-by-accident", "computed")
    assert found.gain > 1.5
    assert all(f.rule != "fp64-by-accident" for f in findings(way(doubles, dtype="float64")))


PRODUCT = {"bytes_read": 2**26, "bytes_written": 2**25, "flops": {"matmul": 2 * 4096**3}}


def test_no_tensor_cores():
    plain = but(instructions={"global_load": 8, "fp32": 2000})
    found = first(way(plain, cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.gain) == ("no-tensor-cores", pytest.approx(0.75 * 16))
    fast = but(instructions={"global_load": 8, "fp32": 20, "tensor_wgmma": 16})
    assert all(f.rule != "no-tensor-cores" for f in findings(way(fast, cost=PRODUCT, dtype="bfloat16")))
    assert all(f.rule != "no-tensor-cores" for f in findings(way(plain, cost=PRODUCT, dtype="float32")))


def test_excess_bytes():
    between = (but(pointer_bytes=3 * GB), but(pointer_bytes=3 * GB))
    found = first(way(*between))
    assert (found.rule, found.gain) == ("excess-bytes", pytest.approx(3.0))
    copied = first(way(GOOD, traffic=[{"op": "aten::_to_copy", "read_bytes": GB, "write_bytes": 2 * GB}]))
    assert (copied.rule, copied.gain) == ("excess-bytes", pytest.approx(2.5))


def test_what_cannot_launch_is_told_so_and_of_nothing_else():
    refused = but(blocks_per_sm=0, occupancy=0.0, refusal="too many threads", remedy="fewer", sectors=8.0)
    (found,) = findings(way(refused))
    assert (found.rule, found.title, found.do) == ("cannot-launch", "cannot launch: too many threads", "fewer")
    assert all(f.rule != "cannot-launch" for f in findings(way(refused, time_us=3 * ROOF_US)))  # it was launched


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


WGMMA = {"global_load": 0, "async_copy": 12, "tensor_wgmma": 4}
# A tile of 128 × 256 × 64 by 256 threads: 12 copies of 16 bytes and 4 products of 64 × 256 × 16 per warp group a turn.
TILED = dict(instructions=WGMMA, loop=WGMMA, load_bytes=16.0, threads=256, blocks=512, blocks_per_sm=1)
LARGE = dict(**TILED, products=["bf16"], product_flops=2 * 64 * 256 * 16 // 128)


def test_products_are_priced_at_the_rate_of_what_multiplies_them():
    assert findings(way(but(**LARGE), cost=PRODUCT, dtype="bfloat16")) == []
    wide = but(**{**LARGE, "products": ["tf32"]})
    found = first(way(wide, cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.gain) == ("wide-products", pytest.approx(2.0))
    assert "a bfloat16 product computed in tf32" in found.title
    assert all(f.rule != "wide-products" for f in findings(way(wide, cost=PRODUCT, dtype="float32")))
    plain = but(instructions={"global_load": 8, "fp32": 2000})
    with_them, without = (prices(way(k, cost=PRODUCT, dtype="bfloat16"), k) for k in (but(**LARGE), plain))
    assert without.matmul == pytest.approx(16 * with_them.matmul)


def test_small_tiles():
    """32 × 32 × 32 by four warps: two copies, and four products of 16 × 8 × 16 per warp, a turn."""
    code = {"async_copy": 2, "tensor_mma": 4}
    small = dict(instructions=code, loop=code, load_bytes=16.0, threads=128, blocks=16384, products=["bf16"])
    found = first(way(but(**small, product_flops=2 * 16 * 8 * 16 // 32), cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.sure) == ("small-tiles", "likely")
    assert found.title.startswith("5.33 times the bytes")
    assert all(f.rule != "small-tiles" for f in findings(way(but(**small), cost=PRODUCT, dtype="bfloat16")))
    # 16 rows times a large matrix: every byte is fetched once, and no tile makes that fewer.
    narrow = {"bytes_read": 2 * 8192 * 8192, "bytes_written": 2**18, "flops": {"matmul": 2 * 16 * 8192 * 8192}}
    few = dict(small, loop={"async_copy": 18, "tensor_mma": 16})
    assert findings(way(but(**few, product_flops=128), cost=narrow, dtype="bfloat16")) == []


def test_a_product_on_few_sms_gains_the_others():
    few = but(**{**LARGE, "blocks": 33})
    found = first(way(few, cost=PRODUCT, dtype="bfloat16"))
    assert (found.rule, found.gain) == ("too-few-blocks", pytest.approx(4.0))


def test_too_few_threads_on_every_sm():
    """A block of one warp on each SM, going over everything in a loop."""
    lone = but(blocks=132, threads=32, blocks_per_sm=32, occupancy=0.5, loop={"global_load": 1, "integer": 10})
    found = first(way(lone))
    assert (found.rule, found.sure) == ("too-few-blocks", "likely")
    assert "132 blocks of 32 threads on 132 SMs, where 4224 would fit" in found.title
    small = {"bytes_read": 132 * 32 * 16, "bytes_written": 132 * 32 * 16, "flops": {}}
    assert all(f.rule != "too-few-blocks" for f in findings(way(lone, cost=small)))  # there is no more to split


def test_one_block_is_called_one():
    title = first(way(but(blocks=1, loop={"global_load": 1}))).title
    assert title.startswith("1 block on 132 SMs: 131 of them")


def test_blocks_of_few_threads_leave_lanes_idle():
    single = but(threads=1, blocks=62_500_000, blocks_per_sm=32, occupancy=0.5)
    found = first(way(single))
    assert found.rule == "low-occupancy"
    assert "32 of 2048 threads fit on an SM" in found.title
    assert found.gain > 10
    assert found.do.startswith("make blocks of whole warps")


def test_operators_beside_a_product_move_what_it_does_not_need():
    copy = [{"op": "aten::_to_copy", "read_bytes": 2**25, "write_bytes": 2**26}] * 2
    found = {f.rule: f for f in findings(way(but(**LARGE), cost=PRODUCT, dtype="bfloat16", traffic=copy))}
    roof = PRODUCT["flops"]["matmul"] / 800e6
    assert found["excess-bytes"].gain == pytest.approx(1 + 6 * 2**25 / 4e6 / roof)
    assert "1 kernel and 2 operators move" in found["excess-bytes"].title


def test_operators_count_among_the_kernels_that_are_launched():
    tiny = [{"op": "aten::copy_", "read_bytes": 1000, "write_bytes": 1000}] * 30
    found = first(way(but(times=30, blocks=200, pointer_bytes=2000), cost=TINY, traffic=tiny))
    assert found.title.startswith("60 kernels of hardly any work")


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


def test_reads_again():
    twice = but(loading_loops=2)
    found = first(way(twice, time_us=1.8 * ROOF_US))
    assert (found.rule, found.sure, found.gain) == ("reads-again", "possible", pytest.approx(1.5))
    assert findings(way(twice)) == []  # L2 may serve it: without a time there is no telling
    assert first(way(twice, time_us=1.05 * ROOF_US)).rule == "at-the-limit"


def test_loops_of_the_same_lines_are_one():
    loops = [
        {"depth": 1, "size": 9, "instructions": {"global_load": 4}, "sources": ["k.py:3", "k.py:4"]},
        {"depth": 1, "size": 3, "instructions": {"global_load": 1}, "sources": ["k.py:4"]},
        {"depth": 1, "size": 5, "instructions": {"global_load": 2}, "sources": ["k.py:9"]},
        {"depth": 1, "size": 5, "instructions": {"fp32": 2}, "sources": ["k.py:12"]},
    ]
    assert _loading_loops(loops) == 2
    assert _loading_loops([]) == 0


def test_l2_resident():
    small = {"bytes_read": 8_000_000, "bytes_written": 8_000_000, "flops": {}}
    found = findings(way(GOOD, cost=small, time_us=6.0, warm_us=3.0))
    assert [(f.rule, f.gain) for f in found if f.rule == "l2-resident"] == [("l2-resident", None)]
    assert all(f.rule != "l2-resident" for f in findings(way(GOOD, cost=small, time_us=6.0, warm_us=5.5)))
    assert any(f.rule == "l2-resident" for f in findings(way(GOOD, cost=small, time_us=6.0, cache="warm")))


def test_what_promises_more_comes_first_weighed_by_how_sure_it_is():
    both = but(sectors=8.0, widest_bytes=4, load_bytes=4.0, instructions={**GOOD.instructions, "fp64": 400})
    found = findings(way(both))
    weights = [(f.gain - 1) * SURE[f.sure] for f in found]
    assert len(found) >= 2
    assert weights == sorted(weights, reverse=True)


def test_a_measured_distance_settles_what_a_model_estimates():
    assert settled(3.0, None) == 3.0
    assert settled(3.0, 4.0) == 4.0  # within the model's error: it accounts for all of it
    assert settled(8.0, 4.0) == 4.0  # nobody gains more than there is
    assert settled(1.5, 6.0) == 1.5  # something else costs the rest


def test_nothing_is_made_up_on_a_cpu():
    cpu = way(device=None, time_us=9 * GB / 4e6, traffic=CHAIN)
    assert [f.rule for f in findings(cpu)] == ["unfused-chain"]
    assert findings(cpu)[0].sure == "likely"


# From a record ------------------------------------------------------------------------------------------

GPU = {"name": "NVIDIA H200", "arch": "sm_90", "sms": 132, "l2_bytes": 50 << 20, "memory_bytes": 1, "pin_gbps": 4917.0}


def entry(us, timer="events", cache="cold"):
    return {
        **{"pass": "forward", "timer": timer, "cache": cache, "status": "ok", "reason": None},
        "samples_us": [us] * 5,
        "rounds": list(range(5)),
    }


def result(impl, us, **more):
    return {
        "op": "f",
        "impl": impl,
        "kind": impl,
        "case": CASE,
        "check": {"status": "ok"},
        "times": [entry(us), *more.pop("also", [])],
        "cost": {"forward": COST},
        "kernels": None,
        "inside": None,
        "traffic": None,
        **more,
    }


def record(*results, code=()):
    return {"results": list(results), "machine": {"ceilings": CEILINGS, "gpu": GPU}, "code": list(code)}


def test_a_record_tells_subjects_with_their_times_and_the_ways_beside_them():
    slow, fast = subjects(record(result("manual", 2250.0, traffic=CHAIN), result("triton", 510.0)))
    assert (slow.time_us, slow.others) == (2250.0, {"triton": 510.0})
    assert slow.device is not None
    assert slow.device.sms == 132
    assert first(slow).rule == "unfused-chain"
    assert ("triton, beside it", pytest.approx(2250 / 510)) in [(e.what, e.value) for e in first(slow).evidence]
    assert first(fast).rule == "at-the-limit"


def test_what_was_compiled_and_not_timed_is_a_subject_of_the_gpu_named():
    compiled = {"op": "f", "impl": "triton", "kind": "triton", "case": CASE, "arch": "sm_90", "pass": "forward"}
    compiled |= {"gpu": "H100 SXM5 80GB", "status": "none", "kernels": [], "cost": COST, "traffic": CHAIN}
    (there,) = subjects(record(code=[compiled]))
    assert there.time_us is None
    assert there.device is not None
    assert there.device.name == "H100 SXM5 80GB"
    (asked,) = subjects(record(code=[compiled]), "h200")
    assert asked.gbps > there.gbps
    with pytest.raises(UserError, match="A100 SXM4 80GB is sm_80, and the kernels of this run are compiled for sm_90"):
        subjects(record(code=[compiled]), "a100")
    timed = record(result("triton", 510.0), code=[compiled])
    assert [s.measured for s in subjects(timed)] == [True]
    elsewhere = record(result("triton", 510.0), code=[{**compiled, "arch": "sm_80", "gpu": "A100 SXM4 80GB"}])
    assert [s.measured for s in subjects(elsewhere)] == [True, False]


def test_a_wrong_way_is_not_explained():
    assert subjects(record(result("liar", 10.0, check={"status": "wrong"}))) == []


def test_warm_and_launch_series_are_told_apart_from_the_main_one():
    (one,) = subjects(record(result("triton", 9.0, also=[entry(5.0, cache="warm"), entry(20.0, "launch", "warm")])))
    assert (one.time_us, one.warm_us, one.launch_us) == (9.0, 5.0, 20.0)


def compiled_kernel(**facts):
    """A kernel as a record's `code` has it: a load and a store of 16 bytes by 1024 threads."""
    access = [{"kind": "global_load", "bytes": 16, "count": 1}, {"kind": "global_store", "bytes": 16, "count": 1}]
    told = {"registers": 20, "spill_bytes": 0, "stack_bytes": 0, "instructions": {"global_load": 1, "global_store": 1}}
    told |= {"accesses": access, "loops": [], "widest_global_bytes": 16, "flight_bytes": 16} | facts
    fits = {"blocks_per_sm": 16, "fraction": 1.0, "limiter": "threads", "remedy": "", "l1_bytes": 0}
    return {
        **{"name": "k", "times": 1, "grid": [8, 1, 1], "block": [128, 1, 1], "shared_total_bytes": 0, "sectors": 1.0},
        **{"facts": told, "occupancy": fits, "parameters": [{"bytes": GB}, {"bytes": GB}], "tuned": None},
    }


def of_record(kernel):
    entry = {"op": "f", "impl": "cuda", "kind": "cuda", "case": CASE, "arch": "sm_90", "pass": "forward"}
    entry |= {"gpu": "H100 SXM5 80GB", "status": "ok", "kernels": [kernel], "cost": COST, "traffic": []}
    (one,) = subjects(record(code=[entry]))
    return one.kernels[0]


def test_a_launch_touches_no_more_of_a_tensor_than_its_threads_ask_for():
    assert of_record(compiled_kernel()).pointer_bytes == 8 * 128 * 32
    turning = [{"depth": 1, "size": 9, "instructions": {"global_load": 1}, "sources": []}]
    assert of_record(compiled_kernel(loops=turning)).pointer_bytes == 2 * GB


def test_wide_stores_do_not_hide_narrow_loads():
    narrow = [{"kind": "global_load", "bytes": 2, "count": 8}, {"kind": "global_store", "bytes": 16, "count": 1}]
    assert of_record(compiled_kernel(accesses=narrow)).widest_bytes == 2


def test_the_slow_path_of_sin_is_no_loop_of_the_kernels_own():
    table = [{"depth": 1, "size": 9, "instructions": {"global_load": 1, "local_store": 1}, "sources": []}]
    assert of_record(compiled_kernel(loops=table, stack_bytes=32)).loop is None
    assert of_record(compiled_kernel(loops=table, stack_bytes=256)).loop is not None


def test_a_grid_no_gpu_takes_cannot_launch():
    deep = {**compiled_kernel(), "grid": [1, 70000, 1]}
    assert of_record(deep).refusal == "a grid has at most 65535 blocks along y, not 70000"
    assert of_record(compiled_kernel()).refusal == ""


def test_a_loop_with_constant_turns_is_priced_by_them():
    code = {"global_load": 1, "global_store": 1, "fp32": 10, "control": 2}
    once = prices(way(but(instructions=code)), but(instructions=code))
    often = prices(way(but(instructions=code)), but(instructions=code, executed={**code, "fp32": 10_000}))
    assert often.issue == pytest.approx(once.issue * sum({**code, "fp32": 10_000}.values()) / sum(code.values()))


def test_a_model_says_which_loops_it_counts_once():
    loop = {"instructions": {"fp32": 4}, "waits": False, "turns": None, "sources": [], "depth": 1}
    known, loads = {**loop, "turns": 9}, {**loop, "instructions": {"global_load": 1}}
    assert _once_loops([loop, known, loads, {**loop, "waits": True}]) == 1
    told = of(way(but(once_loops=1)))
    assert told["predicted"]["loops_counted_once"] == 1
    assert "1 loop counted once, as the code does not say how often" in headline(told)
    assert "counted once" not in headline(of(way(GOOD)))
