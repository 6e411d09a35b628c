"""What a conversation holds of the speech-to-text process."""

from __future__ import annotations

from typing import Protocol

from voxrtc.engine.transport import Connection
from voxrtc.messages.hearing import (
    Finish,
    Forget,
    Hear,
    HearingReply,
    HearingRequest,
    Hypothesis,
    Look,
    NotTranscribed,
    Transcript,
)

LOST = "Speech to text has stopped and is being restarted. Please say it again in a few seconds."


class Reader(Protocol):
    """Who wants an utterance's words. It is told one of the last two, once: `transcript` after `finish`, `unheard` any time."""

    def hypothesis(self, text: str, heard: int, over: float | None) -> None:
        """What was said in the first `heard` bytes; later ones may say otherwise. Upon a `look`, with how probably the
        speaker has finished."""

    def transcript(self, text: str) -> None:
        """What was said; "" when there are no words in it."""

    def unheard(self, code: str, message: str) -> None:
        """There will be no transcript."""


class Transcriber(Protocol):
    """Speech to text, for many utterances at a time. Nothing here waits, and nothing raises."""

    about: dict[str, str]  # its model, and its language if it has only one, as a session tells them

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        """A new utterance, under a fresh id, and its first sound."""

    def hear(self, utterance: str, pcm: bytes) -> None:
        """Its next sound: PCM16 of 16 kHz. Ignored when it is over."""

    def look(self, utterance: str) -> None:
        """The speaker pauses: a hypothesis of all that was heard is wanted soon."""

    def finish(self, utterance: str, speech: int) -> None:
        """Nothing follows; its reader will be told. There is no speech behind the first `speech` bytes."""

    def forget(self, utterance: str) -> None:
        """Its reader wants to hear nothing more of it."""


class HearingClient:
    """`Transcriber` in another process. Make and use it on one running event loop; it finds a restarted process by itself."""

    def __init__(self, address: str, about: dict[str, str]) -> None:
        self.about = about
        self._readers: dict[str, Reader] = {}
        self._connection = Connection(address, HearingReply, self._tell, self._changed)

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        self._readers[utterance] = reader
        if self._connection.connected:
            self._send(Hear(utterance=utterance, pcm=pcm, first=True))
        else:
            self._lose(utterance)

    def hear(self, utterance: str, pcm: bytes) -> None:
        self._send(Hear(utterance=utterance, pcm=pcm))

    def look(self, utterance: str) -> None:
        self._send(Look(utterance=utterance))

    def finish(self, utterance: str, speech: int) -> None:
        self._send(Finish(utterance=utterance, speech=speech))

    def forget(self, utterance: str) -> None:
        self._send(Forget(utterance=utterance))
        self._readers.pop(utterance, None)

    async def close(self) -> None:
        await self._connection.close()

    def _send(self, request: HearingRequest) -> None:
        if request.utterance in self._readers and not self._connection.send(request):
            self._lose(request.utterance)

    def _tell(self, reply: HearingReply) -> None:
        if isinstance(reply, Hypothesis):
            if reader := self._readers.get(reply.utterance):
                reader.hypothesis(reply.text, reply.heard, reply.over)
        elif reader := self._readers.pop(reply.utterance, None):
            match reply:
                case Transcript():
                    reader.transcript(reply.text)
                case NotTranscribed():
                    reader.unheard(reply.code, reply.message)

    def _changed(self, connected: bool) -> None:
        if not connected:
            for utterance in list(self._readers):
                self._lose(utterance)

    def _lose(self, utterance: str) -> None:
        if reader := self._readers.pop(utterance, None):
            reader.unheard("transcriber_lost", LOST)
