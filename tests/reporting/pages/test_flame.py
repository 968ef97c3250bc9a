"""Flame graphs: as text, as a file for speedscope, and as SVG, also in a real browser."""

import json
import xml.etree.ElementTree as ET

import pytest

from kernellab.reporting.html.parts import MOST_CHARACTERS
from kernellab.reporting.pages import flame
from support.hostile_names import HOSTILE_NAMES

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
            frame.find(f"{SVG}title").text.split("\n")[0],
            float(frame.get("x").rstrip("%")),
            float(frame.get("width").rstrip("%")),
            int(frame.get("aria-level")),
        )
        for frame in holder
    ]


def test_the_text_has_a_line_for_each_stack_heaviest_first():
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
    assert max(map(len, lines)) < MOST_CHARACTERS + 20


def test_stacks_whose_names_read_the_same_are_added():
    assert flame.text({("a;b",): 1, ("a:b",): 2}) == "a:b 3\n"


def test_the_speedscope_file_follows_its_schema():
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


def test_the_speedscope_file_has_the_lines_of_python_functions():
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


def test_the_functions_name_comes_first_in_a_frame_and_frames_are_coloured_by_kind():
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
        (drawn,) = (element for element in root.iter(f"{SVG}svg") if element.get("aria-level") == "2")
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


def test_only_the_widest_of_too_many_frames_are_drawn(monkeypatch):
    monkeypatch.setattr(flame, "MOST_FRAMES", 4)
    picture = flame.svg("mlp", STACKS, "GPU time")
    assert [name for name, *_ in frames(picture)] == ["all GPU time", "train.py(3): step", "aten::mm", "gemm"]
    assert "2 thinnest frames not drawn" in picture


def test_a_picture_of_nothing_says_so():
    assert "no GPU time was recorded" in flame.svg("mlp", {}, "GPU time")
    assert flame.text({}) == ""


# In a browser ------------------------------------------------------------------------------------------

BROWSER_STACKS = {
    ("train.py(3): step", "aten::mm", "gemm"): 600,
    ("train.py(3): step", "aten::gelu", "gelu_kernel"): 300,
    ("train.py(3): step", "aten::mm", HOSTILE_NAMES[1]): 100,
}


def frame(page, name):
    return page.page.locator("#frames > svg").filter(has=page.page.locator("title", has_text=name)).first


def width(page, name):
    box = frame(page, name).locator("rect").bounding_box()
    return box["width"] if box else 0.0


def test_a_click_zooms_and_search_counts(open_page):
    page = open_page(flame.svg("mlp", BROWSER_STACKS, "GPU time"), "flame.svg")
    assert width(page, "aten::gelu") == pytest.approx(300, abs=1)
    frame(page, "aten::gelu").click()
    assert width(page, "aten::gelu") == pytest.approx(1000, abs=3)  # with its outline
    assert width(page, "gelu_kernel") == pytest.approx(1000, abs=1)
    assert not frame(page, "aten::mm").is_visible()
    assert "30.00 %: aten::gelu" in page.page.text_content(".status")
    page.press("Escape")
    assert width(page, "aten::mm") == pytest.approx(700, abs=1)
    page.press("/")
    page.page.keyboard.type("GELU")
    assert page.page.text_content(".status") == "2 frames contain “GELU”, 30.0 % of the time"
    assert page.page.locator("#frames .hit").count() == 2
    page.press("Escape", "ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    assert width(page, "aten::gelu") == pytest.approx(1000, abs=3)  # with its outline


def test_names_are_only_text_in_the_browser(open_page):
    page = open_page(flame.svg(HOSTILE_NAMES[0], {(name, HOSTILE_NAMES[0]): 1 for name in HOSTILE_NAMES}), "flame.svg")
    frame(page, "<img").click()
    assert page.page.evaluate("window.hacked") is None
    assert "<img" in page.page.text_content(".status")


def test_the_picture_fits_a_narrow_screen_and_cuts_its_text(open_page):
    page = open_page(flame.svg("mlp", BROWSER_STACKS, "GPU time"), "flame.svg", viewport={"width": 200, "height": 400})
    assert width(page, "aten::gelu") == pytest.approx(60, abs=1)
    assert frame(page, "gelu_kernel").locator("text").text_content() == "gelu_k…"
    assert frame(page, "aten::mm").locator("text").text_content() == "aten::mm"


def test_without_its_script_the_picture_is_the_same(open_page):
    page = open_page(flame.svg("mlp", BROWSER_STACKS, "GPU time"), "flame.svg", java_script_enabled=False)
    assert frame(page, "gelu_kernel").locator("text").text_content() == "gelu_kernel"
    box = frame(page, "gelu_kernel").locator("rect").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == pytest.approx((700, 300), abs=1)
