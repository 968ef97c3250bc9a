"""The timeline and the flame graph in a real browser: opened from the disk, moved by wheel, mouse and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kernellab.reporting.pages import flame, timeline
from kernellab.reporting.pages.html import part
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane, Trace
from support.browser import Looked, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


MAIN, STREAM = Lane("python 1", "thread 1"), Lane("GPU 0", "stream 7", 0, 7)
MS = 1_000_000
# Pixels from the top of the canvas: the stream's only row, then the thread's first and those inside it.
STREAM_Y, THREAD_Y, ROW = 57, 103, 18
DEFAULT = {"width": 1000, "height": 600}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests here. Without Chromium they fail, for `make test` installs it."""
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def usual(browser) -> Page:
    """One page is used again and again: a new one takes most of a second."""
    return browser.new_page(viewport=DEFAULT)


@pytest.fixture
def look(browser, usual, tmp_path):
    """Open a picture and return it as it is seen."""
    pages: list[Looked] = []

    def open_(document: str, name: str = "picture.html", **options) -> Looked:
        (tmp_path / name).write_text(document, encoding="utf-8")
        seen = Looked(browser.new_page(**{"viewport": DEFAULT, **options}) if options else usual)
        seen.page.set_default_timeout(10_000)
        seen.page.goto((tmp_path / name).as_uri())
        if name.endswith(".html"):
            seen.page.wait_for_selector("html[data-ready]", state="attached")
            assert seen.page.get_attribute("html", "data-ready") == "yes", seen.text("#shown")
            seen.settle()
        pages.append(seen)
        return seen

    yield open_
    for seen in pages:
        assert seen.errors == []
        seen.leave(usual)


def built(*rows, notes=()) -> Trace:
    """Each a lane, a kind, a name, begin and duration in nanoseconds; then the link and what else is known."""
    builder = TraceBuilder("kineto")
    builder.notes += notes
    for lane, kind, name, begin, duration, *rest in rows:
        link, known = (*rest, 0, None)[:2] if len(rest) < 2 else rest
        detail = builder.detail(str(known), known) if known else 0
        builder.add(kind, builder.name(name), builder.lane(lane), begin, duration, link=link, detail=detail)
    return builder.build()


def steps(count: int = 10) -> Trace:
    """Steps of 10 ms: an operator of 6 ms that launches a kernel of 3 ms, then a wait of 2 ms."""
    rows = []
    for at in range(count):
        begin = 10 * MS * at
        kernel = {"grid": [64, 1, 1], "block": [128, 1, 1]}
        rows += [
            (MAIN, Kind.RANGE, f"step {at}", begin, 9 * MS),
            (MAIN, Kind.OPERATOR, "aten::mm", begin + MS, 5 * MS, 0, {"shapes": [[128, 64], [64, 32]]}),
            (MAIN, Kind.CALL, "cudaLaunchKernel", begin + 2 * MS, MS, at + 1),
            (MAIN, Kind.CALL, "cudaDeviceSynchronize", begin + 7 * MS, 2 * MS),
            (STREAM, Kind.KERNEL, "gemm", begin + 5 * MS, 3 * MS, at + 1, kernel),
        ]
    return built(*rows)


@pytest.fixture(scope="module")
def plain() -> str:
    return timeline.page(steps(), "ten steps")


def test_the_page_opens_from_the_disk_and_asks_for_nothing_else(look, plain):
    seen = look(plain)
    assert seen.text("h1") == "ten steps"
    assert seen.shown_ms() == (0, 99)
    assert "50 events" in seen.text("#shown")
    assert [url for url in seen.asked if not url.startswith(("file:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in seen.asked) == 1


def test_the_wheel_zooms_about_the_pointer(look, plain):
    seen = look(plain)
    seen.page.mouse.move(*seen.at(50, 300))
    for _ in range(8):
        seen.page.mouse.wheel(0, -240)
    low, high = seen.shown_ms()
    assert high - low < 5
    assert low < 50 < high
    for _ in range(9):
        seen.page.mouse.wheel(0, 240)
    assert seen.shown_ms() == (0, 99)


def test_dragging_moves_and_dragging_on_the_ruler_zooms(look, plain):
    seen = look(plain)
    from_x, y = seen.at(20, 10)
    to_x, _ = seen.at(40, 10)
    seen.page.mouse.move(from_x, y)
    seen.page.mouse.down()
    seen.page.mouse.move(to_x, y, steps=4)
    seen.page.mouse.up()
    assert seen.shown_ms() == pytest.approx((20, 40), abs=0.3)
    seen.page.mouse.move(*seen.at(35, 300))
    seen.page.mouse.down()
    x, y = seen.at(25, 300)
    seen.page.mouse.move(x, y, steps=4)
    seen.page.mouse.up()
    assert seen.shown_ms() == pytest.approx((30, 50), abs=0.3)


def test_keys_zoom_and_move(look, plain):
    seen = look(plain)
    seen.press("w", "w", "+")
    low, high = seen.shown_ms()
    assert high - low == pytest.approx(1.04 * 99 * 0.7**3, rel=0.01)
    seen.press("ArrowRight")
    assert seen.shown_ms()[0] == pytest.approx(low + 0.2 * (high - low), rel=0.01)
    seen.press("a", "-", "0")
    assert seen.shown_ms() == (0, 99)


def test_a_click_tells_what_is_known_of_an_event(look, plain):
    seen = look(plain)
    seen.click(16.5, STREAM_Y)
    told = seen.text("#details")
    for known in ("gemm", "kernel", "3 ms", "15.000000 ms", "stream 7 · GPU 0", "[64, 1, 1]", "cudaLaunchKernel"):
        assert known in told, known
    seen.click(12, THREAD_Y + ROW)
    told = seen.text("#details")
    for known in ("aten::mm", "[[128, 64], [64, 32]]", "step 1", "3 ms in 1 started inside"):
        assert known in told, known
    seen.press("Escape")
    assert not seen.page.is_visible("#details")


def test_arrows_lead_from_the_launch_to_the_kernel(look, plain):
    seen = look(plain)
    between = STREAM_Y + 13  # neither a lane's rows nor its name

    def darkest() -> int:
        return min(map(sum, seen.colours(between)))

    assert darkest() > 600
    seen.click(12, THREAD_Y + ROW)
    assert darkest() < 100
    seen.press("Escape")
    assert darkest() > 600


def test_the_page_is_never_black_for_a_frame(look, plain):
    """Details take room: the canvas gets another size, which empties it."""
    seen = look(plain)
    watch = """() => new Promise((done) => {
      const canvas = document.getElementById("canvas"), before = canvas.width;
      new ResizeObserver(() => {
        if (canvas.width === before) return;
        const copy = new OffscreenCanvas(1, 1).getContext("2d");
        copy.drawImage(canvas, 5, 400, 1, 1, 0, 0, 1, 1);
        done(copy.getImageData(0, 0, 1, 1).data[0]);
      }).observe(document.getElementById("scroll"));
      document.getElementById("wait").click();
    })"""
    assert seen.page.evaluate(watch) == 255


def test_synchronisation_points_are_marked_and_can_be_gone_to(look, plain):
    seen = look(plain)
    wait = (207, 34, 34)
    assert seen.pixel(7, 17) == wait
    assert seen.pixel(12, 17) != wait
    assert seen.pixel(8.2, THREAD_Y + ROW) == wait
    for _ in range(3):
        seen.press("m")
    assert "cudaDeviceSynchronize" in seen.text("#details")
    assert "waits for the GPU" in seen.text("#details")
    assert "27.000000 ms" in seen.text("#details")


def test_calls_that_wait_are_told_from_those_that_do_not(look):
    waits = [
        "cudaStreamSynchronize",
        "cuCtxSynchronize",
        "cudaMemcpy_v3020",
        "cudaFree",
        "cuMemFree_v2",
        "cudaMemcpy2DAsync",
    ]
    others = [
        "cudaMemcpyAsync",
        "cudaFreeAsync",
        "cuMemFreeAsync",
        "cudaLaunchKernel",
        "cudaMalloc",
        "cudaMemcpy3DAsync",
    ]
    rows = [(MAIN, Kind.CALL, name, at * MS, MS, at + 1) for at, name in enumerate([*waits, *others])]
    rows.append((MAIN, Kind.OPERATOR, "cudaStreamSynchronize", 50 * MS, MS))
    rows.append(
        (STREAM, Kind.COPY, "Memcpy DtoH (Device -> Pageable)", 6 * MS, MS, waits.index("cudaMemcpy2DAsync") + 1)
    )
    rows.append((STREAM, Kind.COPY, "Memcpy DtoH (Device -> Pinned)", 13 * MS, MS, len(waits) + len(others)))
    seen = look(timeline.page(built(*rows), "waits"))
    names = []
    for _ in range(len(waits) + 1):
        seen.press("m")
        names.append(seen.text("#details h2"))
    assert names == [*waits, waits[0]]


def test_search_counts_highlights_and_goes_through_what_it_finds(look, plain):
    seen = look(plain)
    hit = (194, 24, 154)
    assert seen.pixel(6.5, STREAM_Y) != hit
    seen.press("/")
    seen.page.keyboard.type("GEMM")
    seen.settle()
    assert seen.text("#found") == "10 found"
    assert seen.pixel(6.5, STREAM_Y) == hit
    assert seen.pixel(3.5, THREAD_Y + ROW) != hit
    for rank in (1, 2, 3):
        seen.press("Enter")
        assert seen.text("#found") == f"{rank} of 10"
    assert "25.000000 ms" in seen.text("#details")
    seen.press("Shift+Enter", "Shift+Enter", "Shift+Enter")
    assert seen.text("#found") == "10 of 10"  # before the first comes the last
    seen.page.click("#next")
    assert seen.text("#found") == "1 of 10"
    seen.page.fill("#search", "no such thing")
    assert seen.text("#found") == "0 found"


def test_next_goes_by_time_over_all_lanes(look, plain):
    seen = look(plain)
    seen.page.fill("#search", "m")  # aten::mm and gemm
    seen.page.focus("#search")
    names = []
    for _ in range(4):
        seen.press("Enter")
        names.append(seen.text("#details h2"))
    assert names == ["aten::mm", "gemm", "aten::mm", "gemm"]


def test_kinds_can_be_hidden_and_what_was_inside_moves_up(look, plain):
    seen = look(plain)
    seen.page.click("#kinds button:has-text('ranges')")
    seen.click(4.5, THREAD_Y)
    assert seen.text("#details h2") == "aten::mm"
    assert "inside" not in seen.page.locator("#details dt").all_inner_texts()
    seen.page.fill("#search", "step")
    assert seen.text("#found") == "0 found"


def test_all_can_be_done_by_keys(look, plain):
    seen = look(plain)
    seen.press(".", ".")
    assert "gemm" in seen.text("#details")
    assert "15.000000 ms" in seen.text("#details")
    seen.press("l")
    assert seen.text("#details h2") == "cudaLaunchKernel"
    seen.press("p", "p")
    assert seen.text("#details h2") == "step 1"
    seen.press("c")
    assert seen.text("#details h2") == "aten::mm"
    seen.press("f")
    assert seen.shown_ms() == pytest.approx((10.5, 16.5), abs=0.1)
    seen.press(",")
    assert seen.text("#details h2") == "cudaDeviceSynchronize"
    assert seen.shown_ms()[0] < 7  # it was not in sight
    seen.press("?")
    assert "Keys" in seen.text("#keys")
    seen.press("Escape")
    assert not seen.page.is_visible("#keys")
    unnamed = "[...document.querySelectorAll('button, input, canvas, main, aside')].filter((e) => !e.textContent.trim()"
    assert seen.page.evaluate(f"{unnamed} && !e.ariaLabel && !e.closest('main[aria-label]')).length") == 0


def test_a_lane_can_be_folded_and_comes_back_when_it_is_gone_to(look, plain):
    seen = look(plain)
    seen.click(50, STREAM_Y - 20)  # on its name
    seen.click(16.5, STREAM_Y)
    assert not seen.page.is_visible("#details")
    seen.page.fill("#search", "gemm")
    seen.page.focus("#search")
    seen.press("Enter")
    seen.click(seen.shown_ms()[0] + 6.5, STREAM_Y)
    assert seen.text("#details h2") == "gemm"


def test_a_pixel_of_many_events_is_as_dark_as_it_is_busy_and_costs_one_step(look):
    """Events of 1 µs: in the first half every 10 µs, in the second every 1.2 µs."""
    sparse = [(STREAM, Kind.KERNEL, "k", 10_000 * at, 1000) for at in range(5_000)]
    dense = [(STREAM, Kind.KERNEL, "k", 50 * MS + 1200 * at, 1000) for at in range(41_000)]
    seen = look(timeline.page(built(*sparse, *dense), "many"))
    assert sum(seen.pixel(22, STREAM_Y)) > sum(seen.pixel(88, STREAM_Y)) + 100
    count = """async () => {
      const fill = CanvasRenderingContext2D.prototype.fillRect;
      let boxes = 0;
      CanvasRenderingContext2D.prototype.fillRect = function (...box) { boxes++; return fill.apply(this, box); };
      document.getElementById("whole").click();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      CanvasRenderingContext2D.prototype.fillRect = fill;
      return boxes;
    }"""
    assert seen.page.evaluate(count) < 2500  # no more than a box for each pixel of the row and of the overview
    seen.page.fill("#search", "k")
    assert seen.text("#found") == "46,000 found"


def test_a_range_is_not_drawn_inside_the_call_that_opens_it(look):
    """`__enter__` is still running when the range begins, and `__exit__` when it ends."""
    rows = [
        (MAIN, Kind.PYTHON, "train.py(1): train", 0, 100 * MS),
        (MAIN, Kind.PYTHON, "profiler.py(9): __enter__", 10 * MS, 10 * MS),
        (MAIN, Kind.RANGE, "forward", 15 * MS, 70 * MS),
        (MAIN, Kind.OPERATOR, "aten::mm", 30 * MS, 40 * MS),
        (MAIN, Kind.PYTHON, "profiler.py(20): __exit__", 80 * MS, 10 * MS),
    ]
    seen = look(timeline.page(built(*rows), "a range"))
    for ms, depth, name in ((12, 1, "__enter__"), (18, 1, "forward"), (50, 1, "forward"), (50, 2, "aten::mm")):
        seen.click(ms, STREAM_Y + ROW * depth)
        assert name in seen.text("#details h2")
    seen.press("p")
    assert seen.text("#details h2") == "forward"


def test_the_strip_shows_the_time_of_kernels_not_of_ranges_on_the_gpu(look):
    rows = [
        (STREAM, Kind.GPU_RANGE, "forward", 0, 100 * MS),
        (STREAM, Kind.KERNEL, "k", 20 * MS, 20 * MS),
        (STREAM, Kind.KERNEL, "k", 60 * MS, 0),
        (STREAM, Kind.KERNEL, "k", 99 * MS, MS),
    ]
    seen = look(timeline.page(built(*rows), "a strip"))
    dark = [max(map(sum, seen.colours(15, x, "overview"))) < 450 for x in (100, 300, 500, 600, 700)]
    assert dark == [False, True, False, False, False]


def test_rows_too_deep_to_draw_are_counted(look):
    rows = [(MAIN, Kind.PYTHON, "f", at, 2 * (1000 - at)) for at in range(1000)]
    seen = look(timeline.page(built(*rows), "recursion"))
    assert "1,000 events, 600 of them too deep to draw" in seen.text("#shown")


def test_two_fingers_zoom_and_one_moves(look, plain):
    seen = look(plain, has_touch=True)
    fingers = seen.page.context.new_cdp_session(seen.page)

    def touch(*frames: list[tuple[float, float]]) -> None:
        for kind, points in zip(["touchStart", *["touchMove"] * 9], frames, strict=False):
            touched = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    touch([(450, 300), (550, 300)], [(400, 300), (600, 300)], [(300, 300), (700, 300)])
    low, high = seen.shown_ms()
    assert high - low == pytest.approx(1.04 * 99 / 4, rel=0.15)
    touch([(500, 300)], [(450, 300)], [(400, 300)])
    moved = seen.shown_ms()
    assert moved[0] - low == pytest.approx(0.1 * (high - low), rel=0.15)


def test_long_traces_keep_their_nanoseconds(look):
    hour = 3600 * 10**9
    rows = [(MAIN, Kind.RANGE, "all", 0, hour), (MAIN, Kind.OPERATOR, "late", hour - 1007, 1001)]
    seen = look(timeline.page(built(*rows), "an hour"))
    seen.page.fill("#search", "late")
    seen.page.focus("#search")
    seen.press("Enter")
    assert "3599.999998993 s" in seen.text("#details")
    assert "1.001 µs" in seen.text("#details")


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "${window.hacked = 1}",
    "\x00\x1b[31m\u202e\ud800\r\n",
    "x" * 10_000_000,
]


def test_names_are_text_and_nothing_else(look):
    rows = []
    for at, name in enumerate(HOSTILE):
        lane = Lane(name[:100], name[:100])
        rows.append((lane, Kind.OPERATOR, name, at * MS, MS, 0, {name[:50]: name, "stack": f"{name[:50]}\nb"}))
    page = timeline.page(built(*rows, notes=HOSTILE[:2]), HOSTILE[0])
    assert len(page) < 200_000
    seen = look(page)
    seen.page.fill("#search", "<img")
    seen.page.focus("#search")
    seen.press("Enter")
    assert seen.text("#details h2") == HOSTILE[1]
    seen.page.mouse.move(*seen.at(1.5, 300))
    for _ in HOSTILE:
        seen.page.fill("#search", "")
        seen.page.focus("#scroll")
        seen.press("Escape", ".", "m")
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("img").count() == 0
    assert seen.text("h1") == HOSTILE[0]
    assert HOSTILE[1] in seen.text("#notes")


def test_a_trace_of_nothing_opens(look):
    seen = look(timeline.page(built(notes=["The file ends in the middle."]), "nothing"))
    assert "0 events" in seen.text("#shown")
    assert seen.text("#notes") == "The file ends in the middle."
    seen.press(".", "n", "m", "f", "l", "x")
    assert seen.text("#found") == "no synchronisation points"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_all_of_it_light_or_dark(look, plain, scheme):
    seen = look(plain, viewport={"width": 400, "height": 700}, color_scheme=scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 400
    assert (sum(seen.pixel(50, 300)) > 600) == (scheme == "light")
    seen.click(16.5, STREAM_Y)
    assert seen.page.is_visible("#details")
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 400
    assert seen.page.evaluate("document.documentElement.scrollHeight") == 700
    seen.page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    seen.settle()
    assert (sum(seen.pixel(50, 200)) > 600) != (scheme == "light")


def test_a_browser_without_the_newest_functions_unpacks_it_too(look, monkeypatch):
    monkeypatch.setattr(timeline, "part", lambda name: part(name).replace("fromBase64", "notThere"))
    look(timeline.page(steps(), "old"))


STACKS = {
    ("train.py(3): step", "aten::mm", "gemm"): 600,
    ("train.py(3): step", "aten::gelu", "gelu_kernel"): 300,
    ("train.py(3): step", "aten::mm", HOSTILE[1]): 100,
}


def frame(seen: Looked, name: str):
    return seen.page.locator("#frames > svg").filter(has=seen.page.locator("title", has_text=name)).first


def width(seen: Looked, name: str) -> float:
    box = frame(seen, name).locator("rect").bounding_box()
    return box["width"] if box else 0.0


def test_the_flame_graph_zooms_searches_and_comes_back(look):
    seen = look(flame.svg("mlp", STACKS, "GPU time"), "flame.svg")
    assert width(seen, "aten::gelu") == pytest.approx(300, abs=1)
    frame(seen, "aten::gelu").click()
    assert width(seen, "aten::gelu") == pytest.approx(1000, abs=3)  # with its outline
    assert width(seen, "gelu_kernel") == pytest.approx(1000, abs=1)
    assert not frame(seen, "aten::mm").is_visible()
    assert "30.00 %: aten::gelu" in seen.page.text_content(".said")
    seen.press("Escape")
    assert width(seen, "aten::mm") == pytest.approx(700, abs=1)
    seen.press("/")
    seen.page.keyboard.type("GELU")
    assert seen.page.text_content(".said") == "2 frames with “GELU”, 30.0 % of the time"
    assert seen.page.locator("#frames .hit").count() == 2
    seen.press("Escape", "ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    assert width(seen, "aten::gelu") == pytest.approx(1000, abs=3)  # with its outline


def test_the_flame_graphs_names_are_text(look):
    seen = look(flame.svg(HOSTILE[0], {(name, HOSTILE[0]): 1 for name in HOSTILE}), "flame.svg")
    frame(seen, "<img").click()
    assert seen.page.evaluate("window.hacked") is None
    assert "<img" in seen.page.text_content(".said")


def test_the_flame_graph_fits_a_narrow_screen_and_cuts_its_text(look):
    seen = look(flame.svg("mlp", STACKS, "GPU time"), "flame.svg", viewport={"width": 200, "height": 400})
    assert width(seen, "aten::gelu") == pytest.approx(60, abs=1)
    assert frame(seen, "gelu_kernel").locator("text").text_content() == "gelu_k…"
    assert frame(seen, "aten::mm").locator("text").text_content() == "aten::mm"


def test_the_flame_graph_is_a_picture_without_its_script(look):
    seen = look(flame.svg("mlp", STACKS, "GPU time"), "flame.svg", java_script_enabled=False)
    assert frame(seen, "gelu_kernel").locator("text").text_content() == "gelu_kernel"
    box = frame(seen, "gelu_kernel").locator("rect").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == pytest.approx((700, 300), abs=1)
