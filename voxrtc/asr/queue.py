"""Whose speech is transcribed next. Pure: the clock is the caller's (seconds)."""

from __future__ import annotations

from dataclasses import dataclass, field

EVERY = 0.4  # seconds between two looks at an utterance that goes on
SHARE = 3.0  # and at least this many times what the last look took, so that talkers leave time to those who are done
ENOUGH = 0.3  # seconds of new sound that a look is worth
LONGEST = 65.0  # seconds of an utterance that are kept
UTTERANCES = 128  # at a time
FORGOTTEN = 30.0  # seconds without sound, after which nobody is taken to wait for an unfinished one
SETTLED = 6.0  # seconds of an utterance after which the words up to a pause are not looked at again
BYTES = 32_000  # a second

Key = tuple[bytes, str]  # client and utterance


@dataclass(eq=False)
class Utterance:
    """Sound that comes in, and how far it was looked at."""

    key: Key
    pcm: bytearray = field(default_factory=bytearray)
    finished: bool = False
    speech: int = 0  # bytes that have speech in them, once it is finished
    wanted: bool = False  # a look, now
    looked: int = 0  # bytes at the last look
    text: str | None = None  # that it gave
    settled: tuple[str, int] = ("", 0)  # words that stay, and their bytes
    due: float = 0.0  # not looked at before
    heard: float = 0.0  # when sound came last


class Full(Exception):
    """There are `UTTERANCES` already."""


class HearingQueue:
    """All utterances that are not transcribed yet. Those that are finished come first, the first of them first; then those
    whose speaker pauses."""

    def __init__(self) -> None:
        self._open: dict[Key, Utterance] = {}
        self._finished: list[Utterance] = []

    def __len__(self) -> int:
        return len(self._open) + len(self._finished)

    def begin(self, key: Key, now: float) -> None:
        """A new utterance. Raises `Full`."""
        self._open = {key: each for key, each in self._open.items() if now - each.heard < FORGOTTEN}
        if len(self) >= UTTERANCES:
            raise Full
        self._open[key] = Utterance(key, due=now + EVERY, heard=now)

    def hear(self, key: Key, pcm: bytes, now: float) -> None:
        """More of an utterance. What is beyond `LONGEST` is dropped."""
        if utterance := self._open.get(key):
            utterance.heard = now
            room = round(LONGEST * BYTES) - len(utterance.pcm)
            utterance.pcm += pcm[: max(0, room)]

    def want(self, key: Key) -> None:
        """Its speaker pauses: look at it, once, before others that go on."""
        if utterance := self._open.get(key):
            utterance.wanted = True

    def finish(self, key: Key, speech: int) -> str | None:
        """Nothing of it follows, and there is no speech behind its first `speech` bytes. Its transcript, if the last look
        has seen them; otherwise it is to be transcribed."""
        utterance = self._open.pop(key, None)
        if utterance is None:
            return None
        if utterance.text is not None and utterance.looked >= speech:
            return utterance.text
        utterance.finished, utterance.speech = True, speech
        self._finished.append(utterance)
        return None

    def forget(self, key: Key) -> None:
        """Drop it, whatever it is."""
        self._open.pop(key, None)
        self._finished = [each for each in self._finished if each.key != key]

    def next(self, now: float) -> Utterance | None:
        """The next to be transcribed, as far as it goes; a finished one leaves the queue."""
        if self._finished:
            return self._finished.pop(0)
        ready = [each for each in self._open.values() if each.wanted or (each.due <= now and self._is_worth_it(each))]
        return min(ready, key=lambda each: (not each.wanted, each.due), default=None)

    def looked(self, utterance: Utterance, heard: int, text: str, took: float, now: float, paused: bool = False) -> None:
        """`heard` bytes of it were transcribed as `text`, in `took` seconds; they end in a pause of the speaker, or may not."""
        utterance.looked, utterance.text = heard, text
        if paused and heard - utterance.settled[1] >= SETTLED * BYTES:
            utterance.settled = text, heard
        utterance.due = now + max(EVERY, SHARE * took)

    def wait(self, now: float) -> float | None:
        """Seconds until something may be due, if nothing else comes; None: only news can change that."""
        dues = [now if each.wanted else each.due for each in self._open.values() if each.wanted or self._is_worth_it(each)]
        return max(0.0, min(dues) - now) if dues else None

    @staticmethod
    def _is_worth_it(utterance: Utterance) -> bool:
        return len(utterance.pcm) - utterance.looked >= ENOUGH * BYTES
