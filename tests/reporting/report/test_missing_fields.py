"""A record without a field is refused in a sentence, or shown in the report and in the terminal without it."""

import io
import json

from rich.console import Console

from kernellab.base.errors import UserError
from kernellab.reporting.report.sections import SECTIONS
from kernellab.reporting.terminal import results
from support.report_records import rich_record
from support.reports import read_run


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


def test_a_record_without_a_field_is_refused_or_shown(tmp_path):
    text = json.dumps(_small_record())
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
            for make in SECTIONS:
                make(run)
            results.show(run.record, Console(file=io.StringIO()), verbose=True)
        except Exception as error:
            raise AssertionError(f"without {'.'.join(path)}") from error
    assert shown > 100
    assert refused > 100
