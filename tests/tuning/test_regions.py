"""Rules for ranges of sizes: as few as the measured choices allow, and nothing beyond what was measured."""

import sys

from kernellab.library.rules import Rule
from kernellab.tuning.regions import Cell, derive_rules
from kernellab.tuning.winners import Decision, Pair

TORCH, CPP = Pair("torch", "torch"), Pair("cpp", "cpp")


def cell(columns, elements, chosen=CPP, shipped=TORCH, dtype="float32", options=()):
    return Cell(dtype, options, columns, elements, Decision(shipped, chosen, "certainly faster", {}, {}))


def rules(*cells):
    return [(tuned.dtypes, tuned.rule) for tuned in derive_rules(cells)]


def choice(cells, columns, elements):
    return next((t.rule.forward for t in derive_rules(cells) if t.rule.applies(columns, elements)), "shipped")


def test_sizes_with_the_same_choice_are_one_rule():
    cells = [cell(columns, elements) for columns in (256, 1024, 4096) for elements in (1 << 16, 1 << 20)]
    ((dtypes, rule),) = rules(*cells)
    assert dtypes == ("float32",)
    assert rule == Rule("cpp", "cpp", 129, 4096, 1 << 16, sys.maxsize)


def test_where_the_shipped_choice_stays_there_is_no_rule():
    assert rules(cell(1024, 1000, TORCH), cell(1024, 2000, TORCH)) == []
    cells = [cell(1024, 1000, TORCH), cell(1024, 2000), cell(1024, 4000, TORCH), cell(1024, 8000)]
    found = [choice(cells, 1024, elements) for elements in (999, 1000, 2000, 3999, 4000, 7999, 8000, 1 << 40)]
    assert found == ["shipped", "shipped", "cpp", "cpp", "shipped", "shipped", "cpp", "cpp"]


def test_a_width_stands_for_narrower_rows_down_to_the_next():
    cells = [cell(256, 1000), cell(1024, 1000, TORCH), cell(4096, 1000)]
    found = [choice(cells, columns, 5000) for columns in (128, 129, 256, 257, 1024, 1025, 4096, 4097)]
    assert found == ["shipped", "cpp", "cpp", "shipped", "shipped", "cpp", "cpp", "shipped"]


def test_widths_do_not_limit_the_rules_of_ops_that_reduce_nothing():
    ((_, rule),) = rules(cell(None, 1000), cell(None, 2000))
    assert rule == Rule("cpp", "cpp", elements_from=1000)


def test_dtypes_with_the_same_rule_share_it_and_options_do_not():
    tanh = (("approximate", "tanh"),)
    found = rules(cell(8, 8, dtype="float32"), cell(8, 8, dtype="bfloat16"), cell(8, 8, options=tanh))
    assert [(dtypes, rule.options) for dtypes, rule in found] == [(("float32", "bfloat16"), ()), (("float32",), tanh)]
