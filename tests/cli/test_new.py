"""`klab new`: a file that works, and is not overwritten."""

import pytest


def test_the_template_works_and_is_not_overwritten(klab, tmp_path):
    assert klab("new", "swish").code == 0
    impls = ["manual", "torch", "triton"]  # `compile` is the same for every op
    args = ("--impl", ",".join(impls), "--shape", "33x65", "--device", "cpu", "--json")
    seen = klab("check", "swish.py", *args)
    assert seen.code == 0, seen.out + seen.err
    assert {r["impl"]: r["derived"]["status"] for r in seen.record["results"]} == dict.fromkeys(impls, "ok")
    assert klab("new", "swish").code == 2


@pytest.mark.parametrize("name", ["torch", "tl", "copy"])
def test_a_template_that_would_hide_a_module_is_refused(klab, name):
    seen = klab("new", name)
    assert (seen.code, "choose another" in seen.err) == (2, True)
