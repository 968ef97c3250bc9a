"""Tables that were tuned: used for exactly what they were made for, and otherwise a warning says why not."""

import warnings

import pytest
import torch

from kernellab.base.paths import cache_dir
from kernellab.base.version import VERSION
from kernellab.library import tables
from kernellab.library.sources import table_sources
from kernellab.library.tuned import FORMAT, tuned_path
from kernellab.machine.environment import cpu_name
from support.serving import own_table, rule

CPU = torch.device("cpu")


def head(**changes):
    facts = {"format": FORMAT, "kernellab": VERSION, "architecture": "cpu", "device": cpu_name(), **changes}
    return "\n".join(["[tuned]", *(f"{key} = {value!r}" for key, value in facts.items())]) + "\n"


@pytest.fixture
def tuned_table():
    """Write the tuned table, as long as the test lasts, and forget which warnings were given."""

    def write(text, architecture="cpu"):
        tables._warn_once.cache_clear()
        cache_dir("tuned")
        tuned_path(architecture).write_text(text)

    yield write
    for path in cache_dir("tuned").glob("*.toml"):
        path.unlink()


def forward_of(op="softmax", device=CPU):
    return [rule.forward for rule in tables.rules(op, torch.float32, device)]


def test_tuned_rules_come_before_the_shipped_ones_and_after_the_users_own(tuned_table):
    tuned_table(head() + rule("softmax", "torch", "torch"))
    with own_table(""):
        assert forward_of() == ["torch", "cpp"]
    with own_table(rule("softmax", columns_up_to=8)):
        assert forward_of() == ["cpp", "torch", "cpp"]


def test_a_switch_ignores_them_without_a_word(tuned_table, monkeypatch):
    tuned_table(head(kernellab="0.0.1") + rule("softmax", "torch", "torch"))
    monkeypatch.setenv("KERNELLAB_TUNED", "0")
    with own_table(""), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert forward_of() == ["cpp"]
    assert table_sources("cpu")[-2].problem == "KERNELLAB_TUNED is 0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[softmax", "cannot read the table of implementations"),
        ("\x00\x01", "cannot read the table of implementations"),
        (head() + '[[softmax]]\nforward = "cpp"', "a rule of softmax is"),
        (head() + rule("softmax") + "elements_from = 1.5", "elements_from of a rule of softmax cannot be 1.5"),
        (rule("softmax"), r"it has no \[tuned\]"),
        (head(format=0) + rule("softmax"), "it has format 0, and this kernellab reads format 1"),
        (head(kernellab="0.0.1") + rule("softmax"), "it was made by kernellab 0.0.1, and this is"),
        (head(architecture="sm_90") + rule("softmax"), "it was made for sm_90, and this is cpu"),
        (head(device="another") + rule("softmax"), "it was made for another CPU, another"),
    ],
)
def test_a_table_that_does_not_fit_is_not_used_and_a_warning_says_why(text, message, tuned_table):
    with own_table(""):
        tuned_table(text)
        with pytest.warns(UserWarning, match=message) as seen:
            assert forward_of() == ["cpp"]
        assert "klab tune --reset removes it" in str(seen[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is said once
            assert forward_of() == ["cpp"]


def test_a_table_is_for_one_architecture(tuned_table, monkeypatch):
    tuned_table(head(architecture="sm_80", device="A100") + rule("softmax", "torch", "torch"), "sm_80")
    for capability, expected in (((8, 0), "torch"), ((8, 6), "triton"), ((9, 0), "cuda")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert forward_of(device=torch.device("cuda", 0))[0] == expected
