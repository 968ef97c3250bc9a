"""The components that doctor looks for."""

import pytest

from kernellab.base.paths import cache_dir
from kernellab.doctor import installation


@pytest.fixture(scope="module")
def components():
    return {component.name: component for component in installation.examine()}


def test_every_component_is_found_or_says_what_its_absence_costs(components):
    assert {"GPU", "driver", "torch", "C++ compiler", "Triton", "NVRTC", "nvcc", "Nsight Compute"} <= set(components)
    for component in components.values():
        assert component.found or component.cost, component.name


def test_what_the_tests_need_is_found_by_trying_it(components):
    assert "builds CUDA C++" in components["NVRTC"].found
    assert "with ptxas" in components["Triton"].found
    assert components["Python headers"].found == "found"


def test_a_tool_that_is_missing_costs_what_needs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    compiler = installation._compiler()
    assert (compiler.found, compiler.remedy) == ("", "apt-get install g++")
    assert "no C++ implementations: on the CPU, PyTorch serves all of kernellab.functional" in compiler.cost


def test_the_tables_in_use_are_named_and_so_is_one_that_cannot_be_used(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path))
    assert table_for_cpu().found == "shipped"
    path = cache_dir("tuned") / "cpu.toml"
    path.write_text("[[softmax")
    table = table_for_cpu()
    assert table.found.startswith(f"shipped; not used: {path}: cannot read the table of implementations")
    assert "klab tune --reset removes it" in table.found


def table_for_cpu():
    (table,) = [each for each in installation._tables() if each.name == "table for cpu"]
    return table
