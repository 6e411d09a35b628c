"""Several replicas as one engine: what they count, also of those that are gone."""

from __future__ import annotations

from msgspec.structs import replace

from tests.fake_engine import ToneTransport
from voxrtc.engine.sums import added, counted
from voxrtc.messages.engine import EngineReply, GetStats, Stats, StepStats, StreamStats
from voxrtc.recent import WAITS, Durations, Histogram


def stats(frames: int, *first_sounds: float) -> Stats:
    durations, said = Durations(WAITS), list[EngineReply]()
    for seconds in first_sounds:
        durations.observe(seconds)
    tone = ToneTransport()
    tone.on_reply = said.append
    tone.send(GetStats(call=1))
    (empty,) = said
    assert isinstance(empty, Stats)
    return replace(empty, frames=frames, kv_pages=10, first_sounds=durations.histogram)


def test_histograms_are_added_as_counters_are() -> None:
    both = added(7, {"a": stats(3, 0.01, 0.12), "b": stats(4, 0.12, 99.0)})
    assert (both.call, both.frames, both.kv_pages) == (7, 7, 20)
    assert both.first_sounds == stats(0, 0.01, 0.12, 0.12, 99.0).first_sounds
    assert both.step_times == Histogram()


def test_who_has_a_stream_is_told() -> None:
    stream = StreamStats(stream="s", state="playing", frames=1, slack=None)
    both = added(7, {"a": replace(stats(0), streams=[stream]), "b": replace(stats(0), streams=[stream, stream])})
    assert [each.replica for each in both.streams] == ["a", "b", "b"]


def test_what_graphs_repeat_and_the_gaps_between_steps_are_told_of_all() -> None:
    few = replace(stats(0), codec_passes=4, codec_recorded=1, lately=StepStats(count=10, recorded=0.5, gap_ms=0.3))
    many = replace(stats(0), codec_passes=16, codec_recorded=14, lately=StepStats(count=30, recorded=0.9, gap_ms=0.1))
    both = added(7, {"a": few, "b": many})
    assert (both.codec_recorded, both.codec_passes) == (15, 20)
    assert (both.lately.recorded, both.lately.gap_ms) == (0.8, 0.15)


def test_what_a_replica_counted_stays_when_it_is_gone_and_what_it_had_does_not() -> None:
    past = counted(counted(None, stats(3, 0.12)), stats(100))
    left = added(8, {"b": stats(4, 0.3)}, past)
    assert (left.frames, left.kv_pages) == (107, 10)
    assert left.first_sounds.counts == stats(0, 0.12, 0.3).first_sounds.counts
