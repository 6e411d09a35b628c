"""The socket that the server listens on."""

from __future__ import annotations

import socket

from voxrtc.api.limits import UNREAD_FOR
from voxrtc.settings import Settings

LOST_AFTER = 1.5 * UNREAD_FOR  # seconds; who sends gives up first, and says so


def listen(settings: Settings) -> socket.socket:
    """The listening socket, had before anything slow begins.

    Whoever reads nothing of what is sent for `LOST_AFTER` loses the connection, where the system can see to that (Linux does;
    RFC 5482): else what waits for them would stay for as long as they do.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections have it of their listener
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * LOST_AFTER))
    try:
        listener.bind((settings.host, settings.port))
    except OSError as taken:
        place = f"{settings.host}:{settings.port}"
        raise OSError(f"Cannot listen on {place} ({taken.strerror}). Try another port: make run PORT=7861") from taken
    return listener


def place(listener: socket.socket) -> str:
    """Where this server is reached from this machine."""
    host, port = listener.getsockname()[:2]
    return url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)


def url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
