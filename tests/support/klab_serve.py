"""A real `klab serve` over a folder of runs, and a client that knows its token."""

from __future__ import annotations

import contextlib
import http.client
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.klab import klab_command, klab_env


@dataclass
class Answer:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Served:
    """A server that runs, as a client sees it. `cookies` are sent with every request."""

    port: int
    token: str
    process: subprocess.Popen[str]
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request, without following redirections."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            connection.request(method, path, headers={**({"cookie": cookie} if cookie else {}), **headers})
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read().decode())
        finally:
            connection.close()

    def log_in(self) -> Answer:
        answer = self.request(f"/?token={self.token}")
        name, _, value = answer.headers["set-cookie"].split(";")[0].partition("=")
        self.cookies[name] = value
        return answer


@contextlib.contextmanager
def served(runs: Path, *options: str, **env: str) -> Iterator[Served]:
    process = subprocess.Popen(
        klab_command("serve", "--runs", runs, *options),
        env=klab_env(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "token=" in line, process.stderr and process.stderr.read()
        address, _, token = line.strip().rpartition("/?token=")
        yield Served(int(address.rpartition(":")[2]), token, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
