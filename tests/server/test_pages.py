"""What the pages answer: the list with its filters, reports, comparisons, runs in progress, and a stranger's runs."""

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import stat
import threading
import time
from urllib.parse import quote

import pytest

from kernellab.base.file_lock import locked
from kernellab.record.journal import JOURNAL
from support.histories import write_run
from support.hostile_names import HOSTILE_NAMES
from support.klab_serve import served


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for number in range(3):
        write_run(folder / f"gelu-{number}", {"triton": 10.0 + number}, number=number)
    write_run(folder / "softmax-wrong", {"cuda": 20.0}, number=3, op="softmax", status="wrong", branch="trial")
    write_run(folder / "elsewhere", {"triton": 5.0}, number=4, machine="another machine")
    write_run(folder / "stopped", {"triton": 9.0}, number=5, complete=False)
    return folder


@pytest.fixture(scope="module")
def server(runs):
    with served(runs) as server:
        server.log_in()
        yield server


def names(page):
    return re.findall(r'<a href="/runs/[0-9a-f]{16}">(.*?)</a>', page)


def key(server, name):
    found = re.search(rf'/runs/([0-9a-f]+)">{name}<', server.request(f"/?text={name}").text)
    assert found is not None
    return found[1]


def test_the_list_has_the_newest_run_first_and_says_how_it_ended(server):
    page = server.request("/").text
    assert names(page) == ["stopped", "elsewhere", "softmax-wrong", "gelu-2", "gelu-1", "gelu-0"]
    assert "unfinished: 1 right" in page
    assert '<td class="bad">1 wrong</td>' in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("op=softmax", ["softmax-wrong"]),
        ("branch=trial", ["softmax-wrong"]),
        ("machine=another+machine", ["elsewhere"]),
        ("state=unfinished", ["stopped"]),
        ("text=GELU-1", ["gelu-1"]),
        ("op=gelu&text=nothing", []),
        ("op=%3Cscript%3E", []),
    ],
)
def test_filters_narrow_the_list(server, query, found):
    page = server.request(f"/?{query}").text
    assert names(page) == found
    assert ("No run matches." in page) == (found == [])
    assert page.count(" selected>") == query.count("=") - query.count("text=")
    assert "<script>" not in page.partition("<main")[2].partition("</main>")[0]


def test_pages_of_the_list_keep_the_filter(tmp_path):
    for number in range(60):
        write_run(tmp_path / f"run-{number:02}", number=number)
    with served(tmp_path) as server:
        server.log_in()
        first = server.request("/?op=gelu").text
        assert len(names(first)) == 50
        following = re.search(r'rel="next" href="([^"]*)"', first)[1].replace("&amp;", "&")
        assert following == "/?op=gelu&page=2"
        assert len(names(server.request(following).text)) == 10
        assert server.request("/?page=0").status == server.request("/?page=x").status == 400
        assert len(names(server.request("/?page=9").text)) == 10  # the last one


def test_a_run_opens_as_its_report(server):
    answer = server.request(f"/runs/{key(server, 'gelu-0')}")
    assert answer.status == 200
    assert "triton" in answer.text
    assert "'unsafe-eval'" not in answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]


def test_two_runs_are_compared(server):
    before, after = key(server, "gelu-0"), key(server, "gelu-2")
    answer = server.request(f"/compare?before={before}&after={after}")
    assert answer.status == 200
    assert "slower" in answer.text


def test_runs_of_different_machines_are_not_compared(server):
    before, after = key(server, "gelu-0"), key(server, "elsewhere")
    answer = server.request(f"/compare?before={before}&after={after}")
    assert answer.status == 400
    assert "different machines" in answer.text


def test_only_runs_of_the_index_are_opened(server, runs):
    for name in ("0" * 16, quote("../gelu-0", safe=""), "..", "%2e%2e%2f", str(runs).replace("/", "%2F")):
        for place in ("runs", "live"):
            assert server.request(f"/{place}/{name}").status in (400, 404)
    assert server.request("/compare").status == 400


def test_a_run_in_progress_is_sent_as_it_grows(tmp_path):
    source = write_run(tmp_path / "elsewhere" / "run") / JOURNAL
    lines = source.read_text().splitlines(keepends=True)
    runs = tmp_path / "runs"
    (runs / "growing").mkdir(parents=True)
    journal = runs / "growing" / JOURNAL
    with served(runs) as server, locked(journal):
        journal.write_text("".join(lines[:2]))
        server.log_in()
        page = server.request("/").text
        address = re.search(r"/live/[0-9a-f]+", page)[0]

        def go_on():
            time.sleep(0.8)
            with journal.open("a") as file:
                file.write("".join(lines[2:]))

        writer = threading.Thread(target=go_on)
        writer.start()
        events = server.request(f"{address}/events").text
        writer.join()
    states = [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if "steps_done" in line]
    assert [state["complete"] for state in (states[0], states[-1])] == [False, True]
    assert states[0]["steps_done"] < states[-1]["steps_done"]
    assert events.rstrip().endswith("event: end\ndata: {}")


def test_a_run_that_was_interrupted_is_said_to_be(server):
    events = server.request(f"/live/{key(server, 'stopped')}/events").text
    assert "ended before it was complete" in events


def test_a_pipe_in_the_place_of_a_journal_is_not_waited_for(tmp_path):
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / JOURNAL)
    with served(tmp_path) as server:
        server.log_in()
        assert "not an ordinary file" in server.request("/").text
        address = f"/live/{hashlib.sha256(b'pipe').hexdigest()[:16]}/events"
        assert "not an ordinary file" in server.request(address).text


def test_a_folder_that_has_vanished_is_named(tmp_path):
    write_run(tmp_path / "runs" / "one")
    with served(tmp_path / "runs") as server:
        server.log_in()
        shutil.rmtree(tmp_path / "runs")
        answer = server.request("/")
        assert answer.status == 400
        assert "no longer there" in answer.text


def test_an_interruption_ends_the_server_while_a_run_is_watched(tmp_path):
    journal = write_run(tmp_path / "run", complete=False) / JOURNAL
    with served(tmp_path) as server, locked(journal):
        server.log_in()
        address = re.search(r"/live/[0-9a-f]+", server.request("/").text)[0]
        watching = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        watching.request("GET", f"{address}/events", headers={"cookie": f"klab-{server.port}={server.token}"})
        watching.getresponse().readline()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0
        assert server.process.stderr.read() == ""
        watching.close()


def test_a_browser_is_opened_by_a_file_that_only_this_user_can_read(tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\ncp -p "${{1#file://}}" {tmp_path}/page\n')
    browser.chmod(0o755)
    with served(tmp_path, "--open", BROWSER=f"{browser} %s") as server:
        deadline = time.monotonic() + 10
        while not (tmp_path / "page").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    assert server.token not in (tmp_path / "opened").read_text()
    assert server.token in (tmp_path / "page").read_text()
    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o600


def test_texts_of_a_stranger_are_shown_as_texts(tmp_path):
    for number, name in enumerate(HOSTILE_NAMES):
        write_run(tmp_path / f"run-{number}", {name: 1.0}, number=number, op=name, branch=name, machine=name)
    (tmp_path / "<img src=x onerror=alert(1)>").mkdir()
    (tmp_path / "<img src=x onerror=alert(1)>" / JOURNAL).write_text("[")
    with served(tmp_path) as server:
        server.log_in()
        page = server.request("/")
        assert page.status == 200
        body = page.text.partition("<main")[2].partition("</main>")[0]
        assert "<script" not in body
        assert "<img" not in body
        assert "&lt;img src=x" in body
        assert server.request(re.search(r"/runs/[0-9a-f]+", body)[0]).status == 200
