"""From a record to subjects of findings: times, neighbours, and kernels as their machine code tells them."""

import pytest

from kernellab.base.errors import UserError
from kernellab.explaining.explanation import add_findings, of
from kernellab.gpumodel.subject import _loading_loops, _once_loops, subjects
from kernellab.record.verdict import derive
from kernellab.reporting.terminal.explanation import _facts, headline
from kernellab.reporting.terminal.explanation import document as report
from support.described import CASE, CEILINGS, CHAIN, COST, GB, GOOD, but, first, way


def test_loops_of_the_same_lines_are_one():
    loops = [
        {"depth": 1, "size": 9, "instructions": {"global_load": 4}, "sources": ["k.py:3", "k.py:4"]},
        {"depth": 1, "size": 3, "instructions": {"global_load": 1}, "sources": ["k.py:4"]},
        {"depth": 1, "size": 5, "instructions": {"global_load": 2}, "sources": ["k.py:9"]},
        {"depth": 1, "size": 5, "instructions": {"fp32": 2}, "sources": ["k.py:12"]},
    ]
    assert _loading_loops(loops) == 2
    assert _loading_loops([]) == 0


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


def test_the_ways_beside_are_fused_where_torch_sees_no_chain():
    one = [{"op": "aten::gelu", "read_bytes": GB, "write_bytes": GB, "kernels": [0]}]
    beside = [result("torch", 600.0, traffic=one), result("compile", 700.0), result("cpp", 800.0, traffic=[])]
    others = [result("manual-2", 900.0, traffic=CHAIN), result("python", 900.0)]  # the last: nobody knows
    assert subjects(record(result("manual", 2250.0), *beside, *others))[0].fused == ["torch", "compile", "cpp"]


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
    assert [s.measured for s in subjects(record(result("triton", 510.0), code=[compiled]))] == [True, False]
    timed = record(result("triton", 510.0), code=[{**compiled, "gpu": GPU["name"]}])
    assert [s.measured for s in subjects(timed)] == [True]
    elsewhere = record(result("triton", 510.0), code=[{**compiled, "arch": "sm_80", "gpu": "A100 SXM4 80GB"}])
    assert [s.measured for s in subjects(elsewhere)] == [True, False]


def test_a_timed_way_has_the_launches_of_the_gpu_it_was_timed_on():
    compiled = {"op": "f", "impl": "triton", "kind": "triton", "case": CASE, "arch": "sm_90", "pass": "forward"}
    compiled |= {"status": "ok", "cost": COST, "traffic": []}
    there = {**compiled, "gpu": "H100 PCIe 80GB", "kernels": [{**compiled_kernel(), "grid": [114, 1, 1]}]}
    here = {**compiled, "gpu": GPU["name"], "kernels": [{**compiled_kernel(), "grid": [132, 1, 1]}]}
    timed, modelled = subjects(record(result("triton", 510.0), code=[there, here]))
    assert (timed.measured, timed.kernels[0].blocks) == (True, 132)
    assert (modelled.measured, modelled.kernels[0].blocks) == (False, 114)


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


def test_a_model_says_which_loops_it_counts_once():
    loop = {"instructions": {"fp32": 4}, "waits": False, "turns": None, "sources": [], "depth": 1}
    known, loads = {**loop, "turns": 9}, {**loop, "instructions": {"global_load": 1}}
    assert _once_loops([loop, known, loads, {**loop, "waits": True}]) == 1
    told = of(way(but(once_loops=1)))
    assert told["predicted"]["loops_counted_once"] == 1
    assert "1 loop counted once, as the code does not say how often" in headline(told)
    assert "counted once" not in headline(of(way(GOOD)))


def tuned_entry(*kernels, **more):
    """An autotuned kernel's configurations as a record's `code` has them, by the bytes a thread asks for at once."""
    entry = {"op": "f", "impl": "triton", "kind": "triton", "case": CASE, "arch": "sm_90", "pass": "forward"}
    entry |= {"gpu": GPU["name"], "status": "ok", "reason": "", "cost": COST, "traffic": []}
    offered = [
        {
            **(compiled_kernel(flight_bytes=flight) if flight else {"name": "k", "facts": None, "occupancy": None}),
            **{"kind": "triton", "tuned": [number, len(kernels)], "refusal": "" if flight else "out of shared memory"},
            "config": {"num_warps": 4, "constexprs": {"BLOCK": 64 * (number + 1)}},
        }
        for number, flight in enumerate(kernels)
    ]
    return {**entry, "kernels": offered, **more}


def lines_of(one):
    return [line for line in _facts(one) if line.startswith("k: ")]


def test_of_an_autotuned_kernel_the_configuration_the_model_finds_fastest_is_judged_and_named():
    (slow_first,) = map(of, subjects(record(code=[tuned_entry(2, 16, 4)])))
    said = "configuration 2 of 3, the fastest by the model: BLOCK=128 num_warps=4"
    assert [line.partition("; ")[2] for line in lines_of(slow_first)] == [said]
    assert slow_first["predicted"]["time_us"] == of(subjects(record(code=[tuned_entry(16)]))[0])["predicted"]["time_us"]
    (fast_first,) = map(of, subjects(record(code=[tuned_entry(16, 2)])))
    assert "configuration 1 of 2, the fastest" in lines_of(fast_first)[0]


def test_a_configuration_that_does_not_fit_is_not_judged():
    (one,) = map(of, subjects(record(code=[tuned_entry(None, 2)])))
    assert "configuration 2 of 2" in lines_of(one)[0]
    none = record(code=[tuned_entry(None, None)])
    assert subjects(none) == []
    document = report(none | {"schema": 2, "command": []})
    assert [(one["impl"], one["reason"]) for one in document["others"]] == [
        ("triton", "k does not fit: out of shared memory")
    ]
    assert document["choices"] == []


def test_where_the_tuner_has_chosen_its_choice_is_judged():
    chose = {"kernel": "k", "config": {"BLOCK": 64, "num_warps": 4}}
    timed = result("triton", 510.0, built={"seconds": 1.0, "tuned": [chose]})
    (one,) = map(of, subjects(record(timed, code=[tuned_entry(2, 16)])))
    assert [line.partition("; ")[2] for line in lines_of(one)] == ["configuration 1 of 2: BLOCK=64 num_warps=4"]
    assert one["kernels"][0]["kind"] == "triton"


def test_findings_are_added_to_the_verdicts_of_timed_results_alone():
    untimed = {**result("triton", 510.0), "times": []}
    wrong = result("liar", 10.0, check={"status": "wrong", "reason": "3 of 9 elements differ"})
    derived = derive(record(result("manual", 2250.0, traffic=CHAIN), untimed, wrong))
    assert all("findings" not in one["derived"] for one in derived["results"])
    add_findings(derived)
    rules = {one["impl"]: [finding["rule"] for finding in one["derived"]["findings"]] for one in derived["results"]}
    assert rules == {"manual": ["unfused-chain"], "triton": [], "liar": []}
