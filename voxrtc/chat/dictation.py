"""Writing down what is said in a recording, of nobody's conversation."""

from __future__ import annotations

import asyncio

from voxrtc.asr.client import Transcriber
from voxrtc.messages.media import Transcribe, Transcribed


async def write_down(transcriber: Transcriber, request: Transcribe) -> Transcribed:
    """The words of a recording, or why there are none."""
    words = _Words(request.call)
    transcriber.begin(request.call, words, request.pcm)
    transcriber.finish(request.call, len(request.pcm))
    return await words.done


class _Words:
    """Their `asr.client.Reader`."""

    def __init__(self, call: str) -> None:
        self._call = call
        self.done: asyncio.Future[Transcribed] = asyncio.get_running_loop().create_future()

    def hypothesis(self, text: str, heard: int, over: float | None) -> None: ...

    def transcript(self, text: str) -> None:
        self._tell(Transcribed(call=self._call, text=text))

    def unheard(self, code: str, message: str) -> None:
        self._tell(Transcribed(call=self._call, code=code, message=message))

    def _tell(self, words: Transcribed) -> None:
        if not self.done.done():
            self.done.set_result(words)
