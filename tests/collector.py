"""A collector of OpenTelemetry traces, over HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from voxrtc import traces


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
    def spans(self) -> list[Any]:
        """All of them, once `traces.close` has sent what waited."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.posted if path == "/v1/traces"]
        return [span for one in requests for r in one.resource_spans for s in r.scope_spans for span in s.spans]


def attributes(span: Any) -> dict[str, str | int]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """One that this process traces to. Skips where there is no library for that."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="requirements-otel.txt is not installed")
    collector = Collector()
    Thread(target=collector.server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server.server_port}")
    traces.configure()
    yield collector
    traces.close()
    collector.server.shutdown()
    collector.server.server_close()
