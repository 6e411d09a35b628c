"""The track as aiortc and a conversation see it, on a clock of ours; encoding is real."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import Executor
from weakref import WeakSet, ref

import numpy as np
import pytest
from aiortc.mediastreams import MediaStreamError

from tests.rtc.sounds import STEP, audible, decode, peak_hertz, tone
from tests.rtc.test_playout import Told
from tests.waiting import until
from voxrtc.rtc.opus import ALIVE, CHEAPEST, COMPLEXITY, NOTHING, SETTLED, SILENCE, OpusEncoder
from voxrtc.rtc.playout import AHEAD, CAPACITY, LEAD, Clock
from voxrtc.rtc.quality import CLEAN, Quality
from voxrtc.rtc.sound import FRAME, RATE, RTP_RATE, TICKS
from voxrtc.rtc.track import EARLY, PlayoutTrack


class Time:
    """A clock that a sleeper moves by itself. `late` is added to the next sleep."""

    def __init__(self) -> None:
        self.now, self.late = 1000.0, 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now, self.late = self.now + seconds + self.late, 0.0
        await asyncio.sleep(0)


class Heard:
    """A track's packets, one by one: awaited, as by a tunnel (`recv`), or looked for every 20 ms, as by a sender (`due`)."""

    looks = False

    def __init__(self, listener: object = None) -> None:
        self.time, self.told = Time(), Told()
        self.track = PlayoutTrack(listener or self.told, self.time, self.time.sleep)
        self.packets: list[bytes] = []
        self.times: list[float] = []
        self.stamps: list[int] = []

    async def pull(self, count: int) -> None:
        for _ in range(count):
            self.packets.append(await self.packet())
            self.stamps.append(TICKS * self.track.last)
            self.times.append(self.time())
            await asyncio.sleep(0)  # a writer that waits for room gets its turn

    async def packet(self) -> bytes:
        if not self.looks:
            packet = await self.track.recv()
            assert packet.pts == TICKS * self.track.last
            return bytes(packet)
        while True:
            encoded = asyncio.Event()
            if (payload := self.track.due(self.time(), encoded.set)) is not None:
                return payload
            if self.track._playout.late and self.track._pacer.wait(self.time()) < EARLY:
                await encoded.wait()
            else:
                await self.time.sleep((math.floor(self.time() / 0.02 + 1e-3) + 1) * 0.02 - self.time())

    async def say(self, seconds: float, rate: int = 24_000, stream: str = "a") -> None:
        utterance = await self.track.begin(stream)
        await utterance.write(tone(seconds, rate).tobytes(), rate)
        await utterance.finish()

    @property
    def sound(self) -> np.ndarray:
        return decode(self.packets)


@pytest.fixture(autouse=True, params=["recv", "due"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heard, "looks", request.param == "due")


async def test_packets_every_20_ms_with_contiguous_timestamps() -> None:
    heard = Heard()
    await heard.say(0.5)
    await heard.pull(50)
    assert np.allclose(np.diff(heard.times), 0.02)
    assert heard.stamps == [TICKS * number for number in range(50)]


async def test_a_late_wake_up_sends_no_burst() -> None:
    heard = Heard()
    await heard.say(0.5)
    await heard.pull(5)
    heard.time.late = 0.5
    await heard.pull(20)
    assert np.diff(heard.times).min() > 0.019
    assert heard.stamps == [TICKS * number for number in range(25)]
    assert heard.track.underruns == 0


async def test_silence_is_continuous_and_never_none() -> None:
    """aiortc's sender ends for good at None (fastrtc 99: silent ever after)."""
    heard = Heard()
    await heard.pull(20)
    assert heard.packets == [SILENCE] * 20


async def test_a_silence_that_lasts_is_hardly_sent_and_ends_at_once() -> None:
    """Its time goes on: the sound that ends it comes with the stamp of its own 20 ms, and it is whole."""
    heard = Heard()
    await heard.pull(SETTLED)
    await heard.pull(5)
    assert heard.packets[SETTLED:] == [NOTHING] * 5
    assert np.diff(heard.times)[SETTLED:] == pytest.approx(ALIVE * 0.02)
    waiting = asyncio.ensure_future(heard.packet())
    began = heard.time()
    await heard.track.begin("b")
    assert await waiting == SILENCE and heard.time() - began <= 0.021, "also while its sound is still to come"
    heard.track.flush()
    stamp = round((heard.time() - 1000.0) * RTP_RATE)
    await heard.say(0.5)
    await heard.pull(30)
    assert heard.stamps[-30] == pytest.approx(stamp + TICKS, abs=1)
    loud = audible(heard.sound)
    assert (loud[-1] - loud[0]) / RATE == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("silent", [0, 3, SETTLED + 2])
@pytest.mark.parametrize("rate", [24_000, 48_000])
async def test_a_tone_is_heard_as_it_was_written(rate: int, silent: int) -> None:
    """From its first millisecond, whatever went before."""
    heard = Heard()
    await heard.pull(silent)
    await heard.say(0.6, rate)
    await heard.pull(40)
    loud = audible(heard.sound)
    assert loud[0] / FRAME == pytest.approx(silent, abs=0.2)
    assert (loud[-1] - loud[0]) / RATE == pytest.approx(0.6, abs=0.01)
    assert peak_hertz(heard.sound[loud[0] : loud[-1]]) == pytest.approx(440, abs=3)
    assert np.abs(np.diff(heard.sound.astype(int))).max() < 1.5 * STEP  # no click, at either end
    assert heard.told.names() == ["started", "stopped"]
    assert heard.told.events[-1][1] == Clock("a", round(0.6 * RATE), 0, 0, False)


async def test_a_full_queue_holds_the_writer_back() -> None:
    heard = Heard()
    speaking = asyncio.create_task(heard.say(5.0))
    await asyncio.sleep(0)
    assert heard.track.clock is not None
    assert heard.track.clock.waiting == CAPACITY + AHEAD * FRAME
    await heard.pull(100)
    assert not speaking.done()
    assert heard.track.clock.waiting <= CAPACITY + AHEAD * FRAME
    await heard.pull(170)
    assert speaking.done()
    assert peak_hertz(heard.sound[RATE : 4 * RATE]) == pytest.approx(440, abs=1)
    assert np.abs(np.diff(heard.sound.astype(int))).max() < 1.5 * STEP  # contiguous across all pieces


async def test_an_underrun_makes_no_click() -> None:
    heard = Heard()
    utterance = await heard.track.begin("a")
    for part in np.split(tone(0.3393, 24_000)[: 3 * 2714], 3):
        await utterance.write(part.tobytes(), 24_000)
        await heard.pull(12)
    assert heard.track.underruns == 3
    assert np.abs(np.diff(heard.sound.astype(int))).max() < 2 * STEP
    assert heard.packets[-1] == SILENCE


async def test_flush_is_silent_within_a_frame_and_makes_no_click() -> None:
    heard = Heard()
    await heard.say(1.0)
    await heard.pull(10)
    heard.track.flush()
    await heard.pull(5)
    loud = audible(heard.sound)
    assert loud[-1] < 11 * FRAME
    assert np.abs(np.diff(heard.sound.astype(int))).max() < 2 * STEP
    assert heard.packets[11:] == [SILENCE] * 4


async def test_a_hold_is_silent_within_a_frame_and_what_follows_is_whole() -> None:
    """No click at either end; the tone goes on, some of it once more."""
    heard = Heard()
    await heard.say(1.0)
    await heard.pull(20)
    heard.track.hold()
    await heard.pull(20)
    heard.track.resume()
    await heard.pull(60)
    loud = audible(heard.sound)
    held = loud[np.flatnonzero(np.diff(loud) > FRAME)[0] :][:2]  # the last sample before, the first one after
    assert held[0] < 21 * FRAME and held[1] > 40 * FRAME
    assert (loud[-1] - held[1]) / FRAME == pytest.approx(30 + LEAD, abs=1)
    assert np.abs(np.diff(heard.sound.astype(int))).max() < 2 * STEP
    assert heard.told.names() == ["started", "stopped"]
    assert heard.track.underruns == 0
    assert np.allclose(np.diff(heard.times), 0.02)


async def test_a_monitor_is_told_every_frame_that_goes_out() -> None:
    heard, frames = Heard(), []
    heard.track.monitor = frames.append
    await heard.pull(3)
    await heard.say(0.1)
    await heard.pull(10)
    assert frames[:3] == [None] * 3
    sound = np.concatenate([frame for frame in frames if frame is not None])
    assert peak_hertz(sound) == pytest.approx(440, abs=15)
    assert len(sound) == pytest.approx(0.1 * RATE, abs=FRAME)
    assert len(frames) == 13


async def test_after_an_interruption_the_next_stream_is_heard() -> None:
    heard = Heard()
    await heard.say(1.0)
    await heard.pull(10)
    heard.track.flush()
    await heard.say(0.3, stream="b")
    await heard.pull(20)
    assert heard.told.names() == ["started", "started", "stopped"]
    loud = audible(heard.sound[11 * FRAME :])
    assert (loud[-1] - loud[0]) / RATE == pytest.approx(0.3, abs=0.01)


async def test_a_flushed_writer_learns_that_nobody_hears_it() -> None:
    heard = Heard()
    utterance = await heard.track.begin("a")
    blocked = asyncio.create_task(utterance.write(tone(4.0).tobytes(), RATE))
    await heard.pull(3)
    assert not blocked.done()
    heard.track.flush()
    assert await blocked is False
    fresh = await heard.track.begin("b")
    assert await utterance.write(tone(0.1).tobytes(), RATE) is False
    assert heard.track.clock == Clock("b", 0, 0, 0, False)
    assert not fresh.over


async def test_an_ended_writer_leaves_what_is_queued() -> None:
    heard = Heard()
    utterance = await heard.track.begin("a")
    blocked = asyncio.create_task(utterance.write(tone(4.0).tobytes(), RATE))
    await heard.pull(3)
    utterance.end()
    assert await blocked is False
    await heard.pull(CAPACITY // FRAME + AHEAD + 1)
    assert heard.told.names() == ["started", "stopped"]
    assert heard.told.events[-1][1].sent >= CAPACITY


async def test_the_next_stream_waits_for_the_one_before() -> None:
    heard = Heard()
    await heard.say(0.2)
    following = asyncio.create_task(heard.say(0.2, stream="b"))
    await heard.pull(8)
    assert not following.done()
    await heard.pull(20)
    assert [(name, clock.stream) for name, clock in heard.told.events if name != "progress"] == [
        ("started", "a"),
        ("stopped", "a"),
        ("started", "b"),
        ("stopped", "b"),
    ]


async def test_a_listener_that_raises_does_not_end_the_sound() -> None:
    class Broken(Told):
        def started(self, clock: Clock) -> None:
            raise RuntimeError("on purpose")

    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    heard = Heard(Broken())
    await heard.say(0.2)
    await heard.pull(20)
    assert len(audible(heard.sound)) > 0.1 * RATE
    assert len(complaints) == 1


async def test_stopping_frees_everyone_who_waits() -> None:
    heard = Heard()
    utterance = await heard.track.begin("a")
    blocked = asyncio.create_task(utterance.write(tone(4.0).tobytes(), RATE))
    following = asyncio.create_task(heard.track.begin("b"))
    await heard.pull(2)
    heard.track.stop()
    assert await blocked is False
    with pytest.raises(MediaStreamError):
        await following
    with pytest.raises(MediaStreamError):
        await heard.track.recv()
    assert heard.track.due(heard.time() + 1.0, lambda: None) is None


async def test_encoding_does_not_use_the_shared_executor() -> None:
    class Busy(Executor):
        def submit(self, *arguments: object, **options: object) -> None:  # type: ignore[override]
            raise AssertionError("the default executor was used")

    asyncio.get_running_loop()._default_executor = Busy()  # type: ignore[attr-defined]
    heard = Heard()
    await heard.say(0.2)
    await heard.pull(15)
    assert len(audible(heard.sound)) > 0.1 * RATE
    asyncio.get_running_loop()._default_executor = None  # type: ignore[attr-defined]


async def test_a_track_that_is_over_has_no_encoder_until_somebody_collects_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ref[OpusEncoder]] = []

    class Noted(OpusEncoder):
        def __init__(self, run: int, quality: Quality = CLEAN, complexity: int = COMPLEXITY) -> None:
            super().__init__(run, quality, complexity)
            made.append(ref(self))

    monkeypatch.setattr("voxrtc.rtc.track.OpusEncoder", Noted)
    heard = Heard()
    await heard.say(0.3)
    await heard.pull(5)
    assert made and made[-1]()
    heard.track.stop()
    await until(lambda: not any(encoder() for encoder in made))


async def test_who_begins_when_many_speak_is_encoded_cheaply_and_heard_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxrtc.rtc.track.MANY", 2)
    monkeypatch.setattr("voxrtc.rtc.track._TRACKS", WeakSet())  # without those that other tests left speaking
    complexities: list[int] = []

    class Noted(OpusEncoder):
        def __init__(self, run: int, quality: Quality = CLEAN, complexity: int = COMPLEXITY) -> None:
            super().__init__(run, quality, complexity)
            if run:
                complexities.append(complexity)

    monkeypatch.setattr("voxrtc.rtc.track.OpusEncoder", Noted)
    crowd = [Heard() for _ in range(3)]
    for heard in crowd:
        await heard.say(0.3)
    assert complexities == [COMPLEXITY, COMPLEXITY, CHEAPEST]
    for heard in crowd:
        await heard.pull(25)
        assert peak_hertz(heard.sound[: RATE // 4]) == pytest.approx(440, abs=5)
    await crowd[0].say(0.3, stream="b")
    assert complexities[3:] == [COMPLEXITY], "the others are silent again"
