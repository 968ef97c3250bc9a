"""On a GPU: the A/A op runs at both sizes, and a real difference is never reported with the wrong sign."""

import json

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.clocked]


def test_doctor_compares_equal_implementations_on_the_gpu(klab):
    seen = klab("doctor", "--aa", "--runs", "1", "--seconds", "0.3", "--device", "cuda", "--json")
    assert seen.code == 0, seen.err
    large, small = json.loads(seen.out)["cases"]
    assert large["timer"] == small["timer"] == "events"
    assert large["median_us"] > 5 * small["median_us"]
    for case in (large, small):
        assert case["equal"]["of"] == 1
        assert not any(more["wrong_way"] for more in case["more_work"])
    assert next(m["found"] for m in large["more_work"] if m["percent"] == 5) == 1
