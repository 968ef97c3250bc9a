"""Findings about bytes: moved more often than need be, or in pieces that waste the way there."""

import dataclasses

import pytest

from kernellab.explaining.rulebook import findings
from support.described import CHAIN, GB, GOOD, ROOF_US, but, first, way


def test_unfused_chain():
    found = first(way(traffic=CHAIN, time_us=9 * GB / 4e6))
    assert (found.rule, found.sure) == ("unfused-chain", "computed")
    assert found.gain == pytest.approx(4.5)
    assert "4 kernels move 9 tensors where 2 would do" in found.title


def test_a_single_operator_is_no_chain():
    assert findings(way(traffic=CHAIN[:1])) == []


def test_an_unfused_chain_promises_no_more_than_there_is_to_gain():
    assert first(way(traffic=CHAIN, time_us=3 * ROOF_US)).gain == pytest.approx(3.0)


def test_fusing_promises_no_more_than_a_fused_way_beside_it_shows():
    beside = {"others": {"cpp": 1.5 * ROOF_US, "compile": 2 * ROOF_US, "chain": ROOF_US}, "fused": ["cpp", "compile"]}
    found = first(way(traffic=CHAIN, time_us=4.5 * ROOF_US, **beside))
    assert (found.rule, found.sure, found.gain) == ("unfused-chain", "measured", pytest.approx(3.0))
    assert found.title.endswith("fusing gains about 3×, as cpp shows")
    assert ("gain, predicted", pytest.approx(4.5)) in [(one.what, one.value) for one in found.evidence]
    slow = first(way(traffic=CHAIN, time_us=4.5 * ROOF_US, others={"cpp": 5 * ROOF_US}, fused=["cpp"]))
    assert (slow.gain, slow.title.partition("do")[2]) == (None, ", but cpp, which is fused, gains nothing")
    fast = first(way(traffic=CHAIN, time_us=4.5 * ROOF_US, others={"cpp": 0.9 * ROOF_US}, fused=["cpp"]))
    assert (fast.sure, fast.gain) == ("computed", pytest.approx(4.5))


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


def test_excess_bytes():
    between = (but(pointer_bytes=3 * GB), but(pointer_bytes=3 * GB))
    found = first(way(*between))
    assert (found.rule, found.gain) == ("excess-bytes", pytest.approx(3.0))
    copied = first(way(GOOD, traffic=[{"op": "aten::_to_copy", "read_bytes": GB, "write_bytes": 2 * GB}]))
    assert (copied.rule, copied.gain) == ("excess-bytes", pytest.approx(2.5))


def test_reads_again():
    twice = but(loading_loops=2)
    found = first(way(twice, time_us=1.8 * ROOF_US))
    assert (found.rule, found.sure, found.gain) == ("reads-again", "possible", pytest.approx(1.5))
    assert findings(way(twice)) == []  # L2 may serve it: without a time there is no telling
    assert first(way(twice, time_us=1.05 * ROOF_US)).rule == "at-the-limit"


def test_l2_resident():
    small = {"bytes_read": 8_000_000, "bytes_written": 8_000_000, "flops": {}}
    found = findings(way(GOOD, cost=small, time_us=6.0, warm_us=3.0))
    assert [(f.rule, f.gain) for f in found if f.rule == "l2-resident"] == [("l2-resident", None)]
    assert all(f.rule != "l2-resident" for f in findings(way(GOOD, cost=small, time_us=6.0, warm_us=5.5)))
    assert any(f.rule == "l2-resident" for f in findings(way(GOOD, cost=small, time_us=6.0, cache="warm")))
