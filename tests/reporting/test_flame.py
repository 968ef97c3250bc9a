"""Flame graphs as files: the text, speedscope's JSON, the SVG."""

import json
import xml.etree.ElementTree as ET

import pytest

from kernellab.reporting.pages import flame
from kernellab.reporting.pages.html import LONGEST, in_script, printable

SVG = "{http://www.w3.org/2000/svg}"
STACKS = {
    ("train.py(3): step", "aten::mm", "gemm"): 600,
    ("train.py(3): step", "aten::gelu", "gelu_kernel"): 300,
    ("train.py(3): step",): 100,
}
HOSTILE = (
    "</title><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    '" onload="alert(1)',
    "a;b\nc\x00\x1b[31m\ud800 \u202e",
    "x" * 10_000_000,
    "",
)


def frames(svg):
    """Name, left and width in percent, and depth of each frame drawn."""
    holder = next(e for e in ET.fromstring(svg).iter(f"{SVG}svg") if e.get("id") == "frames")
    return [
        (
            one.find(f"{SVG}title").text.split("\n")[0],
            float(one.get("x").rstrip("%")),
            float(one.get("width").rstrip("%")),
            int(one.get("aria-level")),
        )
        for one in holder
    ]


def test_collapsed_text_has_a_line_for_each_stack_heaviest_first():
    assert flame.text(STACKS).splitlines() == [
        "train.py(3): step;aten::mm;gemm 600",
        "train.py(3): step;aten::gelu;gelu_kernel 300",
        "train.py(3): step 100",
    ]


def test_names_cannot_break_the_text():
    lines = flame.text({(name, "end"): 5 for name in HOSTILE}).splitlines()
    assert len(lines) == len(HOSTILE)
    for line in lines:
        stack, _, spent = line.rpartition(" ")
        assert (stack.count(";"), spent) == (1, "5")
        line.encode()
    assert max(map(len, lines)) < LONGEST + 20


def test_stacks_whose_names_read_the_same_are_added():
    assert flame.text({("a;b",): 1, ("a:b",): 2}) == "a:b 3\n"


def test_speedscopes_file_is_as_its_schema_says():
    """The rules of www.speedscope.app/file-format-schema.json for a file of sampled profiles."""
    document = json.loads(flame.speedscope("mlp", {"GPU time": STACKS, "CPU time": {("f",): 2, (): 1}}))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) == {"$schema", "shared", "profiles", "name", "exporter", "activeProfileIndex"}
    assert isinstance(document["name"], str)
    assert isinstance(document["exporter"], str)
    assert document["activeProfileIndex"] in range(len(document["profiles"]))
    listed = document["shared"]["frames"]
    for frame in listed:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str)
        assert isinstance(frame.get("line", 0), int)
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "nanoseconds", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"]
        assert all(frame in range(len(listed)) for sample in profile["samples"] for frame in sample)


def test_speedscope_is_told_where_python_functions_stand():
    document = json.loads(flame.speedscope("mlp", {"GPU time": STACKS}))
    assert {"name": "step", "file": "train.py", "line": 3} in document["shared"]["frames"]
    gemm = document["profiles"][0]["samples"][0]
    assert [document["shared"]["frames"][at]["name"] for at in gemm] == ["step", "aten::mm", "gemm"]


def test_the_pictures_widths_are_shares_and_the_heaviest_comes_first():
    assert frames(flame.svg("mlp", STACKS, "GPU time")) == [
        ("all GPU time", 0, 100, 1),
        ("train.py(3): step", 0, 100, 2),
        ("aten::mm", 0, 60, 3),
        ("gemm", 0, 60, 4),
        ("aten::gelu", 60, 30, 3),
        ("gelu_kernel", 60, 30, 4),
    ]


def test_what_a_person_looks_for_comes_first_in_a_frame_and_frames_are_coloured_by_kind():
    names = {
        "torch/nn/linear.py(130): forward": ("forward linear.py:130", "python"),
        "<built-in method run_backward of torch>": ("run_backward (built-in)", "python"),
        "autograd::engine::evaluate_function: AddmmBackward0": (None, "operator"),
        "AddmmBackward0": (None, "operator"),
        "aten::mm": (None, "operator"),
        "void at::native::reduce_kernel<128>(float)": ("at::native::reduce_kernel<128>(float)", "other"),
    }
    for name, (label, hue) in names.items():
        root = ET.fromstring(flame.svg("mlp", {(name,): 1}))
        (drawn,) = (one for one in root.iter(f"{SVG}svg") if one.get("aria-level") == "2")
        assert drawn.find(f"{SVG}text").text == (label or name)
        assert drawn.get("class").startswith(hue)


def test_the_picture_is_the_same_each_time():
    again = dict(reversed(STACKS.items()))
    assert flame.svg("mlp", STACKS) == flame.svg("mlp", again)


def test_names_cannot_break_the_picture():
    picture = flame.svg(HOSTILE[0], {(name, "end"): 5 for name in HOSTILE})
    root = ET.fromstring(picture)
    assert len(list(root.iter(f"{SVG}script"))) == 1
    assert not [e for e in root.iter() if "onload" in e.attrib]
    assert len(picture) < 40_000
    assert len(frames(picture)) == 2 * len(HOSTILE) + 1


def test_too_many_frames_are_cut_to_the_widest_and_that_is_said(monkeypatch):
    monkeypatch.setattr(flame, "MOST_FRAMES", 4)
    picture = flame.svg("mlp", STACKS, "GPU time")
    assert [name for name, *_ in frames(picture)] == ["all GPU time", "train.py(3): step", "aten::mm", "gemm"]
    assert "2 thinnest frames not drawn" in picture


def test_nothing_recorded_is_said():
    assert "no GPU time was recorded" in flame.svg("mlp", {}, "GPU time")
    assert flame.text({}) == ""


@pytest.mark.parametrize(
    ("name", "read"),
    [(" a\tb ", "a b"), ("\x07", "\ufffd"), ("\u200e", "\ufffd"), ("", "(no name)"), ("abcd", "ab…")],
)
def test_printable(name, read):
    assert printable(name, 3) == read


def test_json_in_a_page_cannot_end_its_script():
    assert "<" not in in_script(["</script>", "<!--"])
    assert json.loads(in_script(["</script>"])) == ["</script>"]
