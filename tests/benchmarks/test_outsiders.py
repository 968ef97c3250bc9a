"""benchmarks/outsiders.py: the tables of its page."""

from support.benchmarks import load_script


def battery(status, tried, *failures):
    return {"status": status, "tried": tried, "failures": list(failures)}


def failure(kind, label, reason, status="wrong"):
    return {"kind": kind, "label": label, "reason": reason, "status": status}


def test_a_kernel_is_summed_up_over_its_seeds():
    module = load_script("outsiders")
    assert module._summary([]) == ("not run yet", "", "")
    assert module._summary([battery("ok", 40), battery("ok", 42)]) == ("right", "40–42", "2")
    mixed = [battery("ok", 40), battery("wrong", 40), battery("crashed", 40)]
    assert module._summary(mixed) == ("**not right** 2×, right 1×", "40", "3")


def test_a_kernel_that_only_took_too_long_is_not_called_wrong():
    module = load_script("outsiders")
    slow = failure("sizes", "N=262144", "did not finish within 120 s", "timeout")
    assert module._summary([battery("timeout", 40, slow)])[0] == "did not finish"
    assert module._summary([battery("wrong", 40, slow, failure("sizes", "N=3", "values"))])[0] == "**not right**"


def test_failures_that_differ_in_numbers_alone_are_one_reason():
    module = load_script("outsiders")
    first = failure("sizes", "M=3", "values: error 12, limit 4; at [0] 1, should be 2")
    second = failure("sizes", "M=5", "values: error 13, limit 5; at [1] 3, should be 2")
    other = failure("layouts", "x transposed", "changed its input x")
    runs = [battery("wrong", 9, first, other), battery("wrong", 9, second), battery("ok", 9)]
    assert module._reasons(runs) == [
        "sizes, 2 trials: M=3: values: error 12, limit 4; at [0] 1, should be 2",
        "layouts, 1 trial: x transposed: changed its input x",
    ]


def test_the_lines_of_the_confirming_tests_belong_to_their_kernels(tmp_path):
    module = load_script("outsiders")
    (tmp_path / "confirm.txt").write_text("liger rope: confirmed: changes q: by 1\nliger rope: confirmed: more\n")
    confirmations = module._confirmations(tmp_path / "confirm.txt")
    assert confirmations == {("liger", "rope"): ["confirmed: changes q: by 1", "confirmed: more"]}
