"""A stream's text becomes prompts, a piece at a time, off the step loop: all at once, or as the text comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

from voxrtc.engine.conversing import converse
from voxrtc.engine.hearings import Hearings
from voxrtc.engine.imitations import Imitations
from voxrtc.engine.running import Running
from voxrtc.engine.stream import Passage, Stream
from voxrtc.messages.conversation import hearings
from voxrtc.messages.engine import Extend
from voxrtc.speechlm.alignment import sources
from voxrtc.speechlm.base import Prompt, SpeechLM, Utterance

Prepared = tuple[deque[Passage], Passage, Prompt]


class Streams(Protocol):
    """What is done with prompts; on the engine's thread, like all bookkeeping here."""

    def ready(self, stream: Stream, prompt: Prompt, passage: Passage) -> None:
        """A stream's next piece can be admitted."""

    def grown(self, stream: Stream, before: Prompt, prompt: Prompt) -> None:
        """There is more of a piece that can be admitted or was."""

    def exhausted(self, stream: Stream) -> None:
        """Nothing follows of a text that came bit by bit."""

    def failed(self, stream: Stream, error: BaseException) -> None: ...


class Prompts:
    """Makes them on a thread of its own; `inbox` takes what is to happen on the engine's."""

    def __init__(
        self,
        model: SpeechLM,
        streams: Streams,
        executor: Callable[[str], Executor],
        inbox: Callable[[Callable[[], None]], None],
    ) -> None:
        self._model, self._streams, self._inbox = model, streams, inbox
        self.executor = executor("prompts")
        self._imitations = Imitations(model, executor("imitations"))
        self.hearings = Hearings(model, executor("hearings"), inbox)

    def stop(self) -> None:
        self.executor.shutdown(cancel_futures=True)
        self._imitations.stop()
        self.hearings.stop()

    def begin(self, stream: Stream) -> None:
        """Have a new stream's first piece made ready."""
        if stream.request.reference:
            stream.preparing = True  # what comes of the text meanwhile waits for the voice
            made = lambda done: self._inbox(partial(self._imitated, stream, done))  # noqa: E731
            self._imitations.make(stream.request.reference, made)
        else:
            self._first(stream)

    def next(self, stream: Stream) -> None:
        """Have the next piece made ready, if there is one and the piece before it has been admitted."""
        if stream.running:
            self._read_on(stream, stream.running)
        elif stream.pieces is None or stream.pieces:
            self._prepare(stream)

    def extend(self, stream: Stream, more: Extend) -> None:
        """More of a text has come. What comes after its end is ignored."""
        if stream.running and not stream.running.final:
            stream.running.add(more.text, more.final)
            self._read_on(stream, stream.running)

    def forget(self, digest: str) -> None:
        """Drop what was made of a recording, by its `Reference.digest`."""
        self._imitations.forget(digest)

    def _imitated(self, stream: Stream, done: Future[Any]) -> None:
        if self._came(stream, done):
            stream.imitation = done.result()
            self._first(stream)

    def _first(self, stream: Stream) -> None:
        if self._model.hears:
            self.hearings.when_over(hearings(stream.request.conversation), partial(self._answer, stream))
        else:
            self.next(stream)

    def _came(self, stream: Stream, done: Future[Any]) -> bool:
        """A stream's job is done: whether its result is there and wanted."""
        if stream.over:
            return False
        stream.preparing = False
        if error := done.exception():
            self._streams.failed(stream, error)
        return error is None

    # --- a conversation ---

    def _answer(self, stream: Stream) -> None:
        """All its sounds are heard, or will not be."""
        if stream.over:
            return
        stream.preparing, stream.pieces = True, deque()
        sounds = self.hearings.sounds(hearings(stream.request.conversation))
        job = self.executor.submit(converse, self._model, stream.request, sounds, stream.imitation)
        job.add_done_callback(lambda done: self._inbox(partial(self._conversed, stream, done)))

    def _conversed(self, stream: Stream, done: Future[Prompt]) -> None:
        if self._came(stream, done):
            self._streams.ready(stream, done.result(), Passage("", "", 0))

    # --- a text that is all there ---

    def _prepare(self, stream: Stream) -> None:
        model, request = self._model, stream.request
        rest, imitation = None if stream.pieces is None else deque(stream.pieces), stream.imitation
        before = tuple(stream.spoken)

        def make() -> Prepared:
            passages = _passages(model, request.text) if rest is None else rest
            passage = passages.popleft()
            utterance = Utterance(passage.text, request.voice, imitation, before, passage.source, request.instructions)
            return passages, passage, replace(model.preprocess(utterance), characters=len(passage.source))

        stream.preparing = True
        job = self.executor.submit(make)
        job.add_done_callback(lambda done: self._inbox(partial(self._prepared, stream, done)))

    def _prepared(self, stream: Stream, done: Future[Prepared]) -> None:
        if self._came(stream, done):
            stream.pieces, passage, prompt = done.result()
            self._streams.ready(stream, prompt, passage)

    # --- a text that comes bit by bit ---

    def _read_on(self, stream: Stream, running: Running) -> None:
        """Have what came meanwhile read. A further piece waits until the one before it has been admitted."""
        if stream.preparing or not running.news or (running.prompt is None and stream.prepared):
            return
        stream.preparing = True
        utterance = Utterance(running.read(), stream.request.voice, stream.imitation)
        final = running.final  # more may come meanwhile
        job = self.executor.submit(self._model.extend, running.prompt, utterance, final)
        job.add_done_callback(lambda done: self._inbox(partial(self._extended, stream, running, final, done)))

    def _extended(self, stream: Stream, running: Running, final: bool, done: Future[Prompt | None]) -> None:
        if not self._came(stream, done):
            return
        before, prompt = running.prompt, done.result()
        if prompt is None:
            running.exhausted = final
            if final:
                self._streams.exhausted(stream)
        elif before is None:
            self._streams.ready(stream, prompt, Passage("", "", running.taken))
        else:
            self._streams.grown(stream, before, prompt)
        running.take(prompt)
        self._read_on(stream, running)


def _passages(model: SpeechLM, text: str) -> deque[Passage]:
    """What the text's prompts are made of. Raises `InvalidRequest`."""
    written = sources(text, pieces := model.split(text))
    return deque(map(Passage, pieces, written, accumulate(map(len, written), initial=0)))
