"""The assistant's side of a session: the response that is being generated, and what of it and those before is still played."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from voxrtc.chat.events import EventError
from voxrtc.chat.response import Response
from voxrtc.chat.sent_track import AnyTrack
from voxrtc.chat.tally import Tally
from voxrtc.engine.fleet import Fleet
from voxrtc.rtc.playout import Clock
from voxrtc.rtc.sound import RATE
from voxrtc.rtc.track import PlayoutTrack

ENDING = 1.0  # seconds of sound: who says "yes" then does not mean to hear the rest


class Line(Protocol):
    """What a session needs of its peer."""

    @property
    def track(self) -> AnyTrack: ...

    @property
    def packets(self) -> int: ...  # of the microphone, that came; a client can tell from it whether it is heard

    paced: bool  # the track plays the sound; else the client does, and knows best how far it is

    def send(self, text: str) -> None: ...


class Speaking:
    """At most one response is generated at a time. It is the track's `PlayoutListener`. Nothing here waits."""

    def __init__(self, engines: Fleet, line: Callable[[], Line], tell: Callable[..., None], tally: Tally) -> None:
        """`tell` sends a server event, of a type and fields."""
        self._engines, self._line, self._tell, self._tally = engines, line, tell, tally
        self._active: Response | None = None  # being generated
        self._broke_in = False  # since the last response: the next one is a reply to that
        # Being generated, still to be played out, or played last: of that a broken line may have lost a part. By stream
        self._heard: dict[str, Response] = {}
        self._done: str | None = None  # the stream that was played out last

    @property
    def active(self) -> bool:
        """A response is being generated."""
        return self._active is not None

    @property
    def priority(self) -> bool:
        """The next response is one to somebody who broke in, or follows sound that still plays."""
        return self._broke_in or self._line().track.clock is not None

    @property
    def sounding(self) -> str | None:
        """The response that is played, or will be next."""
        clock = self._line().track.clock
        return clock.stream if clock else self._active.id if self._active else None

    def check_free(self) -> None:
        """Raises `EventError` while a response is being generated."""
        if self._active:
            message = f"Response {self._active.id} is in progress; cancel it or wait until it is done."
            raise EventError("conversation_already_has_active_response", message)

    def start(self, response: Response) -> None:
        assert self._active is None
        self._broke_in = False
        if self._done:
            self._heard.pop(self._done, None)
        self._active = self._heard[response.id] = response
        response.start(self._engines, self._line().track, self._generated)

    # --- its end, before its time ---

    def cancel(self, response_id: str | None) -> None:
        """The client wants no more of it. What is made plays on. Raises `EventError`."""
        if self._active is None or response_id not in (None, self._active.id):
            raise EventError("response_cancel_not_active", "There is no such response in progress.", "response_id")
        self._break_off(self._active)

    def hold(self) -> bool:
        """The person may be about to interrupt: be silent for now. False when there is nothing to silence, or the client is
        who plays, and does that."""
        line = self._line()
        if not line.paced or not self.sounding:
            return False
        assert isinstance(line.track, PlayoutTrack)
        line.track.hold()
        self._tell("voxrtc.held", response_id=self.sounding)
        return True

    @property
    def ending(self) -> bool:
        """All is made, and next to nothing is left to play."""
        clock = self._line().track.clock
        return self._active is None and clock is not None and clock.waiting < ENDING * RATE

    def resume(self) -> None:
        """It was nothing: go on where we stopped."""
        track = self._line().track
        assert isinstance(track, PlayoutTrack)
        track.resume()
        self._tell("voxrtc.resumed", response_id=self.sounding)

    def interrupt(self) -> None:
        """The person has begun to speak: neither generate nor play."""
        if self._active:
            self._break_off(self._active, "turn_detected")
        self.clear()

    def clear(self) -> None:
        """Play no more of it."""
        if clock := self._line().track.flush():
            self._broke_in = True
            if self._active and self._active.id == clock.stream:
                self._break_off(self._active)  # the rest would not be heard
            self._tell_paced("output_audio_buffer.cleared", response_id=clock.stream)
            self._played(clock, cut=True)

    def truncated(self, item_id: str) -> None:
        """The client has cut this item's sound off. Where it is the one who plays, it wants no more of it."""
        line = self._line()
        clock = line.track.clock
        if not line.paced and clock and self._heard[clock.stream].outputs.said == item_id:
            self.clear()

    def lose_voice(self, voice: str) -> None:
        """Nothing more is made in this voice."""
        if self._active and self._active.voice == voice:
            self._break_off(self._active)

    def close(self) -> None:
        if self._active:
            self._active.cancel()

    def _break_off(self, response: Response, reason: str = "client_cancelled") -> None:
        self._broke_in = self._broke_in or response.in_conversation
        response.cancel(reason)

    # --- the track's side (PlayoutListener) ---

    def started(self, clock: Clock) -> None:
        self._tell_paced("output_audio_buffer.started", response_id=clock.stream)
        if (response := self._heard.get(clock.stream)) and response.timing:
            stages = response.stages(time.monotonic())
            self._tell("voxrtc.timing", response_id=clock.stream, **stages)
            self._tally.began(response.model, stages)

    def progress(self, clock: Clock) -> None:
        if (response := self._heard.get(clock.stream)) and response.passed(clock):
            self._tell_heard(response, response.heard)
        if self._active and self._active.id == clock.stream:  # afterwards the engine no longer needs to know
            self._engines.report(self._active.playout(clock))

    def stopped(self, clock: Clock) -> None:
        self._tell_paced("output_audio_buffer.stopped", response_id=clock.stream)
        self._played(clock)

    def sent(self, stream: str, audio: str) -> None:
        """Sound that the client plays, on its way to it: base64."""
        self._tell("response.output_audio.delta", **self._heard[stream].outputs.place, delta=audio)

    def _generated(self, response: Response) -> None:
        self._active = None
        if not response.sounds:
            del self._heard[response.id]  # nobody will tell that it was played
            response.trace()

    def _played(self, clock: Clock, cut: bool = False) -> None:
        again, self._done = self._done == clock.stream, clock.stream
        if response := self._heard.get(clock.stream):
            if not again:
                self._tally.ended(response.model, clock.underruns)
                response.trace(clock.underruns)
            response.outputs.cut(clock.played)
            self._tell_heard(response, response.outputs.voiced.characters(clock.played))
            if cut and (item_id := response.outputs.said):
                end = round(1000 * clock.played)
                self._tell_paced("conversation.item.truncated", item_id=item_id, content_index=0, audio_end_ms=end)
        self._tell_paced("voxrtc.playout", response_id=clock.stream, played_ms=1000 * clock.played, underruns=clock.underruns)

    def _tell_heard(self, response: Response, characters: int) -> None:
        place = {"response_id": response.id, "item_id": response.outputs.message}
        self._tell_paced("voxrtc.heard", **place, characters=characters)

    def _tell_paced(self, type: str, **fields: Any) -> None:
        """What is known of the sound only where the track plays it."""
        if self._line().paced:
            self._tell(type, **fields)
