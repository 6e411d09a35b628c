"""Whether another site's page is behind a request: a browser names the page's origin, and programs name none."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

ELSEWHERE = "another site"


def foreign(connection: HTTPConnection) -> str | None:
    """The origin of a page that is neither this server's own nor one that its operator trusts (`state.origins`)."""
    headers = connection.headers
    origin = headers.get("origin") or _embedding(headers)
    if origin is None or origin in connection.app.state.origins:
        return None
    return origin if _host(origin) not in {headers.get("host"), headers.get("x-forwarded-host")} else None


def _embedding(headers: Headers) -> str | None:
    """The origin of another site's page that has a picture, a frame or a link of this address: browsers send no `Origin` then,
    but say whence it comes (W3C Fetch Metadata), over https and to this machine."""
    if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
        return None
    scheme, _, rest = headers.get("referer", "").partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if rest else ELSEWHERE


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
