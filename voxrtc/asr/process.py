"""The speech-to-text process: `python -m voxrtc.asr.process --listen ipc://…`. It ends with the process that started it.

It serves `HearingRequest`s. One thread transcribes; the loop only takes sound in and hands words out.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from voxrtc import logs
from voxrtc.asr.queue import Full, HearingQueue, Utterance
from voxrtc.engine.transport import Listener
from voxrtc.lifeline import die_with_parent
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
from voxrtc.niceness import give_way
from voxrtc.settings import Settings

BUSY = "Too many people speak at once. Please say it again in a moment."
FAILED = "This could not be transcribed; the server's log says why."

log = logging.getLogger(__name__)

Transcribe = Callable[[bytes], str]  # PCM16 of 16 kHz to words; may take long, and may raise
Judge = Callable[[bytes, str], float]  # the same with its words, to how probably the speaker has finished


class HearingServer:
    """Takes sound in and gives words out, to all clients of one socket."""

    def __init__(self, transcribe: Transcribe, judge: Judge, send: Callable[[bytes, HearingReply], None]) -> None:
        self._transcribe, self._judge, self._send = transcribe, judge, send
        self._queue = HearingQueue()
        self._news = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcribe")

    def take(self, client: bytes, request: HearingRequest) -> None:
        """A request of a client."""
        key, now = (client, request.utterance), time.monotonic()
        match request:
            case Hear(pcm=pcm, first=first):
                try:
                    if first:
                        self._queue.begin(key, now)
                    self._queue.hear(key, pcm, now)
                except Full:
                    self._fail(client, request.utterance, "busy", BUSY)
            case Look():
                self._queue.want(key)
            case Finish(speech=speech):
                if (text := self._queue.finish(key, speech)) is not None:
                    self._send(client, Transcript(utterance=request.utterance, text=text))
            case Forget():
                self._queue.forget(key)
        self._news.set()

    async def run(self) -> None:
        """Transcribe what comes, until cancelled."""
        while True:
            self._news.clear()
            utterance = self._queue.next(time.monotonic())
            if utterance:
                await self._look(utterance)
                continue
            try:
                await asyncio.wait_for(self._news.wait(), self._queue.wait(time.monotonic()))
            except TimeoutError:
                pass

    async def _look(self, utterance: Utterance) -> None:
        client, name = utterance.key
        pcm, finished, started = bytes(utterance.pcm), utterance.finished, time.monotonic()
        wanted, utterance.wanted = utterance.wanted and not finished, False
        try:
            read = partial(self._read, pcm, utterance.settled, wanted)
            text, over = await asyncio.get_running_loop().run_in_executor(self._thread, read)
        except Exception:
            log.exception("an utterance could not be transcribed")
            self._queue.forget(utterance.key)
            return self._fail(client, name, "transcription_failed", FAILED)
        if finished or (utterance.finished and len(pcm) >= utterance.speech):  # the latter only since
            self._queue.forget(utterance.key)
            return self._send(client, Transcript(utterance=name, text=text))
        now = time.monotonic()
        self._queue.looked(utterance, len(pcm), text, now - started, now, paused=wanted)
        if not utterance.finished:
            self._send(client, Hypothesis(utterance=name, text=text, heard=len(pcm), over=over))

    def _read(self, pcm: bytes, settled: tuple[str, int], wanted: bool) -> tuple[str, float | None]:
        before, begin = settled
        text = f"{before} {self._transcribe(pcm[begin:])}".strip()
        return text, self._judge(pcm, text) if wanted else None

    def _fail(self, client: bytes, utterance: str, code: str, message: str) -> None:
        self._send(client, NotTranscribed(utterance=utterance, code=code, message=message))


async def serve(transcribe: Transcribe, judge: Judge, address: str) -> None:
    """Serve on a ZeroMQ address until cancelled."""
    listener = Listener(address, HearingRequest)
    server = HearingServer(transcribe, judge, listener.send)
    running = asyncio.ensure_future(server.run())
    try:
        await listener.serve(server.take)
    finally:
        running.cancel()


def model(settings: Settings) -> Transcribe:
    """The model that the settings name. One that cannot be loaded says so again whenever it is asked."""
    if settings.hearing == "moonshine":
        from voxrtc.asr.moonshine import Moonshine

        return Moonshine()
    from voxrtc.asr.whisper import Whisper

    try:
        return Whisper(settings.whisper_model)
    except Exception as wrong:
        log.exception("Whisper could not be loaded")
        reason = f"Whisper ({settings.whisper_model}) could not be loaded: {wrong}"

    def unloaded(pcm: bytes) -> str:
        raise RuntimeError(reason)

    return unloaded


def main() -> None:
    """Read the address, load the model, and serve."""
    parser = argparse.ArgumentParser(description="The speech-to-text process; settings come from the environment.")
    parser.add_argument("--listen", required=True, help="ZeroMQ address to serve on")
    arguments = parser.parse_args()
    settings = Settings()
    logs.configure("speech-to-text", settings)
    die_with_parent()
    give_way(5)  # as the engines: words can wait a moment, a packet of the media process cannot
    from voxrtc.asr.turn_end import TurnEnd

    asyncio.run(serve(model(settings), TurnEnd.load(), arguments.listen))


if __name__ == "__main__":
    main()
