"""Turns as OpenTelemetry traces: what is told of them, over HTTP to a collector."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.chat.stage import Stage
from tests.chat.test_listening import said
from tests.fake_chat import Answers
from voxrtc import logs
from voxrtc.chat import traces
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


class Collector:
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, bytes]] = []
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                zipped = self.headers.get("Content-Encoding") == "gzip"
                posted.append((self.path, gzip.decompress(body) if zipped else body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def spans(self) -> list[object]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.posted if path == "/v1/traces"]
        return [span for one in requests for r in one.resource_spans for s in r.scope_spans for span in s.spans]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="requirements-otel.txt is not installed")
    collector = Collector()
    Thread(target=collector.server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server.server_port}")
    traces.configure()
    yield collector
    traces.close()
    collector.server.shutdown()


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
    (whole,) = [span for span in spans if not span.parent_span_id]  # type: ignore[attr-defined]
    stages = [span for span in spans if span is not whole]
    assert whole.name == "turn" and {span.trace_id for span in spans} == {whole.trace_id}  # type: ignore[attr-defined]
    assert {span.parent_span_id for span in stages} == {whole.span_id}  # type: ignore[attr-defined]
    names = [span.name for span in sorted(stages, key=lambda span: span.start_time_unix_nano)]  # type: ignore[attr-defined]
    assert set(names) == {*SPOKEN, *TYPED, "clause"}
    attributes = {each.key: each.value for each in whole.attributes}  # type: ignore[attr-defined]
    assert attributes["voxrtc.call"].string_value == "rtc_7"
    assert attributes["voxrtc.session"].string_value == session
    assert attributes["voxrtc.model"].string_value == "tone"
    assert attributes["voxrtc.underruns"].int_value == 0
    assert b"Indeed" not in b"".join(body for _, body in collector.posted)


def test_a_failure_is_told(collector: Collector) -> None:
    async def fails() -> None:
        async with Stage() as stage:
            stage.say("fail")
            await stage.event("response.done")

    asyncio.run(fails())
    traces.close()
    (whole,) = [span for span in collector.spans if not span.parent_span_id]  # type: ignore[attr-defined]
    assert (whole.status.code, whole.status.message) == (2, "engine_error")


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
