"""The session's `input_audio_buffer`: the microphone's sound becomes turns, and each turn an item with a transcript."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from voxrtc.asr.client import Transcriber
from voxrtc.chat import events
from voxrtc.chat.events import EventError
from voxrtc.chat.spoken import Spoken
from voxrtc.chat.turns import LONGEST, ONSET, Started, Stopped, Turns, TurnSettings
from voxrtc.rtc.microphone import BLOCK_SECONDS
from voxrtc.rtc.sound import Samples

LEAST = 0.1  # seconds that can be committed


class Listener(Protocol):
    """What the buffer needs of its session."""

    def tell(self, type: str, **fields: Any) -> None:
        """Send a server event."""

    def committed(self, id: str) -> None:
        """A turn is over: it becomes the conversation's last item."""

    def interrupt(self) -> None:
        """The person has begun to speak, and may interrupt."""

    def said(self, id: str, transcript: str | None) -> None:
        """The words of a committed turn; "": there were none; None: nobody could tell."""


class InputBuffer:
    """Sound goes in with `heard`. Who detects turns is a setting: we do, or (None) the client, with `commit`.

    Until a turn begins, the sound that may become part of it is kept here; then it goes to the transcriber as it comes.
    """

    def __init__(
        self,
        listener: Listener,
        transcriber: Transcriber,
        detect: Callable[[Samples], float],
        settings: TurnSettings | None,
    ) -> None:
        self._listener, self._transcriber, self._detect = listener, transcriber, detect
        self._blocks = 0  # heard
        self._turn: Spoken | None = None
        self.configure(settings)

    def configure(self, settings: TurnSettings | None) -> None:
        """Detect turns in another way, from now on. What is open is dropped."""
        self.drop()
        self.settings = settings
        self._turns = Turns(settings) if settings else None
        keep = settings.prefix + ONSET if settings else LONGEST
        self._before: deque[bytes] = deque(maxlen=round(keep / BLOCK_SECONDS) + 1)

    def heard(self, block: Samples) -> None:
        """The next block of the microphone."""
        begin = self._blocks * BLOCK_SECONDS
        self._blocks += 1
        if self._turn:
            self._transcriber.hear(self._turn.id, block.tobytes())
        else:
            self._before.append(block.tobytes())
        if self._turns is None:
            return
        match self._turns.hear(begin, self._now, self._detect(block)):
            case Started(at=at):
                self._start(at)
            case Stopped(at=at):
                assert self._turn
                self._listener.tell("input_audio_buffer.speech_stopped", audio_end_ms=_ms(at), item_id=self._turn.id)
                self._end(self._turn)

    def commit(self) -> None:
        """The client says that the turn is over. Raises `EventError` when there is nothing in it."""
        if self._turns and self._turn:
            self._turns.stop(self._now)
        elif self._turns is None and len(self._before) * BLOCK_SECONDS >= LEAST:
            self._begin(len(self._before))
        else:
            message = f"There is less than {LEAST * 1000:.0f} ms of sound in the buffer: nothing to commit."
            raise EventError("input_audio_buffer_commit_empty", message)
        assert self._turn
        self._end(self._turn)

    def clear(self) -> None:
        """The client wants the sound so far to be forgotten."""
        self.drop()
        self._before.clear()
        if self._turns:
            self._turns.stop(self._now)
        self._listener.tell("input_audio_buffer.cleared")

    def transcribe(self, id: str, pcm: bytes, said: Callable[[str, str | None], None]) -> None:
        """The words of a sound (16 kHz) that the client has given as an item of the conversation: nothing follows upon them."""
        spoken = Spoken(id, self._listener.tell, said)
        self._transcriber.begin(id, spoken, pcm)
        spoken.commit()
        self._transcriber.finish(id)

    def drop(self) -> None:
        """Forget the open turn."""
        if self._turn:
            self._transcriber.forget(self._turn.id)
        self._turn = None

    def describe(self, answered: bool) -> dict[str, Any]:
        """The `audio.input` of a session object. `answered`: there is somebody who could."""
        settings = self.settings
        detection = settings and {
            "type": "server_vad",
            "threshold": settings.threshold,
            "prefix_padding_ms": _ms(settings.prefix),
            "silence_duration_ms": _ms(settings.silence),
            "create_response": settings.respond and answered,
            "interrupt_response": settings.interrupt,
        }
        return {"turn_detection": detection, "transcription": {"model": "moonshine-tiny", "language": "en"}}

    @property
    def _now(self) -> float:
        return self._blocks * BLOCK_SECONDS

    def _start(self, at: float) -> None:
        turn = self._begin(round((self._now - at) / BLOCK_SECONDS))
        self._listener.tell("input_audio_buffer.speech_started", audio_start_ms=_ms(at), item_id=turn.id)
        if self.settings and self.settings.interrupt:
            self._listener.interrupt()

    def _begin(self, blocks: int) -> Spoken:
        """A turn, of the last `blocks` so far."""
        self._turn = Spoken(events.new_id("item"), self._listener.tell, self._listener.said)
        self._transcriber.begin(self._turn.id, self._turn, b"".join(list(self._before)[-blocks:]))
        self._before.clear()
        return self._turn

    def _end(self, turn: Spoken) -> None:
        self._turn = None
        self._listener.committed(turn.id)
        turn.commit()
        self._transcriber.finish(turn.id)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
