"""The socket that the server listens on."""

from __future__ import annotations

import socket

from voxrtc.settings import Settings

UNREAD_FOR = 60.0  # seconds


def listen(settings: Settings) -> socket.socket:
    """The listening socket, had before anything slow begins.

    Whoever takes nothing of what is sent for `UNREAD_FOR` loses the connection: else what waits for them, and a stream's place
    in the engine, would be theirs for as long as they stay. Only the system knows (RFC 5482; Linux has it): above it, a buffer
    of megabytes looks the same for minutes to somebody who plays a stream at the pace of its sound.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections have it of their listener
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * UNREAD_FOR))
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
