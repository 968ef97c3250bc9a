"""The addresses of the server, and what each answers with.

A run is addressed by its number in the index, never by a path.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from kernellab.base.errors import UserError
from kernellab.reporting.html.document import policy_of
from kernellab.server import pages
from kernellab.server.access import Access
from kernellab.server.live_run import LiveRun
from kernellab.server.runs import NoSuchRun, Runs

_POLL_S = 0.5  # between two looks at a journal
_SILENCE_S = 15.0  # after which a comment shows that the server is there


def build(runs: Path, *, token: str, port: int, is_stopping: Callable[[], bool]) -> ASGIApp:
    """The application over a folder of runs, behind its access check. What goes on ends once `is_stopping`."""
    site = _Site(Runs(runs), is_stopping)
    routes = [
        Route("/", site.run_list),
        Route("/runs/{key}", site.report),
        Route("/live/{key}", site.live),
        Route("/live/{key}/events", site.events),
        Route("/compare", site.compare),
    ]
    app = Starlette(
        routes=routes, exception_handlers={UserError: _user_error, HTTPException: _http_error, Exception: _failure}
    )
    app.router.redirect_slashes = False
    return Access(app, token=token, port=port)


@dataclass
class _Site:
    runs: Runs
    is_stopping: Callable[[], bool]

    def run_list(self, request: Request) -> Response:
        query = request.query_params
        return _html(self.runs.list_page(dict(query), _page(query.get("page", "1"))))

    def report(self, request: Request) -> Response:
        return _html(self.runs.report(request.path_params["key"]))

    def compare(self, request: Request) -> Response:
        before, after = (request.query_params.get(name, "") for name in ("before", "after"))
        if not before or not after:
            raise UserError("Mark one run as before and one as after in the list of runs.")
        return _html(self.runs.comparison(before, after))

    def live(self, request: Request) -> Response:
        key = request.path_params["key"]
        return _html(pages.live_run(key, self.runs.folder(key).name))

    async def events(self, request: Request) -> Response:
        folder = await to_thread.run_sync(self.runs.folder, request.path_params["key"])
        return StreamingResponse(_states(LiveRun(folder), self.is_stopping), media_type="text/event-stream")


async def _states(run: LiveRun, is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """The states of a run as server-sent events, until the run is complete. The client's leaving ends the response."""
    silent_s = 0.0
    while not is_stopping():
        if await to_thread.run_sync(run.read) or silent_s == 0.0:
            yield f"event: state\ndata: {json.dumps(run.state())}\n\n"
        elif silent_s >= _SILENCE_S:
            silent_s = 0.0
            yield ": still there\n\n"
        if run.complete or run.problem:
            yield "event: end\ndata: {}\n\n"
            return
        await anyio.sleep(_POLL_S)
        silent_s += _POLL_S


def _html(document: str) -> Response:
    # A page may be framed by nobody. Only a header can say so.
    policy = f"{policy_of(document)}; frame-ancestors 'none'"
    return HTMLResponse(document, headers={"content-security-policy": policy})


def _page(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise UserError(f"page is a positive whole number, not {text[:40]!r}")
    return int(text)


def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    return _message(error.message, 404 if isinstance(error, NoSuchRun) else 400)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _message("There is no such page." if error.status_code == 404 else error.detail, error.status_code)


def _failure(request: Request, error: Exception) -> Response:
    return _message("klab serve failed on this page. Its terminal shows the error.", 500)


def _message(text: str, status: int) -> Response:
    response = _html(pages.message("kernellab", text))
    response.status_code = status
    return response
