"""The file that tuning writes: readable, read back as it was meant, and other ops' sections stay."""

import pytest

from kernellab.base.version import VERSION
from kernellab.library.rules import read_table
from kernellab.library.tuned import read_tuned
from kernellab.machine.environment import cpu_name
from kernellab.tuning.regions import Cell, derive_rules
from kernellab.tuning.table_file import put_section, remove_sections
from kernellab.tuning.table_text import Section, Stamp
from kernellab.tuning.winners import Decision, Pair

TORCH, CPP = Pair("torch", "torch"), Pair("cpp", "cpp")


def section(op, chosen=CPP, options=(), refused=None):
    decision = Decision(TORCH, chosen, "certainly faster", {"forward": 2.04, "backward": 3.0}, {})
    cells = [Cell("float32", options, 1024, count, decision) for count in (1000, 4000)]
    stamp = Stamp("cpu", cpu_name(), f"{cpu_name()} 1 threads", "2026-11-16 10:02", {"torch": "2.13.0"}, "/runs/1")
    return Section(op, stamp, 2, ["float32"], derive_rules(cells), refused or {})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tuned" / "cpu.toml"


def test_a_table_is_read_back_as_it_was_meant(path):
    tanh = (("approximate", "tanh"),)
    put_section(path, section("gelu", options=tanh))
    (rule,) = read_table(path)["gelu", "float32"]
    assert (rule.forward, rule.columns_from, rule.columns_up_to, rule.elements_from) == ("cpp", 513, 1024, 1000)
    assert rule.options == tanh
    assert not read_tuned(path, "cpu").problem


def test_a_table_says_machine_date_versions_and_record(path):
    put_section(path, section("gelu", refused={"triton": "wrong: off\nby \x1b[31m 2"}))
    text = path.read_text()
    for part in (cpu_name(), "measured 2026-11-16 10:02", "torch 2.13.0", "# record: /runs/1", "2 sizes in float32"):
        assert part in text
    assert "forward 2, backward 3 times as fast as PyTorch, at 2 sizes" in text
    assert "triton takes no part: wrong: off by [31m 2" in text


def test_sections_of_other_ops_stay_and_an_op_has_one(path):
    put_section(path, section("softmax"))
    before = path.read_text()
    put_section(path, section("gelu"))
    put_section(path, section("gelu", TORCH))
    assert set(read_table(path)) == {("softmax", "float32")}  # nothing is chosen for gelu any more
    assert "# gelu, measured" in path.read_text()
    assert remove_sections(path, ["gelu"]) == ["gelu"]
    assert path.read_text() == before


def test_the_last_section_takes_the_file_with_it(path):
    assert remove_sections(path, []) == []
    put_section(path, section("softmax"))
    assert remove_sections(path, ["gelu"]) == []
    assert remove_sections(path, ["softmax"]) == ["softmax"]
    assert not path.exists()


def test_what_is_for_other_kernels_does_not_stay(path):
    put_section(path, section("softmax"))
    path.write_text(path.read_text().replace(f'"{VERSION}"', '"0.0.1"'))
    put_section(path, section("gelu"))
    assert set(read_table(path)) == {("gelu", "float32")}
