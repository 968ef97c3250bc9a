"""The timeline in a real browser: opened from the disk, moved by wheel, mouse, touch and keys."""

from __future__ import annotations

import pytest

from kernellab.reporting.html.parts import asset
from kernellab.reporting.pages import timeline
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane, Trace
from support.hostile_names import HOSTILE_NAMES

MAIN, STREAM = Lane("python 1", "thread 1"), Lane("GPU 0", "stream 7", 0, 7)
MS = 1_000_000
# Pixels from the top of the canvas: the stream's only row, then the thread's first row; height of a row.
STREAM_Y, THREAD_Y, ROW = 57, 103, 18


def build_trace(*rows, notes=()) -> Trace:
    """Rows of lane, kind, name, begin and duration in nanoseconds; then, optionally, the link and details."""
    builder = TraceBuilder("kineto")
    builder.notes += notes
    for lane, kind, name, begin, duration, *rest in rows:
        link, details = (*rest, 0, None)[:2] if len(rest) < 2 else rest
        detail = builder.detail(str(details), details) if details else 0
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
    return build_trace(*rows)


@pytest.fixture(scope="module")
def ten_steps() -> str:
    return timeline.page(steps(), "ten steps")


def test_the_page_opens_from_the_disk_and_requests_nothing_else(open_page, ten_steps):
    page = open_page(ten_steps)
    assert page.text("h1") == "ten steps"
    assert page.shown_ms() == (0, 99)
    assert "50 events" in page.text("#shown")
    assert [url for url in page.requests if not url.startswith(("file:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in page.requests) == 1


def test_the_wheel_zooms_about_the_pointer(open_page, ten_steps):
    page = open_page(ten_steps)
    page.page.mouse.move(*page.at(50, 300))
    for _ in range(8):
        page.page.mouse.wheel(0, -240)
    low, high = page.shown_ms()
    assert high - low < 5
    assert low < 50 < high
    for _ in range(9):
        page.page.mouse.wheel(0, 240)
    assert page.shown_ms() == (0, 99)


def test_dragging_moves_and_dragging_on_the_ruler_zooms(open_page, ten_steps):
    page = open_page(ten_steps)
    from_x, y = page.at(20, 10)
    to_x, _ = page.at(40, 10)
    page.page.mouse.move(from_x, y)
    page.page.mouse.down()
    page.page.mouse.move(to_x, y, steps=4)
    page.page.mouse.up()
    assert page.shown_ms() == pytest.approx((20, 40), abs=0.3)
    page.page.mouse.move(*page.at(35, 300))
    page.page.mouse.down()
    x, y = page.at(25, 300)
    page.page.mouse.move(x, y, steps=4)
    page.page.mouse.up()
    assert page.shown_ms() == pytest.approx((30, 50), abs=0.3)


def test_keys_zoom_and_move(open_page, ten_steps):
    page = open_page(ten_steps)
    page.press("w", "w", "+")
    low, high = page.shown_ms()
    assert high - low == pytest.approx(1.04 * 99 * 0.7**3, rel=0.01)
    page.press("ArrowRight")
    assert page.shown_ms()[0] == pytest.approx(low + 0.2 * (high - low), rel=0.01)
    page.press("a", "-", "0")
    assert page.shown_ms() == (0, 99)


def test_a_click_shows_the_details_of_an_event(open_page, ten_steps):
    page = open_page(ten_steps)
    page.click(16.5, STREAM_Y)
    details = page.text("#details")
    for fact in ("gemm", "kernel", "3 ms", "15.000000 ms", "stream 7 · GPU 0", "[64, 1, 1]", "cudaLaunchKernel"):
        assert fact in details, fact
    page.click(12, THREAD_Y + ROW)
    details = page.text("#details")
    for fact in ("aten::mm", "[[128, 64], [64, 32]]", "step 1", "3 ms in 1 launched inside"):
        assert fact in details, fact
    page.press("Escape")
    assert not page.page.is_visible("#details")


def test_arrows_lead_from_the_launch_to_the_kernel(open_page, ten_steps):
    page = open_page(ten_steps)
    between = STREAM_Y + 13  # neither a lane's rows nor its name

    def darkest() -> int:
        return min(map(sum, page.colours(between)))

    assert darkest() > 600
    page.click(12, THREAD_Y + ROW)
    assert darkest() < 100
    page.press("Escape")
    assert darkest() > 600


def test_the_page_is_never_black_for_a_frame(open_page, ten_steps):
    """Details take room: the canvas gets another size, which empties it."""
    page = open_page(ten_steps)
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
    assert page.page.evaluate(watch) == 255


def test_synchronisation_points_are_marked_and_reached_by_a_key(open_page, ten_steps):
    page = open_page(ten_steps)
    wait = (207, 34, 34)
    assert page.pixel(7, 17) == wait
    assert page.pixel(12, 17) != wait
    assert page.pixel(8.2, THREAD_Y + ROW) == wait
    for _ in range(3):
        page.press("m")
    assert "cudaDeviceSynchronize" in page.text("#details")
    assert "waits for the GPU" in page.text("#details")
    assert "27.000000 ms" in page.text("#details")


def test_only_calls_that_block_are_synchronisation_points(open_page):
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
    page = open_page(timeline.page(build_trace(*rows), "waits"))
    names = []
    for _ in range(len(waits) + 1):
        page.press("m")
        names.append(page.text("#details h2"))
    assert names == [*waits, waits[0]]


def test_search_counts_highlights_and_steps_through_results(open_page, ten_steps):
    page = open_page(ten_steps)
    hit = (194, 24, 154)
    assert page.pixel(6.5, STREAM_Y) != hit
    page.press("/")
    page.page.keyboard.type("GEMM")
    page.settle()
    assert page.text("#found") == "10 found"
    assert page.pixel(6.5, STREAM_Y) == hit
    assert page.pixel(3.5, THREAD_Y + ROW) != hit
    for rank in (1, 2, 3):
        page.press("Enter")
        assert page.text("#found") == f"{rank} of 10"
    assert "25.000000 ms" in page.text("#details")
    page.press("Shift+Enter", "Shift+Enter", "Shift+Enter")
    assert page.text("#found") == "10 of 10"  # before the first comes the last
    page.page.click("#next")
    assert page.text("#found") == "1 of 10"
    page.page.fill("#search", "no such thing")
    assert page.text("#found") == "0 found"


def test_next_goes_by_time_over_all_lanes(open_page, ten_steps):
    page = open_page(ten_steps)
    page.page.fill("#search", "m")  # aten::mm and gemm
    page.page.focus("#search")
    names = []
    for _ in range(4):
        page.press("Enter")
        names.append(page.text("#details h2"))
    assert names == ["aten::mm", "gemm", "aten::mm", "gemm"]


def test_kinds_can_be_hidden_and_what_was_inside_moves_up(open_page, ten_steps):
    page = open_page(ten_steps)
    page.page.click("#kinds button:has-text('ranges')")
    page.click(4.5, THREAD_Y)
    assert page.text("#details h2") == "aten::mm"
    assert "inside" not in page.page.locator("#details dt").all_inner_texts()
    page.page.fill("#search", "step")
    assert page.text("#found") == "0 found"


def test_everything_can_be_done_by_keys(open_page, ten_steps):
    page = open_page(ten_steps)
    page.press(".", ".")
    assert "gemm" in page.text("#details")
    assert "15.000000 ms" in page.text("#details")
    page.press("l")
    assert page.text("#details h2") == "cudaLaunchKernel"
    page.press("p", "p")
    assert page.text("#details h2") == "step 1"
    page.press("c")
    assert page.text("#details h2") == "aten::mm"
    page.press("f")
    assert page.shown_ms() == pytest.approx((10.5, 16.5), abs=0.1)
    page.press(",")
    assert page.text("#details h2") == "cudaDeviceSynchronize"
    assert page.shown_ms()[0] < 7  # it was not in sight
    page.press("?")
    assert "Keys" in page.text("#keys")
    page.press("Escape")
    assert not page.page.is_visible("#keys")
    unnamed = "[...document.querySelectorAll('button, input, canvas, main, aside')].filter((e) => !e.textContent.trim()"
    assert page.page.evaluate(f"{unnamed} && !e.ariaLabel && !e.closest('main[aria-label]')).length") == 0


def test_a_folded_lane_unfolds_when_search_reaches_it(open_page, ten_steps):
    page = open_page(ten_steps)
    page.click(50, STREAM_Y - 20)  # on its name
    page.click(16.5, STREAM_Y)
    assert not page.page.is_visible("#details")
    page.page.fill("#search", "gemm")
    page.page.focus("#search")
    page.press("Enter")
    page.click(page.shown_ms()[0] + 6.5, STREAM_Y)
    assert page.text("#details h2") == "gemm"


def test_a_pixel_of_many_events_is_as_dark_as_it_is_busy_and_costs_one_step(open_page):
    """Events of 1 µs: in the first half every 10 µs, in the second every 1.2 µs."""
    sparse = [(STREAM, Kind.KERNEL, "k", 10_000 * at, 1000) for at in range(5_000)]
    dense = [(STREAM, Kind.KERNEL, "k", 50 * MS + 1200 * at, 1000) for at in range(41_000)]
    page = open_page(timeline.page(build_trace(*sparse, *dense), "many"))
    assert sum(page.pixel(22, STREAM_Y)) > sum(page.pixel(88, STREAM_Y)) + 100
    count = """async () => {
      const fill = CanvasRenderingContext2D.prototype.fillRect;
      let boxes = 0;
      CanvasRenderingContext2D.prototype.fillRect = function (...box) { boxes++; return fill.apply(this, box); };
      document.getElementById("whole").click();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      CanvasRenderingContext2D.prototype.fillRect = fill;
      return boxes;
    }"""
    assert page.page.evaluate(count) < 2500  # no more than a box for each pixel of the row and of the overview
    page.page.fill("#search", "k")
    assert page.text("#found") == "46,000 found"


def test_a_range_is_not_drawn_inside_the_call_that_opens_it(open_page):
    """`__enter__` is still running when the range begins, and `__exit__` when it ends."""
    rows = [
        (MAIN, Kind.PYTHON, "train.py(1): train", 0, 100 * MS),
        (MAIN, Kind.PYTHON, "profiler.py(9): __enter__", 10 * MS, 10 * MS),
        (MAIN, Kind.RANGE, "forward", 15 * MS, 70 * MS),
        (MAIN, Kind.OPERATOR, "aten::mm", 30 * MS, 40 * MS),
        (MAIN, Kind.PYTHON, "profiler.py(20): __exit__", 80 * MS, 10 * MS),
    ]
    page = open_page(timeline.page(build_trace(*rows), "a range"))
    for ms, depth, name in ((12, 1, "__enter__"), (18, 1, "forward"), (50, 1, "forward"), (50, 2, "aten::mm")):
        page.click(ms, STREAM_Y + ROW * depth)
        assert name in page.text("#details h2")
    page.press("p")
    assert page.text("#details h2") == "forward"


def test_the_overview_shows_kernels_not_ranges_on_the_gpu(open_page):
    rows = [
        (STREAM, Kind.GPU_RANGE, "forward", 0, 100 * MS),
        (STREAM, Kind.KERNEL, "k", 20 * MS, 20 * MS),
        (STREAM, Kind.KERNEL, "k", 60 * MS, 0),
        (STREAM, Kind.KERNEL, "k", 99 * MS, MS),
    ]
    page = open_page(timeline.page(build_trace(*rows), "a strip"))
    dark = [max(map(sum, page.colours(15, x, "overview"))) < 450 for x in (100, 300, 500, 600, 700)]
    assert dark == [False, True, False, False, False]


def test_rows_too_deep_to_draw_are_counted(open_page):
    rows = [(MAIN, Kind.PYTHON, "f", at, 2 * (1000 - at)) for at in range(1000)]
    page = open_page(timeline.page(build_trace(*rows), "recursion"))
    assert "1,000 events, 600 of them too deep to draw" in page.text("#shown")


def test_two_fingers_zoom_and_one_moves(open_page, ten_steps):
    page = open_page(ten_steps, has_touch=True)
    fingers = page.page.context.new_cdp_session(page.page)

    def touch(*frames: list[tuple[float, float]]) -> None:
        for kind, points in zip(["touchStart", *["touchMove"] * 9], frames, strict=False):
            touched = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    touch([(450, 300), (550, 300)], [(400, 300), (600, 300)], [(300, 300), (700, 300)])
    low, high = page.shown_ms()
    assert high - low == pytest.approx(1.04 * 99 / 4, rel=0.15)
    touch([(500, 300)], [(450, 300)], [(400, 300)])
    moved = page.shown_ms()
    assert moved[0] - low == pytest.approx(0.1 * (high - low), rel=0.15)


def test_long_traces_keep_their_nanoseconds(open_page):
    hour = 3600 * 10**9
    rows = [(MAIN, Kind.RANGE, "all", 0, hour), (MAIN, Kind.OPERATOR, "late", hour - 1007, 1001)]
    page = open_page(timeline.page(build_trace(*rows), "an hour"))
    page.page.fill("#search", "late")
    page.page.focus("#search")
    page.press("Enter")
    assert "3599.999998993 s" in page.text("#details")
    assert "1.001 µs" in page.text("#details")


def test_names_are_only_text(open_page):
    rows = []
    for at, name in enumerate(HOSTILE_NAMES):
        lane = Lane(name[:100], name[:100])
        rows.append((lane, Kind.OPERATOR, name, at * MS, MS, 0, {name[:50]: name, "stack": f"{name[:50]}\nb"}))
    document = timeline.page(build_trace(*rows, notes=HOSTILE_NAMES[:2]), HOSTILE_NAMES[0])
    assert len(document) < 200_000
    page = open_page(document)
    page.page.fill("#search", "<img")
    page.page.focus("#search")
    page.press("Enter")
    assert page.text("#details h2") == HOSTILE_NAMES[1]
    page.page.mouse.move(*page.at(1.5, 300))
    for _ in HOSTILE_NAMES:
        page.page.fill("#search", "")
        page.page.focus("#scroll")
        page.press("Escape", ".", "m")
    assert page.page.evaluate("window.hacked") is None
    assert page.page.locator("img").count() == 0
    assert page.text("h1") == HOSTILE_NAMES[0]
    assert HOSTILE_NAMES[1] in page.text("#notes")


def test_an_empty_trace_opens(open_page):
    page = open_page(timeline.page(build_trace(notes=["The file ends in the middle."]), "nothing"))
    assert "0 events" in page.text("#shown")
    assert page.text("#notes") == "The file ends in the middle."
    page.press(".", "n", "m", "f", "l", "x")
    assert page.text("#found") == "no synchronisation points"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_narrow_screen_light_or_dark(open_page, ten_steps, scheme):
    page = open_page(ten_steps, viewport={"width": 400, "height": 700}, color_scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") == 400
    assert (sum(page.pixel(50, 300)) > 600) == (scheme == "light")
    page.click(16.5, STREAM_Y)
    assert page.page.is_visible("#details")
    assert page.page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.page.evaluate("document.documentElement.scrollHeight") == 700
    page.page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    page.settle()
    assert (sum(page.pixel(50, 200)) > 600) != (scheme == "light")


def test_a_browser_without_base64_functions_unpacks_the_events(open_page, monkeypatch):
    monkeypatch.setattr(timeline, "asset", lambda *place: asset(*place).replace("fromBase64", "notThere"))
    open_page(timeline.page(steps(), "old"))
