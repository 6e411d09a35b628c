"""Whether what the microphone hears is our own voice, back from a loudspeaker. Pure.

Browsers cancel echo, and this does not: it keeps what they leave from counting as speech. Sound that follows ours at some
delay, band by band, is ours; a room changes levels and smears, but not that.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from voxrtc.rtc.microphone import RATE
from voxrtc.rtc.sound import RATE as PLAYED_RATE
from voxrtc.rtc.sound import Samples, power

HOP, WINDOW = RATE // 100, RATE // 50  # samples: a spectrum of 20 ms every 10 ms
COMPARED = 20  # spectra that are compared at a time: 0.2 s
DELAYS = 60  # spectra by which the echo may be late, way there and back and the browser's buffer together
ALIKE = 0.8  # correlation of what is surely an echo
LOUD, VERY_ALIKE = 6.0, 0.92  # times as loud as usual, an echo must be so much alike: where there was none, there is none
STILL_ALIKE = 0.65  # at the delay that an echo had before
NEAR = 3  # spectra by which that delay is off
LEARNED = 0.05  # of the level of the next block, towards what is usual while we speak
ENOUGH = 20  # blocks that tell what is usual
SPEECH = 0.2  # probability below which nobody cares
EDGES = np.geomspace(200, 5_000, 17)  # Hz, of the bands

assert 2 * PLAYED_RATE == 3 * RATE
# Of three samples two are made, each the mean of one and a half.
THINNING = np.array([[2, 0], [1, 1], [0, 2]], np.float32) / np.float32(3)
SPECTRA = COMPARED + DELAYS + 1  # of ours, that an echo may come from
A_FRAME = WINDOW // HOP  # spectra
PLAYED = math.ceil(SPECTRA / A_FRAME) + 1  # the frames that they are of: the first spectrum of one begins in the one before

Floats = npt.NDArray[np.float32]

_FREQUENCIES = np.fft.rfftfreq(WINDOW, 1 / RATE)
BANDS = np.array([(low <= _FREQUENCIES) & (high > _FREQUENCIES) for low, high in itertools.pairwise(EDGES)])
BANDS = BANDS[BANDS.any(axis=1)].astype(np.float32)
TAPER = np.hanning(WINDOW).astype(np.float32)


class EchoGuard:
    """Tell it what is `played` and what is `heard`, as it goes out and comes in."""

    def __init__(self) -> None:
        self._played: deque[Samples] = deque([SILENCE] * PLAYED, maxlen=PLAYED)  # the latest frames
        self._heard: Floats = np.zeros(COMPARED * HOP + WINDOW - HOP, np.float32)
        self._ours = np.tile(_spectra(np.zeros(WINDOW, np.float32)), (SPECTRA, 1))  # but those of the latest frames,
        self._fresh = 0  # so many, for which nobody has asked yet
        self._silent = PLAYED  # frames since we were last heard
        self._delay: int | None = None  # of the last sure echo
        self._usual = 0.0  # level of the microphone while we speak and nobody else does
        self._learned = 0  # blocks that this is known from
        self._level = 0.0  # of its last block

    def played(self, frame: Samples | None) -> None:
        """The next frame (`PLAYED_RATE`) that goes out; None: 20 ms of silence."""
        self._silent = self._silent + 1 if frame is None else 0
        self._played.append(SILENCE if frame is None else frame)
        self._fresh = min(self._fresh + 1, PLAYED - 1)

    def heard(self, block: Samples) -> None:
        """The next sound of the microphone, at `RATE`."""
        self._heard = _after(self._heard, block.astype(np.float32))
        self._level = math.sqrt(power(block))

    @property
    def possible(self) -> bool:
        """We were heard lately."""
        return self._silent < PLAYED

    def explains(self) -> bool:
        """Whether the last sound of the microphone is nobody's but ours: its last `COMPARED` spectra follow what was played, or
        it is an echo's tail, softer than echoes are."""
        if not self.possible:
            return False
        alike = _alike(_spectra(self._heard), self._spectra_of_ours())
        best, loud = float(alike.max()), self._learned >= ENOUGH and self._level > LOUD * self._usual
        ours = best >= (VERY_ALIKE if loud else ALIKE)
        if ours:
            self._delay = int(alike.argmax())
        elif self._delay is not None and not loud:
            ours = self._is_echo_after(self._delay, alike)
        if ours:
            self.nobody()
        return ours

    def nobody(self) -> None:
        """The last block of the microphone was no person's."""
        if self.possible:
            self._learned += 1
            self._usual += max(LEARNED, 1 / self._learned) * (self._level - self._usual)

    def _spectra_of_ours(self) -> Floats:
        """Of what was played: frames are of whole hops, so those that were made before are the same now."""
        if self._fresh:
            frames = np.concatenate([self._played[place] for place in range(-self._fresh - 1, 0)])
            sound = _thinned(frames)[-self._fresh * WINDOW - HOP :]
            self._ours = np.concatenate([self._ours, _spectra(sound)])[-SPECTRA:]
            self._fresh = 0
        return self._ours

    def _is_echo_after(self, delay: int, alike: Floats) -> bool:
        return alike[max(0, delay - NEAR) : delay + NEAR + 1].max() >= STILL_ALIKE or self._level < self._usual


SILENCE = np.zeros(PLAYED_RATE // 50, np.int16)


def guarded(detect: Callable[[Samples], float], guard: EchoGuard) -> Callable[[Samples], float]:
    """A voice detector that does not hear our own voice."""

    def others(block: Samples) -> float:
        guard.heard(block)
        probability = detect(block)
        if probability >= SPEECH:
            return 0.0 if guard.explains() else probability
        guard.nobody()
        return probability

    return others


def _after(samples: Floats, more: Floats) -> Floats:
    """The latest of both, as many as before."""
    return np.concatenate([samples, more])[-len(samples) :]


def _thinned(sound: Samples) -> Floats:
    """Played sound, of whole frames, at `RATE`."""
    return (sound.astype(np.float32).reshape(-1, 3) @ THINNING).ravel()


def _spectra(sound: Floats) -> Floats:
    """Loudness (spectra, bands) of sound that ends with the last one."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[(len(sound) - WINDOW) % HOP :: HOP]
    parts = np.fft.rfft(frames * TAPER, axis=1)
    power = np.square(parts.real) + np.square(parts.imag)
    return np.sqrt(np.sqrt(power @ BANDS.T + np.float32(1)))  # the fourth root: quiet parts count, but less


def _alike(heard: Floats, played: Floats) -> Floats:
    """Correlation of the heard spectra with those played before, by delay (spectra), each band about its mean."""
    windows = np.lib.stride_tricks.sliding_window_view(played, len(heard), axis=0)[::-1]  # (delays, bands, spectra)
    windows = windows - windows.mean(axis=2, keepdims=True)
    heard = (heard - heard.mean(axis=0)).T
    size = np.sqrt((heard**2).sum() * (windows**2).sum(axis=(1, 2)))
    return np.einsum("dbt,bt->d", windows, heard) / np.maximum(size, 1e-6)
