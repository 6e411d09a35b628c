"""What people say to a model that hears: heard as it comes, on a thread of its own, and kept for their conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import soxr
import torch

from voxrtc.messages.conversation import Hear
from voxrtc.speechlm.base import InvalidRequest, SpeechLM

SLICE = 0.5  # seconds of sound that are heard in one go: nobody waits for more of another's
LONGEST = 75.0  # seconds of one hearing: a turn ends after 60
KEPT = 900.0  # seconds of all that is kept
RATES = (8_000, 192_000)

Then = Callable[[], None]


@dataclass
class Hearing:
    """One recording. `state` is the model's; the ear's thread alone touches it and the resampler until it is complete."""

    sample_rate: int
    resampler: soxr.ResampleStream | None
    state: Any = None
    waiting: bytearray = field(default_factory=bytearray)  # PCM that is not heard yet
    seconds: float = 0.0
    final: bool = False  # nothing more comes
    busy: bool = False
    complete: bool = False
    failure: BaseException | None = None
    then: list[Then] = field(default_factory=list)  # who waits for it

    @property
    def over(self) -> bool:
        """There is nothing to wait for."""
        return self.complete or self.failure is not None

    def take(self) -> tuple[np.ndarray, bool]:
        """The next sound to hear, float [n], and whether it is the last."""
        most = 2 * round(SLICE * self.sample_rate)
        part, self.waiting = bytes(self.waiting[:most]), self.waiting[most:]
        return np.frombuffer(part, "<i2").astype(np.float32) / 32768, self.final and not self.waiting


class Hearings:
    """By their ids. All but the hearing itself happens on the engine's thread; `inbox` brings it there.

    Each has at most `SLICE` heard before another has its turn. Beyond `KEPT` seconds the oldest that are complete are
    forgotten; of those their conversations have the words.
    """

    def __init__(self, model: SpeechLM, executor: Executor, inbox: Callable[[Then], None]) -> None:
        self._model, self._executor, self._inbox = model, executor, inbox
        self._of: dict[str, Hearing] = {}

    def __len__(self) -> int:
        return len(self._of)

    def stop(self) -> None:
        """After what is being heard nothing is."""
        self._executor.shutdown(cancel_futures=True)

    def hear(self, sound: Hear) -> None:
        """More of a recording. What cannot be heard is remembered, to be told to who needs it."""
        if sound.first and sound.hearing not in self._of and self._model.hears:
            self._of[sound.hearing] = self._begin(sound.sample_rate)
        hearing = self._of.get(sound.hearing)
        if hearing is None or hearing.final or hearing.over:
            return
        hearing.waiting += sound.pcm
        hearing.seconds += len(sound.pcm) / 2 / max(1, hearing.sample_rate)
        hearing.final = sound.final
        if len(sound.pcm) % 2 or sound.sample_rate != hearing.sample_rate or not RATES[0] <= sound.sample_rate <= RATES[1]:
            self._failed(hearing, InvalidRequest("What was said is no PCM16 of a sample rate from 8 to 192 kHz."))
        elif hearing.seconds > LONGEST:
            self._failed(hearing, InvalidRequest(f"This is longer than {LONGEST:.0f} s. Please say less at a time."))
        else:
            self._go_on(hearing)
            self._make_room()

    def forget(self, id: str) -> None:
        """Nobody needs it any more; who waits for it goes on without."""
        if hearing := self._of.pop(id, None):
            hearing.failure = InvalidRequest("What was said was forgotten before it was answered. Please say it again.")
            self._over(hearing)

    def when_over(self, ids: Iterable[str], then: Then) -> None:
        """Call `then` when none of these is being heard any more: perhaps now."""
        for id in ids:
            if (hearing := self._of.get(id)) and not hearing.over:
                hearing.then.append(partial(self.when_over, list(ids), then))
                return
        then()

    def sounds(self, ids: Iterable[str]) -> dict[str, Any]:
        """What the model made of each that is kept; an exception where it could not hear."""
        return {id: hearing.failure or hearing.state for id in ids if (hearing := self._of.get(id))}

    def _begin(self, rate: int) -> Hearing:
        wanted = self._model.hearing_rate
        good = RATES[0] <= rate <= RATES[1] and rate != wanted
        return Hearing(rate, soxr.ResampleStream(rate, wanted, 1, dtype="float32") if good else None)

    def _go_on(self, hearing: Hearing) -> None:
        """Have its next slice heard, behind those of others that wait already."""
        if hearing.busy or hearing.over or not (hearing.waiting or hearing.final):
            return
        hearing.busy = True
        samples, last = hearing.take()
        job = self._executor.submit(self._hear, hearing, samples, last)
        job.add_done_callback(lambda done: self._inbox(partial(self._heard, hearing, last, done)))

    def _hear(self, hearing: Hearing, samples: np.ndarray, last: bool) -> None:
        if hearing.failure:
            return  # it came meanwhile
        if hearing.resampler:
            samples = hearing.resampler.resample_chunk(samples, last=last)
        with torch.inference_mode():
            if hearing.state is None:
                hearing.state = self._model.listen()
            self._model.hear(hearing.state, torch.from_numpy(samples), last)

    def _heard(self, hearing: Hearing, last: bool, done: Future[None]) -> None:
        hearing.busy = False
        if error := done.exception():
            self._failed(hearing, error)
        elif last and not hearing.failure:
            hearing.complete = True
            self._over(hearing)
        self._go_on(hearing)

    def _failed(self, hearing: Hearing, error: BaseException) -> None:
        hearing.failure = hearing.failure or error
        self._over(hearing)

    def _over(self, hearing: Hearing) -> None:
        hearing.waiting.clear()
        then, hearing.then = hearing.then, []
        for each in then:
            each()

    def _make_room(self) -> None:
        excess = sum(hearing.seconds for hearing in self._of.values()) - KEPT
        for id, hearing in list(self._of.items()):
            if excess <= 0:
                return
            if hearing.over:
                excess -= hearing.seconds
                del self._of[id]
