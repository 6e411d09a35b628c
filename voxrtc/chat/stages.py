"""Where the time goes between a person's last word, or the request, and the first sample of the answer."""

from __future__ import annotations

from dataclasses import dataclass

from voxrtc.messages.engine import Timing


@dataclass(frozen=True)
class Turn:
    """What the person said, as it passed each stage. Times are `time.monotonic()`."""

    speech_end: float  # the last speech came in
    over: float  # it was taken for over
    began: float | None = None  # the first


@dataclass
class Marks:
    """A response on its way to its first sample."""

    asked: float
    turn: Turn | None = None  # that it answers, if that was spoken
    token: float | None = None  # the reply's first bit came

    def told(self, timing: Timing, sent: float) -> dict[str, float | None]:
        """`voxrtc.timing`: milliseconds of each stage up to the first sample, `sent` then. Those from `token` on make `total`.

        `silence` and `words` come before, where the answered turn was spoken: until it was taken for over, and until it was
        written down and answered. `token` is waiting for the reply's first bit, `clause` for enough of it to be spoken;
        `queue` all waiting for the engine, before and after the prompt; `track` the way from the engine to here, encoding,
        and the wait for the next packet's turn. `server_time` is `sent`, by the clock that `voxrtc.pong` tells.
        """
        token = timing.accepted if self.token is None else min(self.token, timing.accepted)
        spoken = (None, None) if self.turn is None else (self.turn.over - self.turn.speech_end, self.asked - self.turn.over)
        seconds = {
            "silence": spoken[0],
            "words": spoken[1],
            "token": token - self.asked,
            "clause": timing.accepted - token,
            "queue": timing.received - timing.accepted + timing.first_step - timing.prompt_ready,
            "prompt": timing.prompt_ready - timing.received,
            "first_frame": timing.first_frame - timing.first_step,
            "first_chunk": timing.first_chunk - timing.first_frame,
            "track": sent - timing.first_chunk,
            "total": sent - self.asked,
            "server_time": sent,
        }
        return {stage: each if each is None else round(1000 * each, 2) for stage, each in seconds.items()}
