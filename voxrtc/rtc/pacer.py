"""The pace of a track. Pure: the clock is the caller's."""

from __future__ import annotations

from voxrtc.rtc.sound import FRAME_SECONDS


class Pacer:
    """When each frame is due, on the caller's clock (seconds).

    A wake-up more than one frame late moves the schedule: the missed time is gone, and is not sent in a burst.
    All tracks' frames are due at the same times, the multiples of 20 ms: to wake up costs more than to send a packet, and
    so it is done once for everybody.
    """

    def __init__(self) -> None:
        self._due: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until the next frame goes out; none when it is due already."""
        return 0.0 if self._due is None else max(0.0, self._due - now)

    def sent(self, now: float) -> None:
        """A frame goes out now: the next is due 20 ms after it was due, or 10 to 30 ms after now when it was late."""
        if self._due is None or now - self._due > FRAME_SECONDS:
            self._due = round(now / FRAME_SECONDS) * FRAME_SECONDS
        self._due += FRAME_SECONDS
