"""A record without a field, or with an odd number, is refused in a sentence or shown in the report and the terminal."""

import io
import json

import pytest
from rich.console import Console

from kernellab.base.errors import UserError
from kernellab.record.reading import load
from kernellab.reporting.report.sections import SECTIONS
from kernellab.reporting.terminal import results
from kernellab.reporting.terminal.inspection import show_inspection
from support.report_records import rich_record
from support.reports import read_run, sample_run


def _small_record():
    """One result that was timed and one that was not, of each op, with few samples."""
    record = rich_record()
    by_op = {op: [r for r in record["results"] if r["op"] == op] for op in ("gelu", "softmax")}
    record["results"] = [entry for entries in by_op.values() for entry in (entries[0], entries[1], entries[-1])]
    for entry in record["results"]:
        for series in entry["times"]:
            series["samples_us"], series["rounds"] = series["samples_us"][:12], series["rounds"][:12]
    record["results"][1]["times"] = []  # right, and not timed
    return record


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """Machine code of two kernels for the GPU."""
    run = sample_run("code_gelu.tar.gz", "gelu", tmp_path_factory.mktemp("code"))
    return load(run)["code"]


def _paths(value, path=()):
    """Every field of a document; entries of lists are `*`."""
    for key, entry in value.items() if isinstance(value, dict) else ():
        yield (*path, key)
        yield from _paths(entry, (*path, key))
    for entry in value[:12] if isinstance(value, list) else ():
        yield from _paths(entry, (*path, "*"))


def _remove(value, path):
    first, *rest = path
    if first == "*" and isinstance(value, list):
        for entry in value:
            _remove(entry, rest)
    elif isinstance(value, dict) and not rest:
        value.pop(first, None)
    elif isinstance(value, dict) and first in value:
        _remove(value[first], rest)


def _show(run):
    """Everything that is shown of a run."""
    for make in SECTIONS:
        section = make(run)
        json.dumps([section.figures, section.data] if section else None)
    out = Console(file=io.StringIO())
    results.show(run.record, out, verbose=True)
    show_inspection(run.record, out)


def test_a_record_without_a_field_is_refused_or_shown(tmp_path, code):
    text = json.dumps({**_small_record(), "code": code})
    shown = refused = 0
    for path in sorted(set(_paths(json.loads(text)))):
        document = json.loads(text)
        _remove(document, path)
        (tmp_path / "run.json").write_text(json.dumps(document))
        try:
            run = read_run(tmp_path)
        except UserError:
            refused += 1
            continue
        shown += 1
        try:
            _show(run)
        except Exception as error:
            raise AssertionError(f"without {'.'.join(path)}") from error
    assert shown > 100
    assert refused > 100


def _replace(value, path, new):
    """Puts `new` in place of the numbers and lists at a path."""
    first, *rest = path
    if isinstance(value, list) and first == "*":
        for entry in value:
            _replace(entry, rest, new)
    elif isinstance(value, dict) and first in value:
        if rest:
            _replace(value[first], rest, new)
        elif new == []:
            value[first] = [] if isinstance(value[first], list) else value[first]
        elif isinstance(value[first], list) and value[first] and isinstance(value[first][0], int | float):
            value[first] = [new] * len(value[first])
        elif isinstance(value[first], int | float):
            value[first] = new


@pytest.mark.parametrize("new", [[], 0, -1, 10**18])
def test_machine_code_with_odd_numbers_is_refused_or_shown(tmp_path, code, new):
    text = json.dumps({**_small_record(), "results": [], "code": code})
    changed = 0
    for path in sorted(set(_paths(code, ("code",)))):
        document = json.loads(text)
        _replace(document, path, new)
        if document == json.loads(text):
            continue
        changed += 1
        (tmp_path / "run.json").write_text(json.dumps(document))
        try:
            _show(read_run(tmp_path))
        except UserError:
            continue
        except Exception as error:
            raise AssertionError(f"{'.'.join(path)} is {new}") from error
    assert changed > 10


@pytest.mark.parametrize("rate", [1e308, 5e-324])
@pytest.mark.parametrize("sample", [1.0, 5e-324, 0.0])
def test_rates_and_times_that_no_machine_has_are_shown(tmp_path, rate, sample):
    record = _small_record()
    record["machine"]["ceilings"] = {"copy_gbps": rate, "matmul_tflops": {"float32": rate, "bfloat16": rate}}
    for series in (series for entry in record["results"] for series in entry["times"]):
        series["samples_us"] = [sample] * len(series["samples_us"])
    (tmp_path / "run.json").write_text(json.dumps(record))
    _show(read_run(tmp_path))
