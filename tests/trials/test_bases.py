"""Bases and sizes inside the domain of an implementation."""

import collections

import pytest
import torch

import kernellab as kl
from kernellab.trials.bases import Bases
from kernellab.trials.battery import battery, impl_batteries
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.domain import Domain

KINDS = {"declared", "options", "dtypes", "sizes", "layouts", "values", "gradients", "calls"}


@kl.op(
    args=dict(x=kl.tensor("M N")),
    options=dict(mode=["a", "b", "c"]),
    cases=kl.cases(M=[4096], N=[2048], dtype=["float32", "bfloat16"]),
)
def plain(x, *, mode="a"):
    return x * 2


def supported(name, supports):
    if name not in plain.impls:
        plain.impl(name, supports=supports)(lambda x, *, mode: x + x)
    return plain[name]


DOMAINS = {
    "multiples": lambda c: c.M % 128 == 0 and c.N % 128 == 0,
    "minimum": lambda c: c.N >= 256 or "N of at least 256",
    "powers": lambda c: c.N & (c.N - 1) == 0 and c.N >= 1024,
    "few": lambda c: c.N in (64, 128, 2048),
    "declared-rows": lambda c: c.M == 4096,
    "equal": lambda c: c.M == 2 * c.N and c.N > 0,
    "product": lambda c: c.M * c.N % 4096 == 0 and c.M * c.N > 0,
    "divides": lambda c: 2048 % c.N == 0,  # raises where N is 0
    "dtype": lambda c: c.dtype == "bfloat16" or "bfloat16 only",
    "last-option": lambda c: c.mode == "c",
    "contiguous": lambda c: c.contiguous,
    "all-at-once": lambda c: c.mode != "a" and c.dtype == "bfloat16" and c.M >= 512 and c.N % 64 == 0 and c.contiguous,
}


@pytest.mark.parametrize("name", DOMAINS)
def test_a_limited_domain_has_trials_of_every_kind_inside_it(name):
    impl = supported(name, DOMAINS[name])
    trials = battery(plain, "cpu", impl=impl)
    assert all(impl.refusal(trial.case_for_supports) is None for trial in trials)
    count = collections.Counter(trial.kind for trial in trials)
    expected = KINDS - {"dtypes"} if name in ("dtype", "all-at-once") else KINDS  # one dtype: the bases have it
    assert set(count) >= expected - ({"layouts"} if name == "contiguous" else set())
    assert len(trials) > 100
    # Several sizes of each dim, unless the domain has a few alone.
    sizes = {dim: {trial.case.dims[dim] for trial in trials} for dim in ("M", "N")}
    assert len(sizes["M"]) >= (1 if name == "declared-rows" else 8)
    assert len(sizes["N"]) >= (3 if name in ("few", "powers") else 8)


@pytest.mark.parametrize("name", DOMAINS)
def test_both_bases_are_inside_small_and_different(name):
    domain = Domain(plain, supported(name, DOMAINS[name]))
    bases = Bases(domain, "cpu")
    assert all(map(domain.accepts, bases.both))
    assert bases.regular != bases.odd
    assert largest_input(plain, bases.regular) <= (1 << 18 if name == "declared-rows" else 1 << 15)


def test_a_domain_of_one_large_case_is_tried_there_with_fewer_trials():
    trials = battery(plain, "cpu", impl=supported("one", lambda c: (c.M, c.N) == (4096, 2048)))
    assert {trial.case.shape for trial in trials} == {(4096, 2048)}
    assert {"values", "layouts", "gradients", "options"} <= {trial.kind for trial in trials}
    assert 20 < len(trials) < 150


def test_where_nothing_is_inside_nothing_is_generated_after_a_limited_number_of_questions():
    asked = []
    impl = supported("none", lambda c: bool(asked.append(c)) or "never")
    assert battery(plain, "cpu", impl=impl) == []
    assert len(asked) < 8000


def test_an_op_without_named_dims_is_searched_for_its_last_dim():
    @kl.op(cases=kl.cases(shape=[(256, 512)], dtype=["float32"]))
    def rows(x):
        return x.softmax(-1)

    rows.impl("wide", supports=lambda c: len(c.shape) >= 2 and c.shape[-1] % 128 == 0)(lambda x: x.softmax(-1))
    trials = battery(rows, "cpu", impl=rows["wide"])
    shapes = {trial.case.shape for trial in trials}
    assert len({shape[-1] for shape in shapes}) >= 8
    assert max(shape[-1] for shape in shapes) >= 65536
    assert {2, 3, 4} <= {len(shape) for shape in shapes}


def test_optional_inputs_dtypes_and_sizes_may_depend_on_each_other():
    @kl.op(
        args=dict(x=kl.tensor("M N"), b=kl.optional(kl.tensor("N"))),
        cases=kl.cases(M=[512], N=[512], dtype=["float32", "float16"]),
    )
    def bias(x, b=None):
        return x if b is None else x + b

    bias.impl("picky", supports=lambda c: c.N % 8 == 0 if c.dtype == "float16" else c.N % 2 == 1 and not c.b)(
        bias.reference
    )
    trials = battery(bias, "cpu", impl=bias["picky"])
    assert {(t.case.dtype, t.case.b) for t in trials} == {
        ("float16", True),
        ("float16", False),
        ("float32", False),
    }
    assert {t.kind for t in trials if t.case.dtype == "float32"} >= {"dtypes", "values", "layouts", "gradients"}


def test_implementations_share_the_ops_battery_and_have_their_own_trials_besides():
    impls = [plain["manual"], supported("minimum", DOMAINS["minimum"])]
    trials = impl_batteries(plain, impls, "cpu")
    keys = {name: {trial.key for trial in of_impl} for name, of_impl in trials.items()}
    assert keys["manual"] < keys["minimum"]
    own = [trial for trial in trials["minimum"] if trial.key not in keys["manual"]]
    assert all(trial.case.N >= 256 for trial in own)
    assert {"values", "layouts"} <= {trial.kind for trial in own}


def test_every_option_value_gets_values_layouts_and_sizes_of_its_own():
    trials = [t for t in battery(plain, "cpu") if t.kind == "options"]
    for mode in ("b", "c"):
        assert {"with NaN", "with ±inf", "large negative"} <= {
            value for t in trials if t.case.mode == mode for value in t.values.values()
        }
        assert any(t.layouts for t in trials if t.case.mode == mode)
        assert max(t.case.M for t in trials if t.case.mode == mode) > 4096


def test_a_smaller_case_for_the_interpreter_is_inside_the_domain():
    from kernellab.checking.declared_case import CaseChecker
    from kernellab.declaration.case import Case

    impl = supported("multiples", DOMAINS["multiples"])
    case = Case({"M": 4096, "N": 2048}, "float32", {"mode": "a"})
    checked = CaseChecker(plain, case, seed=0, device=torch.device("cpu"), interpreted=True).check(impl)
    assert checked.status == "ok"
    assert checked.checked_at.M % 128 == checked.checked_at.N % 128 == 0
    assert largest_input(plain, checked.checked_at) <= 65_536
