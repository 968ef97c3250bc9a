"""Only a browser on this machine that has the token is answered, and no request changes anything."""

import socket

import pytest

from kernellab.server.access import Access
from support.klab_serve import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("runs")) as server:
        yield server


@pytest.fixture
def stranger(server):
    server.cookies.clear()
    return server


@pytest.fixture
def guest(server):
    server.cookies.clear()
    server.log_in()
    return server


def test_without_the_token_there_is_no_page(stranger):
    for address in ("/", "/?token=", "/?token=wrong", "/?token=%C3%A9", "/runs/1", "/nowhere"):
        answer = stranger.request(address)
        assert answer.status == 403
        assert "klab serve printed" in answer.text


def test_the_token_moves_from_the_address_into_a_cookie_for_this_site_alone(stranger):
    answer = stranger.log_in()
    assert (answer.status, stranger.token in answer.text) == (200, False)
    assert 'content="0; url=/"' in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert cookie.startswith(f"klab-{stranger.port}=")
    assert stranger.request("/").status == 200


def test_the_cookie_of_a_server_on_another_port_is_worth_nothing(stranger):
    stranger.cookies[f"klab-{stranger.port + 1}"] = stranger.token
    assert stranger.request("/").status == 403


def test_every_server_has_a_token_of_its_own_that_cannot_be_guessed(server, tmp_path):
    with served(tmp_path) as other:
        assert other.token != server.token
        assert len(other.token) >= 43  # 256 random bits


def test_a_foreign_name_that_points_to_this_machine_is_refused(guest):
    port = guest.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"0.0.0.0:{port}", ""):
        assert guest.request("/", host=host).status == 421
    assert guest.request("/", host=f"localhost:{port}").status == 200


def test_on_the_ports_of_the_web_the_host_has_no_number():
    assert "127.0.0.1" in Access(None, token="t", port=80)._hosts
    assert "127.0.0.1" not in Access(None, token="t", port=8080)._hosts


def test_what_could_change_something_is_refused(guest):
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = guest.request("/", method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert guest.request("/", "HEAD").status == 200


def test_no_web_socket_is_opened(guest):
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "a"}
    assert guest.request("/", **upgrade).status != 101


def test_other_machines_cannot_reach_it(guest):
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with pytest.raises(OSError), socket.create_connection((address, guest.port), timeout=2):
            pass


def test_every_answer_forbids_frames_guesses_and_copies(guest):
    answers = [guest.request("/"), guest.request("/nowhere"), guest.request("/", "POST"), guest.request("/", host="x")]
    assert [answer.status for answer in answers] == [200, 404, 405, 421]
    for answer in answers:
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
