"""The detokenizer's thread: pending frames of several streams become samples, beside the steps."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial

from torch import Tensor

from voxrtc.engine.sound_stage import Chunk
from voxrtc.engine.stream import Piece, State, Stream
from voxrtc.engine.worker import Worker
from voxrtc.messages import engine as messages
from voxrtc.speechlm.base import pcm16

Owner = tuple[Stream, Piece, bool]  # and whether its frames were the piece's last
Sounded = Callable[[Stream, Piece, Tensor | Exception, bool], None]


class Sounding:
    """One call at a time. What came of it is told on the engine's thread, to which `inbox` brings it."""

    def __init__(
        self,
        worker: Worker,
        executor: Executor,
        inbox: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
        observe: Callable[[float, int, int], None],
        sounded: Sounded,
    ) -> None:
        """`observe` learns a call's seconds, streams and frames; `sounded` gets each stream's samples or why there are none."""
        self.busy = False
        self._worker, self._executor, self._inbox, self._clock = worker, executor, inbox, clock
        self._observe, self._sounded = observe, sounded

    def stop(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        self._worker.sound.stop()

    def end(self, piece: Piece) -> None:
        """Nothing more is to come of it: after the call that is under way."""
        self._executor.submit(self._worker.sound.end, piece.detokenizer)

    def begin(self, parts: list[tuple[Stream, int]]) -> None:
        """Make sound of the next so many frames of each stream. Those that make none are left out."""
        model, chunks, owners = self._worker.model, [], []
        for stream, count in parts:
            assert (piece := stream.piece) is not None
            frames = piece.take(count)
            final = piece.complete and not piece.pending
            sounding = [not model.silent(frame) for frame in frames]
            chunks.append(Chunk(frames if all(sounding) else frames[sounding], piece.detokenizer, final))
            owners.append((stream, piece, final))
        pushed = sum(count for _, count in parts) + sum(final for *_, final in owners) * model.detokenizer.lookahead
        self.busy = True
        job = self._executor.submit(self._decode, chunks, pushed)
        job.add_done_callback(lambda done: self._inbox(partial(self._decoded, owners, done)))

    def _decode(self, chunks: list[Chunk], pushed: int) -> list[Tensor | Exception]:
        began = self._clock()
        samples = self._worker.sound.decode(chunks)
        self._inbox(partial(self._observe, self._clock() - began, len(chunks), pushed))
        return samples

    def _decoded(self, owners: list[Owner], done: Future[list[Tensor | Exception]]) -> None:
        self.busy = False
        for (stream, piece, final), samples in zip(owners, done.result(), strict=True):
            if stream.piece is piece:  # else it was cancelled meanwhile: late sound is dropped
                self._sounded(stream, piece, samples, final)


def next_chunk(stream: Stream, piece: Piece, samples: Tensor, final: bool, rate: int, now: float) -> messages.Chunk:
    """Samples of a stream as its listener gets them, with the words in them. They count as delivered from here on."""
    index, timing = stream.chunks, None if stream.chunks else stream.timing(now)
    stream.state, stream.chunks = State.PLAYING, index + 1
    stream.delivered += len(samples) / rate
    words = piece.writing or piece.words
    spoken = words.news()
    if final:
        spoken.append(words.rest(stream.delivered))
    frames = piece.writing.frames() if piece.writing else b""
    pcm = pcm16(samples)
    return messages.Chunk(stream=stream.id, index=index, pcm=pcm, sample_rate=rate, timing=timing, spoken=spoken, frames=frames)
