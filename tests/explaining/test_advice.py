"""Which implementation to choose."""

import pytest

from kernellab.explaining.advice import Choice, advice, timed_choices, untimed_choices


def row(impl, time_us, kind=None):
    return Choice(impl, kind or impl, 20, 5, None, time_us, None, "")


def test_compiling_is_enough_where_it_is_nearly_as_fast():
    rows = [row("triton", 100.0), row("compile", 105.0), row("torch", 130.0), row("manual", 900.0)]
    assert advice(rows).startswith("torch.compile is enough here: within 5 % of the fastest, triton")


def test_pytorchs_own_op_is_enough_where_it_is_nearly_as_fast():
    rows = [row("triton", 100.0), row("torch", 101.0), row("compile", 100.5)]
    assert advice(rows).startswith("PyTorch's own op is enough here: within 1 % of the fastest, triton")


def test_a_hand_written_kernel_pays_where_it_is_much_faster():
    rows = [row("triton", 100.0), row("compile", 150.0), row("torch", 200.0)]
    expected = "A hand-written kernel pays here: triton is 1.5× as fast as compile, for 25 lines of code."
    assert advice(rows) == expected


def test_without_times_it_says_what_usually_holds_and_that_nothing_was_timed():
    assert advice([row("triton", None), row("manual", None)]).startswith("Nothing was timed.")


@pytest.mark.parametrize(
    ("impls", "timed"),
    [(["manual"], "Only manual was timed"), (["manual", "torch"], "Only manual and torch were timed")],
)
def test_without_anything_to_compare_with_no_advice_is_given(impls, timed):
    assert advice([row("triton", None), *(row(impl, 10.0) for impl in impls)]).startswith(timed)


def result(impl, status="ok", time_us=None):
    time = {"median_us": time_us} if time_us else None
    derived = {"status": status, "time": time, "limit": {"fraction": 0.5} if time_us else None, "build_s": None}
    return {"op": "f", "impl": impl, "kind": impl, "derived": derived}


CODE = [
    {"op": "f", "impl": "manual", "kind": "manual", "status": "none", "kernels": [], "launcher_lines": 5},
    {
        **{"op": "f", "impl": "triton", "kind": "triton", "status": "ok", "kernel_lines": 11, "launcher_lines": 45},
        "kernels": [{"name": "k", "facts": {}, "build_s": 0.5}, {"name": "j", "facts": {}, "build_s": 0.25}],
    },
]


def test_the_fastest_comes_first_and_failed_implementations_are_left_out():
    timed = [result("manual", time_us=9.0), result("torch", time_us=3.0)]
    rows = timed_choices([*timed, result("triton", "skipped"), result("liar", "wrong")], CODE)
    assert [(row.impl, row.time_us) for row in rows] == [("torch", 3.0), ("manual", 9.0), ("triton", None)]


def test_lines_and_build_times_come_from_the_machine_code():
    manual, compiled, triton = timed_choices([result("manual"), result("compile"), result("triton")], CODE)
    assert (triton.kernel_lines, triton.launcher_lines, triton.build_s) == (11, 45, 0.75)
    assert compiled.launcher_lines == manual.launcher_lines == 5  # torch.compile gets the reference


def test_without_times_the_compiled_implementations_are_listed_in_order():
    failed = {"op": "f", "impl": "cuda", "kind": "cuda", "status": "error", "kernels": []}
    assert [row.impl for row in untimed_choices([*CODE, failed])] == ["manual", "triton"]
