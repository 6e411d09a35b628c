"""What a broken line lost is played once more over the next: nothing is lost, and nothing heard comes again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.rtc.test_playout import Told, own, play, play_out, ramp
from voxrtc.rtc.playout import PAST, Frame, Playout
from voxrtc.rtc.sound import FADE, FRAME


def begun(frames: int, told: Told | None = None) -> Playout:
    playout = Playout(told or Told(), capacity=1 << 22)
    playout.begin("a")
    playout.push(ramp(0, frames * FRAME))
    return playout


def heard(frames: list[Frame | None]) -> np.ndarray:
    return np.concatenate([frame.pcm[: frame.length] for frame in frames if frame is not None])


def alike(sound: np.ndarray, samples: int) -> bool:
    """The first so many samples in order, but for places where it comes back from nothing."""
    return len(sound) == samples and (sound == ramp(0, samples)).sum() >= samples - 2 * FADE


@given(frames=st.integers(5, 60), lost=st.integers(0, 40), more=st.integers(0, 20), held=st.booleans(), finish=st.booleans())
def test_what_was_not_heard_is_played_again(frames: int, lost: int, more: int, held: bool, finish: bool) -> None:
    """The clock goes back with it; at its end all has been heard once, however often it was sent."""
    told = Told()
    playout = begun(frames, told)
    if finish:
        playout.finish()
    played = [play(playout) for _ in range(min(frames - 1, lost + more))]
    if held:
        playout.stall()
    reached = max(0, len(played) - lost)
    playout.rewind(reached)
    clock = playout.clock
    assert clock is not None
    assert clock.sent == reached * FRAME and clock.sent + clock.waiting == frames * FRAME
    assert not clock.running or not lost or not played
    playout.finish()
    rest = play_out(playout)
    assert alike(heard([*played[:reached], *rest]), frames * FRAME)
    assert told.names() == ["started", "stopped"] and playout.underruns == 0
    assert told.events[-1][1].sent == frames * FRAME


def test_a_stream_that_was_played_to_nobody_plays_its_end_again() -> None:
    told = Told()
    playout = begun(10, told)
    playout.finish()
    sent = play_out(playout)
    assert not playout.busy
    playout.rewind(6)
    assert playout.busy and playout.clock and playout.clock.sent == 6 * FRAME
    rest = play_out(playout)
    assert alike(heard([*sent[:6], *rest]), 10 * FRAME)
    assert told.names() == ["started", "stopped", "stopped"]
    assert np.abs(rest[-1].pcm[-FADE // 2 :]).max() == 0, "its end is no step"


def test_what_was_interrupted_or_is_over_does_not_come_back() -> None:
    playout = begun(20)
    for _ in range(10):
        play(playout)
    playout.flush()
    playout.rewind(0)
    assert not playout.busy
    playout.begin("b")
    playout.push(ramp(0, 5 * FRAME, sign=-1))
    playout.finish()
    first = play_out(playout)
    playout.begin("c")
    playout.push(ramp(0, 5 * FRAME))
    playout.rewind(0)  # of "c" nothing has gone out yet, and "b" is over
    playout.finish()
    assert own(first).max() < 0 < own(play_out(playout)).min()


def test_a_hold_outlasts_a_broken_line() -> None:
    """Somebody was about to interrupt when it broke."""
    playout = begun(20)
    sent = [play(playout) for _ in range(10)]
    playout.hold()
    play(playout)  # the fade
    playout.rewind(2)
    assert play(playout) is None
    playout.resume()
    playout.finish()
    assert alike(heard([*sent[:2], *play_out(playout)]), 20 * FRAME)


def test_memory_is_bounded() -> None:
    playout = begun(2 * PAST)
    for _ in range(2 * PAST - 1):
        play(playout)
    playout.rewind(0)
    assert playout.clock and playout.clock.sent == (PAST - 1) * FRAME
