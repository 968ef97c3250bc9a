from kernellab.explaining.rules.l2_resident import examine
from support.subjects import COST, GOOD_KERNEL, SMALL_COST, found_rules, subject


def test_a_time_that_is_far_shorter_with_a_warm_cache_is_a_warning_without_a_gain():
    finding = examine(subject(GOOD_KERNEL, cost=SMALL_COST, time_us=6.0, warm_us=3.0))
    assert finding.gain is None
    assert finding.title == "the time depends on the cache: 3 µs with its data in L2, 6 µs without"
    assert "l2-resident" in found_rules(subject(GOOD_KERNEL, cost=SMALL_COST, time_us=6.0, warm_us=3.0))


def test_a_time_that_hardly_depends_on_the_cache_is_not_reported():
    assert examine(subject(GOOD_KERNEL, cost=SMALL_COST, time_us=6.0, warm_us=5.5)) is None


def test_a_warm_time_alone_is_reported_where_the_data_fits_into_l2():
    assert examine(subject(GOOD_KERNEL, cost=SMALL_COST, time_us=6.0, cache="warm")) is not None
    assert examine(subject(GOOD_KERNEL, cost=COST, time_us=600.0, cache="warm")) is None
