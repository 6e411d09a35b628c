"""Voices that listeners bring along: recordings made ready for the model, on a thread of their own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import soxr
import torch

from voxrtc.messages.engine import Reference
from voxrtc.speechlm.base import Clip, InvalidRequest, SpeechLM

KEPT, ROOM = 16, 2e9  # voices, and bytes of them: some take a few kilobytes, some hundreds of megabytes


class Imitations:
    """`SpeechLM.clone` of each recording, made once as long as it is among the latest: `KEPT`, or as many as `ROOM` is for.

    A voice is found again by the recording and its text to the last bit, so nobody speaks with another's by mistake. Making
    one takes up to seconds: hence not the thread that makes everybody's prompts.
    """

    def __init__(self, model: SpeechLM, executor: Executor) -> None:
        self._model, self._executor = model, executor
        self._made: OrderedDict[str, Any] = OrderedDict()  # by the recording's digest; only the executor's thread sees it

    def make(self, reference: Reference, then: Callable[[Future[Any]], None]) -> None:
        """`then` gets the voice or why there is none, on the thread that made it."""
        self._executor.submit(self._of, reference).add_done_callback(then)

    def forget(self, digest: str) -> None:
        """Keep nothing of a recording, also where its voice is just being made."""
        self._executor.submit(self._made.pop, digest, None)

    def _of(self, reference: Reference) -> Any:
        digest = reference.digest
        if digest not in self._made:
            self._made[digest] = self._model.clone(clip(reference, self._model.detokenizer.sample_rate))
        self._made.move_to_end(digest)
        while len(self._made) > KEPT or (len(self._made) > 1 and sum(map(self._model.size, self._made.values())) > ROOM):
            self._made.popitem(last=False)
        return self._made[digest]

    def stop(self) -> None:
        """After the one under way no more are made."""
        self._executor.shutdown(cancel_futures=True)


def clip(reference: Reference, sample_rate: int) -> Clip:
    """A recording as the model takes it. Raises `InvalidRequest`."""
    if not reference.pcm or len(reference.pcm) % 2 or not 8_000 <= reference.sample_rate <= 192_000:
        raise InvalidRequest("The recording is no PCM16 of a sample rate from 8 to 192 kHz. Please send it anew.")
    samples = np.frombuffer(reference.pcm, "<i2").astype(np.float32) / 32768
    if reference.sample_rate != sample_rate:
        samples = soxr.resample(samples, reference.sample_rate, sample_rate)
    return Clip(torch.from_numpy(samples), reference.text.strip())
