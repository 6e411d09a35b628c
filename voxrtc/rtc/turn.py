"""Relays for browsers and servers that no UDP packet reaches: TURN servers, with credentials that live an hour.

Who gives them is said by `--turn`: a service, or our own coturn. A service is asked when a call begins and no answer of the
last quarter of an hour is there, and a call waits `WITHIN` for it at most, since sound may find its way without.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import httpx
import msgspec

from voxrtc.endpoints import TURN, names
from voxrtc.messages.media import IceServer

LIFE = 3600  # seconds that credentials work; a call that is relayed should not be longer
FRESH = LIFE / 4  # seconds that they are handed out, by us and then by a page, so that a call may still last the rest
USABLE = LIFE / 2  # seconds that they are when no newer ones can be had
WITHIN = 1.0  # seconds that a call waits for a provider
AGAIN = 10.0  # seconds after a failure in which nobody is asked, so that not every call waits

HUGGING_FACE = "https://turn.fastrtc.org/credentials"  # as fastrtc's `credentials.py`: Cloudflare's, for a token of the hub
CLOUDFLARE = "https://rtc.live.cloudflare.com/v1/turn/keys/{key}/credentials/generate-ice-servers"
TWILIO = "https://api.twilio.com/2010-04-01/Accounts/{account}/Tokens.json"

ADVICE = "Check VOXRTC_TURN_USER and VOXRTC_TURN_KEY."

log = logging.getLogger(__name__)


class TurnError(Exception):
    """No credentials; the text says why and what to do, and holds no secret."""


class Provider(Protocol):
    """Who gives credentials."""

    name: str

    async def servers(self, http: httpx.AsyncClient) -> list[IceServer]:
        """Ask for new ones. Raises `TurnError` or `httpx.HTTPError`."""


class Service:
    """A provider that is asked over HTTPS: `ask` sends the request."""

    def __init__(self, name: str, ask: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]) -> None:
        self.name, self._ask = name, ask

    async def servers(self, http: httpx.AsyncClient) -> list[IceServer]:
        response = await self._ask(http)
        if response.status_code in (401, 403, 404):
            raise TurnError(f"{self.name} does not accept them ({response.status_code}). {ADVICE}")
        if not response.is_success:
            raise TurnError(f"{self.name} answers with status {response.status_code}. Its status page may say more.")
        servers = read_servers(response.content)
        if not any(url.startswith("turn") for server in servers for url in server.urls):
            raise TurnError(f"{self.name} names no TURN server. Has its interface changed?")
        return servers


class Own:
    """Our own TURN server. With a `user`, `key` is the password; without, it is coturn's `static-auth-secret`, of which
    credentials are made (draft-uberti-behave-turn-rest-00 section 2.2)."""

    name = "TURN"

    def __init__(self, urls: Sequence[str], user: str, key: str, clock: Callable[[], float] = time.time) -> None:
        self._urls, self._user, self._key, self._clock = list(urls), user, key, clock

    async def servers(self, http: httpx.AsyncClient) -> list[IceServer]:
        user, key = self._user, self._key
        if not user:
            user = f"{int(self._clock()) + LIFE}:voxrtc"
            key = base64.b64encode(hmac.digest(self._key.encode(), user.encode(), hashlib.sha1)).decode()
        return [IceServer(urls=self._urls, username=user, credential=key)]


def provider(turn: str, user: str, key: str) -> Provider | None:
    """Who `--turn` means; None: nobody. `user` and `key` are what it wants to know us by.

    Raises `ValueError` with what is missing.
    """
    if not turn:
        return None
    if turn not in ("huggingface", "cloudflare", "twilio"):
        return _own(turn, user, key)
    if not key:
        raise ValueError(f"--turn {turn} needs a key: set VOXRTC_TURN_KEY.")
    if turn == "huggingface":
        bearer = {"Authorization": f"Bearer {key}"}
        return Service("Hugging Face", lambda http: http.get(HUGGING_FACE, params={"ttl": LIFE}, headers=bearer))
    if not user:
        raise ValueError(f"--turn {turn} needs {_USERS[turn]} as well: set VOXRTC_TURN_USER.")
    if turn == "cloudflare":
        url, bearer = CLOUDFLARE.format(key=user), {"Authorization": f"Bearer {key}"}
        return Service("Cloudflare", lambda http: http.post(url, json={"ttl": LIFE}, headers=bearer))
    url = TWILIO.format(account=user)
    return Service("Twilio", lambda http: http.post(url, data={"Ttl": LIFE}, auth=(user, key)))


_USERS = {"cloudflare": "the id of the TURN key", "twilio": "the account's SID"}


def _own(turn: str, user: str, key: str) -> Own:
    urls = [url.strip() for url in turn.split(",")]
    if wrong := [url for url in urls if not names(TURN, url)]:
        services = "huggingface, cloudflare, twilio"
        raise ValueError(f"--turn names a service ({services}) or addresses like turns:example.org:443; not “{wrong[0]}”.")
    if not key:
        raise ValueError("--turn needs a password or a shared secret as well: set VOXRTC_TURN_KEY.")
    return Own(urls, user, key)


class _Server(msgspec.Struct):
    urls: str | list[str]
    username: str = ""
    credential: str = ""


class _OneSet(msgspec.Struct):
    iceServers: _Server | list[_Server]  # as services spell it


class _Token(msgspec.Struct):
    ice_servers: list[_Server]


def read_servers(body: bytes) -> list[IceServer]:
    """What a service answered, Cloudflare's or Twilio's way. Raises `TurnError`.

    Port 53 is left out: browsers refuse it, and wait for it first (as Cloudflare's documentation says).
    """
    try:
        found = msgspec.json.decode(body, type=_OneSet).iceServers
    except msgspec.MsgspecError:
        try:
            found = msgspec.json.decode(body, type=_Token).ice_servers
        except msgspec.MsgspecError:
            raise TurnError("The TURN service's answer cannot be read. Has its interface changed?") from None
    servers = []
    for server in found if isinstance(found, list) else [found]:
        urls = [server.urls] if isinstance(server.urls, str) else server.urls
        if usable := [url for url in urls if not url.partition("?")[0].endswith(":53")]:
            servers.append(IceServer(urls=usable, username=server.username, credential=server.credential))
    return servers


class Relays:
    """The credentials of now, shared by the calls that begin. Use it on one event loop."""

    def __init__(
        self,
        provider: Provider | None,
        clock: Callable[[], float] = time.monotonic,
        http: Callable[[], httpx.AsyncClient] = lambda: httpx.AsyncClient(timeout=10.0),
    ) -> None:
        self._provider, self._clock, self._http = provider, clock, http
        self._servers: list[IceServer] = []
        self._got = float("-inf")
        self._failed = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._asked = float("-inf")
        self.trouble = ""  # why there are none, or none newer, in words for whoever runs the server

    async def servers(self) -> list[IceServer]:
        """Relays whose credentials work for half an hour at least; none where there is no provider, or it fails.

        Takes `WITHIN` at most, and nothing while a provider is late; it is heard out for the calls that follow.
        """
        now = self._clock()
        if self._provider and now - self._got >= FRESH and now - self._failed >= AGAIN:
            if self._asking is None:
                self._asked, self._asking = now, asyncio.create_task(self._ask(self._provider))
            await asyncio.wait([self._asking], timeout=max(0.0, self._asked + WITHIN - now))
        return self._servers if self._clock() - self._got < USABLE else []

    @property
    def keep(self) -> float:
        """Seconds until it is worth asking anew."""
        return FRESH if self._provider is None or self._clock() - self._got < FRESH else AGAIN

    async def close(self) -> None:
        if self._asking:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self, provider: Provider) -> None:
        try:
            async with self._http() as http:
                self._servers = await provider.servers(http)
            self._got, self.trouble = self._clock(), ""
        except TurnError as error:
            self._fail(str(error))
        except httpx.TimeoutException:
            self._fail(f"{provider.name} does not answer. Can this server reach it?")
        except httpx.HTTPError as error:
            self._fail(f"{provider.name} cannot be reached ({type(error).__name__}). Can this server reach it?")
        except Exception as error:  # noqa: BLE001  of a key that fits no header, an id that fits no address; its text may hold them
            self._fail(f"{provider.name} cannot be asked ({type(error).__name__}). {ADVICE}")
        finally:
            self._asking = None

    def _fail(self, why: str) -> None:
        self._failed = self._clock()
        if why != self.trouble:  # once, not with every call
            log.warning("no new TURN credentials: %s Calls go on without a relay.", why)
        self.trouble = why
