"""Starts the server on this machine's own address and prints where it is."""

from __future__ import annotations

import contextlib
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
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
    config = uvicorn.Config(
        build(runs, token=token, port=port, is_stopping=lambda: server.should_exit),
        access_log=False,  # it would hold the token
        log_level="error",
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=3,  # for what is being made; pages that watch a run are told at once
    )
    server = uvicorn.Server(config)
    with contextlib.suppress(KeyboardInterrupt), _opened(address) if open_browser else contextlib.nullcontext():
        server.run(sockets=[listener])  # an interruption is its ordinary end


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open the address in the browser by way of a file that only this user can read.

    Other users of the machine can read the arguments of the browser's process.
    """
    with tempfile.NamedTemporaryFile("w", prefix="klab-serve-", suffix=".html") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
        file.flush()
        webbrowser.open(Path(file.name).as_uri())
        yield


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()  # a browser may come before the server is ready: it waits
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or "ports are numbers from 0 to 65535"
        raise UserError(f"port {port} cannot be used: {reason}. Without --port a free one is taken") from None
    return listener
