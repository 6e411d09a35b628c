"""What goes on, told to all who look: asked once, never queued, and not at all when nobody looks."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.fake_engine import ToneTransport, tones
from tests.fake_media import EchoMedia
from tests.serving import serving
from tests.waiting import eventually
from voxrtc.api import errors, live
from voxrtc.api.app import build_app
from voxrtc.api.feed import Feed, Full, Source
from voxrtc.api.stats import mark

pytestmark = pytest.mark.anyio
PATH = "/v1/voxrtc/live"


class Counter:
    """A source of 1, 2, 3 … or, while it stands, of the same number."""

    def __init__(self) -> None:
        self.asked, self.stands = 0, False

    async def __call__(self) -> dict[str, int]:
        self.asked += not self.stands
        return {"count": self.asked}


class Ticks:
    """A feed's `sleep`, which lasts until the test says `go`."""

    def __init__(self) -> None:
        self._gates: asyncio.Queue[None] = asyncio.Queue()
        self.waiting = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.waiting.set()
        await self._gates.get()
        self.waiting.clear()

    async def go(self, ticks: int = 1) -> None:
        """Have so many ticks happen."""
        for _ in range(ticks):
            await self.waiting.wait()
            self.waiting.clear()
            self._gates.put_nowait(None)
        await self.waiting.wait()


def events(news: bytes) -> list[tuple[str, Any]]:
    """Name and data of each event in a text/event-stream."""
    found = []
    for block in news.decode().removesuffix("\n\n").split("\n\n"):
        event, data = block.split("\n")
        found.append((event.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def test_all_viewers_are_told_what_was_asked_once() -> None:
    counter, ticks = Counter(), Ticks()
    feed = Feed({"count": Source(counter)}, sleep=ticks)
    with feed.viewer() as first, feed.viewer() as second:
        await ticks.go(0)
        assert await first.next() == await second.next() == b'event: count\ndata: {"count":1}\n\n'
        with feed.viewer() as late:
            assert events(await late.next()) == [("count", {"count": 1})]  # at once, and nobody was asked again
        await ticks.go()
        assert events(await first.next()) == [("count", {"count": 2})]
    assert counter.asked == 2


async def test_a_slow_viewer_skips_and_nothing_piles_up() -> None:
    often, seldom, ticks = Counter(), Counter(), Ticks()
    feed = Feed({"often": Source(often), "seldom": Source(seldom, every=4)}, sleep=ticks)
    with feed.viewer() as slow:
        await ticks.go(1000)
        news = events(await slow.next())
    assert sorted(news) == [("often", {"count": 1001}), ("seldom", {"count": 251})]


async def test_only_news_is_told() -> None:
    counter, ticks = Counter(), Ticks()
    feed = Feed({"count": Source(counter)}, sleep=ticks)
    with feed.viewer() as viewer:
        await ticks.go(0)
        await viewer.next()
        counter.stands = True
        waiting = asyncio.ensure_future(viewer.next())
        await ticks.go(3)
        assert not waiting.done()
        counter.stands = False
        await ticks.go()
        assert events(await waiting) == [("count", {"count": 2})]


async def test_nothing_is_done_while_nobody_looks() -> None:
    counter, ticks = Counter(), Ticks()
    feed = Feed({"count": Source(counter)}, sleep=ticks)
    with feed.viewer():
        await ticks.go(2)
    before = len(asyncio.all_tasks())
    await asyncio.sleep(0)
    assert counter.asked == 3 and len(asyncio.all_tasks()) == before - 1  # the ticking is over
    with feed.viewer() as again:
        ticks.waiting.clear()
        await ticks.go(0)
        assert events(await again.next()) == [("count", {"count": 4})]  # and nothing of old


async def test_a_source_that_fails_keeps_the_others_going(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    ticks = Ticks()
    feed = Feed({"broken": Source(broken), "count": Source(Counter())}, sleep=ticks)
    with feed.viewer() as viewer:
        await ticks.go(5)
        assert events(await viewer.next()) == [("count", {"count": 6})]
    assert caplog.text.count("cannot be told") == 1


async def test_viewers_are_limited_and_places_come_back() -> None:
    feed = Feed({}, most=1, sleep=Ticks())
    with feed.viewer(), pytest.raises(Full), feed.viewer():
        pass
    with feed.viewer():
        pass


async def test_a_server_that_stops_waits_for_nobody() -> None:
    feed = Feed({"count": Source(Counter())}, sleep=Ticks())
    with feed.viewer() as viewer:
        await viewer.next()
        waiting = asyncio.ensure_future(viewer.next())
        await asyncio.sleep(0)
        feed.close()
        assert await waiting == b"" == await viewer.next()


# --- over HTTP ---


def serve(feed: Feed) -> FastAPI:
    app = FastAPI()
    errors.install(app)
    app.include_router(live.router(feed))
    return app


def test_browsers_are_told_of_engines_and_media() -> None:
    app = build_app(tones(ToneTransport()), EchoMedia())  # type: ignore[arg-type]
    with serving(app) as (host, port), httpx.stream("GET", f"http://{host}:{port}{PATH}") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        name, data = events(next(response.iter_raw()))[0]
    assert name == "stats"
    assert data["engines"]["tone"]["kv_pages"] == 1 and data["at"] > 1e9


def test_who_finds_no_place_is_told_so_and_a_place_comes_back() -> None:
    feed = Feed({"count": Source(Counter())}, most=1)
    with serving(serve(feed)) as (host, port):
        url = f"http://{host}:{port}{PATH}"
        with httpx.stream("GET", url) as response:
            body = response.iter_raw()  # kept: without it the connection ends
            next(body)
            refused = httpx.get(url)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "too_many_viewers"
            assert int(refused.headers["retry-after"]) > 0

        def free() -> bool:
            with httpx.stream("GET", url) as response:
                return response.status_code == 200

        eventually(free)


def test_its_end_is_the_end_of_the_answer() -> None:
    feed = Feed({"count": Source(Counter())})
    with serving(serve(feed)) as (host, port), httpx.stream("GET", f"http://{host}:{port}{PATH}") as response:
        body = response.iter_raw()
        next(body)
        feed._ticking.get_loop().call_soon_threadsafe(feed.close)  # type: ignore[union-attr]
        for _ in body:  # it ends
            pass
    assert not feed._viewers


def test_a_viewer_who_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others see every tick meanwhile, and the place comes back."""
    monkeypatch.setattr(live, "PATIENCE", 0.5)
    monkeypatch.setattr("voxrtc.api.feed.PERIOD", 0.005)

    numbers = itertools.count()

    async def much() -> dict[str, Any]:
        return {"number": next(numbers), "filler": "x" * 100_000}

    feed = Feed({"much": Source(much)})
    with serving(serve(feed)) as (host, port), socket.create_connection((host, port)) as slow:
        slow.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        eventually(lambda: len(feed._viewers) == 1)
        with httpx.stream("GET", f"http://{host}:{port}{PATH}") as response:
            body = response.iter_raw()
            seen = 0
            while len(feed._viewers) == 2:  # the slow one is still there
                seen += next(body).count(b"event: much")
        assert seen > 20
        eventually(lambda: not feed._viewers)


def test_nobody_is_known_by_a_mark() -> None:
    """All pieces of a response have one; the name is not in it."""
    assert mark("resp_a") == mark("resp_a.117") != mark("resp_b")
    assert len(mark("resp_a")) == 8
