"""Whether another site's page is behind a request: a browser names the page's origin, and programs name none."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection


def foreign(connection: HTTPConnection) -> str | None:
    """The origin of a page that is neither this server's own nor one that its operator trusts (`state.origins`)."""
    headers = connection.headers
    origin = headers.get("origin")
    if origin is None or origin in connection.app.state.origins:
        return None
    ours = {headers.get("host"), headers.get("x-forwarded-host")}
    return origin if urlsplit(origin).netloc not in ours else None
