"""The rules as a whole: each is a file, documented, and applied; what they find is ranked."""

import importlib
from pathlib import Path

import pytest

from kernellab.explaining import rulebook, rules
from kernellab.explaining.rulebook import all_rules, find
from kernellab.findings.finding import Precedence
from support.klab import HERE
from support.subjects import GOOD_KERNEL, found_rules, kernel, subject

FILES = sorted(path.stem for path in Path(rules.__file__).parent.glob("[!_]*.py"))


def test_every_file_is_a_rule_named_after_it():
    assert [rule.name.replace("-", "_") for rule in all_rules().values()] == FILES
    assert list(all_rules()) == sorted(all_rules())


@pytest.mark.parametrize("file", FILES)
def test_a_rule_says_what_it_finds_and_how_it_computes_the_gain(file):
    docstring = importlib.import_module(f"kernellab.explaining.rules.{file}").__doc__
    summary, blank, *body = docstring.splitlines()
    assert summary.endswith(".")
    assert blank == ""
    formulas = [line for line in body if line.startswith("    ")]
    assert any("=" in line or "<" in line for line in formulas), "no formula or threshold, indented by four spaces"


def test_the_table_in_the_documentation_is_that_of_the_rules():
    page = (HERE.parent / "docs" / "explain.md").read_text()
    assert page == rulebook.write_table(page), "run python -m kernellab.explaining.rulebook docs/explain.md"


NEW_RULE = '''
"""A kernel is called bad.

    bad = its name is bad
"""
from kernellab.findings.finding import Finding, Precedence

NEEDS = "names of kernels"
GAIN = "none"
PRECEDENCE = Precedence.FIRST


def examine(subject):
    bad = any(kernel.name == "bad" for kernel in subject.kernels)
    return Finding(title="a kernel is called bad", do="rename it", confidence="computed") if bad else None
'''


@pytest.fixture
def new_rule(tmp_path, monkeypatch):
    (tmp_path / "bad_name.py").write_text(NEW_RULE.lstrip())
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    all_rules.cache_clear()
    yield "bad-name"
    all_rules.cache_clear()


def test_a_new_file_is_a_rule_without_any_other_change(new_rule):
    assert found_rules(subject(kernel(name="bad"))) == [new_rule]
    assert find(subject(kernel(name="bad")))[0].precedence is Precedence.FIRST
    row = "| `bad-name` | A kernel is called bad | names of kernels | none |"
    assert f"\n{row}\n" in rulebook.write_table("<!-- rules -->\n<!-- end -->\n")


def test_an_unfinished_rule_is_refused_by_what_it_lacks(tmp_path, monkeypatch):
    (tmp_path / "unfinished.py").write_text("def examine(subject):\n    return None\n")
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    with pytest.raises(TypeError, match=r"rules\.unfinished is not a rule: it lacks a docstring, NEEDS, GAIN"):
        rulebook._load("unfinished")


def test_a_gain_below_the_least_worth_reporting_is_dropped(monkeypatch, new_rule):
    rule = all_rules()[new_rule]
    finding = rule.examine(subject(kernel(name="bad")))
    for gain, names in ((1.04, []), (1.06, [new_rule])):
        raised = rulebook.replace(rule, examine=lambda _, gain=gain: rulebook.replace(finding, gain=gain))
        monkeypatch.setattr(rulebook, "all_rules", lambda raised=raised: {new_rule: raised})
        assert found_rules(subject(GOOD_KERNEL)) == names


def test_findings_are_ranked_by_expected_gain():
    flawed = kernel(sectors=8.0, widest_bytes=4, load_bytes=4.0, instructions={**GOOD_KERNEL.instructions, "fp64": 400})
    findings = find(subject(flawed))
    assert len(findings) >= 2
    gains = [finding.expected_gain for finding in findings]
    assert gains == sorted(gains, reverse=True)
    assert {"uncoalesced", "fp64-by-accident"} <= {finding.name for finding in findings}
