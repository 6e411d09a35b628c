"""An application under a real uvicorn on a free loopback port, for what only real sockets show."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn
from fastapi import FastAPI


@contextmanager
def serving(
    app: FastAPI, lifespan: Literal["on", "off"] = "off", proxies: str = "", unread_for: float = 0
) -> Iterator[tuple[str, int]]:
    """Host and port of `app`, which runs in a thread and an event loop of its own until the block ends, behind `proxies`.
    Who reads nothing for `unread_for` seconds is let go, if that is not 0."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if unread_for:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * unread_for))
        ready = threading.Event()
        server = _Server(uvicorn.Config(app, log_config=None, lifespan=lifespan, forwarded_allow_ips=proxies), ready)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        thread.start()
        try:
            assert ready.wait(10), "uvicorn did not start"
            yield listener.getsockname()
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)
            assert not thread.is_alive(), "uvicorn did not stop"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()
