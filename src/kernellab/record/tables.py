"""The tables of docs/record.md, written from the declarations of the record, its verdicts and its events.

`python -m kernellab.record.tables docs/record.md` rewrites everything between `<!-- table: NAME -->` and
`<!-- end -->`, where NAME is a declared document, or `events`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
import typing
from pathlib import Path
from typing import Annotated, Literal, NotRequired, Union, get_args, get_origin

from kernellab.activity import documents as activity_documents
from kernellab.base import shape
from kernellab.codeanalysis import kernel_json
from kernellab.declaration import documents
from kernellab.energy import documents as energy_documents
from kernellab.findings import document as finding_documents
from kernellab.machine import description
from kernellab.record import batteries, derived, schema
from kernellab.record.event import Event

_MODULES = (
    schema,
    derived,
    batteries,
    documents,
    activity_documents,
    energy_documents,
    description,
    kernel_json,
    finding_documents,
)
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_tables(text: str) -> str:
    """The page with every table rewritten from the declarations."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{table(block[2])}\n{block[3]}", text)


def table(name: str) -> str:
    """One table as Markdown: of the events, or of a declared document."""
    return _event_table() if name == "events" else _document_table(declared_documents()[name])


def declared_documents() -> dict[str, type]:
    """Every TypedDict that a record or its verdicts are made of, by name."""
    return {
        name: value
        for module in _MODULES
        for name, value in vars(module).items()
        if typing.is_typeddict(value) and not name.startswith("_")
    }


def _document_table(document: type) -> str:
    rows = ["| field | type | |", "|---|---|---|"]
    for key, declared in shape.fields(document).items():
        optional = "" if shape.is_required(document, key) else "; may be absent"
        rows.append(f"| `{key}` | {type_name(declared)}{optional} | {_meaning(declared)} |")
    return "\n".join(rows)


def _event_table() -> str:
    rows = ["| event | fields | |", "|---|---|---|"]
    for name, event in sorted(Event.declared.items()):
        stored = isinstance(event, type) and issubclass(event, Event) and event.stored
        if stored and event.__module__.startswith("kernellab.record."):
            fields = ", ".join(f"`{_key(field.name)}`" for field in dataclasses.fields(event))
            meaning = " ".join((inspect.getdoc(event) or "").split("\n\n")[0].split())
            rows.append(f"| `{name}` | {fields} | {meaning} |")
    return "\n".join(rows)


def _key(field: str) -> str:
    return "pass" if field == "pass_name" else field


def _meaning(declared: object) -> str:
    while get_origin(declared) is NotRequired:
        declared = get_args(declared)[0]
    return str(get_args(declared)[1]) if get_origin(declared) is Annotated else ""


_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def type_name(declared: object) -> str:
    """A declared type in JSON's words."""
    while get_origin(declared) in (NotRequired, Annotated):
        declared = get_args(declared)[0]
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        if len(arguments) > 5:  # any JSON value
            return "any"
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is list:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"object of {type_name(arguments[1])}"
    if origin is Literal:
        return _SCALARS[type(arguments[0])]
    if isinstance(declared, type):
        return _SCALARS.get(declared) or f"[{declared.__name__}](#{declared.__name__.lower()})"
    return "any"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(write_tables(page.read_text()))
