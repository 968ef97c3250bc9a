"""The variation from run to run is stored per class of machine."""

import pytest

from kernellab.base import shape
from kernellab.doctor.aa_summary import summarise, variations
from kernellab.machine import variation
from support.aa_records import CASE, aa_record


def test_the_variation_is_stored_and_read_back():
    assert variation.load_variation("never seen") is None
    summary = summarise([aa_record(98), aa_record(102)])
    file = variation.store_variation("a machine, 2 threads", summary["versions"], 2, variations(summary))
    stored = variation.load_variation("a machine, 2 threads")
    assert (stored["runs"], stored["versions"], stored["cases"][0]["case"]) == (2, {"torch": "2"}, CASE)
    assert stored["cases"][0]["variation"] == pytest.approx(0.0283, abs=1e-3)
    file.write_text("half of it")
    assert variation.load_variation("a machine, 2 threads") is None


def test_what_is_published_of_a_gpu_has_the_form_of_what_is_measured():
    published = variation.published_variation("NVIDIA H200")
    assert shape.difference(published, variation.Variation) is None
    assert published["runs"] >= 10
    assert variation.published_variation("a GPU that nobody measured") is None
