"""Speech to text without a model, for tests: it says what it is told to say, when it is told to."""

from __future__ import annotations

from voxrtc.asr.client import Reader
from voxrtc.rtc.sound import Samples


class Hearing:
    """A `Transcriber` that keeps the sound of each utterance. `answer` is every transcript, and what a look sees, with `over`;
    None: the test gives it."""

    def __init__(self, answer: str | None = "hello there") -> None:
        self.about = {"model": "fake", "language": "en"}
        self.answer = answer
        self.over = 0.5
        self.readers: dict[str, Reader] = {}
        self.sound: dict[str, bytes] = {}
        self.looks: list[tuple[str, int]] = []  # with the bytes heard by then
        self.finished: list[str] = []
        self.forgotten: list[str] = []
        self.lost = False

    def begin(self, utterance: str, reader: Reader, pcm: bytes) -> None:
        assert utterance not in self.sound
        self.readers[utterance], self.sound[utterance] = reader, pcm
        if self.lost:
            self.readers.pop(utterance).unheard("transcriber_lost", "It is away.")

    def hear(self, utterance: str, pcm: bytes) -> None:
        self.sound[utterance] += pcm

    def look(self, utterance: str) -> None:
        self.looks.append((utterance, len(self.sound[utterance])))
        if self.answer is not None and utterance in self.readers:
            self.tell(utterance, self.answer, self.over)

    def tell(self, utterance: str, text: str, over: float) -> None:
        """What a look sees of all the sound so far."""
        self.readers[utterance].hypothesis(text, len(self.sound[utterance]), over)

    def finish(self, utterance: str, speech: int) -> None:
        assert speech <= len(self.sound[utterance])
        self.finished.append(utterance)
        if self.answer is not None and utterance in self.readers:
            self.readers.pop(utterance).transcript(self.answer)

    def forget(self, utterance: str) -> None:
        self.forgotten.append(utterance)


def loudness(block: Samples) -> float:
    """A voice detector for blocks that are all speech or all silence."""
    return 1.0 if abs(int(block[0])) > 1_000 else 0.0
