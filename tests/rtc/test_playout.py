"""The pure part of the playout track: pacing, order, bounds, underruns, fades, generations. No clock but our own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrtc.rtc.pacer import Pacer
from voxrtc.rtc.playout import AHEAD, LEAD, LOOKAHEAD, Clock, Frame, Playout
from voxrtc.rtc.sound import FADE, FRAME, FRAME_SECONDS, SampleQueue, Samples


def ramp(start: int, count: int, sign: int = 1) -> Samples:
    """Numbered samples, so that each can be recognised: never 0, of one sign a stream."""
    return (sign * (np.arange(start, start + count) % 30_000 + 1)).astype(np.int16)


@dataclass
class Told:
    """A `PlayoutListener` that remembers."""

    events: list[tuple[str, Clock]] = field(default_factory=list)

    def started(self, clock: Clock) -> None:
        self.events.append(("started", clock))

    def progress(self, clock: Clock) -> None:
        self.events.append(("progress", clock))

    def stopped(self, clock: Clock) -> None:
        self.events.append(("stopped", clock))

    def names(self) -> list[str]:
        return [name for name, _ in self.events if name != "progress"]


def encode(playout: Playout) -> None:
    for frame in playout.take():
        frame.payload = b"opus"


def play(playout: Playout) -> Frame | None:
    encode(playout)
    return playout.play()


def play_out(playout: Playout) -> list[Frame]:
    """All frames until the stream is over."""
    frames = []
    while playout.busy:
        frame = play(playout)
        assert frame is not None, "a finished stream has no gap"
        frames.append(frame)
    return frames


def own(frames: list[Frame]) -> Samples:
    return np.concatenate([frame.pcm[: frame.samples] for frame in frames] or [np.zeros(0, np.int16)])


# --- pace ---


@given(st.lists(st.floats(0, 0.3), max_size=60))
def test_frames_are_due_every_20_ms_and_missed_time_is_not_made_up(delays: list[float]) -> None:
    """However late each wake-up is: never two frames in less than no time, never more frames than time has passed."""
    pacer, now, sent = Pacer(), 100.0, []
    for delay in delays:
        now += pacer.wait(now) + delay
        pacer.sent(now)
        sent.append(now)
    for first, frame in enumerate(sent):
        in_window = sum(frame <= other < frame + 0.1 for other in sent[first:])
        assert in_window <= 0.1 / FRAME_SECONDS + 2  # at most one frame of lateness is caught up with


def test_small_lateness_does_not_add_up() -> None:
    pacer, now = Pacer(), 5.0
    pacer.sent(now)
    for number in range(1, 500):
        now += pacer.wait(now)
        assert now == pytest.approx(5.0 + number * FRAME_SECONDS)
        now += 0.004
        pacer.sent(now)


def test_a_late_wake_up_moves_the_schedule() -> None:
    pacer = Pacer()
    pacer.sent(10.0)
    assert pacer.wait(10.0) == pytest.approx(0.02)
    assert pacer.wait(11.0) == 0
    pacer.sent(11.0)
    assert pacer.wait(11.0) == pytest.approx(0.02)


def test_tracks_share_their_wake_ups() -> None:
    """Whenever they began, and whenever one was late."""
    pacers = [Pacer() for _ in range(5)]
    for number, pacer in enumerate(pacers):
        pacer.sent(10.0 + 0.0037 * number)
    pacers[3].sent(10.3041)
    due = {round(now + pacer.wait(now), 9) for pacer, now in zip(pacers, [10.02, 10.02, 10.02, 10.305, 10.02], strict=True)}
    assert all(round(each / FRAME_SECONDS, 6).is_integer() for each in due)
    pacers[3].sent(10.32)
    assert pacers[3].wait(10.32) == pytest.approx(0.02)


# --- order ---


@given(st.lists(st.integers(0, 3000), max_size=20), st.lists(st.integers(1, 2500), max_size=30))
def test_a_queue_gives_what_it_got(pushes: list[int], pops: list[int]) -> None:
    queue, total, out = SampleQueue(), sum(pushes), []
    start = 0
    for count in pushes:
        queue.push(ramp(start, count))
        start += count
    for count in pops:
        out.append(queue.pop(count))
        assert len(out[-1]) == min(count, total - sum(map(len, out[:-1])))
    out.append(queue.pop(total))
    assert np.array_equal(np.concatenate(out), ramp(0, total))


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=12))
def test_every_sample_is_played_once_in_order_for_any_chunks(chunks: list[int]) -> None:
    playout, told, start, frames = Playout(Told()), Told(), 0, []
    playout = Playout(told)
    playout.begin("a")
    for count in chunks:
        playout.push(ramp(start, count))
        start += count
        while playout.room < 5000:
            frames.append(play(playout))
    playout.finish()
    frames += play_out(playout)
    assert np.array_equal(own(frames), ramp(0, start))
    assert all(len(frame.pcm) == FRAME for frame in frames)
    assert playout.underruns == 0
    assert told.names() == ["started", "stopped"]
    assert told.events[-1][1] == Clock("a", start, 0, 0, False)


@given(st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 8)), min_size=1, max_size=25))
def test_arrival_times_change_nothing_but_the_gaps(arrivals: list[tuple[int, int]]) -> None:
    """Chunks with any number of frames played between them: order kept, each gap faded, counted and told."""
    told = Told()
    playout, start, frames = Playout(told, capacity=200_000), 0, []
    playout.begin("a")
    for count, ticks in arrivals:
        playout.push(ramp(start, count))
        start += count
        frames += [play(playout) for _ in range(ticks)]
    playout.finish()
    while playout.busy:
        frames.append(play(playout))
    heard = [frame for frame in frames if frame]
    fades = [frame for frame in heard if frame.payload is None]
    assert playout.underruns == len(fades) == told.events[-1][1].underruns
    assert sum(frame.samples for frame in heard) == start
    position = 0
    for before, frame in zip([None, *heard], heard, strict=False):
        resumed = before is not None and before.payload is None
        skip = FADE if resumed else 0
        part = frame.pcm[: frame.samples]
        assert np.array_equal(part[skip:], ramp(position, len(part))[skip:])
        assert not resumed or frame.pcm[0] == 0  # it comes back from nothing
        position += len(part)
    assert all(abs(int(fade.pcm[FADE:].max())) == 0 for fade in fades)


# --- bounds ---


@given(st.lists(st.integers(0, 9000), max_size=40))
def test_the_queue_is_bounded_and_pushes_back(pushes: list[int]) -> None:
    playout = Playout(Told(), capacity=10_000)
    playout.begin("a")
    for count in pushes:
        playout.push(np.ones(min(count, playout.room), np.int16))
        encode(playout)
        clock = playout.clock
        assert clock is not None
        assert clock.waiting <= 10_000 + AHEAD * FRAME
        assert playout.ahead <= AHEAD
    with pytest.raises(AssertionError):
        playout.push(np.ones(playout.room + 1, np.int16))


# --- the clock ---


def test_the_listener_is_told_when_the_clock_has_come_as_far_as_it_wished() -> None:
    told = Told()
    playout = Playout(told)
    playout.begin("a")
    playout.push(np.ones(20 * FRAME, np.int16))
    play(playout)
    playout.remind("a", 0.1)
    playout.remind("another", 0.05)
    told.events.clear()
    for _ in range(3):
        play(playout)
    assert not told.events
    for _ in range(10):
        play(playout)
    assert [clock.played for _, clock in told.events] == [0.1], "once"


# --- underruns ---


def test_an_underrun_fades_out_is_counted_once_and_fades_in() -> None:
    told = Told()
    playout = Playout(told)
    playout.begin("a")
    playout.push(np.full(2 * FRAME, 10_000, np.int16))
    assert [play(playout).payload for _ in range(2)] == [b"opus"] * 2
    fade = play(playout)
    assert fade is not None
    assert fade.payload is None
    assert fade.pcm[0] == 10_000  # no step
    assert np.all(np.diff(fade.pcm[:FADE].astype(int)) <= 0)
    assert not fade.pcm[FADE:].any()
    assert [play(playout) for _ in range(3)] == [None] * 3
    assert playout.underruns == 1
    assert playout.clock == Clock("a", 2 * FRAME, 0, 1, running=False)
    assert told.events[-1] == ("progress", playout.clock)  # the engine is told that the clock stands
    playout.push(np.full(FRAME, 10_000, np.int16))
    again = play(playout)
    assert again is not None
    assert again.pcm[0] == 0
    assert np.all(again.pcm[FADE:] == 10_000)
    assert again.run != fade.run  # an encoder of its own: its first packet leans on nothing lost
    assert told.events[-1][1].running


def test_waiting_for_the_first_sample_is_no_underrun() -> None:
    playout = Playout(Told())
    playout.begin("a")
    assert [play(playout) for _ in range(5)] == [None] * 5
    playout.push(np.ones(FRAME - 1, np.int16))
    assert play(playout) is None
    assert playout.underruns == 0


def test_the_end_is_no_underrun_and_no_step() -> None:
    playout = Playout(Told())
    playout.begin("a")
    playout.push(np.full(FRAME, 10_000, np.int16))
    play(playout)
    playout.finish()
    (tail,) = play_out(playout)
    assert tail.samples == 0
    assert tail.pcm[0] == 10_000
    assert not tail.pcm[FADE : FADE + LOOKAHEAD].any()
    assert playout.underruns == 0


def test_a_stream_that_ends_while_dry_is_over_at_once() -> None:
    told = Told()
    playout = Playout(told)
    playout.begin("a")
    playout.push(np.ones(FRAME, np.int16))
    play(playout)
    play(playout)
    playout.finish()
    assert told.names() == ["started", "stopped"]
    assert not playout.busy


def test_a_stream_without_sound_is_over_in_silence() -> None:
    told = Told()
    playout = Playout(told)
    playout.begin("a")
    playout.finish()
    assert not playout.busy
    assert told.events == []
    playout.begin("b")


# --- interruption ---


def test_flush_fades_what_was_coming_next() -> None:
    playout = Playout(Told())
    playout.begin("a")
    playout.push(ramp(0, 20 * FRAME))
    heard = play(playout)
    clock = playout.flush()
    assert clock == Clock("a", FRAME, 19 * FRAME, 0, True)
    fade = play(playout)
    assert heard is not None
    assert fade is not None
    assert fade.payload is None
    assert np.array_equal(fade.primer, heard.pcm)  # the fresh encoder hears what the listener heard
    assert fade.pcm[0] == FRAME + 1  # the next sample, at full loudness
    assert np.all(np.abs(fade.pcm[:FADE]) <= ramp(FRAME, FADE))
    assert not fade.pcm[FADE:].any()
    assert play(playout) is None


@given(st.integers(0, 12), st.booleans(), st.integers(1, 15_000), st.lists(st.booleans(), min_size=20, max_size=20))
def test_stale_generations_never_come_back(ticks: int, encoded: bool, count: int, encoded_late: list[bool]) -> None:
    """Whatever was queued, encoded or being encoded when the flush came: one fade, then only the new stream."""
    playout = Playout(Told())
    old = playout.begin("old")
    playout.push(ramp(0, count))
    for _ in range(ticks):
        play(playout)
    in_flight = playout.take() if encoded else []
    playout.flush()
    assert playout.generation != old
    playout.begin("new")
    playout.push(ramp(0, 10 * FRAME, sign=-1))
    heard = []
    for late in encoded_late:
        if late and in_flight:
            in_flight.pop().payload = b"stale"  # its encoder finishes only now
        heard.append(play(playout))
    sounds = [frame for frame in heard if frame is not None]
    if len(sounds) and sounds[0].payload is None and sounds[0].primer is not None:
        del sounds[0]
    assert all(frame.payload != b"stale" for frame in sounds)
    assert all(frame.pcm.max() <= 0 for frame in sounds)


def test_flush_of_silence_is_silent() -> None:
    playout = Playout(Told())
    assert playout.flush() is None
    playout.begin("a")
    playout.push(ramp(0, 5 * FRAME))
    encode(playout)
    playout.flush()  # nothing was heard yet
    assert play(playout) is None


def test_a_frame_still_being_encoded_is_late_and_no_underrun() -> None:
    playout = Playout(Told())
    playout.begin("a")
    playout.push(ramp(0, 3 * FRAME))
    frames = playout.take()
    assert playout.late
    for frame in frames:
        frame.payload = b"opus"
    assert not playout.late
    assert playout.play() is frames[0]
    assert playout.underruns == 0


def test_the_clock_is_told_while_it_runs() -> None:
    told = Told()
    playout = Playout(told, capacity=100 * FRAME)
    playout.begin("a")
    playout.push(ramp(0, 100 * FRAME))
    for _ in range(50):
        play(playout)
    sent = [clock.sent // FRAME for name, clock in told.events if name == "progress"]
    assert sent == [1, 25, 50]


# --- holding ---


def test_a_hold_fades_out_and_goes_on_where_it_came() -> None:
    """Some frames are played once more: an ear that was hushed at once did not get them."""
    told = Told()
    playout = Playout(told)
    playout.begin("a")
    playout.push(ramp(0, 30 * FRAME))
    for _ in range(10):
        play(playout)
    playout.hold()
    assert playout.clock == Clock("a", 10 * FRAME, 20 * FRAME, 0, running=False)
    assert told.events[-1] == ("progress", playout.clock)  # nobody takes it to run dry
    fade = play(playout)
    assert fade is not None
    assert fade.pcm[0] == 10 * FRAME + 1
    assert not fade.pcm[FADE:].any()
    assert [play(playout) for _ in range(50)] == [None] * 50
    assert playout.clock == Clock("a", 10 * FRAME, 20 * FRAME, 0, running=False)
    playout.resume()
    again = [play(playout) for _ in range(LEAD)]
    assert np.array_equal(again[0].pcm[FADE:], ramp((10 - LEAD) * FRAME, FRAME)[FADE:])
    assert again[0].pcm[0] == 0
    assert playout.clock == Clock("a", 10 * FRAME, 20 * FRAME, 0, running=True)
    playout.finish()
    assert np.array_equal(own(play_out(playout)), ramp(10 * FRAME, 20 * FRAME))
    assert playout.underruns == 0


def last(frame: Frame) -> int:
    return int(frame.pcm[frame.length - 1])


holds = st.lists(st.tuples(st.sampled_from(["push", "play", "hold", "resume"]), st.integers(1, 2_500)), max_size=60)


@given(holds)
def test_holds_lose_nothing_and_repeat_little(steps: list[tuple[str, int]]) -> None:
    """Whatever comes in whatever order: all samples, once as new ones and in order; what is repeated is contiguous, too."""
    playout, written, frames = Playout(Told(), capacity=1 << 20), 0, []
    playout.begin("a")
    for what, count in steps:
        if what == "push":
            playout.push(ramp(written, count))
            written += count
        elif what == "play":
            frames += [play(playout) for _ in range(count // 250)]
        elif what == "hold":
            playout.hold()
        else:
            playout.resume()
        clock = playout.clock
        assert clock is not None
        assert clock.sent + clock.waiting == written
        assert not (playout.held and clock.running)
    playout.resume()
    playout.finish()
    while playout.busy:
        frames.append(play(playout))
    new = end = 0
    for frame in (frame for frame in frames if frame is not None and frame.length):
        begin = new - (frame.length - frame.samples) if frame.samples else new - (new - last(frame) + frame.length) % 30_000
        # It comes back from nothing after a hold and after a gap.
        assert np.array_equal(frame.pcm[FADE : frame.length], ramp(begin, frame.length)[FADE:])
        assert begin == end or end - LEAD * FRAME <= begin < end
        new, end = new + frame.samples, begin + frame.length
    assert new == end == written


def test_what_is_held_before_it_began_begins_afterwards() -> None:
    told = Told()
    playout = Playout(told)
    playout.hold()
    playout.begin("a")
    playout.push(ramp(0, 5 * FRAME))
    assert [play(playout) for _ in range(3)] == [None] * 3
    assert told.events == []
    playout.resume()
    playout.finish()
    assert np.array_equal(own(play_out(playout)), ramp(0, 5 * FRAME))
    assert playout.underruns == 0


def test_flush_ends_a_hold() -> None:
    playout = Playout(Told())
    playout.begin("a")
    playout.push(ramp(0, 20 * FRAME))
    play(playout)
    playout.hold()
    play(playout)  # the fade
    assert playout.flush() == Clock("a", FRAME, 19 * FRAME, 0, running=False)
    assert play(playout) is None  # silence already: there is nothing to fade
    playout.begin("b")
    playout.push(ramp(0, FRAME, sign=-1))
    first = play(playout)
    assert first is not None
    assert np.array_equal(first.pcm, ramp(0, FRAME, sign=-1))
