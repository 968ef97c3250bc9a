"""The section with recordings: timelines and flame graphs of the run's traces, in frames of the one file."""

import gzip
import json

import pytest

from kernellab.reporting.report.document import report
from kernellab.reporting.report.parts import recordings as parts
from kernellab.reporting.report.sections import recordings
from support.hostile_names import HOSTILE_NAMES
from support.klab import HERE
from support.reports import read_run, recorded_run, sample_run

TRAINING = gzip.decompress((HERE / "samples" / "training_h200.json.gz").read_bytes())


def trace_of(name):
    """A trace with one event."""
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    return json.dumps({"traceEvents": [event]}).encode()


def notes_of(section):
    return [note for recording in section.values["recordings"] for note in recording["notes"]]


def test_a_run_without_a_recording_has_no_such_section(tmp_path):
    assert recordings.section(read_run(sample_run("code_gelu.tar.gz", "gelu", tmp_path))) is None


def test_a_trace_has_a_timeline_and_a_flame_graph_for_each_kind_of_time(tmp_path):
    section = recordings.section(read_run(recorded_run(tmp_path / "run", {"t.json": TRAINING}), "run2-"))
    (entry,) = section.values["recordings"]
    assert [frame.title for frame in entry["frames"]] == [
        "Timeline of training",
        "Flame graph of training: GPU time",
        "Flame graph of training: CPU time",
    ]
    assert entry["findings"] == ["the GPU waits"]
    (pictures,) = section.data.values()
    assert list(pictures) == ["run2-recording0-0", "run2-recording0-1", "run2-recording0-2"]


def test_each_trace_has_the_findings_of_its_own_analysis(tmp_path):
    folder = recorded_run(tmp_path / "run", {"a.json": trace_of("aten::mm"), "b.json": trace_of("aten::mm")})
    document = json.loads((folder / "profile.json").read_text())
    document["profiles"] = [
        {"trace": name, "document": {"findings": [{"title": f"{name} waits"}]}} for name in ("a.json", "b.json")
    ]
    (folder / "profile.json").write_text(json.dumps(document))
    entries = recordings.section(read_run(folder)).values["recordings"]
    assert [entry["findings"] for entry in entries] == [["a.json waits"], ["b.json waits"]]


def test_what_is_not_shown_is_named_with_the_reason(tmp_path, monkeypatch):
    traces = {
        "t.json": trace_of("aten::mm"),
        "small.json.gz": gzip.compress(trace_of("aten::mm")),
        "broken.json": b"{",
        "large.json": trace_of("x" * 5000),
        "fifth.json": trace_of("aten::mm"),
    }
    monkeypatch.setattr(parts, "_MOST_BYTES", 4000)
    section = recordings.section(read_run(recorded_run(tmp_path / "run", traces)))
    compressed, broken, large, fifth = notes_of(section)
    assert "small.json.gz: it is compressed" in compressed
    assert broken.startswith("artifacts/broken.json: it ")
    assert "/tmp" not in broken
    assert "larger than" in large
    assert "to keep the report small" in fifth


def test_a_picture_that_is_too_large_is_left_out_with_the_command_that_draws_it(tmp_path, monkeypatch):
    folder = recorded_run(tmp_path / "run", {"t.json": TRAINING})
    monkeypatch.setattr(recordings, "_MOST_CHARACTERS", 50_000)
    section = recordings.section(read_run(folder))
    (note,) = [note for note in notes_of(section) if "timeline" in note]
    assert note.endswith("klab profile artifacts/t.json in the run's folder draws it.")


@pytest.mark.parametrize("name", ["../../secret.json", "/etc/hostname", "link.json", "\0", 7, None, {}])
def test_a_name_that_leads_out_of_the_run_shows_nothing(tmp_path, name):
    folder = recorded_run(tmp_path / "run", {"t.json": trace_of("mm")})
    (tmp_path / "secret.json").write_bytes(trace_of("secret"))
    (folder / "artifacts" / "link.json").symlink_to(tmp_path / "secret.json")
    document = {"collected": [{"name": "n", "traces": [name]}], "findings": [name]}
    (folder / "profile.json").write_text(json.dumps(document))
    assert recordings.section(read_run(folder)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"collected": 5}', '{"collected": [[]]}', "[" * 100_000])
def test_a_document_that_says_nothing_shows_nothing(tmp_path, text):
    folder = recorded_run(tmp_path / "run", {"t.json": trace_of("mm")})
    (folder / "profile.json").write_text(text)
    assert recordings.section(read_run(folder)) is None


def test_in_the_browser(open_page, tmp_path):
    folder = recorded_run(tmp_path / "run", {"t.json": TRAINING}, f"training{HOSTILE_NAMES[0]}")
    opened = open_page(report([read_run(folder)]), "report.html", viewport={"width": 1000, "height": 600})
    page = opened.page
    assert len(page.frames) == 1 + 3
    assert page.evaluate("document.getElementById('recording0-2').srcdoc") == ""  # until the reader comes near
    frames = [page.frame_locator(f"#recording0-{number}") for number in range(3)]

    page.locator("#recording0-0").scroll_into_view_if_needed()
    frames[0].locator("html[data-ready=yes]").wait_for(state="attached")
    assert frames[0].locator("#shown").inner_text().endswith("events")
    page.locator("#recording0-0").hover()
    before = page.evaluate("scrollY")
    shown = frames[0].locator("#shown").inner_text()
    # The page scrolls past a picture that the reader does not use. At its end: the lanes scroll first.
    assert opened.until(lambda: page.mouse.wheel(0, 2000) or page.evaluate("scrollY") > before)
    assert frames[0].locator("#shown").inner_text() == shown
    page.locator("#recording0-0").scroll_into_view_if_needed()
    frames[0].locator("#canvas").click(position={"x": 300, "y": 100})
    page.mouse.wheel(0, -300)
    assert opened.until(lambda: frames[0].locator("#shown").inner_text() != shown)

    page.locator("#recording0-1").scroll_into_view_if_needed()
    kernel = frames[1].locator("#frames > svg", has_text="gemm").first
    kernel.click()
    assert "%" in frames[1].locator(".status").text_content()
    frames[1].get_by_role("searchbox").fill("gemm")
    assert "frames contain “gemm”" in frames[1].locator(".status").text_content()

    paper = "getComputedStyle(document.getElementById('flame')).backgroundColor"
    graph = page.locator("#recording0-1").element_handle().content_frame()
    assert graph.evaluate(paper) == "rgb(255, 255, 255)"
    page.locator("#theme").click()
    assert opened.until(lambda: graph.evaluate(paper) == "rgb(22, 24, 27)")
    for frame in page.frames:
        assert frame.evaluate("window.hacked") is None
    assert len([url for url in opened.requests if not url.startswith("about:")]) == 1
