"""Requests for speech as OpenTelemetry traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.collector import Collector, attributes, collecting
from tests.fake_engine import ToneTransport, tones
from voxrtc import traces
from voxrtc.api.encoders import ENCODERS, Wav
from voxrtc.api.speech import sound
from voxrtc.api.way import Way
from voxrtc.messages.engine import Generate

pytestmark = pytest.mark.anyio
PATH = "/v1/audio/speech"
STAGES = ["read", "engine", "prompt", "queue", "first_frame", "first_chunk", "encode", "download"]
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting(monkeypatch) as collector:
        yield collector


def told(collector: Collector) -> tuple[Any, list[Any]]:
    """The whole of the one request, and its stages in order."""
    traces.close()
    *stages, whole = collector.spans
    assert {(span.trace_id, span.parent_span_id) for span in stages} == {(whole.trace_id, whole.span_id)}
    ends = [span.end_time_unix_nano for span in stages]
    assert [span.start_time_unix_nano for span in stages] == [whole.start_time_unix_nano, *ends[:-1]]
    assert whole.name == "speech" and whole.end_time_unix_nano == ends[-1]
    return whole, stages


def names(stages: list[Any]) -> list[str]:
    return [span.name for span in stages]


@pytest.mark.parametrize("kind", list(ENCODERS))
async def test_a_request_is_one_trace_without_a_word_of_it(http: httpx.AsyncClient, collector: Collector, kind: str) -> None:
    answer = await http.post(PATH, json={"input": "seldom", "response_format": kind})
    whole, stages = told(collector)
    about = attributes(whole)
    assert names(stages) == STAGES and not whole.parent_span_id
    assert (about["voxrtc.model"], about["voxrtc.format"], about["voxrtc.outcome"]) == ("tone", kind, "done")
    assert about["voxrtc.stream"] == answer.headers["X-Request-Id"]
    heard = (stages[-1].start_time_unix_nano - whole.start_time_unix_nano) / 1e6
    assert about["voxrtc.ttfa_ms"] == pytest.approx(heard, abs=1)
    assert b"seldom" not in b"".join(body for _, body in collector.posted)


async def test_it_is_part_of_its_callers_trace(http: httpx.AsyncClient, collector: Collector) -> None:
    await http.post(PATH, json={"input": "one"}, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    whole, _ = told(collector)
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (TRACE, PARENT)


@pytest.mark.parametrize("parent", ["", "00-nonsense", f"00-{'0' * 32}-{PARENT}-01", "\xe9" * 600])
async def test_a_caller_that_names_none_begins_one(http: httpx.AsyncClient, collector: Collector, parent: str) -> None:
    answer = await http.post(PATH, json={"input": "one"}, headers={"traceparent": parent.encode("latin-1")})
    whole, _ = told(collector)
    assert answer.status_code == 200 and not whole.parent_span_id


async def test_a_caller_that_samples_nothing_of_it_is_heeded(http: httpx.AsyncClient, collector: Collector) -> None:
    await http.post(PATH, json={"input": "one"}, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    traces.close()
    assert not collector.spans


async def test_a_failure_is_told(http: httpx.AsyncClient, collector: Collector) -> None:
    assert (await http.post(PATH, json={"input": "fail"})).status_code == 500
    whole, stages = told(collector)
    assert (whole.status.code, whole.status.message) == (2, "engine_error")
    assert names(stages) == STAGES[:2] and "voxrtc.ttfa_ms" not in attributes(whole)


async def test_a_listener_who_leaves_is_told(collector: Collector) -> None:
    request = Generate(stream="http_1", text="one two three", accepted=0.0)
    parts = sound(tones(ToneTransport()), request, Wav, Way(0.0))
    await anext(parts)
    await parts.aclose()
    whole, stages = told(collector)
    assert attributes(whole)["voxrtc.outcome"] == "left" and whole.status.code == 0 and names(stages) == STAGES
