"""What was said, as OpenTelemetry traces, where an OTLP endpoint is set as everywhere (`OTEL_EXPORTER_OTLP_ENDPOINT`), which
takes HTTP. Like a log: one for the process, and nothing where it is not wanted."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING

from voxrtc.messages.engine import Timing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SERVICE = "voxrtc"
PATIENCE = 1.0  # seconds that a collector has at the end; a program that is asked to end has more to do

log = logging.getLogger(__name__)
_provider: TracerProvider | None = None

Point = tuple[str, float | None]  # the name of what begins then, by `time.monotonic()`; None: it never did


@dataclass(frozen=True)
class Span:
    name: str
    begin: float
    end: float


def spans(name: str, points: Sequence[Point], over: float) -> list[Span]:
    """The whole, then its stages: each ends where the next one begins, and the last one when all was `over`."""
    begins = [(stage, at) for stage, at in points if at is not None]
    stages = [Span(stage, begin, max(begin, end)) for (stage, begin), (_, end) in pairwise([*begins, ("", over)])]
    return [Span(name, begins[0][1], over), *stages]


def engine(timing: Timing | None, after: str) -> list[Point]:
    """The engine's stages up to the first sound, and what comes `after`; none of a stream that made none."""
    if timing is None:
        return []
    points: list[Point] = [("engine", timing.accepted), ("prompt", timing.received), ("queue", timing.prompt_ready)]
    return [*points, ("first_frame", timing.first_step), ("first_chunk", timing.first_frame), (after, timing.first_chunk)]


def configure() -> None:
    """Trace from here on, if the environment says where to."""
    if not any(map(os.environ.get, ENDPOINTS)):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        log.warning("nothing is traced, though an endpoint is set (%s): pip install -r requirements-otel.txt", error)
        return
    export(OTLPSpanExporter())


def export(exporter: SpanExporter) -> None:
    """Trace to this, from a thread of its own. Service name, attributes and sampling are the environment's to say."""
    global _provider
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = os.environ.get("OTEL_SERVICE_NAME", SERVICE)
    _provider = TracerProvider(resource=Resource.create({SERVICE_NAME: named}))
    _provider.add_span_processor(BatchSpanProcessor(exporter))


def record(
    spans: Sequence[Span], about: Mapping[str, str | int], failure: str = "", caller: Mapping[str, str] | None = None
) -> None:
    """The whole, and what it is made of; `failure` is a code. No words of anybody's go into `about`.

    It is part of the trace that a `caller` names in the headers of its request: W3C's `traceparent`.
    """
    if _provider is None:
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import Status, StatusCode, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    tracer, now = _provider.get_tracer(SERVICE), time.time_ns() - time.monotonic_ns()
    whole, *stages = spans
    attributes = {f"voxrtc.{name}": value for name, value in about.items()}
    within = TraceContextTextMapPropagator().extract(caller or {}, Context())
    parent = tracer.start_span(whole.name, within, attributes=attributes, start_time=now + _ns(whole.begin))
    for stage in stages:
        span = tracer.start_span(stage.name, set_span_in_context(parent, Context()), start_time=now + _ns(stage.begin))
        span.end(now + _ns(stage.end))
    if failure:
        parent.set_status(Status(StatusCode.ERROR, failure))
    parent.end(now + _ns(whole.end))


def close() -> None:
    """Send what waits, as far as the collector takes it."""
    global _provider
    if _provider:
        last = Thread(target=_provider.shutdown, name="last traces", daemon=True)
        last.start()
        last.join(PATIENCE)
        _provider = None


def _ns(seconds: float) -> int:
    return round(1e9 * seconds)
