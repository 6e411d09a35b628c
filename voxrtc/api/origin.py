"""Whether another site's page is behind a request: a browser names the page's origin, and programs name none."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers


def foreign(headers: Headers) -> str | None:
    """The origin of a page that is not this server's own."""
    origin = headers.get("origin")
    ours = {headers.get("host"), headers.get("x-forwarded-host")}
    return origin if origin is not None and urlsplit(origin).netloc not in ours else None
