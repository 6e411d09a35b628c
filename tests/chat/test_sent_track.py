"""Sound sent ahead of a listener who plays it himself: how far, how fast, and what he is taken to have heard."""

from __future__ import annotations

import asyncio
import base64
import contextlib

import numpy as np
import pytest

from tests.chat.stage import until
from voxrtc.chat.sent_track import AHEAD, PIECE, SentTrack
from voxrtc.chat.session_settings import Format
from voxrtc.rtc.playout import Clock
from voxrtc.rtc.sound import RATE

SECOND = np.full(24_000, 1_000, np.int16).tobytes()


class Listener:
    """On a clock of its own, which stands until something waits for it."""

    def __init__(self, format: Format | None = None) -> None:
        self.now = 0.0
        self.format = format or Format()
        self.track = SentTrack(self, lambda: self.format, lambda: self.now, self.sleep)
        self.audio: dict[str, list[bytes]] = {}
        self.when: list[float] = []
        self.told: list[tuple[str, Clock]] = []

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds

    def sent(self, stream: str, audio: str) -> None:
        self.audio.setdefault(stream, []).append(base64.b64decode(audio))
        self.when.append(self.now)

    def started(self, clock: Clock) -> None:
        self.told.append(("started", clock))

    def progress(self, clock: Clock) -> None:
        self.told.append(("progress", clock))

    def stopped(self, clock: Clock) -> None:
        self.told.append(("stopped", clock))

    @property
    def types(self) -> list[str]:
        return [type for type, _ in self.told]


async def test_all_of_it_is_sent_not_too_early_and_ends_in_its_time() -> None:
    listener = Listener()
    utterance = await listener.track.begin("a")
    assert await utterance.write(SECOND * 12, 24_000)
    await utterance.finish()
    ahead = [sum(map(len, listener.audio["a"][: n + 1])) / 48_000 - when for n, when in enumerate(listener.when)]
    assert max(ahead) == pytest.approx(AHEAD, abs=0.01)
    assert max(map(len, listener.audio["a"])) / 48_000 <= PIECE
    assert b"".join(listener.audio["a"]) == SECOND * 12
    await until(lambda: "stopped" in listener.types)
    assert (listener.types[0], listener.types.count("started"), listener.types[-1]) == ("started", 1, "stopped")
    assert listener.now == pytest.approx(12, abs=0.01)
    assert listener.told[-1][1].played == pytest.approx(12, abs=0.01)
    assert listener.track.clock is None


async def test_the_clock_runs_and_stands_with_what_is_sent() -> None:
    listener = Listener()
    utterance = await listener.track.begin("a")
    await utterance.write(SECOND, 24_000)
    listener.now = 0.5
    clock = listener.track.clock
    assert clock
    assert (clock.played, clock.waiting, clock.running) == (pytest.approx(0.5), pytest.approx(RATE / 2), True)
    listener.now = 3.0  # it ran dry at 1
    clock = listener.track.clock
    assert clock
    assert (clock.played, clock.waiting, clock.running, clock.underruns) == (pytest.approx(1.0), 0, False, 0)
    await utterance.write(SECOND, 24_000)
    listener.now = 3.5
    clock = listener.track.clock
    assert clock
    assert (clock.played, clock.running, clock.underruns) == (pytest.approx(1.5), True, 1)


async def test_what_is_flushed_is_sent_no_more_and_the_next_may_begin() -> None:
    listener = Listener()
    utterance = await listener.track.begin("a")
    writing = asyncio.ensure_future(utterance.write(SECOND * 60, 24_000))
    await until(lambda: listener.now > 2)
    clock = listener.track.flush()
    assert clock
    assert 2 < clock.played < 4
    sent = len(listener.audio["a"])
    assert await writing is False
    assert utterance.over
    second = await asyncio.wait_for(listener.track.begin("b"), 1)
    assert await second.write(SECOND, 24_000)
    await second.finish()
    await until(lambda: "stopped" in listener.types)
    assert len(listener.audio["a"]) == sent
    assert b"".join(listener.audio["b"]) == SECOND
    assert [clock.stream for type, clock in listener.told if type == "stopped"] == ["b"]
    assert listener.track.flush() is None


async def test_a_flush_in_the_last_seconds_ends_it_too() -> None:
    listener = Listener()
    utterance = await listener.track.begin("a")
    await utterance.write(SECOND, 24_000)
    await utterance.finish()
    assert listener.track.flush()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(until(lambda: "stopped" in listener.types), 0.05)
    assert "stopped" not in listener.types


async def test_the_next_waits_until_this_one_is_over() -> None:
    listener = Listener()
    utterance = await listener.track.begin("a")
    await utterance.write(SECOND, 24_000)
    second = asyncio.ensure_future(listener.track.begin("b"))
    await asyncio.sleep(0)
    assert not second.done()
    await utterance.finish()
    await second
    assert listener.types[-1] == "stopped"


@pytest.mark.parametrize(("format", "size"), [(Format("audio/pcmu"), 8_000), (Format(), 48_000)])
async def test_a_models_rate_becomes_the_formats(format: Format, size: int) -> None:
    listener = Listener(format)
    utterance = await listener.track.begin("a")
    await utterance.write(np.full(44_100, 1_000, np.int16).tobytes(), 44_100)
    await utterance.finish()
    assert sum(map(len, listener.audio["a"])) == pytest.approx(size, abs=4)
