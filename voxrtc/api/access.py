"""Who may use this server: whoever shows a key, or has logged in; everybody, where there are neither keys nor a login."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable

from starlette.requests import HTTPConnection

COOKIE = "voxrtc-session"
LASTS = 7 * 24 * 3600.0  # seconds of a login
SUBPROTOCOL = "openai-insecure-api-key."  # in front of the key, in WebSockets of clients that cannot send headers


class Access:
    """`keys` for programs, and `login` (user, password) for people; a key is a password, too, with any name.

    A login is a cookie: until when it holds, whose it is, and a signature of that by this process, whose clock it is too: it is
    no shorter when somebody sets the machine's. Whoever has it needs no key, until it is `end`ed.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        login: tuple[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = [_digest(key) for key in keys]
        self._login = login and _digest("\n".join(login))
        self._clock = clock
        self._ended: dict[str, float] = {}  # cookies of who has left, and until when they would have held
        self._secret = secrets.token_bytes(32)
        self.locked = bool(self._keys or login)
        self.internal = secrets.token_urlsafe(32)  # for what we start ourselves
        self._keys.append(_digest(self.internal))

    def admits(self, connection: HTTPConnection) -> bool:
        """Whether this request or WebSocket may come in."""
        return not self.locked or self._knows(shown(connection)) or self._remembers(connection.cookies.get(COOKIE, ""))

    def welcomes(self, user: str, password: str) -> bool:
        """Whether this is the login."""
        known = self._knows(password)
        return bool(self._login and hmac.compare_digest(self._login, _digest(f"{user}\n{password}"))) or known

    def ticket(self) -> str:
        """A cookie for who has logged in."""
        login = f"{round(self._clock() + LASTS)}.{secrets.token_hex(8)}"
        return f"{login}.{self._sign(login)}"

    def end(self, cookie: str) -> None:
        """Who had it has left."""
        now = self._clock()
        self._ended = {each: until for each, until in self._ended.items() if until > now}
        if self._remembers(cookie):
            self._ended[cookie] = _until(cookie)

    @property
    def ended(self) -> int:
        """Logins of which it is to be known that they ended."""
        return len(self._ended)

    def _remembers(self, cookie: str) -> bool:
        login, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._sign(login).encode(), signature.encode()):
            return False
        return cookie not in self._ended and _until(cookie) > self._clock()

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), "sha256").hexdigest()

    def _knows(self, key: str) -> bool:
        """All are compared, so that how long it takes tells nothing."""
        digest = _digest(key)
        return sum(hmac.compare_digest(digest, each) for each in self._keys) > 0


def _until(cookie: str) -> float:
    """When it is too old, of a cookie that was signed here."""
    return float(cookie.partition(".")[0])


def shown(connection: HTTPConnection) -> str:
    """The key that came along: as a bearer token (RFC 6750), or in a WebSocket's subprotocols as OpenAI's clients put it."""
    kind, _, token = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    offered = connection.scope.get("subprotocols", ())
    return next((each.removeprefix(SUBPROTOCOL) for each in offered if each.startswith(SUBPROTOCOL)), "")


def _digest(text: str) -> bytes:
    """Of one length, whatever the text's: comparing digests does not tell that either."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
