"""What the sections of a report say of a record."""

import json
import re
from html import unescape

import pytest

from kernellab.reporting.report.document import report
from kernellab.reporting.report.parts.section import Run
from kernellab.reporting.report.sections import curves, roofline, samples, verdicts
from support.records import result, timed
from support.reports import read_run
from support.sample_records import sample_document
from support.sweeps import at, derived_record, swept


def text_of(run):
    """The words of a report, without scripts."""
    page = re.sub(r"<(script|style)\b.*?</\1>", "", report([run]), flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page)))


def cells(section):
    return [[cell.text for cell in row] for row in section.values["table"].rows]


def test_an_empty_run_has_a_report():
    assert "0 results right" not in text_of(Run(derived_record()))
    assert "Environment" in text_of(Run(derived_record()))


def test_verdicts_are_ordered_by_time_and_what_every_row_says_is_said_once():
    wrong = result("liar", status="wrong", reason="values: at [0, 0]")
    section = verdicts.section(Run(derived_record(timed("torch", 100), wrong, timed("triton", 50))))
    assert [row[0] for row in cells(section)] == ["triton", "torch", "liar"]
    assert [column.title for column in section.values["table"].columns][:3] == ["impl", "case", "status"]
    assert (
        section.values["table"].caption
        == "Every implementation at every case (f, float32, forward), with 99 % intervals"
    )
    assert section.values["reasons"] == [("f liar", "wrong: values: at [0, 0]", "bad")]


def test_each_pass_has_a_row_of_its_own():
    entry = timed("torch", 100)
    entry["times"].append({**entry["times"][0], "pass": "backward", "samples_us": [300.0] * 20})
    rows = cells(verdicts.section(Run(derived_record(result("cpp"), entry, timed("triton", 50)))))
    assert [(row[0], row[2], row[4]) for row in rows] == [
        ("triton", "forward", "50.09 µs"),
        ("torch", "forward", "100.1 µs"),
        ("torch", "backward", "300 µs"),
        ("cpp", "–", ""),
    ]


def test_curves_have_gaps_where_an_implementation_is_not_right_and_the_measured_limit():
    text = text_of(Run(swept()))
    assert "f over N · dim0=32 · float32" in text
    assert "liar wrong at N=2048, 4096, 8192: values: at [0, 2048]" in text
    assert "f torch: time grows as N^" in text


def test_the_roofline_has_every_result_that_was_timed():
    matmul = timed("torch", 100)
    matmul["cost"]["forward"]["flops"] = {"matmul": 1e8}
    record = derived_record(timed("cpp", 50), at(matmul, {"M": 8}, op="g"))
    section = roofline.section(Run(record))
    assert [place.title.partition(":")[0] for place in section.values["figures"]] == ["Memory", "Matmul"]
    names = [trace["name"] for figure in section.figures.values() for trace in figure["data"]]
    assert names == ["copy bandwidth, measured", "cpp", "float32 limit, measured", "torch"]
    assert roofline.section(Run(derived_record(result("cpp")))) is None


def test_many_samples_are_drawn_as_few_that_reach_as_far():
    entry = timed("torch", 100)
    series = entry["times"][0]
    series["samples_us"] = [100.0 + number / 1000 for number in range(5000)]
    series["rounds"] = list(range(5000))
    section = samples.section(Run(derived_record(entry)))
    (trace,) = next(iter(section.figures.values()))["data"]
    assert len(trace["x"]) == samples.MOST_SAMPLES
    assert trace["x"][0] == pytest.approx(-2.44, abs=0.01)
    assert trace["x"][-1] == pytest.approx(2.44, abs=0.01)
    assert section.values["charts"][0]["figure"].table.rows[0][1].text == "5000"


def test_a_time_that_is_not_trusted_has_an_open_mark():
    shaky = timed("torch", 100)
    shaky["times"][0]["samples_us"] = [100.0, 900.0] * 10
    sizes = {"samples": timed("cpp", 50), "shaky": shaky}
    record = derived_record(*(at(entry, {"N": n}) for n in (8, 16, 32) for entry in sizes.values()))
    for section, trace in ((curves, 0), (roofline, 1)):
        figure = next(iter(section.section(Run(record)).figures.values()))
        of_cpp, of_torch = figure["data"][trace : trace + 2]
        assert set(of_cpp["marker"]["symbol"]) == {"circle"}
        assert set(of_torch["marker"]["symbol"]) == {"square-open"}


@pytest.mark.parametrize("schema", [1, 2])
def test_a_record_of_an_older_version_has_a_report(schema, tmp_path):
    document = sample_document("run-gelu", "h200")
    document["schema"] = schema
    for name in ("trials", "sanitized", "searches", "code", "peers", *(["spent"] if schema == 1 else [])):
        document.pop(name, None)
    for entry in document["results"]:
        if schema == 1:
            entry["cost"] = (entry["cost"] or {}).get("forward")
        for name in ("traffic", *(["gradients", "memory", "built", "inside"] if schema == 1 else [])):
            entry.pop(name, None)
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert "cuda and triton are equally fast" in text_of(read_run(tmp_path))
