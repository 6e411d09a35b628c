"""A request for speech on its way: when it passed each stage, told as a trace once it is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from voxrtc import traces
from voxrtc.engine.client import StreamFailed
from voxrtc.messages.engine import Generate, Timing
from voxrtc.traces import Span


@dataclass
class Way:
    """Times are `time.monotonic()`. `caller` has the headers of the request, which may name a trace that it is part of."""

    asked: float
    caller: Mapping[str, str] = field(default_factory=dict)
    timing: Timing | None = None
    sent: float | None = None  # its first sound

    @contextmanager
    def traced(self, request: Generate, model: str, kind: str) -> Iterator[None]:
        """The stream, from when the engine is asked until its last sound was taken, it failed, or its listener left."""
        outcome, failure = "left", ""
        try:
            yield
            outcome = "done"
        except StreamFailed as failed:
            outcome, failure = "failed", failed.code
            raise
        except Exception:
            outcome, failure = "failed", "internal_error"
            raise
        finally:
            about: dict[str, str | int] = {"stream": request.stream, "model": model, "format": kind, "outcome": outcome}
            if self.sent is not None:
                about["ttfa_ms"] = round(1000 * (self.sent - self.asked))
            traces.record(self.spans(request.accepted, time.monotonic()), about, failure, self.caller)

    def sounds(self, part: bytes) -> bytes:
        """A part that goes out, which may have no sound in it."""
        if part and self.sent is None:
            self.sent = time.monotonic()
        return part

    def spans(self, accepted: float, over: float) -> list[Span]:
        """The whole, then its stages, as far as it got. The request was all read when it was `accepted`."""
        engine = traces.engine(self.timing, "encode") or [("engine", accepted)]
        return traces.spans("speech", [("read", self.asked), *engine, ("download", self.sent)], over)
