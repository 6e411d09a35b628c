"""Where a request comes from. Behind a proxy that is known (`Settings.proxies`) uvicorn has put in the address that the proxy
tells, so that nobody else's word counts."""

from __future__ import annotations

from starlette.requests import HTTPConnection


def address_of(connection: HTTPConnection) -> str:
    """An IP address; "local" over a Unix socket."""
    return connection.client.host if connection.client else "local"
