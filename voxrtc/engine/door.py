"""The door of the engine: who is let in, who waits there and about how long, and what they are told of it.

No clock and no thread of its own: `now` comes in, and streams are told through their `reply`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import fmean

from voxrtc.engine.sampling import check
from voxrtc.engine.scheduler import turn
from voxrtc.engine.stream import State, Stream
from voxrtc.messages.engine import Failed, Generate, Queued
from voxrtc.messages.model import ModelInfo
from voxrtc.speechlm.base import InvalidRequest, SpeechLM

PATIENCE = 0.1  # seconds that a stream ready to speak may wait without a word
EVERY = 0.5  # seconds between notices to a stream that stays where it is
NOTICEABLE = 0.2  # of the expected wait: a change that is worth a notice
RETRY = (1.0, 60.0)  # seconds that one who is refused is sent away for

SHORTEST = 0.05  # seconds: a stay that counts as one
MEMORY = 32  # stays that the mean goes by
ODD = 1 / 16  # of these, the share at either end that does not count
USUAL = 1 / 3  # of the longest that a prompt may become, since that is a generous bound


class Stays:
    """How long streams stay inside, from admission to leaving by any end: the mean of the latest, without odd ones."""

    def __init__(self) -> None:
        self.mean: float | None = None  # seconds; None before the first
        self._latest: deque[float] = deque(maxlen=MEMORY)

    def observe(self, seconds: float) -> None:
        """Learn from a stream that left."""
        self._latest.append(max(seconds, SHORTEST))
        odd = int(ODD * len(self._latest))
        self.mean = fmean(sorted(self._latest)[odd : len(self._latest) - odd])

    def turnover(self, inside: int, guess: float) -> float:
        """Seconds from one that leaves to the next, by Little's law: all who are `inside` leave within a mean stay.

        `guess` stands for that mean until one is known.
        """
        stay = max(guess, SHORTEST) if self.mean is None else self.mean
        return stay / max(1, inside)


class Door:
    """The queue before the engine. Its bound is for strangers: a reply with `Generate.priority` is taken all the same.

    Background streams do not count for those who have somebody listening.
    """

    def __init__(self, info: ModelInfo, model: SpeechLM, max_waiting: int) -> None:
        self.stays = Stays()
        self._line = (0, 0, 0.0)  # how many waited at the latest look, with and without the background, and the turnover then
        self._info, self._model, self._max_waiting = info, model, max_waiting

    def refusal(self, request: Generate, streams: Mapping[str, Stream]) -> Failed | None:
        """Why a request is not taken; None when it is."""
        if request.stream in streams:
            return _failed(request, "invalid_request", f"Stream {request.stream} exists already.")
        if request.model not in ("", self._info.name):
            message = f"There is no model “{request.model}”. Loaded: {self._info.name}."
            return _failed(request, "model_not_found", message)
        if request.voice not in self._model.voices:
            message = f"There is no voice “{request.voice}”. Voices: {', '.join(self._model.voices)}."
            return _failed(request, "invalid_request", message)
        if not request.final and not self._model.runs:
            message = "A text that is still being written can't be spoken with this model. Please send all of it at once."
            return _failed(request, "invalid_request", message)
        if not request.final and request.instructions and self._model.instructed:
            message = "How to speak can't be said of a text that is still being written. Please send all of it at once."
            return _failed(request, "invalid_request", message)
        if request.conversation and not self._model.hears:
            message = f"“{self._info.name}” reads text out and cannot hear. To be answered, choose a speech-to-speech model."
            return _failed(request, "invalid_request", message)
        try:
            check(request.sampling)
        except InvalidRequest as wrong:
            return _failed(request, "invalid_request", str(wrong))
        return self.full(request)

    def tell(self, now: float, streams: Iterable[Stream]) -> None:
        """Tell those who wait where they stand, if that is news to them."""
        streams = list(streams)
        self.look(streams)
        line = [s for s in streams if s.state is State.WAITING and s.prepared]
        line.sort(key=lambda s: turn(s.received, s.head_start, s.id))
        turnover = self._line[2]
        for position, stream in enumerate(line, 1):
            notice = Queued(stream=stream.id, position=position, wait=position * turnover)
            if _is_news(now, stream, notice):
                stream.notice, stream.noticed = notice, now
                stream.reply(notice)

    def look(self, streams: Iterable[Stream]) -> None:
        """Take stock of who waits."""
        streams = list(streams)
        count = waiting(streams)
        self._line = count, _listening(streams), self._turnover(streams) if count else 0.0

    def full(self, request: Generate) -> Failed | None:
        """The refusal of a full queue, which says for how long it would have been waited in. From any thread.

        By the latest look, and those who came since count as waiting: in doubt a full queue refuses.
        """
        everyone, listening, turnover = self._line
        count = everyone if request.background else listening
        if request.priority or count < self._max_waiting:
            self._line = everyone + 1, listening + (not request.background), turnover
            return None
        shortest, longest = RETRY
        seconds = min(max((count + 1) * turnover, shortest), longest)
        inwards = "a second" if seconds <= 1 else f"{math.ceil(seconds)} seconds"
        message = f"The queue is full ({count} waiting). Please try again in about {inwards}."
        return _failed(request, "busy", message, seconds)

    def _turnover(self, streams: list[Stream]) -> float:
        seconds = [s.prepared.max_frames / self._model.frame_rate for s in streams if s.prepared]
        guess = USUAL * sum(seconds) / max(1, len(seconds))
        return self.stays.turnover(len(streams) - waiting(streams), guess)


def waiting(streams: Iterable[Stream]) -> int:
    """How many have not got in yet."""
    return sum(stream.state is State.WAITING for stream in streams)


def _listening(streams: Iterable[Stream]) -> int:
    """How many of those who wait have somebody listening."""
    return sum(stream.state is State.WAITING and not stream.request.background for stream in streams)


def _is_news(now: float, stream: Stream, notice: Queued) -> bool:
    """A word is due after a moment, when the position changes, and now and then when the expected wait does."""
    if (last := stream.notice) is None or last.position != notice.position:
        return now - stream.prompt_ready >= PATIENCE
    return now - stream.noticed >= EVERY and abs(notice.wait - last.wait) > NOTICEABLE * last.wait


def _failed(request: Generate, code: str, message: str, retry_after: float | None = None) -> Failed:
    return Failed(stream=request.stream, code=code, message=message, retry_after=retry_after)
