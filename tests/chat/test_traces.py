"""Turns as OpenTelemetry traces: what is told of them, over HTTP to a collector."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import Iterator
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.chat.stage import Stage
from tests.chat.test_listening import said
from tests.collector import Collector, attributes, collecting
from tests.fake_chat import Answers
from tests.waiting import PATIENCE
from voxrtc import logs, traces
from voxrtc.chat.spans import way
from voxrtc.chat.stages import Marks, Turn
from voxrtc.messages.engine import Timing

SPOKEN = ["microphone", "silence", "transcript"]
TYPED = ["reply", "engine", "prompt", "queue", "first_frame", "first_chunk", "track", "heard"]


@given(some.lists(some.floats(0, 10), min_size=13, max_size=13), some.booleans(), some.booleans())
def test_stages_follow_each_other_and_make_up_the_whole(gaps: list[float], spoken: bool, replied: bool) -> None:
    times = [sum(gaps[: number + 1]) for number in range(13)]
    began, end, over, asked, token, accepted, received, ready, step, frame, chunk, sent, heard = times
    timing = Timing(
        accepted=accepted, received=received, prompt_ready=ready, first_step=step, first_frame=frame, first_chunk=chunk
    )
    marks = Marks(asked, Turn(end, over, began) if spoken else None, token if replied else None)
    whole, *stages = way(marks, timing, sent, heard)
    assert [stage.name for stage in stages if stage.name != "clause"] == [*(SPOKEN if spoken else []), *TYPED]
    assert stages[0].begin == whole.begin == (began if spoken else asked) and stages[-1].end == whole.end == heard
    assert all(before.end == after.begin for before, after in itertools.pairwise(stages))


def test_what_came_to_nothing_is_told_as_far_as_it_got() -> None:
    assert [span.name for span in way(Marks(1.0), None, None, 4.0)] == ["turn", "reply"]
    assert [span.name for span in way(Marks(1.0, Turn(0.5, 0.9, 0.1), 3.0), None, None, 4.0)] == [
        "turn",
        *SPOKEN,
        "reply",
        "clause",
    ]


# --- with a collector ---


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting(monkeypatch) as collector:
        yield collector


async def a_turn() -> str:
    """Of a call `rtc_7`; its session's id."""
    logs.about(call="rtc_7")
    async with Stage(replier=Answers("Indeed it did.")) as stage:
        logs.about(call="another", session="another's")  # whose turn of the loop it is
        said(stage)
        await stage.event("voxrtc.playout")
        return stage.session.id


def test_a_spoken_turn_is_one_trace_without_a_word_of_it(collector: Collector) -> None:
    session = asyncio.run(a_turn())
    traces.close()
    spans = collector.spans
    (whole,) = [span for span in spans if not span.parent_span_id]
    stages = [span for span in spans if span is not whole]
    assert whole.name == "turn" and {span.trace_id for span in spans} == {whole.trace_id}
    assert {span.parent_span_id for span in stages} == {whole.span_id}
    names = [span.name for span in sorted(stages, key=lambda span: span.start_time_unix_nano)]
    assert set(names) == {*SPOKEN, *TYPED, "clause"}
    told = attributes(whole)
    assert (told["voxrtc.call"], told["voxrtc.session"], told["voxrtc.model"]) == ("rtc_7", session, "tone")
    assert told["voxrtc.underruns"] == 0
    assert b"Indeed" not in b"".join(body for _, body in collector.posted)


def test_a_failure_is_told(collector: Collector) -> None:
    async def fails() -> None:
        async with Stage() as stage:
            stage.say("fail")
            await stage.event("response.done")

    asyncio.run(fails())
    traces.close()
    (whole,) = [span for span in collector.spans if not span.parent_span_id]
    assert (whole.status.code, whole.status.message) == (2, "engine_error")


def test_a_collector_that_never_answers_keeps_nobody_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="requirements-otel.txt is not installed")
    monkeypatch.setattr(traces, "PATIENCE", 0.05)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        traces.configure()
        traces.record([traces.Span("turn", 0.0, 1.0)], {})
        ended, closing = Event(), Thread(target=lambda: (traces.close(), ended.set()), daemon=True)
        closing.start()
        assert ended.wait(PATIENCE), "the collector has five minutes"
    assert traces._provider is None


def test_without_an_endpoint_nothing_is_even_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in traces.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    traces.configure()
    assert traces._provider is None
    asyncio.run(a_turn())


def test_an_endpoint_without_the_library_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    traces.configure()
    assert "requirements-otel.txt" in caplog.text and traces._provider is None
