"""Starts the server on this machine's own address and prints where it is."""

from __future__ import annotations

import contextlib
import secrets
import socket
import webbrowser
from pathlib import Path

import uvicorn

from kernellab.base.errors import UserError
from kernellab.server.app import build

ADDRESS = "127.0.0.1"  # other machines cannot reach it


def serve(runs: Path, port: int, *, open_browser: bool) -> None:
    """Answer until interrupted. Port 0 means any that is free."""
    listener = _listen(port)
    port = int(listener.getsockname()[1])
    token = secrets.token_urlsafe(32)
    address = f"http://{ADDRESS}:{port}/?token={token}"
    print(f"The runs in {runs}, until Ctrl-C: {address}", flush=True)
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        build(runs, token=token, port=port),
        access_log=False,  # it would hold the token
        log_level="error",
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,  # pages that watch a run stay connected
    )
    with contextlib.suppress(KeyboardInterrupt):  # the ordinary end
        uvicorn.Server(config).run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()  # a browser may come before the server is ready: it waits
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"port {port} cannot be used: {reason}. Without --port a free one is taken") from None
    return listener
