"""What the battery tries."""

import collections

import pytest
import torch

import kernellab as kl
from kernellab.declaration.targets import shipped_names
from kernellab.trials.battery import battery
from kernellab.trials.layouts import FAR, LAYOUTS
from kernellab.trials.trial import KINDS
from kernellab.trials.values import VALUES


def test_each_named_dim_is_varied_alone_through_the_sizes():
    seen = collections.defaultdict(set)
    for trial in battery(kl.ops.matmul, "cpu"):
        if trial.kind == "sizes":
            for dim, size in trial.case.dims.items():
                seen[dim].add(size)
    for dim in "MKN":
        assert {0, 1, 2, 3, 97, 127, 128, 129, 1023, 1024, 1025} <= seen[dim], dim
    assert 262144 in seen["K"], "reduced dims go further"


def test_elementwise_ops_are_tried_in_up_to_four_dims():
    ranks = {len(t.case.shape) for t in battery(kl.ops.gelu, "cpu") if t.kind == "ranks"}
    assert {1, 2, 3, 4} <= ranks


def test_layouts_and_values_are_applied_to_one_input_and_then_to_all():
    trials = battery(kl.ops.add, "cpu")
    for field, names in (("layouts", LAYOUTS), ("values", VALUES)):
        for name in names:
            varied = {
                tuple(getattr(t, field)) for t in trials if t.kind == field and name in getattr(t, field).values()
            }
            assert {("x",), ("y",), ("x", "y")} <= varied, name


def test_there_is_a_trial_beyond_32_bits_of_elements_and_one_for_each_far_layout():
    trials = battery(kl.ops.gelu, "cpu")
    (large,) = [t for t in trials if t.kind == "large"]
    assert large.case.shape[0] * large.case.shape[1] > 2**31
    assert {t.layouts["x"] for t in trials if t.kind == "strides"} == set(FAR)


def test_the_quick_battery_is_less_than_half_as_long():
    assert len(battery(kl.ops.gelu, "cpu", quick=True)) < len(battery(kl.ops.gelu, "cpu")) / 2


def test_dtypes_can_be_restricted():
    assert {t.case.dtype for t in battery(kl.ops.gelu, "cpu", dtypes=["bfloat16"])} == {"bfloat16"}


def test_every_trial_is_defined_by_where():
    @kl.op(
        args=dict(q=kl.tensor("H D"), k=kl.tensor("G D")),
        dims=dict(G="H"),
        where=lambda c: c.G > 0 and c.H % c.G == 0,
        cases=kl.cases(H=[8], D=[16], dtype=["float32"]),
    )
    def groups(q, k):
        return q * k.repeat(q.shape[0] // k.shape[0], 1)

    trials = battery(groups, "cpu")
    assert len(trials) > 60
    assert all(t.case.G > 0 and t.case.H % t.case.G == 0 for t in trials)


@pytest.mark.parametrize("name", shipped_names())
def test_kinds_are_known_and_no_trial_occurs_twice(name):
    trials = battery(getattr(kl.ops, name), "cpu")
    assert {t.kind for t in trials} <= set(KINDS)
    assert len({t.key for t in trials}) == len(trials)


def test_trials_keep_to_what_inputs_are_declared_to_be():
    @kl.op(
        args=dict(
            x=kl.tensor("M N"), p=kl.tensor("M N", values=kl.probabilities), s=kl.tensor("1 N/2", values=kl.positive),
            w=kl.tensor("N", contiguous=True), t=kl.tensor("M N", values=torch.ones), keep=kl.mask("M N"),
        ),
        cases=kl.cases(M=[16], N=[64], dtype=["float32", "bfloat16"]),
    )  # fmt: skip
    def f(x, p, s, w, t, keep):
        return x

    trials = battery(f, "cpu")
    values = {name: {t.values[name] for t in trials if name in t.values} for name in f.args}
    assert values["x"] == set(VALUES)
    assert values["p"] == set(kl.probabilities.special_values) != set()
    assert values["s"] == set(kl.positive.special_values) != set()
    assert values["t"] == values["keep"] == set()
    layouts = {name: {t.layouts[name] for t in trials if name in t.layouts} for name in f.args}
    assert {"sliced rows", "misaligned"} == layouts["w"]
    assert "transposed" in layouts["p"]
    assert not any("expanded" in layout for layout in layouts["p"] | layouts["t"])
    assert {"expanded rows", "expanded columns"} <= layouts["x"]
    assert all(t.case.N % 2 == 0 for t in trials)
    assert len({t.case.N for t in trials}) > 3
