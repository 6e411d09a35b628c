"""What the person says, on its way to a model that hears, while it goes to the transcriber, too."""

from __future__ import annotations

from collections.abc import Callable

from voxrtc.asr.client import Reader, Transcriber
from voxrtc.engine.fleet import Fleet
from voxrtc.messages.conversation import Hear
from voxrtc.rtc.microphone import RATE

BATCH = 4096  # bytes that go together: 128 ms, and less at the end
KEPT = 32  # sounds that a session's engines keep for it; of older ones it has the words


class Ear:
    """A `Transcriber` that passes on what it gets, and gives the same to the model that is to answer, if that hears.

    It does so as the sound comes, so that little is left to be heard when the person has finished. What was no turn is
    forgotten there, too.
    """

    def __init__(self, transcriber: Transcriber, engines: Fleet, model: Callable[[], str], name: str) -> None:
        """`model` answers next; `name` is nobody else's."""
        self.about = transcriber.about
        self._transcriber, self._engines, self._model, self._name = transcriber, engines, model, name
        self._given: dict[str, str] = {}  # utterance -> the model that hears or heard it
        self._waiting: dict[str, bytearray] = {}  # of those that go on: what was not sent yet

    def hearing(self, utterance: str, model: str) -> str | None:
        """Under which id a model has heard all of this; None: it has not."""
        whole = self._given.get(utterance) == model and utterance not in self._waiting
        return self._id(utterance) if whole else None

    def given(self, utterance: str) -> bool:
        """Some model heard it, and answers without its words."""
        return utterance in self._given

    def drop(self, utterance: str) -> None:
        """No model will be asked about it again."""
        self._waiting.pop(utterance, None)
        if model := self._given.pop(utterance, None):
            self._engines.unhear(model, self._id(utterance))

    def close(self) -> None:
        for utterance in list(self._given):
            self.drop(utterance)

    # --- Transcriber ---

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        if self._engines.hears(self._model()):
            self._given[utterance], self._waiting[utterance] = self._model(), bytearray()
            self._send(utterance, pcm, first=True)
            if len(self._given) > KEPT:
                self.drop(next(iter(self._given)))
        self._transcriber.begin(utterance, reader, pcm)

    def hear(self, utterance: str, pcm: bytes) -> None:
        if (waiting := self._waiting.get(utterance)) is not None:
            waiting += pcm
            if len(waiting) >= BATCH:
                self._send(utterance, bytes(waiting))
                waiting.clear()
        self._transcriber.hear(utterance, pcm)

    def look(self, utterance: str) -> None:
        self._transcriber.look(utterance)

    def finish(self, utterance: str, speech: int) -> None:
        if (waiting := self._waiting.pop(utterance, None)) is not None:
            self._send(utterance, bytes(waiting), final=True)
        self._transcriber.finish(utterance, speech)

    def forget(self, utterance: str) -> None:
        self.drop(utterance)
        self._transcriber.forget(utterance)

    def _send(self, utterance: str, pcm: bytes, first: bool = False, final: bool = False) -> None:
        part = Hear(hearing=self._id(utterance), pcm=pcm, sample_rate=RATE, first=first, final=final)
        self._engines.hear(self._given[utterance], part)

    def _id(self, utterance: str) -> str:
        return f"{self._name}/{utterance}"
