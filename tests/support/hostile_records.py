"""Records from a stranger: each is refused in a sentence or shown harmlessly, and never runs, hangs or reads elsewhere.

`HOSTILE_RECORDS` maps a name to a function that writes the record into an empty folder. They are made from a sound
record, so that everything but the hostile part is read.
"""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path

MARK = "hacked"  # what a script sets on `window` where one of these texts is executed
SECRET = "the content of a file outside the run"  # in the file `secret.txt` beside the run's folder

TEXTS = {
    "a script": f"<script>window.{MARK} = 1</script>",
    "the end of a script": f"</script><script>window.{MARK} = 2</script><!--",
    "the end of a style": f"</style><script>window.{MARK} = 3</script>",
    "the end of a title": f"</title><script>window.{MARK} = 4</script>",
    "an image that fails": f"<img src=x onerror='window.{MARK} = 5'>",
    "a drawing with a script": f"<svg onload='window.{MARK} = 6'><a href='javascript:window.{MARK}=7'>x</a></svg>",
    "the end of an attribute": f"\" onmouseover=\"window.{MARK} = 8\" ' onfocus='window.{MARK} = 9' autofocus x='",
    "a link": f"<a href='javascript:window.{MARK} = 10'>press</a> javascript:window.{MARK}=11",
    "a frame": f"<iframe srcdoc='<script>parent.{MARK} = 12</script>'></iframe>",
    "a template": f"{{{{ 7 * 7 }}}} {{% include '/etc/passwd' %}} ${{window.{MARK} = 13}}",
    "an entity": f"&lt;script&gt;window.{MARK} = 14&lt;/script&gt; &#x3c;script&#x3e;",
    "commands to a terminal": "\x1b[2J\x1b]0;x\x07\r\n\x00\u202e\u2028",
    "half a character": "\ud800x\udfff",
    "markup of a console": "[red][/nope][link=file:///etc/passwd]x[/link]",
    "a formula": '=HYPERLINK("http://example.invalid","x")|calc\'!A1',
    "Markdown": f"](javascript:window.{MARK}=15) `x` | <details> | **",
    "a long text": "x" * 300_000,
}
# Texts that decide how a record is read: another one is another kind of record, not another name.
_KEYWORDS = {"status", "pass", "device", "timer", "cache", "schema", "dtype", "stages", "kind"}


def every_text(value: object, text: str, key: str = "") -> object:
    """A document with `text` behind every text but keywords, keys that are names included."""
    if isinstance(value, str):
        return value if key in _KEYWORDS else f"{value}{text}"
    if isinstance(value, list):
        return [every_text(entry, text, key) for entry in value]
    if isinstance(value, dict):
        return {name: every_text(entry, text, name) for name, entry in value.items()}
    return value


def _text_fields(value: object, at: tuple = ()) -> dict[tuple, tuple]:
    """The texts of a document: the first of each field, keywords included."""
    fields: dict[tuple, tuple] = {}
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        for name, where in _text_fields(entry, (*at, key)).items():
            fields.setdefault(name, where)
    if isinstance(value, str):
        fields[tuple(key for key in at if isinstance(key, str))] = at
    return fields


def _put(document: object, at: tuple, value: object) -> object:
    """A copy of the document with another value at one place."""
    changed = copy.deepcopy(document)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return changed


def hostile_records(sound: dict) -> dict[str, Callable[[Path], None]]:
    """The records by name, made from a sound one that has times."""
    records: dict[str, Callable[[Path], None]] = {}

    def add(name: str, content: object) -> None:
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        records[name] = lambda folder: (folder / "run.json").write_bytes(text) and None

    for name, text in TEXTS.items():
        add(f"{name} in every text", every_text(sound, text))
    for field, at in _text_fields(sound).items():
        add(f"a script as {'.'.join(field)}", _put(sound, at, f"{TEXTS['a script']}{TEXTS['the end of an attribute']}"))
    timed = next(i for i, r in enumerate(sound["results"]) if r["times"] and r["times"][0]["samples_us"])
    series = ("results", timed, "times", 0)
    whole = json.dumps(sound).encode()
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e308", "1e308", "9" * 5000, "-1", "0"):
        placed = json.dumps(_put(sound, (*series, "samples_us", 0), "NUMBER")).encode()
        add(f"a sample of {number[:9]}", placed.replace(b'"NUMBER"', number.encode()))
    for name, at, value in (
        ("more rounds than samples", (*series, "rounds"), [*range(100_000)]),
        ("rounds beyond all integers", (*series, "rounds", 0), 10**30),
        ("a ceiling of 0", ("machine", "ceilings"), {"copy_gbps": 0, "matmul_tflops": {}}),
        *([("a GPU of 0 SMs", ("machine", "gpu", "sms"), 0)] if sound["machine"].get("gpu") else []),
        ("a size below 0", ("results", timed, "case", "dims"), {"M": -5}),
        ("a device that does not exist", ("results", timed, "case", "device"), "../../dev/null"),
        ("an option nested a thousand levels deep", ("results", timed, "case", "options"), _nested(900)),
        ("an option nested forty levels deep", ("results", timed, "case", "options"), {"x": _nested(40)}),
        ("a schema of the future", ("schema",), 10**9),
        ("a schema that is a text", ("schema",), "3"),
        ("a schema below 0", ("schema",), -1),
        ("results that are an object", ("results",), {"0": 1}),
        ("a result that is null", ("results", timed), None),
        ("a status that does not exist", ("results", timed, "check", "status"), "excellent"),
        ("errors that are texts", ("results", timed, "check", "errors"), {"max": "0"}),
        ("the same result twice", ("results",), [sound["results"][timed]] * 2),
        ("a hundred thousand results", ("results",), [{"op": "x"}] * 100_000),
        ("a command of a million words", ("command",), ["x"] * 1_000_000),
    ):
        add(name, _put(sound, at, value))
    impls = [{**sound["results"][timed], "impl": f"impl {number}"} for number in range(1000)]
    add("a thousand implementations", {**sound, "results": impls})
    for share in (0.01, 0.5, 0.99):
        add(f"cut after {100 * share:.0f} %", whole[: int(len(whole) * share)])
    for name, content in (
        ("empty", b""),
        ("zeros", bytes(100_000)),
        ("not UTF-8", b'{"schema": 3, "results": [], "\xff\xfe": 1}'),
        ("a list", b"[]"),
        ("null", b"null"),
        ("fifty million opened lists", b"[" * 50_000_000),
        ("fifty million opened objects", b'{"a":' * 10_000_000),
        ("a pickle", b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."),
    ):
        add(name, content)

    def sparse(folder: Path) -> None:
        with (folder / "run.json").open("wb") as file:
            file.write(b"[" * 1000)
            file.truncate(1 << 30)

    records["a file of 1 GiB"] = sparse
    records["a pipe"] = lambda folder: os.mkfifo(folder / "run.json")
    records["a link to a device"] = lambda folder: (folder / "run.json").symlink_to("/dev/zero")
    records["a folder"] = lambda folder: (folder / "run.json").mkdir()
    records["a journal that never begins"] = lambda folder: (folder / "journal.jsonl").write_text('{"event": "end"}\n')
    records["a journal of binary data"] = lambda folder: (folder / "journal.jsonl").write_bytes(bytes(range(256)) * 99)
    records["a journal with a nested line"] = lambda folder: (folder / "journal.jsonl").write_bytes(
        b"[" * 1_000_000 + b"\n{}\n"
    )
    return records


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return {"x": value}
