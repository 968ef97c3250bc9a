"""Who is answered: a browser on this machine that has the token. Everything passes here before a page is made."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
# What every answer carries. The policy of scripts and styles comes with each page.
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_NO_CONTENT_ALLOWED = "default-src 'none'; frame-ancestors 'none'"
_NO_TOKEN = "This page needs the token: open the address that klab serve printed.\n"


class Access:
    """Answers requests that come from elsewhere, lack the token or want to change something; passes on the others.

    The token comes once, in the address that was printed, and goes into a cookie that other sites cannot use.
    The name a request was sent to is compared, so that a foreign name that points to this machine is refused.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{host}:{port}" for host in HOSTS} | (set(HOSTS) if port == 80 else set())
        self._cookie = f"klab-{port}"  # cookies do not tell ports apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        answer = self._answer(Request(scope)) or self._app
        await answer(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """The answer to a request that is not passed on."""
        if request.headers.get("host") not in self._hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 only.\n", status_code=421)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This server only reads.\n", status_code=405, headers={"allow": "GET, HEAD"})
        token = request.query_params.get("token")
        if token is not None and self._is_token(token):
            # The token leaves the address bar, and with it what a user might copy to others. This is no redirection:
            # after one, the browser would keep the cookie back where the address was a link in another page.
            answer = HTMLResponse('<!doctype html><meta http-equiv="refresh" content="0; url=/"><a href="/">runs</a>')
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return answer
        if not self._is_token(request.cookies.get(self._cookie, "")):
            return PlainTextResponse(_NO_TOKEN, status_code=403)
        return None

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self._token.encode())


def _with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    present: Mapping[bytes, bytes] = dict(headers)
    added = {**_HEADERS, "content-security-policy": _NO_CONTENT_ALLOWED}
    return [
        *headers,
        *((name.encode(), value.encode()) for name, value in added.items() if name.encode() not in present),
    ]
