"""A conversation outlives its line: another one takes it over, and nothing said is lost or comes twice."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from tests.chat.stage import LONG, until
from tests.fake_engine import ToneTransport, tones
from tests.fake_hearing import Hearing, loudness
from tests.rtc.test_track import Time
from voxrtc.chat import talk as module
from voxrtc.chat.allowance import Allowance
from voxrtc.chat.choice import choose
from voxrtc.chat.manner import Manner
from voxrtc.chat.session import Session
from voxrtc.chat.talk import Seat, Talk
from voxrtc.chat.tally import Tally
from voxrtc.chat.turns import TurnSettings
from voxrtc.messages.media import Resume
from voxrtc.rtc.sound import FRAME
from voxrtc.rtc.track import PlayoutTrack

pytestmark = pytest.mark.anyio
COUNT = itertools.count()


class Wire:
    """A line that takes the track's packets as fast as they come, and whose browser hears them, unless it is `broken`."""

    state = "connected"
    packets = 7

    def __init__(self, talk: Talk, resume: Resume | None = None) -> None:
        self.seat = Seat(talk, f"line {next(COUNT)}", resume or Resume())
        self.seat.carrier = self
        self.events: list[dict[str, Any]] = []
        self.numbers: list[int] = []
        self.broken = self.closed = False
        self._pump: asyncio.Task[None] | None = None

    def send(self, text: str) -> None:
        if not self.broken:
            self.events.append(json.loads(text))

    def attach(self, track: PlayoutTrack) -> None:
        self._pump = asyncio.ensure_future(self._play(track))

    def detach(self) -> None: ...

    def number(self, stamp: int) -> int:
        return stamp

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self._pump:
                self._pump.cancel()
            self.seat.closed()

    async def _play(self, track: PlayoutTrack) -> None:
        while True:
            await track.recv()
            self.numbers += [] if self.broken else [track.last]
            await asyncio.sleep(0)

    def do(self, type: str, **fields: Any) -> None:
        self.seat.received(json.dumps({"type": type, **fields}))

    def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        self.do("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        self.do("response.create", event_id="asked")

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def resume(self, talk: Talk) -> Resume:
        """As its browser would ask for it."""
        told = [type for type in self.types if type != "voxrtc.session"]
        return Resume(talk.token, len(told), self.seat.call, self.numbers[-1] if self.numbers else None)


class House:
    """A talk on a clock of its own, with a tone for an engine."""

    def __init__(self, resumable: bool = True) -> None:
        self.tone, self.over, time = ToneTransport(), False, Time()
        engines = tones(self.tone)
        choice = choose(engines.known, None, None)
        session = Session(engines, Hearing(), loudness, choice, TurnSettings(), None, Manner("Be brief."), Tally(), {})
        self.talk = Talk(session, "secret" if resumable else "", self._end)
        self.talk.track = PlayoutTrack(session, time, time.sleep)

    def _end(self, talk: Talk) -> None:
        self.over = True

    async def wire(self, resume: Resume | None = None) -> Wire:
        wire = Wire(self.talk, resume)
        if self.talk.fresh:
            self.talk.begin(wire.seat)
        wire.seat.opened()
        return wire


@pytest.fixture
async def house() -> Any:
    house = House()
    yield house
    await house.talk.close()


async def test_a_new_line_takes_over_amid_a_sentence(house: House) -> None:
    """The words that nobody heard are played again, and the events that nobody got are told again; each once."""
    first = await house.wire()
    assert first.types == ["session.created", "voxrtc.session"]
    first.say(LONG)
    await until(lambda: len(first.numbers) > 100)
    first.broken = True
    lost_from = first.numbers[-1]
    track = house.talk.track
    await until(lambda: track.last > lost_from + 80)
    sent = track.clock.sent if track.clock else 0
    second = await house.wire(first.resume(house.talk))
    assert second.events[0]["took"] == "asked"
    assert track.clock and sent - track.clock.sent >= 79 * FRAME
    await until(lambda: "output_audio_buffer.stopped" in second.types)
    assert first.closed
    told = [event["event_id"] for wire in (first, second) for event in wire.events if event["type"] != "voxrtc.session"]
    assert len(told) == len(set(told))
    stopped = second.events[second.types.index("voxrtc.playout")]
    assert stopped["underruns"] == 0 and stopped["played_ms"] == pytest.approx(1000 * 10, abs=1)
    assert len(first.numbers) + len(second.numbers) >= 500, "all of ten seconds reached the ear"


async def test_who_is_gone_is_waited_for(house: House) -> None:
    """In between nothing is played to nobody."""
    first = await house.wire()
    first.say(LONG)
    await until(lambda: len(first.numbers) > 50)
    await first.close()
    assert house.talk.kept and not house.over and not house.talk.connected
    before = house.talk.track.last
    await asyncio.sleep(0.02)
    assert house.talk.track.last == before
    second = await house.wire(first.resume(house.talk))
    assert house.talk.connected and not house.talk.kept
    await until(lambda: "output_audio_buffer.stopped" in second.types)


async def test_who_does_not_come_back_is_forgotten(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 0.02)
    first = await house.wire()
    first.say(LONG)
    await until(lambda: len(first.numbers) > 50)
    await first.close()
    await until(lambda: house.over)
    late = await house.wire(first.resume(house.talk))
    await until(lambda: late.closed)
    assert late.events == []


async def test_who_cannot_come_back_is_not_waited_for() -> None:
    """A stock client."""
    house = House(resumable=False)
    first = await house.wire()
    assert first.types == ["session.created"] and house.talk.token == ""
    await first.close()
    assert house.over


async def test_its_client_can_tell_whether_it_is_heard(house: House) -> None:
    first = await house.wire()
    first.do("voxrtc.ping", id="1", t=2.0)
    assert (first.events[-1]["type"], first.events[-1]["packets"]) == ("voxrtc.pong", 7)


async def test_an_old_line_has_no_say_any_more(house: House) -> None:
    first = await house.wire()
    second = await house.wire(first.resume(house.talk))
    first.say("not heard")
    first.seat.closed()
    assert second.types == ["voxrtc.session"] and house.talk.connected
    second.say("heard")
    await until(lambda: "output_audio_buffer.stopped" in second.types)


async def test_a_line_that_never_opened_is_passed_by() -> None:
    """UDP is blocked: the tunnel opens first. The session begins there, as it would have here."""
    house = House()
    blocked = Wire(house.talk)
    house.talk.begin(blocked.seat)
    tunnel = await house.wire(Resume(house.talk.token))
    assert tunnel.types == ["session.created", "voxrtc.session"]
    await until(lambda: blocked.closed)
    tunnel.say("here")
    await until(lambda: "output_audio_buffer.stopped" in tunnel.types)
    await house.talk.close()
    assert house.over


async def test_of_lines_that_never_open_there_are_few(house: House) -> None:
    first = await house.wire()
    coming = [Wire(house.talk, first.resume(house.talk)) for _ in range(module.COMING + 3)]
    for wire in coming:
        house.talk.expect(wire.seat)
    await until(lambda: [wire.closed for wire in coming] == [True] * 3 + [False] * module.COMING)
    assert house.talk.connected and not first.closed
    coming[-1].seat.opened()
    coming[-2].seat.closed()
    house.talk.expect((late := Wire(house.talk)).seat)
    assert house.talk.connected and house.talk.seat is coming[-1].seat
    await house.talk.close()
    assert all(wire.closed for wire in (first, late, *coming) if wire is not coming[-2])


async def test_one_that_is_ended_is_not_kept_while_its_lines_still_close(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes room for others would end it once more, and again."""
    first, gate = await house.wire(), asyncio.Event()
    monkeypatch.setattr(first, "close", gate.wait)
    second = await house.wire(first.resume(house.talk))
    second.seat.closed()
    assert house.talk.kept
    house.talk.end()
    assert not house.talk.kept and not house.over
    gate.set()
    await until(lambda: house.over)


async def test_hanging_up_ends_it(house: House) -> None:
    first = await house.wire()
    first.say(LONG)
    await until(lambda: len(first.numbers) > 20)
    await house.talk.close()
    assert house.over and first.closed and not house.talk.kept
    assert house.talk.track.readyState == "ended"


async def test_who_floods_us_with_events_is_told_and_let_go(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAREWELL", 0.0)
    wire = await house.wire()
    most = round(module.FASTEST * module.BURST)
    for number in range(3 * most):
        wire.do("voxrtc.ping", id=str(number))
    await until(lambda: house.over)
    assert most <= wire.types.count("voxrtc.pong") <= 2 * most, "a second of ours may pass meanwhile"
    (error,) = [event["error"] for event in wire.events if event["type"] == "error"]
    assert error["code"] == "rate_limit_exceeded" and wire.closed


def test_an_allowance_is_so_much_at_once_and_so_much_in_the_long_run() -> None:
    now = 0.0
    allowance = Allowance(rate=8, burst=2.0, clock=lambda: now)
    assert [allowance.take() for _ in range(17)] == [True] * 16 + [False]
    for _ in range(100):
        now += 0.125
        assert allowance.take()
    now += 0.0625
    assert not allowance.take()
