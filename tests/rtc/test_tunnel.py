"""A tunnel on a clock of ours: the same track as over WebRTC; when the browser falls behind, the clock stands."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.chat.stage import until
from tests.rtc.sounds import audible, decode, packets, peak_hertz, tone
from tests.rtc.test_peer import Ear
from tests.rtc.test_track import Time
from voxrtc.rtc import tunnel as module
from voxrtc.rtc.microphone import RATE as HEARD_RATE
from voxrtc.rtc.opus import SETTLED, SILENCE
from voxrtc.rtc.sound import FRAME, RATE, TICKS
from voxrtc.rtc.track import PlayoutTrack
from voxrtc.rtc.tunnel import NUMBER, RENDERED, SOUND, UNDER_WAY, UPWARDS, BadPacket, Tunnel


class Line:
    """A tunnel, its track and its browser, which renders what it gets at once unless it `stands`."""

    def __init__(self) -> None:
        self.ear, self.time, self.stands = Ear(), Time(), False
        self.track = PlayoutTrack(self.ear, self.time, self.time.sleep)
        self.numbers: list[int] = []
        self.payloads: list[bytes] = []
        self.times: list[float] = []
        self.texts: list[str] = []
        self.tunnel = Tunnel(self.ear, self.send, self.time)

    def send(self, message: str | bytes) -> None:
        if isinstance(message, str):
            return self.texts.append(message)
        self.numbers.append(NUMBER.unpack_from(message)[0])
        self.payloads.append(message[NUMBER.size :])
        self.times.append(self.time.now)
        if not self.stands:
            self.render()

    def render(self) -> None:
        self.tunnel.took(UPWARDS.pack(RENDERED, self.numbers[-1]))

    async def say(self, seconds: float) -> None:
        utterance = await self.track.begin("a")
        await utterance.write(tone(seconds, 24_000).tobytes(), 24_000)
        await utterance.finish()

    async def __aenter__(self) -> Line:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.tunnel.close()
        self.track.stop()


async def test_sound_arrives_whole_and_at_its_pace() -> None:
    async with Line() as line:
        line.tunnel.attach(line.track)
        await line.say(0.6)
        await until(line.ear.played.is_set)
        await until(lambda: line.payloads[-1] == SILENCE)
        sound = decode([payload or SILENCE for payload in line.payloads])
        loud = audible(sound)
        assert (loud[-1] - loud[0]) / RATE == pytest.approx(0.6, abs=0.01)
        assert peak_hertz(sound[loud[0] : loud[-1]]) == pytest.approx(440, abs=3)
        assert np.diff(line.times[1:30]) == pytest.approx(0.02)


async def test_a_long_silence_is_hardly_sent_and_keeps_its_numbers() -> None:
    async with Line() as line:
        line.tunnel.attach(line.track)
        await until(lambda: len(line.numbers) > SETTLED + 3)
        assert not any(line.payloads[SETTLED + 1 :])
        assert set(np.diff(line.numbers[SETTLED + 1 :])) == {20}


async def test_when_the_socket_stands_so_does_the_clock() -> None:
    """And nobody hears a burst afterwards; no sample is lost, and it counts as no underrun."""
    async with Line() as line:
        line.tunnel.attach(line.track)
        await line.say(1.9)
        await until(lambda: len(line.numbers) >= 10)
        line.stands = True
        before = len(line.numbers)
        await until(lambda: len(line.numbers) - before >= UNDER_WAY)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(line.numbers) - before == UNDER_WAY
        clock = line.track.clock
        assert clock and not clock.running
        name, told = line.ear.events[-1]
        assert (name, told.running) == ("progress", False), "the engine is told, too"
        line.time.now += 3.0
        line.stands = False
        resumed = len(line.times)
        line.render()
        await until(line.ear.played.is_set)
        assert np.diff(line.times[resumed:]).min() > 0.019
        sound = decode([payload or SILENCE for payload in line.payloads])
        assert (audible(sound)[-1] - audible(sound)[0]) / RATE == pytest.approx(1.9, abs=0.02)
        assert line.track.underruns == 0


async def test_what_an_interruption_cuts_counts_as_far_as_it_was_rendered() -> None:
    async with Line() as line:
        line.tunnel.attach(line.track)
        await line.say(1.9)
        await until(lambda: len(line.numbers) >= 20)
        line.stands = True
        before = line.track.clock
        await until(lambda: len(line.numbers) >= 45)
        cut = line.track.flush()
        assert before and cut and abs(cut.sent - before.sent) <= 2 * FRAME


async def test_silence_that_is_under_way_after_a_hold_takes_nothing_from_what_was_heard() -> None:
    async with Line() as line:
        line.tunnel.attach(line.track)
        await line.say(1.9)
        await until(lambda: len(line.numbers) >= 40)
        line.track.hold()
        held, line.stands = line.track.clock, True
        await until(lambda: len(line.numbers) >= 60)
        cut = line.track.flush()
        assert held and cut and held.sent - cut.sent <= 2 * FRAME


async def test_another_line_takes_the_sound_up_where_this_one_was_heard() -> None:
    async with Line() as broken, Line() as line:
        line.track, line.time = broken.track, broken.time
        broken.tunnel.attach(broken.track)
        await broken.say(1.5)
        await until(lambda: len(broken.numbers) >= 30)
        broken.stands = True
        heard = broken.numbers[-1]
        await until(lambda: len(broken.numbers) >= 60)
        broken.tunnel.detach()
        line.track.detach()
        line.track.rewind(broken.tunnel.number(heard) + 1)
        line.tunnel.attach(line.track)
        line.track.go()
        await until(broken.ear.played.is_set)
        await until(lambda: line.payloads[-1] == SILENCE)
        parts = [broken.payloads[: broken.numbers.index(heard) + 1], line.payloads]
        assert sum(len(audible(decode([p or SILENCE for p in part]))) for part in parts) / RATE == pytest.approx(1.5, abs=0.05)


async def test_a_microphone_is_heard_and_its_gaps_are_silence() -> None:
    async with Line() as line:
        sent = packets(tone(1.0, RATE))
        for number, payload in enumerate(sent):
            if not 10 <= number < 20:
                line.tunnel.took(UPWARDS.pack(SOUND, (number * TICKS + (1 << 32) - TICKS) % (1 << 32)) + payload.payload)
        await until(lambda: len(line.ear.blocks) * 512 >= 0.95 * HEARD_RATE)
        sound = np.concatenate(line.ear.blocks)
        assert peak_hertz(sound[HEARD_RATE // 2 :], at=HEARD_RATE) == pytest.approx(440, abs=6)
        assert np.abs(sound[int(0.25 * HEARD_RATE) : int(0.38 * HEARD_RATE)]).max() < 100


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x07\x00\x00\x00\x01", bytes(4)])
async def test_what_is_no_packet_is_refused(data: bytes) -> None:
    async with Line() as line:
        with pytest.raises(BadPacket):
            line.tunnel.took(data)


async def test_garbage_for_sound_harms_nobody() -> None:
    async with Line() as line:
        line.tunnel.took(UPWARDS.pack(SOUND, 0) + b"\xff" * 40)
        line.tunnel.took(UPWARDS.pack(RENDERED, 1 << 31))
        line.tunnel.took(UPWARDS.pack(SOUND, TICKS) + packets(tone(0.02, RATE))[0].payload)


async def test_a_browser_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", 0.0)
    async with Line() as line:
        line.tunnel.open()
        await until(line.ear.open.is_set)
        line.time.now += module.DEAD_AFTER - 0.1
        line.tunnel.received("{}")
        line.time.now += module.DEAD_AFTER - 0.1
        await asyncio.sleep(0.01)
        assert not line.ear.over.is_set() and line.ear.messages == ["{}"]
        line.time.now += 0.2
        await until(line.ear.over.is_set)
        await line.tunnel.close()
        assert line.ear.closings == 1
