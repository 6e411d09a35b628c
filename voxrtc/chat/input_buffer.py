"""The session's `input_audio_buffer`: the microphone's sound becomes turns, and each turn an item with a transcript."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from voxrtc.asr.client import Transcriber
from voxrtc.chat import events
from voxrtc.chat.backchannel import is_backchannel
from voxrtc.chat.events import EventError
from voxrtc.chat.spoken import Spoken
from voxrtc.chat.turns import LONGEST, ONSET, Lasted, Paused, Started, Stopped, Turns, TurnSettings
from voxrtc.rtc.microphone import BLOCK_SECONDS
from voxrtc.rtc.sound import Samples

LEAST = 0.1  # seconds that can be committed
VERDICT = 1.2  # seconds of silence in which words may still tell an interruption from a backchannel
BRIEF = 0.5  # seconds of speech: where no words have told by then, what was shorter was a backchannel


class Listener(Protocol):
    """What the buffer needs of its session."""

    def tell(self, type: str, **fields: Any) -> None:
        """Send a server event."""

    def committed(self, id: str) -> None:
        """A turn is over: it becomes the conversation's last item."""

    def finished(self, id: str) -> None:
        """All sound of a committed turn is where it is to be heard. Its words come later."""

    def hold(self) -> bool:
        """The person may be about to interrupt: be silent for now. False when there is nothing to silence."""

    @property
    def ending(self) -> bool:
        """We had almost finished: what is said now may be the answer."""

    def resume(self) -> None:
        """It was no interruption."""

    def interrupt(self) -> None:
        """The person has begun to speak, and may interrupt."""

    def said(self, id: str, transcript: str | None) -> None:
        """The words of a committed turn; "": there were none; None: nobody could tell."""


class InputBuffer:
    """Sound goes in with `heard`. Who detects turns is a setting: we do, or (None) the client, with `commit`.

    Until a turn begins, the sound that may become part of it is kept here; then it goes to the transcriber as it comes.

    What begins while we speak is a turn only when it lasts, or when it has words that are no backchannel. Until then we are
    silent, and the client is not told of a turn, since to it that means an interruption.
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
        self._perhaps = False  # the open turn may be none
        self._at = 0.0  # where it begins
        self._given = self._speech = 0  # bytes of it that the transcriber has, and up to the end of its last speech
        self._voiced = time.monotonic()  # when speech was heard last
        self.speech_start = time.monotonic()  # when the last turn began
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
            self._given += block.nbytes
        else:
            self._before.append(block.tobytes())
        if self._turns is None:
            return
        happened = self._turns.hear(begin, self._now, self._detect(block))
        if self._turns.speaking:
            self._speech, self._voiced = self._given, time.monotonic()
        match happened:
            case Started(at=at):
                self._start(at)
            case Lasted():
                self._announce()
            case Paused():
                self._pause()
            case Stopped(at=at):
                self._stop(at)

    def commit(self) -> None:
        """The client says that the turn is over. Raises `EventError` when there is nothing in it."""
        if self._turns and self._turn:
            self._announce()
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

    def drop(self) -> None:
        """Forget the open turn."""
        if self._turn:
            self._transcriber.forget(self._turn.id)
        if self._perhaps:
            self._perhaps = False
            self._listener.resume()
        self._turn = None

    @property
    def speech_end(self) -> float:
        """When speech was last heard; now, where the client says when a turn is over."""
        return self._voiced if self._turns else time.monotonic()

    def describe(self, answered: bool) -> dict[str, Any]:
        """The `audio.input` of a session object. `answered`: there is somebody who could."""
        detection = self._describe(self.settings, answered) if self.settings else None
        return {"turn_detection": detection, "transcription": self._transcriber.about}

    @staticmethod
    def _describe(settings: TurnSettings, answered: bool) -> dict[str, Any]:
        common = {"create_response": settings.respond and answered, "interrupt_response": settings.interrupt}
        if settings.eagerness:
            return common | {"type": "semantic_vad", "eagerness": settings.eagerness}
        return common | {
            "type": "server_vad",
            "threshold": settings.threshold,
            "prefix_padding_ms": _ms(settings.prefix),
            "silence_duration_ms": _ms(settings.silence),
        }

    @property
    def _now(self) -> float:
        return self._blocks * BLOCK_SECONDS

    def _start(self, at: float) -> None:
        assert self.settings
        self._begin(round((self._now - at) / BLOCK_SECONDS))
        self._at = at
        self._perhaps = self.settings.interrupt and self._listener.hold()
        if not self._perhaps:
            self._tell_start()

    def _tell_start(self) -> None:
        assert self._turn and self.settings
        self._turn.announce()
        self._listener.tell("input_audio_buffer.speech_started", audio_start_ms=_ms(self._at), item_id=self._turn.id)
        if self.settings.interrupt:
            self._listener.interrupt()

    def _announce(self) -> None:
        """The open turn is one."""
        if self._perhaps:
            self._perhaps = False
            self._tell_start()

    def _pause(self) -> None:
        assert self._turns and self._turn
        self._transcriber.look(self._turn.id)
        if self._perhaps:
            self._turns.wait(VERDICT)

    def _guessed(self, turn: Spoken, words: str, heard: int, over: float) -> None:
        """What was said up to the present pause, unless it is over."""
        if turn is not self._turn or heard < self._speech or self._turns is None or self.settings is None:
            return
        if self._perhaps and is_backchannel(words) and not (words and self._listener.ending):
            self._turns.stop(self._now)
            return self.drop()
        self._announce()
        self._turns.wait(self.settings.patience(over))

    def _stop(self, at: float) -> None:
        assert self._turn and self._turns
        if self._perhaps and self._turns.length < BRIEF:
            return self.drop()
        self._announce()
        self._listener.tell("input_audio_buffer.speech_stopped", audio_end_ms=_ms(at), item_id=self._turn.id)
        self._end(self._turn)

    def _begin(self, blocks: int) -> Spoken:
        """A turn, of the last `blocks` so far."""
        self._turn = Spoken(events.new_id("item"), self._listener.tell, self._listener.said, self._guessed)
        self.speech_start = time.monotonic() - blocks * BLOCK_SECONDS
        pcm = b"".join(list(self._before)[-blocks:])
        self._given = self._speech = len(pcm)
        self._transcriber.begin(self._turn.id, self._turn, pcm)
        self._before.clear()
        return self._turn

    def _end(self, turn: Spoken) -> None:
        self._turn = None
        self._listener.committed(turn.id)
        turn.commit()
        self._transcriber.finish(turn.id, self._speech)
        self._listener.finished(turn.id)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
