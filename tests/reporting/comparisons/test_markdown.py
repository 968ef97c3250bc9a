"""The Markdown of a comparison: GitHub shows our table, and nothing that a record says becomes markup."""

import re

import pytest
from markdown_it import MarkdownIt

from kernellab.comparison.compare import Side, compare
from kernellab.reporting.comparisons import markdown
from support.comparisons import random_run, run, variation
from support.hostile_records import TEXTS
from support.records import result

STEADY = [100.0 + i / 100 for i in range(20)]
MARKUP = {"paragraph", "heading", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item", "strong"}


def written(before, after, names=("a", "b"), **options):
    sides = (Side(name, [record]) for name, record in zip(names, (before, after), strict=True))
    return markdown.document(compare(*sides, load=lambda machine: variation(), **options))


def tokens(text):
    """Everything that a reader of Markdown makes of the text, HTML included."""
    found = []
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        found += [token, *(token.children or [])]
    return found


def test_what_is_slower_is_in_the_heading_and_in_a_table():
    text = written(random_run(1), random_run(2, slower={3: 1.2}))
    assert text.startswith("### ❌ 1 time slower\n\nslower 1, faster 0, not resolved 9, same 0.\n")
    (row,) = re.findall(r"^\| \*\*slower\*\*.*$", text, re.MULTILINE)
    assert "`impl-3`" in row
    cells = {token.type for token in tokens(text)}
    assert {"table_open", "html_block", "code_inline"} <= cells


def test_equal_runs_and_runs_that_cannot_be_told_apart_have_headings_of_their_own():
    same = run(result("f", STEADY))
    assert written(same, same, precision=0.05).startswith("### ✅ Nothing is slower or worse\n")
    assert written(same, same).startswith("### ❔ Cannot tell whether anything is slower\n")


def test_a_time_that_cannot_be_trusted_is_marked():
    drifting = run(result("f", [100.0 + 5 * i for i in range(40)]))
    assert "`not trusted: before " in written(drifting, run(result("f", STEADY)))
    assert "remark" not in written(run(result("f", STEADY)), run(result("f", STEADY[::-1])))


def test_many_rows_are_counted():
    text = written(random_run(1, results=100), random_run(2, results=100))
    assert "… and 60 more" in text
    assert len(text) < 60_000


def test_a_comment_is_never_too_long_for_github():
    name = "x" * 500
    runs = [
        run(*(result(f"{name}-{n}", status=status, reason=name * 9) for n in range(150))) for status in ("ok", "wrong")
    ]
    timed_runs = [run(*(result(f"{n}{name}", STEADY) for n in range(150))) for _ in range(2)]
    for before, after in (runs, timed_runs):
        text = written(before, after)
        assert len(text) < 65_536
        assert "… and 1" in text


@pytest.mark.parametrize("name", [*TEXTS, "mention", "backticks", "a pipe", "nothing"])
def test_a_hostile_name_stays_text(name):
    text = {
        **TEXTS,
        "mention": "@everyone #1 https://example.invalid",
        "backticks": "``` ` `` x",
        "a pipe": "a \\| b | c \\",
        "nothing": " ",
    }[name]
    hostile = {"op": text, "impl": text}
    case = {**result("f")["case"], "dtype": text, "options": {text: text}}
    before = run({**result("f", STEADY), **hostile, "case": case}, {**result("g"), "op": text}, python=text)
    worse = {**result("g", status="wrong", reason=text), "op": text}
    after = run({**result("f", [2 * us for us in STEADY]), **hostile, "case": case}, worse, python="3")
    document = written(before, after, names=(text, "b"))
    for token in tokens(document):
        if token.type in ("html_block", "html_inline"):
            assert re.fullmatch(r"</?details>|<summary>[\w ]+</summary>|\s", token.content.strip() or " ") or (
                set(token.content.split("\n")) <= {"<details>", "</details>", "", *_summaries(token.content)}
            ), token.content
        else:
            assert re.sub("_(open|close)$", "", token.type) in {*MARKUP, "inline", "text", "code_inline"}, token.type
            if token.type == "text":
                assert not re.search(r"[@<>\[\]]|https?:|window", token.content), token.content
    for line in document.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (7, 9, 10), line


def _summaries(content):
    return set(re.findall(r"<summary>[\w ]+</summary>", content))
